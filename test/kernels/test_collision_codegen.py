# SPDX-License-Identifier: Apache-2.0
"""The generated collision checks as code: width of registers, numbers of lanes, loops, leaves."""

import ctypes

import numpy as np
import pytest
from scene.random_scenes import l_shaped_mesh, random_scene, random_solid

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box, Sphere
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.collision_arrays import CheckedRobot, leaves_of, pack_world
from motion_nodes.core.scene.compiled_checks import CompiledChecks
from motion_nodes.core.scene.robot_spheres import AllowedCollisions, checked_pairs, link_bodies
from motion_nodes.core.scene.scene import Part, Scene, world_object
from motion_nodes.kernels import native
from motion_nodes.kernels.collision.collision_binding import collision_calls
from motion_nodes.kernels.collision.collision_codegen import checks_text
from motion_nodes.kernels.collision.collision_memory import BOX, PLANES, TRIANGLE
from motion_nodes.kernels.llvm_builder import FunctionBuilder
from motion_nodes.kernels.llvm_text import declarations
from motion_nodes.kernels.simd import Lanes
from motion_nodes.typing import Array


def test_the_widest_registers_are_used():
    cpu = native.host_cpu()
    code = native.assembly(checks_text(cpu.lanes("float")), cpu)
    register = {512: "zmm", 256: "ymm", 128: "xmm"}[cpu.register_bits]
    if "x86_64" in cpu.triple:
        assert code.count(register) > 500
        for function in ("hits_box", "hits_sphere", "self_hits", "set_off"):
            body = code[code.index(f"\n{function}:") :].split("\n.Lfunc_end")[0]
            assert register in body, function


def test_eight_and_sixteen_lanes_agree():
    robot = load_robot("franka")
    joints = robot.group("arm").joints
    scene = random_scene(np.random.default_rng(0), 21, size=0.04)
    bodies = link_bodies(robot)
    pairs = checked_pairs(robot, bodies, AllowedCollisions())
    rng = np.random.default_rng(1)
    limits = robot.limits.select(joints)
    Q = rng.uniform(limits.lower, limits.upper, (400, 7))
    steps = np.full(7, 0.05)
    verdicts, edges = [], []
    for count in (4, 8, 16):
        checks = CompiledChecks(robot, joints, count)
        checked = CheckedRobot(bodies, pairs, robot.home, steps, 0.0, 0.0)
        table = checks.table(checked, scene, np.eye(4))
        assert checks.calls.lanes.count == count
        verdicts.append(checks.calls.are_free(Q, table))
        edges.append(
            [
                checks.calls.edge_free(a, b, table)
                for a, b in zip(Q, 0.2 * Q[::-1] + 0.8 * Q, strict=True)
            ]
        )
    assert 20 < verdicts[0].sum() < 380
    for other in verdicts[1:]:
        np.testing.assert_array_equal(other, verdicts[0])
    assert edges[0] == edges[1] == edges[2]
    assert 5 < sum(edges[0]) < 395


def compiled(flow: FunctionBuilder, name: str) -> native.LoadedCode:
    text = flow.function(name, linkage="") + "declare i64 @llvm.cttz.i64(i64, i1)\n"
    cpu = native.host_cpu()
    return native.LoadedCode(native.compiled(text, cpu), cpu)


def test_loops_carry_their_values():
    flow = FunctionBuilder(n="i64", limit="i64")
    with flow.loop(flow.argument("n"), total=flow.whole(100), last=flow.whole(-1)) as turn:
        with flow.when(turn.index.differs(2), total=turn["total"]) as odd:
            odd["total"] = odd["total"] + turn.index
        turn["total"] = odd["total"]
        turn["last"] = turn.index
        flow.leave_if(turn, turn["total"] >= flow.argument("limit"))
    flow.ret(turn["total"] * 1000 + turn["last"])
    code = compiled(flow, "sum_up")
    run = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(code.address("sum_up"))
    assert run(0, 10**6) == 100 * 1000 - 1
    assert run(-5, 10**6) == 100 * 1000 - 1
    assert run(5, 10**6) == (100 + 0 + 1 + 3 + 4) * 1000 + 4
    assert run(50, 104) == 104 * 1000 + 3


def test_loops_over_bits():
    flow = FunctionBuilder(mask="i64")
    with flow.bits(flow.argument("mask"), total=flow.whole(0)) as bit:
        bit["total"] = bit["total"] * 64 + bit.index
    flow.ret(bit["total"])
    code = compiled(flow, "read_bits")
    run = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(code.address("read_bits"))
    assert run(0) == 0
    assert run((1 << 3) | (1 << 7) | (1 << 40)) == (3 * 64 + 7) * 64 + 40


@pytest.mark.parametrize("lanes", [1, 8])
def test_operators_compute_lane_by_lane(lanes):
    flow = FunctionBuilder(Lanes("double", lanes), a="ptr", b="ptr", out="ptr")
    a, b = (flow.pointer(name).load(lanes=lanes) for name in "ab")
    results = [a + b, a - b, a * b, a / b, -a, a.smaller(b), a.larger(b), a.fused(b, a), b.size()]
    results += [(a < b).choose(a, b), (a >= b).choose(a, b), a.below(b).choose(a, b)]
    for k, result in enumerate(results):
        flow.pointer("out").store(result, k * lanes)
    names = ("fma", "fabs")
    text = flow.function("compute", linkage="") + "\n".join(declarations(Lanes("double", lanes)))
    assert all(name in text for name in names)
    cpu = native.host_cpu()
    code = native.LoadedCode(native.compiled(text, cpu), cpu)
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, lanes))
    y[0] = np.nan
    out = np.empty((len(results), lanes))
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    run(code.address("compute"))(x.ctypes.data, y.ctypes.data, out.ctypes.data)
    least, most = np.where(x < y, x, y), np.where(x > y, x, y)
    expected = [x + y, x - y, x * y, x / y, -x, least, most, x * y + x, abs(y), least]
    expected += [np.where(x >= y, x, y), np.where(~(x >= y), x, y)]
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-15)


def test_a_branch_may_return():
    flow = FunctionBuilder(n="i64")
    n = flow.argument("n")
    with flow.when(n < 0, size=n) as negative:
        flow.ret(flow.whole(-7))
    with flow.cases(negative["size"], [3, 5]) as cases:
        for number in cases:
            flow.ret(flow.whole(10 * number))
    flow.ret((negative["size"] & 6) | 1)
    code = compiled(flow, "chosen")
    run = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(code.address("chosen"))
    assert [run(n) for n in (-2, 3, 5, 6)] == [-7, 30, 50, 7]


def test_solids_become_the_leaves_that_they_need():
    eye = np.eye(4)
    hull = random_solid(np.random.default_rng(2), "hull")
    kinds = leaves_of((Part(hull, eye),)).kind
    assert (kinds == PLANES).sum() == 1
    assert (kinds == TRIANGLE).sum() == len(kinds) - 1
    filled = leaves_of((Part(l_shaped_mesh(0.3), eye),))
    assert (filled.kind == TRIANGLE).sum() == 20
    volume = (8.0 * filled.half[filled.kind == BOX].prod(axis=1)).sum()
    assert 0.5 * 0.75 * 0.3**3 < volume < 0.75 * 0.3**3  # of the L, three quarters of a cube


def test_what_is_out_of_reach_is_not_packed():
    bodies = link_bodies(load_robot("franka"))
    near = world_object("near", Box((0.1, 0.1, 0.1)), from_xyz_rpy((0.5, 0.0, 0.0)))
    far = world_object("far", Sphere(0.1), from_xyz_rpy((9.0, 0.0, 0.0)))
    scene = Scene({"near": near, "far": far})
    packed = pack_world(scene, bodies, np.eye(4), 1.5, 16, {})
    assert packed.part.fields["leaf_count"] == 1
    again = pack_world(scene, bodies, np.eye(4), 12.0, 16, packed.known)
    assert again.part.fields["leaf_count"] == 2
    assert len(packed.objects) == 2


@pytest.mark.parametrize("shape", [(0, 7), (1, 7), (15, 7), (16, 7), (17, 7), (33, 7)])
def test_batches_of_any_length(shape):
    robot = load_robot("franka")
    checker = CollisionChecker(robot, "arm")
    Q: Array = np.tile(robot.home[:7], (shape[0], 1))
    Q[1::2, 3] = 0.5  # beyond its limit: into itself
    Q[1::2, 1] = 3.0
    free = checker.are_free(Q)
    assert free.shape == shape[:1]
    assert free[0::2].all()
    assert not free[1::2].any()
    assert collision_calls() is collision_calls()
