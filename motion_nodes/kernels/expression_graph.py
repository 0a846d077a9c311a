# SPDX-License-Identifier: Apache-2.0
"""Expression graphs: the operations that a formula needs, recorded from Python code.

Ordinary Python code runs on :class:`Symbol` objects instead of numbers; each operation on them is
recorded. Meanwhile the graph is simplified:

* operations between constants are evaluated (constant folding);
* ``0 * x``, ``1 * x`` and ``x + 0`` are not recorded;
* equal operations on equal operands are recorded once (common subexpression elimination);
* negation is an attribute of the symbol, so ``-x * y`` and ``x * y`` share their product.

The graph depends neither on robots nor on how it is executed.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass

from motion_nodes.kernels.formulas.ops import SHIFTS

Operand = int | float
"""Operand of an operation: the index (int) of an earlier operation, or a constant (float)."""


@dataclass(frozen=True)
class Operation:
    """One operation of a graph."""

    name: str
    """``input``, ``sin``, ``cos``, ``sqrt``, ``abs``, ``pow2``, ``add``, ``sub``, ``mul``, ``div``,
    ``less`` or ``choose``.
    """
    left: Operand
    """First operand; for ``input`` the index of the input."""
    right: Operand = 0.0
    """Second operand, if any."""
    condition: Operand = 0.0
    """For ``choose``, the ``less`` operation that selects the first operand where true."""


@dataclass(frozen=True)
class Symbol:
    """A value known only at run time: the result of an operation, or its negative."""

    tape: ExpressionGraph
    index: int
    """Index of the operation."""
    negative: bool = False

    def __neg__(self) -> Symbol:
        """Return the negative, which adds no operation."""
        return Symbol(self.tape, self.index, not self.negative)

    def __add__(self, other: Value) -> Value:
        """Return the sum."""
        return self.tape.add(self, other)

    __radd__ = __add__

    def __sub__(self, other: Value) -> Value:
        """Return the difference."""
        return self.tape.add(self, -other)

    def __rsub__(self, other: Value) -> Value:
        """Return the difference."""
        return self.tape.add(-self, other)

    def __mul__(self, other: Value) -> Value:
        """Return the product."""
        return self.tape.multiply(self, other)

    __rmul__ = __mul__


Value = Symbol | float
"""Value in formulas: a symbol, or a constant."""


class ExpressionGraph:
    """A growing list of unique operations."""

    def __init__(self, element: str = "double") -> None:
        """Create the graph of formulas that are evaluated in LLVM's type ``element``."""
        self.element = element
        self.operations: list[Operation] = []
        self._known: dict[tuple[object, ...], int] = {}

    def _write(
        self, name: str, left: Operand, right: Operand = 0.0, condition: Operand = 0.0
    ) -> Symbol:
        # The types are part of the key: in Python, operation 1 and the constant 1.0 are equal.
        key = (name, type(left), left, type(right), right, condition)
        index = self._known.get(key)
        if index is None:
            index = self._known[key] = len(self.operations)
            self.operations.append(Operation(name, left, right, condition))
        return Symbol(self, index)

    def _operand(self, x: Value) -> Operand:
        """Return a value as an operand, including its sign."""
        if not isinstance(x, Symbol):
            return float(x)
        return self._write("sub", 0.0, x.index).index if x.negative else x.index

    def digest(self, results: Iterable[Value]) -> str:
        """Return a hash of all operations and of some results."""
        signs = [(x.index, x.negative) if isinstance(x, Symbol) else float(x) for x in results]
        return hashlib.sha256(repr((self.operations, signs)).encode()).hexdigest()

    def input(self, index: int) -> Symbol:
        """Return the input with an index."""
        return self._write("input", index)

    def add(self, a: Value, b: Value) -> Value:
        """Return ``a + b``."""
        if not isinstance(a, Symbol):
            return self._shifted(b, a) if isinstance(b, Symbol) else a + b
        if not isinstance(b, Symbol):
            return self._shifted(a, b)
        if a.index == b.index and a.negative != b.negative:
            return 0.0
        if a.negative != b.negative:
            plus, minus = (b, a) if a.negative else (a, b)
            return self._write("sub", plus.index, minus.index)
        total = self._write("add", min(a.index, b.index), max(a.index, b.index))
        return -total if a.negative else total

    def _shifted(self, x: Symbol, by: float) -> Symbol:
        if by == 0.0:
            return x
        return self._write("sub" if x.negative else "add", float(by), x.index)

    def multiply(self, a: Value, b: Value) -> Value:
        """Return ``a * b``."""
        if not isinstance(a, Symbol):
            return self._stretched(b, a) if isinstance(b, Symbol) else a * b
        if not isinstance(b, Symbol):
            return self._stretched(a, b)
        product = self._write("mul", min(a.index, b.index), max(a.index, b.index))
        return -product if a.negative != b.negative else product

    def _stretched(self, x: Symbol, by: float) -> Value:
        if by == 0.0:
            return 0.0
        size = abs(float(by))
        product = Symbol(self, x.index) if size == 1.0 else self._write("mul", size, x.index)
        return -product if x.negative != (by < 0.0) else product

    def sine(self, x: Value) -> Value:
        """Return the sine of ``x`` [rad]."""
        if not isinstance(x, Symbol):
            return math.sin(x)
        sine = self._write("sin", x.index)
        return -sine if x.negative else sine

    def cosine(self, x: Value) -> Value:
        """Return the cosine of ``x`` [rad]."""
        return self._write("cos", x.index) if isinstance(x, Symbol) else math.cos(x)

    def divide(self, a: Value, b: Value) -> Value:
        """Return ``a / b``."""
        if not isinstance(b, Symbol):
            return a * (1.0 / b)
        if not isinstance(a, Symbol):
            quotient = self._write("div", float(a), b.index)
            return -quotient if b.negative else quotient
        quotient = self._write("div", a.index, b.index)
        return -quotient if a.negative != b.negative else quotient

    def root(self, x: Value) -> Value:
        """Return the square root of ``x``."""
        if not isinstance(x, Symbol):
            return math.sqrt(x)
        return self._write("sqrt", self._operand(x))

    def absolute(self, x: Value) -> Value:
        """Return the absolute value of ``x``."""
        return self._write("abs", x.index) if isinstance(x, Symbol) else abs(x)

    def less(self, a: Value, b: Value) -> Symbol:
        """Return the condition ``a < b``, for :meth:`choose`; false for NaN."""
        return self._write("less", self._operand(a), self._operand(b))

    def choose(self, condition: Symbol, a: Value, b: Value) -> Value:
        """Return ``a`` where a condition holds, else ``b``."""
        if a is b or (isinstance(a, float) and isinstance(b, float) and a == b):
            return a
        return self._write("choose", self._operand(a), self._operand(b), condition.index)

    def minimum(self, a: Value, b: Value) -> Value:
        """Return the minimum; ``b`` if one of them is NaN."""
        return self.choose(self.less(a, b), a, b)

    def maximum(self, a: Value, b: Value) -> Value:
        """Return the maximum; ``b`` if one of them is NaN."""
        return self.choose(self.less(b, a), a, b)

    def power_of_two(self, shifted: Value) -> Value:
        """Return ``2**n`` for ``shifted = SHIFTS[element] + n`` with an integer n."""
        if not isinstance(shifted, Symbol):
            return math.exp2(shifted - SHIFTS[self.element])
        return self._write("pow2", self._operand(shifted))


@dataclass(frozen=True)
class Program:
    """A finished graph: from ``input_count`` numbers to one or more arrays of numbers."""

    tape: ExpressionGraph
    input_count: int
    outputs: tuple[tuple[Value, ...], ...]
    """Elements of each output array, in memory order."""

    def live(self) -> list[int]:
        """Return the indices of the operations that any output depends on, in ascending order."""
        desired = {v.index for values in self.outputs for v in values if isinstance(v, Symbol)}
        for index in range(len(self.tape.operations) - 1, -1, -1):
            operation = self.tape.operations[index]
            if index in desired and operation.name != "input":
                operands = (operation.left, operation.right, operation.condition)
                desired.update(x for x in operands if isinstance(x, int))
        return sorted(desired)
