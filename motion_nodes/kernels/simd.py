# SPDX-License-Identifier: Apache-2.0
"""The type of values in generated code: a number, or several side by side in a SIMD register.

What depends on the element type (double or float) and on the number of lanes is here and in
:class:`~motion_nodes.kernels.llvm_builder.Writer`, so that the same expression graph becomes scalar
double, ``<8 x double>`` or ``<16 x float>``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass


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
