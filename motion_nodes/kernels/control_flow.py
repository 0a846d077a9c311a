# SPDX-License-Identifier: Apache-2.0
"""Loops and branches of LLVM code, written with Python's ``with``.

Loop-carried values are declared at the beginning of a loop (``carried``), so that the text contains
the phi instructions that keep them in registers; no LLVM pass is needed to find them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from motion_nodes.kernels.simd import Lanes, Writer

Carried = tuple[str, str]
"""Type and initial value of a loop-carried value."""


class Turn:
    """One iteration of a loop, or the body of a branch; after its end, the resulting values."""

    def __init__(self, index: str, carried: dict[str, Carried], end: str) -> None:
        self.index = index
        """Index of the iteration, or of the bit; i64."""
        self.types = {name: kind for name, (kind, _) in carried.items()}
        self.values: dict[str, str] = {}
        self.end = end
        """Label of the following block."""
        self.exits: list[tuple[dict[str, str], str]] = []

    def __getitem__(self, name: str) -> str:
        return self.values[name]

    def __setitem__(self, name: str, value: str) -> None:
        assert name in self.types
        self.values[name] = value


class FunctionBuilder(Writer):
    """Writes a function with loops and branches."""

    def __init__(self, lanes: Lanes) -> None:
        super().__init__(lanes, ["entry:"])
        self._block = "entry"
        self._labels = 0

    def label(self, stem: str) -> str:
        """Return an unused label."""
        self._labels += 1
        return f"{stem}{self._labels}"

    def begin(self, label: str) -> None:
        """Begin a block."""
        self.lines.append(f"{label}:")
        self._block = label

    def branch(self, condition: str, yes: str, no: str) -> None:
        """End a block with a conditional branch."""
        self.lines.append(f"  br i1 {condition}, label %{yes}, label %{no}")

    def go(self, label: str) -> None:
        """End a block with a jump."""
        self.lines.append(f"  br label %{label}")

    def ret(self, kind: str, value: str) -> None:
        """Return from the function with a value."""
        self.lines.append(f"  ret {kind} {value}")

    def return_if(self, condition: str, kind: str, value: str) -> None:
        """Return from the function if a condition holds."""
        leave, stay = self.label("leave"), self.label("stay")
        self.branch(condition, leave, stay)
        self.begin(leave)
        self.ret(kind, value)
        self.begin(stay)

    @contextmanager
    def loop(self, count: str, **carried: Carried) -> Iterator[Turn]:
        """Write a loop of ``count`` iterations (i64, may be 0 or negative)."""
        some = self.emit(f"icmp sgt i64 {count}, 0")
        with self._cycle(some, "0", carried) as (turn, closing):
            yield turn
            following = self.emit(f"add i64 {turn.index}, 1")
            closing += [following, self.emit(f"icmp slt i64 {following}, {count}")]

    @contextmanager
    def bits(self, mask: str, **carried: Carried) -> Iterator[Turn]:
        """Write a loop over the set bits of an i64, lowest first."""
        some = self.emit(f"icmp ne i64 {mask}, 0")
        with self._cycle(some, mask, carried) as (turn, closing):
            left = turn.index
            turn.index = self.emit(f"call i64 @llvm.cttz.i64(i64 {left}, i1 true)")
            yield turn
            others = self.emit(f"and i64 {left}, {self.emit(f'sub i64 {left}, 1')}")
            closing += [others, self.emit(f"icmp ne i64 {others}, 0")]

    @contextmanager
    def _cycle(
        self, some: str, first: str, carried: dict[str, Carried]
    ) -> Iterator[tuple[Turn, list[str]]]:
        before, head, end = self._block, self.label("loop"), self.label("end")
        self.branch(some, head, end)
        self.begin(head)
        at = len(self.lines)
        turn = Turn(self._name(), carried, end)
        index = turn.index
        heads = {name: self._name() for name in carried}
        turn.values = dict(heads)
        closing: list[str] = []
        yield turn, closing
        following, more = closing
        latch = self._block
        self.branch(more, head, end)
        phis = [f"  {index} = phi i64 [{first}, %{before}], [{following}, %{latch}]"]
        for name, (kind, start) in carried.items():
            last = turn.values[name]
            phis.append(f"  {heads[name]} = phi {kind} [{start}, %{before}], [{last}, %{latch}]")
        self.lines[at:at] = phis
        self.begin(end)
        ways = [({n: start for n, (_, start) in carried.items()}, before)]
        self._join(turn, [*ways, (dict(turn.values), latch), *turn.exits])

    def leave_if(self, turn: Turn, condition: str) -> None:
        """Break out of a loop with the current values."""
        stay = self.label("stay")
        turn.exits.append((dict(turn.values), self._block))
        self.branch(condition, turn.end, stay)
        self.begin(stay)

    @contextmanager
    def when(self, condition: str, **carried: Carried) -> Iterator[Turn]:
        """Write a block that runs only if a condition holds."""
        before, then, end = self._block, self.label("then"), self.label("end")
        self.branch(condition, then, end)
        self.begin(then)
        turn = Turn("", carried, end)
        turn.values = {name: start for name, (_, start) in carried.items()}
        first = dict(turn.values)
        yield turn
        last = self._block
        self.go(end)
        self.begin(end)
        self._join(turn, [(first, before), (dict(turn.values), last)])

    def _join(self, turn: Turn, ways: list[tuple[dict[str, str], str]]) -> None:
        for name, kind in turn.types.items():
            options = ", ".join(f"[{values[name]}, %{block}]" for values, block in ways)
            turn.values[name] = self.emit(f"phi {kind} {options}")

    def _name(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def splat(self, number: str) -> str:
        """Return a scalar broadcast to all lanes."""
        t, n = self.lanes.type, self.lanes.count
        one = self.emit(f"insertelement {t} poison, {self.lanes.element} {number}, i64 0")
        zeros = ", ".join(["i32 0"] * n)
        return self.emit(f"shufflevector {t} {one}, {t} poison, <{n} x i32> <{zeros}>")

    def at(self, base: str, index: str | int, kind: str = "float") -> str:
        """Return the address of an element of an array."""
        return self.emit(f"getelementptr {kind}, ptr {base}, i64 {index}")

    def get(self, base: str, index: str | int, kind: str = "float") -> str:
        """Return an element of an array."""
        return self.emit(f"load {kind}, ptr {self.at(base, index, kind)}")

    def times(self, a: str | int, b: str | int) -> str:
        """Return the product of two i64."""
        return self.emit(f"mul i64 {a}, {b}")

    def plus(self, a: str | int, b: str | int) -> str:
        """Return the sum of two i64."""
        return self.emit(f"add i64 {a}, {b}")

    def compare(self, condition: str, a: str, b: str) -> str:
        """Return the lanes in which a condition holds, as bits of an i64, lane 0 lowest."""
        return self.mask(self.emit(f"fcmp {condition} {self.lanes.type} {a}, {b}"))

    def mask(self, held: str) -> str:
        """Return booleans of lanes as bits of an i64."""
        n = self.lanes.count
        bits = self.emit(f"bitcast <{n} x i1> {held} to i{n}")
        return self.emit(f"zext i{n} {bits} to i64")

    def greater(self, a: str, b: str) -> str:
        """Return the maximum of two values."""
        t = self.lanes.type
        return self.where(self.emit(f"fcmp ogt {t} {a}, {b}"), a, b)

    def smaller(self, a: str, b: str) -> str:
        """Return the minimum of two values."""
        t = self.lanes.type
        return self.where(self.emit(f"fcmp olt {t} {a}, {b}"), a, b)

    def sum_of_squares(self, *values: str) -> str:
        """Return the sum of the squares of values."""
        total = self.binary("fmul", values[0], values[0])
        for value in values[1:]:
            total = self.fused(value, value, total)
        return total

    def function(self, name: str, kind: str, arguments: str, linkage: str = "internal ") -> str:
        """Return the text of the function."""
        body = "\n".join(self.lines)
        return f"define {linkage}{kind} @{name}({arguments}) nounwind {{\n{body}\n}}\n"
