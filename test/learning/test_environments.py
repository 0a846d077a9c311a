# SPDX-License-Identifier: Apache-2.0
"""Tasks in MuJoCo: observations, resets, rewards, walking."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import mujoco
import numpy as np
import pytest
from raised_errors import about
from scipy.spatial.transform import Rotation

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.learning.mujoco_env import MujocoEnv, Randomization
from motion_nodes.extras.learning.tasks.arm_tasks import PickReward, PickState, plain_pick_reward
from motion_nodes.extras.learning.tasks.registry import (
    TASKS,
    EnvFactory,
    make_task,
    task_config,
    task_entry,
)
from motion_nodes.extras.learning.tasks.robot_cell import TaskState
from motion_nodes.extras.learning.tasks.walk import COMMANDS
from motion_nodes.extras.learning.trainer import Trainer, check_step, evaluate, new_trainer
from motion_nodes.extras.learning.training_run import (
    export_policy,
    load_exported,
    single_threaded_blas,
)
from motion_nodes.extras.policies.observations import PolicyInputs
from motion_nodes.extras.policies.policy_files import load_policy


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


LIMITS = np.array([87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0])
TRUE, FALSE = np.array([True]), np.array([False])


def state(gripper, item, target=(0.5, 0.0, 0.5), grasped=False, placed=False):
    rows = (np.array([gripper]), np.array([item]), np.array([target]))
    return PickState(*rows, np.array([grasped]), np.array([placed]))


def test_plain_reward_on_a_fixture():
    fixture = state((0.0, 0.0, 0.3), (0.0, 0.4, 0.0), (0.0, 0.4, 1.2), grasped=True, placed=True)
    # 0.5 m to the object, 1.2 m to the target, 87 and 10 N m.
    torques = np.array([[87.0, 0, 0, 0, 10.0, 0, 0]])
    assert plain_pick_reward(fixture, torques) == pytest.approx(-0.5 + 10 - 1.2 + 50 - 75.69 - 1.0)


def test_plain_reward_pays_for_hovering_and_the_corrected_one_does_not():
    hover = state((0.4, 0, 0.3), (0.4, 0, 0.3), grasped=True)
    rest = np.zeros((1, 7))
    plain = sum(plain_pick_reward(hover, rest)[0] for _ in range(1000))
    assert plain > 9000.0 > 50.0
    reward = PickReward(gamma=0.99)
    paid = sum(0.99**t * reward(hover, hover, rest, LIMITS, FALSE, TRUE)[0] for t in range(1000))
    placed = state((0.5, 0, 0.5), (0.5, 0, 0.5), grasped=True, placed=True)
    placing = reward(hover, placed, rest, LIMITS, FALSE, TRUE)[0]
    assert paid < 1.0 < 50.0 < placing


def test_shaping_telescopes_over_an_episode():
    rng, reward = np.random.default_rng(3), PickReward(gamma=0.97, grasp=0.0, place=0.0, torque=0.0)
    walk = [state(rng.normal(size=3), rng.normal(size=3), grasped=rng.random() < 0.5)
            for _ in range(30)]  # fmt: skip
    total = sum(
        0.97**t * reward(a, b, np.zeros((1, 7)), LIMITS, TRUE, TRUE)[0]
        for t, (a, b) in enumerate(pairwise(walk))
    )
    expected = 0.97**29 * reward.potential(walk[-1]) - reward.potential(walk[0])
    assert total == pytest.approx(expected[0], abs=1e-12)


def test_torques_count_relative_to_their_limits():
    reward, where = PickReward(distance=0.0), state((0, 0, 0), (0, 0, 0))
    paid = reward(where, where, LIMITS[None], LIMITS, TRUE, TRUE)
    assert paid == pytest.approx(-0.01 * 7)


def test_pushing_the_object_without_holding_it_earns_nothing():
    reward = PickReward(gamma=1.0)
    far, near = state((0.3, 0, 0), (0.3, 0, 0)), state((0.5, 0, 0), (0.5, 0, 0))
    assert reward(far, near, np.zeros((1, 7)), LIMITS, TRUE, TRUE) == pytest.approx(0.0)


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
