# SPDX-License-Identifier: Apache-2.0
"""Scans and clouds as points: exact positions, cleared directions, and invalid messages."""

import math

import numpy as np
import pytest
from base_navigation.obstacle_scenes import BODY, Scene

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.navigation.footprint import out_of_base
from motion_nodes.core.navigation.obstacle_memory import (
    LaserReadings,
    MemoryConfig,
    ObstacleMemory,
    PoseHistory,
    view_of_cloud,
    view_of_scan,
)
from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.errors import InvalidCommand

SCENE = Scene(discs=np.array([(1.0, 0.3, 0.2)]), boxes=np.array([(-1.5, -0.5, -1.0, 0.5)]))
STEP = math.tau / 360
INF, NAN = math.inf, math.nan


def readings(ranges, **changes) -> LaserReadings:
    numbers = {
        "angle_min": 0.0, "angle_increment": STEP, "range_min": 0.1, "range_max": 3.5
    } | changes  # fmt: skip
    return LaserReadings(ranges=np.array(ranges, np.float32), **numbers)


def seen(scene: Scene, X_BS, **changes):
    """Return the view of an ideal scanner at pose ``X_BS``, in the base frame."""
    inverted = X_BS[2, 2] < 0.0
    yaw = math.atan2(X_BS[1, 0], X_BS[0, 0])
    angles = STEP * np.arange(360)
    ranges = scene.ranges(X_BS[0, 3], X_BS[1, 3], yaw + (-angles if inverted else angles))
    ranges[ranges > 3.5] = INF
    return view_of_scan(readings(ranges, **changes), X_BS, 0.03, 0.5, 3.0)


def off(points) -> np.ndarray:
    """Return the distances from the obstacles' outlines [m], shape (n,)."""
    outline = SCENE.outlines(0.002)
    return np.array([np.hypot(*(outline - p).T).min() for p in points])


@pytest.mark.parametrize(
    "rpy", [(0, 0, 0), (0, 0, 2.0), (math.pi, 0, 0), (math.pi, 0, -1.0)], ids=str
)
def test_points_are_where_the_obstacles_are(rpy):
    """Also for a scanner mounted upside down."""
    view = seen(SCENE, from_xyz_rpy((-0.1, 0.05, 0.2), rpy))
    assert len(view.points) > 40
    assert off(view.points).max() < 2e-3
    # Free in front of the disc, unknown behind it.
    assert view.clears(np.array([(0.6, 0.2), (-0.5, 0.0), (0.0, 1.0)])).all()
    assert not view.clears(np.array([(1.5, 0.45), (-2.0, 0.0)])).any()


def test_a_sector_clears_only_what_it_sees():
    ranges = np.full(91, INF)
    sector = readings(ranges, angle_min=-45 * STEP)
    view = view_of_scan(sector, np.eye(4), -1.0, 1.0, 3.0)
    where = np.array([(1.0, 0.0), (1.0, 0.9), (1.0, 1.1), (-1.0, 0.0), (0.05, 0.0), (3.2, 0.0)])
    assert view.clears(where).tolist() == [True, True, False, False, False, False]


def test_an_inclined_scanner_sees_the_floor_and_what_is_above_it():
    """Pitched down by 0.2 rad at a height of 0.2 m: the floor is at 1 m."""
    X_BS = from_xyz_rpy((0.0, 0.0, 0.2), (0.0, 0.2, 0.0))
    floor = 0.2 / math.sin(0.2)
    ahead = view_of_scan(readings([floor, 0.5]), X_BS, 0.03, 0.5, 3.0)
    assert ahead.points == pytest.approx(
        np.array([(0.5 * math.cos(STEP) * math.cos(0.2), 0.5 * math.sin(STEP))]), abs=1e-6
    )


def test_readings_without_a_value():
    """REP-117: -inf is closer than range_min, inf nothing, NaN and 0 are no measurements."""
    view = view_of_scan(readings([-INF, INF, NAN, 0.0, 0.05, 4.0, 1.0]), np.eye(4), -1, 1, 3.0)
    assert np.hypot(*view.points.T) == pytest.approx([0.1, 1.0], abs=1e-6)
    assert (view.seen > 0.0).tolist() == [True, True, False, False, False, False, True]


@pytest.mark.parametrize(
    ("ranges", "changes"),
    [
        ([], {}),
        ([1.0] * 10, {"angle_increment": 0.0}),
        ([1.0] * 10, {"angle_increment": NAN}),
        ([1.0] * 10, {"angle_increment": 1.0}),
        ([1.0], {"angle_min": 1e9}),
        ([1.0], {"range_max": NAN}),
        ([1.0], {"range_min": 2.0, "range_max": 1.0}),
        ([1.0], {"range_max": 3500.0}),
        ([350.0, 900.0, INF, 3000.0], {}),
        ([NAN] * 300 + [INF] * 5, {}),
        ([0.0] * 300 + [INF] * 5, {}),
    ],
)
def test_invalid_scans(ranges, changes):
    with pytest.raises(InvalidCommand):
        readings(ranges, **changes)


def test_a_slice_of_a_cloud():
    """A camera pitched down at 0.5 m: a box on the floor, and a point above the base."""
    X_BS = from_xyz_rpy((0.1, 0.0, 0.5), (0.0, 0.6, 0.0))
    floor = np.random.default_rng(0).uniform((0.4, -0.5, 0.0), (2.0, 0.5, 0.0), (20_000, 3))
    world = np.array([
        *floor,
        *[(1.0, y, z) for y in np.linspace(-0.1, 0.1, 20) for z in np.linspace(0.0, 0.2, 10)],
        (1.5, 0.3, 0.9),
    ])  # fmt: skip
    cloud = ((world - X_BS[:3, 3]) @ X_BS[:3, :3]).astype(np.float32)
    cloud = np.concatenate([cloud, np.full((50, 3), NAN, np.float32)])
    view = view_of_cloud(cloud, X_BS, 0.03, 0.3, 3.0)
    assert view.points[:, 0] == pytest.approx(1.0, abs=1e-5)
    assert np.ptp(view.points[:, 1]) == pytest.approx(0.2, abs=1e-5)
    assert view.clears(np.array([(0.7, 0.02), (1.5, 0.4)])).all()
    # Behind the box, beside the field of view, and closer than the field of view.
    assert not view.clears(np.array([(1.4, 0.0), (0.5, -1.0), (0.2, 0.0)])).any()


@pytest.mark.parametrize("cloud", [np.full((9, 3), NAN), np.empty((0, 3)), np.full((9, 3), 1500.0)])
def test_invalid_clouds(cloud):
    with pytest.raises(InvalidCommand):
        view_of_cloud(cloud.astype(np.float32), np.eye(4), 0.0, 1.0, 3.0)


# ---- memory


def remembered(memory: ObstacleMemory, x: float, y: float) -> bool:
    return len(memory) > 0 and bool(np.hypot(*(memory.points - (x, y)).T).min() < 0.05)


def shown(scene: Scene, pose: Pose2):
    """Return the view of a scanner at the origin of a base at ``pose``."""
    ranges = scene.ranges(pose.x, pose.y, pose.yaw + STEP * np.arange(360))
    ranges[ranges > 3.5] = INF
    return view_of_scan(readings(ranges, range_min=0.02), np.eye(4), -1.0, 1.0, 4.0)


def test_what_is_taken_away_is_forgotten_and_what_is_hidden_is_kept():
    memory = ObstacleMemory(BODY, MemoryConfig(memory=10.0))
    far = Scene(discs=np.array([(2.0, 0.0, 0.1)]))
    both = Scene(discs=np.array([(2.0, 0.0, 0.1), (1.0, 0.0, 0.15)]))
    pose = Pose2(0.0, 0.0, 0.3)
    memory.add(shown(far, pose), pose, 0.0)
    assert remembered(memory, 1.9, 0.0)
    memory.add(shown(both, pose), pose, 1.0)
    assert remembered(memory, 0.85, 0.0)
    assert remembered(memory, 1.9, 0.0)
    memory.add(shown(far, Pose2()), Pose2(), 2.0)
    assert not remembered(memory, 0.85, 0.0)
    assert remembered(memory, 1.9, 0.0)
    memory.add(shown(both, pose), pose, 3.0)
    memory.age(12.5)
    assert remembered(memory, 0.85, 0.0)
    assert not remembered(memory, 1.9, 0.0)
    memory.age(13.5)
    assert not len(memory)


def test_sensors_do_not_clear_for_each_other():
    memory = ObstacleMemory(BODY)
    memory.add(shown(Scene(discs=np.array([(1.0, 0.0, 0.1)])), Pose2()), Pose2(), 0.0, source=0)
    memory.add(shown(Scene(), Pose2()), Pose2(), 0.1, source=1)
    assert remembered(memory, 0.9, 0.0)


def test_new_settings_keep_what_is_remembered():
    memory = ObstacleMemory(BODY)
    memory.add(shown(Scene(discs=np.array([(1.0, 0.0, 0.1)])), Pose2()), Pose2(), 0.0)
    memory.reconfigure(BODY, MemoryConfig(memory=2.0))
    assert remembered(memory, 0.9, 0.0)
    memory.age(2.5)
    assert not len(memory)


def test_memory_is_bounded_and_keeps_what_is_close():
    memory = ObstacleMemory(BODY, MemoryConfig(max_points=100, reach=3.0))
    ring = Scene(discs=np.array([(1.0, 0.0, 0.2), (-2.0, 0.0, 0.9)]))
    for k in range(20):
        memory.add(shown(ring, Pose2()), Pose2(), 0.1 * k, source=k)
    assert len(memory) == 100
    assert remembered(memory, 0.8, 0.0)
    memory.add(shown(Scene(), Pose2(9.0)), Pose2(9.0), 3.0)
    assert not len(memory)


def test_the_base_itself_is_no_obstacle():
    memory = ObstacleMemory(BODY)
    ranges = np.full(360, 2.0)
    ranges[90:150] = 0.1
    view = view_of_scan(readings(ranges, range_min=0.02), np.eye(4), -1.0, 1.0, 4.0)
    assert memory.add(view, Pose2(), 0.0).own == 60
    assert len(memory) == 300
    blinded = view_of_scan(readings(np.full(360, 0.05), range_min=0.02), np.eye(4), -1, 1, 4.0)
    with pytest.raises(InvalidCommand):
        memory.add(blinded, Pose2(), 1.0)


def test_the_history_of_poses():
    history = PoseHistory()
    with pytest.raises(InvalidCommand):
        history.at(0.0)
    for k in range(20):
        history.add(0.1 * k, Pose2(0.05 * k, 0.0, math.remainder(0.4 * k, math.tau)))
    x, _, yaw = history.at(np.array([0.85])).T
    assert x == pytest.approx(0.425)
    assert math.cos(yaw[0] - 3.4) == pytest.approx(1.0)
    for time in (-0.5, 2.5):
        with pytest.raises(InvalidCommand):
            history.at(time)
    history.add(0.5, Pose2())
    assert history.newest == 0.5
    with pytest.raises(InvalidCommand):
        history.at(0.2)


def test_odometry_that_is_set_to_another_pose_has_jumped():
    history = PoseHistory()
    speed = Twist2(0.5, 0.0, 1.0)
    assert not any(history.add(0.1 * k, Pose2(0.05 * k, 0.0, 0.1 * k), speed) for k in range(10))
    # A pause without messages, consistent with the velocity.
    assert not history.add(2.0, Pose2(1.0, 0.0, 2.0), speed)
    assert history.add(2.1, Pose2(0.0, 0.0, 0.0), speed)
    assert history.newest == 2.1
    assert history.add(2.2, Pose2(0.0, 0.0, 1.0), Twist2())


def test_a_scan_of_a_base_that_turns_meanwhile():
    """During a scan of 0.2 s the base turns by 0.4 rad and moves by 6 cm."""
    history, turn, speed = PoseHistory(), 2.0, 0.3
    for k in range(60):
        history.add(0.02 * k, Pose2(speed * 0.02 * k, 0.0, turn * 0.02 * k))
    begin, duration, n = 0.7, 0.2, 360
    times = begin + np.linspace(0.0, duration, n)
    X_BS = from_xyz_rpy((0.05, 0.0, 0.2), (0.0, 0.0, 0.3))
    ranges = np.empty(n)
    for k, t in enumerate(times):
        at = Pose2(speed * t, 0.0, turn * t).compose(Pose2(0.05, 0.0, 0.3))
        ranges[k] = SCENE.ranges(at.x, at.y, np.array([at.yaw + STEP * k]))[0]
    ranges[ranges > 3.5] = INF
    end = Pose2(speed * times[-1], 0.0, turn * times[-1])
    X = history.sensor_poses(X_BS, begin, duration, n)
    right = view_of_scan(readings(ranges), X, 0.03, 0.5, 3.0)
    assert off(out_of_base(right.points, end)).max() < 3e-3
    wrong = view_of_scan(readings(ranges), X_BS, 0.03, 0.5, 3.0)
    assert off(out_of_base(wrong.points, end)).max() > 0.1
