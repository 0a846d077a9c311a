# SPDX-License-Identifier: Apache-2.0
"""Going to poses: approaches, spins and lines, checks of goal and progress."""

import dataclasses
import math

import numpy as np
import pytest
from base_navigation.obstacle_scenes import BODY, Scene, SeeingRun
from base_navigation.rolling_base import DT, LIMITS, STEERING, WHEELBASE, Run
from hypothesis import given, settings
from hypothesis import strategies as st
from raised_errors import about

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.navigation.approaches import (
    APPROACHES,
    DRIVE_TOLERANCE,
    ApproachConfig,
    QuinticConfig,
    motion_along_heading,
    motion_through,
    motion_to_pose,
)
from motion_nodes.core.navigation.base_motion import (
    GoalTolerance,
    MotionLimits,
    MotionOutcome,
    ProgressCheck,
    StoppedCheck,
    TwistRamp,
    approach_speed,
)
from motion_nodes.core.navigation.follow_path import FollowConfig, SteeringConfig
from motion_nodes.core.navigation.navigator import MotionResult, Navigator
from motion_nodes.core.navigation.planar_geometry import MOST_POINTS, Pose2
from motion_nodes.core.navigation.pose_motions import (
    MAX_TOLERANCE,
    GoToPose,
    Spin,
    TurnThenDrive,
    TurnThenDriveConfig,
    turn_then_drive,
)
from motion_nodes.core.navigation.teleoperation import Teleoperation
from motion_nodes.errors import InvalidCommand, InvalidConfig

ON_THE_SPOT = ("differential", "holonomic")


def random_poses(count, seed):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        x, y, gx, gy = rng.uniform(-2.0, 2.0, 4)
        yaw, gyaw = rng.uniform(-math.pi, math.pi, 2)
        yield Pose2(x, y, yaw), Pose2(gx, gy, gyaw)


def config(kind, approach, **follow):
    steering = SteeringConfig(wheelbase=WHEELBASE, max_steering_angle=STEERING)
    tolerance = GoalTolerance(yaw=0.2 if kind == "ackermann" else 0.05)
    settings = {"limits": LIMITS, "steering": steering, "tolerance": tolerance, **follow}
    return ApproachConfig(kind=kind, approach=approach, follow=FollowConfig(**settings))


@pytest.mark.long
@pytest.mark.parametrize("kind", ON_THE_SPOT)
@pytest.mark.parametrize("reversing", [False, True])
def test_arrives_from_100_random_starts(kind, reversing):
    for start, goal in random_poses(100, 7):
        run = Run(kind, GoToPose(kind, goal, LIMITS, reversing=reversing), start)
        assert run.task.ending is MotionResult.SUCCEEDED
        distance, turn = run.away(goal)
        # The tolerance is 0.04 m and 0.05 rad; the controller aims at a quarter of it.
        assert distance <= 0.012
        assert turn <= 0.02
        linear, angular = run.max_accelerations()
        assert linear <= LIMITS.max_acceleration + 1e-6
        assert angular <= LIMITS.max_yaw_acceleration + 1e-6


class TestRule:
    config = TurnThenDriveConfig()

    def test_turns_while_the_goal_is_aside(self):
        for angle, wz in ((0.06, 0.5), (-0.06, -0.5), (math.pi - 0.01, 0.5), (-3.0, -0.5)):
            goal = Pose2(math.cos(angle), math.sin(angle))
            assert turn_then_drive(Pose2(), goal, self.config) == Twist2(0.0, 0.0, wz)

    def test_drives_straight_when_it_is_ahead(self):
        assert turn_then_drive(Pose2(), Pose2(1.0, 0.049), self.config) == Twist2(0.2)

    def test_stops_within_the_tolerance(self):
        assert turn_then_drive(Pose2(), Pose2(-0.039, 0.0), self.config) == Twist2()
        assert turn_then_drive(Pose2(), Pose2(0.041, 0.0), self.config) == Twist2(0.2)


class TestStraight:
    def test_no_swing_about_the_goal(self):
        """Near the goal the distance only decreases, and the heading does not oscillate."""
        goal = Pose2(1.5, 0.7, -1.0)
        run = Run("differential", GoToPose("differential", goal, LIMITS))
        distance = np.hypot(run.poses[:, 0] - goal.x, run.poses[:, 1] - goal.y)
        near = distance < 0.3
        assert (np.diff(distance[near]) <= 1e-6).all()
        signs = np.sign(run.twists[:, 2][np.abs(run.twists[:, 2]) > 0.02])
        assert np.count_nonzero(np.diff(signs)) <= 2

    def test_a_holonomic_base_goes_straight_while_it_turns(self):
        goal = Pose2(2.0, 1.0, 3.0)
        run = Run("holonomic", GoToPose("holonomic", goal, LIMITS), delay=0)
        aside = run.poses[:, :2] @ (np.array([-1.0, 2.0]) / math.sqrt(5.0))
        # One step's turn of 0.04 rad is the only deviation.
        assert np.abs(aside).max() < 0.03
        half = len(run.poses) // 4
        assert abs(run.poses[half, 2]) > 0.3

    def test_a_goal_behind_is_backed_into_if_that_is_allowed(self):
        goal = Pose2(-1.0, 0.1, 0.0)
        run = Run("differential", GoToPose("differential", goal, LIMITS, reversing=True))
        assert run.twists[:, 0].min() < -0.4
        assert run.twists[:, 0].max() <= 0.0
        assert np.abs(run.poses[:, 2]).max() < 0.3
        forward = Run("differential", GoToPose("differential", goal, LIMITS))
        assert forward.twists[:, 0].min() >= 0.0
        assert forward.task.ending is MotionResult.SUCCEEDED

    def test_at_the_place_already_it_only_turns(self):
        run = Run("differential", GoToPose("differential", Pose2(0.02, 0.01, 2.0), LIMITS))
        assert run.task.ending is MotionResult.SUCCEEDED
        assert np.hypot(run.poses[:, 0], run.poses[:, 1]).max() < 0.02

    def test_pushed_away_during_the_last_turn_it_comes_back(self):
        goal = Pose2(0.5, 0.0, 2.0)
        motion = GoToPose("differential", goal, LIMITS)
        at_goal = Pose2(0.5, 0.0, 0.0)
        while motion.phase != "final turn":
            motion.step(at_goal, Twist2(), 0.02)
        motion.step(Pose2(0.1, 0.3, 1.0), Twist2(), 0.02)
        assert motion.phase == "turn"
        assert motion.outcome is MotionOutcome.MOVING

    def test_a_base_that_sticks_within_the_tolerance_has_arrived_after_a_while(self):
        motion = GoToPose("differential", Pose2(1.0, 0.0, 0.0), LIMITS)
        steps = 0
        while motion.outcome is MotionOutcome.MOVING and steps < 500:
            motion.step(Pose2(0.97, 0.0, 0.04), Twist2(), 0.02)
            steps += 1
        assert 95 < steps < 110

    def test_any_heading_will_do_where_the_tolerance_says_so(self):
        tolerance = GoalTolerance(yaw=math.pi)
        goal = Pose2(1.0, 0.0, 3.0)
        run = Run("differential", GoToPose("differential", goal, LIMITS, tolerance))
        assert run.task.ending is MotionResult.SUCCEEDED
        assert abs(run.end.yaw) < 0.1


class TestCars:
    @pytest.mark.parametrize("make", [
        lambda: GoToPose("ackermann", Pose2(1.0), LIMITS),
        lambda: TurnThenDrive("ackermann", Pose2(1.0)),
    ])  # fmt: skip
    def test_straight_ways_are_refused(self, make):
        with pytest.raises(InvalidCommand):
            make()

    def test_an_approach_of_other_bases_is_refused_with_what_there_is(self):
        with pytest.raises(InvalidConfig, match=", ".join(APPROACHES["ackermann"])):
            config("ackermann", "straight")


class TestApproaches:
    @pytest.mark.parametrize(("kind", "approach"), [
        (kind, approach) for kind, names in APPROACHES.items() for approach in names
    ])  # fmt: skip
    def test_every_approach_of_every_kind_arrives(self, kind, approach):
        start, goal = Pose2(0.2, -0.1, 0.3), Pose2(3.0, 2.0, 1.2)
        motion, path = motion_to_pose(start, goal, config(kind, approach))
        run = Run(kind, motion, start)
        assert run.task.ending is MotionResult.SUCCEEDED, run.task.text
        assert run.away(goal)[0] <= 0.04
        assert Pose2(*path.poses()[0]).distance(start) < 1e-9
        assert path.end.distance(goal) < 1e-6

    @pytest.mark.parametrize("approach", ["straight", "turn_then_drive", "quintic", "dubins"])
    def test_to_where_it_is(self, approach):
        here = Pose2(1.0, 2.0, 0.5)
        motion, path = motion_to_pose(here, here, config("differential", approach))
        run = Run("differential", motion, here)
        assert run.task.ending is MotionResult.SUCCEEDED
        assert path.end == here

    def test_a_quintic_that_there_is_not_says_so(self):
        setup = ApproachConfig(
            kind="differential",
            approach="quintic",
            follow=config("differential", "quintic").follow,
            quintic=QuinticConfig(max_jerk=1e-9),
        )
        with pytest.raises(InvalidCommand):
            motion_to_pose(Pose2(), Pose2(1.0, 1.0, 0.0), setup)

    @pytest.mark.parametrize("kind", ON_THE_SPOT)
    def test_goals_that_are_not_finite(self, kind):
        for make in (lambda g: GoToPose(kind, g, LIMITS), lambda g: TurnThenDrive(kind, g)):
            with pytest.raises(InvalidCommand):
                make(Pose2(math.nan, 0.0, 0.0))


def test_the_route_to_a_goal_in_another_country_is_bounded():
    rows = GoToPose("holonomic", Pose2(5e6, 0.0, 0.0), LIMITS).route(Pose2())
    assert len(rows) == MOST_POINTS + 1
    assert rows[-1].tolist() == [5e6, 0.0, 0.0]


APPROACH = {"differential": "straight", "holonomic": "straight", "ackermann": "dubins"}


def config_of_behaviors(kind: str) -> ApproachConfig:
    steering = SteeringConfig(
        wheelbase=WHEELBASE, max_steering_angle=STEERING if kind == "ackermann" else 1.2
    )
    follow = FollowConfig(limits=LIMITS, steering=steering)
    return ApproachConfig(kind=kind, approach=APPROACH[kind], follow=follow)


@pytest.mark.parametrize("kind", ["differential", "holonomic"])
@pytest.mark.parametrize("angle", [0.3, -1.57, 3.5, -9.0, 0.0])
def test_a_spin_turns_by_its_angle_on_the_spot(kind, angle):
    motion = Spin(kind, angle, LIMITS)
    run = Run(kind, motion, (1.0, 2.0, 3.0))
    assert run.task.ending is MotionResult.SUCCEEDED
    yaw = np.unwrap(run.poses[:, 2])
    assert yaw[-1] - yaw[0] == pytest.approx(angle, abs=0.05)
    assert motion.turned == pytest.approx(angle, abs=0.05)
    assert np.abs(run.poses[:, :2] - (1.0, 2.0)).max() < 1e-6
    assert abs(yaw - yaw[0]).max() < abs(angle) + 0.02


def test_a_tolerance_of_any_heading_is_not_that_of_a_spin():
    motion = Spin("differential", 0.5, LIMITS, GoalTolerance(yaw=math.pi))
    assert Run("differential", motion).end.yaw == pytest.approx(0.5, abs=MAX_TOLERANCE)


@pytest.mark.parametrize(("kind", "angle"), [("ackermann", 1.0), ("holonomic", math.nan)])
def test_impossible_spins(kind, angle):
    with pytest.raises(InvalidCommand, match="spin"):
        Spin(kind, angle, LIMITS)


@pytest.mark.parametrize("kind", list(APPROACH))
@pytest.mark.parametrize(("distance", "speed"), [(0.6, 0.2), (-0.3, 0.05), (1.0, 9.0)])
def test_a_line_along_the_heading(kind, distance, speed):
    start = Pose2(1.0, -1.0, 2.5)
    motion, path = motion_along_heading(start, distance, speed, config_of_behaviors(kind))
    assert path.length == pytest.approx(abs(distance))
    run = Run(kind, motion, start)
    assert run.task.ending is MotionResult.SUCCEEDED, run.task.text
    end = start.inverse().compose(run.end)
    assert end == pytest.approx((distance, 0.0, 0.0), abs=0.05)
    assert np.hypot(run.twists[:, 0], run.twists[:, 1]).max() <= min(speed, 0.5) + 1e-9
    assert (run.twists[:, 0] * distance >= -1e-6).all()


@pytest.mark.parametrize("kind", list(APPROACH))
@pytest.mark.parametrize("distance", [0.15, -0.3, 1.0])
def test_a_line_has_its_length_whatever_the_tolerance_of_goals_is(kind, distance):
    config = config_of_behaviors(kind)
    wide = dataclasses.replace(config.follow, tolerance=GoalTolerance(xy=0.5, yaw=0.5))
    motion, _ = motion_along_heading(
        Pose2(), distance, 0.2, dataclasses.replace(config, follow=wide)
    )
    run = Run(kind, motion)
    assert run.task.ending is MotionResult.SUCCEEDED, run.task.text
    assert run.end.x == pytest.approx(distance, abs=0.5 * DRIVE_TOLERANCE[kind])


def test_a_line_of_no_length_is_done_at_once():
    motion, _ = motion_along_heading(Pose2(), 0.0, 0.2, config_of_behaviors("differential"))
    run = Run("differential", motion)
    assert run.task.ending is MotionResult.SUCCEEDED
    assert len(run.poses) < 1.0 / DT
    assert run.end.distance(Pose2()) < 0.01


@pytest.mark.parametrize(
    ("distance", "speed"), [(math.nan, 0.2), (math.inf, 0.2), (1.0, 0.0), (1.0, math.nan)]
)
def test_impossible_lines(distance, speed):
    with pytest.raises(InvalidCommand, match="finite"):
        motion_along_heading(Pose2(), distance, speed, config_of_behaviors("differential"))


def test_a_motion_ends_after_its_time_allowance():
    navigator, motion = Navigator(LIMITS), Spin("differential", 100.0, LIMITS)
    task = navigator.start(motion, "spin", Twist2(), allowance=0.5)
    yaw = rate = 0.0
    while navigator.task is not None:
        rate = (navigator.step(Pose2(0.0, 0.0, yaw), Twist2(0.0, 0.0, rate), DT) or Twist2()).wz
        yaw += rate * DT
        assert task.time < 3.0
    assert task.ending is MotionResult.TIMEOUT
    assert "0.5 s" in task.text
    assert rate == 0.0


@pytest.mark.parametrize("kind", list(APPROACH))
def test_a_motion_without_patience_ends_at_the_first_obstacle(kind):
    behind = Scene(boxes=np.array([(-1.0, -2.0, -0.9, 2.0)]))
    motion, _ = motion_along_heading(Pose2(), -2.0, 0.3, config_of_behaviors(kind))
    run = SeeingRun(kind, motion, behind, seconds=30.0, blocked="end")
    assert run.task.ending is MotionResult.BLOCKED
    assert "(-0.9" in run.task.text
    assert run.task.time < 10.0
    assert min(run.clearances) > 0.09


def test_a_spin_ends_before_a_corner_of_the_base_touches_a_wall():
    reach = float(np.abs(BODY.corners[:, 1]).max())
    assert BODY.radius > reach + 0.01
    wall = Scene(boxes=np.array([(-2.0, reach + 0.105, 2.0, reach + 0.2)]))
    run = SeeingRun("differential", Spin("differential", 3.0, LIMITS), wall, seconds=30.0,
                    blocked="end")  # fmt: skip
    assert run.task.ending is MotionResult.BLOCKED
    assert abs(run.base.pose.yaw) < 1.0
    assert min(run.clearances) > 0.09


@pytest.mark.parametrize("kind", list(APPROACH))
@pytest.mark.parametrize("twist", [Twist2(0.4), Twist2(-0.4), Twist2(0.5, 0.0, 0.2)])
def test_a_steered_base_stands_before_obstacles_and_leaves_them(kind, twist):
    around = Scene(boxes=np.array([(-1.5, -2.0, -1.4, 2.0), (1.4, -2.0, 1.5, 2.0)]))
    motion = Teleoperation(kind, 0.0)
    motion.steer(twist)
    run = SeeingRun(kind, motion, around, seconds=25.0, blocked="stand")
    assert not run.task.ended
    assert min(run.clearances) > 0.09
    assert abs(run.base.pose.x) > 0.5
    assert run.base.odometry.twist.vx == pytest.approx(0.0, abs=0.02)
    motion.steer(twist.scaled(-1.0))
    for _ in range(int(3.0 / DT)):
        driven = run.navigator.step(run.base.pose, run.base.odometry.twist, DT)
        run.base.step(driven)
    assert run.base.odometry.twist.vx * twist.vx < -0.05


def test_twists_of_a_person_expire_end_and_have_to_be_finite():
    motion = Teleoperation("differential", 0.5)
    motion.steer(Twist2(0.3, 0.2, 0.1))
    assert motion.step(Pose2(), Twist2(), DT) == Twist2(0.3, 0.0, 0.1)
    motion.steer(Twist2(math.nan, 0.0, 0.0))
    assert motion.step(Pose2(), Twist2(), DT) == Twist2(0.3, 0.0, 0.1)
    assert motion.step(Pose2(), Twist2(), 0.6) == Twist2()
    sideways = Teleoperation("holonomic", 0.0)
    sideways.steer(Twist2(0.3, 0.2, 0.1))
    assert sideways.step(Pose2(), Twist2(), 60.0) == Twist2(0.3, 0.2, 0.1)
    sideways.finish()
    assert sideways.step(Pose2(), Twist2(), DT) == Twist2()
    assert sideways.outcome is MotionOutcome.ARRIVED


@pytest.mark.parametrize("kind", list(APPROACH))
def test_poses_are_passed_without_a_stop(kind):
    goals = [Pose2(1.0, 0.0, 0.2), Pose2(2.2, 0.5, 0.6), Pose2(3.2, 1.4, 0.7)]
    motion, path, after = motion_through(Pose2(), goals, config_of_behaviors(kind))
    lengths = [path.length - left for left in after]
    assert lengths == sorted(lengths)
    assert 0.99 < lengths[0] < 1.5
    run = Run(kind, motion)
    assert run.task.ending is MotionResult.SUCCEEDED, run.task.text
    distance, heading = run.away(goals[-1])
    assert distance < 0.05
    assert heading < 0.06
    for goal in goals[:-1]:
        away = np.hypot(run.poses[:, 0] - goal.x, run.poses[:, 1] - goal.y)
        assert away.min() < 0.06
        k = int(away.argmin())
        speeds = np.hypot(run.twists[k - 10 : k + 10, 0], run.twists[k - 10 : k + 10, 1])
        assert speeds.min() > 0.1
    linear, angular = run.max_accelerations()
    assert linear <= 1.001 * LIMITS.max_acceleration
    if kind != "ackermann":
        assert angular <= 1.001 * LIMITS.max_yaw_acceleration


def test_one_pose_is_a_motion_to_it():
    motion, path, after = motion_through(
        Pose2(), [Pose2(1.0, 0.0, 0.0)], config_of_behaviors("holonomic")
    )
    assert (path.length, after) == (1.0, ())
    assert Run("holonomic", motion).task.ending is MotionResult.SUCCEEDED


def test_spins_are_refused_for_cars_by_their_name():
    with pytest.raises(InvalidCommand, check=about("a spin")):
        Spin("ackermann", 1.0, LIMITS)


speeds = st.floats(-3.0, 3.0)


class TestApproach:
    def test_braking_never_exceeds_the_deceleration_and_arrives(self):
        """``v dv/ds`` along the whole path, by finite differences."""
        s = np.linspace(0.0, 2.0, 200_001)
        v = np.array([approach_speed(x, 10.0, 0.7, 3.0) for x in s.tolist()])
        braking = np.diff(v**2) / (2.0 * np.diff(s))
        assert braking.max() <= 0.7 * (1.0 + 1e-6)
        assert np.abs(np.diff(v)).max() < 1e-3
        assert v[0] == 0.0

    def test_closed_forms_of_both_parts(self):
        assert approach_speed(0.01, 1.0, 1.0, 2.5) == pytest.approx(0.025)
        assert approach_speed(0.58, 9.0, 1.0, 2.5) == pytest.approx(1.0)
        assert approach_speed(50.0, 0.5, 1.0, 2.5) == 0.5

    @pytest.mark.parametrize("delay", [0, 1, 3, 6])
    def test_no_swing_with_a_delay_in_the_loop(self, delay):
        place, waiting, dt = 0.0, [0.0] * delay, 0.02
        for _ in range(1000):
            waiting.append(approach_speed(max(1.0 - place, 0.0), 0.5, 1.0, 2.5))
            place += waiting.pop(0) * dt
            assert place < 1.0 + 1e-3
        assert place == pytest.approx(1.0, abs=1e-6)


class TestRamp:
    @settings(derandomize=True, max_examples=200)
    @given(st.lists(st.tuples(speeds, speeds, speeds), min_size=1, max_size=30))
    def test_no_limit_is_ever_exceeded(self, desired_twists):
        ramp, dt = TwistRamp(LIMITS), 0.02
        before = ramp.twist
        for desired in desired_twists:
            now = ramp.step(Twist2(*desired), dt)
            assert math.hypot(now.vx, now.vy) <= LIMITS.max_velocity + 1e-12
            assert abs(now.wz) <= LIMITS.max_yaw_velocity
            change = math.hypot(now.vx - before.vx, now.vy - before.vy) / dt
            assert change <= max(LIMITS.max_acceleration, LIMITS.max_deceleration) + 1e-9
            assert abs(now.wz - before.wz) / dt <= LIMITS.max_yaw_acceleration + 1e-9
            before = now

    def test_speeding_up_and_braking_have_their_own_limits(self):
        limits = MotionLimits(**{**vars(LIMITS), "max_deceleration": 3.0})
        ramp = TwistRamp(limits)
        up = [ramp.step(Twist2(0.4), 0.1).vx for _ in range(5)]
        assert up == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.4])
        down = [ramp.step(Twist2(), 0.1).vx for _ in range(3)]
        assert down == pytest.approx([0.1, 0.0, 0.0])

    def test_turning_round_speeds_up_only_with_what_is_left_of_the_step(self):
        limits = MotionLimits(**{**vars(LIMITS), "max_deceleration": 4.0})
        ramp = TwistRamp(limits)
        ramp.twist = Twist2(0.2)
        assert ramp.step(Twist2(-0.5), 0.1).vx == pytest.approx(-0.1 * (1.0 - 0.2 / 0.4))

    def test_a_car_keeps_its_curve_from_the_first_step_to_the_last(self):
        ramp = TwistRamp(LIMITS, "ackermann")
        for desired in [Twist2(0.5, 0.0, 0.4)] * 40 + [Twist2()] * 20:
            twist = ramp.step(desired, 0.02)
            assert twist.wz == pytest.approx(0.8 * twist.vx)
        for _ in range(20):
            twist = ramp.step(Twist2(-0.3, 0.0, 0.3), 0.02)
            assert twist.wz == pytest.approx(-twist.vx)
        ramp.step(Twist2(), 1.0)
        assert ramp.resting

    def test_a_turning_holonomic_base_keeps_its_velocity_over_ground(self):
        ramp = TwistRamp(LIMITS, "holonomic")
        ramp.twist, yaw = Twist2(0.4, 0.0, 2.0), 0.0
        for _ in range(50):
            yaw += ramp.twist.wz * 0.02
            desired = Twist2(0.4 * math.cos(yaw), -0.4 * math.sin(yaw), 2.0)
            assert ramp.step(desired, 0.02) == pytest.approx(desired)

    def test_it_gets_there_and_time_that_stands_changes_nothing(self):
        ramp, desired = TwistRamp(LIMITS), Twist2(0.3, -0.2, 1.0)
        for _ in range(100):
            ramp.step(desired, 0.02)
        assert ramp.twist == pytest.approx(desired)
        assert ramp.step(Twist2(), 0.0) == pytest.approx(desired)
        assert not ramp.resting


def test_speed_in_curves():
    assert LIMITS.velocity_in_curve(0.0) == 0.5
    assert LIMITS.velocity_in_curve(-8.0) == pytest.approx(0.25)
    assert LIMITS.velocity_in_curve(2.0) == pytest.approx(0.5)
    assert LIMITS.velocity_in_curve(50.0) == pytest.approx(0.04)


class TestGoal:
    tolerance = GoalTolerance(xy=0.1, yaw=0.2)

    def test_position_and_heading_each_count(self):
        goal = Pose2(1.0, 2.0, 3.1)
        assert self.tolerance.reached(Pose2(1.05, 2.0, 3.1), goal)
        assert not self.tolerance.reached(Pose2(1.2, 2.0, 3.1), goal)
        assert not self.tolerance.reached(Pose2(1.0, 2.0, 2.8), goal)

    def test_headings_are_compared_the_short_way_round(self):
        """Unlike in the source system."""
        assert self.tolerance.yaw_reached(Pose2(yaw=-3.1), Pose2(yaw=3.1))
        assert not self.tolerance.yaw_reached(Pose2(yaw=0.0), Pose2(yaw=math.pi))

    def test_any_heading(self):
        assert GoalTolerance(yaw=math.pi).yaw_reached(Pose2(), Pose2(yaw=math.pi))

    def test_how_far_it_missed(self):
        text = self.tolerance.miss(Pose2(), Pose2(0.3, 0.4, 1.0))
        assert text == "0.500 m (allowed 0.1) and 1.000 rad (allowed 0.2) from the goal"


def test_stopped():
    check = StoppedCheck(linear=0.02, angular=0.05)
    assert check.at_rest(Twist2(0.01, -0.01, 0.04))
    assert not check.at_rest(Twist2(0.015, 0.015, 0.0))
    assert not check.at_rest(Twist2(0.0, 0.0, -0.06))
    with pytest.raises(InvalidConfig, check=about("linear")):
        StoppedCheck(linear=math.nan)


class TestProgress:
    def test_a_base_that_stands_is_stuck_after_the_allowance(self):
        check = ProgressCheck(0.1, 0.3, 2.0)
        stuck = [check.stuck(Pose2(0.01 * (i % 2)), 0.5) for i in range(7)]
        assert stuck == [False] * 5 + [True] * 2

    @pytest.mark.parametrize("move", [Pose2(0.03), Pose2(yaw=0.1)])
    def test_moving_or_turning_is_progress(self, move):
        check = ProgressCheck(0.1, 0.3, 2.0)
        pose = Pose2()
        for _ in range(100):
            pose = pose.compose(move)
            assert not check.stuck(pose, 0.4)

    def test_a_new_task_begins_anew(self):
        check = ProgressCheck(0.1, 0.3, 2.0)
        for _ in range(4):
            check.stuck(Pose2(), 0.6)
        check.reset()
        assert not check.stuck(Pose2(), 0.6)

    def test_bad_numbers(self):
        with pytest.raises(InvalidConfig):
            ProgressCheck(0.1, 0.3, math.nan)


@pytest.mark.parametrize("kind", list(APPROACH))
def test_a_speed_limit_slows_curves_without_bending_them(kind):
    rng = np.random.default_rng(3)
    for _ in range(200):
        twist = Twist2(*rng.uniform(-2.0, 2.0, 3))
        share = float(rng.uniform(0.05, 1.0))
        slow = LIMITS.slowed(twist, share)
        assert math.hypot(slow.vx, slow.vy) <= share * LIMITS.max_velocity * (1.0 + 1e-9)
        assert abs(slow.wz) <= share * LIMITS.max_yaw_velocity * (1.0 + 1e-9)
        ratio = slow.wz / twist.wz
        assert tuple(slow) == pytest.approx([ratio * v for v in twist])
    goal = Pose2(2.0, 1.0, 0.5)
    motion, _ = motion_to_pose(Pose2(), goal, config_of_behaviors(kind))
    quick = Run(kind, motion)
    motion, path = motion_to_pose(Pose2(), goal, config_of_behaviors(kind))
    slow = Run(kind, motion, share=0.3)
    assert slow.task.ending is MotionResult.SUCCEEDED
    bound = 0.3 * LIMITS.max_velocity
    assert np.hypot(slow.twists[:, 0], slow.twists[:, 1]).max() <= bound + 1e-9
    assert slow.deviation(path) < quick.deviation(path) + 0.02
    assert len(slow.poses) > 1.5 * len(quick.poses)


@pytest.mark.parametrize(
    ("limit", "percentage", "share"),
    [(0.0, True, 1.0), (0.0, False, 1.0), (25.0, True, 0.25), (500.0, True, 1.0),
     (0.25 * LIMITS.max_velocity, False, 0.25), (100.0, False, 1.0)],
)  # fmt: skip
def test_shares_of_speed_limits(limit, percentage, share):
    assert LIMITS.share_of(limit, percentage=percentage) == pytest.approx(share)


@pytest.mark.parametrize("limit", [-1.0, math.nan, math.inf])
def test_impossible_speed_limits(limit):
    for percentage in (True, False):
        with pytest.raises(InvalidCommand, match="speed limit"):
            LIMITS.share_of(limit, percentage=percentage)
