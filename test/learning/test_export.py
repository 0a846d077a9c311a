# SPDX-License-Identifier: Apache-2.0
"""Exported policies: equal actions in ONNX Runtime, and a description for the player."""

import numpy as np
import pytest

from motion_nodes.errors import InvalidConfig, InvalidDescription
from motion_nodes.extras.learning.learners import SquashedActor
from motion_nodes.extras.learning.mujoco_env import MujocoEnv
from motion_nodes.extras.learning.networks import ActorCritic, Policy, RunningNorm
from motion_nodes.extras.learning.tasks.registry import make_task
from motion_nodes.extras.learning.training_run import DESCRIPTOR, export_policy, load_exported
from motion_nodes.extras.policies.isaac_lab_files import read_descriptor
from motion_nodes.extras.policies.network import load_network
from motion_nodes.extras.policies.observations import PolicyInputs
from motion_nodes.extras.policies.policy_spec import ActionKind
from motion_nodes.extras.policies.runner import PolicyRunner


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
