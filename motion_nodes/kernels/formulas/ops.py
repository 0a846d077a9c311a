# SPDX-License-Identifier: Apache-2.0
"""Operations that formulas use besides ``+``, ``-`` and ``*``.

A formula takes an object with these methods and values that it accepts:

* an :class:`~motion_nodes.kernels.expression_graph.ExpressionGraph` with symbols, which records the
  operations for generated code;
* :class:`NumpyOps` with numbers or arrays, which evaluates them;
* :class:`MotionOps` with moving values, which differentiates
  them with respect to time.

Moving values carry their first and second derivative. Evaluated on moving values, a formula yields
its value and both derivatives along the motion, by the chain rule of second order (truncated Taylor
series). Source: Griewank and Walther, Evaluating Derivatives (2008), chapter 13. Vectors are lists
of values, and matrices lists of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

SHIFTS = {"double": 1.5 * 2.0**52, "float": 1.5 * 2.0**23}
"""By LLVM's name of an element type: adding it rounds a number to an integer, because numbers of
this magnitude have no fractional bits."""
TINY = 1e-9
"""Lengths below this count as zero [m]."""
Vector = list[Any]
Matrix = list[list[Any]]


class Ops(Protocol):
    """The operations; a value is a number, an array, a symbol or a moving value."""

    @property
    def element(self) -> str:
        """LLVM's name of the element type that formulas are evaluated in."""

    def absolute(self, x: Any) -> Any:
        """Return the absolute value."""

    def root(self, x: Any) -> Any:
        """Return the square root."""

    def divide(self, a: Any, b: Any) -> Any:
        """Return ``a / b``."""

    def less(self, a: Any, b: Any) -> Any:
        """Return the condition ``a < b``, for :meth:`choose`; false for NaN."""

    def choose(self, condition: Any, a: Any, b: Any) -> Any:
        """Return ``a`` where a condition is true, else ``b``."""

    def minimum(self, a: Any, b: Any) -> Any:
        """Return the minimum."""

    def maximum(self, a: Any, b: Any) -> Any:
        """Return the maximum."""

    def power_of_two(self, shifted: Any) -> Any:
        """Return ``2**n`` for ``shifted = SHIFTS[element] + n`` with an integer n."""


class NumpyOps:
    """The operations on numbers and arrays."""

    absolute = staticmethod(np.abs)
    root = staticmethod(np.sqrt)
    divide = staticmethod(np.divide)
    less = staticmethod(np.less)
    choose = staticmethod(np.where)
    minimum = staticmethod(np.minimum)
    maximum = staticmethod(np.maximum)

    element = "double"

    @staticmethod
    def power_of_two(shifted: Any) -> Any:
        """Return ``2**n`` for ``shifted = SHIFTS["double"] + n`` with an integer n."""
        return np.exp2(shifted - SHIFTS["double"])


NUMPY: Ops = NumpyOps()
"""Operations on numbers and arrays."""


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


def dot(a: Iterable[Any], b: Iterable[Any]) -> Any:
    """Return the dot product."""
    total: Any = 0.0
    for x, y in zip(a, b, strict=True):
        total = total + x * y
    return total


def times_matrix(A: Matrix, B: Matrix) -> Matrix:
    """Return the matrix product."""
    columns = transposed(B)
    return [[dot(row, column) for column in columns] for row in A]


def times_vector(A: Matrix, b: Sequence[Any]) -> Vector:
    """Return the matrix-vector product."""
    return [dot(row, b) for row in A]


def transposed(A: Matrix) -> Matrix:
    """Return the transpose."""
    return [list(column) for column in zip(*A, strict=True)]


def plus(a: Sequence[Any], b: Sequence[Any]) -> Vector:
    """Return the sum of two vectors."""
    return [x + y for x, y in zip(a, b, strict=True)]


def minus(a: Sequence[Any], b: Sequence[Any]) -> Vector:
    """Return the difference of two vectors."""
    return [x - y for x, y in zip(a, b, strict=True)]


def scaled(factor: Any, a: Sequence[Any]) -> Vector:
    """Return a vector times a number."""
    return [factor * x for x in a]


def cross(a: Sequence[Any], b: Sequence[Any]) -> Vector:
    """Return the cross product."""
    return [
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    ]


def factorized(ops: Ops, A: Matrix, least: float | None = None) -> tuple[Matrix, Vector, Vector]:
    """Return the factorization L D L^T of a symmetric positive definite matrix, shape (n, n).

    Args:
        ops: operations.
        A: the matrix; only its lower half is used.
        least: minimum pivot; smaller ones are raised to it. None: no minimum.

    Returns:
        L (below its unit diagonal), the inverse pivots 1 / D, and the pivots before raising them.

    Source: Golub and Van Loan, Matrix Computations, algorithm 4.1.1.
    """
    n = len(A)
    L: Matrix = [[0.0] * n for _ in range(n)]
    inverse: Vector = []
    pivots: Vector = []
    for j in range(n):
        scaled_row = [L[j][k] for k in range(j)]  # L[j][k] still holds L D
        pivot = A[j][j]
        for k in range(j):
            factor = scaled_row[k] * inverse[k]
            pivot = pivot - factor * scaled_row[k]
            L[j][k] = factor
        pivots.append(pivot)
        inverse.append(ops.divide(1.0, pivot if least is None else ops.maximum(pivot, least)))
        for i in range(j + 1, n):
            total = A[i][j]
            for k in range(j):
                total = total - L[i][k] * L[j][k]
            L[i][j] = total
    return L, inverse, pivots


def solved(L: Matrix, inverse: Vector, b: Sequence[Any]) -> Vector:
    """Return the solution of ``L D L^T x = b``; see :func:`factorized`."""
    n = len(b)
    x: Vector = list(b)
    for i in range(n):
        for k in range(i):
            x[i] = x[i] - L[i][k] * x[k]
    x = [value * inverse[i] for i, value in enumerate(x)]
    for i in reversed(range(n)):
        for k in range(i + 1, n):
            x[i] = x[i] - L[k][i] * x[k]
    return x
