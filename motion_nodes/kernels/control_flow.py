# SPDX-License-Identifier: Apache-2.0
"""Functions with loops and branches in LLVM code, written with Python's ``with``.

Loop-carried values are declared at the beginning of a loop (``carried``), so that the text contains
the phi instructions that keep them in registers; no LLVM pass is needed to find them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from motion_nodes.kernels.ir_value import IrValue, Number, Pointer
from motion_nodes.kernels.simd import Lanes, Writer

_Values = dict[str, IrValue]


class Turn:
    """One iteration of a loop, or the body of a branch; after its end, the resulting values."""

    def __init__(self, index: IrValue, carried: _Values, end: str) -> None:
        self.index = index
        """Index of the iteration or of the bit, i64."""
        self.values = dict(carried)
        self.end = end
        """Label of the following block."""
        self.exits: list[tuple[_Values, str]] = []

    def __getitem__(self, name: str) -> IrValue:
        return self.values[name]

    def __setitem__(self, name: str, value: IrValue) -> None:
        assert name in self.values
        self.values[name] = value


class FunctionBuilder(Writer):
    """Writes a function."""

    def __init__(self, lanes: Lanes | None = None, /, **arguments: str) -> None:
        """Begin a function.

        Args:
            lanes: the type of values of formulas; default: a float64 number.
            arguments: LLVM type of each argument, by name, in order.
        """
        super().__init__(lanes or Lanes(), ["entry:"])
        self._arguments = arguments
        self._block: str | None = "entry"
        self._labels = 0
        self._result = "void"

    def argument(self, name: str) -> IrValue:
        """Return an argument."""
        return IrValue(self, self._arguments[name], f"%{name}")

    def pointer(self, text: str, target: str = "double") -> Pointer:
        """Return an address, or the argument of this name, of values of a type."""
        if text in self._arguments:
            text = f"%{text}"
        return self._address(text).of(target)

    def _address(self, text: str) -> Pointer:
        address = IrValue(self, "ptr", text)
        assert isinstance(address, Pointer)
        return address

    def value(self, kind: str, instruction: str) -> IrValue:
        """Write an instruction and return its result."""
        return IrValue(self, kind, self.emit(instruction))

    def typed(self, text: str) -> IrValue:
        """Return an operand of the type of formulas."""
        return IrValue(self, self.lanes.type, text)

    def constant(self, number: float) -> IrValue:
        """Return a number in all lanes of the type of formulas."""
        return self.typed(self.lanes.constant(number))

    def whole(self, number: int) -> IrValue:
        """Return an i64 constant."""
        return IrValue(self, "i64", str(number))

    def allocated(self, count: Number, target: str = "double", align: int = 8) -> Pointer:
        """Allocate ``count`` elements on the function's stack; return their address."""
        return self.pointer(self.emit(f"alloca {target}, i64 {count}, align {align}"), target)

    def call(self, kind: str, name: str, *arguments: IrValue | int) -> IrValue:
        """Call a function, by name or address; integers are passed as i64."""
        typed = (x if isinstance(x, IrValue) else self.whole(x) for x in arguments)
        function = name if isinstance(name, Pointer) else f"@{name}"
        text = f"call {kind} {function}({', '.join(f'{x.kind} {x}' for x in typed)})"
        if kind != "void":
            return self.value(kind, text)
        self.lines.append(f"  {text}")
        return IrValue(self, kind, "")

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

    def ret(self, value: IrValue | None = None) -> None:
        """Return from the function."""
        self._result = "void" if value is None else value.kind
        self.lines.append("  ret void" if value is None else f"  ret {value.kind} {value}")
        self._block = None

    def return_if(self, condition: str, value: IrValue | None = None) -> None:
        """Return from the function if a condition is true."""
        leave, stay = self.label("leave"), self.label("stay")
        self.branch(condition, leave, stay)
        self.begin(leave)
        self.ret(value)
        self.begin(stay)

    @contextmanager
    def loop(self, count: Number, **carried: IrValue) -> Iterator[Turn]:
        """Write a loop of ``count`` iterations; none if it is 0 or negative."""
        some = self.emit(f"icmp sgt i64 {count}, 0")
        with self._cycle(some, "0", carried) as (turn, closing):
            index = turn.index
            yield turn
            following = index + 1
            closing += [following, self.emit(f"icmp slt i64 {following}, {count}")]

    @contextmanager
    def bits(self, mask: IrValue, **carried: IrValue) -> Iterator[Turn]:
        """Write a loop over the set bits of an i64, lowest first."""
        with self._cycle(mask.differs(0), mask, carried) as (turn, closing):
            left = turn.index
            turn.index = left.lowest()
            yield turn
            others = left & (left - 1)
            closing += [others, others.differs(0)]

    @contextmanager
    def _cycle(self, some: str, first: str, carried: _Values) -> Iterator[tuple[Turn, list[str]]]:
        before, head, end = self._block, self.label("loop"), self.label("end")
        assert before is not None
        self.branch(some, head, end)
        self.begin(head)
        at = len(self.lines)
        heads = {name: IrValue(self, x.kind, self._name()) for name, x in carried.items()}
        turn = Turn(IrValue(self, "i64", self._name()), heads, end)
        index = turn.index
        closing: list[str] = []
        yield turn, closing
        following, more = closing
        latch = self._block
        assert latch is not None
        self.branch(more, head, end)
        phis = [f"  {index} = phi i64 [{first}, %{before}], [{following}, %{latch}]"]
        for name, start in carried.items():
            ways = f"[{start}, %{before}], [{turn[name]}, %{latch}]"
            phis.append(f"  {heads[name]} = phi {start.kind} {ways}")
        self.lines[at:at] = phis
        self.begin(end)
        self._join(turn, [(dict(carried), before), (dict(turn.values), latch), *turn.exits])

    def leave_if(self, turn: Turn, condition: str) -> None:
        """Break out of a loop with the current values if a condition is true."""
        stay = self.label("stay")
        assert self._block is not None
        turn.exits.append((dict(turn.values), self._block))
        self.branch(condition, turn.end, stay)
        self.begin(stay)

    @contextmanager
    def when(self, condition: str, **carried: IrValue) -> Iterator[Turn]:
        """Write a block that runs only if a condition is true; it may end with :meth:`ret`."""
        before, then, end = self._block, self.label("then"), self.label("end")
        assert before is not None
        self.branch(condition, then, end)
        self.begin(then)
        turn = Turn(IrValue(self, "i64", ""), carried, end)
        yield turn
        ways = [(dict(carried), before)]
        if self._block is not None:
            ways.append((dict(turn.values), self._block))
            self.lines.append(f"  br label %{end}")
        self.begin(end)
        self._join(turn, ways)

    @contextmanager
    def cases(self, choice: IrValue, numbers: list[int]) -> Iterator[Iterator[int]]:
        """Write a switch: per number a block that ends with :meth:`ret`; the default follows it."""
        labels = {number: self.label("case") for number in numbers}
        other = self.label("other")
        ways = " ".join(f"{choice.kind} {k}, label %{label}" for k, label in labels.items())
        self.lines.append(f"  switch {choice.kind} {choice}, label %{other} [ {ways} ]")

        def begun() -> Iterator[int]:
            for number, label in labels.items():
                self.begin(label)
                yield number

        yield begun()
        self.begin(other)

    def _join(self, turn: Turn, ways: list[tuple[_Values, str]]) -> None:
        for name, value in turn.values.items():
            options = ", ".join(f"[{values[name]}, %{block}]" for values, block in ways)
            turn.values[name] = self.value(value.kind, f"phi {value.kind} {options}")

    def _name(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def function(self, name: str, linkage: str = "internal ") -> str:
        """Return the text of the function; without a final :meth:`ret` it returns void."""
        if self._block is not None:
            self.ret()
        arguments = ", ".join(f"{kind} %{argument}" for argument, kind in self._arguments.items())
        body = "\n".join(self.lines)
        return f"define {linkage}{self._result} @{name}({arguments}) nounwind {{\n{body}\n}}\n"
