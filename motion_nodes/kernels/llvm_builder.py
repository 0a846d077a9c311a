# SPDX-License-Identifier: Apache-2.0
"""Generated code written in Python: operands with its operators, loops and branches with ``with``.

``a * b + c`` writes a multiplication and an addition, ``(a < b).choose(a, b)`` a comparison and a
selection, lane by lane for vectors. Integers are signed, except in divisions and right shifts.
Operations on real numbers may be fused. Comparisons with NaN are false, except ``equals``,
``differs`` and ``below``.

Loop-carried values are declared at the beginning of a loop (``carried``), so that the text contains
the phi instructions that keep them in registers; no LLVM pass is needed to find them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from motion_nodes.kernels.simd import Lanes

# contract: a * b + c may become one fused instruction. nsz: the sign of a zero is ignored. Flags
# that assume finite numbers are omitted on purpose: NaN inputs must give NaN results.
FLAGS = "contract nsz"
Number = str | int | float
"""The name or literal of an operand, or a number."""
# Alignment of elements in memory [byte]; pairs of characters (i16) are unaligned.
_ALIGNMENT = {"i8": 1, "i16": 1, "i32": 4, "float": 4, "i64": 8, "double": 8, "ptr": 8}
_CASTS = {
    ("i64", "double"): "sitofp",
    ("i64", "float"): "sitofp",
    ("i32", "float"): "sitofp",
    ("double", "i64"): "fptosi",
    ("double", "float"): "fptrunc",
    ("float", "double"): "fpext",
    ("i32", "i64"): "sext",
    ("i64", "i8"): "trunc",
}


class IrValue(str):
    """An operand: its text, with its type and the function that it belongs to."""

    flow: FunctionBuilder
    kind: str
    """LLVM type: ``i64``, ``double``, ``<8 x float>``, ``ptr`` ..."""

    def __new__(cls, flow: FunctionBuilder, kind: str, text: str) -> IrValue:
        """Create the operand; one of type ``ptr`` is a :class:`Pointer`."""
        value = str.__new__(Pointer if kind == "ptr" else cls, text)
        value.flow, value.kind = flow, kind
        return value

    def __init__(self, *_: object) -> None:
        """Do nothing: ``__new__`` sets everything, because strings are immutable."""

    @property
    def element(self) -> str:
        """The type of one lane."""
        return self.kind.removesuffix(">").rpartition(" ")[2]

    @property
    def lane_count(self) -> int:
        """Number of lanes."""
        return int(self.kind[1:].partition(" ")[0]) if self.kind.startswith("<") else 1

    def _of(self, element: str) -> str:
        """Return the type with the same number of lanes of another element type."""
        return f"<{self.lane_count} x {element}>" if self.lane_count > 1 else element

    @property
    def _whole(self) -> bool:
        return self.element.startswith("i")

    def _literal(self, other: Number) -> str:
        if isinstance(other, str):
            return other
        if not self._whole:
            return Lanes(self.element, self.lane_count).constant(float(other))
        lanes = ", ".join([f"{self.element} {other}"] * self.lane_count)
        return f"<{lanes}>" if self.lane_count > 1 else str(other)

    def _with(self, whole: str, real: str, other: Number) -> IrValue:
        name = whole if self._whole else f"{real} {FLAGS}"
        return self.flow.value(self.kind, f"{name} {self.kind} {self}, {self._literal(other)}")

    def _compared(self, whole: str, real: str, other: Number) -> IrValue:
        test = f"icmp {whole}" if self._whole else f"fcmp {real}"
        return self.flow.value(self._of("i1"), f"{test} {self.kind} {self}, {self._literal(other)}")

    def __add__(self, other: Number) -> IrValue:
        return self._with("add", "fadd", other)

    def __sub__(self, other: Number) -> IrValue:
        return self._with("sub", "fsub", other)

    def __mul__(self, other: Number) -> IrValue:  # type: ignore[override]
        return self._with("mul", "fmul", other)

    def __floordiv__(self, other: Number) -> IrValue:
        """Return the quotient of nonnegative integers."""
        return self._with("udiv", "fdiv", other)

    def __truediv__(self, other: Number) -> IrValue:
        return self._with("udiv", "fdiv", other)

    def __and__(self, other: Number) -> IrValue:
        return self._with("and", "", other)

    def __or__(self, other: Number) -> IrValue:
        return self._with("or", "", other)

    def __xor__(self, other: Number) -> IrValue:
        return self._with("xor", "", other)

    def __lshift__(self, other: Number) -> IrValue:
        return self._with("shl", "", other)

    def __rshift__(self, other: Number) -> IrValue:
        return self._with("lshr", "", other)

    def __neg__(self) -> IrValue:
        return self.flow.value(self.kind, f"fneg {self.kind} {self}")

    def __invert__(self) -> IrValue:
        return self._with("xor", "", -1)

    def __lt__(self, other: Number) -> IrValue:  # type: ignore[override, misc]
        return self._compared("slt", "olt", other)

    def __le__(self, other: Number) -> IrValue:  # type: ignore[override, misc]
        return self._compared("sle", "ole", other)

    def __gt__(self, other: Number) -> IrValue:  # type: ignore[override, misc]
        return self._compared("sgt", "ogt", other)

    def __ge__(self, other: Number) -> IrValue:  # type: ignore[override, misc]
        return self._compared("sge", "oge", other)

    def equals(self, other: Number) -> IrValue:
        """Return whether two values are equal; also true for NaN."""
        return self._compared("eq", "ueq", other)

    def differs(self, other: Number) -> IrValue:
        """Return whether two values differ; also true for NaN."""
        return self._compared("ne", "une", other)

    def below(self, other: Number) -> IrValue:
        """Return whether this is less than ``other``; also true for NaN."""
        return self._compared("slt", "ult", other)

    def choose(self, a: Number, b: IrValue) -> IrValue:
        """Return ``a`` where this condition is true, else ``b``."""
        first = b._literal(a)
        return self.flow.value(b.kind, f"select {self.kind} {self}, {b.kind} {first}, {b.kind} {b}")

    def smaller(self, other: IrValue) -> IrValue:
        """Return the minimum; ``other`` if one of them is NaN."""
        return (self < other).choose(self, other)

    def larger(self, other: IrValue) -> IrValue:
        """Return the maximum; ``other`` if one of them is NaN."""
        return (self > other).choose(self, other)

    def fused(self, factor: Number, addend: Number) -> IrValue:
        """Return ``self * factor + addend``, rounded once."""
        return self._function("fma", factor, addend)

    def root(self) -> IrValue:
        """Return the square root."""
        return self._function("sqrt")

    def size(self) -> IrValue:
        """Return the absolute value."""
        return self._function("fabs")

    def rounded(self) -> IrValue:
        """Return the closest integer, as a real number."""
        return self._function("rint")

    def rounded_up(self) -> IrValue:
        """Return the value rounded up to an integer, as a real number."""
        return self._function("ceil")

    def _function(self, name: str, *others: Number) -> IrValue:
        values = ", ".join(f"{self.kind} {self._literal(x)}" for x in (self, *others))
        suffix = Lanes(self.element, self.lane_count).suffix
        return self.flow.value(self.kind, f"call {self.kind} @llvm.{name}.{suffix}({values})")

    def to(self, element: str) -> IrValue:
        """Return the value converted to another element type.

        Raises:
            KeyError: there is no such conversion.
        """
        cast = _CASTS[self.element, element]
        return self.flow.value(
            self._of(element), f"{cast} {self.kind} {self} to {self._of(element)}"
        )

    def splat(self, count: int) -> IrValue:
        """Return a vector of ``count`` lanes, each with this scalar."""
        if count == 1:
            return self
        t = f"<{count} x {self.kind}>"
        one = self.flow.emit(f"insertelement {t} poison, {self.kind} {self}, i64 0")
        return self.flow.value(
            t, f"shufflevector {t} {one}, {t} poison, <{count} x i32> zeroinitializer"
        )

    def lane(self, index: Number) -> IrValue:
        """Return the number in one lane."""
        return self.flow.value(self.element, f"extractelement {self.kind} {self}, i64 {index}")

    def lanes(self, start: int, count: int) -> IrValue:
        """Return ``count`` lanes of a vector from ``start`` on."""
        return self._shuffled(self, range(start, start + count))

    def beside(self, other: IrValue) -> IrValue:
        """Return the lanes of this vector, followed by those of another one of the same type."""
        return self._shuffled(other, range(2 * self.lane_count))

    def _shuffled(self, other: IrValue, picks: Sequence[int]) -> IrValue:
        mask = f"<{len(picks)} x i32> <{', '.join(f'i32 {pick}' for pick in picks)}>"
        text = f"shufflevector {self.kind} {self}, {self.kind} {other}, {mask}"
        return self.flow.value(f"<{len(picks)} x {self.element}>", text)

    def smallest(self) -> IrValue:
        """Return the minimum of all lanes; none may be NaN."""
        return self._reduced("fmin")

    def largest(self) -> IrValue:
        """Return the maximum of all lanes; none may be NaN."""
        return self._reduced("fmax")

    def _reduced(self, name: str) -> IrValue:
        function = f"llvm.vector.reduce.{name}.{Lanes(self.element, self.lane_count).suffix}"
        return self.flow.value(
            self.element, f"call nnan {self.element} @{function}({self.kind} {self})"
        )

    def bits(self) -> IrValue:
        """Return a condition's lanes as bits of an i64, lane 0 lowest."""
        n = self.lane_count
        packed = self.flow.emit(f"bitcast {self.kind} {self} to i{n}")
        return self.flow.value("i64", f"zext i{n} {packed} to i64")

    def any(self) -> IrValue:
        """Return whether a condition is true in any lane."""
        if self.lane_count == 1:
            return self
        packed = self.flow.emit(f"bitcast {self.kind} {self} to i{self.lane_count}")
        return self.flow.value("i1", f"icmp ne i{self.lane_count} {packed}, 0")

    def lowest(self) -> IrValue:
        """Return the index of the lowest set bit of a nonzero i64."""
        return self.flow.value("i64", f"call i64 @llvm.cttz.i64(i64 {self}, i1 true)")


class Pointer(IrValue):
    """An address of values of one type."""

    target = "double"
    """Type of the values."""

    def of(self, target: str) -> Pointer:
        """Return the same address, of values of another type."""
        pointer = IrValue(self.flow, "ptr", str(self))
        assert isinstance(pointer, Pointer)
        pointer.target = target
        return pointer

    def at(self, index: Number) -> Pointer:
        """Return the address of an element; the one with index 0 is at this address."""
        if index == 0:
            return self
        instruction = f"getelementptr {self.target}, ptr {self}, i64 {index}"
        return self.flow.pointer(self.flow.emit(instruction), self.target)

    def load(self, index: Number = 0, lanes: int = 1) -> IrValue:
        """Return an element, or one per lane from ``index`` on."""
        kind = self.target if lanes == 1 else f"<{lanes} x {self.target}>"
        address = self.at(index)
        return self.flow.value(kind, f"load {kind}, ptr {address}, align {_ALIGNMENT[self.target]}")

    def store(self, value: Number, index: Number = 0) -> None:
        """Write a value of one or more lanes from ``index`` on; numbers get the element type."""
        kind = value.kind if isinstance(value, IrValue) else self.target
        text = IrValue(self.flow, kind, "")._literal(value) if kind != "ptr" else value
        align = _ALIGNMENT[self.target]
        self.flow.lines.append(f"  store {kind} {text}, ptr {self.at(index)}, align {align}")


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
