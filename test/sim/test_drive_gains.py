# SPDX-License-Identifier: Apache-2.0
"""Gains of drives set at run time, and the accelerometer of a floating base."""

from __future__ import annotations

import numpy as np
import pytest

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.errors import InvalidCommand
from motion_nodes.extras.sim.backend import MockWorld, RobotPlacement
from motion_nodes.extras.sim.drive_targets import JointTargets
from motion_nodes.extras.sim.mjcf import WorldConfig
from motion_nodes.extras.sim.mujoco_world import MujocoWorld

NAN = np.full(12, np.nan)


@pytest.fixture(scope="module")
def one_world():
    return MujocoWorld([RobotPlacement(load_robot("go2"), "go2", np.eye(4))])


@pytest.fixture
def world(one_world):
    one_world.reset()
    return one_world


def test_gains_follow_the_drive_law_and_return_at_a_reset(world):
    targets = world.targets("go2")
    described = targets.gains()
    world.set_gains("go2", np.full(12, 20.0), NAN)
    np.testing.assert_array_equal(targets.gains()[0], 20.0)
    np.testing.assert_array_equal(targets.gains()[1], described[1])
    target = world.state("go2").position + 0.05
    world.command("go2", JointTargets(target, np.zeros(12)))
    world.step(2)
    before = world.state("go2")
    world.step()
    between = 0.5 * (before.position + world.state("go2").position)
    speed = 0.5 * (before.velocity + world.state("go2").velocity)
    expected = 20.0 * (target - between) - described[1] * speed
    np.testing.assert_allclose(world.state("go2").effort, expected, atol=0.6)
    world.set_gains("go2", NAN, NAN)
    np.testing.assert_array_equal(targets.gains(), described)
    world.set_gains("go2", np.zeros(12), np.zeros(12))
    world.reset()
    np.testing.assert_array_equal(targets.gains(), described)


@pytest.mark.parametrize(
    "bad", [np.full(12, -1.0), np.full(12, 1e9), np.ones(3), np.full(12, np.inf)]
)
def test_bad_gains_are_rejected_whole(world, bad):
    before = world.targets("go2").gains()
    for pair in ((bad, NAN), (NAN, bad)):
        with pytest.raises(InvalidCommand):
            world.set_gains("go2", *pair)
    np.testing.assert_array_equal(world.targets("go2").gains(), before)


def test_accelerometer_at_rest_and_in_free_fall(world):
    robot = load_robot("go2")
    X_WR = from_xyz_rpy((0.0, 0.0, 5.0), (0.3, 0.2, 0.1))
    falling = MujocoWorld([RobotPlacement(robot, "go2", X_WR)], WorldConfig(floor_height=-50.0))
    falling.set_gains("go2", np.zeros(12), np.zeros(12))
    falling.step(20)
    np.testing.assert_allclose(falling.base_acceleration("go2"), 0.0, atol=0.3)
    world.step(500)
    np.testing.assert_allclose(world.base_acceleration("go2"), [0, 0, 9.81], atol=0.1)
    mock = MockWorld([RobotPlacement(robot, "go2", X_WR)])
    np.testing.assert_allclose(
        mock.base_acceleration("go2"), X_WR[:3, :3].T @ [0.0, 0.0, 9.80665], atol=0.01
    )


def test_accelerometer_is_the_derivative_of_the_velocity(world):
    world.set_gains("go2", np.full(12, 40.0), np.full(12, 1.0))
    world.command("go2", JointTargets(world.state("go2").position + 0.1, np.zeros(12)))
    world.step()
    checked = 0
    for _ in range(40):
        R0 = world.base_pose("go2")[:3, :3]
        v0 = R0 @ world.base_twist("go2")[:3]
        world.step()
        R1 = world.base_pose("go2")[:3, :3]
        v1 = R1 @ world.base_twist("go2")[:3]
        # Within a step the orientation changes by the angular velocity times its duration.
        measured = R1 @ world.base_acceleration("go2") - [0.0, 0.0, 9.80665]
        np.testing.assert_allclose(measured * world.time_step, v1 - v0, atol=2e-4)
        checked += np.abs(v1 - v0).max() > 1e-3
    assert checked > 5


def test_streams_to_drives_with_set_gains_act_at_once(world):
    target = world.state("go2").position + 0.1

    def sent(stamp_ns):
        world.stream("go2", JointTargets(target), stamp_ns)
        return np.array_equal(world.targets("go2").position, target)

    # A stream is delayed by the latency, unless the gains of drives are set.
    assert not sent(5_000_000)
    world.set_gains("go2", np.full(12, 20.0), NAN)
    assert sent(10_000_000)
    assert sent(15_000_000)
    assert world.covered_ns() == 15_000_000 + 8_000_000
    world.set_gains("go2", NAN, NAN)
    target = target + 0.01
    assert not sent(20_000_000)
