# SPDX-License-Identifier: Apache-2.0
"""Batches give the same results as single requests."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from ik.ik_samples import draw, pose_of, solver_of
from raised_errors import about

from motion_nodes.core.ik.problem import IkRequest, IkStatus
from motion_nodes.errors import InvalidCommand, InvalidConfig


@pytest.mark.parametrize("robot", ["franka", "ur10e"])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("seeded", [False, True])
def test_a_batch_answers_like_single_requests(robot, threads, seeded):
    solver = solver_of(robot)
    Q = draw(solver.chain, 150, 1)
    targets = solver.chain.kinematics.pose_batch(Q, solver.chain.tip)
    targets[7, :3, 3] += 5.0
    seeds = draw(solver.chain, 150, 2) if seeded else None
    batch = solver.solve_batch(targets, seeds, threads=threads)
    assert batch.solved.sum() == 149
    assert batch.status[7] is IkStatus.OUT_OF_REACH
    for i in range(0, 150, 7):
        alone = solver.solve(IkRequest(targets[i], seed=None if seeds is None else seeds[i]))
        assert batch.status[i] is alone.status
        np.testing.assert_array_equal(batch.q[i], alone.q)
        np.testing.assert_array_equal(batch.errors[i], alone.errors)
        assert batch.iterations[i] == alone.iterations
        if alone.success:
            np.testing.assert_allclose(
                pose_of(robot, solver.chain, batch.q[i]), targets[i], atol=3e-6
            )
    assert (batch.q >= solver.chain.lower).all()
    assert (batch.q <= solver.chain.upper).all()


def test_one_seed_serves_all():
    solver = solver_of()
    targets = solver.chain.kinematics.pose_batch(draw(solver.chain, 5, 3), solver.chain.tip)
    one = solver.solve_batch(targets, solver.chain.centre)
    many = solver.solve_batch(targets, np.tile(solver.chain.centre, (5, 1)))
    np.testing.assert_array_equal(one.q, many.q)


def test_limits_of_the_search_hold_in_a_batch():
    solver = solver_of()
    targets = solver.chain.kinematics.pose_batch(draw(solver.chain, 80, 4), solver.chain.tip)
    few = dataclasses.replace(solver.settings, max_iterations=16)
    batch = solver.solve_batch(targets, settings=few)
    assert batch.iterations.max() <= 16
    assert IkStatus.ITERATION_LIMIT in batch.status
    assert batch.solved.sum() < 80


def test_empty_and_bad_batches():
    solver = solver_of()
    empty = solver.solve_batch(np.empty((0, 4, 4)))
    assert empty.q.shape == (0, 7)
    assert empty.status == ()
    targets = np.tile(np.eye(4), (70, 1, 1))
    targets[:, 0, 3] = 0.5
    for bad, field in (
        (np.eye(4), "targets"),
        ("poses", "targets"),
        (np.zeros((3, 4, 4)), "target 0 of 3"),
    ):
        with pytest.raises(InvalidCommand, check=about(field)):
            solver.solve_batch(bad)
    with pytest.raises(InvalidCommand):
        solver.solve_batch(targets, np.zeros((2, 7)))
    with pytest.raises(InvalidConfig):
        solver.solve_batch(targets, threads=0)
    targets[69, 1, 1] = np.nan
    with pytest.raises(InvalidCommand):
        solver.solve_batch(targets)
