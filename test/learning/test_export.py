# SPDX-License-Identifier: Apache-2.0
"""Exported and shipped policies, in training environments and with the player."""

import numpy as np
import pytest
from policy_trial import PolicyTrial

from motion_nodes.core.ik.tool_goal import ArticulationIk
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.placement import parse_placements
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.errors import InvalidConfig, InvalidDescription
from motion_nodes.extras.learning.learners import SquashedActor
from motion_nodes.extras.learning.mujoco_env import MujocoEnv
from motion_nodes.extras.learning.networks import ActorCritic, Policy, RunningNorm
from motion_nodes.extras.learning.tasks.registry import make_task
from motion_nodes.extras.learning.trainer import evaluate
from motion_nodes.extras.learning.training_run import DESCRIPTOR, export_policy, load_exported
from motion_nodes.extras.policies.isaac_lab_files import read_descriptor
from motion_nodes.extras.policies.network import load_network
from motion_nodes.extras.policies.observations import PolicyInputs
from motion_nodes.extras.policies.policy_files import SHIPPED, load_policy, shipped_network
from motion_nodes.extras.policies.policy_spec import ActionKind
from motion_nodes.extras.policies.runner import PolicyRunner
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.drive_targets import JointTargets
from motion_nodes.extras.sim.mujoco_world import MujocoWorld
from motion_nodes.nodes.demo.learned_policies import DRAWER_ROBOTS, HANDLE, OPEN


def recorded(name, steps=5, *, squashed=False):
    """Return observations of random actions, and a policy with random parameters."""
    task, rng = make_task(name), np.random.default_rng(0)
    env = MujocoEnv(task, 8, seed=0)
    rows = [env.reset()]
    rows += [env.step(rng.normal(size=(8, task.action_size))).observations for _ in range(steps)]
    observations = np.vstack(rows)
    if squashed:
        net = SquashedActor(task.observation_size, task.action_size, limit=3.0)
        flat = net.initial(rng)
    else:
        net = ActorCritic(task.observation_size, task.action_size)
        flat = net.initial(rng, 0.0)
    flat += 0.05 * rng.normal(size=len(flat)).astype(np.float32)
    norm = RunningNorm(task.observation_size)
    norm.update(observations)
    return task, Policy(net, flat, norm), observations


@pytest.mark.parametrize("squashed", [False, True])
@pytest.mark.parametrize("name", ["reach", "drawer"])
def test_identical_actions_on_recorded_observations(name, squashed, tmp_path):
    task, policy, observations = recorded(name, squashed=squashed)
    export_policy(policy, task, tmp_path / "policy.onnx")
    actions = policy(observations)
    assert np.abs(actions).max() > 0.1
    played = load_exported(tmp_path / "policy.onnx", task)(observations)
    np.testing.assert_allclose(played, actions, rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("name", ["reach", "grasp", "drawer"])
def test_the_player_commands_what_the_environment_does(name, tmp_path):
    """In closed loop, actions and targets of the player equal those of the environment."""
    task, policy, _ = recorded(name)
    description = export_policy(policy, task, tmp_path / "policy.onnx")
    runner = PolicyRunner(
        read_descriptor(description), load_network(tmp_path / "policy.onnx"), task.joint_names
    )
    env = MujocoEnv(task, 1, seed=4)
    observations = env.reset()
    for _ in range(20):
        view, terms, at = env._view(), {}, 0
        for term in task.observation_terms:
            terms[term.name] = observations[0, at : at + term.size]
            at += term.size
        inputs = PolicyInputs(task.positions(view)[0], task.velocities(view)[0], terms=terms)
        targets = runner.step(inputs)
        actions = policy(observations)
        np.testing.assert_allclose(runner.previous_action, actions[0], rtol=1e-6, atol=1e-6)
        expected = task.control(view, actions)[0, task.actuators] / task.stiffness
        np.testing.assert_allclose(targets.position[:7], expected[:7], atol=1e-6)
        observations = env.step(actions).observations


def test_description_of_the_drawer_policy(tmp_path):
    task, policy, _ = recorded("drawer", 0)
    spec = read_descriptor(export_policy(policy, task, tmp_path / "policy.onnx"))
    assert (spec.observation_width, spec.action_width) == (31, 8)
    assert spec.period == pytest.approx(0.04)
    arm, gripper = spec.actions
    assert (arm.kind, gripper.kind) == (ActionKind.RELATIVE_POSITION, ActionKind.BINARY)
    assert spec.commanded_joints == task.joint_names
    np.testing.assert_allclose(arm.offset, 0.0)
    np.testing.assert_allclose(arm.scale, task.scale)
    np.testing.assert_allclose((gripper.lower, gripper.upper), ((0, 0), (0.04, 0.04)))


def test_policies_of_other_tasks_are_rejected(tmp_path):
    task, policy, _ = recorded("drawer", 0)
    with pytest.raises(InvalidConfig):
        export_policy(policy, make_task("reach"), tmp_path / "policy.onnx")
    export_policy(policy, task, tmp_path / "policy.onnx")
    with pytest.raises(InvalidConfig):
        load_exported(tmp_path / "policy.onnx", make_task("grasp"))
    with pytest.raises(InvalidDescription):
        load_exported(tmp_path / DESCRIPTOR, task)
    with pytest.raises(InvalidConfig):
        export_policy(policy, task, tmp_path / "missing" / "policy.onnx")


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
