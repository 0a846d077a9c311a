# SPDX-License-Identifier: Apache-2.0
"""The measured robot, for the threads of a planner node."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection

import numpy as np
from moveit_msgs.msg import MoveItErrorCodes
from numpy.typing import NDArray

from motion_nodes.ros.joint_topics import JointStateReader
from motion_nodes.ros.messages.moveit_messages import RequestRejected

Array = NDArray[np.float64]

FIRST_STATE = 1.0
"""[s] How long a motion waits for joint_states before it is refused."""


class PlannerState:
    """The newest measured positions and speeds of all joints; any thread may ask."""

    def __init__(self, reader: JointStateReader, timeout: Callable[[], float]) -> None:
        """Read from ``reader``; states older than ``timeout`` [s] are too old to move by."""
        self._reader = reader
        self._timeout = timeout
        self._lock = threading.Lock()

    @property
    def joint_names(self) -> tuple[str, ...]:
        """The order of all arrays."""
        return self._reader.joint_names

    @property
    def age(self) -> float:
        """How old the state is [s]; infinite before the first."""
        return self._reader.age()

    def newest(self) -> tuple[Array, str]:
        """Return the positions, however old, shape (n,), and why they are not known or nothing."""
        with self._lock:
            self._reader.update()
            trouble = "" if self._reader.received else self._reader.trouble(np.inf)
            return self._reader.position.copy(), trouble

    def fresh(self) -> Array:
        """Return the positions, shape (n,).

        Raises:
            RequestRejected: they are not known, or too old.
        """
        with self._lock:
            self._reader.update()
            trouble = self._reader.trouble(self._timeout())
            position = self._reader.position.copy()
        if trouble:
            raise RequestRejected(
                MoveItErrorCodes.ROBOT_STATE_STALE, f"the robot's state: {trouble}"
            )
        return position

    def wait(self) -> None:
        """Give a robot that is not heard of yet the time to be heard."""
        end = time.monotonic() + FIRST_STATE
        while time.monotonic() < end:
            try:
                self.fresh()
            except RequestRejected:
                time.sleep(0.01)
            else:
                return

    def speed(self, joints: Collection[str]) -> tuple[float, str]:
        """Return the greatest speed of some joints [rad/s or m/s], and whose it is.

        Raises:
            RequestRejected: nothing fresh is known of the robot.
        """
        self.fresh()
        with self._lock:
            speeds = np.abs(self._reader.velocity)
        chosen = [i for i, name in enumerate(self.joint_names) if name in joints]
        if not chosen:
            return 0.0, ""
        fastest = max(chosen, key=lambda i: speeds[i])
        return float(speeds[fastest]), self.joint_names[fastest]
