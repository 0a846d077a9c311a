# SPDX-License-Identifier: Apache-2.0
"""Spins, straight lines along the heading, and motions that pass poses without a stop."""

from __future__ import annotations

import math

import numpy as np
import pytest
from base_navigation.obstacle_scenes import BODY, Scene, SeeingRun
from base_navigation.rolling_base import DT, LIMITS, STEERING, WHEELBASE, Run
from raised_errors import about

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.navigation.approaches import (
    ApproachConfig,
    motion_along_heading,
    motion_through,
)
from motion_nodes.core.navigation.base_motion import GoalTolerance
from motion_nodes.core.navigation.follow_path import FollowConfig
from motion_nodes.core.navigation.navigator import MotionResult, Navigator
from motion_nodes.core.navigation.path_tracking import SteeringConfig
from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.core.navigation.pose_motions import MAX_TOLERANCE, Spin
from motion_nodes.errors import InvalidCommand

APPROACH = {"differential": "straight", "holonomic": "straight", "ackermann": "dubins"}


def config(kind: str) -> ApproachConfig:
    steering = SteeringConfig(
        wheelbase=WHEELBASE, max_steering_angle=STEERING if kind == "ackermann" else 1.2
    )
    follow = FollowConfig(limits=LIMITS, steering=steering)
    return ApproachConfig(kind=kind, approach=APPROACH[kind], follow=follow)


@pytest.mark.parametrize("kind", ["differential", "holonomic"])
@pytest.mark.parametrize("angle", [0.3, -1.57, 3.5, -9.0, 0.0])
def test_a_spin_turns_by_its_angle_on_the_spot(kind: str, angle: float) -> None:
    motion = Spin(kind, angle, LIMITS)
    run = Run(kind, motion, (1.0, 2.0, 3.0))
    assert run.task.ending is MotionResult.SUCCEEDED
    yaw = np.unwrap(run.poses[:, 2])
    assert yaw[-1] - yaw[0] == pytest.approx(angle, abs=0.05)
    assert motion.turned == pytest.approx(angle, abs=0.05)
    assert np.abs(run.poses[:, :2] - (1.0, 2.0)).max() < 1e-6
    assert abs(yaw - yaw[0]).max() < abs(angle) + 0.02


def test_a_tolerance_of_any_heading_is_not_that_of_a_spin() -> None:
    motion = Spin("differential", 0.5, LIMITS, GoalTolerance(yaw=math.pi))
    assert Run("differential", motion).end.yaw == pytest.approx(0.5, abs=MAX_TOLERANCE)


@pytest.mark.parametrize(("kind", "angle"), [("ackermann", 1.0), ("holonomic", math.nan)])
def test_impossible_spins(kind: str, angle: float) -> None:
    with pytest.raises(InvalidCommand, match="spin"):
        Spin(kind, angle, LIMITS)


@pytest.mark.parametrize("kind", list(APPROACH))
@pytest.mark.parametrize(("distance", "speed"), [(0.6, 0.2), (-0.3, 0.05), (1.0, 9.0)])
def test_a_line_along_the_heading(kind: str, distance: float, speed: float) -> None:
    start = Pose2(1.0, -1.0, 2.5)
    motion, path = motion_along_heading(start, distance, speed, config(kind))
    assert path.length == pytest.approx(abs(distance))
    run = Run(kind, motion, start)
    assert run.task.ending is MotionResult.SUCCEEDED, run.task.text
    end = start.inverse().compose(run.end)
    assert end == pytest.approx((distance, 0.0, 0.0), abs=0.05)
    assert np.hypot(run.twists[:, 0], run.twists[:, 1]).max() <= min(speed, 0.5) + 1e-9
    assert (run.twists[:, 0] * distance >= -1e-6).all()


def test_a_line_of_no_length_is_done_at_once() -> None:
    motion, _ = motion_along_heading(Pose2(), 0.0, 0.2, config("differential"))
    run = Run("differential", motion)
    assert run.task.ending is MotionResult.SUCCEEDED
    assert len(run.poses) < 1.0 / DT
    assert run.end.distance(Pose2()) < 0.01


@pytest.mark.parametrize(
    ("distance", "speed"), [(math.nan, 0.2), (math.inf, 0.2), (1.0, 0.0), (1.0, math.nan)]
)
def test_impossible_lines(distance: float, speed: float) -> None:
    with pytest.raises(InvalidCommand, match="finite"):
        motion_along_heading(Pose2(), distance, speed, config("differential"))


def test_a_motion_ends_after_its_time_allowance() -> None:
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
def test_a_motion_without_patience_ends_at_the_first_obstacle(kind: str) -> None:
    behind = Scene(boxes=np.array([(-1.0, -2.0, -0.9, 2.0)]))
    motion, _ = motion_along_heading(Pose2(), -2.0, 0.3, config(kind))
    run = SeeingRun(kind, motion, behind, seconds=30.0, patient=False)
    assert run.task.ending is MotionResult.BLOCKED
    assert "(-0.9" in run.task.text
    assert run.task.time < 10.0
    assert min(run.clearances) > 0.09


def test_a_spin_ends_before_a_corner_of_the_base_touches_a_wall() -> None:
    reach = float(np.abs(BODY.corners[:, 1]).max())
    assert BODY.radius > reach + 0.01
    wall = Scene(boxes=np.array([(-2.0, reach + 0.105, 2.0, reach + 0.2)]))
    run = SeeingRun("differential", Spin("differential", 3.0, LIMITS), wall, seconds=30.0,
                    patient=False)  # fmt: skip
    assert run.task.ending is MotionResult.BLOCKED
    assert abs(run.base.pose.yaw) < 1.0
    assert min(run.clearances) > 0.09


@pytest.mark.parametrize("kind", list(APPROACH))
def test_poses_are_passed_without_a_stop(kind: str) -> None:
    goals = [Pose2(1.0, 0.0, 0.2), Pose2(2.2, 0.5, 0.6), Pose2(3.2, 1.4, 0.7)]
    motion, path, after = motion_through(Pose2(), goals, config(kind))
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


def test_one_pose_is_a_motion_to_it() -> None:
    motion, path, after = motion_through(Pose2(), [Pose2(1.0, 0.0, 0.0)], config("holonomic"))
    assert (path.length, after) == (1.0, ())
    assert Run("holonomic", motion).task.ending is MotionResult.SUCCEEDED


def test_spins_are_refused_for_cars_by_their_name() -> None:
    with pytest.raises(InvalidCommand, check=about("a spin")):
        Spin("ackermann", 1.0, LIMITS)
