# SPDX-License-Identifier: Apache-2.0
"""LLVM instructions on one type of value: a number, or several side by side in a SIMD register.

Everything that depends on the element type (double or float) and on the number of lanes is here, so
that the same expression graph becomes scalar double, ``<8 x double>`` or ``<16 x float>``.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

# contract: a * b + c may become one fused instruction. nsz: the sign of a zero is ignored. Flags
# that assume finite numbers are omitted on purpose: NaN inputs must give NaN results.
FLAGS = "contract nsz"


@dataclass(frozen=True)
class Lanes:
    """The type of values in generated code."""

    element: str = "double"
    """``double`` (float64) or ``float`` (float32)."""
    count: int = 1
    """Number of configurations side by side; a power of two."""

    @property
    def bits(self) -> int:
        """Size of an element [bit]."""
        return 64 if self.element == "double" else 32

    @property
    def type(self) -> str:
        """The LLVM type of a value."""
        return self.element if self.count == 1 else f"<{self.count} x {self.element}>"

    @property
    def integer_type(self) -> str:
        """The LLVM type of integers of the same size."""
        return f"i{self.bits}" if self.count == 1 else f"<{self.count} x i{self.bits}>"

    @property
    def suffix(self) -> str:
        """The type's suffix in names of LLVM intrinsics."""
        return f"f{self.bits}" if self.count == 1 else f"v{self.count}f{self.bits}"

    def constant(self, value: float) -> str:
        """Return a number in all lanes as an LLVM constant."""
        if self.element == "float":
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        # LLVM writes floats, too, as the bits of a double.
        literal = f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
        return self._filled(self.element, literal)

    def whole(self, value: int) -> str:
        """Return an integer in all lanes as an LLVM constant."""
        return self._filled(f"i{self.bits}", str(value))

    def _filled(self, type_name: str, literal: str) -> str:
        if self.count == 1:
            return literal
        return "<" + ", ".join([f"{type_name} {literal}"] * self.count) + ">"


class Writer:
    """Writes the instructions of one function; each method returns the name of its result."""

    def __init__(self, lanes: Lanes, lines: list[str] | None = None, prefix: str = "v") -> None:
        self.lanes = lanes
        self.lines: list[str] = [] if lines is None else lines
        self._prefix = prefix
        self._count = 0

    def emit(self, instruction: str) -> str:
        """Write an instruction and return the name of its result."""
        self._count += 1
        name = f"%{self._prefix}{self._count}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def binary(self, name: str, a: str, b: str) -> str:
        """Add, subtract, multiply or divide (``fadd``, ``fsub``, ``fmul``, ``fdiv``)."""
        return self.emit(f"{name} {FLAGS} {self.lanes.type} {a}, {b}")

    def exact(self, name: str, a: str, b: str) -> str:
        """Like :meth:`binary`, but rounded as written, never fused."""
        return self.emit(f"{name} {self.lanes.type} {a}, {b}")

    def negated(self, a: str) -> str:
        """Return ``-a``."""
        return self.emit(f"fneg {self.lanes.type} {a}")

    def root(self, a: str) -> str:
        """Return the square root of ``a``."""
        t = self.lanes.type
        return self.emit(f"call {t} @llvm.sqrt.{self.lanes.suffix}({t} {a})")

    def size(self, a: str) -> str:
        """Return the absolute value of ``a``."""
        t = self.lanes.type
        return self.emit(f"call {t} @llvm.fabs.{self.lanes.suffix}({t} {a})")

    def fused(self, a: str, b: str, c: str) -> str:
        """Return ``a * b + c``, rounded once."""
        t = self.lanes.type
        return self.emit(f"call {t} @llvm.fma.{self.lanes.suffix}({t} {a}, {t} {b}, {t} {c})")

    def integer(self, name: str, a: str, b: str) -> str:
        """Return the result of an integer operation."""
        return self.emit(f"{name} {self.lanes.integer_type} {a}, {b}")

    def as_integer(self, a: str) -> str:
        """Return the bits of ``a``."""
        return self.emit(f"bitcast {self.lanes.type} {a} to {self.lanes.integer_type}")

    def as_real(self, a: str) -> str:
        """Return the number with the bits of ``a``."""
        return self.emit(f"bitcast {self.lanes.integer_type} {a} to {self.lanes.type}")

    def power_of_two(self, shifted: str) -> str:
        """Return ``2**n`` for ``shifted = SHIFTS[element] + n``, see ``formulas.ops.SHIFTS``.

        Its lowest bits are n; with the exponent's bias they become the exponent.
        """
        place, bias = (52, 1023) if self.lanes.element == "double" else (23, 127)
        exponent = self.integer("shl", self.as_integer(shifted), self.lanes.whole(place))
        return self.as_real(self.integer("add", exponent, self.lanes.whole(bias << place)))

    def where(self, condition: str, a: str, b: str) -> str:
        """Return ``a`` in the lanes where ``condition`` is true, else ``b``."""
        t, n = self.lanes.type, self.lanes.count
        bools = "i1" if n == 1 else f"<{n} x i1>"
        return self.emit(f"select {bools} {condition}, {t} {a}, {t} {b}")

    def address(self, base: str, index: int) -> str:
        """Return the address of an element of an array."""
        return self.emit(f"getelementptr {self.lanes.element}, ptr {base}, i64 {index}")

    def load(self, address: str) -> str:
        """Return the value at an address, without alignment requirements."""
        return self.emit(f"load {self.lanes.type}, ptr {address}, align {self.lanes.bits // 8}")

    def store(self, value: str, address: str) -> None:
        """Write a value to an address, without alignment requirements."""
        align = self.lanes.bits // 8
        self.lines.append(f"  store {self.lanes.type} {value}, ptr {address}, align {align}")

    def joined(self, numbers: Sequence[str]) -> str:
        """Return one value with the given numbers as lanes; further lanes are undefined."""
        if self.lanes.count == 1:
            return numbers[0]
        value = "poison"
        for lane, number in enumerate(numbers):
            element = f"{self.lanes.element} {number}"
            value = self.emit(f"insertelement {self.lanes.type} {value}, {element}, i64 {lane}")
        return value

    def lane(self, value: str, index: int) -> str:
        """Return the number in one lane."""
        if self.lanes.count == 1:
            return value
        return self.emit(f"extractelement {self.lanes.type} {value}, i64 {index}")

    def transposed(self, values: Sequence[str]) -> list[str]:
        """Return the transpose of a square block: as many values as there are lanes.

        Lane i of value k becomes lane k of value i, in log2(lanes) rounds that swap blocks.
        """
        turned, step = list(values), 1
        while step < self.lanes.count:
            for low in range(self.lanes.count):
                if not low & step:
                    high = low + step
                    turned[low], turned[high] = self._swapped(turned[low], turned[high], step)
            step *= 2
        return turned

    def _swapped(self, a: str, b: str, step: int) -> tuple[str, str]:
        """Exchange the odd blocks of ``a`` with the even blocks of ``b``."""
        n = self.lanes.count
        low = [k if not k & step else n + k - step for k in range(n)]
        high = [k + step if not k & step else n + k for k in range(n)]
        return self._shuffled(a, b, low), self._shuffled(a, b, high)

    def _shuffled(self, a: str, b: str, picks: Sequence[int]) -> str:
        t, mask = self.lanes.type, ", ".join(f"i32 {p}" for p in picks)
        return self.emit(f"shufflevector {t} {a}, {t} {b}, <{len(picks)} x i32> <{mask}>")
