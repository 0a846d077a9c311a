# SPDX-License-Identifier: Apache-2.0
"""Parts of RMPflow's generated code: differences, pinocchio, NumPy and closed forms as oracles."""

import ctypes
import math
import re

import numpy as np
import pytest
from rmpflow import rmp_cases
from scipy.spatial.transform import Rotation

from motion_nodes.kernels import native
from motion_nodes.kernels.expression_graph import ExpressionGraph, Program
from motion_nodes.kernels.formulas.ops import NUMPY
from motion_nodes.kernels.formulas.rmps import exponential
from motion_nodes.kernels.formulas.shapes import BALL, BOX, CONE, CYLINDER
from motion_nodes.kernels.llvm_text import module_text
from motion_nodes.kernels.python_form import builtin
from motion_nodes.kernels.rmp import rmp_integration, rmp_memory, rmp_pairs
from motion_nodes.kernels.rmp.rmp_codegen import rmp_text
from motion_nodes.kernels.simd import Lanes


def obstacle_rows(rng, shape, count):
    rows = np.zeros((count, 22))
    for row in rows:
        R = Rotation.random(random_state=rng).as_matrix() if shape is not BALL else np.eye(3)
        row[:9], row[9:12] = R.ravel(), rng.uniform(-0.8, 0.8, 3)
        row[15] = rng.uniform(0.02, 0.1)
        if shape is not BALL:
            row[12:15] = rng.uniform(0.05, 0.2, 3)
        if shape is CONE:
            row[14] = 1.0 / np.hypot(row[12], 2.0 * row[13])
    rows[::3, 16:] = rng.normal(0.0, 0.3, (len(rows[::3]), 6))
    return rows


@pytest.mark.parametrize("shape", [BALL, BOX, CYLINDER, CONE], ids=lambda shape: shape.name)
def test_distance_rate_and_curvature_are_those_of_differences(shape):
    rng = np.random.default_rng(1)
    for row in obstacle_rows(rng, shape, 12):
        if shape is CONE:
            row[15] = 0.0
        p, v = rng.uniform(-0.9, 0.9, 3), rng.normal(0.0, 0.5, 3)
        value, away, rate, curvature = rmp_cases._one(
            row, p, v, rmp_cases._SOLIDS[shape.name](*row[12:15]), row[16:22], row[15]
        )
        found = rmp_pairs.distance(NUMPY, shape, p, v, row)
        assert found.value == pytest.approx(value, abs=1e-9)
        assert found.n == pytest.approx(away, abs=1e-7)
        assert found.rate == pytest.approx(rate, abs=1e-7)
        assert found.curvature == pytest.approx(curvature, abs=1e-3)


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


class Integrator:
    """Memory of the integration of three joints with wide limits."""

    def __init__(self):
        self.code = rmp_integration.integration_code()
        self.header, blocks = rmp_integration.HEADER, -(-3 // self.code.lanes)
        width = blocks * self.code.lanes
        self.memory = np.zeros(self.header.size + len(rmp_integration.ROWS) * width)
        self.whole = self.memory.view(np.int64)
        self.rows = dict(
            zip(
                rmp_integration.ROWS,
                self.memory[self.header.size :].reshape(-1, width),
                strict=True,
            )
        )
        for name, value in (("lower", -9.0), ("upper", 9.0), ("speed", 9.0),
                            ("acceleration", 20.0), ("jerk", 1e6)):  # fmt: skip
            self.rows[name][:] = value
        self.set(joints=3, blocks=blocks)
        self.memory[self.header["dt"]] = 0.01

    def set(self, **values):
        for name, value in values.items():
            self.whole[self.header[name]] = value

    def get(self, name):
        return self.rows[name][:3].copy()


def test_a_step_is_euler_within_the_limits():
    made, rng = Integrator(), np.random.default_rng(8)
    q, qd, a = rng.normal(size=(3, 3))
    for name, value in (("q", q), ("qd", qd), ("desired", a)):
        made.rows[name][:3] = value
    made.code.step(made.memory.ctypes.data)
    assert made.get("q") == pytest.approx(q + 0.01 * qd)
    assert made.get("qd") == pytest.approx(qd + 0.01 * a)
    assert made.get("last") == pytest.approx(a)
    made.rows["desired"][:3] = 40.0, -10.0, 5.0
    made.code.step(made.memory.ctypes.data)  # all are scaled by the one beyond its limit
    assert made.get("last") == pytest.approx([20.0, -5.0, 2.5])
    made.rows["jerk"][:] = 100.0
    made.rows["desired"][:3] = 20.0, 20.0, 2.5
    made.code.step(made.memory.ctypes.data)  # the acceleration changes by the jerk times dt
    assert made.get("last") == pytest.approx([20.0, -4.0, 2.5])
    made.rows["jerk"][:] = 1e6
    made.rows["q"][:3], made.rows["qd"][:3] = (8.999, -9.5, -9.5), (3.0, -1.0, 1.0)
    made.rows["desired"][:3] = 1.0, -1.0, 1.0
    made.code.step(made.memory.ctypes.data)
    q, qd = made.get("q"), made.get("qd")
    assert q[:2] == pytest.approx([9.0, -9.5])  # stopped, and no farther out
    assert qd[:2].tolist() == [0.0, 0.0]
    assert -9.5 < q[2]


def test_several_steps_follow_the_policy_until_it_cannot_be_solved():
    made, rng = Integrator(), np.random.default_rng(9)
    q, qd, offset = rng.normal(size=(3, 3))
    policy, calls = np.zeros(10), []  # q, qd, qdd, pivot

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def evaluate(address):
        assert address == policy.ctypes.data
        calls.append(policy[:6].copy())
        policy[6:9] = -policy[:3] - 0.5 * policy[3:6]
        policy[9] = 1.0 if len(calls) < 6 else 0.0

    made.set(
        evaluate=ctypes.cast(evaluate, ctypes.c_void_p).value, memory=policy.ctypes.data, count=5,
        **{name: policy[k:].ctypes.data for name, k in (("q", 0), ("qd", 3), ("qdd", 6),
                                                        ("pivot", 9))},
    )  # fmt: skip
    for name, value in (("q", q), ("qd", qd), ("offset", offset)):
        made.rows[name][:3] = value
    made.code.run(made.memory.ctypes.data)
    for seen in calls:
        assert seen[:3] == pytest.approx(q + offset)
        a = -(q + offset) - 0.5 * qd
        q, qd = q + 0.01 * qd, qd + 0.01 * a
    assert made.get("q") == pytest.approx(q)
    assert made.whole[made.header["done"]] == 5
    made.code.run(made.memory.ctypes.data)  # the first evaluation fails
    assert made.whole[made.header["done"]] == 0
    assert made.get("q") == pytest.approx(q)
