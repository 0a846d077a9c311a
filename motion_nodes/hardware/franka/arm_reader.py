# SPDX-License-Identifier: Apache-2.0
"""Reads a robot in a thread: libfranka blocks without a timeout on an unresponsive robot."""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple

from motion_nodes.hardware.franka.robot_faults import control_fault, error_text


class ArmSnapshot(NamedTuple):
    """State read at one time."""

    begin: float
    """Start time of the read, on the monotonic clock [s]."""
    state: Any
    """franky's state of the robot."""
    controlled: bool
    """Whether torques were sent to the arm."""


class ArmReader:
    """Thread of one connection; the only reader of the robot's state."""

    def __init__(self, franky: Any, robot: Any, period: float) -> None:
        """Start reading.

        Args:
            franky: the library.
            robot: franky's connection.
            period: time between two readings [s].
        """
        self._franky, self._robot, self._period = franky, robot, period
        self._was_controlled = False
        self._end = threading.Event()
        self._first = threading.Event()
        self.newest: ArmSnapshot | None = None
        """Newest snapshot; None before the first."""
        self.advanced = time.monotonic()
        """Time of the last advance of the robot's clock, on the monotonic clock [s]."""
        self.lost = ""
        """Why reading ended; empty while it runs."""
        self.end_of_control = ""
        """Why the last control ended; empty if it is active or was stopped by this driver."""
        self._thread = threading.Thread(target=self._run, name="franka_reader", daemon=True)
        self._thread.start()

    def wait(self, timeout: float) -> bool:
        """Return whether a first state arrived within a time [s]."""
        return self._first.wait(timeout) and self.newest is not None

    def expect_control(self) -> None:
        """Record the start of the control, which may end before the next reading."""
        self.end_of_control, self._was_controlled = "", True

    def stop(self) -> None:
        """End reading after the current state, without waiting for it."""
        self._end.set()

    def finish(self) -> None:
        """Wait until reading has ended."""
        self._thread.join()

    def _run(self) -> None:
        franky, robot = self._franky, self._robot
        clock = None
        try:
            while not self._end.is_set():
                begin = time.monotonic()
                state = robot.state
                controlled = bool(robot.is_in_control)
                if self._was_controlled and not controlled:
                    self.end_of_control = self._ended()
                self._was_controlled = controlled
                if (now := state.time.to_sec()) != clock:
                    clock, self.advanced = now, time.monotonic()
                self.newest = ArmSnapshot(begin, state, controlled)
                self._first.set()
                self._end.wait(self._period)
        except (franky.Exception, RuntimeError) as error:
            # Errors of libfranka's sockets arrive as RuntimeError.
            self.lost = error_text(error)
            self._first.set()

    def _ended(self) -> str:
        try:
            self._robot.join_motion(0.0)
        except (self._franky.Exception, RuntimeError) as error:
            return control_fault(error_text(error))
        return ""
