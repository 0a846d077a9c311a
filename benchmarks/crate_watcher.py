# SPDX-License-Identifier: Apache-2.0
"""A ROS client for crates in view of depth cameras; see ``crate_crossing.py``."""

import numpy as np
from crate_crossing import LEFT, RIGHT, target_at
from sensor_msgs.msg import JointState

from motion_nodes.nodes.demo import surprise
from motion_nodes.ros import qos
from motion_nodes.ros.joint_topics import stamp_ns
from motion_nodes.ros.names import JOINT_CONTROLLER
from motion_nodes.typing import Array

STARTED = 0.02
"""Commanded velocity above which a joint counts as moving [rad/s]."""
TARGETS = 0.02
"""Period of the targets [s]."""


class Watcher(surprise.SurpriseClient):
    """Records references, states and octomaps with their simulated times."""

    def __init__(self) -> None:
        super().__init__()
        self.references: list[tuple[float, Array]] = []
        self.states: list[tuple[float, Array]] = []
        self.seen = np.inf
        topic = f"/{surprise.ARM}/{JOINT_CONTROLLER}/reference"
        self.subscribe(JointState, topic, self._on_reference, qos.STREAM)

    def _on_reference(self, message: JointState) -> None:
        if len(message.velocity) >= len(self._joints):
            qd = dict(zip(message.name, message.velocity, strict=False))
            at = 1e-9 * stamp_ns(message)
            self.references.append((at, np.array([qd[name] for name in self._joints])))

    def _on_state(self, message: JointState) -> None:
        super()._on_state(message)
        if self.q is not None:
            self.states.append((self.now, self.q))

    def _on_octomap(self, message: object) -> None:
        super()._on_octomap(message)
        if self.occupied:
            self.seen = min(self.seen, self.now)

    def cross(self, speed: float, after: float = np.inf) -> float:
        """Follow the target to the other side; return the time at which the crate was placed [s].

        Args:
            speed: of the target [m/s].
            after: time since the start at which the crate is placed [s].
        """
        assert self.go(LEFT)
        self.spin(0.5)
        begin, placed, sent = self.now, np.inf, -np.inf
        self.references.clear()
        self.states.clear()
        self.seen = np.inf
        while not self.is_at(RIGHT) and self.now - begin < surprise.WITHIN:
            if self.now - sent > TARGETS:
                sent = self.now
                self._send(target_at(self.now - begin, speed))
            if placed == np.inf and self.now - begin >= after:
                placed = self.now
                self.put_crate(surprise.THERE)
            if not self.spin(0.002):
                break
        return placed


def series(motion: list[tuple[float, Array]]) -> tuple[Array, Array]:
    """Return times and values as arrays."""
    times, values = (np.array(x) for x in zip(*motion, strict=True))
    return times, values


def deviation(motion: list[tuple[float, Array]], other: list[tuple[float, Array]]) -> Array:
    """Return times [s] and velocity deviations [rad/s] of a motion from another, shape (k, 2).

    Both are compared from their first velocity on.
    """
    (t, v), (u, w) = series(motion), series(other)
    begin, begin_other = (
        times[np.argmax(np.abs(each).max(axis=1) > STARTED)] for times, each in ((t, v), (u, w))
    )
    there = np.column_stack([np.interp(t - begin, u - begin_other, column) for column in w.T])
    return np.column_stack((t, np.abs(v - there).max(axis=1)))
