# SPDX-License-Identifier: Apache-2.0
"""A simulated world in which nothing moves sleeps, and wakes by any change."""

from __future__ import annotations

from collections.abc import Callable

import mujoco
import numpy as np
import pytest

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.scene import Part
from motion_nodes.extras.sim import backend
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.cell_words import parse_free_body
from motion_nodes.extras.sim.drive_targets import JointTargets
from motion_nodes.extras.sim.mjcf import WorldConfig
from motion_nodes.extras.sim.mujoco_world import MujocoWorld
from motion_nodes.extras.sim.scene_bodies import SceneBody

NAME = "arm"
SETTLES = 4.0
"""[s] Time after which the arm sleeps."""


@pytest.fixture
def world() -> MujocoWorld:
    """A Franka beside a cube on the floor, asleep."""
    config = WorldConfig(objects=(parse_free_body("cube:=box:0.05,0.05,0.05:0.2@0.5,0.4,0.025"),))
    world = MujocoWorld([RobotPlacement(load_robot("franka"), NAME, np.eye(4))], config)
    run(world, SETTLES)
    assert sleeps(world)
    return world


def run(world: MujocoWorld, seconds: float) -> None:
    world.step(round(seconds / world.time_step))


def sleeps(world: MujocoWorld) -> bool:
    """Return whether a step computes nothing but the time."""
    solver, time = world.data.qacc_warmstart, world.time
    before = solver.copy()
    solver[:] = 123.0  # each computed step replaces it
    world.step()
    computed = bool((solver != 123.0).any())
    solver[:] = before
    assert world.time == pytest.approx(time + world.time_step)
    return not computed


def test_a_sleeping_world_stays_where_it_was(world):
    before = world.state(NAME)
    time = world.time
    run(world, 1.0)
    assert world.time == pytest.approx(time + 1.0)
    for a, b in zip(before, world.state(NAME), strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.isfinite(world.state(NAME).effort).all()


def commands(world: MujocoWorld) -> None:
    target = world.state(NAME).position.copy()
    target[:7] += 0.1
    world.command(NAME, JointTargets(target, np.zeros_like(target), np.full_like(target, np.nan)))


def changes_gains(world: MujocoWorld) -> None:
    n = len(world.joint_names(NAME))
    world.set_gains(NAME, np.full(n, 50.0), np.full(n, 5.0))


def pushes_the_cube(world: MujocoWorld) -> None:
    world.push_object("cube", np.array([5.0, 0.0, 0.0, 0.0, 0.0, 0.0]), 0.1)


def places_the_cube(world: MujocoWorld) -> None:
    X = np.eye(4)
    X[:3, 3] = 0.5, 0.4, 0.2
    world.place_object("cube", X)


def writes_the_state(world: MujocoWorld) -> None:
    world.data.qpos[0] += 0.01


def applies_a_force(world: MujocoWorld) -> None:
    world.data.qfrc_applied[0] = 20.0


@pytest.mark.parametrize(
    "change",
    [
        commands,
        changes_gains,
        pushes_the_cube,
        places_the_cube,
        writes_the_state,
        applies_a_force,
    ],
)
def test_a_change_wakes_it(world: MujocoWorld, change: Callable[[MujocoWorld], None]) -> None:
    before = world.data.qpos.copy()
    change(world)
    assert not sleeps(world)
    run(world, 0.2)
    assert np.abs(world.data.qpos - before).max() > 1e-4


def test_bodies_of_a_scene_wake_it(world):
    world.set_bodies({})
    assert not sleeps(world)


def test_a_body_that_stays_without_contacts_does_not_wake_it(world):
    """The simulation tries to enable its contacts all the time."""
    X = np.array(world.data.body("arm/panda_hand").xpos)
    body = SceneBody(NAME, (Part(Box((0.1, 0.1, 0.1)), np.eye(4)),), from_xyz_rpy(X))
    world.set_bodies({"scene:inside": body})
    assert "inside" in "".join(world.body_faults)
    run(world, SETTLES)
    assert sleeps(world)
    world.revive_bodies()
    assert sleeps(world)
    assert world.body_faults


def test_a_motion_after_sleep_is_that_of_a_world_that_never_slept(world):
    other = MujocoWorld(
        [RobotPlacement(load_robot("franka"), NAME, np.eye(4))],
        WorldConfig(objects=(parse_free_body("cube:=box:0.05,0.05,0.05:0.2@0.5,0.4,0.025"),)),
    )
    while other.time < world.time - 1e-9:
        mujoco.mj_step(other.model, other.data)
    for each in (world, other):
        commands(each)
        run(each, 0.5)
    np.testing.assert_allclose(world.data.qpos, other.data.qpos, atol=1e-6)


def test_a_moving_world_does_not_sleep(world):
    commands(world)
    for _ in range(40):
        assert not sleeps(world)
        run(world, 0.005)


def test_a_world_at_rest_sleeps_again(world):
    commands(world)
    run(world, SETTLES + 2.0)
    assert sleeps(world)


def replayed(seed: int) -> np.ndarray:
    """Return the positions of an arm that follows a stream with rests and late samples."""
    rng = np.random.default_rng(seed)
    world = MujocoWorld([RobotPlacement(load_robot("franka"), NAME, np.eye(4))])
    q = world.state(NAME).position.copy()
    none, still = np.full_like(q, np.nan), np.zeros_like(q)
    resting = JointTargets(q.copy(), still, none)
    period, seen, waiting = 4_000_000, [], []
    velocity = still
    for k in range(1500):
        now = k * period
        if k % 300 == 200:
            velocity = np.concatenate((rng.uniform(-0.5, 0.5, 7), np.zeros(len(q) - 7)))
        elif k % 300 == 280:
            velocity, resting = still, JointTargets(q.copy(), still, none)
        if velocity.any():
            q = q + velocity * period * 1e-9
            sample = JointTargets(q.copy(), velocity, none)
        else:
            sample = resting
        waiting.append((now, sample))
        if rng.random() < 0.8:  # otherwise it comes with the next one
            for stamp, late in waiting:
                world.stream(NAME, late, stamp)
            waiting.clear()
        world.advance(2, now)
        seen.append(world.state(NAME).position)
    return np.array(seen)


def test_streams_at_rest_are_followed_rarely_without_a_difference(monkeypatch):
    for seed in (1, 2):
        rarely = replayed(seed)
        with monkeypatch.context() as patch:
            patch.setattr(backend, "MAX_SKIPPED", 0)
            always = replayed(seed)
        assert np.ptp(rarely, axis=0).max() > 0.1
        np.testing.assert_allclose(rarely, always, rtol=0.0, atol=1e-12)
