# SPDX-License-Identifier: Apache-2.0
"""Current state of a robot's joints, shared by the threads of a node."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping

import numpy as np
from moveit_msgs.msg import MoveItErrorCodes

from motion_nodes.model.joint_turns import JointTurns
from motion_nodes.ros.joint_topics import JointStateReader
from motion_nodes.ros.messages.moveit_messages import RequestRejected
from motion_nodes.typing import Array

FIRST_STATE_TIMEOUT = 1.0
"""Time that :meth:`CurrentStateMonitor.wait` waits for joint_states [s]."""


class CurrentStateMonitor:
    """Newest measured positions and velocities of all joints; thread-safe."""

    def __init__(
        self, reader: JointStateReader, timeout: Callable[[], float] = lambda: np.inf
    ) -> None:
        """Monitor the joints of a reader, which is updated here only.

        Args:
            reader: of joint_states.
            timeout: returns the max age of a state for execution [s].
        """
        self._reader = reader
        self._timeout = timeout
        self._lock = threading.Lock()

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Joints, in the order of all arrays."""
        return self._reader.joint_names

    @property
    def turns(self) -> JointTurns:
        """Differences of positions of the joints."""
        return self._reader.encoders.turns

    @property
    def age(self) -> float:
        """Age of the state [s]; infinite before the first one."""
        return self._reader.age()

    def newest(self) -> tuple[Array, str]:
        """Return the newest state regardless of its age.

        Returns:
            Positions [rad or m], shape (n,), and why they are unknown; empty if they are known.
        """
        with self._lock:
            self._reader.update()
            fault = "" if self._reader.received else self._reader.fault(np.inf)
            return self._reader.position.copy(), fault

    def fresh(self) -> Array:
        """Return positions that are not older than the timeout [rad or m], shape (n,).

        Raises:
            RequestRejected: the state is unknown or too old.
        """
        with self._lock:
            self._reader.update()
            fault = self._reader.fault(self._timeout())
            position = self._reader.position.copy()
        if fault:
            raise RequestRejected(MoveItErrorCodes.ROBOT_STATE_STALE, f"the robot's state: {fault}")
        return position

    def complete(self, given: Mapping[str, float], what: str) -> Array:
        """Return positions of all joints: those given, and measured ones for the others.

        Args:
            given: positions by joint name [rad or m].
            what: name of the state in error messages.

        Returns:
            Positions [rad or m], shape (n,).

        Raises:
            RequestRejected: joints that are neither given nor measured.
        """
        names = self.joint_names
        if len(given) == len(names):
            return np.array([given[name] for name in names])
        q, fault = self.newest()
        if fault:
            missing = ", ".join(name for name in names if name not in given)
            raise RequestRejected(
                MoveItErrorCodes.INVALID_ROBOT_STATE,
                f"{what} does not give {missing}, and the robot's state is not known: {fault}",
            )
        return np.array([given.get(name, value) for name, value in zip(names, q, strict=True)])

    def wait(self) -> None:
        """Wait for a fresh state, at most :data:`FIRST_STATE_TIMEOUT`."""
        end = time.monotonic() + FIRST_STATE_TIMEOUT
        while time.monotonic() < end:
            try:
                self.fresh()
            except RequestRejected:
                time.sleep(0.01)
            else:
                return

    def speed(self, joints: Collection[str]) -> tuple[float, str]:
        """Return the max speed of some joints [rad/s or m/s], and the joint that has it.

        Raises:
            RequestRejected: the state is unknown or too old.
        """
        self.fresh()
        with self._lock:
            speeds = np.abs(self._reader.velocity)
        chosen = [i for i, name in enumerate(self.joint_names) if name in joints]
        if not chosen:
            return 0.0, ""
        fastest = max(chosen, key=lambda i: speeds[i])
        return float(speeds[fastest]), self.joint_names[fastest]
