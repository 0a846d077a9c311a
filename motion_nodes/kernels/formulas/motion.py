# SPDX-License-Identifier: Apache-2.0
"""Time derivatives of formulas: values that carry their first and second derivative.

Evaluated on moving values, a formula yields its value and both derivatives along the motion, by the
chain rule of second order (truncated Taylor series). Source: Griewank and Walther, Evaluating
Derivatives (2008), chapter 13.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from motion_nodes.kernels.formulas.ops import Ops

TINY = 1e-9
"""Lengths below this count as zero [m]."""


@dataclass(frozen=True)
class Moving:
    """A value that changes with time; constant derivatives of 0.0 cost nothing."""

    value: Any
    rate: Any = 0.0
    """First time derivative."""
    bend: Any = 0.0
    """Second time derivative."""

    def __add__(self, other: Any) -> Moving:
        """Return the sum."""
        b = moving(other)
        return Moving(self.value + b.value, self.rate + b.rate, self.bend + b.bend)

    __radd__ = __add__

    def __neg__(self) -> Moving:
        """Return the negative."""
        return Moving(-self.value, -self.rate, -self.bend)

    def __sub__(self, other: Any) -> Moving:
        """Return the difference."""
        b = moving(other)
        return Moving(self.value - b.value, self.rate - b.rate, self.bend - b.bend)

    def __rsub__(self, other: Any) -> Moving:
        """Return the difference."""
        return moving(other) - self

    def __mul__(self, other: Any) -> Moving:
        """Return the product."""
        b = moving(other)
        twice = 2.0 * (self.rate * b.rate)
        return Moving(
            self.value * b.value,
            self.value * b.rate + self.rate * b.value,
            self.value * b.bend + twice + self.bend * b.value,
        )

    __rmul__ = __mul__


def moving(x: Any) -> Moving:
    """Return a moving value; anything else becomes one that is constant in time."""
    return x if isinstance(x, Moving) else Moving(x)


class MotionOps:
    """Operations on moving values; conditions and choices are those of their values."""

    def __init__(self, ops: Ops) -> None:
        self._ops = ops
        self.element = ops.element

    def absolute(self, x: Any) -> Moving:
        """Return the absolute value; at zero with the derivatives of a positive number."""
        a = moving(x)
        negative = self._ops.less(a.value, 0.0)
        value = self._ops.absolute(a.value)
        return Moving(value, *(self._pick(negative, -d, d) for d in (a.rate, a.bend)))

    def root(self, x: Any) -> Moving:
        """Return the square root; below ``TINY`` its derivatives are bounded."""
        a, ops = moving(x), self._ops
        length = ops.root(a.value)
        inverse = ops.divide(1.0, ops.maximum(length, TINY))
        rate = 0.5 * a.rate * inverse
        return Moving(length, rate, (0.5 * a.bend - rate * rate) * inverse)

    def divide(self, a: Any, b: Any) -> Moving:
        """Return ``a / b`` for a nonzero divisor."""
        x, y = moving(a), moving(b)
        inverse = self._ops.divide(1.0, y.value)
        value = x.value * inverse
        rate = (x.rate - value * y.rate) * inverse
        return Moving(value, rate, (x.bend - 2.0 * (rate * y.rate) - value * y.bend) * inverse)

    def less(self, a: Any, b: Any) -> Any:
        """Return the condition ``a < b`` of the values."""
        return self._ops.less(moving(a).value, moving(b).value)

    def choose(self, condition: Any, a: Any, b: Any) -> Moving:
        """Return ``a`` where a condition is true, else ``b``."""
        x, y = moving(a), moving(b)
        return Moving(
            self._pick(condition, x.value, y.value),
            self._pick(condition, x.rate, y.rate),
            self._pick(condition, x.bend, y.bend),
        )

    def minimum(self, a: Any, b: Any) -> Moving:
        """Return the minimum; if both are equal, with the derivatives of the first."""
        return self._extremum(self._ops.minimum, a, b, self._ops.less(*self._ordered(a, b)))

    def maximum(self, a: Any, b: Any) -> Moving:
        """Return the maximum; if both are equal, with the derivatives of the first."""
        return self._extremum(self._ops.maximum, a, b, self._ops.less(*self._ordered(b, a)))

    def power_of_two(self, shifted: Any) -> Moving:
        """Return the power of two, which is piecewise constant."""
        return moving(self._ops.power_of_two(moving(shifted).value))

    @staticmethod
    def _ordered(a: Any, b: Any) -> tuple[Any, Any]:
        # If both are equal, as for a point level with the centre of a sphere, the first one counts:
        # maximum(|x| - 0, 0) is |x|.
        return moving(a).value, moving(b).value + TINY

    def _extremum(self, extremum: Any, a: Any, b: Any, first: Any) -> Moving:
        x, y = moving(a), moving(b)
        value = extremum(x.value, y.value)
        return Moving(value, self._pick(first, x.rate, y.rate), self._pick(first, x.bend, y.bend))

    def _pick(self, condition: Any, a: Any, b: Any) -> Any:
        same = isinstance(a, float) and isinstance(b, float) and a == b
        return a if same else self._ops.choose(condition, a, b)
