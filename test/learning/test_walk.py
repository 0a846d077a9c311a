# SPDX-License-Identifier: Apache-2.0
"""The walking task: observations against MuJoCo and SciPy, falls, success, its exported policy."""

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.extras.learning.mujoco_env import MujocoEnv
from motion_nodes.extras.learning.tasks.registry import EnvFactory, make_task, task_config
from motion_nodes.extras.learning.tasks.robot_cell import TaskState
from motion_nodes.extras.learning.tasks.walk import COMMANDS
from motion_nodes.extras.learning.trainer import evaluate, new_trainer
from motion_nodes.extras.learning.training_run import export_policy
from motion_nodes.extras.policies.observations import PolicyInputs
from motion_nodes.extras.policies.policy_files import load_policy

PARTS = {"base_ang_vel": slice(0, 3), "projected_gravity": slice(3, 6),
         "generated_commands": slice(6, 9)}  # fmt: skip


@pytest.fixture(scope="module")
def task():
    return make_task("walk")


def random_state(task, seed, **memory):
    """Return the state of one environment with a random pose and velocity, and its MuJoCo data."""
    rng, data = np.random.default_rng(seed), mujoco.MjData(task.model)
    data.qpos[:] = task.start(rng, 1, 0.0)[0][0]
    data.qpos[3:7] = Rotation.random(random_state=seed).as_quat(scalar_first=True)
    data.qvel[:] = rng.standard_normal(task.model.nv)
    mujoco.mj_forward(task.model, data)
    kept = {**task.new_memory(1), **memory}
    state = TaskState(data.qpos[None], data.qvel[None], data.sensordata[None],
                      np.zeros((1, task.action_size)), kept)  # fmt: skip
    return state, data


def test_observations_are_those_of_mujoco(task):
    for seed in range(5):
        command = np.array([[0.3, -0.2, 0.5]])
        state, data = random_state(task, seed, command=command)
        seen = task.observe(state)[0]
        assert seen.shape == (task.observation_size,) == (45,)
        velocity = np.zeros(6)
        body = task.model.body("go2/base").id
        mujoco.mj_objectVelocity(task.model, data, mujoco.mjtObj.mjOBJ_XBODY, body, velocity, 1)
        R_WB = data.xmat[body].reshape(3, 3)
        np.testing.assert_allclose(seen[PARTS["base_ang_vel"]], velocity[:3], atol=1e-9)
        np.testing.assert_allclose(
            seen[PARTS["projected_gravity"]], R_WB.T @ (0.0, 0.0, -1.0), atol=1e-9
        )
        np.testing.assert_array_equal(seen[PARTS["generated_commands"]], command[0])


def test_standing_is_a_success_only_if_it_is_commanded(task):
    env = MujocoEnv(task, 40, seed=3)
    standing = evaluate(lambda observations: np.zeros((40, 12)), env)
    assert standing.mean_steps == task.episode_steps
    env.reset()
    told = np.abs(env._memory["next"]).max(axis=1) < 1e-9
    near = (np.abs(env._memory["next"]) < (0.15, 0.15, 0.25)).all(axis=1)
    assert told.any()
    first = env._memory["command"]
    for k in range(200):
        step = env.step(np.zeros((40, 12)))
        if k < 48:
            np.testing.assert_array_equal(env._memory["command"], first)
    np.testing.assert_array_equal(env._memory["command"], env._memory["next"])
    assert step.success[told].all()
    assert not step.success[~near].any()


def test_commands_are_within_their_range(task):
    memory = task.start(np.random.default_rng(0), 500, 0.0)[1]
    for commands in (memory["command"], memory["next"]):
        assert (commands >= COMMANDS[0]).all()
        assert (commands <= COMMANDS[1]).all()
        assert (np.ptp(commands, axis=0) > 0.9 * np.ptp(COMMANDS, axis=0)).all()


def test_a_robot_on_its_side_has_fallen(task):
    for angle, expected in ((0.0, False), (0.6, False), (1.3, True), (3.0, True)):
        before, _ = random_state(task, 0)
        q = before.q.copy()
        q[0, 2] = 0.5
        q[0, 3:7] = Rotation.from_rotvec((angle, 0.0, 0.0)).as_quat(scalar_first=True)
        after = TaskState(q, 0.0 * before.v, before.sensors, before.actions, before.memory)
        reward, fallen, success = task.assess(before, after)
        assert np.isfinite(reward).all()
        assert bool(fallen[0]) == expected
        assert not (success & fallen).any()


def test_the_swing_of_a_foot_is_paid_when_it_ends(task):
    memory = {"command": np.array([[0.5, 0.0, 0.0]]), "swing": np.array([[0.2, 0.0, 0.0, 0.0]])}
    state, _ = random_state(task, 0)
    down = state.sensors.copy()
    down[0, task._foot_z] = 0.0
    up = state.sensors.copy()
    up[0, task._foot_z] = 0.1

    def paid(sensors, **changed):
        kept = {**task.new_memory(1), **memory, **changed}
        after = TaskState(state.q, state.v, sensors, state.actions, kept)
        return float(task._swings(after)[0]), kept["swing"][0]

    earned, swing = paid(down)
    assert earned > 0.0
    np.testing.assert_array_equal(swing, 0.0)
    earned, swing = paid(up)
    assert earned == 0.0
    np.testing.assert_allclose(swing, (0.22, 0.02, 0.02, 0.02))
    assert paid(down, command=np.zeros((1, 3)))[0] == 0.0


def test_only_feet_in_contact_slide(task):
    state, _ = random_state(task, 1)
    sensors = 0.0 * state.sensors
    sensors[0, task._foot_speed[0]] = 0.3, 0.4
    sensors[0, task._foot_speed[1]] = 1.0, 0.0
    sensors[0, task._foot_z[1]] = 0.1
    after = TaskState(state.q, state.v, sensors, state.actions, state.memory)
    assert float(task._sliding(after)[0]) == pytest.approx(0.25)


def test_the_player_computes_observations_and_targets_of_the_task(task, tmp_path):
    trainer = new_trainer(EnvFactory("walk"), task_config("walk", seed=0, num_envs=4))
    trainer.learner.flat += 0.05 * np.random.default_rng(0).standard_normal(
        len(trainer.learner.flat)
    ).astype(np.float32)
    trainer.norm.update(np.random.default_rng(1).standard_normal((50, 45)))
    policy, robot = trainer.policy, load_robot("go2")
    export_policy(policy, task, tmp_path / "policy.onnx")
    runner = load_policy(str(tmp_path), robot)
    np.testing.assert_allclose(runner.spec.command_limit, (1.0, 0.3, 1.0))
    order = robot.indices(task.joint_names)
    env = MujocoEnv(task, 1, seed=5)
    observations = env.reset()
    for _ in range(10):
        view = env._view()
        q, v = np.empty((2, len(order)))
        q[order], v[order] = task.positions(view)[0], task.velocities(view)[0]
        R_WB = Rotation.from_quat(view.q[0, 3:7], scalar_first=True).as_matrix()
        inputs = PolicyInputs(
            q, v, command=view.memory["command"][0], R_WB=R_WB, angular_velocity=view.v[0, 3:6]
        )
        targets = runner.step(inputs)
        actions = policy(observations)
        np.testing.assert_allclose(runner.previous_action, actions[0], atol=1e-5)
        np.testing.assert_allclose(
            targets.position[order], task.targets(view, actions)[0], atol=1e-5
        )
        observations = env.step(actions).observations
