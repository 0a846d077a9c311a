# SPDX-License-Identifier: Apache-2.0
"""The clock of a node's action servers, which moves only when a goal comes.

An action server has a timer on its node's clock, by which old results expire. In simulated time
each message of ``/clock`` that the node takes wakes the executor because of it, several hundred
times a second in a process of many nodes, and each time it looks through everything it serves.
Goals need no more than the right stamp when they are accepted.
"""

from __future__ import annotations

from typing import Any

from rclpy.clock import Clock, ClockType
from rclpy.time import Time

from motion_nodes.ros.node import MotionNode


class GoalNode:
    """A node as its action server sees it: all its own but the clock."""

    def __init__(self, node: MotionNode[Any]) -> None:
        """Begin with the node's time."""
        self._node = node
        self._clock: Any = Clock(clock_type=ClockType.ROS_TIME)
        self.set_clock()

    def __getattr__(self, name: str) -> Any:
        """Return what the node has."""
        return getattr(self._node, name)

    def get_clock(self) -> Any:
        """Return the clock of the servers."""
        return self._clock

    def set_clock(self) -> None:
        """Set the clock to the node's time; results that have waited too long expire by it."""
        simulated = self._node.get_clock().ros_time_is_active
        if self._clock.ros_time_is_active != simulated:
            self._clock._set_ros_time_is_active(simulated)
        if simulated:
            now = Time(nanoseconds=self._node.now_ns(), clock_type=ClockType.ROS_TIME)
            self._clock.set_ros_time_override(now)
