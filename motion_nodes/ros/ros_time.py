# SPDX-License-Identifier: Apache-2.0
"""ROS time for a control loop: /clock is polled, steps are bounded, jumps and stops are seen."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rclpy.node import Node

from motion_nodes.ros.polled import take_all

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
            messages = take_all(subscription)
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
    """ROS time since the last tick, not negative and bounded [s]."""
    wall_dt: float
    """Wall time since the last tick, bounded in the same way [s]."""
    jump: tuple[float, float] | None
    """Time before and after, where it went back or leapt ahead [s]."""


class StepClock:
    """Measures the steps of a loop."""

    def __init__(self, source: RosTime, period: float) -> None:
        """Begin now, for a loop of ``period`` [s]."""
        self._source = source
        self._period = period
        self._before = 0.0
        self._wall_before = time.monotonic()

    def step(self) -> Step:
        """Return the step from the last call to now."""
        now, wall = self._source.now_ns() * 1e-9, time.monotonic()
        before, self._before = self._before, now
        wall_dt, self._wall_before = wall - self._wall_before, wall
        periods = LONGEST_SIMULATED_STEP if self._source.simulated else LONGEST_STEP
        dt, jump = now - before, None
        if before == 0.0:
            # The first tick, or the first /clock: time begins here.
            dt = 0.0
        elif dt < 0.0 or dt > JUMP + 2.0 * LONGEST_SIMULATED_STEP * wall_dt:
            dt, jump = 0.0, (before, now)
        return Step(
            now, min(dt, periods * self._period), min(wall_dt, LONGEST_STEP * self._period), jump
        )
