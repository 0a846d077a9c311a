# SPDX-License-Identifier: Apache-2.0
"""Operations that formulas use besides ``+``, ``-`` and ``*``.

A formula takes an object with these methods and values that it accepts:

* an :class:`~motion_nodes.kernels.expression_graph.ExpressionGraph` with symbols, which records the
  operations for generated code;
* :class:`NumpyOps` with numbers or arrays, which evaluates them;
* :class:`~motion_nodes.kernels.formulas.motion.MotionOps` with moving values, which differentiates
  them with respect to time.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

SHIFTS = {"double": 1.5 * 2.0**52, "float": 1.5 * 2.0**23}
"""By LLVM's name of an element type: adding it rounds a number to an integer, because numbers of
this magnitude have no fractional bits."""


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
