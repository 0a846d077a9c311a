# SPDX-License-Identifier: Apache-2.0
"""Where a joint controller leads its joints, from its ~/controller_state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from control_msgs.msg import JointTrajectoryControllerState

from motion_nodes.model.tree import Array
from motion_nodes.ros.joint_topics import stamp_ns
from motion_nodes.ros.polled import PolledSubscription

OLDEST = 0.25
"""[s] What the controller said longer ago tells nothing of now."""


class ControllerReferences:
    """The newest reference of some joints."""

    def __init__(
        self,
        subscription: PolledSubscription[JointTrajectoryControllerState],
        joints: Sequence[str],
    ) -> None:
        self._subscription, self._joints = subscription, tuple(joints)
        self._columns: dict[tuple[str, ...], list[int] | None] = {}
        self._at_ns = 0
        self._known: tuple[Array, Array] | None = None

    def newest(self, now_ns: int) -> tuple[Array, Array] | None:
        """Return positions and velocities by now, shape (n,) each; None where they are not known.

        Args:
            now_ns: time [ns]; the joints are taken to go on at their speeds until then.
        """
        message = self._subscription.newest()
        if message is not None:
            self._known, self._at_ns = self._read(message), stamp_ns(message)
        age = (now_ns - self._at_ns) * 1e-9
        if self._known is None or not -OLDEST < age < OLDEST:
            return None
        q, qd = self._known
        return q + max(age, 0.0) * qd, qd

    def _read(self, message: JointTrajectoryControllerState) -> tuple[Array, Array] | None:
        names = tuple(message.joint_names)
        if names not in self._columns:
            there = all(joint in names for joint in self._joints)
            self._columns = {names: [names.index(j) for j in self._joints] if there else None}
        columns, reference = self._columns[names], message.reference
        if columns is None or len(reference.positions) != len(names):
            return None
        q = np.array(reference.positions)[columns]
        if len(reference.velocities) == len(names):
            qd = np.nan_to_num(np.array(reference.velocities)[columns])
        else:
            qd = np.zeros(len(q))
        return (q, qd) if np.isfinite(q).all() else None
