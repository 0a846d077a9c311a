# SPDX-License-Identifier: Apache-2.0
"""Episodes of data sets from recordings: joint states, commands and color images at a rate."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.extras.formats.lerobot_dataset import CameraFrames, DatasetEpisode, png
from motion_nodes.ros.joint_topics import stamp_ns
from motion_nodes.ros.messages.camera_messages import color_of
from motion_nodes.ros.recording import IMAGE, read_mcap
from motion_nodes.settings import check_settings, setting
from motion_nodes.typing import Array

STATES, COMMANDS = "joint_states", "joint_command"
MAX_GAP = 1.0
"""Max time without messages of a topic within an episode, and max step of a clock back [s]."""
CAMERA_ENDS = ("/color/image_raw", "/image_raw", "/image")
"""Ends of topics of images, which are not part of a camera's name."""
SECOND, MAX_TIME = 10**9, 2**62
"""[ns]"""


@dataclass(frozen=True)
class DatasetTopics:
    """What of a recording becomes an episode, and at which rate."""

    fps: int = setting(30, doc="Rate of the frames.", unit="Hz", ge=1, le=240)
    topics: Sequence[str] = ("*",)
    """Topics that are read, ``*`` matches anything."""
    action: str = ""
    """Topic of the commands (JointState); empty: ``joint_command`` beside the joint states."""

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass
class _Series:
    """Values of a topic with two times each [ns]."""

    stamps: list[int] = field(default_factory=list)
    arrivals: list[int] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)


def recorded_episode(path: Path, task: str, topics: DatasetTopics) -> DatasetEpisode:
    """Return a recording as an episode.

    State and images of a frame are the newest ones at its time; the action is the command in force
    at its end, one period later. Times are the stamps of the messages, or, if one has none, those
    of arrival. Columns are ``JOINT.pos`` [rad or m], in the action also ``JOINT.vel`` of joints of
    which the velocity alone is commanded.

    Args:
        path: MCAP file.
        task: the task as a sentence.
        topics: what is read.

    Raises:
        InvalidConfig: the file cannot be read, a topic is missing or ambiguous, or they have no
            common time without gaps.
    """
    joints, cameras, robot = _read(path, topics)
    observed = [topic for topic in joints if topic != topics.action]
    state = _only(path, observed, STATES, "joint states", "--topic")
    beside = state.removesuffix(STATES) + COMMANDS
    wanted = topics.action or (beside if beside in joints else "")
    commands = [topic for topic in joints if topic != state and wanted in ("", topic)]
    action = _only(path, commands, COMMANDS, "commands", "--action")
    times = _times(path, {state: joints[state], action: joints[action], **cameras})
    tables = {
        "observation.state": (state, _columns(joints[state].values, velocities=False)),
        "action": (action, _columns(joints[action].values, velocities=True)),
    }
    begins = [times[topic][0] for topic in cameras]
    for key, (topic, table) in tables.items():
        if not table:
            raise InvalidConfig(f"{path}: {topic} has no values for {key}")
        first = max(int(np.isfinite(column).argmax()) for column in table.values())
        begins.append(times[topic][first])
    begin, end = max(begins), min(stamps[-1] for stamps in times.values())
    count = int((end - begin) * topics.fps // SECOND)
    if count < 2:
        raise InvalidConfig(f"{path}: {', '.join(times)} have less than two frames in common")
    for topic, stamps in times.items():
        inside = stamps[np.searchsorted(stamps, begin, "right") - 1 :]
        gaps = np.diff(inside[inside <= end], append=end)
        if gaps.max() > MAX_GAP * SECOND:
            at = (inside[gaps.argmax()] - begin) / SECOND
            raise InvalidConfig(f"{path}: {topic} is silent for over {MAX_GAP:g} s from {at:.1f} s")
    ticks = begin + np.arange(count + 1) * SECOND // topics.fps
    vectors = {}
    for key, (topic, table) in tables.items():
        at = _newest(times[topic], ticks[1:] if key == "action" else ticks[:-1])
        vectors[key] = {name: column[at] for name, column in table.items()}
    pictures = [
        _frames(path, topic, series.values, _newest(times[topic], ticks[:-1]))
        for topic, series in cameras.items()
    ]
    return DatasetEpisode(
        task, vectors, dict(zip(_names(list(cameras)), pictures, strict=True)), robot
    )


def _read(path: Path, topics: DatasetTopics) -> tuple[dict[str, _Series], dict[str, _Series], str]:
    """Return JointStates, and color images as shape and PNG, by topic, and the robot's name."""
    joints: dict[str, _Series] = {}
    cameras: dict[str, _Series] = {}
    robot = ""
    for received in read_mcap(path, [*topics.topics, *([topics.action] if topics.action else [])]):
        if received.kind == "std_msgs/msg/String" and received.topic.endswith("robot_description"):
            name = re.search(r"<robot\b[^>]*\bname\s*=\s*[\"']([^\"']*)", received.message().data)
            robot = robot or (name[1] if name else "")
        if received.kind == "sensor_msgs/msg/JointState":
            found, message = joints, received.message()
            value: Any = (tuple(message.name), message.position, message.velocity)
        elif received.kind == IMAGE:
            found, message = cameras, received.message()
            try:
                image = color_of(message)
            except InvalidCommand:
                continue  # of depth, or damaged
            value = (image.shape, png(image))
        else:
            continue
        series = found.setdefault(received.topic, _Series())
        series.stamps.append(stamp_ns(message))
        series.arrivals.append(received.arrived)
        series.values.append(value)
    return joints, cameras, robot


def _only(path: Path, found: Sequence[str], ending: str, what: str, option: str) -> str:
    """Return the only topic with an ending, or the only one."""
    named = [topic for topic in found if topic.rsplit("/", 1)[-1] == ending] or found
    if len(named) != 1:
        raise InvalidConfig(
            f"{path} has {len(named)} topics of {what} (JointState); choose one by {option}: "
            f"{', '.join(named) or 'there are none'}"
        )
    return named[0]


def _times(path: Path, used: Mapping[str, _Series]) -> dict[str, NDArray[np.int64]]:
    """Return the times of topics on one clock [ns]; their series are sorted by them."""
    stamped = all(all(series.stamps) for series in used.values())
    found = {}
    for topic, series in used.items():
        own = series.stamps if stamped else series.arrivals
        if max(own) >= MAX_TIME:
            raise InvalidConfig(f"{path}: the times of {topic} are out of range")
        times = np.array(own, np.int64)
        if (np.maximum.accumulate(times) - times).max() > MAX_GAP * SECOND:
            raise InvalidConfig(f"{path}: the clock of {topic} was set back")
        order = np.argsort(times, kind="stable")  # several publishers share a topic
        series.values = [series.values[k] for k in order]
        found[topic] = times[order]
    return found


def _columns(messages: Sequence[Any], velocities: bool) -> dict[str, Array]:
    """Return the values of each joint over all messages, NaN before its first one."""
    columns: dict[str, Array] = {}
    for row, (names, *channels) in enumerate(messages):
        for suffix, values in zip((".pos", ".vel")[: 1 + velocities], channels, strict=False):
            if len(values) != len(names):
                continue
            for name, value in zip(names, values, strict=True):
                if np.isfinite(value):
                    key = name + suffix
                    if key not in columns:
                        columns[key] = np.full(len(messages), np.nan)
                    columns[key][row] = value
    for key, column in columns.items():
        last = np.maximum.accumulate(np.where(np.isfinite(column), np.arange(len(column)), 0))
        columns[key] = column[last]
    positions = {key.removesuffix(".pos") + ".vel" for key in columns if key.endswith(".pos")}
    return {key: column for key, column in columns.items() if key not in positions}


def _newest(times: NDArray[np.int64], ticks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the index of the newest message at each tick."""
    return np.searchsorted(times, ticks, side="right") - 1


def _frames(
    path: Path, topic: str, images: Sequence[Any], index: NDArray[np.int64]
) -> CameraFrames:
    """Return the images of a camera that are used."""
    shapes = {shape for shape, _ in images}
    if len(shapes) > 1:
        raise InvalidConfig(f"{path}: {topic} has images of several sizes: {sorted(shapes)}")
    used, place = np.unique(index, return_inverse=True)
    return CameraFrames(shapes.pop(), [images[k][1] for k in used], place)


def _names(topics: Sequence[str]) -> list[str]:
    """Return unique names of cameras, without slashes and usual endings."""
    names = []
    for topic in topics:
        ending = next((end for end in CAMERA_ENDS if topic.endswith(end)), "")
        names.append(topic.removesuffix(ending).strip("/").replace("/", "_") or "camera")
    full = [topic.strip("/").replace("/", "_") for topic in topics]
    return names if len(set(names)) == len(names) else full
