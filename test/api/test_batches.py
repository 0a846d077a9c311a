# SPDX-License-Identifier: Apache-2.0
"""Batches give the results of single requests; positions of joints outside of a group."""

import pickle
from concurrent.futures import Executor, Future

import numpy as np
import pytest
from scene.coal_robot import CoalRobot

import motion_nodes as mn
from motion_nodes.core.ik.problem import IkStatus
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.errors import InvalidCommand, UnknownJoint, UnknownState


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


OPEN, HOME = 0.04, 0.0


@pytest.fixture(scope="module")
def franka():
    return mn.load_robot("franka")


@pytest.fixture(scope="module")
def torso():
    """A robot whose arm hangs on a waist that is not of its group."""
    return mn.load_robot("g1")


def fingers(model: mn.RobotModel) -> list[str]:
    return [name for name in model.joint_names if "finger" in name]


def beside_a_finger(model: mn.RobotModel) -> mn.World:
    """Return a world with a box that the open finger of the arm at ``ready`` touches."""
    arm, world = model["arm"], mn.World()
    q, opened = arm.state("ready"), dict.fromkeys(fingers(model), OPEN)
    X = arm.fk(q, "panda_leftfinger", state=opened)
    shut = arm.fk(q, "panda_leftfinger", state=dict.fromkeys(fingers(model), HOME))
    away = (X - shut)[:3, 3] / np.linalg.norm((X - shut)[:3, 3])
    box = np.array(X)
    box[:3, 3] += 0.03 * away + 0.02 * X[:3, 2]
    world.add("post", mn.Box((0.02, 0.02, 0.02)), box)
    return world


def test_collisions_are_those_of_the_state(franka):
    arm, world = franka["arm"], beside_a_finger(franka)
    q = arm.state("ready")
    for width in (HOME, OPEN):
        state = dict.fromkeys(fingers(franka), width)
        checker = arm.checker(world, state=state)
        assert checker.exact.is_free(q) == (CoalRobot(checker).distance(q) > 0.0)
        assert arm.collision_free(q, world, state=state) == checker.exact.is_free(q)
        assert arm.collision_free_batch([q], world, state=state)[0] == checker.exact.is_free(q)
        assert bool(arm.problems(q, world, state=state)) != checker.exact.is_free(q)
        assert bool(arm.at(state).problems(q, world)) != checker.exact.is_free(q)


def test_every_call_uses_the_state(torso):
    arm = torso["left_arm"]
    names = [name for name in torso.joint_names if "waist" in name]
    state = dict.fromkeys(names, 0.2)
    q = arm.state("home")
    whole = dict(zip(torso.joint_names, torso.state("home"), strict=True)) | state
    X_WT = Kinematics(torso.description.tree, base=torso.description.base_frame)
    expected = X_WT.pose(list(whole.values()), "left_wrist_yaw_link")
    in_base = np.linalg.inv(X_WT.pose(list(whole.values()), str(arm.base))) @ expected
    assert arm.fk(q, "left_wrist_yaw_link", state=state) == pytest.approx(in_base, abs=1e-9)
    assert arm.fk_batch([q], state=state)[0] == pytest.approx(arm.fk(q, state=state), abs=1e-12)
    goal = arm.fk(q + 0.1, state=state)
    found = arm.ik(goal, q, state=state)
    assert found.success
    assert arm.fk(found.q, state=state) == pytest.approx(goal, abs=1e-3)
    batch = arm.ik_batch([goal], q, state=state)
    assert batch.solved.all()
    plan = arm.plan(q, goal, state=state)
    assert plan.success, plan.reason
    assert arm.fk(plan.path[-1], state=state) == pytest.approx(goal, abs=2e-3)
    assert plan.path[-1] == pytest.approx(arm.plan_batch([q], [goal], state=state)[0].path[-1])
    assert plan.path[-1] == pytest.approx(arm.plan({**whole}, goal).path[-1])
    assert arm.plan([*q], goal, state=[*whole.values()]).success
    assert arm.jacobian(q, state=state).shape == arm.jacobian(q).shape


def test_gravity_of_the_state_counts_where_motions_are_timed(torso):
    arm = torso["left_arm"]
    path = [arm.state("home"), arm.state("home") + 0.3]
    plain = arm.time_parameterize(path)
    assert arm.time_parameterize(path, state="home").duration == pytest.approx(plain.duration)
    leant = {name: 0.3 for name in torso.joint_names if "waist_pitch" in name}
    assert arm.time_parameterize(path, state=leant).duration > 0.0


def test_states_of_the_own_joints_do_not_matter_and_prepared_groups_are_kept(franka):
    arm = franka["arm"]
    state = dict.fromkeys(fingers(franka), OPEN)
    moved = state | {arm.joint_names[0]: 0.5}
    assert arm.at(None) is arm
    assert arm.at({}) is arm
    assert arm.at("home") is arm
    assert arm.at(state) is arm.at(moved)


@pytest.mark.parametrize(
    ("state", "error"),
    [
        ({"panda_finger": 0.01}, UnknownJoint),
        ({"panda_finger_joint1": 0.5}, InvalidCommand),
        ({"panda_finger_joint1": float("nan")}, InvalidCommand),
        ([0.0, 1.0], InvalidCommand),
        ([float("inf")] * 9, InvalidCommand),
        ("nowhere", UnknownState),
    ],
)
def test_unknown_names_and_values_out_of_limits_are_refused(franka, state, error):
    arm = franka["arm"]
    q = arm.state("ready")
    calls = (
        lambda: arm.fk(q, state=state),
        lambda: arm.ik(arm.fk(q), state=state),
        lambda: arm.plan(q, q, state=state),
        lambda: arm.collision_free(q, state=state),
        lambda: arm.problems(q, state=state),
        lambda: arm.time_parameterize([q, q + 0.1], state=state),
        lambda: arm.rmpflow(state=state),
    )
    for call in calls:
        with pytest.raises(error):
            call()


def test_joints_not_named_by_a_goal_stay_at_the_start(franka):
    arm, q = franka["arm"], np.array([0, -0.5, 0, -2, 0, 1.6, 0.8])
    goal = {"panda_joint4": -1.5, "panda_joint1": np.float32(0.25)}
    plans = [arm.plan(q, goal), *arm.plan([q, q], [goal, goal])]
    for plan in plans:
        np.testing.assert_array_equal(plan.path[-1], [0.25, -0.5, 0, -1.5, 0, 1.6, 0.8])
    for wrong, error in (
        ({"joint1": 0.7}, UnknownJoint), ({"panda_joint1": "x"}, InvalidCommand),
        ({"panda_joint1": None}, InvalidCommand), ({}, InvalidCommand),
    ):  # fmt: skip
        with pytest.raises(error):
            arm.plan(q, wrong)


def test_a_goal_may_name_a_mimic_joint():
    gripper = mn.load_robot("open_manipulator_x")["gripper"]
    plan = gripper.plan([0.0], {"gripper_right_joint": 0.01})
    np.testing.assert_allclose(plan.path[-1], [0.01])
    with pytest.raises(InvalidCommand):
        gripper.plan([0.0], {"gripper_right_joint": 0.01, "gripper_left_joint": 0.0})


def test_a_start_of_named_joints_has_to_name_all_of_the_group(franka):
    arm = franka["arm"]
    start = dict(zip(arm.joint_names, arm.state("ready"), strict=True))
    assert arm.plan(start, "ready").success
    start.pop("panda_joint4")
    with pytest.raises(InvalidCommand):
        arm.plan(start, "ready")


def test_mimic_joints_may_be_named_where_they_are():
    model = mn.load_robot("open_manipulator_x")
    tree, arm = model.description.tree, model["arm"]
    mimics = [
        joint for joint in tree.joints.values()
        if joint.mimic is not None and joint.mimic.joint in model.joint_names
    ]  # fmt: skip
    joint = mimics[0]
    assert joint.mimic is not None
    value = float(model.limits.upper[model.joint_names.index(joint.mimic.joint)]) / 2.0
    due = joint.mimic.multiplier * value + joint.mimic.offset
    arm.at({joint.mimic.joint: value, joint.name: due})
    with pytest.raises(InvalidCommand):
        arm.at({joint.mimic.joint: value, joint.name: due + 0.01})


@pytest.mark.parametrize("excess", [2.65e-6, 9e-5])
def test_positions_at_a_limit_by_rounding_are_no_problems(excess):
    arm = mn.load_robot("franka")["arm"]
    q = arm.state("ready").copy()
    assert arm.problems(q) == ()
    q[6] = arm.limits.upper[6] + excess
    assert arm.problems(q) == ()
    q[6] += 2e-4
    assert [words.split()[0] for words in arm.problems(q)] == ["panda_joint7"]
