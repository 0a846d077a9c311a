# SPDX-License-Identifier: Apache-2.0
"""Tasks in MuJoCo: observations against independent kinematics, resets, states, invalid actions."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from raised_errors import about

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.learning.mujoco_env import MujocoEnv, Randomization
from motion_nodes.extras.learning.tasks.registry import (
    TASKS,
    EnvFactory,
    make_task,
    task_config,
    task_entry,
)
from motion_nodes.extras.learning.trainer import Trainer, check_step, new_trainer
from motion_nodes.extras.learning.training_run import (
    export_policy,
    load_exported,
    single_threaded_blas,
)


@pytest.mark.parametrize(("name", "sizes"), [("reach", (23, 7)), ("grasp", (34, 8)),
                                             ("drawer", (31, 8))])  # fmt: skip
def test_short_rollout_of_each_task(name, sizes):
    env = MujocoEnv(make_task(name), 3, seed=0)
    assert (env.observation_size, env.action_size) == sizes
    assert env.reset().shape == (3, sizes[0])
    rng = np.random.default_rng(0)
    for _ in range(4):
        step = env.step(0.5 * rng.normal(size=(3, sizes[1])))
        check_step(env, step)
    assert np.ptp(step.rewards) > 0.0


@pytest.mark.parametrize("robot", ["so101", "ur5e"])
def test_any_arm_can_reach(robot, tmp_path):
    task = make_task(f"reach/{robot}")
    model = load_robot(robot)
    arm = model.group("arm").joints
    env = pickle.loads(pickle.dumps(MujocoEnv(task, 4, seed=3)))
    assert env.task is task or env.task.name == task.name == f"reach/{robot}"
    observations, n = env.reset(), len(arm)
    assert (observations.shape[1], env.action_size) == (2 * n + 9, n)
    kinematics = Kinematics(model.tree, model.joint_names, base=model.base_frame)
    Q = np.tile(model.home, (4, 1))
    Q[:, model.indices(arm)] = observations[:, :n]
    expected = kinematics.pose_batch(Q, model.tool_frame)[:, :3, 3]
    np.testing.assert_allclose(observations[:, 2 * n + 3 : 2 * n + 6], expected, atol=1e-5)
    assert (observations[:, 2 * n + 2] > 0.05).all()
    for _ in range(20):
        step = env.step(np.zeros((4, n)))
        check_step(env, step)
    ready = model.named_state("ready", "arm")
    assert np.abs(step.observations[:, :n] - ready).max() < 0.15
    policy = new_trainer(EnvFactory(task.name), task_config(task.name, seed=0, num_envs=2)).policy
    export_policy(policy, task, tmp_path / "policy.onnx")
    exported = load_exported(tmp_path / "policy.onnx", task)
    np.testing.assert_allclose(exported(observations), policy(observations), atol=1e-5)


def test_other_tasks_are_of_the_franka():
    with pytest.raises(InvalidConfig):
        task_entry("grasp/so101")


def test_random_physics_are_those_of_the_seed_and_differ_between_environments():
    task, actions = make_task("reach"), np.full((6, 7), 0.3)

    def run(seed, **values):
        quiet = {"mass": 0.0, "friction": 0.0, "gains": 0.0, "delay": 0.0, "noise": 0.0}
        env = MujocoEnv(task, 6, seed, randomization=Randomization(**{**quiet, **values}))
        env.reset()
        return pickle.loads(pickle.dumps(env)), [env.step(actions) for _ in range(5)]

    plain = MujocoEnv(task, 6, 0)
    plain.reset()
    expected = [plain.step(actions).observations for _ in range(5)]
    copied, none = run(0)
    for a, b in zip(none, expected, strict=True):
        np.testing.assert_allclose(a.observations, b, atol=1e-12)
    np.testing.assert_array_equal(copied.step(actions).observations, none[0].observations)
    for change in ({"mass": 0.3}, {"gains": 0.3}, {"delay": 0.5}, {"noise": 0.01}):
        first, again = run(0, **change)[1], run(0, **change)[1]
        np.testing.assert_array_equal(first[-1].observations, again[-1].observations)
        error = np.abs(first[-1].observations - expected[-1]).max(axis=1)
        assert error.max() > 1e-4
        # Of the environments with a delay, only some.
        assert (error < 1e-9).any() == ("delay" in change)
    with pytest.raises(InvalidConfig):
        Randomization(mass=1.5)


def test_reach_observes_the_tool_as_kinematics_compute_it():
    env = MujocoEnv(make_task("reach"), 4, seed=3)
    observations = env.reset()
    robot = load_robot("franka")
    kinematics = Kinematics(robot.tree, robot.joint_names, base=robot.base_frame)
    Q = np.hstack((observations[:, :7], np.full((4, 2), 0.04)))
    expected = kinematics.pose_batch(Q, robot.tool_frame)[:, :3, 3]
    np.testing.assert_allclose(observations[:, 17:20], expected, atol=1e-6)


@pytest.mark.parametrize(("name", "along"), [("grasp", (0, 0, 0.12)), ("drawer", (0.1, 0, 0))])
def test_assisted_episodes_begin_on_the_way_to_the_goal(name, along):
    task = make_task(name)
    q = MujocoEnv(task, 20, seed=1, assisted=1.0)
    q.reset()
    view = q._view()
    goal = task.cube(view) if name == "grasp" else view.sensors[:, task.sensor("handle")]
    way = np.abs(goal - task.tool(view))
    assert (way < np.array(along) + 2e-3).all()
    assert way.max() > 0.05


def test_zero_action_goes_to_the_default_or_stays():
    for name, drift in (("reach", None), ("drawer", 0.03)):
        task = make_task(name)
        env = MujocoEnv(task, 2, seed=0)
        env.reset()
        start = task.positions(env._view())[:, :7]
        for _ in range(25):
            env.step(np.zeros((2, task.action_size)))
        goal = task.default[:7] if drift is None else start
        assert np.abs(task.positions(env._view())[:, :7] - goal).max() < (drift or 0.01)


def test_gripper_closes_below_zero_and_opens_at_zero():
    task = make_task("drawer")
    env = MujocoEnv(task, 1, seed=0)
    env.reset()
    width = [
        task.control(env._view(), np.array([[0.0] * 7 + [a]]))[0, task.actuators[7:]]
        for a in (-1e-9, 0.0)
    ]
    np.testing.assert_allclose(width, np.outer((0.036, 0.04), task.stiffness[7:]))


def test_huge_actions_stay_within_joint_limits():
    task = make_task("reach")
    env = MujocoEnv(task, 2, seed=0)
    env.reset()
    for k in range(6):
        step = env.step(np.full((2, 7), 1e9 * (-1) ** k))
        check_step(env, step)
    q = step.observations[:, :7]
    assert (q > task.lower[:7] - 0.2).all()
    assert (q < task.upper[:7] + 0.2).all()


@pytest.mark.parametrize("actions", [np.full((2, 7), np.nan), np.zeros((2, 8)), np.zeros(7)])
def test_invalid_actions_change_nothing(actions):
    env = MujocoEnv(make_task("reach"), 2, seed=0)
    env.reset()
    before = env.state()
    with pytest.raises(InvalidConfig):
        env.step(actions)
    for key, value in env.state().items():
        np.testing.assert_array_equal(before[key], value)


def test_time_limit_truncates_and_resets():
    task = make_task("reach")
    env = MujocoEnv(task, 2, seed=0)
    env.reset()
    for _ in range(task.episode_steps - 1):
        step = env.step(np.zeros((2, 7)))
        assert not (step.truncated | step.terminated).any()
    step = env.step(np.zeros((2, 7)))
    assert step.truncated.all()
    assert not step.terminated.any()
    # New targets; and the final observation is that of the old episode.
    assert np.abs(step.observations[:, 14:17] - step.final_observations[:, 14:17]).max() > 0.0


def test_diverged_simulation_ends_the_episode_with_finite_values():
    env = MujocoEnv(make_task("reach"), 3, seed=0)
    env.reset()
    state = env.state()
    state["physics"] = state["physics"].copy()
    state["physics"][1, -3] = 1e7  # a velocity
    env.restore(state)
    step = env.step(np.zeros((3, 7)))
    check_step(env, step)
    assert step.terminated.tolist() == [False, True, False]
    check_step(env, env.step(np.zeros((3, 7))))


def test_pickled_environments_continue_equally():
    env = MujocoEnv(make_task("reach"), 2, seed=0)
    env.reset()
    env.step(np.full((2, 7), 0.1))
    copy = pickle.loads(pickle.dumps(env))
    mine, theirs = (e.step(np.full((2, 7), -0.1)) for e in (env, copy))
    np.testing.assert_array_equal(mine.observations, theirs.observations)
    np.testing.assert_array_equal(mine.rewards, theirs.rewards)


def test_grasp_is_recognized_by_both_fingers():
    """The fingers close on the cube, hold it and move it; each bonus is paid exactly once."""
    task = make_task("grasp")
    env = MujocoEnv(task, 1, seed=0)
    env.reset()
    state = env.state()
    state["physics"] = state["physics"].copy()
    robot = load_robot("franka")
    kinematics = Kinematics(robot.tree, robot.joint_names, base=robot.base_frame)
    cube = state["physics"][0, 1 + task._cube_q : 8 + task._cube_q]
    arm = np.append(task.default[:7], (0.0255, 0.0255))
    state["physics"][0, 1 + task.joint_q] = arm
    cube[:3] = kinematics.pose(arm, robot.tool_frame)[:3, 3]
    cube[3:] = (1.0, 0.0, 0.0, 0.0)
    env.restore(state)
    states, bonuses = [task.pick_state(env._view())], []

    def move(steps, up=0.0, grip=-1.0):
        for _ in range(steps):
            step = env.step(np.array([[0.0, -up, 0.0, 0.0, 0.0, 0.0, 0.0, grip]]))
            states.append(task.pick_state(env._view()))
            shaping = np.diff([potential(state) for state in states[-2:]])
            bonuses.append(step.rewards[0] - shaping[0])

    def potential(state):
        reach = np.linalg.norm(state.gripper - state.item)
        place = min(np.linalg.norm(state.item - state.target), 0.32)
        return -12.0 * (reach + (place if state.grasped[0] else 0.32))

    move(5)
    move(7, up=0.3)
    move(5, up=-0.6)
    move(7, up=0.6)
    move(1, grip=1.0)
    move(5)
    grasped = np.array([state.grasped[0] for state in states[1:]])
    away = np.array([np.linalg.norm(state.item - state.target) for state in states[1:]])
    placed = grasped & (away < 0.025)
    np.testing.assert_array_equal([s.placed[0] for s in states[1:]], grasped & (away < 0.05))
    assert grasped[-5:].all()
    expected = np.zeros(len(bonuses))
    for happens, bonus in ((grasped, 3.0), (placed, 6.0)):
        begins = np.flatnonzero(np.diff(happens.astype(int), prepend=0) > 0)
        assert len(begins) >= 2  # the cube leaves the fingers, or the target, and comes back
        expected[begins[0]] += bonus
    # The rest are small penalties for efforts and changes of the action.
    np.testing.assert_allclose(bonuses, expected, atol=0.1)


def test_training_repeats_with_its_seed():
    config = replace(task_config("grasp", seed=3, num_envs=8), rollout_steps=8)

    def parameters():
        trainer = Trainer(EnvFactory("grasp"), config)
        with ThreadPoolExecutor(2) as executor:
            trainer.iterate(executor)
        return trainer.learner.flat

    with single_threaded_blas():
        np.testing.assert_array_equal(parameters(), parameters())


def test_gymnasium_interface():
    gymnasium = pytest.importorskip("gymnasium")
    from motion_nodes.extras.learning.gymnasium_env import GymnasiumVectorEnv

    env = GymnasiumVectorEnv(MujocoEnv(make_task("reach"), 2, seed=0))
    assert isinstance(env, gymnasium.vector.VectorEnv)
    first, _ = env.reset(seed=5)
    again, _ = env.reset(seed=5)
    np.testing.assert_array_equal(first, again)
    assert env.observation_space.contains(first)
    env.action_space.seed(0)
    for k in range(make_task("reach").episode_steps):
        observations, rewards, terminated, truncated, infos = env.step(
            0.1 * np.clip(env.action_space.sample(), -1, 1)
        )
        assert truncated.all() == (k == make_task("reach").episode_steps - 1)
    assert infos["final_obs"].shape == observations.shape
    assert infos["_final_obs"].all()
    assert rewards.shape == terminated.shape == (2,)


def test_unknown_task():
    with pytest.raises(InvalidConfig, check=about("reech")):
        task_entry("reech")
    assert set(TASKS) == {"reach", "grasp", "drawer", "walk"}
    for values in ({"num_envs": 0}, {"num_envs": 1, "assisted": float("nan")}):
        with pytest.raises(InvalidConfig):
            MujocoEnv(make_task("reach"), seed=0, **values)
