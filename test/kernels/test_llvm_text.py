# SPDX-License-Identifier: Apache-2.0
"""Generated code: forms of a program, sine and cosine, Python functions, robots' code."""

import array
import ctypes
import dataclasses
import math
import re
import sys
from fractions import Fraction
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numba
import numpy as np
import pytest
from kernels.compile_program import Compiled
from kernels.random_trees import random_tree

from motion_nodes.errors import MotionError
from motion_nodes.kernels import cache, native, robot_codegen
from motion_nodes.kernels.bridges import address, call_both, call_one, reader
from motion_nodes.kernels.expression_graph import ExpressionGraph, Program
from motion_nodes.kernels.jit import bare_kernel
from motion_nodes.kernels.kinematic_arrays import pack
from motion_nodes.kernels.llvm_builder import FunctionBuilder
from motion_nodes.kernels.llvm_text import declarations, module_text, write_sincos
from motion_nodes.kernels.memory_layout import table_of
from motion_nodes.kernels.python_form import NEEDED, builtin
from motion_nodes.kernels.robot_binding import robot_calls
from motion_nodes.kernels.simd import Lanes

KINDS = [
    Lanes("double", 1),
    Lanes("double", 2),
    Lanes("double", 4),
    Lanes("double", 8),
    Lanes("float", 8),
    Lanes("float", 16),
]
TOLERANCE = {"double": 1e-14, "float": 2e-6}


def both_program(seed: int, joints: int):
    tree = random_tree(seed, joints)
    arrays = pack(tree.packed, tree.joint_names, {})
    return robot_codegen.pose_and_jacobian_program(arrays, len(tree.frame_names) - 1)


@pytest.mark.long
@pytest.mark.parametrize("lanes", KINDS, ids=str)
@pytest.mark.parametrize("joints", [1, 7])
def test_all_forms_agree(lanes, joints):
    program = both_program(joints, joints)
    compiled = Compiled(program, lanes)
    Q = np.random.default_rng(4).uniform(-3, 3, (33, joints))
    reference = Compiled(program, Lanes("double", 1))
    exact = [np.array(rows) for rows in zip(*(reference.one(q) for q in Q), strict=True)]
    tolerance = {"rtol": 0.0, "atol": TOLERANCE[lanes.element]}
    for m in range(34):
        for result, want in zip(compiled.many(Q[:m]), exact, strict=True):
            np.testing.assert_allclose(result, want[:m], **tolerance)
    for k, want in enumerate(exact):
        np.testing.assert_allclose(compiled.one(Q[5])[k], want[5], **tolerance)
        full = compiled.side_by_side(Q[: lanes.count])[k]
        np.testing.assert_allclose(full, want[: lanes.count], **tolerance)


def on_x86() -> native.Cpu:
    cpu = native.host_cpu()
    if not cpu.triple.startswith(("x86_64", "amd64")):
        pytest.skip(f"for x86 only, this is {cpu.triple}")
    return cpu


@pytest.mark.parametrize("element", ["double", "float"])
@pytest.mark.parametrize(
    ("model", "features", "register"),
    [("host", "", ""), ("haswell", "+avx2,+fma", "ymm"), ("znver4", "+avx512f,+avx512vl", "zmm")],
)
def test_batches_use_the_widest_registers(element, model, features, register):
    cpu = on_x86()
    if model != "host":  # whatever this machine has, compile for that one
        cpu = native.Cpu(cpu.triple, model, features)
    elif cpu.register_bits < 256:
        pytest.skip(f"no AVX2 or AVX-512 on this CPU ({cpu.name})")
    register = register or {256: "ymm", 512: "zmm"}[cpu.register_bits]
    lanes = cpu.lanes(element)
    assert lanes.count * lanes.bits == cpu.register_bits
    text = module_text({"p": both_program(7, 7)}, {"p": ("one", "many")}, lanes)
    group = native.assembly(text, cpu).split("p_group:")[1].split("p_many:")[0]
    arithmetic = re.findall(r"\tv(?:fn?m(?:add|sub)\d*|mul|add|sub)[ps][sd]\t.*", group)
    wide = [line for line in arithmetic if register in line]
    assert len(wide) > 50
    assert len(wide) == len(arithmetic)  # none is left that does one lane at a time


@pytest.mark.parametrize(("element", "shape"), [("double", "2d"), ("float", "4s")])
def test_batches_use_neon_on_aarch64(element, shape):
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    cpu = native.Cpu("aarch64-unknown-linux-gnu", "cortex-a76", "+neon")
    text = module_text({"p": both_program(7, 7)}, {"p": ("one", "many")}, cpu.lanes(element))
    group = native.assembly(text, cpu).split("p_group:")[1].split("p_many:")[0]
    arithmetic = re.findall(r"\tf(?:mla|mls|mul|add|sub)\tv\d+\.(\w+), ", group)
    assert len(arithmetic) > 50
    assert set(arithmetic) == {shape}
    assert not re.findall(r"\tf(?:n?m(?:add|sub|ul)|add|sub)\t[ds]\d+, ", group)


@pytest.mark.long
@pytest.mark.parametrize("element", ["double", "float"])
def test_a_cpu_without_avx_and_fused_instructions_gets_the_same_numbers(element):
    old = native.Cpu(on_x86().triple, "x86-64", "")
    program, lanes = both_program(7, 7), old.lanes(element)
    assert lanes.count * lanes.bits == 128
    Q = np.random.default_rng(4).uniform(-3, 3, (9, 7))
    exact = Compiled(program, Lanes("double", 1)).many(Q)
    for result, want in zip(Compiled(program, lanes, old).many(Q), exact, strict=True):
        np.testing.assert_allclose(result, want, rtol=0.0, atol=TOLERANCE[element])


def test_generated_code_needs_nothing_from_outside():
    cpu = on_x86()
    if "+fma" not in cpu.features.split(","):
        pytest.skip("no fused multiply-add: the C library's is called")
    text = module_text({"p": both_program(5, 5)}, {"p": ("one", "many")}, cpu.lanes("double"))
    calls = set(re.findall(r"\tcall[q]?\t(\S+)", native.assembly(text, cpu)))
    assert {c.split("@")[0] for c in calls} <= {"p_one", "p_group"}


def arrays_of(seed: int, joints: int = 3):
    tree = random_tree(seed, joints)
    return pack(tree.packed, tree.joint_names, {})


def test_keys_tell_robots_units_and_versions_apart(monkeypatch):
    code = robot_codegen.RobotCode(arrays_of(1))
    keys = {code.key(), code.key(1), code.key(2), robot_codegen.RobotCode(arrays_of(2)).key()}
    keys.add(robot_codegen.RobotCode(arrays_of(1), "float").key())
    assert len(keys) == 5
    assert robot_codegen.RobotCode(arrays_of(1)).key() == code.key()

    moved = arrays_of(1)
    moved.X_PJ[1, 0, 3] = np.nextafter(moved.X_PJ[1, 0, 3], 1.0)
    keys.add(robot_codegen.RobotCode(moved).key())

    cpu = native.host_cpu()
    for change in (
        lambda: monkeypatch.setattr("motion_nodes.__version__", "0.0.0"),
        lambda: monkeypatch.setattr(native, "toolchain", lambda: "another"),
        lambda: monkeypatch.setattr(
            native, "host_cpu", lambda: dataclasses.replace(cpu, name="another")
        ),
        lambda: monkeypatch.setattr(
            native, "host_cpu", lambda: dataclasses.replace(cpu, features=cpu.features + ",+x")
        ),
        lambda: monkeypatch.setattr(robot_codegen, "_GENERATOR", ("expression_graph",)),
    ):
        change()
        robot_codegen._fingerprint.cache_clear()
        keys.add(code.key())
    monkeypatch.undo()
    robot_codegen._fingerprint.cache_clear()
    assert len(keys) == 11


def test_a_second_use_in_one_process_loads_nothing(monkeypatch):
    first = robot_codegen.RobotCode(arrays_of(21)).address("frames_one")
    monkeypatch.setattr(cache, "read_entry", None)
    monkeypatch.setattr(native, "compiled", None)
    assert robot_codegen.RobotCode(arrays_of(21)).address("frames_one") == first


def test_an_unknown_function_is_an_error():
    with pytest.raises(LookupError, match="frames_four"):
        robot_codegen.RobotCode(arrays_of(1)).address("frames_four")


def test_where_llvm_fails_the_reason_is_given(monkeypatch, tmp_path):
    monkeypatch.setenv("MOTION_NODES_CACHE_DIR", str(tmp_path))  # nothing is kept there

    reason = RuntimeError("no such target")

    def fails(text, cpu):
        raise reason

    monkeypatch.setattr(native, "compiled", fails)
    with pytest.raises(robot_codegen.CodeGenerationError) as raised:
        robot_calls(arrays_of(32)).frames()
    assert raised.value.__cause__ is reason
    cpu = native.host_cpu()
    for part in (str(reason), native.toolchain(), cpu.triple, cpu.name):
        assert part in str(raised.value)
    assert issubclass(robot_codegen.CodeGenerationError, MotionError)


@numba.njit
def _loop(both: int, pose: int, Q: np.ndarray, at: tuple[int, int, int], step: int, n: int) -> None:
    for i in range(n):
        call_both(both, at[0] + 8 * step * i, at[1], at[2])
    call_one(pose, at[0], at[1])


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="needs Numba's compiler")
def test_numba_kernels_call_the_code_of_the_robot_they_are_given():
    rng = np.random.default_rng(6)
    for seed in (41, 42):  # one compiled kernel, two robots
        arrays = arrays_of(seed)
        code, row = robot_codegen.RobotCode(arrays), len(arrays.parent) - 1
        Q = rng.uniform(-2, 2, (5, 3))
        X, J = np.zeros((4, 4)), np.zeros((6, 3))
        at = (Q.ctypes.data, X.ctypes.data, J.ctypes.data)
        _loop(code.address("both_one", row), code.address("pose_one", row), Q, at, 3, 5)
        calls = robot_calls(arrays, generic=True)
        want_X, want_J = np.zeros((5, 4, 4)), np.zeros((5, 6, 3))
        calls.pose_many(row, Q, want_X)
        calls.jacobian_many(row, Q, want_J)
        np.testing.assert_allclose(J, want_J[4], atol=1e-13)  # of the last call_both
        np.testing.assert_allclose(X, want_X[0], atol=1e-13)  # of call_one after it
    assert len(_loop.signatures) == 1


KINDS_SINCOS = [Lanes("double", 4), Lanes("double", 8), Lanes("float", 8), Lanes("float", 16)]
TOLERANCE_SINCOS = {"double": 2.3e-16, "float": 1.2e-7}


def sincos(lanes: Lanes) -> Compiled:
    tape = ExpressionGraph()
    x = tape.input(0)
    return Compiled(Program(tape, 1, ((tape.sine(x), tape.cosine(x)),)), lanes)


@pytest.mark.parametrize("lanes", KINDS_SINCOS, ids=str)
@pytest.mark.parametrize("size", [1.0, 10.0, 1e3, 1e6])
def test_error_is_that_of_rounding(lanes, size):
    compiled = sincos(lanes)
    x = np.random.default_rng(3).uniform(-size, size, (4001, 1)).astype(compiled.dtype)
    exact = np.hstack([np.sin(x.astype(float)), np.cos(x.astype(float))])
    (result,) = compiled.many(x)
    assert np.abs(result - exact).max() < TOLERANCE_SINCOS[lanes.element]
    assert np.abs(compiled.one(x[0])[0] - exact[0]).max() < TOLERANCE_SINCOS[lanes.element]


@pytest.mark.parametrize("lanes", KINDS_SINCOS, ids=str)
def test_multiples_of_a_quarter_turn(lanes):
    compiled = sincos(lanes)
    x = (np.arange(-400, 401) * np.pi / 4).astype(compiled.dtype)[:, None]
    exact = np.hstack([np.sin(x.astype(float)), np.cos(x.astype(float))])
    assert np.abs(compiled.many(x)[0] - exact).max() < TOLERANCE_SINCOS[lanes.element]


def test_an_angle_of_many_turns_keeps_its_precision():
    # pi to 60 digits (OEIS A000796): the remainder of a large angle without rounding
    pi = Fraction("3.14159265358979323846264338327950288419716939937510582097494")
    for x in (1e8 + 0.25, -1e12 - 0.5, 9.9e14):
        remainder = float(Fraction(x) - 2 * pi * round(Fraction(x) / (2 * pi)))
        sine, cosine = sincos(Lanes("double", 8)).one(np.array([x]))[0]
        assert sine == pytest.approx(math.sin(remainder), abs=1e-15)
        assert cosine == pytest.approx(math.cos(remainder), abs=1e-15)


@pytest.mark.parametrize("lanes", KINDS_SINCOS, ids=str)
def test_what_has_no_sine_gives_nan_in_its_own_lane_only(lanes):
    bad = [np.nan, np.inf, -np.inf, 2e15]
    x = np.zeros((lanes.count + len(bad), 1))
    x[: len(bad), 0] = bad
    (result,) = sincos(lanes).many(x)
    assert np.isnan(result[: len(bad)]).all()
    np.testing.assert_array_equal(result[len(bad) :], [[0.0, 1.0]] * lanes.count)


def test_it_is_part_of_any_function():
    lanes = Lanes("double", 4)
    flow = FunctionBuilder(lanes, x="ptr", out="ptr")
    for k, name in enumerate(write_sincos(flow, flow.pointer("x").load(lanes=4))):
        flow.pointer("out").store(flow.typed(name), 4 * k)
    flow.ret()
    text = "\n".join([flow.function("run", linkage=""), *declarations(lanes)])
    cpu = native.host_cpu()
    code = native.LoadedCode(native.compiled(text, cpu), cpu)
    x, out = np.array([0.0, 0.3, -2.0, 7.0]), np.empty((2, 4))
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code.address("run"))
    run(x.ctypes.data, out.ctypes.data)
    np.testing.assert_allclose(out, [np.sin(x), np.cos(x)], atol=2.3e-16)


def doubling() -> Program:
    """Return a program from (x, y) to (2x, 2y, 1) and (x + y)."""
    tape = ExpressionGraph()
    x, y = tape.input(0), tape.input(1)
    return Program(tape, 2, ((2.0 * x, 2.0 * y, 1.0), (x + y,)))


TEXT = module_text({"p": doubling()}, {"p": ("one", "python")}, Lanes("double", 4))


@pytest.fixture(scope="module")
def run():
    cpu = native.host_cpu()
    code = native.LoadedCode(native.compiled(TEXT, cpu), cpu)
    yield builtin(code.address("p_python"), "doubled")
    del code


def test_it_is_a_builtin_function_that_does_the_work(run):
    first, second = np.zeros(3), np.zeros((1, 1))
    assert run(np.array([3.0, 4.0]), first, second) == 0
    np.testing.assert_array_equal(first, [6.0, 8.0, 1.0])
    assert second[0, 0] == 7.0
    assert type(run).__name__ == "builtin_function_or_method"
    assert run.__name__ == "doubled"
    assert run(array.array("d", [1.0, 1.0]), first, second) == 0  # whatever exports a buffer
    assert second[0, 0] == 2.0


GOOD = (np.zeros(2), np.zeros(3), np.zeros(1))
READ_ONLY = np.zeros(3)
READ_ONLY.setflags(write=False)


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(
    "bad",
    [
        [0.0, 0.0],
        None,
        1.5,
        "ab",
        b"0123456789abcdef",
        np.zeros(4),
        np.zeros(0),
        np.zeros(6)[::2],
        np.zeros(2, np.float32),
        np.zeros(2, np.int64),
        np.zeros(2, ">f8"),
        np.zeros(1, "c16"),
        np.zeros(1, "d,d"),
        np.zeros(3, object),
    ],
    ids=repr,
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(run, place, bad):
    arguments = [a.copy() for a in GOOD]
    arguments[1][:], arguments[2][:] = 5.0, 5.0
    outs = [a for i, a in enumerate(arguments) if i not in (0, place)]
    counted = (*GOOD, bad) if isinstance(bad, np.ndarray) else GOOD
    before = [sys.getrefcount(a) for a in counted]
    arguments[place] = bad
    assert run(*arguments) == 1
    assert all((out == 5.0).all() for out in outs)
    del arguments, outs
    assert [sys.getrefcount(a) for a in counted] == before


def test_shapes_of_q_and_results_that_cannot_be_written(run):
    q, first, second = GOOD
    assert run(np.zeros((2, 1)), first, second) == 1
    assert run(np.zeros((1, 2)), first, second) == 1
    assert run(np.array(0.0), first, second) == 1
    assert run(q, READ_ONLY, second) == 1
    assert run(q, np.zeros((3, 1)), second) == 0


def test_the_number_of_arguments(run):
    for count in (0, 1, 2):
        assert run(*GOOD[:count]) == 1
    assert run(*GOOD, np.zeros(1)) == 1
    with pytest.raises(TypeError, match="keyword"):
        run(q=GOOD[0])


def test_buffers_are_given_back(run):
    # An array that is still lent out cannot grow.
    q, first, second = (array.array("d", [0.0] * n) for n in (2, 3, 1))
    before = [sys.getrefcount(a) for a in (q, first, second)]
    for arguments in ((q, first, second), (q, first, None), (q, None, second), (None, first, q)):
        for _ in range(100):
            run(*arguments)
    del arguments
    assert [sys.getrefcount(a) for a in (q, first, second)] == before
    for a in (q, first, second):
        a.append(1.0)
    assert run(q, first, second) == 1  # now too long


def test_no_error_stays_pending(run):
    assert run(object(), None, None) == 1
    assert eval("1 + 1") == 2  # a pending error would surface here as a SystemError


def test_only_the_stable_interface_is_called():
    assembly = native.assembly(TEXT, native.host_cpu())
    if not native.host_cpu().triple.startswith("x86_64"):
        pytest.skip("reads x86 assembly")
    calls = re.findall(r"\t(?:callq?|jmp)\t\*?([A-Za-z_]\w*)", assembly)
    assert {c for c in calls if c != "p_one"} == set(NEEDED)


def test_only_float64_is_for_python():
    with pytest.raises(ValueError, match="double"):
        module_text({"p": doubling()}, {"p": ("one", "python")}, Lanes("float", 8))


class Inner(NamedTuple):
    ratio: float
    whole: Any


class Outer(NamedTuple):
    number: int
    values: Any
    inner: Inner
    cube: Any


def made(shape: tuple[int, int, int], ratio: float) -> Outer:
    rng = np.random.default_rng(sum(shape))
    whole = rng.integers(-9, 9, shape[0]).astype(np.int32)
    return Outer(-7, rng.uniform(size=shape[1:]), Inner(ratio, whole), np.zeros(shape, np.float32))


_read = reader(made((1, 1, 1), 1.0))


@bare_kernel
def fold(table: Any, out: Any) -> float:
    number, values, inner, cube = _read(address(table))
    out[0], out[1], out[2] = values.shape[0], values.shape[1], cube.shape[0]
    for i in range(cube.shape[0]):
        for j in range(cube.shape[1]):
            for k in range(cube.shape[2]):
                cube[i, j, k] = 100 * i + 10 * j + k + inner.whole[i]
    return number + inner.ratio * values[values.shape[0] - 1, values.shape[1] - 1]


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 4), (5, 1, 7)])
@pytest.mark.parametrize("ratio", [0.0, -2.5e300, math.inf])
def test_what_was_written_is_read(shape, ratio):
    item, out = made(shape, ratio), np.zeros(3, np.int64)
    assert fold(table_of(item), out) == -7 + ratio * item.values[-1, -1]
    assert tuple(out) == (shape[1], shape[2], shape[0])
    i, j, k = np.indices(shape)
    expected = 100 * i + 10 * j + k + item.inner.whole[:, np.newaxis, np.newaxis]
    np.testing.assert_array_equal(item.cube, expected)


def test_arrays_with_gaps_are_refused():
    item = made((2, 3, 4), 1.0)
    with pytest.raises(AssertionError):
        table_of(item._replace(values=item.values[:, ::2]))
