# SPDX-License-Identifier: Apache-2.0
"""ROS time for a control loop: polls /clock, bounds time steps, detects jumps and stalls."""

from __future__ import annotations

import math
import struct
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from rclpy.node import Node
from rosgraph_msgs.msg import Clock

from motion_nodes.control.deadlines import Deadlines
from motion_nodes.ros.concurrency.polled_subscription import take_all
from motion_nodes.ros.messages.cdr import LITTLE_ENDIAN, InvalidMessage, message_in, read_stamp

STALL_TIMEOUT = 0.5
"""[s] Wall time without advance of simulated time after which it counts as stalled."""

MAX_STEP = 2.0
"""[periods] Max time step, so that a delayed loop does not catch up in one step."""

MAX_SIMULATED_STEP = 10.0
"""[periods] The same for simulated time, which may run at up to ten times real time."""

JUMP = 1.0
"""[s] An advance of more than this, and more than wall time explains, is a jump."""


class RosTime:
    """ROS time of a node; thread-safe."""

    def __init__(self, node: Node) -> None:
        """Create the time of ``node``, which need not be initialized yet."""
        self._node = node
        self._lock = threading.Lock()
        self._feed: tuple[Any, Callable[[Any], None]] | None = None
        self._message = Clock()
        self._newest = -1
        self._arrived = -math.inf
        self._moved_at = time.monotonic()

    def follow(self, subscription: Any, feed: Callable[[Any], None]) -> None:
        """Use /clock.

        Args:
            subscription: polled subscription to /clock.
            feed: callback of rclpy's time source, called with the newest message.
        """
        with self._lock:
            self._feed = (subscription, feed)
            self._newest = -1

    def unfollow(self, subscription: Any) -> None:
        """Drop a subscription that is about to be destroyed."""
        with self._lock:
            if self._feed is not None and self._feed[0] is subscription:
                self._feed = None

    def now_ns(self) -> int:
        """ROS time [ns]; simulated time where ``use_sim_time`` is set."""
        with self._lock:
            if self._feed is None:
                # Equal to the node's clock then, at a tenth of the cost.
                return time.time_ns()
            subscription, feed = self._feed
            stamps = [_clock_ns(message) for message in take_all(subscription, raw=True)]
            if stamps:
                self._arrived = time.monotonic()
            # rclpy raises on negative times.
            now = next((stamp for stamp in reversed(stamps) if stamp >= 0), None)
            if now is not None:
                clock = self._message.clock
                clock.sec, clock.nanosec = divmod(now, 1_000_000_000)
                feed(self._message)
            elif self._newest < 0:
                now = int(self._node.get_clock().now().nanoseconds)
            if now is not None and now != self._newest:
                self._newest = now
                self._moved_at = time.monotonic()
            return self._newest

    @property
    def arrived(self) -> float | None:
        """Time of the newest message of /clock on ``time.monotonic()`` [s]; None if not used."""
        return self._arrived if self.simulated else None

    @property
    def simulated(self) -> bool:
        """True if ROS time is that of /clock."""
        return self._feed is not None and bool(self._node.get_clock().ros_time_is_active)

    @property
    def stalled(self) -> bool:
        """True if simulated time has not advanced for :data:`STALL_TIMEOUT` of wall time."""
        if not self.simulated or not self._overdue():
            return False
        self.now_ns()  # a loop of 1 Hz calls it too rarely to see /clock advance
        return self._overdue()

    def _overdue(self) -> bool:
        return time.monotonic() - self._moved_at > STALL_TIMEOUT


def _clock_ns(message: bytes) -> int:
    """Return the time in a serialized clock message [ns]; -1 if it cannot be read."""
    try:
        if message.startswith(LITTLE_ENDIAN):
            return read_stamp(message)
        clock = message_in(message, Clock).clock
    except (struct.error, InvalidMessage):
        return -1
    return int(clock.sec) * 1_000_000_000 + int(clock.nanosec)


class Step(NamedTuple):
    """Time of one cycle of a loop."""

    now: float
    """ROS time [s]."""
    dt: float
    """Time step of the cycle: whole periods of ROS time, bounded [s]."""
    jump: tuple[float, float] | None
    """ROS time before and after a jump [s]; None without a jump."""
    stamps: tuple[int, ...] = ()
    """Deadlines to serve in this cycle, in ROS time, oldest first [ns].

    A node that commands a robot publishes one reference for each, one period apart: none if the
    next deadline is not due, several if the loop was late or simulated time advanced faster."""
    next_ns: int = 0
    """The first of them, or the next deadline [ns]."""


class StepClock:
    """Deadlines of a loop in ROS time, each of which is served once.

    In simulated time they are multiples of the period, otherwise those of the loop itself.
    """

    def __init__(
        self, source: RosTime, period: float, deadline: Callable[[], float] | None = None
    ) -> None:
        """Start now.

        Args:
            source: ROS time.
            period: period of the loop [s].
            deadline: returns the deadline of the current cycle on ``time.monotonic()`` [s]; None:
                cycles are on time.
        """
        self._source = source
        self._period = period
        self._deadline = deadline
        self._deadlines = Deadlines(period)
        self._before = 0
        self._wall_before = time.monotonic()
        self._skipped = 0

    def step(self) -> Step:
        """Return the time step since the last call."""
        now_ns, wall = self._source.now_ns(), time.monotonic()
        simulated = self._source.simulated
        before, self._before = self._before, now_ns
        wall_dt, self._wall_before = wall - self._wall_before, wall
        now, elapsed, jump = now_ns * 1e-9, (now_ns - before) * 1e-9, None
        # A system clock set back by less than a period is not a jump.
        leapt = elapsed > JUMP + 2.0 * MAX_SIMULATED_STEP * wall_dt
        back = elapsed < 0.0 if simulated else elapsed < -self._period
        if before == 0 or back or leapt:
            # The first cycle, the first /clock, or a jump.
            self._begin(now_ns, wall, simulated=simulated)
            jump = None if before == 0 else (before * 1e-9, now)
        pace = elapsed / wall_dt if simulated and wall_dt > 0.0 else 1.0
        due = self._deadlines.due(now_ns, pace)
        self._skipped += due.skipped
        max_step = MAX_SIMULATED_STEP if simulated else MAX_STEP
        return Step(
            now,
            min(len(due.stamps), max_step) * self._period,
            jump,
            due.stamps,
            due.next_ns,
        )

    def take_deadline(self) -> int:
        """Return the next deadline [ns] while simulated time is stalled, and mark it served."""
        return self._deadlines.take()

    def take_skipped(self) -> int:
        """Return the number of deadlines skipped since the last call."""
        skipped, self._skipped = self._skipped, 0
        return skipped

    def _begin(self, now_ns: int, wall: float, *, simulated: bool) -> None:
        origin = 0
        if not simulated:
            late = 0.0 if self._deadline is None else max(wall - self._deadline(), 0.0)
            origin = now_ns - round(late * 1e9)
        self._deadlines.begin(origin, now_ns)
