# SPDX-License-Identifier: Apache-2.0
"""State of a joint controller: the references of its joints, and preempted streams."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from control_msgs.msg import JointTrajectoryControllerState
from diagnostic_msgs.msg import DiagnosticStatus

from motion_nodes.model.bounds import JOINT_STATE, VELOCITY
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.messages.cdr import InvalidMessage
from motion_nodes.ros.messages.joint_samples import JointSampleReader
from motion_nodes.typing import Array

PREEMPTED = "preempted "
"""Prefix of keys in ~/status, followed by the preempted sender; the value is the new command."""

BLOCKED = "blocked"
"""Contained in that value if a contact stopped the joints."""

MAX_AGE = 0.25
"""[s] Max age of a controller state."""


class ControllerReferences:
    """The newest reference of some joints."""

    def __init__(self, subscription: PolledSubscription[bytes], joints: Sequence[str]) -> None:
        """Create the reader.

        Args:
            subscription: serialized JointTrajectoryControllerState messages.
            joints: names of the joints, in the order of the arrays.
        """
        self._subscription, self._joints = subscription, tuple(joints)
        self._samples = JointSampleReader()
        self._names: bytes | tuple[str, ...] = ()
        self._count = 0
        self._columns: list[int] | None = None
        self._at_ns = 0
        self._known: tuple[Array, Array] | None = None

    def newest(self, now_ns: int) -> tuple[Array, Array] | None:
        """Return the references extrapolated to now, at constant velocity.

        Args:
            now_ns: current time [ns].

        Returns:
            Positions [rad or m] and velocities [rad/s or m/s], shape (n,) each; None if unknown.
        """
        message = self._subscription.newest()
        if message is not None:
            self._known = self._read(message)
        age = (now_ns - self._at_ns) * 1e-9
        if self._known is None or not -MAX_AGE < age < MAX_AGE:
            return None
        q, qd = self._known
        return q + max(age, 0.0) * qd, qd

    def _read(self, data: bytes) -> tuple[Array, Array] | None:
        try:
            sample = self._samples.read(data, JointTrajectoryControllerState)
            if sample.names != self._names:
                names = sample.joint_names()
                complete = all(joint in names for joint in self._joints)
                self._columns = [names.index(j) for j in self._joints] if complete else None
                self._names, self._count = sample.names, len(names)
        except InvalidMessage:
            return None
        self._at_ns = sample.stamp_ns
        columns, count = self._columns, self._count
        if columns is None or len(sample.position) != count:
            return None
        q, qd = sample.position[columns], np.zeros(len(columns))
        if len(sample.velocity) == count:
            qd = sample.velocity[columns]
            qd = np.where(np.abs(qd) <= VELOCITY.max, qd, 0.0)
        return (q, qd) if (np.abs(q) <= JOINT_STATE.max).all() else None


class Preemptions:
    """Preempted streams in a controller's ~/status."""

    def __init__(self, subscription: PolledSubscription[DiagnosticStatus]) -> None:
        """Create the reader of a subscription."""
        self._subscription = subscription
        self._preempted: dict[str, str] = {}

    def of(self, sender: str) -> str:
        """Return the command that preempted a sender's stream, as text; empty if none did."""
        for message in self._subscription.all():
            self._preempted = {
                pair.key.removeprefix(PREEMPTED): pair.value
                for pair in message.values
                if pair.key.startswith(PREEMPTED)
            }
        return self._preempted.get(sender, "")
