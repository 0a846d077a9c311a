# SPDX-License-Identifier: Apache-2.0
"""Batches of poses and plans give the results of single requests, in threads and executors."""

from __future__ import annotations

import pickle
from concurrent.futures import Executor, Future

import numpy as np
import pytest

import motion_nodes as mn
from motion_nodes.core.ik.problem import IkStatus
from motion_nodes.errors import InvalidCommand


class Elsewhere(Executor):
    """Pickles calls and results, like executors with other processes."""

    def submit(self, fn, /, *args, **kwargs):
        """Compute at once."""
        done: Future = Future()
        function, given = pickle.loads(pickle.dumps((fn, args)))
        done.set_result(pickle.loads(pickle.dumps(function(*given))))
        return done


@pytest.fixture(scope="module")
def arm():
    return mn.load_robot("franka")["arm"]


@pytest.fixture(scope="module")
def world(arm):
    rng, boxes = np.random.default_rng(3), mn.World()
    while len(boxes.scene.objects) < 20:
        position, name = rng.uniform([-0.8, -0.8, 0.0], [0.8, 0.8, 1.0]), "candidate"
        boxes.add(name, mn.Box(*rng.uniform(0.05, 0.2, 3)), mn.pose(xyz=position))
        if arm.collision_free(arm.state("ready"), boxes):
            item = boxes.scene.objects[name]
            boxes.add(f"box {len(boxes.scene.objects)}", item.parts[0].solid, item.X_WO)
        boxes.remove(name)
    return boxes


@pytest.fixture(scope="module")
def free(arm, world):
    Q = arm.random(400, seed=5)
    return Q[arm.collision_free_batch(Q, world)][:100]


def test_every_reachable_pose_is_solved_without_collisions(arm, world, free):
    X = arm.fk_batch(free)
    plain, found = arm.ik_batch(X), arm.ik_batch(X, world=world)
    assert found.solved.all()
    assert arm.collision_free_batch(found.q, world).all()
    assert not arm.collision_free_batch(plain.q, world).all()  # otherwise the world has no effect
    for got, wanted in zip(arm.fk_batch(found.q), X, strict=True):
        np.testing.assert_allclose(got, wanted, atol=0.02)
        assert np.linalg.norm((got - wanted)[:3, 3]) < 1.1e-3
    assert all(not arm.problems(q, world) for q in found.q[::20])


def test_poses_in_collision_and_out_of_reach_are_told_apart(arm, free):
    X = arm.fk_batch(free[:3])
    X[1, :3, 3] = 5.0, 0.0, 0.0
    buried = mn.World()
    buried.add("rock", mn.Box(0.2, 0.2, 0.2), mn.pose(xyz=X[2, :3, 3]))
    found = arm.ik_batch(X, world=buried)
    assert found.status[1] is IkStatus.OUT_OF_REACH
    assert found.status[2] in (IkStatus.REFUSED, IkStatus.TIMED_OUT)
    assert arm.ik_batch(np.empty((0, 4, 4)), world=buried).q.shape == (0, 7)


def test_an_executor_gives_the_same_poses(arm, world, free):
    X = arm.fk_batch(free[:10])
    here, there = arm.ik_batch(X, world=world), arm.ik_batch(X, world=world, executor=Elsewhere())
    np.testing.assert_array_equal(here.q, there.q)
    assert here.status == there.status
    assert arm.ik_batch(np.empty((0, 4, 4)), executor=Elsewhere()).solved.shape == (0,)


def test_a_batch_of_plans_gives_those_of_single_requests(arm, world, free):
    goals = free[:5]
    alone = [arm.plan("ready", goal, world).path for goal in goals]
    for executor in (None, Elsewhere()):
        plans = arm.plan_batch("ready", goals, world, executor=executor)
        for plan, path in zip(plans, alone, strict=True):
            np.testing.assert_array_equal(plan.path, path)


def test_starts_and_goals_are_one_or_equally_many(arm, free):
    assert arm.plan_batch([], []) == []
    assert len(arm.plan_batch(free[:2], "ready")) == 2
    assert len(arm.plan_batch("ready", arm.fk_batch(free[:2]))) == 2
    assert len(arm.plan_batch("ready", free[0])) == 1
    for starts, goals in ((free[:2], free[:3]), ("ready", [[0.0, 1.0]])):
        with pytest.raises(InvalidCommand):
            arm.plan_batch(starts, goals)


def test_seeds_of_an_executor_are_one_or_as_many_as_poses(arm, free):
    X = arm.fk_batch(free[:4])
    for seeds in (arm.state("ready"), arm.state("ready")[None], free[:4]):
        assert arm.ik_batch(X, seeds, executor=Elsewhere()).solved.all()
    for poses, seeds in ((X, free[:5]), (X, free[:3]), (3.0, None)):
        with pytest.raises(InvalidCommand):
            arm.ik_batch(poses, seeds, executor=Elsewhere())
