# SPDX-License-Identifier: Apache-2.0
"""The positions of the joints outside of a group, with every call of the front door."""

from __future__ import annotations

import numpy as np
import pytest
from scene.coal_robot import CoalRobot

import motion_nodes as mn
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.errors import InvalidCommand, MotionError, UnknownJoint, UnknownState

OPEN, HOME = 0.04, 0.0


@pytest.fixture(scope="module")
def franka() -> mn.RobotModel:
    return mn.load_robot("franka")


@pytest.fixture(scope="module")
def torso() -> mn.RobotModel:
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


def test_collisions_are_those_of_the_state(franka: mn.RobotModel) -> None:
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


def test_every_call_uses_the_state(torso: mn.RobotModel) -> None:
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


def test_gravity_of_the_state_counts_where_motions_are_timed(torso: mn.RobotModel) -> None:
    arm = torso["left_arm"]
    path = [arm.state("home"), arm.state("home") + 0.3]
    plain = arm.time_parameterize(path)
    assert arm.time_parameterize(path, state="home").duration == pytest.approx(plain.duration)
    leant = {name: 0.3 for name in torso.joint_names if "waist_pitch" in name}
    assert arm.time_parameterize(path, state=leant).duration > 0.0


def test_states_of_the_own_joints_do_not_matter_and_prepared_groups_are_kept(
    franka: mn.RobotModel,
) -> None:
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
def test_unknown_names_and_values_out_of_limits_are_refused(
    franka: mn.RobotModel, state: object, error: type[MotionError]
) -> None:
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


def test_a_start_of_named_joints_has_to_name_all_of_the_group(franka: mn.RobotModel) -> None:
    arm = franka["arm"]
    start = dict(zip(arm.joint_names, arm.state("ready"), strict=True))
    assert arm.plan(start, "ready").success
    start.pop("panda_joint4")
    with pytest.raises(InvalidCommand):
        arm.plan(start, "ready")


def test_mimic_joints_may_be_named_where_they_are() -> None:
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
def test_positions_at_a_limit_by_rounding_are_no_problems(excess: float) -> None:
    arm = mn.load_robot("franka")["arm"]
    q = arm.state("ready").copy()
    assert arm.problems(q) == ()
    q[6] = arm.limits.upper[6] + excess
    assert arm.problems(q) == ()
    q[6] += 2e-4
    assert [words.split()[0] for words in arm.problems(q)] == ["panda_joint7"]
