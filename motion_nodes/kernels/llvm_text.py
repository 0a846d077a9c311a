# SPDX-License-Identifier: Apache-2.0
"""Translation of expression graphs to LLVM code.

A program becomes up to four functions, which are called through their addresses:

* ``one(q, out...)``: one configuration. Scalar code, except that the sines and cosines of all
joints are computed in SIMD registers.
* ``python(q, out...)``: the same as a Python builtin, see :mod:`motion_nodes.kernels.python_form`.
* ``many(q, m, out...)``: m configurations in row-major order. They are processed one SIMD register
at a time; results are transposed before they are stored. The last register overlaps the previous
rows, so that it is always full.
* ``lanes(q, out...)``: exactly one SIMD register. Element i of lane k is at ``i * lanes + k``, in q
and in the results: for kernels that use this layout throughout.

All arguments are pointers to elements, except ``m`` (a 64-bit integer) and those of ``python``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from motion_nodes.kernels.control_flow import FunctionBuilder
from motion_nodes.kernels.expression_graph import Operand, Operation, Program, Symbol, Value
from motion_nodes.kernels.ir_value import IrValue
from motion_nodes.kernels.python_form import DECLARATIONS, python_function
from motion_nodes.kernels.simd import Lanes, Writer
from motion_nodes.kernels.sincos import write_sincos

_INSTRUCTIONS = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}


class LlvmFunction:
    """Writes the operations of a program for one SIMD type."""

    def __init__(
        self, program: Program, writer: Writer, load: Callable[[int], str], register: int
    ) -> None:
        """Create the translator.

        Args:
            program: the program to write.
            writer: receives the instructions.
            load: writes the code that loads an input; returns its name.
            register: number of elements per SIMD register.
        """
        self._program = program
        self._writer = writer
        self._load = load
        self._register = register
        self._live = program.live()
        self._names: dict[int, str] = {}
        self._sincos: dict[Operand, tuple[str, str]] = {}
        self._angles_written = False

    def write(self, values: Sequence[Value] | None = None) -> None:
        """Write the operations of some values (None: all live operations), angles first."""
        for _ in self.steps(values):
            pass

    def steps(self, values: Sequence[Value] | None = None) -> Iterator[None]:
        """Write like :meth:`write`, one operation per iteration."""
        if not self._angles_written:
            self._write_angles()
            self._angles_written = True
        live = self._live
        if values is not None:
            live = Program(self._program.tape, 0, (tuple(values),)).live()
        for index in live:
            self._need(index)
            yield

    def write_constant(self, varying: Iterable[int]) -> None:
        """Write the live operations that do not depend on the varying inputs, as before a loop."""
        varies: set[int] = set()
        changing = set(varying)
        for index in self._live:
            operation = self._program.tape.operations[index]
            operands = (operation.left, operation.right, operation.condition)
            if operation.name == "input":
                changes = operation.left in changing
            else:
                changes = any(isinstance(x, int) and x in varies for x in operands)
            if changes:
                varies.add(index)
            else:
                self._need(index)

    def _write_angles(self) -> None:
        """Write the sines and cosines of all angles."""
        operations = self._program.tape.operations
        angles = dict.fromkeys(
            operations[i].left for i in self._live if operations[i].name in ("sin", "cos")
        )
        for angle in angles:
            self._need(angle)
        self._write_sincos(list(angles))

    def output(self, value: Value) -> str:
        """Return the name (or literal) of an output."""
        if not isinstance(value, Symbol):
            return self._writer.lanes.constant(value)
        name = self._names[value.index]
        return self._writer.negated(name) if value.negative else name

    def _need(self, operand: Operand) -> str:
        """Return the name of an operand, and write it first if necessary."""
        if isinstance(operand, float):
            return self._writer.lanes.constant(operand)
        if operand not in self._names:
            operation = self._program.tape.operations[operand]
            if operation.name == "input":
                name = self._load(int(operation.left))
            elif operation.name in ("sin", "cos"):
                name = self._sincos[operation.left][operation.name == "cos"]
            else:
                name = self._written(operation)
            self._names[operand] = name
        return self._names[operand]

    def _written(self, operation: Operation) -> str:
        """Write an operation on operands and return its name."""
        writer, left = self._writer, self._need(operation.left)
        if operation.name == "sqrt":
            return writer.root(left)
        if operation.name == "abs":
            return writer.size(left)
        if operation.name == "pow2":
            return writer.power_of_two(left)
        right = self._need(operation.right)
        if operation.name == "less":
            return writer.emit(f"fcmp olt {writer.lanes.type} {left}, {right}")
        if operation.name == "choose":
            return writer.where(self._need(operation.condition), left, right)
        return writer.binary(_INSTRUCTIONS[operation.name], left, right)

    def _write_sincos(self, angles: list[Operand]) -> None:
        """Write sine and cosine of all angles; scalar code computes one register at a time."""
        if self._writer.lanes.count > 1:
            for angle in angles:
                self._sincos[angle] = write_sincos(self._writer, self._need(angle))
            return
        for start in range(0, len(angles), self._register):
            group = angles[start : start + self._register]
            width = 1 << (len(group) - 1).bit_length()
            lanes = Lanes(self._writer.lanes.element, width)
            wide = Writer(lanes, self._writer.lines, f"w{start}_")
            sine, cosine = write_sincos(wide, wide.joined([self._need(a) for a in group]))
            for lane, angle in enumerate(group):
                self._sincos[angle] = wide.lane(sine, lane), wide.lane(cosine, lane)


def module_text(
    programs: dict[str, Program], forms: dict[str, tuple[str, ...]], lanes: Lanes
) -> str:
    """Return an LLVM module with the functions of some programs.

    Args:
        programs: by name.
        forms: for each name, which of ``one``, ``python``, ``many`` and ``lanes`` to write; the
            functions are called ``<name>_<form>``. ``python`` and ``many`` need ``one``.
        lanes: element type, and number of elements per SIMD register.

    Returns:
        LLVM assembly.

    Raises:
        ValueError: ``python`` with another element type than double.
    """
    writers = {"one": _one, "python": _python, "many": _many, "lanes": _lanes}
    parts = [
        writers[form](f"{name}_{form}", name, program, lanes)
        for name, program in programs.items()
        for form in forms[name]
    ]
    if any("python" in required for required in forms.values()):
        parts.append(DECLARATIONS)
    return "\n".join([*parts, *declarations(lanes)])


def declarations(lanes: Lanes) -> list[str]:
    """Return the declarations of the LLVM intrinsics, for each number of lanes in use."""
    lines, count = [], 1
    while count <= lanes.count:
        kind = Lanes(lanes.element, count)
        t = kind.type
        lines.append(f"declare {t} @llvm.fma.{kind.suffix}({t}, {t}, {t})")
        lines.append(f"declare {t} @llvm.fabs.{kind.suffix}({t})")
        lines.append(f"declare {t} @llvm.sqrt.{kind.suffix}({t})")
        count *= 2
    return lines


def _arguments(program: Program) -> str:
    names = ["q", *(f"out{k}" for k in range(len(program.outputs)))]
    return ", ".join(f"ptr noalias %{name}" for name in names)


def _one(symbol: str, _: str, program: Program, lanes: Lanes) -> str:
    """Write the function for one configuration."""
    writer = Writer(Lanes(lanes.element, 1))
    body = LlvmFunction(
        program, writer, lambda i: writer.load(writer.address("%q", i)), lanes.count
    )
    body.write()
    for k, values in enumerate(program.outputs):
        for index, value in enumerate(values):
            writer.store(body.output(value), writer.address(f"%out{k}", index))
    return _function(symbol, _arguments(program), writer)


def _python(symbol: str, name: str, program: Program, lanes: Lanes) -> str:
    """Write the function called from Python."""
    if lanes.element != "double":
        raise ValueError("form 'python' requires elements of type double")
    sizes = [program.input_count, *(len(values) for values in program.outputs)]
    return python_function(symbol, f"{name}_one", sizes)


def _lanes(symbol: str, _: str, program: Program, lanes: Lanes) -> str:
    """Write the function for one SIMD register, lanes side by side in memory."""
    writer, n = Writer(lanes), lanes.count
    body = LlvmFunction(program, writer, lambda i: writer.load(writer.address("%q", i * n)), n)
    body.write()
    for k, values in enumerate(program.outputs):
        for index, value in enumerate(values):
            writer.store(body.output(value), writer.address(f"%out{k}", index * n))
    return _function(symbol, _arguments(program), writer)


def _many(symbol: str, name: str, program: Program, lanes: Lanes) -> str:
    """Write the function for m configurations in row-major order."""
    group, n = f"{name}_group", lanes.count
    outputs = {f"out{k}": len(values) for k, values in enumerate(program.outputs)}
    sizes = {"q": program.input_count, **outputs}
    flow = FunctionBuilder(lanes, q="ptr", m="i64", **dict.fromkeys(outputs, "ptr"))
    m = flow.argument("m")

    def call(function: str, row: IrValue) -> None:
        rows = (flow.pointer(x, lanes.element).at(row * size) for x, size in sizes.items())
        flow.call("void", function, *rows)

    with flow.when(m >= n):
        with flow.loop((m + (n - 1)) // n) as turn:
            call(group, (turn.index * n).smaller(m - n))
        flow.ret()
    with flow.loop(m) as turn:
        call(f"{name}_one", turn.index)
    return f"{_group(group, program, lanes)}\n{flow.function(symbol, linkage='')}"


def _group(symbol: str, program: Program, lanes: Lanes) -> str:
    """Write the function for one SIMD register of configurations in row-major order."""
    writer, n, size = Writer(lanes), lanes.count, program.input_count
    scalar = Writer(Lanes(lanes.element, 1), writer.lines, "s")

    def gather(index: int) -> str:
        rows = [scalar.load(scalar.address("%q", row * size + index)) for row in range(n)]
        return writer.joined(rows)

    body = LlvmFunction(program, writer, gather, n)
    body.write()
    for k, values in enumerate(program.outputs):
        _store_rows(writer, scalar, f"%out{k}", [body.output(v) for v in values])
    return _function(symbol, _arguments(program), writer, "internal ")


def _store_rows(writer: Writer, scalar: Writer, out: str, values: list[str]) -> None:
    """Store values so that each lane becomes a row of ``len(values)`` numbers."""
    n, size = writer.lanes.count, len(values)
    if n == 1 or size < n:
        for index, value in enumerate(values):
            for row in range(n):
                scalar.store(writer.lane(value, row), scalar.address(out, row * size + index))
        return
    # The last block overlaps stored elements, so that it is full.
    for start in [*range(0, size - n, n), size - n]:
        for row, block in enumerate(writer.transposed(values[start : start + n])):
            writer.store(block, writer.address(out, row * size + start))


def _function(symbol: str, arguments: str, writer: Writer, linkage: str = "") -> str:
    lines = "\n".join(writer.lines)
    return f"define {linkage}void @{symbol}({arguments}) nounwind {{\n{lines}\n  ret void\n}}\n"
