# SPDX-License-Identifier: Apache-2.0
"""Classification of one process of the suite: alive, wedged, unreachable or starved.

Inputs are observations of the supervisor: heartbeats on a pipe, echoes over DDS, and the process
accounting of the kernel. All times are passed in, on the clock of the supervisor.

Messages that processes receive are compared, to detect one that a publisher does not reach. Over
shared memory, the middleware may lose the connection of one publisher to one process for good: if
its port is judged dead while the process is starved, publishers that start later write to another
one. Both processes run and answer others, so only a comparison of receivers shows it.

Restarts are bounded in number within a time window, as by systemd's StartLimitBurst and Interval.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from motion_nodes.bringup.node_specs import NodeSpec
from motion_nodes.errors import InvalidConfig

FRESH = 1.0
"""Max time between two messages with which a topic counts as received without interruption [s]."""
BUSY_SHARE = 0.5
"""Fraction of a silence with computation or waiting for a processor above which it is busy."""
OVERLOADED = 0.8
"""CPU pressure of the machine above which a late process is not replaced at once."""
STOPPED_BY = "stopped by a signal or a debugger"
STOPPED_STATES = "Tt"
"""States in /proc/PID/stat of a process stopped by a signal or a debugger."""


@dataclass(frozen=True)
class MissedStream:
    """A topic that one process no longer receives, and another one does."""

    topic: str
    seconds: float
    """Time for which the other process has received messages and this one has not [s]."""
    receiver: str
    """Name of a process that receives it."""


@dataclass
class _Reception:
    newest: float
    """Newest reported time of a message, on the clock of the process [s]."""
    silent: float
    """Time of the last message, or of the first report [s]."""
    arrived: float = -math.inf
    """Time of the last message [s]; a first report does not count as one."""
    flowing: float = math.inf
    """Time since which messages arrive without interruption [s]."""

    def update(self, newest: float, now: float) -> None:
        """Record a report."""
        if newest <= self.newest:
            return
        if now - self.arrived > FRESH:
            self.flowing = now
        self.newest, self.silent, self.arrived = newest, now, now


class StreamComparison:
    """Receptions by process and topic."""

    def __init__(self) -> None:
        self._receptions: dict[str, dict[str, _Reception]] = {}

    def update(self, process: str, received: Mapping[str, float], now: float) -> None:
        """Record what a process has received.

        Args:
            process: its name.
            received: time of the newest message by topic, of all topics that it polls now [s].
            now: time [s].
        """
        before = self._receptions.get(process, {})
        receptions = self._receptions[process] = {}
        for topic, newest in received.items():
            receptions[topic] = before.get(topic) or _Reception(newest, now)
            receptions[topic].update(newest, now)

    def forget(self, process: str) -> None:
        """Remove a process that has ended."""
        self._receptions.pop(process, None)

    def missed(self, process: str, now: float) -> MissedStream | None:
        """Return the topic that a process misses for the longest time; None without one.

        Only the time counts in which the other process received messages without interruption:
        after a pause of the publisher, reports of one process come before those of another.
        """
        found = [
            MissedStream(topic, now - max(own.silent, others[topic].flowing), receiver)
            for topic, own in self._receptions.get(process, {}).items()
            for receiver, others in self._receptions.items()
            if topic in others and now - others[topic].arrived <= FRESH
        ]
        found = [missed for missed in found if missed.seconds > FRESH]
        return max(found, key=lambda missed: missed.seconds, default=None)


@dataclass(frozen=True)
class RestartLimits:
    """Limits of the restarts of a process.

    Raises:
        InvalidConfig: a negative count, a window that is not above 0, or no delay.
    """

    burst: int = 3
    """Max restarts within the window; 0: none."""
    window: float = 60.0
    """Length of the window; earlier restarts are ignored [s]."""
    delays: tuple[float, ...] = (0.2, 1.0, 2.0)
    """Delay before the first, second, ... of these restarts; the last for all further ones [s]."""

    def __post_init__(self) -> None:
        if self.burst < 0:
            raise InvalidConfig(f"burst is {self.burst}; it must be 0 or more", field="burst")
        if not 0.0 < self.window < float("inf"):
            raise InvalidConfig(f"window is {self.window:g} s; it must be above 0", field="window")
        if not self.delays or not all(0.0 <= delay < float("inf") for delay in self.delays):
            raise InvalidConfig(
                f"delays are {self.delays}; give one or more of at least 0 s", field="delays"
            )


class RestartBudget:
    """Counts the restarts of one process."""

    def __init__(self, limits: RestartLimits) -> None:
        self.limits = limits
        self._times: deque[float] = deque()
        self.total = 0
        """Total number of restarts."""

    def used(self, now: float) -> int:
        """Return the restarts within the window before ``now`` [s]."""
        while self._times and now - self._times[0] > self.limits.window:
            self._times.popleft()
        return len(self._times)

    def take(self, now: float) -> float | None:
        """Consume one restart of the budget.

        Args:
            now: time [s].

        Returns:
            The delay before it [s]; None if the budget of the window is exhausted.
        """
        used = self.used(now)
        if used >= self.limits.burst:
            return None
        self._times.append(now)
        self.total += 1
        return self.limits.delays[min(used, len(self.limits.delays) - 1)]


class Condition(Enum):
    """Fault of a process."""

    STOPPED = "stopped"
    """Stopped by a signal (SIGSTOP) or a debugger."""
    WEDGED = "wedged"
    """No heartbeat, and no processor time is used: a deadlock, or blocked in the kernel."""
    BUSY = "busy"
    """No heartbeat, but processor time is used: native code that holds the GIL."""
    STARVED = "starved"
    """No heartbeat, and threads wait for a processor."""
    STALLED = "stalled"
    """The loop of a node does not tick, or its executor does not serve requests."""
    UNREACHABLE = "unreachable"
    """Heartbeats on the pipe, but no echo over DDS."""
    DEAF = "deaf"
    """Messages of a publisher do not arrive, though another process receives them."""


@dataclass(frozen=True)
class HealthLimits:
    """Timeouts of the classification [s].

    Raises:
        InvalidConfig: a timeout is not above 0.
    """

    silence: float = 2.0
    """Max time without a heartbeat."""
    stall: float = 2.0
    """Max delay of a tick of a node's loop."""
    reach: float = 2.0
    """Max time without an echo over DDS, after the first one."""
    deaf: float = 10.0
    """Max time without a message that another process receives."""
    executor: float = 30.0
    """Max time in which the executor does not serve its queue, outside lifecycle transitions."""
    overload: float = 10.0
    """A busy or starved process, and any that is late on an overloaded machine, is replaced only
    after this time: another one would compete for the same processors."""
    start: float = 60.0
    """Max time from the start of a process to its first heartbeat."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0.0 < value < float("inf"):
                raise InvalidConfig(
                    f"timeout {name} is {value:g} s; it must be above 0", field=name
                )


@dataclass(frozen=True)
class Activity:
    """Process accounting of the kernel since the start of a process."""

    state: str = "S"
    """State letter of /proc/PID/stat."""
    computed: float = 0.0
    """Processor time of all threads [s]."""
    waited: float = 0.0
    """Total time for which threads waited for a processor [s]."""
    runnable: bool = False
    """Whether a thread runs or waits for a processor now."""
    pressure: float = 0.0
    """Fraction of the last seconds in which threads of the machine waited for a processor."""


@dataclass(frozen=True)
class Heartbeat:
    """Self-report of a process, sent several times a second."""

    overdue: float = 0.0
    """Delay of the next tick of the most overdue loop [s]."""
    node: str = ""
    """Full name of that loop's node."""
    executor: float = 0.0
    """Time for which the executor has not served its queue [s]; 0 in lifecycle transitions."""


@dataclass(frozen=True)
class HealthFinding:
    """Fault that was found in a process."""

    condition: Condition
    text: str
    """Observation."""
    replace: bool
    """Whether to replace the process now."""


class ProcessHealth:
    """Observations of one process, and its diagnosis."""

    def __init__(self, limits: HealthLimits, now: float) -> None:
        """Begin at the start of the process.

        Args:
            limits: timeouts.
            now: time of the start [s].
        """
        self._limits = limits
        self._started = now
        self._last_beat: float | None = None
        self._heartbeat = Heartbeat()
        self._samples: list[tuple[float, Activity]] = []
        self._unanswered = 0.0
        self._missed: MissedStream | None = None
        self._starved: float | None = None
        """Time at which it was last found without a processor [s]."""

    def heartbeat(self, heartbeat: Heartbeat, now: float) -> None:
        """Record a heartbeat at a time [s]."""
        self._last_beat, self._heartbeat = now, heartbeat
        self._samples.clear()

    def echo(self, age: float) -> None:
        """Record the age of the last echo over DDS [s]; 0: unknown."""
        self._unanswered = age

    def missed(self, stream: MissedStream | None) -> None:
        """Record the topic that the process does not receive; None: it receives all."""
        self._missed = stream

    @property
    def responded(self) -> bool:
        """Whether a heartbeat was received."""
        return self._last_beat is not None

    def silence(self, now: float) -> float:
        """Return the time since the newest heartbeat, or since the start [s]."""
        return now - (self._started if self._last_beat is None else self._last_beat)

    def finding(self, activity: Callable[[], Activity], now: float) -> HealthFinding | None:
        """Return the fault of the process; None without one.

        Args:
            activity: returns the process accounting of the kernel; called only without heartbeats.
            now: time [s].
        """
        silent, limits = self.silence(now), self._limits
        if self._last_beat is None:
            return self._starting(silent, activity)
        if silent > 0.5 * limits.silence:
            self._samples.append((now, activity()))
        if silent > limits.silence:
            found = self._silent(silent)
            if found.condition is Condition.STARVED:
                self._starved = now
            return found
        # Its loops are late for the same reason, and need time to catch up.
        if self._starved is not None and now - self._starved > limits.overload:
            self._starved = None
        return self._stalled(activity) or self._unreachable(activity) or self._deaf(activity)

    def _starting(self, silent: float, activity: Callable[[], Activity]) -> HealthFinding | None:
        text = f"no heartbeat within {silent:.0f} s of the start"
        if silent > self._limits.start:
            return HealthFinding(Condition.WEDGED, text, True)
        if silent > self._limits.overload and activity().state in STOPPED_STATES:
            return HealthFinding(Condition.STOPPED, f"{text}, {STOPPED_BY}", True)
        return None

    def _silent(self, silent: float) -> HealthFinding:
        text, late = f"no heartbeat for {silent:.1f} s", silent > self._limits.overload
        (begin, before), (end, last) = self._samples[0], self._samples[-1]
        if last.state in STOPPED_STATES:
            return HealthFinding(Condition.STOPPED, f"{text}, {STOPPED_BY}", True)
        computed = max(last.computed - before.computed, 0.0)
        # May decrease: the times of ended threads are not included.
        waited = max(last.waited - before.waited, 0.0)
        # The kernel adds a waiting time at its end.
        runnable = sum(activity.runnable for _, activity in self._samples) / len(self._samples)
        if computed > BUSY_SHARE * (end - begin):
            return HealthFinding(
                Condition.BUSY, f"{text}, {computed:.1f} s of processor time used", late
            )
        if waited > BUSY_SHARE * (end - begin) or runnable > BUSY_SHARE:
            return HealthFinding(
                Condition.STARVED, f"{text}, its threads wait for a processor", late
            )
        text = f"{text}, {computed:.1f} s of processor time used"
        return HealthFinding(Condition.WEDGED, text, late or last.pressure < OVERLOADED)

    def _stalled(self, activity: Callable[[], Activity]) -> HealthFinding | None:
        beat, limits = self._heartbeat, self._limits
        if beat.overdue > limits.stall:
            text = f"the loop of {beat.node} has not ticked for {beat.overdue:.1f} s"
            return self._late(Condition.STALLED, text, beat.overdue, activity())
        if beat.executor > limits.executor:
            text = f"services have not been served for {beat.executor:.0f} s"
            return self._late(Condition.STALLED, text, beat.executor, activity())
        return None

    def _unreachable(self, activity: Callable[[], Activity]) -> HealthFinding | None:
        if self._unanswered <= self._limits.reach:
            return None
        text = f"no echo over DDS for {self._unanswered:.1f} s, though the process runs"
        return self._late(Condition.UNREACHABLE, text, self._unanswered, activity())

    def _deaf(self, activity: Callable[[], Activity]) -> HealthFinding | None:
        missed, limit = self._missed, self._limits.deaf
        if missed is None or missed.seconds <= limit:
            return None
        text = (
            f"no message on {missed.topic} for {missed.seconds:.0f} s, "
            f"though {missed.receiver} receives them"
        )
        return self._late(Condition.DEAF, text, missed.seconds - limit, activity())

    def _late(
        self, condition: Condition, text: str, seconds: float, activity: Activity
    ) -> HealthFinding:
        overloaded = activity.pressure >= OVERLOADED or self._starved is not None
        return HealthFinding(condition, text, not overloaded or seconds > self._limits.overload)


class Watched:
    """State of one supervised process."""

    def __init__(self, nodes: Sequence[NodeSpec], budget: RestartLimits) -> None:
        self.nodes = tuple(nodes)
        self.budget = RestartBudget(budget)
        self.health: ProcessHealth | None = None
        """Observations of the process; None while it is not running."""
        self.finding: HealthFinding | None = None
        """Fault that was reported last."""
        self.delay = 0.0
        """Round-trip time of the newest echo over DDS [s]."""
        self.due: float | None = None
        """Time of the next restart [s]."""
        self.lost_at = 0.0
        """Time at which its loss was detected [s]."""
        self.last = ""
        """Reason of the last replacement."""
        self.unready: set[str] = set()
        """Nodes of a replaced process that are not ready yet."""
        self.failed_start = False
        """Whether a node reported that it cannot start."""
        self.down = ""
        """Why it is not restarted; empty if it is."""


def read_activity(pid: int, proc: Path = Path("/proc")) -> Activity:
    """Return the data of a process in /proc; an empty record if it has ended.

    Args:
        pid: process id.
        proc: mount point of procfs.
    """
    folder = proc / str(pid)
    try:
        # The command name in parentheses may itself contain spaces and parentheses.
        fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        tasks = list((folder / "task").iterdir())
        waited = sum(_waited(task / "schedstat") for task in tasks)
        runnable = any(_state(task / "stat") == "R" for task in tasks)
        computed = ticks / os.sysconf("SC_CLK_TCK")
        return Activity(fields[0], computed, waited, runnable, cpu_pressure(proc))
    except (OSError, ValueError, IndexError):
        return Activity()


def cpu_pressure(proc: Path = Path("/proc")) -> float:
    """Return the fraction of the last 10 s in which some thread waited for a processor.

    Pressure stall information of the kernel; 0 if unavailable.
    """
    try:
        first = (proc / "pressure" / "cpu").read_text().split()[1]
        return 0.01 * float(first.partition("avg10=")[2])
    except (OSError, ValueError, IndexError):
        return 0.0


def _state(file: Path) -> str:
    """Return the state of a thread; empty if it has ended."""
    try:
        return file.read_text(errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def _waited(file: Path) -> float:
    """Return the time that a thread waited for a processor [s]; 0 if unavailable."""
    try:
        return int(file.read_text().split()[1]) * 1e-9
    except (OSError, ValueError, IndexError):
        return 0.0
