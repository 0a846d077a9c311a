# SPDX-License-Identifier: Apache-2.0
"""Recording of topics, selected by message type or name, to JSON lines or CSV.

Messages of any type as plain data, and as named numbers.
"""

from __future__ import annotations

import array
import csv
import fnmatch
import importlib
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy

from motion_nodes.errors import InvalidConfig

TYPES = (
    *("sensor_msgs/msg/JointState", "nav_msgs/msg/Odometry", "nav_msgs/msg/Path"),
    *("geometry_msgs/msg/Twist", "geometry_msgs/msg/TwistStamped"),
    *("geometry_msgs/msg/PoseStamped", "ackermann_msgs/msg/AckermannDriveStamped"),
    *("trajectory_msgs/msg/JointTrajectory", "std_msgs/msg/Float64MultiArray"),
    *("control_msgs/msg/JointTrajectoryControllerState", "moveit_msgs/msg/DisplayTrajectory"),
)
"""Types recorded by default: joints, commands, odometry and plans."""
Write = Callable[[float, str, str, Any], None]
"""Writes a message: time of arrival [s], topic, type, and the message as plain data."""


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

    SUFFIXES = (".jsonl", ".csv")

    def __init__(self, path: Path) -> None:
        """Create the file.

        Args:
            path: a new file with one of :attr:`SUFFIXES`.

        Raises:
            InvalidConfig: an unknown suffix, or the file exists or cannot be written.
        """
        if path.suffix not in self.SUFFIXES:
            raise InvalidConfig(f"{path}: the name must end in {' or '.join(self.SUFFIXES)}.")
        try:
            self._file: IO[str] = path.open("x", encoding="utf-8", newline="")
        except FileExistsError:
            raise InvalidConfig(f"{path} already exists; choose another file.") from None
        except OSError as error:
            raise InvalidConfig(f"{path} cannot be written: {error.strerror}.") from None
        self._table = csv.writer(self._file) if path.suffix == ".csv" else None
        if self._table is not None:
            self._table.writerow(["time", "topic", "name", "value"])

    def write(self, stamp: float, topic: str, kind: str, message: Any) -> None:
        """Append a message; see :data:`Write`."""
        if self._table is None:
            line = {"time": stamp, "topic": topic, "type": kind, "message": message}
            self._file.write(json.dumps(line) + "\n")
            return
        self._table.writerows([stamp, topic, name, x] for name, x in numbers_of(message))

    def close(self) -> None:
        """Flush and close the file."""
        self._file.close()


class Recorder:
    """Subscribes to all selected topics, including those that appear later."""

    def __init__(self, node: Node, write: Write, patterns: Sequence[str] = ()) -> None:
        """Create a recorder without subscriptions.

        Args:
            node: the subscribing node; the caller spins it and calls :meth:`discover`
                periodically.
            write: called with each message.
            patterns: topic names, ``*`` matches anything; empty: all topics of :data:`TYPES`.
        """
        self._node, self._write = node, write
        self._patterns = tuple(p if p.startswith(("/", "*")) else f"/{p}" for p in patterns)
        self.counts: Counter[str] = Counter()
        """Number of messages received on each topic."""
        self.skipped: dict[str, str] = {}
        """Selected topics that cannot be recorded, and why."""

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
                message_type = _message_type(kind)
            except (ImportError, AttributeError, ValueError):
                self.skipped[topic] = f"the message type {kind} is not installed"
                continue
            self.counts[topic] = 0
            every = all(p.qos_profile.reliability == ReliabilityPolicy.RELIABLE for p in publishers)
            reliability = ReliabilityPolicy.RELIABLE if every else ReliabilityPolicy.BEST_EFFORT
            qos = QoSProfile(depth=1000, reliability=reliability)
            self._node.create_subscription(message_type, topic, self._callback(topic, kind), qos)

    def _selected(self, topic: str, kinds: Sequence[str]) -> bool:
        if self._patterns:
            return any(fnmatch.fnmatchcase(topic, pattern) for pattern in self._patterns)
        return any(kind in TYPES for kind in kinds)

    def _callback(self, topic: str, kind: str) -> Callable[[Any], None]:
        def record(message: Any) -> None:
            self.counts[topic] += 1
            self._write(time.time(), topic, kind, plain_message(message))

        return record


def _message_type(name: str) -> type:
    """Return the class of a message type such as ``sensor_msgs/msg/JointState``."""
    package, _, kind = name.split("/")
    message_type: type = getattr(importlib.import_module(f"{package}.msg"), kind)
    return message_type
