# SPDX-License-Identifier: Apache-2.0
"""A node that obeys the suite's latched stop (docs/stopping.md)."""

from __future__ import annotations

from motion_nodes.control.stop_state import RestTimer
from motion_nodes.ros.endpoint_node import EndpointNode
from motion_nodes.ros.stop_latch import StopLatch


class StoppableNode(EndpointNode):
    """A node with its own copy of the stop, if its class sets :attr:`obeys_stop`."""

    obeys_stop = False
    """Whether the node keeps a copy of the suite's latched stop."""
    drives_robot = False
    """Whether the node commands a robot's drives, and so brings it to rest at a stop."""

    def __init__(self, name: str, *, ros_args: list[str] | None = None) -> None:
        """Create the node; see :class:`EndpointNode`."""
        self.rest = RestTimer()
        """Measures the time from a stop to rest, if the node drives a robot."""
        self.stop_latch: StopLatch | None = None
        """The node's copy of the stop; None if it does not obey one."""
        self.ending = ""
        """Why commands are refused while the loop ends, empty otherwise."""
        super().__init__(name, ros_args=ros_args)

    @property
    def stop_reason(self) -> str:
        """Why commands are refused since a stop, empty if they are not; thread-safe."""
        return self.ending or ("" if self.stop_latch is None else self.stop_latch.reason)

    @property
    def held(self) -> str:
        """Why the supervisor holds the node at rest, empty if it does not; thread-safe."""
        return "" if self.stop_latch is None else self.stop_latch.held

    def hold(self, why: str) -> None:
        """Bring the robot to rest and end goals, once; thread-safe."""
        if self.stop_latch is not None:
            self.stop_latch.hold(why)

    def in_motion(self) -> bool:
        """Return whether references of the robot's drives move; thread-safe."""
        return False

    def stopped(self, why: str) -> None:
        """Bring the robot to rest; called in the loop, once per stop."""

    def resumed(self) -> None:
        """Discard commands from before a resume; called in the loop."""

    def create_stop_latch(self) -> None:
        """Create the endpoints of the stop, if the node obeys one."""
        if self.obeys_stop:
            self.stop_latch = StopLatch(self, self.rest if self.drives_robot else None)

    def begin_stop_latch(self) -> None:
        """Apply a stop that is in force to a loop that is about to start."""
        if self.stop_latch is not None:
            self.stop_latch.begin()

    def obey_stop_latch(self) -> None:
        """Apply stops and resumes; called in the loop before anything else."""
        if self.stop_latch is not None:
            self.stop_latch.obey(self.stopped, self.resumed)

    def end_stop_latch(self) -> None:
        """Stop polling: the node is being destroyed."""
        if self.stop_latch is not None:
            self.stop_latch.end()
