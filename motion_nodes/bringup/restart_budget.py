# SPDX-License-Identifier: Apache-2.0
"""A bounded number of restarts in a time window, as systemd's StartLimitBurst and Interval."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from motion_nodes.errors import InvalidConfig


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
        """Validate the numbers."""
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
        """Create without restarts."""
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
