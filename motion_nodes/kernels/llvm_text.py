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

Sine and cosine are computed together, for any number of lanes. The C library has no portable vector
version, and two calls per joint would cost more than the rest of the kinematics. The angle is
reduced to [-pi/4, pi/4] by subtracting a multiple k of pi/2 in three fused steps, two polynomials
give sine and cosine there, and the last two bits of k select which of them is which and with what
sign. Source of the reduction: Cody and Waite, Software Manual for the Elementary Functions (1980).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from motion_nodes.kernels.expression_graph import Operand, Operation, Program, Symbol, Value
from motion_nodes.kernels.llvm_builder import FunctionBuilder, IrValue, Writer
from motion_nodes.kernels.python_form import DECLARATIONS, python_function
from motion_nodes.kernels.simd import Lanes

_INSTRUCTIONS = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}


@dataclass(frozen=True)
class _Precision:
    """Constants of one element type."""

    half_pi: tuple[float, float, float]
    """pi/2 as an unevaluated sum: its rounded value, that of the remainder, and so on."""
    magic: float
    """1.5 * 2^(mantissa bits): adding it rounds to an integer, stored in the low bits."""
    largest: float
    """Max angle for which that works [rad]; beyond it the result is NaN."""
    sine: tuple[float, ...]
    """sin(r) = r + r^3 (s0 + s1 r^2 + ...)."""
    cosine: tuple[float, ...]
    """cos(r) = 1 - r^2/2 + r^4 (c0 + c1 r^2 + ...)."""


_PRECISION = {
    # Source of the polynomials: FreeBSD msun, k_sin.c and k_cos.c (Sun Microsystems 1993);
    # their errors are below 2^-58 on the interval.
    "double": _Precision(
        (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33),
        1.5 * 2.0**52,
        1e15,
        (
            -1.66666666666666324348e-01,
            8.33333333332248946124e-03,
            -1.98412698298579493134e-04,
            2.75573137070700676789e-06,
            -2.50507602534068634195e-08,
            1.58969099521155010221e-10,
        ),
        (
            4.16666666666666019037e-02,
            -1.38888888888741095749e-03,
            2.48015872894767294178e-05,
            -2.75573143513906633035e-07,
            2.08757232129817482790e-09,
            -1.13596475577881948265e-11,
        ),
    ),
    # Source of the polynomials: Cephes 2.2, sinf.c (Moshier 1992); errors below 2^-24.
    "float": _Precision(
        (1.5707963705062866, -4.371139000186241e-08, -1.7151245100059e-15),
        1.5 * 2.0**23,
        4e6,
        (-1.6666654611e-1, 8.3321608736e-3, -1.9515295891e-4),
        (4.166664568298827e-2, -1.388731625493765e-3, 2.443315711809948e-5),
    ),
}


def write_sincos(writer: Writer, angle: str) -> tuple[str, str]:
    """Write the code for one angle.

    Absolute error below 1.2e-16 (double) or 1e-7 (float) if the angle itself is exact. NaN,
    infinity and angles beyond 1e15 rad (float: 4e6 rad) give NaN.

    Args:
        writer: receives the instructions.
        angle: name of the angle's value [rad].

    Returns:
        Names of sine and cosine.
    """
    lanes, precision = writer.lanes, _PRECISION[writer.lanes.element]
    turns, r = _reduced(writer, angle, precision)
    square = writer.binary("fmul", r, r)
    sine = _polynomial(writer, square, precision.sine)
    sine = writer.fused(writer.binary("fmul", sine, square), r, r)
    cosine = _polynomial(writer, square, precision.cosine)
    half = writer.fused(square, lanes.constant(-0.5), lanes.constant(1.0))
    cosine = writer.fused(writer.binary("fmul", square, square), cosine, half)
    odd = writer.integer("and", turns, lanes.whole(1))
    swap = writer.emit(f"icmp ne {lanes.integer_type} {odd}, {lanes.whole(0)}")
    return (
        _signed(writer, writer.where(swap, cosine, sine), turns),
        _signed(
            writer, writer.where(swap, sine, cosine), writer.integer("add", turns, lanes.whole(1))
        ),
    )


def _reduced(writer: Writer, angle: str, precision: _Precision) -> tuple[str, str]:
    """Return the number of quarter turns (in the low bits) and the reduced angle."""
    lanes = writer.lanes
    t = lanes.type
    size = writer.emit(f"call {t} @llvm.fabs.{lanes.suffix}({t} {angle})")
    usable = writer.emit(f"fcmp olt {t} {size}, {lanes.constant(precision.largest)}")
    angle = writer.where(usable, angle, lanes.constant(float("nan")))
    magic = lanes.constant(precision.magic)
    two_over_pi = lanes.constant(0.6366197723675814)
    shifted = writer.exact("fadd", writer.exact("fmul", angle, two_over_pi), magic)
    k = writer.negated(writer.exact("fsub", shifted, magic))
    r = angle
    for part in precision.half_pi:
        r = writer.fused(k, lanes.constant(part), r)
    return writer.as_integer(shifted), r


def _polynomial(writer: Writer, x: str, coefficients: tuple[float, ...]) -> str:
    """Return c0 + c1 x + c2 x^2 + ... (Horner)."""
    total = writer.lanes.constant(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = writer.fused(total, x, writer.lanes.constant(coefficient))
    return total


def _signed(writer: Writer, value: str, turns: str) -> str:
    """Return ``-value`` where bit 1 of ``turns`` is set."""
    lanes = writer.lanes
    bit = writer.integer("and", turns, lanes.whole(2))
    sign = writer.integer("shl", bit, lanes.whole(lanes.bits - 2))
    return writer.as_real(writer.integer("xor", writer.as_integer(value), sign))


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
