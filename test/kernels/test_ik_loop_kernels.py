# SPDX-License-Identifier: Apache-2.0
"""Seeds and the loop of inverse kinematics, around steps that are known in closed form."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from motion_nodes.kernels import native
from motion_nodes.kernels.ik.ik_codegen import copy, loop_text
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
    work_layout,
)
from motion_nodes.kernels.llvm_builder import FunctionBuilder
from motion_nodes.kernels.memory_layout import Fields
from motion_nodes.kernels.simd import Lanes

JOINTS, BLOCKS = 3, 4
LOW, HIGH = 0.7, 0.75
"""A step finds a solution where the first joint is in between; else the lane is hopeless."""


def steps():
    """Return the functions that the loop calls: the target, and a step of all lanes."""
    at = work_layout(JOINTS)
    restate = FunctionBuilder(work="ptr")
    work = Fields(restate.pointer("work"), at)
    work.set(defect=work.real("target", 15) - 1.0)
    step = FunctionBuilder(Lanes("double", LANES), work="ptr")
    work = Fields(step.pointer("work"), at)
    q = work.memory.load(0, LANES)
    inside = (q > LOW) & (q < HIGH)
    work.at("squared").store(q * q)
    one, none = step.constant(1.0), step.constant(0.0)
    work.at("solved").store(inside.choose(one, none))
    work.at("hopeless").store(inside.choose(none, one))
    for k in range(6):
        work.at("errors", k * LANES).store(q + float(k))
    step.ret(inside.bits() & work.whole("live"))
    return restate.function("ik_restate") + step.function("ik_step")


@pytest.fixture(scope="module")
def code():
    text = (steps() + loop_text(JOINTS)).replace("define internal", "define")
    cpu = native.host_cpu()
    return native.LoadedCode(native.compiled(text, cpu), cpu)


class Case:
    """A workspace with a table of random configurations and their features."""

    def __init__(self, seed=1):
        rng = np.random.default_rng(seed)
        self.table = rng.uniform(-1.0, 1.0, (BLOCKS * BLOCK, JOINTS))
        self.features = rng.normal(size=(BLOCKS, FEATURES, BLOCK)).astype(np.float32)
        self.work = IkWorkspace(JOINTS)
        self.work.direction[:] = rng.normal(size=FEATURES)
        self.work.lower[:], self.work.upper[:] = -0.8, 0.9
        self.work.target[...] = np.eye(4)
        self.work.set(table=self.table.ctypes.data, features=self.features.ctypes.data)
        self.work.set(attempts=BLOCKS, grant=100, given=0)

    def give(self, seeds):
        self.seeds = np.ascontiguousarray(seeds, float)
        self.work.set(starts=self.seeds.ctypes.data, given=len(seeds))
        self.work.set(attempts=BLOCKS + len(seeds))

    def closest(self, block):
        """Return the row of the table whose features are closest, by NumPy."""
        distance = self.work.direction.astype(np.float32) @ self.features[block]
        return block * BLOCK + int(distance.argmin())


def call(code, name, work, *arguments):
    values = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments]
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * (1 + len(values)))
    return kind(code.address(name))(work.address, *values)


def test_seeds_are_the_given_ones_then_the_closest_of_each_block(code):
    case = Case()
    for block in range(BLOCKS):
        assert call(code, "ik_nearest", case.work, block) == case.closest(block)
    given = np.array([[0.1, 0.2, 0.3], [5.0, -5.0, 0.0]])
    case.give(given)
    expected = [*given, *(case.table[case.closest(block)] for block in range(BLOCKS))]
    for k, q in enumerate(expected):
        lane = k % LANES
        case.work.best[lane], case.work.stalled[lane] = 1.0, 2.0
        call(code, "ik_start", case.work, lane)
        assert case.work.q[:, lane] == pytest.approx(np.clip(q, -0.8, 0.9))
        assert case.work.best[lane] == np.inf
        assert case.work.stalled[lane] == 0.0
    assert case.work.get("next") == len(expected)


def test_the_first_solution_of_all_lanes_ends_the_loop(code):
    case = Case()
    seeds = np.zeros((20, JOINTS))
    seeds[:, 0] = np.linspace(-0.7, 0.6, 20)
    seeds[11], seeds[13] = (0.72, 0.1, 0.2), (0.74, 0.3, 0.4)
    case.give(seeds)
    assert call(code, "ik_solve", case.work) == FOUND
    assert case.work.get("iterations") == 2 * LANES
    assert case.work.get("next") == 2 * LANES
    found = case.work.get("found")
    lanes = [k for k in range(LANES) if found >> k & 1]
    assert case.work.q[0, lanes] == pytest.approx([0.72, 0.74])
    assert case.work.answer[:JOINTS] == pytest.approx([0.72, 0.1, 0.2])
    assert case.work.answer[JOINTS:] == pytest.approx(0.72 + np.arange(6.0))
    case.work.set(discard=1 << lanes[0])
    assert call(code, "ik_resume", case.work) == FOUND
    assert case.work.answer[:JOINTS] == pytest.approx([0.74, 0.3, 0.4])


def test_without_a_solution_all_seeds_are_used_and_the_closest_is_kept(code):
    case = Case()
    case.work.upper[0] = 0.5
    seeds = np.full((9, JOINTS), 0.4)
    seeds[6] = 0.01, 0.2, 0.3
    case.give(seeds)
    assert call(code, "ik_solve", case.work) == EXHAUSTED
    assert case.work.get("next") == case.work.get("attempts") == 9 + BLOCKS
    tried = [*seeds, *(case.table[case.closest(block)] for block in range(BLOCKS))]
    least = min((np.clip(q, -0.8, (0.5, 0.9, 0.9)) for q in tried), key=lambda q: q[0] ** 2)
    assert case.work.nearest == pytest.approx([least[0] ** 2, *least])
    case.work.set(grant=1)
    assert call(code, "ik_solve", case.work) == PAUSED
    assert case.work.get("iterations") == LANES
    case.work.target[3, 3] = np.nan
    assert call(code, "ik_solve", case.work) == NO_POSE


def test_many_poses_with_solutions_that_are_refused(code):
    case = Case()
    asked = []

    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
    def accept(q, data):
        first = ctypes.cast(q, ctypes.POINTER(ctypes.c_double))[0]
        asked.append((first, data))
        return int(first > 0.73)

    case.give([[0.72, 0.0, 0.0], [0.735, 0.0, 0.0]])
    case.work.set(given=1, attempts=1 + BLOCKS, accept_data=77)
    targets = np.stack([np.eye(4)] * 2)
    q, report = np.empty((2, JOINTS)), np.empty((2, REPORT))
    call(code, "ik_many", case.work, 2, targets, q, report)
    assert q[:, 0] == pytest.approx([0.72, 0.735])
    assert report[:, 0].tolist() == [FOUND, FOUND]
    assert report[1, 3:] == pytest.approx(0.735 + np.arange(6.0))
    case.work.set(starts=case.seeds.ctypes.data)
    case.work.set(accept=ctypes.cast(accept, ctypes.c_void_p).value)
    call(code, "ik_many", case.work, 2, targets, q, report)
    assert (0.72, 77) in asked
    assert (0.735, 77) in asked
    assert q[1, 0] == pytest.approx(0.735)
    assert q[0, 0] != pytest.approx(0.72)


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
