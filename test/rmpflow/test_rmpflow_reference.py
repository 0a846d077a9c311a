# SPDX-License-Identifier: Apache-2.0
"""References for drives that sag or lag; retreat; PD-driven arms in MuJoCo."""

import dataclasses

import numpy as np
import pytest
from raised_errors import about
from rmpflow.judged_arm import FollowingArm

from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.reactive.policy_state import FollowerSettings, Phase, RobotMotion
from motion_nodes.core.reactive.target_follower import Follower
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.rmpflow_settings import read_rmpflow, rmpflow_text
from motion_nodes.core.robot.tree import Box, Sphere
from motion_nodes.core.scene.scene import Scene, world_object
from motion_nodes.errors import UnknownState

DT = 0.02
FRANKA = load_robot("franka")
PLACE = (0.5, 0.15, 0.45)
BEHIND_ITSELF = (2.87, 0.33, 2.87, -2.26, -0.23, 2.3, -0.09)
"""Two joints at their upper limits, which bar the shorter way to a target in front."""


@pytest.fixture
def policy():
    made = RmpflowPolicy(FRANKA)
    made.set_end_effector_target(PLACE)
    return made


def lead(policy, seconds, robot, way=None):
    """Command a robot, a function from reference to measured positions; return the last ones."""
    q = policy.default_cspace_target
    reference, still = q, np.zeros(len(q))
    for _ in range(round(seconds / DT)):
        reference, _ = (way or policy.compute_reference)(q, still, frame_duration=DT)
        q = robot(reference)
    return q


def miss(policy, q):
    return float(np.linalg.norm(policy.tool_pose(q)[:3, 3] - PLACE))


def test_joints_that_sag_arrive_all_the_same(policy):
    sag = np.array([0.0, 0.02, 0.0, 0.03, 0.0, 0.01, 0.0])
    q = lead(policy, 5.0, lambda reference: reference + sag)
    assert miss(policy, q) < 1e-3
    assert policy.status.position_error == pytest.approx(miss(policy, q), abs=1e-4)
    policy.reset()
    policy.set_end_effector_target(PLACE)
    fallen = lead(policy, 5.0, lambda reference: reference + sag, policy.compute_joint_targets)
    assert miss(policy, fallen) > 0.1, "it does not sag from the measured state alone"


def test_measurements_that_come_late_make_nothing_swing(policy):
    late = [policy.default_cspace_target] * 5

    def robot(reference):
        late.append(reference + 0.01)
        return late[-5]

    q = lead(policy, 5.0, robot)
    assert miss(policy, q) < 1e-3
    assert np.ptp(late[-25:], axis=0).max() < 1e-3, "it oscillates"


def test_a_robot_that_follows_is_led_as_by_the_policys_own_state(policy):
    own = RmpflowPolicy(FRANKA, ignore_robot_state_updates=True)
    own.set_end_effector_target(PLACE)
    seen = lead(policy, 1.0, lambda reference: reference)
    assert seen == pytest.approx(lead(own, 1.0, lambda q: q, own.compute_joint_targets), abs=1e-12)


def test_a_robot_that_is_held_is_led_no_further_ahead_and_one_that_is_moved_takes_it_along(policy):
    home, still = policy.default_cspace_target, np.zeros(7)
    speed = FRANKA.limits.select(policy.active_joints).velocity
    for _ in range(150):
        reference, qd = policy.compute_reference(home, still, frame_duration=DT, most_ahead=0.1)
        assert (np.abs(reference - home) <= 0.1 + speed * DT).all()
        assert (np.abs(qd) <= speed).all()
    assert np.abs(reference - home).max() > 0.09
    elsewhere = home + 0.5
    reference, _ = policy.compute_reference(elsewhere, still, frame_duration=DT, most_ahead=0.1)
    assert (np.abs(reference - elsewhere) <= 0.1 + speed * DT).all()


def run(follower, q, seconds):
    """Run a follower with an ideal robot; return its phases."""
    q, qd, none = np.array(q), np.zeros(len(q)), np.zeros(2)
    words = [follower.text]
    for k in range(round(seconds / DT)):
        told = follower.step(RobotMotion(q, qd, none + 0.04, none), DT, k * DT)
        if told is not None:
            q, qd = told
        if follower.text != words[-1]:
            words.append(follower.text)
    return words


def test_an_arm_that_is_stuck_goes_back_to_its_posture_and_arrives():
    for retreat, end in ((False, Phase.STUCK), (True, Phase.ARRIVED)):
        policy = RmpflowPolicy(FRANKA, ignore_robot_state_updates=True)
        follower = Follower(policy, FollowerSettings(retreat=retreat))
        follower.follow_pose(from_xyz_rpy(PLACE, (np.pi, 0.0, 0.0)), 0.0)
        words = run(follower, BEHIND_ITSELF, 12.0)
        assert follower.phase is end, words
        assert any("back to the posture" in text for text in words) is retreat


@pytest.mark.long
def test_a_target_out_of_reach_is_tried_twice_and_then_told():
    policy = RmpflowPolicy(FRANKA, ignore_robot_state_updates=True)
    follower = Follower(policy, FollowerSettings(retreat=True))
    follower.follow_pose(from_xyz_rpy((1.5, 0.0, 0.5), (np.pi, 0.0, 0.0)), 0.0)
    words = run(follower, policy.default_cspace_target, 20.0)
    assert follower.phase is Phase.STUCK
    assert sum("back to the posture" in text for text in words) == 1


@pytest.mark.parametrize("gap", [0.018, 0.022])
def test_an_arm_that_is_held_millimetres_off_its_target_is_told_stuck(gap):
    place = np.array((0.5, 0.0, 0.4))
    table = Box((0.4, 0.4, 0.1))
    below = from_xyz_rpy(place - (0.0, 0.0, 0.05 + gap))
    policy = RmpflowPolicy(FRANKA, ignore_robot_state_updates=True)
    policy.set_scene(Scene(objects={"table": world_object("table", table, below)}))
    follower = Follower(policy)
    follower.follow_pose(from_xyz_rpy(place, (np.pi, 0.0, 0.0)), 0.0)
    run(follower, policy.default_cspace_target, 5.0)
    assert follower.settings.position_tolerance < follower.errors.position < 0.01
    assert follower.phase is Phase.STUCK


def test_an_arm_that_has_stood_long_is_not_stuck_when_a_new_target_comes():
    policy = RmpflowPolicy(FRANKA, ignore_robot_state_updates=True)
    follower = Follower(policy)
    q = policy.default_cspace_target
    X = policy.tool_pose(q).copy()
    follower.follow_pose(X, 0.0)
    assert run(follower, q, 4.0)[-1] == "arrived"
    X[:3, 3] += (0.0, 0.008, 0.0)
    follower.follow_pose(X, 4.0)
    assert run(follower, q, 4.0) == ["arrived", "following", "arrived"]


@pytest.mark.parametrize("name", ["franka", "ur10e"])
def test_default_postures_are_neither_singular_nor_at_limits(name):
    robot = load_robot(name)
    policy = RmpflowPolicy(robot)
    q = policy.default_cspace_target
    J = Kinematics(robot.tree, policy.active_joints).jacobian(q, policy.tool)
    assert np.linalg.svd(J, compute_uv=False)[5] > 0.1
    limits = robot.limits.select(policy.active_joints)
    assert (q > limits.lower + 0.3).all()
    assert (q < limits.upper - 0.3).all()


def test_the_default_posture_is_a_named_state_of_the_file(tmp_path):
    settings = read_rmpflow(FRANKA.directory)
    assert settings.default_posture == "home"
    file = tmp_path / "rmpflow.yaml"
    text = rmpflow_text(settings).replace("default_posture: home", "default_posture: extended")
    file.write_text(text, encoding="utf-8")
    policy = RmpflowPolicy(FRANKA, read_rmpflow(file))
    names = FRANKA.indices(policy.active_joints)
    assert policy.default_cspace_target == pytest.approx(FRANKA.named_state("extended")[names])
    file.write_text(text.replace("extended", "extendet"), encoding="utf-8")
    with pytest.raises(UnknownState, check=about("extendet")):
        RmpflowPolicy(FRANKA, read_rmpflow(file))


PERIOD = 0.004
FAR = (0.0, 0.0, -2.0)
BALL = world_object("ball", Sphere(0.06))


def with_ball(place):
    return Scene(objects={"ball": dataclasses.replace(BALL, X_WO=from_xyz_rpy(place))})


def arm_of(name, own=True, scene=None):
    policy = RmpflowPolicy(load_robot(name), ignore_robot_state_updates=own)
    return FollowingArm(policy, PERIOD, scene)


def away_from(target, arm, scene=None):
    """Advance by a period; return the distance of the tool from the target [m]."""
    return float(np.linalg.norm(arm.advance(target, scene) - target))


@pytest.mark.parametrize(("name", "own"), [("franka", True), ("ur10e", False)])
def test_a_target_at_a_tenth_of_a_metre_per_second_is_followed(name, own):
    """Integrated from the policy's own state, or from that of a robot that sags and lags."""
    arm, lags = arm_of(name, own), []
    for k in range(1000):
        angle = max(0.0, k * PERIOD - 0.5)
        offset = 0.1 * np.array((0.0, np.sin(angle), 1.0 - np.cos(angle)))
        lags.append(away_from(arm.begin + offset, arm))
    assert max(lags[400:]) < 0.01


@pytest.mark.long
def test_a_ball_that_comes_is_not_touched_and_the_target_found_again():
    arm, away = arm_of("franka", scene=with_ball(FAR)), []
    for k in range(1500):
        ball = arm.begin + np.array((0.0, -0.6 + 0.2 * k * PERIOD, 0.0))
        away.append(away_from(arm.begin, arm, with_ball(ball)))
    assert max(away) > 0.08
    assert not arm.verdict.touched()
    assert away[-1] < 0.01


def test_the_ball_would_be_felt():
    """Negative control of the contact check above."""
    arm = arm_of("franka", scene=with_ball(FAR))
    for side in np.linspace(0.4, 0.0, 40):  # faster than any arm escapes
        arm.advance(arm.begin, with_ball(arm.begin + np.array((0.0, side, 0.0))))
    assert arm.verdict.touched()
    assert arm.verdict.clearance < 0.0
