# SPDX-License-Identifier: Apache-2.0
"""Limits the command of a policy to its range in training, and its rate of change."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.model.tree import Array


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
        self._max = np.asarray(max_command, dtype=np.float64)
        self._rate = np.asarray(max_rate, dtype=np.float64)
        if self._max.ndim != 1 or self._max.shape != self._rate.shape:
            raise InvalidConfig(
                f"max_command has {self._max.size} values, max_command_rate {self._rate.size}; "
                "both must have the size of the command",
                field="max_command",
            )
        if not (self._max > 0.0).all() or not (self._rate > 0.0).all():
            raise InvalidConfig("max_command and max_command_rate must be above zero")
        self.reset()

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
        """Set the target, clipped to the range.

        Raises:
            InvalidCommand: another length, or values that are not finite; nothing changes.
        """
        values = np.asarray(command, dtype=np.float64)
        if values.shape != self._max.shape or not np.isfinite(values).all():
            raise InvalidCommand(
                f"a command must be {self._max.size} finite numbers, got {values.tolist()}"
            )
        self._target = values.clip(-self._max, self._max)

    def step(self, dt: float) -> Array:
        """Return the command after a time [s], shape (m,)."""
        change = dt * self._rate
        self._value = self._value + (self._target - self._value).clip(-change, change)
        return self.value
