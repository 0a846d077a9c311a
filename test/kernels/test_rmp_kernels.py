# SPDX-License-Identifier: Apache-2.0
"""Parts of RMPflow's generated code: differences, pinocchio, NumPy and closed forms as oracles."""

from __future__ import annotations

import ctypes
import math
import re
from types import SimpleNamespace

import numpy as np
import pinocchio as pin
import pytest
from kernels.compile_program import Compiled
from kernels.random_trees import Oracle, random_tree
from rmpflow import rmp_cases
from scipy.linalg import expm
from scipy.spatial.transform import Rotation

from motion_nodes.kernels import native
from motion_nodes.kernels.expression_graph import ExpressionGraph, Program
from motion_nodes.kernels.formulas.ops import NUMPY
from motion_nodes.kernels.formulas.rmps import exponential
from motion_nodes.kernels.formulas.shapes import BALL, BOX, CONE, CYLINDER
from motion_nodes.kernels.kinematic_arrays import pack
from motion_nodes.kernels.llvm_text import declarations, module_text
from motion_nodes.kernels.memory_layout import FieldLayout
from motion_nodes.kernels.python_form import builtin
from motion_nodes.kernels.rmp import rmp_integration, rmp_memory, rmp_pairs
from motion_nodes.kernels.rmp.rmp_codegen import links_text, rmp_text
from motion_nodes.kernels.rmp.rmp_memory import (
    FAR,
    RmpModel,
    RmpRun,
    obstacle_bounds,
    rmp_layout,
    sphere_places,
)
from motion_nodes.kernels.rmp.rmp_pairs import BallLoop, PairLoop, pair_declarations, picks_text
from motion_nodes.kernels.rmp.rmp_robot import (
    UPPER,
    RmpTracer,
    bodies_text,
    moved_point,
    rigid_terms,
    symmetric,
)
from motion_nodes.kernels.simd import Lanes

N = 4
LANES = Lanes("double", N)
P = np.array([8.0, 4.0, 0.3, 6.0, 5.0, 12.0, 2.0, 30.0, 7.0, 0.1])
"""Coefficients of the RMP of a distance; its range is 0.5 m."""


def loaded(*texts):
    text = "\n".join([*texts, *declarations(LANES), *pair_declarations(LANES)])
    text = text.replace("define internal", "define")
    cpu = native.host_cpu()
    return native.LoadedCode(native.compiled(text, cpu), cpu)


def call(code, name, *arguments):
    values = [a.ctypes.data if isinstance(a, np.ndarray) else int(a) for a in arguments]
    ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(values))(code.address(name))(*values)


def rmp(x, rate):
    """Return acceleration and weight at a distance, written out."""
    x, gate = max(x, 0.0), 1.0 + np.exp(rate * P[3])
    push = P[4] * np.exp(-x * P[5]) - rate * P[0] / (gate * (x * P[1] + P[2]))
    return push, max(1.0 - x * P[6], 0.0) ** 2 * P[7] / (gate * (x * P[8] + P[9]))


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


@pytest.mark.parametrize(
    ("loop", "shape", "accuracy"),
    [(PairLoop, BALL, 1e-9), (PairLoop, BOX, 1e-9), (BallLoop, BALL, 1e-7)],
    ids=["balls", "boxes", "balls in float32"],
)
def test_pairs_are_summed_over_all_obstacles(loop, shape, accuracy):
    s, rng = 2 * N, np.random.default_rng(2)
    at = FieldLayout(parameters=10, position=3 * s, velocity=3 * s, radius=s, nearest=s,
                     metric=6 * s, force=3 * s)  # fmt: skip
    places = [*range(len(P))]
    code = loaded(picks_text(N), loop(shape, places, at, s, LANES).text())
    for count in (1, 2, 9):
        memory = np.zeros(at.size)

        def field(name, rows, memory=memory):
            return memory[at[name] : at[name] + rows * s].reshape(rows, s)

        memory[at["parameters"] : at["parameters"] + 10] = P
        field("position", 3)[:] = rng.uniform(-0.8, 0.8, (3, s))
        field("position", 3)[:, 5] = 2.5  # beyond the range of all
        field("velocity", 3)[:] = rng.normal(0.0, 0.5, (3, s))
        field("radius", 1)[:] = rng.uniform(0.02, 0.08, s)
        field("radius", 1)[0, -2:] = -10.0 * FAR  # not in use
        field("nearest", 1)[:] = FAR
        rows = obstacle_rows(rng, shape, count)
        bounds = obstacle_bounds(shape.name, rows)
        call(code, f"rmp_{shape.name}", memory, 0, s // N, rows, count, bounds)
        for i in range(s - 2):
            p, v = field("position", 3)[:, i], field("velocity", 3)[:, i]
            M, f, least = np.zeros((3, 3)), np.zeros(3), FAR
            for row in rows:
                solid = rmp_cases._SOLIDS[shape.name](*row[12:15])
                x, away, rate, curvature = rmp_cases._one(row, p, v, solid, row[16:22], row[15])
                x -= field("radius", 1)[0, i]
                desired, weight = rmp(x, rate)
                M += weight * np.outer(away, away)
                f += weight * (desired - curvature) * away
                least = min(least, x)
            upper = [M[a, b] for a, b in UPPER]
            assert field("metric", 6)[:, i] == pytest.approx(upper, rel=1e-6, abs=1e-6)
            assert field("force", 3)[:, i] == pytest.approx(f, rel=1e-3, abs=1e-2)
            assert field("nearest", 1)[0, i] == pytest.approx(least, abs=accuracy)


def skew(v):
    return np.cross(np.eye(3), np.asarray(v))


def test_points_of_rigid_bodies_move_as_their_exponentials():
    rng, h = np.random.default_rng(3), 1e-4
    for _ in range(5):
        p, turn, linear, bend, linear_bend = rng.normal(size=(5, 3))

        def place(t, motion=(turn, linear, bend, linear_bend), p=p):
            w, v, dw, dv = motion
            twist = np.zeros((4, 4))
            twist[:3, :3] = skew(w * t + 0.5 * dw * t * t)
            twist[:3, 3] = v * t + 0.5 * dv * t * t
            return (expm(twist) @ [*p, 1.0])[:3]

        x, v, bias = moved_point(*(list(a) for a in (p, turn, linear, bend, linear_bend)))
        assert x == pytest.approx(p)
        assert v == pytest.approx((place(h) - place(-h)) / (2.0 * h), abs=1e-6)
        assert bias == pytest.approx((place(h) - 2.0 * place(0.0) + place(-h)) / h**2, abs=1e-5)


def rigid(p, M, force):
    """Return metric and force of a point about the origin, as J^T M J and J^T f."""
    J = np.hstack([-skew(p), np.eye(3)])
    A, f = J.T @ M @ J, J.T @ force
    upper = [[A[i + k, j + k] for i, j in UPPER] for k in (0, 3)]
    return np.array([*upper[0], *A[:3, 3:].ravel(), *upper[1], *f])


def test_links_place_their_spheres_and_collect_their_metrics():
    runs, s, rng = [RmpRun(1, 0, 3), RmpRun(2, 3, 2)], 2 * N, np.random.default_rng(4)
    at = FieldLayout(links=48, centre=3 * s, position=3 * s, velocity=3 * s, bias=3 * s,
                     metric=6 * s, force=3 * s, wrench=32 * s, sums=64)  # fmt: skip
    code = loaded(bodies_text(at, s, runs, LANES))
    memory = rng.normal(size=at.size)
    links = memory[at["links"] : at["centre"]].reshape(2, 24)
    for link in links:
        link[:9] = Rotation.random(random_state=rng).as_matrix().ravel()

    def field(name, rows):
        return memory[at[name] : at[name] + rows * s].reshape(rows, s)

    call(code, "rmp_place", memory)
    totals = np.zeros((2, 27))
    metric, force = field("metric", 6).copy(), field("force", 3).copy()
    for k, run in enumerate(runs):
        link = links[k]
        for i in range(run.start, run.start + run.count):
            p = link[:9].reshape(3, 3) @ field("centre", 3)[:, i] + link[9:12]
            expected = moved_point(
                p.tolist(), *(link[n : n + 3].tolist() for n in range(12, 24, 3))
            )
            for name, value in zip(("position", "velocity", "bias"), expected, strict=True):
                assert field(name, 3)[:, i] == pytest.approx(value)
            M = np.array(symmetric(metric[:, i].tolist()))
            terms = rigid(p, M, force[:, i] - M @ field("bias", 3)[:, i])
            found = rigid_terms(p.tolist(), M.tolist(), [0.0] * 3)
            assert found[:21] == pytest.approx(terms[:21])
            totals[k] += terms
    call(code, "rmp_collect", memory)
    sums = memory[at["sums"] : at["sums"] + 64].reshape(2, 32)
    np.testing.assert_allclose(sums[:, :27], totals, rtol=1e-9, atol=1e-9)


def test_links_of_a_tree_move_as_pinocchio_says():
    tree = random_tree(6, 5)
    arrays, oracle = pack(tree.packed, tree.joint_names, {}), Oracle(tree)
    rows = [len(tree.frame_names) - 1, len(tree.frame_names) // 2]
    model = RmpModel(
        arrays, 5, rows[0], (rows[1],), np.zeros((1, 3)), (), (), ("resolve.most",), ""
    )
    at = rmp_layout(model)
    tracer = RmpTracer(model, at)
    motions = [tracer.motion(row) for row in rows]
    outputs = [(*m.turn, *m.linear, *m.bend, *m.linear_bend) for m in motions]
    code = Compiled(Program(tracer.tape, 5 + at.size, tuple(outputs)), LANES)
    rng = np.random.default_rng(5)
    for _ in range(4):
        q, qd = rng.normal(size=(2, 5))
        given = np.zeros(5 + at.size)
        given[:5] = q
        given[5 + at["qd"] : 5 + at["qd"] + 5] = qd
        full = oracle.expand @ q + oracle.shift, oracle.expand @ qd, np.zeros(oracle.model.nv)
        pin.forwardKinematics(oracle.model, oracle.data, *full)
        pin.updateFramePlacements(oracle.model, oracle.data)
        for row, found in zip(rows, code.one(given), strict=True):
            frame = oracle.frame_id[tree.frame_names[row]]
            axes = (oracle.model, oracle.data, frame, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED)
            v, a = pin.getFrameVelocity(*axes), pin.getFrameClassicalAcceleration(*axes)
            p = oracle.data.oMf[frame].translation
            turn, linear, bend, linear_bend = (found[k : k + 3] for k in range(0, 12, 3))
            assert turn == pytest.approx(v.angular, abs=1e-10)
            assert linear + np.cross(turn, p) == pytest.approx(v.linear, abs=1e-10)
            assert bend == pytest.approx(a.angular, abs=1e-10)
            moved = linear_bend + np.cross(bend, p) + np.cross(turn, v.linear)
            assert moved == pytest.approx(a.linear, abs=1e-10)


def test_the_system_is_solved_as_by_numpy_up_to_the_largest_acceleration():
    tree = random_tree(6, 5)
    arrays = pack(tree.packed, tree.joint_names, {})
    model = RmpModel(arrays, 5, 1, (1,), np.zeros((1, 3)), (), (), ("resolve.most",), "")
    at, rng = rmp_layout(model), np.random.default_rng(6)
    tracer = RmpTracer(model, at)
    results = tracer.solve()
    code = Compiled(Program(tracer.tape, 5 + at.size, (tuple(results.values()),)), LANES)
    root = rng.normal(size=(5, 5))
    M, rhs = root @ root.T + 0.1 * np.eye(5), rng.normal(size=5)
    expected = np.linalg.solve(M, rhs)
    for most in (1e3, 0.25):
        given = np.zeros(5 + at.size)
        for name, value in (("M", M), ("rhs", rhs), ("parameters", most)):
            value = np.ravel(value)
            given[5 + at[name] : 5 + at[name] + value.size] = value
        found = dict(zip(results, code.one(given)[0], strict=True))
        share = min(1.0, most / np.linalg.norm(expected))
        qdd = [found[at["qdd"] + i] for i in range(5)]
        assert qdd == pytest.approx(share * expected)
        pivots = np.diag(np.linalg.cholesky(M)) ** 2 / np.diag(M)
        assert found[at["least_pivot"]] == pytest.approx(pivots.min())


def test_pairs_of_links_push_the_joints_between_them():
    model = SimpleNamespace(
        active=3, moving_rows=(1, 2, 3), sphere_rows=(1, 2), guard_rows=(),
        places=lambda group: {str(k): k for k in range(10)},
    )  # fmt: skip
    s, rng = sphere_places(model)[2], np.random.default_rng(7)
    at = FieldLayout(link_pairs=2, link_sizes=1, link_paths=1, link_radii=1, link_fixed=2,
                     moving_spheres=1, parameters=10, position=3 * s, velocity=3 * s, bias=3 * s,
                     columns=18, M=9, rhs=3, nearest_links=1)  # fmt: skip
    code = loaded(links_text(model, at))
    memory = np.zeros(at.size)
    whole = memory.view(np.int64)
    a, b, da, db, bias_a, bias_b = rng.normal(0.0, 0.1, (6, 3))
    fixed = np.zeros((9, 1))
    fixed[:3, 0] = 0.0, 0.0, 0.25
    for name, values in (("position", (a, b)), ("velocity", (da, db)), ("bias", (bias_a, bias_b))):
        memory[at[name] : at[name] + 3 * s].reshape(3, s)[:, :2] = np.transpose(values)
    columns = memory[at["columns"] : at["M"]].reshape(3, 6)
    columns[:] = rng.normal(size=(3, 6))
    memory[at["parameters"] : at["parameters"] + 10] = P
    # The first pair: sphere 0 is moved by joints 0 and 2, sphere 1 by joint 1. Then 0 and fixed.
    paths = np.array([[0, 0, 1], [1, 1, -1], [2, 2, 1], [0, 0, 1]])
    pairs = np.array([[0, 1, 1, 2, 0, 3], [0, 1, 2, 3, 3, 4]])
    sizes, radii = np.zeros(2), np.array([0.03, 0.05, 0.04])
    for place, array in (("link_pairs", pairs), ("link_sizes", sizes), ("link_paths", paths),
                         ("link_radii", radii), ("link_fixed", fixed)):  # fmt: skip
        whole[at[place]] = array.ctypes.data
    whole[at["link_pairs"] + 1], whole[at["link_fixed"] + 1] = 2, 1
    whole[at["moving_spheres"]] = 2
    call(code, "rmp_links", memory)
    M, rhs, least = np.zeros((3, 3)), np.zeros(3), FAR
    zero = np.zeros(3)
    others = ((b, db, bias_b, 1), (fixed[:3, 0], zero, zero, 2))
    for pair, (c, dc, bias_c, index) in zip(pairs, others, strict=True):
        n = (a - c) / np.linalg.norm(a - c)
        x = np.linalg.norm(a - c) - radii[0] - radii[index]
        rate = n @ (da - dc)
        curvature = ((da - dc) @ (da - dc) - rate**2) / np.linalg.norm(a - c)
        desired, weight = rmp(x, rate)
        u = np.zeros(3)
        for column, joint, sign in paths[pair[4] : pair[5]]:
            point = a if sign > 0 else c
            u[joint] += sign * n @ (columns[column, 3:] + np.cross(columns[column, :3], point))
        M += weight * np.outer(u, u)
        rhs += weight * (desired - curvature - n @ (bias_a - bias_c)) * u
        least = min(least, x)
    assert memory[at["M"] : at["M"] + 9].reshape(3, 3) == pytest.approx(M)
    assert memory[at["rhs"] : at["rhs"] + 3] == pytest.approx(rhs)
    assert memory[at["nearest_links"]] == pytest.approx(least)
    assert weight > 0.0


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
