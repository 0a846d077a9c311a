# SPDX-License-Identifier: Apache-2.0
"""Recording of topics, selected by message type or name, to MCAP, JSON lines or CSV.

Messages of any type are converted to plain data, or to named numbers.
"""

from __future__ import annotations

import array
import bisect
import csv
import fnmatch
import importlib
import json
import math
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import IO, Any

import numpy as np
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from rclpy.time import Time

from motion_nodes import __version__
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.errors import InvalidConfig
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.environment import share_folders

TYPES = (
    *("sensor_msgs/msg/JointState", "nav_msgs/msg/Odometry", "nav_msgs/msg/Path"),
    *("geometry_msgs/msg/Twist", "geometry_msgs/msg/TwistStamped"),
    *("geometry_msgs/msg/PoseStamped", "ackermann_msgs/msg/AckermannDriveStamped"),
    *("trajectory_msgs/msg/JointTrajectory", "std_msgs/msg/Float64MultiArray"),
    *("control_msgs/msg/JointTrajectoryControllerState", "moveit_msgs/msg/DisplayTrajectory"),
)
"""Types recorded by default: joints, commands, odometry and plans."""
IMAGE = "sensor_msgs/msg/Image"
COMPANIONS = ("/tf", "/tf_static", "*/robot_description")
"""Topics recorded by default in MCAP, too: what Foxglove and RViz need."""


@dataclass(frozen=True)
class Received:
    """A message as it was received."""

    topic: str
    kind: str
    """Type, such as ``sensor_msgs/msg/JointState``."""
    data: bytes
    """Serialized (CDR)."""
    arrived: int
    """Time of arrival by the system's clock [ns]."""
    sent: int
    """Time at which it was published [ns]; that of arrival if unknown."""
    latched: bool = False
    """Whether late subscribers receive it."""
    reliable: bool = True
    """Whether all its publishers repeat what was lost."""

    def message(self) -> Any:
        """Return the message.

        Raises:
            InvalidConfig: its type is not installed, or the data are not of this type.
        """
        try:
            return deserialize_message(self.data, message_type(self.kind))
        except (ImportError, AttributeError, ValueError):
            raise InvalidConfig(f"the message type {self.kind} is not installed") from None
        except Exception:  # of the serializer, for damaged bytes
            raise InvalidConfig(f"a message of {self.topic} is not a {self.kind}") from None


def plain_message(message: Any) -> Any:
    """Return a message as dictionaries, lists, strings and numbers; non-finite numbers as None.

    Args:
        message: a message of any type, or the value of a field.
    """
    if hasattr(message, "get_fields_and_field_types"):
        fields = message.get_fields_and_field_types()
        return {name: plain_message(getattr(message, name)) for name in fields}
    if isinstance(message, np.ndarray | np.generic | array.array):
        message = message.tolist()
    if isinstance(message, float):
        return message if math.isfinite(message) else None
    if isinstance(message, bytes):
        return list(message)
    if isinstance(message, list | tuple):
        return [plain_message(item) for item in message]
    return message


def numbers_of(data: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Yield each number in plain data with its name.

    If a message has a list of names and lists of the same length, as a JointState, numbers are
    named by joint: ``elbow.position``. Booleans are 0 and 1.

    Args:
        data: plain data, from :func:`plain_message`.
        path: path of the data in the message.
    """
    if isinstance(data, dict):
        names = _names(data)
        for key, value in data.items():
            inner = f"{path}.{key}" if path else key
            if names and isinstance(value, list) and len(value) == len(names):
                for name, item in zip(names, value, strict=True):
                    yield from numbers_of(item, f"{path}.{name}.{key}" if path else f"{name}.{key}")
            else:
                yield from numbers_of(value, inner)
    elif isinstance(data, list):
        for index, item in enumerate(data):
            yield from numbers_of(item, f"{path}[{index}]")
    elif isinstance(data, int | float):
        yield path, float(data)


def _names(data: dict[str, Any]) -> list[str]:
    """Return the list of names in a dictionary, empty if there is none."""
    for key in ("name", "joint_names"):
        names = data.get(key)
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            return names
    return []


class RecordingFile:
    """A recording: JSON lines, or a table of all numbers.

    ``.jsonl``: ``{"time": ..., "topic": ..., "type": ..., "message": {...}}`` on each line.
    ``.csv``: columns time, topic, name, value; a row for each number.
    """

    SUFFIXES = (".mcap", ".jsonl", ".csv")

    def __init__(self, path: Path) -> None:
        """Create the file.

        Args:
            path: a new file with one of :attr:`SUFFIXES`.

        Raises:
            InvalidConfig: an unknown suffix, or the file exists or cannot be written.
        """
        if path.suffix not in self.SUFFIXES:
            raise InvalidConfig(f"{path}: the name must end in {' or '.join(self.SUFFIXES)}.")
        self._file: IO[str] = created(path, "x", encoding="utf-8", newline="")
        self._table = csv.writer(self._file) if path.suffix == ".csv" else None
        if self._table is not None:
            self._table.writerow(["time", "topic", "name", "value"])

    def write(self, received: Received) -> None:
        """Append a message."""
        stamp, message = received.arrived * 1e-9, plain_message(received.message())
        if self._table is None:
            line = {"time": stamp, "topic": received.topic, "type": received.kind}
            self._file.write(json.dumps({**line, "message": message}) + "\n")
            return
        self._table.writerows([stamp, received.topic, name, x] for name, x in numbers_of(message))

    def close(self) -> None:
        """Flush and close the file."""
        self._file.close()


class McapFile:
    """A recording of messages as they are received, with their definitions (MCAP, profile ros2).

    Source: https://mcap.dev/spec and its registry of profiles.
    """

    SUFFIX = ".mcap"

    def __init__(self, path: Path) -> None:
        """Create the file.

        Raises:
            InvalidConfig: the library is not installed, or the file exists or cannot be written.
        """
        try:
            from mcap.writer import Writer
        except ImportError:
            raise InvalidConfig("mcap is not installed; run: pip install mcap") from None
        self._file = created(path, "xb")
        self._writer = Writer(self._file)
        self._writer.start(profile="ros2", library=f"motion_nodes {__version__}")
        self._schemas: dict[str, int] = {}
        self._channels: dict[tuple[str, str], tuple[int, int]] = {}
        """Number and count of messages of the channel of each topic and type."""

    def write(self, received: Received) -> None:
        """Append a message.

        Raises:
            InvalidConfig: the definition of its type is not installed.
        """
        topic, kind = received.topic, received.kind
        if (topic, kind) not in self._channels:
            if kind not in self._schemas:
                text = definition_of(kind).encode()
                self._schemas[kind] = self._writer.register_schema(kind, "ros2msg", text)
            offered = {QOS_KEY: _offered(received)}
            self._channels[topic, kind] = (
                self._writer.register_channel(topic, "cdr", self._schemas[kind], offered), 0,
            )  # fmt: skip
        channel, count = self._channels[topic, kind]
        self._channels[topic, kind] = (channel, count + 1)
        self._writer.add_message(
            channel, received.arrived, received.data, received.sent, count % 2**32
        )

    def close(self) -> None:
        """Write the index and close the file."""
        self._writer.finish()
        self._file.close()


QOS_KEY = "offered_qos_profiles"
"""Metadata of a channel in which ``ros2 bag`` writes the QoS of publishers, as a list in YAML."""


def _offered(received: Received) -> str:
    """Return the QoS of a topic as ``ros2 bag`` writes it; numbers are known to all its versions.

    Source: rosbag2_storage, qos.cpp; numbers are those of rmw.
    """
    unlimited = "{sec: 9223372036, nsec: 854775807}"
    policies = {
        "history": 1, "depth": 10, "reliability": 1 if received.reliable else 2,
        "durability": 1 if received.latched else 2, "deadline": unlimited, "lifespan": unlimited,
        "liveliness": 1, "liveliness_lease_duration": unlimited,
        "avoid_ros_namespace_conventions": "false",
    }  # fmt: skip
    return "- " + "\n  ".join(f"{name}: {value}" for name, value in policies.items())


def _all_offer(offered: str, policy: str, *values: str) -> bool:
    """Return whether a policy has one of some values in all profiles."""
    found = re.findall(rf"^[\s-]*{policy}: *(\w+)", offered, re.MULTILINE)
    return bool(found) and all(value in values for value in found)


def recording_file(path: Path) -> RecordingFile | McapFile:
    """Create the file of a recording, by its suffix.

    Raises:
        InvalidConfig: an unknown suffix, or the file exists or cannot be written.
    """
    return McapFile(path) if path.suffix == McapFile.SUFFIX else RecordingFile(path)


def created(path: Path, mode: str, **options: Any) -> IO[Any]:
    """Create a file.

    Raises:
        InvalidConfig: it exists or cannot be written.
    """
    try:
        return path.open(mode, **options)
    except FileExistsError:
        raise InvalidConfig(f"{path} already exists; choose another file.") from None
    except OSError as error:
        raise InvalidConfig(f"{path} cannot be written: {error.strerror}.") from None


MAX_RECORD = 1 << 28
"""Largest part of a file that is read at once [bytes]; a larger length is damaged."""


def read_mcap(path: Path, topics: Sequence[str] = ()) -> Iterator[Received]:
    """Yield the ROS messages of an MCAP file in the order of their arrival.

    Of a file without an index, since its recorder was killed, what was written of them.

    Args:
        path: written here, by ``ros2 bag`` or by others.
        topics: names, ``*`` matches anything; empty: all.

    Raises:
        InvalidConfig: the file cannot be read.
    """
    try:
        from mcap.reader import NonSeekingReader, SeekingReader
    except ImportError:
        raise InvalidConfig("mcap is not installed; run: pip install mcap") from None
    any_read = False
    try:
        with path.open("rb") as file:
            reader: Any = SeekingReader(file, record_size_limit=MAX_RECORD)
            ordered = _has_index(reader)
            if not ordered:
                file.seek(0)
                reader = NonSeekingReader(file, record_size_limit=MAX_RECORD)
            for schema, channel, found in reader.iter_messages(log_time_order=ordered):
                any_read = True
                topic = channel.topic
                wanted = not topics or any(fnmatch.fnmatchcase(topic, each) for each in topics)
                if schema is None or channel.message_encoding != "cdr" or not wanted:
                    continue
                offered = channel.metadata.get(QOS_KEY, "")
                yield Received(
                    topic, schema.name, found.data, found.log_time, found.publish_time,
                    _all_offer(offered, "durability", "1", "transient_local"),
                    not offered or _all_offer(offered, "reliability", "1", "reliable"),
                )  # fmt: skip
    except OSError as error:
        raise InvalidConfig(f"{path} cannot be read: {error.strerror}.") from None
    except Exception as error:  # of the library and its decompressors, for damaged bytes
        if not any_read:
            why = str(error) or "it ends early"
            raise InvalidConfig(f"{path} is not a recording in MCAP: {why}.") from None


def _has_index(reader: Any) -> bool:
    try:
        return reader.get_summary() is not None
    except Exception:  # as above
        return False


@cache
def definition_of(kind: str) -> str:
    """Return the definition of a message type and of all types in it, as MCAP's ``ros2msg``.

    With an empty line before each further type, as ``ros2 bag`` writes it: the last line of a
    definition may have no end.

    Args:
        kind: such as ``sensor_msgs/msg/JointState``.

    Raises:
        InvalidConfig: the definition of one of them is not installed.
    """
    parts: dict[str, str] = {}
    waiting = [kind.replace("/msg/", "/")]
    while waiting:
        name = waiting.pop(0)
        if name in parts:
            continue
        package, _, stem = name.partition("/")
        files = (share / package / "msg" / f"{stem}.msg" for share in share_folders())
        file = next((file for file in files if file.is_file()), None)
        if file is None:
            raise InvalidConfig(f"the definition of {name} ({stem}.msg) is not installed")
        parts[name] = file.read_text("utf-8")
        for line in parts[name].splitlines():
            field = _FIELD.match(line.split("#")[0])
            if field and field[1] not in _PRIMITIVES:
                waiting.append(field[1] if "/" in field[1] else f"{package}/{field[1]}")
    first, *others = parts.items()
    return "".join([first[1], *(f"\n{'=' * 80}\nMSG: {name}\n{text}" for name, text in others)])


_FIELD = re.compile(r"^([A-Za-z][\w/]*)(?:<=\d+)?(?:\[[^]]*\])?\s+[A-Za-z]\w*")
_PRIMITIVES = (
    "bool byte char string wstring float32 float64 int8 uint8 int16 uint16 int32 uint32 int64 "
    "uint64"
).split()


class Recorder:
    """Subscribes to all selected topics, including those that appear later, and polls them.

    An executor would take some hundred messages per second, and fall behind those of a robot.
    """

    def __init__(
        self,
        node: Node,
        sink: RecordingFile | McapFile,
        patterns: Sequence[str] = (),
        images: bool = False,
    ) -> None:
        """Create a recorder without subscriptions.

        Args:
            node: the subscribing node; the caller calls :meth:`discover` and :meth:`poll`
                periodically.
            sink: receives each message.
            patterns: topic names, ``*`` matches anything but hidden topics; empty: all topics of
                :data:`TYPES`.
            images: also record all images except those of depth.
        """
        self._images = images
        self._node, self._sink = node, sink
        self._companions = COMPANIONS if isinstance(sink, McapFile) else ()
        self._patterns = tuple(p if p.startswith(("/", "*")) else f"/{p}" for p in patterns)
        self._topics: list[tuple[PolledSubscription[bytes], Received]] = []
        """Subscriptions, each with an empty message of its topic."""
        self._waiting: list[Received] = []
        self.counts: Counter[str] = Counter()
        """Number of messages received on each topic."""
        self.skipped: dict[str, str] = {}
        """Selected topics that cannot be recorded, and why."""

    def poll(self, last: bool = False) -> None:
        """Write the messages that have arrived, in the order of their arrival.

        Args:
            last: whether to write those that arrived during the call, too.
        """
        now = time.time_ns()
        for subscription, empty in self._topics:
            for data, sent, arrived in subscription.times():
                arrived = arrived or now
                self._waiting.append(
                    replace(empty, data=data, arrived=arrived, sent=sent or arrived)
                )
                self.counts[empty.topic] += 1
        self._waiting.sort(key=lambda each: each.arrived)
        ready = bisect.bisect_right(self._waiting, now, key=lambda each: each.arrived)
        ready = len(self._waiting) if last else ready
        for each in self._waiting[:ready]:
            try:
                self._sink.write(each)
            except InvalidConfig as error:  # a message that cannot be read
                self.skipped[each.topic] = str(error)
        del self._waiting[:ready]

    def discover(self) -> None:
        """Subscribe to selected topics that have appeared."""
        for topic, kinds in self._node.get_topic_names_and_types():
            if topic in self.counts or topic in self.skipped or not self._selected(topic, kinds):
                continue
            publishers = self._node.get_publishers_info_by_topic(topic)
            if not publishers:
                continue
            kind = publishers[0].topic_type
            try:
                found = message_type(kind)
            except (ImportError, AttributeError, ValueError):
                self.skipped[topic] = f"the message type {kind} is not installed"
                continue
            if isinstance(self._sink, McapFile):
                try:
                    definition_of(kind)
                except InvalidConfig as error:
                    self.skipped[topic] = str(error)
                    continue
            self.counts[topic] = 0
            offered = [publisher.qos_profile for publisher in publishers]
            reliable = all(q.reliability == ReliabilityPolicy.RELIABLE for q in offered)
            latched = all(q.durability == DurabilityPolicy.TRANSIENT_LOCAL for q in offered)
            qos = QoSProfile(
                depth=100 if kind == IMAGE else 1000,
                reliability=getattr(ReliabilityPolicy, "RELIABLE" if reliable else "BEST_EFFORT"),
                durability=getattr(DurabilityPolicy, "TRANSIENT_LOCAL" if latched else "VOLATILE"),
            )
            subscription = PolledSubscription[bytes](self._node, found, topic, qos, raw=True)
            self._topics.append((subscription, Received(topic, kind, b"", 0, 0, latched, reliable)))

    def _selected(self, topic: str, kinds: Sequence[str]) -> bool:
        if self._images and IMAGE in kinds and "depth" not in topic:
            return True
        if self._patterns:
            # Hidden topics (a part that begins with _), as for `ros2 bag record`, if named so.
            patterns = [p for p in self._patterns if "/_" not in topic or "/_" in p]
            return any(fnmatch.fnmatchcase(topic, pattern) for pattern in patterns)
        known = any(kind in TYPES for kind in kinds)
        return known or any(fnmatch.fnmatchcase(topic, each) for each in self._companions)


def message_type(name: str) -> type:
    """Return the class of a message type such as ``sensor_msgs/msg/JointState``."""
    package, _, kind = name.split("/")
    message_type: type = getattr(importlib.import_module(f"{package}.msg"), kind)
    return message_type


def recorded_motion(path: Path, joints: Sequence[str]) -> JointTrajectory:
    """Return the motion of a robot in the joint states of an MCAP file.

    Args:
        path: of the file.
        joints: names of the robot's joints; the first topic with JointStates of some is taken.

    Raises:
        InvalidConfig: the file cannot be read, or contains no motion of these joints.
    """
    topic, names = "", tuple[str, ...]()
    stamps: list[int] = []
    rows: list[list[list[float]]] = []
    for received in read_mcap(path):
        if received.kind != "sensor_msgs/msg/JointState" or topic not in ("", received.topic):
            continue
        state = received.message()
        found = dict(zip(state.name, range(len(state.position)), strict=False))
        own = names or tuple(name for name in joints if name in found)
        stamp = Time.from_msg(state.header.stamp).nanoseconds or received.arrived
        if not own or not found.keys() >= set(own) or (stamps and stamp <= stamps[-1]):
            continue
        row = [[values[found[n]] for n in own] for values in (state.position, state.velocity)
               if len(values) == len(state.name)]  # fmt: skip
        if np.isfinite(row).all() and (not rows or len(row) == len(rows[0])):
            topic, names = received.topic, own
            stamps.append(stamp)
            rows.append(row)
    if len(rows) < 2:
        raise InvalidConfig(
            f"{path}: no motion of {joints[0]} and others in its joint states (JointState)"
        )
    table = np.array(rows)
    times = (np.array(stamps) - stamps[0]) * 1e-9
    velocities = table[:, 1] if table.shape[1] == 2 else None
    return JointTrajectory(names, times, table[:, 0], velocities, None)
