# SPDX-License-Identifier: Apache-2.0
"""Published policies walk in MuJoCo: on flat ground, in all directions, over 3 cm steps."""

import numpy as np
import pytest
from policy_trial import PolicyTrial

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box
from motion_nodes.errors import MotionError
from motion_nodes.extras.policies.policy_files import load_policy
from motion_nodes.extras.policies.policy_sequence import PolicyMode
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.mjcf import WorldConfig
from motion_nodes.extras.sim.mjcf_shapes import Obstacle
from motion_nodes.extras.sim.mujoco_world import MujocoWorld


def trial_on(obstacles=(), name="go2"):
    robot = load_robot(name)
    try:
        runner = load_policy(f"{name}_walk", robot)
    except MotionError as error:
        pytest.skip(f"the policy is not there: {error}")
    world = MujocoWorld([RobotPlacement(robot, name)], WorldConfig(obstacles=obstacles))
    return world, PolicyTrial(world, name, runner)


def test_twists_are_followed_and_zero_holds():
    _, trial = trial_on()
    for command in ((0.6, 0.0, 0.0), (-0.4, 0.0, -0.8), (0.3, 0.3, 0.6)):
        result = trial.walk(command, 3.0)
        assert not result.fell
        assert np.abs(result.velocity - command)[:2].max() < 0.15
        assert abs(result.velocity[2] - command[2]) < 0.25
    result = trial.walk((0.0, 0.0, 0.0), 3.0)
    assert trial.sequence.mode is PolicyMode.HOLDING
    assert np.abs(trial._velocity()).max() < 0.05


def test_steps_of_three_centimetres_are_climbed():
    steps = tuple(
        Obstacle(f"step{i}", Box((0.4, 2.0, 0.06)), from_xyz_rpy((0.8 + 0.8 * i, 0, 0), (0, 0, 0)))
        for i in range(3)
    )
    world, trial = trial_on(steps)
    result = trial.walk((0.6, 0.0, 0.0), 6.0)
    assert not result.fell
    assert world.base_pose("go2")[0, 3] > 2.0


def test_a_humanoid_walks_and_balances_after_a_stop():
    world, trial = trial_on(name="g1")
    result = trial.walk((0.5, 0.0, 0.4), 3.0)
    assert not result.fell
    assert result.velocity[0] > 0.3
    assert result.velocity[2] > 0.25
    trial.sequence.stop()
    result = trial.walk((0.0, 0.0, 0.0), 2.5)
    assert trial.sequence.mode is PolicyMode.RUNNING
    assert trial.sequence.at_rest
    assert world.base_pose("g1")[2, 3] > 0.7
    assert np.abs(trial._velocity()).max() < 0.1


def test_a_humanoid_is_balanced_before_the_first_command():
    world, trial = trial_on(name="g1")
    assert trial.sequence.mode is PolicyMode.RUNNING
    trial.walk((0.0, 0.0, 0.0), 4.0)
    assert world.base_pose("g1")[2, 3] > 0.7
    assert np.abs(trial._velocity()).max() < 0.1
