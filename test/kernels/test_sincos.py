# SPDX-License-Identifier: Apache-2.0
"""Sine and cosine of the generated code, against NumPy and Python's big integers."""

from __future__ import annotations

import ctypes
import math
from fractions import Fraction

import numpy as np
import pytest
from kernels.compile_program import Compiled

from motion_nodes.kernels import native
from motion_nodes.kernels.expression_graph import ExpressionGraph, Program
from motion_nodes.kernels.llvm_builder import FunctionBuilder
from motion_nodes.kernels.llvm_text import declarations, write_sincos
from motion_nodes.kernels.simd import Lanes

KINDS = [Lanes("double", 4), Lanes("double", 8), Lanes("float", 8), Lanes("float", 16)]
TOLERANCE = {"double": 2.3e-16, "float": 1.2e-7}


def sincos(lanes: Lanes) -> Compiled:
    tape = ExpressionGraph()
    x = tape.input(0)
    return Compiled(Program(tape, 1, ((tape.sine(x), tape.cosine(x)),)), lanes)


@pytest.mark.parametrize("lanes", KINDS, ids=str)
@pytest.mark.parametrize("size", [1.0, 10.0, 1e3, 1e6])
def test_error_is_that_of_rounding(lanes, size):
    compiled = sincos(lanes)
    x = np.random.default_rng(3).uniform(-size, size, (4001, 1)).astype(compiled.dtype)
    exact = np.hstack([np.sin(x.astype(float)), np.cos(x.astype(float))])
    (result,) = compiled.many(x)
    assert np.abs(result - exact).max() < TOLERANCE[lanes.element]
    assert np.abs(compiled.one(x[0])[0] - exact[0]).max() < TOLERANCE[lanes.element]


@pytest.mark.parametrize("lanes", KINDS, ids=str)
def test_multiples_of_a_quarter_turn(lanes):
    compiled = sincos(lanes)
    x = (np.arange(-400, 401) * np.pi / 4).astype(compiled.dtype)[:, None]
    exact = np.hstack([np.sin(x.astype(float)), np.cos(x.astype(float))])
    assert np.abs(compiled.many(x)[0] - exact).max() < TOLERANCE[lanes.element]


def test_an_angle_of_many_turns_keeps_its_precision():
    # pi to 60 digits (OEIS A000796): the remainder of a large angle without rounding
    pi = Fraction("3.14159265358979323846264338327950288419716939937510582097494")
    for x in (1e8 + 0.25, -1e12 - 0.5, 9.9e14):
        remainder = float(Fraction(x) - 2 * pi * round(Fraction(x) / (2 * pi)))
        sine, cosine = sincos(Lanes("double", 8)).one(np.array([x]))[0]
        assert sine == pytest.approx(math.sin(remainder), abs=1e-15)
        assert cosine == pytest.approx(math.cos(remainder), abs=1e-15)


@pytest.mark.parametrize("lanes", KINDS, ids=str)
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
