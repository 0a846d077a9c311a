# SPDX-License-Identifier: Apache-2.0
"""JointState messages to and from arrays in a fixed joint order."""

from __future__ import annotations

import array
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rclpy.node import Node
from sensor_msgs.msg import JointState

from motion_nodes.ros import qos
from motion_nodes.ros.polled import PolledSubscription

Array = NDArray[np.float64]


def set_stamp(message: object, nanoseconds: int) -> None:
    """Write a time [ns] into a stamped message's header."""
    stamp = message.header.stamp  # type: ignore[attr-defined]
    stamp.sec, stamp.nanosec = divmod(nanoseconds, 1_000_000_000)


def stamp_ns(message: object) -> int:
    """Return the time [ns] in a stamped message's header."""
    stamp = message.header.stamp  # type: ignore[attr-defined]
    return int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)


class JointStateReader:
    """The newest measured state of some joints, whatever else the messages carry.

    A message that lacks one of the joints, or has a non-finite position for one, is not used.
    """

    def __init__(self, subscription: PolledSubscription[JointState], joints: Sequence[str]) -> None:
        """Read ``joints`` from the messages of a polled subscription."""
        self._subscription = subscription
        self.joint_names = tuple(joints)
        n = len(self.joint_names)
        self.position: Array = np.full(n, np.nan)
        """Measured positions [rad or m], NaN before the first message."""
        self.velocity: Array = np.zeros(n)
        """Measured velocities [rad/s or m/s], 0 where the message has none."""
        self.stamp_ns = 0
        """Time of the measurement [ns]."""
        self.received = False
        """True once a usable message came."""
        self.missing: tuple[str, ...] = ()
        """Joints that the newest unusable message lacked."""
        self._names: list[str] | None = None
        self._indices: NDArray[np.intp] | None = None
        self._usable_at: float | None = None

    def update(self) -> bool:
        """Take the newest message; True when the state is newer than before."""
        message = self._subscription.newest()
        if message is None or not self._map(message.name):
            return False
        position = np.frombuffer(message.position) if message.position else np.empty(0)
        if len(position) != len(message.name):
            return False
        chosen = position[self._indices]
        if not np.isfinite(chosen).all():
            return False
        self.position[:] = chosen
        if len(message.velocity) == len(message.name):
            self.velocity[:] = np.nan_to_num(np.frombuffer(message.velocity)[self._indices])
        else:
            self.velocity[:] = 0.0
        self.stamp_ns = stamp_ns(message)
        self.received = True
        self._usable_at = time.monotonic()
        return True

    def age(self) -> float:
        """Seconds of wall time since the last usable message arrived; infinite before."""
        return float("inf") if self._usable_at is None else time.monotonic() - self._usable_at

    def _map(self, names: list[str]) -> bool:
        if names == self._names:
            return self._indices is not None
        self._names = list(names)
        where = {name: i for i, name in enumerate(names)}
        self.missing = tuple(name for name in self.joint_names if name not in where)
        if self.missing:
            self._indices = None
            return False
        self._indices = np.array([where[name] for name in self.joint_names], dtype=np.intp)
        return True


class JointStateWriter:
    """Publishes JointState messages from one message that is built once.

    Attributes of the same names are views into the message's arrays: write, then :meth:`send`.
    """

    def __init__(
        self,
        node: Node,
        publisher: object,
        joints: Sequence[str],
        *,
        position: bool = True,
        velocity: bool = True,
        effort: bool = False,
    ) -> None:
        """Prepare a message over ``joints`` with the channels that are wanted."""
        self._publisher = publisher
        blank = [float("nan")] * len(joints)
        self.message = JointState(name=list(joints))
        if position:
            self.message.position = array.array("d", blank)
        if velocity:
            self.message.velocity = array.array("d", blank)
        if effort:
            self.message.effort = array.array("d", blank)
        self.position: Array = np.frombuffer(self.message.position) if position else np.empty(0)
        self.velocity: Array = np.frombuffer(self.message.velocity) if velocity else np.empty(0)
        self.effort: Array = np.frombuffer(self.message.effort) if effort else np.empty(0)

    def send(self, nanoseconds: int) -> None:
        """Publish with a time stamp [ns]."""
        set_stamp(self.message, nanoseconds)
        self._publisher.publish(self.message)  # type: ignore[attr-defined]


def joint_states(node: object, topic: str, joints: Sequence[str]) -> JointStateReader:
    """Subscribe a :class:`~motion_nodes.ros.node.MotionNode` to a topic of joint states."""
    return JointStateReader(node.poll(JointState, topic, qos.NEWEST), joints)  # type: ignore[attr-defined]
