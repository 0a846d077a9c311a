# SPDX-License-Identifier: Apache-2.0
"""Inverse kinematics in generated code and NumPy take the same steps; seeds and loop."""

import ctypes
import re

import numpy as np
import pytest
from kernels.numpy_ik import NumpyIk
from kernels.random_trees import random_tree
from scipy.spatial.transform import Rotation

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.kernels import native
from motion_nodes.kernels.ik.ik_codegen import GeneratedIk, copy, solve_text
from motion_nodes.kernels.ik.ik_step import (
    BLOCK,
    EXHAUSTED,
    FEATURES,
    FOUND,
    LANES,
    NO_POSE,
    PAUSED,
    REPORT,
    IkWorkspace,
)
from motion_nodes.kernels.kinematic_arrays import pack
from motion_nodes.kernels.llvm_builder import FunctionBuilder

BLOCKS = 12

KERNELS = (GeneratedIk, NumpyIk)


class Case:
    """A random chain, its two kernels and random starts."""

    def __init__(self, seed: int, joints: int) -> None:
        tree = random_tree(seed, joints)
        self.tip = tree.frame_names[-1]
        self.n = len(tree.joint_names)
        self.arrays = pack(tree.packed, tree.joint_names, {})
        self.row = len(tree.frame_names) - 1
        self.kinematics = Kinematics(tree, generic=True)
        self.rng = np.random.default_rng(seed)
        self.lower, self.upper = np.full(self.n, -2.0), np.full(self.n, 1.5)
        count = BLOCKS * BLOCK
        self.table = self.rng.uniform(self.lower, self.upper, (count, self.n))
        X = self.kinematics.pose_batch(self.table, self.tip)
        rows = np.empty((count, FEATURES))
        rows[:, 0] = (X[:, :3, 3] ** 2).sum(axis=1)
        rows[:, 1:4], rows[:, 4:] = X[:, :3, 3], X[:, :3, :3].reshape(-1, 9)
        blocks = rows.reshape(BLOCKS, BLOCK, FEATURES).transpose(0, 2, 1)
        self.features = np.ascontiguousarray(blocks, np.float32)

    def work(self, target: np.ndarray, given: np.ndarray | None = None, **integers) -> IkWorkspace:
        work = IkWorkspace(self.n)
        work.box[:], work.slack[:] = np.inf, 0.0
        work.tolerance[:], work.weight[:] = 1e-12, 1.0
        work.importance[:] = 1.0
        work.lower[:], work.upper[:] = self.lower, self.upper
        work.target[...] = target
        work.set(table=self.table.ctypes.data, features=self.features.ctypes.data)
        work.set(attempts=BLOCKS, grant=1000)
        if given is not None:
            work.set(given=len(given), starts=given.ctypes.data, attempts=BLOCKS + len(given))
        work.set(**integers)
        return work

    def reachable(self) -> np.ndarray:
        q = self.rng.uniform(self.lower, self.upper)
        return self.kinematics.pose(q, self.tip)


CASES = [(3, 1), (4, 3), (5, 6), (7, 7), (8, 9), (11, 12)]


@pytest.mark.parametrize(("seed", "joints"), CASES)
@pytest.mark.parametrize("steps", [1, 2, 3, 6])
def test_generated_and_numpy_take_the_same_steps(seed, joints, steps):
    case = Case(seed, joints)
    target = case.reachable()
    works = [case.work(target, grant=steps) for _ in range(2)]
    kernels = [kind(case.arrays, case.row) for kind in KERNELS]
    outcomes = [kernel.solve(work) for kernel, work in zip(kernels, works, strict=True)]
    assert outcomes[0] == outcomes[1]
    ours, oracle = works
    np.testing.assert_allclose(ours.X_TB, oracle.X_TB, atol=1e-13)
    np.testing.assert_allclose(ours.direction, oracle.direction, atol=1e-13)
    np.testing.assert_allclose(ours.squared, oracle.squared, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(ours.errors, oracle.errors, atol=1e-5)
    np.testing.assert_allclose(ours.q, oracle.q, atol=1e-4)
    np.testing.assert_array_equal(ours.stalled, oracle.stalled)
    for name in ("live", "found", "next", "iterations", "wait"):
        assert ours.get(name) == oracle.get(name), name


@pytest.mark.parametrize(("seed", "joints"), CASES[2:])
def test_both_solve_to_the_end_and_stay_inside_the_limits(seed, joints):
    case = Case(seed, joints)
    for kind in KERNELS:
        kernel = kind(case.arrays, case.row)
        solved = 0
        for _ in range(10):
            target = case.reachable()
            work = case.work(target)
            outcome = kernel.solve(work)
            assert outcome in (FOUND, EXHAUSTED)
            q = work.answer[: case.n] if outcome == FOUND else work.nearest[1:]
            assert (q >= case.lower).all()
            assert (q <= case.upper).all()
            if outcome == FOUND:
                solved += 1
                np.testing.assert_allclose(case.kinematics.pose(q, case.tip), target, atol=2e-6)
        assert solved >= 7


@pytest.mark.parametrize("kind", KERNELS)
def test_rotation_errors_are_the_logarithm_up_to_half_a_turn(kind):
    case = Case(5, 6)
    kernel = kind(case.arrays, case.row)
    rng = np.random.default_rng(1)
    axes = rng.normal(size=(40, 3))
    axes[:6] = [*np.eye(3), *-np.eye(3)]
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    angles = [0.0, 1e-12, 1e-7, 1e-3, 1.0, 2.0, 3.0, np.pi - 1e-4, np.pi - 1e-9, np.pi]
    start = rng.uniform(-1, 1, (1, 6))
    X = case.kinematics.pose(start[0], case.tip)
    for axis in axes:
        for angle in angles:
            wanted = angle * axis
            target = np.eye(4)
            # X_TE has this rotation, so the target is the tip turned back.
            target[:3, :3] = X[:3, :3] @ Rotation.from_rotvec(wanted).as_matrix().T
            target[:3, 3] = X[:3, 3]
            work = case.work(target, start, attempts=1, grant=1)
            work.tolerance[:] = 0.0
            kernel.solve(work)
            got = work.errors[3:, 0]
            if angle > 3.0:  # both directions are right at half a turn
                got = got * np.sign(got @ wanted)
            np.testing.assert_allclose(got, wanted, atol=2e-7 if angle > 1.0 else 5e-8)
            np.testing.assert_allclose(work.errors[:3, 0], 0.0, atol=1e-14)


def test_the_nearest_configuration_of_each_block_is_a_start():
    case = Case(7, 7)
    target = case.reachable()
    work = case.work(target, grant=0, attempts=LANES)
    assert GeneratedIk(case.arrays, case.row).solve(work) == PAUSED
    X = case.kinematics.pose_batch(case.table, case.tip)
    distance = ((X[:, :3, 3] - target[:3, 3]) ** 2).sum(axis=1)
    distance += 3.0 - np.einsum("mij,ij->m", X[:, :3, :3], target[:3, :3])
    best = distance.reshape(BLOCKS, BLOCK).argmin(axis=1)[:LANES] + BLOCK * np.arange(LANES)
    np.testing.assert_array_equal(work.q.T, case.table[best])


def test_starts_beyond_a_limit_or_not_a_number_begin_at_a_limit():
    case = Case(7, 7)
    given = np.full((3, 7), 5.0)
    given[1], given[2] = -5.0, np.nan
    for kind in KERNELS:
        work = case.work(np.eye(4), given, grant=0, attempts=3)
        kind(case.arrays, case.row).solve(work)
        np.testing.assert_array_equal(work.q[:, 0], case.upper)
        np.testing.assert_array_equal(work.q[:, 1], case.lower)
        if kind is GeneratedIk:
            np.testing.assert_array_equal(work.q[:, 2], case.lower)


@pytest.mark.parametrize("kind", KERNELS)
def test_what_is_no_pose_is_refused(kind):
    case = Case(5, 6)
    kernel = kind(case.arrays, case.row)
    mirror, stretched, nan, infinite = (np.eye(4) for _ in range(4))
    mirror[0, 0], stretched[1, 1], nan[2, 0], infinite[0, 3] = -1.0, 1.01, np.nan, np.inf
    for X in (mirror, stretched, nan, infinite, np.zeros((4, 4)), 2.0 * np.eye(4)):
        assert kernel.solve(case.work(X)) == NO_POSE
    slightly = np.eye(4) + 1e-9
    slightly[3] = 0.0, 0.0, 0.0, 1.0
    assert kernel.solve(case.work(slightly)) != NO_POSE
    far = np.eye(4)
    far[0, 3] = 1e9
    assert kernel.solve(case.work(far)) == EXHAUSTED


@pytest.mark.parametrize("kind", KERNELS)
def test_a_lane_that_is_waited_for_wins(kind):
    case = Case(7, 7)
    kernel = kind(case.arrays, case.row)
    q = case.rng.uniform(case.lower, case.upper)
    target = case.kinematics.pose(q, case.tip)
    near = case.rng.uniform(case.lower, case.upper, (1, 7))
    given = np.vstack([near, q])
    alone = case.work(target, given)
    assert kernel.solve(alone) == FOUND
    assert alone.get("found") & 2
    np.testing.assert_array_equal(alone.answer[:7], q)
    waiting = case.work(target, given, prefer=1)
    assert kernel.solve(waiting) == FOUND
    assert waiting.get("found") & 3 == 3
    assert waiting.get("iterations") > alone.get("iterations")
    np.testing.assert_array_equal(waiting.answer[:7], waiting.q[:, 0])
    assert not np.allclose(waiting.answer[:7], q, atol=1e-3)
    reached = case.kinematics.pose(waiting.answer[:7], case.tip)
    np.testing.assert_allclose(reached, target, atol=2e-6)
    np.testing.assert_array_equal(waiting.q[:, 1], q)  # the other one stayed


@pytest.mark.parametrize("kind", KERNELS)
def test_a_lane_that_gives_up_is_no_longer_waited_for(kind):
    case = Case(7, 7)
    kernel = kind(case.arrays, case.row)
    q = case.rng.uniform(case.lower, case.upper)
    target = case.kinematics.pose(q, case.tip)
    starts = case.rng.uniform(case.lower, case.upper, (30, 1, 7))

    def gives_up(start):
        return kernel.solve(case.work(target, start, attempts=1)) == EXHAUSTED

    given = np.vstack([next(filter(gives_up, starts)), q])
    waiting = case.work(target, given, attempts=2, prefer=1)
    assert kernel.solve(waiting) == FOUND
    assert waiting.get("found") == 2
    assert waiting.get("wait") == 0
    np.testing.assert_array_equal(waiting.answer[:7], q)


@pytest.mark.parametrize("kind", KERNELS)
def test_pauses_do_not_change_the_answer_and_discarded_lanes_take_new_starts(kind):
    case = Case(8, 9)
    kernel = kind(case.arrays, case.row)
    target = case.reachable()
    whole, paused = case.work(target), case.work(target, grant=1)
    assert kernel.solve(whole) == FOUND
    outcome = kernel.solve(paused)
    while outcome == PAUSED:
        paused.set(grant=1, discard=0)
        outcome = kernel.resume(paused)
    assert outcome == FOUND
    np.testing.assert_array_equal(whole.answer, paused.answer)
    assert whole.get("iterations") == paused.get("iterations")
    found = []
    while outcome == FOUND:
        found += [i for i in range(LANES) if paused.get("found") >> i & 1]
        paused.set(grant=1000, discard=paused.get("found"))
        outcome = kernel.resume(paused)
    assert outcome == EXHAUSTED
    assert len(found) > 1
    assert paused.get("next") == BLOCKS
    assert paused.get("live") == 0


@pytest.mark.parametrize("kind", KERNELS)
def test_a_batch_gives_what_single_solves_give(kind):
    case = Case(7, 7)
    kernel = kind(case.arrays, case.row)
    targets = np.array([case.reachable() for _ in range(6)])
    targets[2, 0, 3] += 100.0
    targets[4, 0, 0] = np.nan
    starts = case.rng.uniform(case.lower, case.upper, (6, 7))
    q, report = np.empty((6, 7)), np.empty((6, REPORT))
    all_of_them = case.work(targets[0])
    all_of_them.set(given=1, starts=starts.ctypes.data, attempts=9, prefer=1)
    kernel.many(all_of_them, targets, q, report)
    for i in range(6):
        work = case.work(targets[i], starts[i : i + 1], attempts=9, prefer=1)
        outcome = kernel.solve(work)
        assert report[i, 0] == outcome
        if outcome == FOUND:
            np.testing.assert_array_equal(q[i], work.answer[:7])
            np.testing.assert_array_equal(report[i, 3:], work.answer[7:])
        elif outcome == EXHAUSTED:
            np.testing.assert_array_equal(q[i], work.nearest[1:])
        if outcome != NO_POSE:
            assert report[i, 1] == work.get("iterations")
            assert report[i, 2] == work.get("next")
    assert report[2, 0] == EXHAUSTED
    assert report[4, 0] == NO_POSE


def test_the_step_uses_wide_registers():
    cpu = native.host_cpu()
    if not cpu.triple.startswith("x86_64") or cpu.register_bits < 256:
        pytest.skip("for x86 with AVX2 or AVX-512")
    case = Case(7, 7)
    register = {256: "ymm", 512: "zmm"}[cpu.register_bits]
    text = solve_text(case.arrays, case.row)
    step = native.assembly(text, cpu).split("ik_step:")[1].split("ik_restate:")[0]
    arithmetic = re.findall(r"\tv(?:fn?m(?:add|sub)\d*|mul|add|sub|div)[ps][sd]\t.*", step)
    assert len(arithmetic) > 500
    wide = [line for line in arithmetic if register in line]
    assert len(wide) > 0.95 * len(arithmetic)  # what is the same in all lanes may be done once


def test_rows_apart_are_copied_side_by_side():
    flow = FunctionBuilder(a="ptr", b="ptr")
    copy(flow.pointer("a"), flow.pointer("b"), 3, 4)
    flow.ret()
    cpu = native.host_cpu()
    code = native.LoadedCode(native.compiled(flow.function("run", linkage=""), cpu), cpu)
    a, b = np.arange(12.0), np.zeros(3)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    kind(code.address("run"))(a.ctypes.data, b.ctypes.data)
    assert b.tolist() == [0.0, 4.0, 8.0]
