# SPDX-License-Identifier: Apache-2.0
"""What a joint controller tells: where it leads its joints, and which streams it has preempted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from control_msgs.msg import JointTrajectoryControllerState
from diagnostic_msgs.msg import DiagnosticStatus

from motion_nodes.model.tree import Array
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.messages.cdr import InvalidMessage
from motion_nodes.ros.messages.joint_samples import JointSampleReader

PREEMPTED = "preempted "
"""With a stream's sender it is the key under which ~/status says to whom that lost joints."""

BLOCKED = "blocked"
"""Word in that text where a contact stopped the joints."""

OLDEST = 0.25
"""[s] What the controller said longer ago tells nothing of now."""


class ControllerReferences:
    """The newest reference of some joints."""

    def __init__(self, subscription: PolledSubscription[bytes], joints: Sequence[str]) -> None:
        """Read ``joints`` from the bytes of JointTrajectoryControllerState messages."""
        self._subscription, self._joints = subscription, tuple(joints)
        self._samples = JointSampleReader()
        self._names: bytes | tuple[str, ...] = ()
        self._count = 0
        self._columns: list[int] | None = None
        self._at_ns = 0
        self._known: tuple[Array, Array] | None = None

    def newest(self, now_ns: int) -> tuple[Array, Array] | None:
        """Return positions and velocities by now, shape (n,) each; None where they are not known.

        Args:
            now_ns: time [ns]; the joints are taken to go on at their speeds until then.
        """
        message = self._subscription.newest()
        if message is not None:
            self._known = self._read(message)
        age = (now_ns - self._at_ns) * 1e-9
        if self._known is None or not -OLDEST < age < OLDEST:
            return None
        q, qd = self._known
        return q + max(age, 0.0) * qd, qd

    def _read(self, data: bytes) -> tuple[Array, Array] | None:
        try:
            sample = self._samples.read(data, JointTrajectoryControllerState)
            if sample.names != self._names:
                names = sample.joint_names()
                there = all(joint in names for joint in self._joints)
                self._columns = [names.index(j) for j in self._joints] if there else None
                self._names, self._count = sample.names, len(names)
        except InvalidMessage:
            return None
        self._at_ns = sample.stamp_ns
        columns, count = self._columns, self._count
        if columns is None or len(sample.position) != count:
            return None
        q = sample.position[columns]
        qd = np.zeros(len(q))
        if len(sample.velocity) == count:
            qd = np.nan_to_num(sample.velocity[columns])
        return (q, qd) if np.isfinite(q).all() else None


class Preemptions:
    """What a controller's ~/status says of a stream."""

    def __init__(self, subscription: PolledSubscription[DiagnosticStatus]) -> None:
        """Read from a subscription."""
        self._subscription = subscription
        self._lost: dict[str, str] = {}

    def of(self, sender: str) -> str:
        """Return by whom a sender's stream was preempted, in words, or nothing."""
        for message in self._subscription.all():
            self._lost = {
                pair.key.removeprefix(PREEMPTED): pair.value
                for pair in message.values
                if pair.key.startswith(PREEMPTED)
            }
        return self._lost.get(sender, "")
