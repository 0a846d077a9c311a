# SPDX-License-Identifier: Apache-2.0
"""Rolling bases go to poses: they arrive, within limits, without oscillation."""

import math

import numpy as np
import pytest
from base_navigation.rolling_base import LIMITS, STEERING, WHEELBASE, Run
from long_params import shortened

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.navigation.approaches import (
    APPROACHES,
    ApproachConfig,
    QuinticConfig,
    motion_to_pose,
)
from motion_nodes.core.navigation.base_motion import GoalTolerance, MotionOutcome
from motion_nodes.core.navigation.follow_path import FollowConfig
from motion_nodes.core.navigation.navigator import MotionResult
from motion_nodes.core.navigation.path_tracking import SteeringConfig
from motion_nodes.core.navigation.planar_geometry import MOST_POINTS, Pose2
from motion_nodes.core.navigation.pose_motions import (
    GoToPose,
    TurnThenDrive,
    TurnThenDriveConfig,
    turn_then_drive,
)
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


@pytest.mark.long
@pytest.mark.parametrize("kind", ON_THE_SPOT)
def test_the_sources_rule_arrives_from_100_random_starts(kind):
    for start, goal in random_poses(100, 8):
        run = Run(kind, TurnThenDrive(kind, goal), start)
        assert run.task.ending is MotionResult.SUCCEEDED
        distance, turn = run.away(goal)
        assert distance <= 0.04
        assert turn <= 0.05


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

    def test_bad_numbers(self):
        with pytest.raises(InvalidConfig):
            TurnThenDriveConfig(yaw_velocity=0.0)


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
    @pytest.mark.long
    @pytest.mark.parametrize("reversing", shortened([True, False]))
    def test_along_dubins_curves_from_40_random_starts(self, reversing):
        for start, goal in random_poses(40, 5):
            setup = config("ackermann", "dubins", reversing=reversing)
            motion, path = motion_to_pose(start, goal, setup)
            run = Run("ackermann", motion, start)
            assert run.task.ending is MotionResult.SUCCEEDED, run.task.text
            assert run.deviation(path) < 0.06
            distance, turn = run.away(goal)
            assert distance <= 0.04
            assert turn <= 0.2
            assert reversing or run.twists[:, 0].min() >= -1e-12

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
