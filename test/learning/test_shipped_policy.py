# SPDX-License-Identifier: Apache-2.0
"""The shipped policy opens the drawer, in the training environment and with the player."""

import numpy as np
import pytest
from policy_trial import PolicyTrial

from motion_nodes.core.ik.tool_goal import ArticulationIk
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.placement import parse_placements
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.extras.learning.mujoco_env import MujocoEnv
from motion_nodes.extras.learning.tasks.registry import make_task
from motion_nodes.extras.learning.trainer import evaluate
from motion_nodes.extras.learning.training_run import load_exported
from motion_nodes.extras.policies.observations import PolicyInputs
from motion_nodes.extras.policies.policy_files import SHIPPED, load_policy, shipped_network
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.drive_targets import JointTargets
from motion_nodes.extras.sim.mujoco_world import MujocoWorld
from motion_nodes.nodes.demo.learned_policies import DRAWER_ROBOTS, HANDLE, OPEN


def test_drawer_is_opened():
    task = make_task("drawer")
    file = shipped_network("franka_drawer")
    assert file.stat().st_size < 150_000
    result = evaluate(load_exported(file, task), MujocoEnv(task, 20, seed=77))
    assert result.success >= 0.95


def test_drawer_is_opened_through_the_player():
    """In the suite's simulation, with the cabinet of the demo."""
    robot, place = load_robot("franka"), parse_placements((DRAWER_ROBOTS[1],))[0]
    X_WR = from_xyz_rpy((place.x, place.y, 0.0), (0.0, 0.0, place.yaw))
    cabinet = RobotPlacement(load_robot(place.robot), "cabinet", X_WR)
    world = MujocoWorld([RobotPlacement(robot, "franka"), cabinet])
    runner, arm = load_policy("franka_drawer", robot), ArticulationIk(robot, "arm")
    assert runner.spec.observation_width == 31
    nan = np.full(len(robot.joint_names), np.nan)
    home, ready = robot.home, runner.default_position(robot.home)
    for s in np.linspace(0.0, 1.0, 50):
        world.command("franka", JointTargets(home + s * (ready - home), nan, nan))
        world.step(round(0.02 / world.time_step))
    for _ in range(150):
        q, opening = world.state("franka"), world.state("cabinet")
        handle = HANDLE - (opening.position[0], 0.0, 0.0)
        tool = arm.tool_pose(dict(zip(robot.joint_names, q.position, strict=True)))[:3, 3]
        terms = {
            "drawer_position": opening.position,
            "drawer_velocity": opening.velocity,
            "handle_from_tool": handle - tool,
        }
        targets = runner.step(PolicyInputs(q.position, q.velocity, terms=terms))
        world.command("franka", JointTargets(*targets))
        world.step(round(runner.period / world.time_step))
    assert world.state("cabinet").position[0] > OPEN


def test_quadruped_walks_as_commanded():
    task = make_task("walk")
    result = evaluate(
        load_exported(shipped_network("go2_trot"), task), MujocoEnv(task, 20, seed=77)
    )
    assert result.success >= 0.85
    assert result.mean_steps > 0.95 * task.episode_steps


@pytest.mark.parametrize("command", [(0.5, 0.0, 0.0), (-0.3, 0.1, 0.0), (0.2, 0.0, 0.6)])
def test_quadruped_walks_through_the_player(command):
    """In the suite's simulation, with its time step and contacts."""
    robot = load_robot("go2")
    world = MujocoWorld([RobotPlacement(robot, "go2")])
    trial = PolicyTrial(world, "go2", load_policy("go2_trot", robot))
    result = trial.walk(command, 4.0)
    assert not result.fell
    np.testing.assert_allclose(result.velocity, command, atol=0.15)


def test_all_shipped_policies_are_there():
    assert all(shipped_network(name).is_file() for name in SHIPPED)
