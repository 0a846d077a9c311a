# SPDX-License-Identifier: Apache-2.0
"""Clock of a node's action servers, which is set only when a goal arrives.

An action server has a timer on its node's clock, which expires old results. In simulated time each
``/clock`` message of the node therefore wakes the executor, several hundred times per second in a
process of many nodes, and each time it polls everything it serves. Goals only need the right stamp
when they are accepted.
"""

from __future__ import annotations

from typing import Any

from rclpy.clock import Clock, ClockType
from rclpy.time import Time

from motion_nodes.ros.node import MotionNode


class ActionClockNode:
    """Proxy of a node with another clock, for its action server."""

    def __init__(self, node: MotionNode[Any]) -> None:
        """Create the proxy; the clock is set to the node's time."""
        self._node = node
        self._clock: Any = Clock(clock_type=ClockType.ROS_TIME)
        self.set_clock()

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the node."""
        return getattr(self._node, name)

    def get_clock(self) -> Any:
        """Return the clock of the server."""
        return self._clock

    def set_clock(self) -> None:
        """Set the clock to the node's time, which may expire old results."""
        simulated = self._node.get_clock().ros_time_is_active
        if self._clock.ros_time_is_active != simulated:
            self._clock._set_ros_time_is_active(simulated)
        if simulated:
            now = Time(nanoseconds=self._node.now_ns(), clock_type=ClockType.ROS_TIME)
            self._clock.set_ros_time_override(now)
