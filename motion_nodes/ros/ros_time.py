# SPDX-License-Identifier: Apache-2.0
"""ROS time for a control loop: polls /clock, bounds time steps, detects jumps and stalls.

A stream of references has deadlines k * T, independent of when a thread wakes up. When a thread
wakes up late, or simulated time arrives in bursts, several deadlines are due at once. Each deadline
gets its own sample and stamp, in order, so that the motion is uniform both for receivers that count
samples and for receivers that use stamps.
"""

from __future__ import annotations

import math
import os
import struct
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile
from rosgraph_msgs.msg import Clock

from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.messages.cdr import LITTLE_ENDIAN, InvalidMessage, message_in, read_stamp

MAX_CATCH_UP = 0.1
"""[s] Deadlines missed by a longer stall are skipped; receivers of the stream have stopped."""
MIN_CATCH_UP = 10
"""Min number of late periods that are served."""
STALL_TIMEOUT = 0.5
"""[s] Wall time without advance of simulated time after which it counts as stalled."""
MAX_STEP = 2.0
"""[periods] Max time step, so that a delayed loop does not catch up in one step."""
MAX_SIMULATED_STEP = 10.0
"""[periods] The same for simulated time, which may run at up to ten times real time."""
JUMP = 1.0
"""[s] An advance of more than this, and more than wall time explains, is a jump."""


class Due(NamedTuple):
    """Deadlines due at a wake-up."""

    stamps: tuple[int, ...]
    """Stamps [ns], oldest first, one period apart; empty if none is due."""
    next_ns: int
    """First deadline not served before this wake-up, due or not [ns]."""
    skipped: int
    """Number of skipped deadlines, between ``next_ns`` and the first of ``stamps``."""


class Deadlines:
    """Serves each deadline of a grid once, in order.

    After a stall longer than :data:`MAX_CATCH_UP` only the newest deadline is due and the others
    are skipped: a reference that advances by one period per sample resumes where it was, delayed.
    """

    def __init__(self, period: float) -> None:
        """Create a grid of ``period`` [s]; :meth:`begin` sets its origin."""
        if not 0.0 < period < math.inf:
            raise ValueError(f"period is {period} s; it must be finite and above 0")
        self._period_ns = period * 1e9
        self._origin = 0
        self._next = 0

    def begin(self, origin_ns: int, now_ns: int) -> None:
        """Set the origin of the grid; the first deadline after ``now_ns`` is next."""
        self._origin = origin_ns
        self._next = self._last_due(now_ns) + 1

    @property
    def next_ns(self) -> int:
        """First deadline not served yet [ns]."""
        return self._stamp(self._next)

    def due(self, now_ns: int, pace: float = 1.0) -> Due:
        """Return the deadlines up to ``now_ns`` that were not served before.

        A time that runs backwards is not an error: nothing is due until the next deadline.

        Args:
            now_ns: time [ns].
            pace: rate of this clock relative to wall time; stalls are measured in wall time.
        """
        first = self._next
        next_ns = self._stamp(first)
        if now_ns < next_ns:
            return Due((), next_ns, 0)
        if now_ns < self._stamp(first + 1):  # the usual case
            self._next = first + 1
            return Due((next_ns,), next_ns, 0)
        last = self._last_due(now_ns)
        count = last - first + 1
        most = max(MIN_CATCH_UP, MAX_CATCH_UP * max(pace, 1.0) / (self._period_ns * 1e-9))
        skipped = 0 if count <= most + 1e-6 else count - 1
        self._next = last + 1
        stamps = tuple(self._stamp(k) for k in range(first + skipped, last + 1))
        return Due(stamps, stamps[0], skipped)

    @property
    def grid(self) -> tuple[int, int, float]:
        """Origin [ns], index of the next deadline, and period [ns]."""
        return self._origin, self._next, self._period_ns

    def serve_up_to(self, index: int) -> None:
        """Mark the deadlines before an index as served."""
        self._next = index

    def take(self) -> int:
        """Serve the next deadline early, for work that continues while the clock is paused."""
        self._next += 1
        return self._stamp(self._next - 1)

    def _stamp(self, k: int) -> int:
        return self._origin + round(k * self._period_ns)

    def _last_due(self, now_ns: int) -> int:
        """Return the index of the newest deadline not after ``now_ns``."""
        k = math.floor((now_ns - self._origin) / self._period_ns)
        # The quotient is rounded; stamps are whole nanoseconds.
        if self._stamp(k + 1) <= now_ns:
            return k + 1
        return k if self._stamp(k) <= now_ns else k - 1


class ClockReader:
    """Newest time on /clock; thread-safe."""

    def __init__(self, subscription: Any) -> None:
        """Read a polled subscription to serialized messages."""
        self._subscription = subscription
        self.lock = threading.Lock()
        """Held while the subscription is used."""
        self._newest, self._arrived = -1, -math.inf

    @property
    def handle(self) -> Any:
        """The handle of the subscription."""
        return self._subscription.handle

    @property
    def newest_ns(self) -> int:
        """The newest time so far [ns]; -1 before the first message."""
        return self._newest

    def note(self, newest_ns: int) -> None:
        """Note a time that was taken by other means [ns]; within :attr:`lock`."""
        if newest_ns != self._newest:
            self._newest, self._arrived = newest_ns, time.monotonic()

    def read(self) -> tuple[int, float]:
        """Return the newest time [ns], and when it arrived on ``time.monotonic()`` [s].

        They are -1 and -infinity before the first message.
        """
        with self.lock:
            newest = self._subscription.newest_raw()
            if newest is not None:
                self._arrived = time.monotonic()
                stamp = _clock_ns(newest)
                if stamp >= 0:  # rclpy raises on negative times
                    self._newest = stamp
            return self._newest, self._arrived


class ProcessClocks:
    """Readers of /clock that the nodes of a process share; each exists while a node uses it.

    A message from another process costs its receiver time for each of its subscriptions, so hidden
    nodes own one subscription for all.
    """

    def __init__(self) -> None:
        self._used: dict[tuple[Any, ...], tuple[ClockReader, Node, list[Node]]] = {}
        self._lock = threading.Lock()

    def of(self, node: Node, topic: str, profile: QoSProfile) -> ClockReader:
        """Return the reader of a topic for a node, which must :meth:`release` it.

        Args:
            node: its context and its remappings apply.
            topic: name of the topic.
            profile: quality of service.
        """
        topic = node.resolve_topic_name(topic)
        key = (node.context, topic, profile.depth, profile.reliability, profile.durability)
        with self._lock:
            if key not in self._used:
                owner = Node(
                    f"_clock_{os.getpid()}",
                    context=node.context,
                    use_global_arguments=False,
                    enable_rosout=False,
                    start_parameter_services=False,
                    parameter_overrides=[Parameter("start_type_description_service", value=False)],
                )
                subscription = PolledSubscription[bytes](owner, Clock, topic, profile, raw=True)
                self._used[key] = ClockReader(subscription), owner, []
            found, _, users = self._used[key]
            users.append(node)
            return found

    def release(self, node: Node) -> None:
        """End the use of all readers by a node."""
        with self._lock:
            for key, (_, owner, users) in list(self._used.items()):
                users[:] = [user for user in users if user is not node]
                if not users:
                    del self._used[key]
                    owner.destroy_node()


CLOCKS = ProcessClocks()
"""Readers of this process."""


class RosTime:
    """ROS time of a node; thread-safe."""

    def __init__(self, node: Node) -> None:
        """Create the time of ``node``, which need not be initialized yet."""
        self._node = node
        self._lock = threading.Lock()
        self._feed: tuple[ClockReader, Callable[[int], None]] | None = None
        self._fed = self._newest = -1
        self._arrived = -math.inf
        self._moved_at = time.monotonic()

    def follow(self, clock: ClockReader, feed: Callable[[int], None]) -> None:
        """Use /clock.

        Args:
            clock: reader of /clock.
            feed: sets rclpy's clocks to a time [ns].
        """
        with self._lock:
            self._feed = (clock, feed)
            self._fed = self._newest = -1

    def unfollow(self, clock: ClockReader) -> None:
        """Drop a reader that the node no longer uses."""
        with self._lock:
            if self._feed is not None and self._feed[0] is clock:
                self._feed = None

    def now_ns(self) -> int:
        """ROS time [ns]; simulated time where ``use_sim_time`` is set."""
        with self._lock:
            if self._feed is None:
                # Equal to the node's clock then, at a tenth of the cost.
                return time.time_ns()
            reader, feed = self._feed
            now, self._arrived = reader.read()
            if now < 0:
                now = int(self._node.get_clock().now().nanoseconds)
            elif now != self._fed:
                self._fed = now
                feed(now)
            if now != self._newest:
                self._newest = now
                self._moved_at = time.monotonic()
            return self._newest

    @property
    def clock(self) -> ClockReader | None:
        """Reader of /clock; None if it is not used."""
        feed = self._feed
        return None if feed is None else feed[0]

    @property
    def arrived(self) -> float | None:
        """Time of the newest message of /clock on ``time.monotonic()`` [s]; None if not used."""
        return self._arrived if self.simulated else None

    @property
    def simulated(self) -> bool:
        """True if ROS time is that of /clock."""
        # rclpy subscribes to /clock exactly while the node's clock is a simulated one.
        return self._feed is not None

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
            now, min(len(due.stamps), max_step) * self._period, jump, due.stamps, due.next_ns
        )

    @property
    def grid(self) -> tuple[int, int, float]:
        """Origin [ns], index of the next deadline, and period [ns]."""
        return self._deadlines.grid

    def serve_up_to(self, index: int, now_ns: int) -> None:
        """Mark the deadlines before an index as served, at a time [ns]."""
        self._deadlines.serve_up_to(index)
        self._before, self._wall_before = now_ns, time.monotonic()

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


def command_time(stamp: float, now: float, timeout: float) -> tuple[float | None, str | None]:
    """Return the time of a command from its stamp.

    Args:
        stamp: stamp in the message's header [s]; 0 if not set.
        now: current time of this node [s].
        timeout: max age of a command [s].

    Returns:
        Time of the command [s], None if it is too old; and a warning, or None.
    """
    if stamp == 0.0 or now - timeout <= stamp <= now:
        return (stamp or now), None
    if stamp > now + timeout:
        return now, (
            f"a command's stamp is {stamp - now:.1f} s ahead of this node's time; the time of its "
            "arrival is used (is use_sim_time the same in both nodes?)"
        )
    if stamp > now:
        return now, None
    return None, (
        f"a command's stamp is {now - stamp:.1f} s old, more than the timeout of {timeout:g} s; "
        "ignored (is use_sim_time the same in both nodes?)"
    )
