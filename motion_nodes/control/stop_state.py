# SPDX-License-Identifier: Apache-2.0
"""The latched stop of a suite: what each node keeps of it, and how the copies of nodes are merged.

Every node keeps its own copy, so no single process is needed to stop. A copy holds two times that
only grow: that of the newest stop, and that of the newest stop that was resumed from. The suite is
stopped while the first is later. Merging takes the later of each, so messages that are lost,
repeated, late or out of order never undo a stop; only a resume that knew of that stop does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from motion_nodes.errors import InvalidCommand

MAX_TIME = 2**63 - 1
"""[ns] Later times are refused."""
MAX_REASON = 200
"""Characters of a reason that are kept."""
REST_TIME = 0.05
"""[s] Min time at rest before a robot is reported at rest."""


@dataclass(frozen=True)
class StopState:
    """One copy of the latch.

    Raises:
        InvalidCommand: for times that are not 0 <= resumed <= stopped.
    """

    stopped_ns: int = 0
    """Time of the newest stop [ns], 0 before the first."""
    resumed_ns: int = 0
    """Time of the newest stop that was resumed from [ns]."""
    reason: str = ""
    """Who stopped."""

    def __post_init__(self) -> None:
        """Check the times."""
        if not 0 <= self.resumed_ns <= self.stopped_ns <= MAX_TIME:
            raise InvalidCommand(
                f"stop at {self.stopped_ns} ns, resumed up to {self.resumed_ns} ns: a resume "
                f"belongs to a known stop, and times are from 0 to {MAX_TIME}"
            )

    @property
    def stopped(self) -> bool:
        """Whether nothing may move."""
        return self.stopped_ns > self.resumed_ns

    def stop(self, now_ns: int, reason: str) -> StopState:
        """Return the state after a stop.

        Args:
            now_ns: when the stop was sent [ns], so that all receivers agree; one that is known
                already changes nothing, and a clock that was set back does no harm.
            reason: who stopped; the first one stays until a resume.
        """
        if now_ns == self.stopped_ns or (self.stopped and now_ns < self.stopped_ns):
            return self
        time_ns = min(max(now_ns, self.stopped_ns + 1), MAX_TIME)
        kept = self.reason if self.stopped else reason[:MAX_REASON]
        return StopState(time_ns, min(self.resumed_ns, time_ns - 1), kept)

    def resume(self) -> StopState:
        """Return the state after a deliberate resume from all stops that are known."""
        return replace(self, resumed_ns=self.stopped_ns)

    def merge(self, other: StopState) -> StopState:
        """Return the merged state of two copies."""
        stopped_ns = max(self.stopped_ns, other.stopped_ns)
        resumed_ns = max(self.resumed_ns, other.resumed_ns)
        own = self.stopped_ns > resumed_ns or self.stopped_ns >= other.stopped_ns
        return StopState(stopped_ns, resumed_ns, self.reason if own else other.reason[:MAX_REASON])


class RestTimer:
    """Time of a robot from a stop to rest."""

    def __init__(self) -> None:
        """Begin without a stop."""
        self._begin: float | None = None
        self._still: float | None = None
        self.seconds: float | None = None
        """From the stop to rest [s]; None while it moves."""
        self.fault = ""
        """Why it is not known whether the robot rests; empty where it is."""

    @property
    def waiting(self) -> bool:
        """Whether a robot that was stopped does not rest yet."""
        return self._begin is not None and self.seconds is None

    def start(self, now: float) -> None:
        """Note a stop; ``now`` is the robot's time [s]."""
        self._begin, self._still, self.seconds, self.fault = now, None, None, ""

    def look(self, now: float, *, still: bool, fault: str = "") -> None:
        """Update whether the robot is at rest.

        Args:
            now: time, on the clock of :meth:`start` [s].
            still: whether neither its reference nor what was measured moves.
            fault: why that is not known; empty where it is.
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
