# SPDX-License-Identifier: Apache-2.0
"""The tape writes down what is needed, and no more."""

from __future__ import annotations

import math

import numpy as np

from motion_nodes.kernels.expression_graph import ExpressionGraph, Program, Symbol
from motion_nodes.kernels.formulas.ops import cross, dot, times_matrix


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
