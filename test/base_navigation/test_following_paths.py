# SPDX-License-Identifier: Apache-2.0
"""Rolling bases follow a square, a circle and a figure of eight; and the tracking laws alone."""

import dataclasses
import math

import numpy as np
import pytest
from base_navigation.rolling_base import (
    KINDS,
    LIMITS,
    STEERING,
    WHEELBASE,
    Run,
    circle,
    figure_of_eight,
    rounded_square,
    square,
)
from raised_errors import about

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.navigation.base_motion import GoalTolerance
from motion_nodes.core.navigation.follow_path import (
    FollowConfig,
    FollowPath,
    PathPosition,
    SteeringConfig,
    front_axle,
    front_axle_path,
    rear_axle_curvature,
    stanley_angle,
    stanley_curvature,
)
from motion_nodes.core.navigation.navigator import MotionResult
from motion_nodes.core.navigation.planar_geometry import PlanarPath, Pose2
from motion_nodes.errors import InvalidCommand, InvalidConfig

STEER = SteeringConfig(wheelbase=WHEELBASE, max_steering_angle=STEERING)
LAWS = {"differential": ("stanley", "rear_axle"), "holonomic": ("stanley",),
        "ackermann": ("stanley", "rear_axle")}  # fmt: skip
EACH = [(kind, law) for kind in KINDS for law in LAWS[kind]]


def config(kind, law="stanley", **more):
    tolerance = GoalTolerance(yaw=0.2 if kind == "ackermann" else 0.05)
    settings = {"limits": LIMITS, "steering": STEER, "law": law, "tolerance": tolerance}
    return FollowConfig(**settings | more)


def follow(kind, path, law="stanley", start=None, **more):
    start = path.poses()[0] if start is None else start
    return Run(kind, FollowPath(kind, path, config(kind, law, **more)), start)


@pytest.mark.long
@pytest.mark.parametrize(("kind", "law"), EACH)
@pytest.mark.parametrize(
    ("path", "bound"),
    [(circle(), 0.015), (figure_of_eight(), 0.03), (rounded_square(), 0.03)],
    ids=["circle", "eight", "rounded square"],
)
def test_error_stays_within_a_bound(kind, law, path, bound):
    run = follow(kind, path, law)
    assert run.task.ending is MotionResult.SUCCEEDED, run.task.text
    assert run.deviation(path) <= bound
    assert run.away(path.end)[0] <= 0.04
    # The whole path was driven: taking the other branch at a crossing would be shorter.
    driven = np.hypot(*np.diff(run.poses[:, :2], axis=0).T).sum()
    assert driven == pytest.approx(path.length, rel=0.03)
    linear, angular = run.max_accelerations()
    assert linear <= LIMITS.max_acceleration + 1e-6
    assert angular <= LIMITS.max_yaw_acceleration + 1e-6


@pytest.mark.parametrize(("kind", "law"), EACH[:3])
def test_corners_are_kept_by_bases_that_can(kind, law):
    path = square()
    run = follow(kind, path, law)
    assert run.task.ending is MotionResult.SUCCEEDED
    assert run.deviation(path) <= 0.015
    for corner in path.xy:
        assert np.hypot(*(run.poses[:, :2] - corner).T).min() < 0.015


def test_a_car_cuts_corners_and_says_that_it_ends_with_another_heading():
    run = follow("ackermann", square())
    assert run.deviation(square()) < 0.6
    assert run.task.ending is MotionResult.FAILED
    assert "rad (allowed 0.2) from the goal" in run.task.text


@pytest.mark.parametrize(("kind", "law"), EACH)
def test_speeds_stay_within_the_limits_of_curves(kind, law):
    path = figure_of_eight(0.6)
    run = follow(kind, path, law)
    v, wz = np.hypot(run.twists[:, 0], run.twists[:, 1]), np.abs(run.twists[:, 2])
    assert v.max() <= LIMITS.max_velocity + 1e-9
    assert wz.max() <= LIMITS.max_yaw_velocity + 1e-9
    if kind != "holonomic":
        # The ramp lags behind the law by a little.
        assert (v * wz).max() <= 1.15 * LIMITS.max_lateral_acceleration


@pytest.mark.parametrize(("kind", "law"), EACH)
@pytest.mark.parametrize("start", [(0.0, 0.3, 0.2), (-0.2, -0.3, -0.4)])
def test_from_beside_the_path_it_comes_onto_it(kind, law, start):
    path = PlanarPath([(0, 0, 0), (4, 0, 0)])
    run = follow(kind, path, law, start)
    assert run.task.ending is MotionResult.SUCCEEDED, run.task.text
    late = run.poses[run.poses[:, 0] > 2.5]
    assert np.abs(late[:, 1]).max() < 0.02


@pytest.mark.parametrize("kind", ["differential", "ackermann"])
def test_backward_sections(kind):
    """Forward and back in reverse, as in parking."""
    a = np.linspace(0.0, 1.0, 30)
    out = np.column_stack((2.0 * a, np.zeros_like(a), np.zeros_like(a)))
    turn = 1.2 * a[1:]
    back = np.column_stack((2.0 - np.sin(turn), np.cos(turn) - 1.0, turn))
    path = PlanarPath(np.concatenate((out, back)))
    run = follow(kind, path, reversing=True)
    assert run.task.ending is MotionResult.SUCCEEDED, run.task.text
    assert run.deviation(path) < 0.03
    assert run.twists[:, 0].max() > 0.4
    assert run.twists[:, 0].min() < -0.4
    assert run.away(path.end)[1] < 0.2


def test_a_holonomic_base_takes_the_headings_of_the_path():
    s = np.linspace(0.0, 3.0, 61)
    path = PlanarPath(np.column_stack((s, np.zeros_like(s), 0.8 * s)))
    run = follow("holonomic", path)
    assert run.task.ending is MotionResult.SUCCEEDED
    inside = (run.poses[:, 0] > 0.5) & (run.poses[:, 0] < 2.5)
    wanted = 0.8 * run.poses[inside, 0]
    assert np.abs(np.unwrap(run.poses[inside, 2]) - wanted).max() < 0.06


def test_only_the_last_heading_counts_for_a_base_that_steers():
    """Many planners leave all orientations but the last at 0."""
    path = PlanarPath([(0, 0, 0), (-1, 0, 0), (-2, -1, 0), (-2, -2, 1.0)])
    run = follow("differential", path, start=(0, 0, 0))
    assert run.task.ending is MotionResult.SUCCEEDED
    assert run.twists[:, 0].min() >= 0.0
    assert run.away(path.end)[1] <= 0.05


def test_a_base_under_way_takes_up_a_new_path_without_a_stop():
    """As from clients that replan once per second."""
    path = PlanarPath([(0, 0, 0), (4, 0.4, 0)])
    run = Run("differential", FollowPath("differential", path, config("differential")), seconds=3)
    navigator, base = run.navigator, run.base
    fresh = PlanarPath([tuple(base.pose), (4, 0.0, 0)])
    speed = navigator.twist.vx
    navigator.start(FollowPath("differential", fresh, config("differential")), "b", Twist2())
    for _ in range(100):
        base.step(navigator.step(base.pose, base.odometry.twist, 0.02))
        assert navigator.twist.vx >= 0.9 * speed
    assert run.task.ending is MotionResult.PREEMPTED


class TestLost:
    def test_far_from_the_path_it_fails_in_words(self):
        motion = FollowPath("differential", circle(), config("differential"))
        motion.step(Pose2(), Twist2(), 0.02)
        motion.step(Pose2(-3.0, 0.0, 0.0), Twist2(), 0.02)
        assert motion.text == "3.00 m from the path; allowed is max_deviation, 1 m"

    def test_a_start_far_away_is_refused(self):
        motion = FollowPath("holonomic", circle(), config("holonomic"))
        motion.check_start(Pose2(-0.9, 0.0, 0.0))
        with pytest.raises(InvalidCommand):
            motion.check_start(Pose2(-1.5, 0.0, 0.0))

    def test_curves_that_a_car_cannot_steer_are_told(self):
        path = figure_of_eight(0.5)
        text = FollowPath("ackermann", path, config("ackermann")).too_tight()
        assert "this base can steer 2.04 1/m and will leave the path there" in text
        assert not FollowPath("differential", path, config("differential")).too_tight()
        assert not FollowPath("ackermann", circle(), config("ackermann")).too_tight()

    def test_bad_settings(self):
        with pytest.raises(InvalidConfig):
            config("differential", "pid")
        with pytest.raises(InvalidConfig, check=about("max_deviation")):
            config("differential", max_deviation=math.nan)


class TestLaws:
    def test_stanleys_closed_forms(self):
        assert stanley_angle(0.3, 0.0, 1.0, 2.0) == 0.3
        assert stanley_angle(0.0, 0.5, 1.0, 2.0) == pytest.approx(-math.pi / 4)
        assert stanley_angle(0.1, -0.5, 0.5, 1.0, 0.5) == pytest.approx(0.1 + math.atan(0.5))

    def test_the_sources_numbers(self):
        """k = 0.5: a metre to the right of the path at 0.5 m/s steers left by 45 degrees."""
        assert stanley_angle(0.0, -1.0, 0.5, 0.5) == pytest.approx(math.pi / 4)

    def test_the_front_axles_error_decays_at_the_gain(self):
        """Hoffmann et al.: on a straight path and far from the limits ``e' = -k e`` for small e."""
        law = dataclasses.replace(STEER, gain=1.5, softening=1e-9)
        path = PlanarPath([(0, 0, 0), (20, 0, 0)]).resampled()
        front = PathPosition(path)
        # The steady-state heading of the law, so that it starts without a transient.
        pose, e0 = Pose2(0.0, 0.05, -math.atan(1.5 * 0.05 / 1.0)), None
        for i in range(300):
            axle = front_axle(pose, WHEELBASE)
            e0 = axle.y if e0 is None else e0
            assert axle.y == pytest.approx(e0 * math.exp(-1.5 * i * 0.005), abs=2e-3)
            k = stanley_curvature(pose, front.update(axle.x, axle.y), 1.0, law)
            pose = pose.compose(Pose2(0.005, 0.0, 0.005 * k))

    def test_the_front_axles_way_on_a_circle(self):
        way = front_axle_path(circle(1.0, 1000), 0.5)
        assert np.hypot(way.xy[:, 0], way.xy[:, 1] - 1.0) == pytest.approx(math.sqrt(1.25))

    def test_steering_is_limited(self):
        far = PathPosition(PlanarPath([(0, 0, 0), (9, 0, 0)]).resampled()).update(1.0, 0.9)
        assert stanley_curvature(Pose2(1.0, 0.9, 0.5), far, 0.1, STEER) == pytest.approx(
            -STEER.max_curvature
        )
        assert rear_axle_curvature(0.5, far, STEER) == pytest.approx(-STEER.max_curvature)

    @pytest.mark.parametrize("travel", [0.0, 1.0, -2.5])
    def test_the_rear_axle_law_feeds_the_paths_curvature_forward(self, travel):
        a = travel % math.tau
        point = PathPosition(circle(1.0, 2000).resampled()).update(0.0, 0.0)
        point = point._replace(direction=a, cross_track=0.0, curvature=1.0)
        assert rear_axle_curvature(a, point, STEER) == pytest.approx(1.0)

    def test_the_rear_axles_error_decays_with_two_equal_poles(self):
        """``e(s) = e0 (1 + g s) exp(-g s)`` near a straight path."""
        path = PathPosition(PlanarPath([(0, 0, 0), (20, 0, 0)]).resampled())
        pose, g, ds = Pose2(0.0, 0.01, 0.0), STEER.rear_gain, 0.002
        for i in range(1500):
            s = i * ds
            assert pose.y == pytest.approx(0.01 * (1.0 + g * s) * math.exp(-g * s), abs=1e-4)
            k = rear_axle_curvature(pose.yaw, path.update(pose.x, pose.y), STEER)
            pose = pose.compose(Pose2(ds, 0.0, ds * k))
