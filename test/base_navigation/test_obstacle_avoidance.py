# SPDX-License-Identifier: Apache-2.0
"""Bases among obstacles: they stop, wait, drive around, give up, and never collide."""

import math
from concurrent.futures import Future

import numpy as np
import pytest
from base_navigation.obstacle_scenes import BODY, Scene, SeeingRun
from base_navigation.rolling_base import DT, LIMITS, STEERING, WHEELBASE, RollingBase
from long_params import shortened
from raised_errors import about

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.navigation.base_motion import MotionOutcome
from motion_nodes.core.navigation.detours import DetourConfig, NoDetour, at_once
from motion_nodes.core.navigation.follow_path import FollowConfig, FollowPath, SteeringConfig
from motion_nodes.core.navigation.navigator import MotionResult, Navigator
from motion_nodes.core.navigation.obstacle_avoidance import (
    AvoidanceConfig,
    ClearanceGuard,
    GuardConfig,
    ObstacleAvoidance,
    SeenObstacles,
)
from motion_nodes.core.navigation.planar_geometry import PlanarPath, Pose2
from motion_nodes.core.navigation.pose_motions import GoToPose
from motion_nodes.errors import InvalidConfig

CLEARANCE = 0.1
QUICK = AvoidanceConfig(blocked_timeout=0.5, obstacle_timeout=3.0)
FEW = 2e-3
"""Errors of a base that obeys late, within the clearance [m]."""
BOX = Scene(boxes=np.array([(0.9, -0.12, 1.05, 0.12)]))
WALL = Scene(boxes=np.array([(0.9, -3.0, 1.0, 3.0)]))
EMPTY = Scene()
WALL_POINTS = np.column_stack((np.full(60, 0.9), np.linspace(-3.0, 3.0, 60)))


def to(kind, *goal):
    return GoToPose(kind, Pose2(*goal), LIMITS)


def along(kind, rows, law="stanley"):
    steering = SteeringConfig(
        wheelbase=WHEELBASE, max_steering_angle=STEERING if kind == "ackermann" else 1.2
    )
    return FollowPath(
        kind, PlanarPath(rows), FollowConfig(limits=LIMITS, steering=steering, law=law)
    )


def wave(count=60):
    x = np.linspace(0.0, 2.4, count)
    return np.column_stack((x, 0.2 * np.sin(2.0 * x), np.arctan2(0.4 * np.cos(2.0 * x), 1.0)))


# ---- the guard


@pytest.mark.parametrize("distance", [0.15, 0.2, 0.3, 0.6])
@pytest.mark.parametrize("latency", [0.0, 0.2])
def test_the_speed_limit_is_that_of_braking(distance, latency):
    """v L + v^2 / (2 a) = d, straight towards a wall."""
    guard = ClearanceGuard("differential", BODY, LIMITS, GuardConfig(latency=latency))
    wall = np.column_stack((np.full(50, 0.08 + distance), np.linspace(-0.3, 0.3, 50)))
    wall[25, 1] = 0.0
    v = guard.limit(Twist2(0.5), Twist2(0.5), wall, Twist2(0.5), 1.0).vx
    free, a = distance - CLEARANCE, LIMITS.max_deceleration
    expected = min(a * (math.sqrt(latency**2 + 2.0 * free / a) - latency), 0.5)
    assert v == pytest.approx(expected, abs=0.01)
    assert (guard.blockage is None) == (expected == 0.5)


def test_what_is_within_the_clearance_stops_only_motion_towards_it():
    guard = ClearanceGuard("holonomic", BODY, LIMITS)
    point = np.array([(0.14, 0.0)])  # 0.06 m ahead

    def limited(*twist):
        twist = Twist2(*twist)
        return guard.limit(twist, twist, point, twist, 1.0)

    assert limited(0.3) == Twist2()
    assert limited(-0.3) == Twist2(-0.3)
    assert limited(0.0, 0.3) == Twist2(0.0, 0.3)
    assert limited(0.2, 0.2) == Twist2()


class Wanderer:
    """Commands random twists, regardless of obstacles."""

    outcome = MotionOutcome.MOVING
    text = ""
    remaining = math.inf

    def __init__(self, kind, seed):
        self._rng, self._kind, self._left = np.random.default_rng(seed), kind, 0.0

    def step(self, pose, twist, dt):
        self._left -= dt
        if self._left <= 0.0:
            vx, vy, wz = self._rng.uniform(-1.0, 1.0, 3).tolist()
            self._left = float(self._rng.uniform(0.1, 1.5))
            sideways = 0.5 * vy if self._kind == "holonomic" else 0.0
            turn = 1.5 * wz * (abs(vx) if self._kind == "ackermann" else 1.0)
            self._wanted = Twist2(0.5 * vx, sideways, turn)
        return self._wanted

    def route(self, pose):
        return np.array([tuple(pose), (pose.x + 1.0, pose.y, pose.yaw)])


@pytest.mark.long
@pytest.mark.parametrize("seed", shortened(range(200), 30))
def test_nothing_is_ever_touched(seed):
    """200 crowded scenes with random motions: about half of the clearance remains."""
    rng = np.random.default_rng(seed)
    kind = ("differential", "holonomic", "ackermann")[seed % 3]
    discs = np.column_stack((rng.uniform(-1.2, 1.2, (8, 2)), rng.uniform(0.02, 0.3, 8)))
    scene = Scene(discs=discs[np.hypot(*discs[:, :2].T) > discs[:, 2] + 0.3])
    still = AvoidanceConfig(detour=DetourConfig(max_detour=0.0), blocked_timeout=100.0,
                            obstacle_timeout=100.0)  # fmt: skip
    run = SeeingRun(kind, Wanderer(kind, seed), scene, config=still, seconds=3.0,
                    noise=0.005 * (seed % 2), seed=seed)  # fmt: skip
    assert min(run.clearances) > 0.5 * CLEARANCE - 0.01


# ---- what the base does


@pytest.mark.parametrize("kind", ["differential", "holonomic", "ackermann"])
def test_it_waits_and_goes_on(kind):
    motion = along(kind, [(0, 0, 0), (2, 0, 0)])
    patient = AvoidanceConfig(blocked_timeout=20.0, obstacle_timeout=20.0)
    run = SeeingRun(kind, motion, WALL, config=patient, change=(5.0, EMPTY))
    assert run.task.ending is MotionResult.SUCCEEDED
    assert min(run.clearances) == pytest.approx(CLEARANCE, abs=5e-3)
    halted = run.poses[int(4.9 / DT)]
    assert halted == pytest.approx((0.9 - CLEARANCE - 0.08, 0.0, 0.0), abs=5e-3)
    assert "(0.90, " in run.waits[int(4.9 / DT)]
    assert run.waits[-1] == ""


@pytest.mark.long
@pytest.mark.parametrize("kind", ["differential", "holonomic"])
@pytest.mark.parametrize("make", [to, "path"], ids=["pose", "path"])
def test_it_drives_around_a_box(kind, make):
    motion = along(kind, wave()) if make == "path" else to(kind, 2.2, 0.0, 1.0)
    end = motion.goal
    run = SeeingRun(kind, motion, BOX, config=QUICK)
    assert run.task.ending is MotionResult.SUCCEEDED, run.task.text
    assert run.task.detours >= 1
    assert run.base.pose.distance(end) < 0.04
    assert min(run.clearances) > CLEARANCE - FEW


def test_a_car_drives_around_a_box():
    run = SeeingRun("ackermann", along("ackermann", [(0, 0, 0), (4, 0, 0)]), BOX, config=QUICK)
    assert run.task.ending is MotionResult.SUCCEEDED, run.task.text
    assert run.task.detours >= 1
    assert run.base.pose.distance(Pose2(4.0)) < 0.1
    assert min(run.clearances) > CLEARANCE - FEW


@pytest.mark.long
@pytest.mark.parametrize("seed", shortened(range(10), 3))
def test_random_scenes(seed):
    rng = np.random.default_rng(seed)
    kind = ("differential", "holonomic")[seed % 2]
    rows = np.column_stack(
        (rng.uniform(0.3, 2.2, 5), rng.uniform(-0.6, 0.6, 5), rng.uniform(0.03, 0.15, 5))
    )
    apart = [np.hypot(rows[:, 0] - x, rows[:, 1]) > rows[:, 2] + 0.45 for x in (0.0, 2.4)]
    rows = rows[apart[0] & apart[1]]
    scene = Scene(discs=rows[:2], boxes=np.column_stack((rows[2:, :2] - rows[2:, 2:],
                                                         rows[2:, :2] + rows[2:, 2:])))  # fmt: skip
    run = SeeingRun(kind, to(kind, 2.4, 0.0, 0.0), scene, config=QUICK, noise=0.005, seed=seed)
    assert run.task.ending in (MotionResult.SUCCEEDED, MotionResult.BLOCKED)
    assert min(run.clearances) > CLEARANCE - 0.02
    assert run.task.ending is MotionResult.SUCCEEDED, run.task.text


@pytest.mark.long
@pytest.mark.parametrize(
    ("scene", "kind", "detour", "words"),
    [
        (WALL, "differential", 2.0, ("(0.90, ", "no way around", "wide")),
        (BOX, "differential", 0.0, ("max_detour",)),
        (WALL, "ackermann", 2.0, ("(0.90, ", "no way around")),
        (Scene(discs=np.array([(2.0, 0.0, 0.15)])), "holonomic", 2.0, ("occupied",)),
    ],
    ids=["wall", "disabled", "car", "goal occupied"],
)
def test_it_gives_up_with_a_reason(scene, kind, detour, words):
    config = AvoidanceConfig(
        detour=DetourConfig(max_detour=detour), blocked_timeout=0.5, obstacle_timeout=2.0
    )
    run = SeeingRun(kind, along(kind, [(0, 0, 0), (2, 0, 0)]), scene, config=config)
    assert run.task.ending is MotionResult.BLOCKED
    assert all(word in run.task.text for word in words), run.task.text
    assert min(run.clearances) > CLEARANCE - FEW


@pytest.mark.long
def test_what_appears_on_a_detour_changes_it():
    """The other side of the box is seen to be blocked only during the detour."""
    deep = Scene(boxes=np.array([(0.9, -0.12, 1.6, 0.12), (1.2, -0.9, 1.4, -0.12)]))
    run = SeeingRun("differential", to("differential", 2.4, 0.0, 0.0), deep, config=QUICK,
                    seconds=90.0)  # fmt: skip
    assert run.task.ending is MotionResult.SUCCEEDED, run.task.text
    assert min(run.clearances) > CLEARANCE - FEW


def test_a_silent_sensor_stops_the_base_and_nothing_is_tried():
    base = RollingBase("differential", Pose2())
    avoidance = ObstacleAvoidance("differential", BODY, LIMITS, QUICK)
    navigator = Navigator(LIMITS, avoidance=avoidance)
    task = navigator.start(to("differential", 3.0, 0.0, 0.0), "a", Twist2())
    before = Twist2()
    for k in range(1000):
        hold = "no scan" if k > 60 else ""
        seen = SeenObstacles(np.empty((0, 2)), hold)
        twist = navigator.step(base.pose, base.odometry.twist, DT, seen)
        if twist is None:
            break
        assert abs(twist.vx - before.vx) <= 1.001 * LIMITS.max_deceleration * DT
        before = twist
        base.step(twist)
    assert (task.ending, task.detours) == (MotionResult.BLOCKED, 0)
    assert "no scan" in task.text
    assert base.pose.x < 1.0


def blocked_run(submit, hold_from=math.inf, measured=None):
    """Return the task of a base before a wall, which ends or not within 20 s."""
    base = RollingBase("differential", Pose2())
    avoidance = ObstacleAvoidance("differential", BODY, LIMITS, QUICK, submit)
    navigator = Navigator(LIMITS, avoidance=avoidance)
    task = navigator.start(to("differential", 3.0, 0.0, 0.0), "a", Twist2())
    for k in range(1000):
        seen = SeenObstacles(WALL_POINTS - (base.pose.x, 0.0), "no scan" if k > hold_from else "")
        twist = navigator.step(base.pose, measured or base.odometry.twist, DT, seen)
        if twist is None:
            break
        base.step(twist)
    return task


def test_a_sensor_that_falls_silent_during_a_search_does_not_keep_the_goal_forever():
    searches = []

    def submit(job):
        searches.append(future := Future())
        if len(searches) == 1:
            return future
        future.set_exception(NoDetour("none"))
        return future

    task = blocked_run(submit, hold_from=300)
    assert searches
    assert task.ending is MotionResult.BLOCKED
    assert "no scan" in task.text


def test_a_blocked_base_whose_measured_velocity_is_not_zero_gives_up_too():
    task = blocked_run(at_once, measured=Twist2(0.0, 0.0, 0.06))
    assert task.ending is MotionResult.BLOCKED
    assert "an obstacle" in task.text


@pytest.mark.parametrize(
    "make",
    [
        lambda: AvoidanceConfig(blocked_timeout=10.0, obstacle_timeout=5.0),
        lambda: AvoidanceConfig(obstacle_timeout=math.nan),
    ],
)
def test_invalid_settings(make):
    with pytest.raises(InvalidConfig, check=about("obstacle_timeout")):
        make()
