# SPDX-License-Identifier: Apache-2.0
"""A recording for the page: joint states and odometry of its robots by their topics, images."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.robot.robot import Robot
from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.viewer.recording_panel import RecordedImages, RecordedMotion
from motion_nodes.ros.messages.camera_messages import pixels_of
from motion_nodes.ros.messages.rotations import matrix_of
from motion_nodes.ros.recording import Received, read_mcap
from motion_nodes.typing import Array

IMAGE = "sensor_msgs/msg/Image"
MAX_IMAGE_BYTES = 500_000_000
"""Max size of the images that are kept; what follows is not shown."""
STATE, ODOMETRY = "sensor_msgs/msg/JointState", "nav_msgs/msg/Odometry"
MAX_ROWS = 500_000
"""Max number of messages of a topic; what follows is not shown."""


@dataclass(frozen=True, eq=False)
class RecordedRobot:
    """What a robot of the page is called in recordings."""

    robot: Robot
    states: str
    """Topic of its joint states."""
    odometry: str
    """Topic of its odometry; empty: it has none."""
    X_WO: Array
    """Pose of the frame of the odometry in the world, shape (4, 4)."""


@dataclass
class _Topic:
    """Messages of one topic."""

    times: list[int] = field(default_factory=list)
    messages: list[Any] = field(default_factory=list)


def recorded_motions(
    content: bytes, robots: Mapping[str, RecordedRobot]
) -> dict[str, RecordedMotion]:
    """Return the motions of robots in an MCAP file.

    A robot whose topic is missing takes the first other one with its joints, so that a recording of
    another namespace is shown, too.

    Args:
        content: of the file.
        robots: by name.

    Raises:
        InvalidConfig: the file cannot be read, or holds no motion of these robots.
        InvalidCommand: positions or times that cannot be shown.
    """
    with _messages(content) as messages:
        states, odometry, begin = _topics(messages)
    motions = {}
    taken = {each.states for each in robots.values()}
    for name, each in robots.items():
        own = states.get(each.states) or next(
            (t for topic, t in states.items() if topic not in taken and _has_joints(t, each)), None
        )
        base = odometry.get(each.odometry)
        if base is None and each.odometry and len(odometry) == 1 and len(robots) == 1:
            base = next(iter(odometry.values()))
        if own is None and base is None:
            continue
        motions[name] = _motion(each, own or _Topic(), base or _Topic(), begin)
    if not motions:
        topics = ", ".join([*states, *odometry]) or "none"
        raise InvalidConfig(
            f"it holds no joint states or odometry of {', '.join(robots)} (topics: {topics})"
        )
    return motions


def recorded_images(content: bytes) -> dict[str, RecordedImages]:
    """Return the images in an MCAP file, by topic.

    Args:
        content: of the file.

    Raises:
        InvalidConfig: the file cannot be read.
    """
    found: dict[str, list[Received]] = {}
    begin, size = None, 0
    with _messages(content) as messages:
        for received in messages:
            begin = received.arrived if begin is None else begin
            if received.kind == IMAGE and size + len(received.data) <= MAX_IMAGE_BYTES:
                size += len(received.data)
                found.setdefault(received.topic, []).append(received)
    images = {}
    for topic, each in found.items():
        times = np.maximum.accumulate([received.arrived for received in each]).tolist()
        images[topic] = RecordedImages(_seconds(times, begin or 0), partial(_pixels, each))
    return images


def _pixels(messages: Sequence[Received], k: int) -> NDArray[np.uint8]:
    return pixels_of(messages[k].message())


@contextlib.contextmanager
def _messages(content: bytes) -> Iterator[Iterator[Received]]:
    """Yield the messages of a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recording.mcap"
        path.write_bytes(content)
        try:
            yield read_mcap(path)
        except InvalidConfig as error:
            raise InvalidConfig(str(error).replace(f"{path} ", "the file ")) from None


def _topics(messages: Iterable[Received]) -> tuple[dict[str, _Topic], dict[str, _Topic], int]:
    """Return joint states and odometry by topic, and the time of the first message [ns]."""
    states: dict[str, _Topic] = {}
    odometry: dict[str, _Topic] = {}
    begin = None
    for received in messages:
        begin = received.arrived if begin is None else begin
        kinds = {STATE: states, ODOMETRY: odometry}.get(received.kind)
        if kinds is None:
            continue
        topic = kinds.setdefault(received.topic, _Topic())
        if len(topic.times) < MAX_ROWS and (message := _message(received)) is not None:
            topic.times.append(max(received.arrived, topic.times[-1] if topic.times else 0))
            topic.messages.append(message)
    return states, odometry, begin or 0


def _message(received: Received) -> Any:
    try:
        return received.message()
    except Exception:  # of the deserialization, for damaged bytes
        return None


def _has_joints(topic: _Topic, each: RecordedRobot) -> bool:
    return any({*message.name} & {*each.robot.joint_names} for message in topic.messages[:10])


def _motion(each: RecordedRobot, states: _Topic, odometry: _Topic, begin: int) -> RecordedMotion:
    index = {name: i for i, name in enumerate(each.robot.joint_names)}
    row, rows = each.robot.home.copy(), []
    for message in states.messages:
        for joint, value in zip(message.name, message.position, strict=False):
            if joint in index and np.isfinite(value):
                row[index[joint]] = value
        rows.append(row.copy())
    poses, times = [], []
    for stamp, message in zip(odometry.times, odometry.messages, strict=True):
        p, r = message.pose.pose.position, message.pose.pose.orientation
        try:
            X_OB = matrix_of((p.x, p.y, p.z), (r.x, r.y, r.z, r.w))
        except ValueError:
            continue
        poses.append(each.X_WO @ X_OB)
        times.append(stamp)
    return RecordedMotion(
        _seconds(states.times, begin), np.array(rows).reshape(-1, len(index)),
        _seconds(times, begin), np.array(poses).reshape(-1, 4, 4),
    )  # fmt: skip


def _seconds(times: list[int], begin: int) -> Array:
    return np.asarray(1e-9 * (np.array(times, np.int64) - begin), np.float64)
