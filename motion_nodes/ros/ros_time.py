# SPDX-License-Identifier: Apache-2.0
"""ROS time for a control loop: /clock is polled, steps are bounded, jumps and stops are seen."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rclpy.node import Node

from motion_nodes.control.deadlines import Deadlines
from motion_nodes.ros.concurrency.polled_subscription import take_all

STANDS_AFTER = 0.5
"""[s] Simulated time that did not advance for so long (by the wall clock) counts as standing."""

LONGEST_STEP = 2.0
"""[periods] A loop that was kept waiting goes on gently instead of making up for it in one step."""

LONGEST_SIMULATED_STEP = 10.0
"""[periods] As above for simulated time, which may run up to ten times as fast."""

JUMP = 1.0
"""[s] Time that ran ahead by more than this (and more than the wall clock explains) has jumped."""


class RosTime:
    """A node's ROS time, safe to be read from several threads."""

    def __init__(self, node: Node) -> None:
        """Keep the time of ``node``, which need not be built yet."""
        self._node = node
        self._lock = threading.Lock()
        self._feed: tuple[Any, Callable[[Any], None]] | None = None
        self._newest = -1
        self._moved_at = time.monotonic()

    def follow(self, subscription: Any, feed: Callable[[Any], None]) -> None:
        """Take /clock from a polled subscription and hand its newest message to ``feed``."""
        with self._lock:
            self._feed = (subscription, feed)

    def unfollow(self, subscription: Any) -> None:
        """Forget a subscription that is about to be destroyed."""
        with self._lock:
            if self._feed is not None and self._feed[0] is subscription:
                self._feed = None

    def now_ns(self) -> int:
        """ROS time [ns]; simulated time where ``use_sim_time`` is set."""
        with self._lock:
            if self._feed is None:
                # What the node's clock reads then, at a tenth of the cost.
                return time.time_ns()
            subscription, feed = self._feed
            # There is no time before 0: rclpy raises on it.
            messages = [m for m in take_all(subscription) if m.clock.sec >= 0]
            if messages:
                feed(messages[-1])
            now = int(self._node.get_clock().now().nanoseconds)
            if now != self._newest:
                self._newest = now
                self._moved_at = time.monotonic()
        return now

    @property
    def simulated(self) -> bool:
        """True when time comes from /clock."""
        return self._feed is not None and bool(self._node.get_clock().ros_time_is_active)

    @property
    def stands(self) -> bool:
        """True when simulated time had not advanced for :data:`STANDS_AFTER` of wall time.

        Looked at together with :meth:`now_ns`, which a loop calls in each tick.
        """
        return self.simulated and time.monotonic() - self._moved_at > STANDS_AFTER


@dataclass(frozen=True)
class Step:
    """What a loop's tick has to know of time."""

    now: float
    """ROS time [s]."""
    dt: float
    """What the loop advances by: whole periods of ROS time, bounded [s]."""
    wall_dt: float
    """Wall time since the last tick, bounded [s]."""
    jump: tuple[float, float] | None
    """Time before and after, where it went back or leapt ahead [s]."""
    stamps: tuple[int, ...] = ()
    """[ns] The loop's deadlines in ROS time that this tick has to serve, oldest first.

    What leads a robot computes and sends one reference for each, a period further than the one
    before: none where the next deadline has not come, several where the loop was late or simulated
    time ran ahead."""
    next_ns: int = 0
    """[ns] The first of them, or the one to come."""


class StepClock:
    """Measures the steps of a loop: its deadlines in ROS time, each of which is served once.

    In simulated time they are the multiples of the period; else those of the loop itself.
    """

    def __init__(
        self, source: RosTime, period: float, deadline: Callable[[], float] | None = None
    ) -> None:
        """Begin now.

        Args:
            source: ROS time.
            period: of the loop [s].
            deadline: returns the deadline of the tick under way [s of ``time.monotonic()``]; None:
                it is on time.
        """
        self._source = source
        self._period = period
        self._deadline = deadline
        self._deadlines = Deadlines(period)
        self._before = 0
        self._wall_before = time.monotonic()
        self._skipped = 0

    def step(self) -> Step:
        """Return the step from the last call to now."""
        now_ns, wall = self._source.now_ns(), time.monotonic()
        simulated = self._source.simulated
        before, self._before = self._before, now_ns
        wall_dt, self._wall_before = wall - self._wall_before, wall
        now, elapsed, jump = now_ns * 1e-9, (now_ns - before) * 1e-9, None
        # A system clock that is set back by less than a period is waited for.
        leapt = elapsed > JUMP + 2.0 * LONGEST_SIMULATED_STEP * wall_dt
        back = elapsed < 0.0 if simulated else elapsed < -self._period
        if before == 0 or back or leapt:
            # At the first tick, or the first /clock, time begins; else it begins anew.
            self._begin(now_ns, wall, simulated=simulated)
            jump = None if before == 0 else (before * 1e-9, now)
        pace = elapsed / wall_dt if simulated and wall_dt > 0.0 else 1.0
        due = self._deadlines.due(now_ns, pace)
        self._skipped += due.skipped
        longest = LONGEST_SIMULATED_STEP if simulated else LONGEST_STEP
        return Step(
            now,
            min(len(due.stamps), longest) * self._period,
            min(wall_dt, LONGEST_STEP * self._period),
            jump,
            due.stamps,
            due.next_ns,
        )

    def take_deadline(self) -> int:
        """Return the next deadline [ns] while time stands; it is not due again later."""
        return self._deadlines.take()

    def take_skipped(self) -> int:
        """Return how many deadlines were skipped since the last call."""
        skipped, self._skipped = self._skipped, 0
        return skipped

    def _begin(self, now_ns: int, wall: float, *, simulated: bool) -> None:
        origin = 0
        if not simulated:
            late = 0.0 if self._deadline is None else max(wall - self._deadline(), 0.0)
            origin = now_ns - round(late * 1e9)
        self._deadlines.begin(origin, now_ns)
