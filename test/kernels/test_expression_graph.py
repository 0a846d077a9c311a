# SPDX-License-Identifier: Apache-2.0
"""The tape of expressions writes down what is needed; formulas against independent oracles."""

import math

import numpy as np
import pytest
from raised_errors import about

from motion_nodes.core.robot.rmpflow_settings import RmpflowSettings
from motion_nodes.errors import InvalidConfig
from motion_nodes.kernels.collision import collision_memory
from motion_nodes.kernels.expression_graph import ExpressionGraph, Program, Symbol
from motion_nodes.kernels.formulas import rmps, shapes
from motion_nodes.kernels.formulas.ops import (
    NUMPY,
    MotionOps,
    Moving,
    cross,
    dot,
    factorized,
    solved,
    times_matrix,
)
from motion_nodes.kernels.rmp.rmp_leaves import LEAVES, coefficients, remove_leaf


def run(program: Program, q: list[float]) -> list[list[float]]:
    """Run a tape with Python's own arithmetic."""
    values: list[float] = []

    def value(operand):
        return operand if isinstance(operand, float) else values[operand]

    for operation in program.tape.operations:
        name, left, right = operation.name, operation.left, operation.right
        if name == "input":
            values.append(q[left])
        elif name in ("sin", "cos"):
            values.append(getattr(math, name)(value(left)))
        else:
            a, b = value(left), value(right)
            values.append({"add": a + b, "sub": a - b, "mul": a * b}[name])

    def output(v):
        if not isinstance(v, Symbol):
            return v
        return -values[v.index] if v.negative else values[v.index]

    return [[output(v) for v in out] for out in program.outputs]


def test_numbers_are_folded_and_zeros_and_ones_leave_nothing():
    tape = ExpressionGraph()
    x = tape.input(0)
    assert tape.multiply(2.0, 3.0) == 6.0
    assert tape.add(2.0, 3.0) == 5.0
    assert tape.sine(0.5) == math.sin(0.5)
    assert x * 0.0 == 0.0
    assert x * 1.0 == x
    assert x * -1.0 == -x
    assert x + 0.0 == x
    assert x - x == 0.0
    negative = -x
    assert -negative == x
    assert len(tape.operations) == 1  # the input itself


def test_equal_operations_are_shared_whatever_the_order_and_sign():
    tape = ExpressionGraph()
    x, y = tape.input(0), tape.input(1)
    product = x * y
    assert y * x == product
    assert (-x) * y == -product
    assert (-x) * (-y) == product
    assert x + y == y + x
    assert (-x) - y == -(x + y)
    assert 3.0 * x == -(x * -3.0)
    assert tape.sine(-x) == -tape.sine(x)
    assert tape.cosine(-x) == tape.cosine(x)


def test_the_constant_one_is_not_the_operation_number_one():
    tape = ExpressionGraph()
    x, y = tape.input(0), tape.input(1)
    with_constant, with_operation = 1.0 + x, x + y
    program = Program(tape, 2, ((with_constant, with_operation),))
    assert run(program, [10.0, 5.0]) == [[11.0, 15.0]]


def test_results_are_those_of_ordinary_arithmetic():
    rng = np.random.default_rng(1)
    for _ in range(50):
        tape = ExpressionGraph()
        q = rng.uniform(-2, 2, 4)
        pool = [tape.input(i) for i in range(4)] + [0.0, 1.0, -1.0, 0.5]
        numbers = [*q, 0.0, 1.0, -1.0, 0.5]
        for _ in range(40):
            i, j, operation = rng.integers(len(pool)), rng.integers(len(pool)), rng.integers(5)
            a, b, x, y = pool[i], pool[j], numbers[i], numbers[j]
            if operation == 0:
                new, number = a + b, x + y
            elif operation == 1:
                new, number = a - b, x - y
            elif operation == 2:
                new, number = a * b, x * y
            elif operation == 3:
                new, number = tape.sine(a), math.sin(x)
            else:
                new, number = -tape.cosine(a), -math.cos(x)
            if abs(number) < 1e3:
                pool.append(new)
                numbers.append(number)
        result = run(Program(tape, 4, (tuple(pool),)), list(q))[0]
        np.testing.assert_allclose(result, numbers, rtol=1e-9, atol=1e-9)


def test_only_what_an_output_needs_is_live():
    tape = ExpressionGraph()
    x, y = tape.input(0), tape.input(1)
    unused = tape.sine(x * y)
    wanted = y + 1.0
    program = Program(tape, 2, ((wanted, 2.0),))
    assert program.live() == [y.index, wanted.index]
    assert unused.index not in program.live()


def test_vector_algebra_agrees_with_numpy():
    rng = np.random.default_rng(2)
    a, b = rng.uniform(-1, 1, (2, 3))
    A, B = rng.uniform(-1, 1, (2, 3, 3))
    np.testing.assert_allclose(cross(list(a), list(b)), np.cross(a, b))
    np.testing.assert_allclose(dot(a, b), a @ b)
    np.testing.assert_allclose(times_matrix(A.tolist(), B.tolist()), A @ B)


RNG = np.random.default_rng
SIZES = {
    "sphere": (0.1, 0.0, 0.0),
    "box": (0.1, 0.2, 0.15),
    "aligned_box": (0.1, 0.2, 0.15),
    "cylinder": (0.1, 0.2, 0.0),
    "capsule": (0.1, 0.2, 0.0),
    "cone": (0.1, 0.2, 1.0 / np.hypot(0.1, 0.4)),
    "half_space": (0.0, 0.0, 0.0),
    "triangle": (0.2, 0.05, 0.15),
}
SHAPES = [shape for shape in collision_memory.KINDS.values() if shape.name in SIZES]


def evaluated(tape: ExpressionGraph, inputs: np.ndarray) -> list:
    """Return the value of each operation of a graph, in plain NumPy."""
    values: list = []
    two = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}
    for step in tape.operations:
        a, b, c = (
            values[x] if isinstance(x, int) and step.name != "input" else x
            for x in (step.left, step.right, step.condition)
        )
        match step.name:
            case "input":
                values.append(inputs[a])
            case "sqrt" | "abs":
                values.append({"sqrt": np.sqrt, "abs": np.abs}[step.name](a))
            case "less":
                values.append(a < b)
            case "choose":
                values.append(a if c else b)
            case name:
                values.append(two[name](a, b))
    return values


def value_of(x, values):
    if not isinstance(x, Symbol):
        return x
    return -values[x.index] if x.negative else values[x.index]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_graph_says_what_numpy_says(shape):
    tape = ExpressionGraph()
    x, sizes = ([tape.input(3 * k + i) for i in range(3)] for k in range(2))
    found = shapes.signed_distance(tape, shape, x, sizes)
    squared = shapes.square_distance(tape, shape, x, sizes)
    for point in RNG(0).uniform(-0.3, 0.3, (200, 3)):
        values = evaluated(tape, np.append(point, SIZES[shape.name]))
        here = shapes.signed_distance(NUMPY, shape, list(point), SIZES[shape.name])
        got = [value_of(y, values) for y in (found.value, *found.direction)]
        assert got == pytest.approx([float(y) for y in (here.value, *here.direction)], abs=1e-14)
        assert value_of(squared, values) == pytest.approx(max(float(here.value), 0.0) ** 2)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_no_point_of_the_core_is_closer_and_one_is_as_close(shape):
    """The closest point is in the core, and no point of a dense sample of the core is closer."""
    points = RNG(1).uniform(-0.35, 0.35, (60_000, 3))
    sizes = SIZES[shape.name]
    core = points[shapes.square_distance(NUMPY, shape, list(points.T), sizes) == 0.0]
    for point in RNG(2).uniform(-0.3, 0.3, (40, 3)):
        found = shapes.signed_distance(NUMPY, shape, list(point), sizes)
        if found.value <= 0.0:
            continue
        closest = point - float(found.value) * np.array([float(n) for n in found.direction])
        there = shapes.square_distance(NUMPY, shape, list(closest), sizes)
        assert there == pytest.approx(0.0, abs=1e-24)
        if len(core):
            assert np.linalg.norm(core - point, axis=1).min() >= found.value - 1e-12


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_rates_and_curvatures_are_derivatives(shape):
    sizes, h, smooth = SIZES[shape.name], 1e-4, 0

    def along(t, point, v):
        return float(shapes.signed_distance(NUMPY, shape, list(point + t * v), sizes).value)

    for point in RNG(3).uniform(-0.35, 0.35, (60, 3)):
        v = RNG(int(1e6 * abs(point[0]))).normal(size=3)
        x = [Moving(a, b) for a, b in zip(point, v, strict=True)]
        found = shapes.signed_distance(MotionOps(NUMPY), shape, x, [Moving(s) for s in sizes])
        before, here, after = (along(t, point, v) for t in (-h, 0.0, h))
        if found.value.value < 0.01:
            continue
        second = (after - 2.0 * here + before) / h**2
        # A corner's cell begins here or there between both ends: the second difference is neither.
        smooth += abs(found.length.bend - second) < 1e-3 + 1e-3 * abs(second)
        assert found.value.rate == pytest.approx((after - before) / (2.0 * h), abs=2e-3)
    assert smooth >= 15


@pytest.mark.parametrize("n", [1, 3, 6, 7])
def test_positive_definite_systems(n):
    rng = RNG(n)
    for _ in range(5):
        root = rng.normal(size=(n, n + 2))
        A, b = root @ root.T, rng.normal(size=n)
        L, inverse, pivots = factorized(NUMPY, A.tolist())
        lower = np.array(L) + np.eye(n)
        np.testing.assert_allclose(lower @ np.diag(pivots) @ lower.T, A, atol=1e-12)
        np.testing.assert_allclose(solved(L, inverse, b.tolist()), np.linalg.solve(A, b), rtol=1e-9)


def test_singular_systems_tell_by_their_pivot():
    A = np.outer([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    _, inverse, pivots = factorized(NUMPY, A.tolist(), 1e-300)
    assert pivots[0] == 1.0
    assert np.abs(pivots[1:]).max() < 1e-12
    assert np.isfinite(inverse).all()


def test_exponential_and_gate_in_numpy():
    z = np.linspace(-39.0, 39.0, 101)
    np.testing.assert_allclose(rmps.exponential(NUMPY, z), np.exp(z), rtol=1e-10)
    np.testing.assert_allclose(rmps.gate(NUMPY, z), 1.0 / (1.0 + np.exp(z)), rtol=1e-9)


def test_coefficients_are_complete_and_own_leaves_stay():
    names = coefficients(RmpflowSettings())
    assert {name.partition(".")[0] for name in names} >= {leaf.name for leaf in LEAVES}
    assert all(np.isfinite(value) for value in names.values())
    with pytest.raises(InvalidConfig, check=about("target_rmp")):
        remove_leaf("target_rmp")
