# SPDX-License-Identifier: Apache-2.0
"""The latched stop of the suite: the copy of each node, and the merge of copies.

Every node has its own copy, so that a stop does not depend on a single process. A copy contains two
times that only increase: of the newest stop, and of the newest stop that was resumed. The suite is
stopped while the first is later. The merge is the maximum of each, so that lost, repeated, late or
reordered messages never cancel a stop; only a resume of that stop does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from motion_nodes.errors import InvalidCommand

MAX_TIME = 2**63 - 1
"""[ns] Max time; later times are rejected."""
MAX_REASON = 200
"""Max length of a stored reason."""
REST_TIME = 0.05
"""[s] Min time at rest before a robot is reported at rest."""


@dataclass(frozen=True)
class StopState:
    """One copy of the latch.

    Raises:
        InvalidCommand: times that are not 0 <= resumed <= stopped.
    """

    stopped_ns: int = 0
    """Time of the newest stop [ns], 0 before the first."""
    resumed_ns: int = 0
    """Time of the newest stop that was resumed [ns]."""
    reason: str = ""
    """Source and reason of the stop."""

    def __post_init__(self) -> None:
        if not 0 <= self.resumed_ns <= self.stopped_ns <= MAX_TIME:
            raise InvalidCommand(
                f"stop at {self.stopped_ns} ns, resumed up to {self.resumed_ns} ns: a resume "
                f"belongs to a known stop, and times are from 0 to {MAX_TIME}"
            )

    @property
    def stopped(self) -> bool:
        """Whether the stop is active."""
        return self.stopped_ns > self.resumed_ns

    def stop(self, now_ns: int, reason: str) -> StopState:
        """Return the state after a stop.

        Args:
            now_ns: time at which the stop was sent [ns], equal for all receivers; a repeated stop
                has no effect, and a clock that was set back does not cancel one.
            reason: source and reason of the stop; the first one is kept until a resume.
        """
        if now_ns == self.stopped_ns or (self.stopped and now_ns < self.stopped_ns):
            return self
        time_ns = min(max(now_ns, self.stopped_ns + 1), MAX_TIME)
        kept = self.reason if self.stopped else reason[:MAX_REASON]
        return StopState(time_ns, min(self.resumed_ns, time_ns - 1), kept)

    def resume(self) -> StopState:
        """Return the state after a resume of all received stops."""
        return replace(self, resumed_ns=self.stopped_ns)

    def merge(self, other: StopState) -> StopState:
        """Return the merged state of two copies."""
        stopped_ns = max(self.stopped_ns, other.stopped_ns)
        resumed_ns = max(self.resumed_ns, other.resumed_ns)
        own = self.stopped_ns > resumed_ns or self.stopped_ns >= other.stopped_ns
        return StopState(stopped_ns, resumed_ns, self.reason if own else other.reason[:MAX_REASON])


class RestTimer:
    """Measures the time of a robot from a stop to rest."""

    def __init__(self) -> None:
        self._begin: float | None = None
        self._still: float | None = None
        self.seconds: float | None = None
        """Time from the stop to rest [s]; None while the robot moves."""
        self.fault = ""
        """Reason why the state of the robot is unknown; empty if it is known."""

    @property
    def waiting(self) -> bool:
        """Whether a stopped robot is not at rest yet."""
        return self._begin is not None and self.seconds is None

    def start(self, now: float) -> None:
        """Record a stop; ``now`` is the robot's time [s]."""
        self._begin, self._still, self.seconds, self.fault = now, None, None, ""

    def update(self, now: float, *, still: bool, fault: str = "") -> None:
        """Update whether the robot is at rest.

        Args:
            now: time, on the clock of :meth:`start` [s].
            still: whether its reference and its measured state are at rest.
            fault: reason why this is unknown; empty if it is known.
        """
        if self._begin is None or self.seconds is not None:
            return
        self.fault = fault
        if now < self._begin:
            # Time was set back.
            self._begin = now
        if fault or not still:
            self._still = None
        elif self._still is None or now < self._still:
            self._still = now
        elif now - self._still >= REST_TIME:
            self.seconds = self._still - self._begin
