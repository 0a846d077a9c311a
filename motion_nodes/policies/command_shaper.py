# SPDX-License-Identifier: Apache-2.0
"""Limits the command of a policy to its range in training, and its rate of change."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.typing import Array


class CommandShaper:
    """Follows a target command within its limits."""

    def __init__(self, max_command: ArrayLike, max_rate: ArrayLike) -> None:
        """Start at zero.

        Args:
            max_command: max magnitudes, such as of vx, vy [m/s] and wz [rad/s], shape (m,).
            max_rate: max rates of change [1/s of these], shape (m,).

        Raises:
            InvalidConfig: different lengths, or limits that are not above zero.
        """
        self.set_limits(max_command, max_rate)
        self.reset()

    def set_limits(self, max_command: ArrayLike, max_rate: ArrayLike) -> None:
        """Change the limits; the command continues, and returns into its range at the new rate.

        Args:
            max_command: see the constructor.
            max_rate: see the constructor.

        Raises:
            InvalidConfig: different lengths, or limits that are not above zero.
        """
        most = np.asarray(max_command, dtype=np.float64)
        rate = np.asarray(max_rate, dtype=np.float64)
        if most.ndim != 1 or most.shape != rate.shape:
            raise InvalidConfig(
                f"max_command has {most.size} values, max_command_rate {rate.size}; "
                "both must have the size of the command",
                field="max_command",
            )
        if not (most > 0.0).all() or not (rate > 0.0).all():
            raise InvalidConfig("max_command and max_command_rate must be above zero")
        self._max, self._rate = most, rate

    @property
    def value(self) -> Array:
        """The current command, shape (m,)."""
        return self._value.copy()

    @property
    def moving(self) -> bool:
        """Whether target or current command is not zero."""
        return bool(self._target.any() or self._value.any())

    def reset(self) -> None:
        """Return to zero at once."""
        self._target = np.zeros_like(self._max)
        self._value = np.zeros_like(self._max)

    def set_target(self, command: ArrayLike) -> None:
        """Set the target, which is clipped to the range.

        Raises:
            InvalidCommand: another length, or values that are not finite; nothing changes.
        """
        values = np.asarray(command, dtype=np.float64)
        if values.shape != self._max.shape or not np.isfinite(values).all():
            raise InvalidCommand(
                f"a command must be {self._max.size} finite numbers, got {values.tolist()}"
            )
        self._target = values.copy()

    def step(self, dt: float) -> Array:
        """Return the command after a time [s], shape (m,)."""
        change, target = dt * self._rate, self._target.clip(-self._max, self._max)
        self._value = self._value + (target - self._value).clip(-change, change)
        return self.value
