# SPDX-License-Identifier: Apache-2.0
"""RMPflow's generated code: wide registers, memory that holds all, parts in closed form."""

import ctypes
import math
import re

import numpy as np
import pytest
from rmpflow import rmp_cases

from motion_nodes.kernels import native
from motion_nodes.kernels.expression_graph import ExpressionGraph, Program
from motion_nodes.kernels.formulas.rmps import exponential
from motion_nodes.kernels.llvm_text import module_text
from motion_nodes.kernels.python_form import builtin
from motion_nodes.kernels.rmp import rmp_memory
from motion_nodes.kernels.rmp.rmp_codegen import rmp_text
from motion_nodes.kernels.simd import Lanes


def test_pairs_run_in_the_widest_registers():
    cpu = native.host_cpu()
    register = {512: "%zmm", 256: "%ymm", 128: "%xmm"}[cpu.register_bits]
    if cpu.triple.startswith("aarch64"):
        register = ".2d"
    text = native.assembly(rmp_text(rmp_cases.case("franka").model), cpu)
    for name in (
        "rmp_sphere",
        "rmp_box",
        "rmp_cylinder",
        "rmp_cone",
        "rmp_place_run",
        "rmp_wrenches",
    ):
        body = re.search(rf"^{name}:(.*?)^\.Lfunc_end", text, re.S | re.M)
        assert body is not None, name
        assert body[1].count(register) > 50, name


@pytest.mark.parametrize("name", ["franka", "ur10e"])
def test_runs_hold_each_sphere_once_in_order(name):
    model = rmp_cases.case(name).model
    runs = rmp_memory.sphere_runs(model)
    carried, guards, total = rmp_memory.sphere_places(model)
    places = [run.start + k for run in runs for k in range(run.count)]
    assert places == sorted(set(places))
    assert len(places) == len(model.sphere_rows) + rmp_memory.CARRIED + len(model.guard_rows)
    rows = [run.row for run in runs for _ in range(run.count)]
    assert rows[:carried] == list(model.sphere_rows)
    # A whole block may be written for the last run.
    assert max(places) + rmp_memory.BLOCK <= total
    assert guards % rmp_memory.BLOCK == 0


def test_exponential():
    tape = ExpressionGraph()
    program = Program(tape, 1, ((exponential(tape, tape.input(0)),),))
    text = module_text({"exp": program}, {"exp": ("one", "python")}, Lanes("double", 1))
    cpu = native.host_cpu()
    code = native.LoadedCode(native.compiled(text, cpu), cpu)
    run, out = builtin(code.address("exp_python"), "exp"), np.empty(1)
    for z in np.linspace(-40.0, 40.0, 401):
        assert run(np.array([z]), out) == 0
        assert out[0] == pytest.approx(math.exp(z), rel=1e-13)
    for z, bound in ((-1e9, -40.0), (1e9, 40.0)):
        run(np.array([z]), out)
        assert out[0] == pytest.approx(math.exp(bound), rel=1e-13)
    run(np.array([math.nan]), out)
    assert math.isnan(out[0])


def test_exponential_in_float32():
    tape = ExpressionGraph("float")
    program = Program(tape, 1, ((exponential(tape, tape.input(0)),),))
    text = module_text({"exp": program}, {"exp": ("lanes",)}, Lanes("float", 4))
    cpu = native.host_cpu()
    code = native.LoadedCode(native.compiled(text, cpu), cpu)
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code.address("exp_lanes"))
    z = np.linspace(-41.0, 41.0, 400, dtype=np.float32)
    z[-1] = np.nan
    found = np.empty_like(z)
    for k in range(0, len(z), 4):
        run(z[k:].ctypes.data, found[k:].ctypes.data)
    expected = np.exp(np.clip(z.astype(np.float64), -40.0, 40.0))
    np.testing.assert_allclose(found, expected, rtol=5e-6)
