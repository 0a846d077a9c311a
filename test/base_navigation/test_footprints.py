# SPDX-License-Identifier: Apache-2.0
"""Footprints, contacts of moving ones, and drives between objects."""

import dataclasses
import math

import numpy as np
import pytest
from base_navigation.obstacle_scenes import BODY
from raised_errors import about
from scipy.spatial import ConvexHull

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.bases.odometry import arc_displacement
from motion_nodes.core.navigation.footprint import (
    contact_times,
    convex_hull,
    footprint_from,
    footprint_of,
    into_base,
    keeps_clear,
    out_of_base,
)
from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.core.navigation.pose_motions import (
    CLEARANCE,
    OutlineLayer,
    legs_to,
    outline_points,
)
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.errors import InvalidConfig


def test_the_outline_of_a_turtlebot():
    """Body: 0.14 m around x = -0.032; wheels: 4 mm wide, 0.16 m apart; height of the scanner."""
    footprint = footprint_of(load_robot("turtlebot3_burger"))
    low, high = footprint.corners.min(axis=0), footprint.corners.max(axis=0)
    assert low == pytest.approx((-0.102, -0.082), abs=1e-3)
    # The scanner's cylinder is the front-most part.
    assert high == pytest.approx((0.038, 0.082), abs=2e-3)
    assert footprint.floor == pytest.approx(0.0, abs=1e-3)
    assert footprint.top == pytest.approx(0.19125, abs=1e-3)


@pytest.mark.parametrize("name", ["jetbot", "nova_carter", "kaya", "leatherback"])
def test_shipped_bases_have_convex_outlines(name):
    corners = footprint_of(load_robot(name)).corners
    assert 3 <= len(corners) <= 16
    edges = np.roll(corners, -1, axis=0) - corners
    turn = edges[:, 0] * np.roll(edges[:, 1], -1) - edges[:, 1] * np.roll(edges[:, 0], -1)
    assert (turn > 0.0).all()


def test_a_footprint_of_robot_yaml_prevails():
    robot = load_robot("jetbot")
    base = dataclasses.replace(robot.base, footprint=((0.2, 0.1), (-0.2, 0.1), (0.0, -0.3)))
    footprint = footprint_of(dataclasses.replace(robot, base=base))
    assert sorted(map(tuple, footprint.corners.tolist())) == [(-0.2, 0.1), (0.0, -0.3), (0.2, 0.1)]
    assert footprint.top == footprint_of(robot).top


@pytest.mark.parametrize(
    "corners",
    [[], [(0, 0), (1, 1)], [(0, 0), (1, 1), (2, 2)], [(0, 0), (1, 0), (0, math.nan)],
     [(0, 0), (1, 0), (0, 1e6)], [(0, 0, 0), (1, 0, 0), (0, 1, 0)]],
)  # fmt: skip
def test_invalid_corners(corners):
    with pytest.raises(InvalidConfig, check=about("footprint")):
        footprint_from(corners)


@pytest.mark.parametrize("seed", range(5))
def test_the_hull_is_scipys(seed):
    points = np.random.default_rng(seed).normal(size=(40, 2))
    expected, found = points[ConvexHull(points).vertices], convex_hull(points)
    assert found[found[:, 0].argsort()] == pytest.approx(
        expected[expected[:, 0].argsort()], abs=1e-8
    )


def test_many_corners_become_fewer_around_them():
    a = np.linspace(0.0, math.tau, 300)
    circle = np.column_stack((0.3 * np.cos(a), 0.3 * np.sin(a)))
    footprint = footprint_from(circle)
    assert len(footprint.corners) <= 16
    assert footprint.distances(circle).max() == pytest.approx(0.0, abs=1e-9)
    assert footprint.radius < 0.31


def test_distances():
    square = footprint_from([(-1, -1), (1, -1), (1, 1), (-1, 1)])
    points = np.array([(0, 0), (2, 0), (0, -3), (2, 2), (0.9, 0.9)], float)
    distances, nearest = square.nearest(points)
    assert distances == pytest.approx([0, 1, 2, math.sqrt(2), 0])
    assert nearest[1:4] == pytest.approx(np.array([(1, 0), (0, -1), (1, 1)]))
    assert square.radius == pytest.approx(math.sqrt(2))


SQUARE = footprint_from([(-0.2, -0.1), (0.2, -0.1), (0.2, 0.1), (-0.2, 0.1)])


def first(point, radius, twist, footprint=SQUARE):
    return float(contact_times(footprint, np.array([point]), np.array([radius]), twist)[0])


def moved(twist: Twist2, time: float) -> Pose2:
    return Pose2(*arc_displacement(twist.scaled(time)), twist.wz * time)


@pytest.mark.parametrize(
    ("point", "radius", "twist", "time"),
    [
        ((1.2, 0.05), 0.1, Twist2(0.5), 0.9 / 0.5),
        ((-1.2, 0.0), 0.1, Twist2(-0.5), 0.9 / 0.5),
        ((0.0, 0.7), 0.05, Twist2(0.0, 0.25), 0.55 / 0.25),
        # 0.06 beside the corner, which has the radius 0.1
        ((1.0, 0.16), 0.1, Twist2(1.0), 0.8 - 0.08),
        ((1.0, 0.21), 0.1, Twist2(1.0), math.inf),
        ((-1.0, 0.0), 0.1, Twist2(1.0), math.inf),
        # The front right corner reaches a place on its circle.
        ((0.3, 0.0), 0.0, Twist2(0.0, 0.0, 1.0), math.inf),
        (
            (math.hypot(0.2, 0.1), 0.0), 1e-6, Twist2(0.0, 0.0, 0.5),
            math.atan2(0.1, 0.2) / 0.5,
        ),
        ((0.0, 0.3), 0.0, Twist2(), math.inf),
    ],
)  # fmt: skip
def test_closed_forms(point, radius, twist, time):
    assert first(point, radius, twist) == pytest.approx(time, abs=1e-4)


def test_a_disc_on_an_arc():
    """A round footprint on a circular arc touches a disc on that arc."""
    a = np.linspace(0.0, math.tau, 200, endpoint=False)
    body = 0.1 / math.cos(math.pi / 200)
    round_one = footprint_from(np.column_stack((body * np.cos(a), body * np.sin(a))))
    radius, reach = 1.0, 0.1 + 0.15
    # The point is a quarter turn ahead; the chord between the centers is `reach`.
    expected = 0.5 * math.pi - 2.0 * math.asin(0.5 * reach / radius)
    assert first((1.0, 1.0), 0.15, Twist2(1.0, 0.0, 1.0), round_one) == pytest.approx(
        expected, abs=5e-3
    )


@pytest.mark.parametrize("seed", range(30))
def test_samples_of_the_motion(seed):
    """No obstacle is in contact before its contact time, and each touches at it."""
    rng = np.random.default_rng(seed)
    twist = Twist2(*(rng.uniform(-1.0, 1.0, 3) * (0.4, 0.4 * (seed % 2), 2.0 * (seed % 3 > 0))))
    points, radii = rng.uniform(-1.2, 1.2, (40, 2)), rng.uniform(0.0, 0.2, 40)
    outside = BODY.distances(points) > radii + 1e-3
    points, radii = points[outside], radii[outside]
    times = contact_times(BODY, points, radii, twist)
    assert (times > 0.0).all()
    for time in np.arange(0.0, 3.0, 0.02):
        near = BODY.distances(into_base(points, moved(twist, time))) < radii
        assert not (near & (time < times - 1e-9)).any()
    for time, point, radius in zip(times, points, radii, strict=True):
        if math.isfinite(time):
            local = into_base(point[None], moved(twist, time))
            assert BODY.distances(local)[0] == pytest.approx(radius, abs=1e-6)


def test_far_centres_of_rotation_are_straight():
    points, radii = np.array([(2.0, 0.05)]), np.array([0.1])
    straight = contact_times(SQUARE, points, radii, Twist2(0.5))
    for turn in (1e-9, 4e-5, 1e-4):
        bent = contact_times(SQUARE, points, radii, Twist2(0.5, 0.0, turn))
        assert bent == pytest.approx(straight, abs=1e-3)


def test_keeping_clear_of_points():
    points = np.array([(1.0, 0.0)])
    assert keeps_clear(SQUARE, points, Twist2(1.0), 0.69, 0.1)
    assert not keeps_clear(SQUARE, points, Twist2(1.0), 0.71, 0.1)
    close = np.array([(0.25, 0.0)])
    assert not keeps_clear(SQUARE, close, Twist2(-1.0), 1.0, 0.1)
    assert keeps_clear(SQUARE, close, Twist2(-1.0), 1.0, 0.1, lenient=True)
    assert not keeps_clear(SQUARE, close, Twist2(1.0), 1.0, 0.1, lenient=True)


def test_frames():
    points = np.array([(1.0, 2.0), (-0.5, 0.3)])
    pose = Pose2(0.4, -0.2, 1.1)
    local = into_base(points, pose)
    expected = [pose.inverse().compose(Pose2(*row, 0.0))[:2] for row in points]
    assert local == pytest.approx(np.array(expected))
    assert out_of_base(local, pose) == pytest.approx(points)


BODY_DOCKING = footprint_from([(0.1, 0.2), (0.1, -0.2), (-0.6, 0.2), (-0.6, -0.2)])


def square(x: float, y: float, half: float) -> np.ndarray:
    return outline_points(
        np.array([(x - half, y - half), (x - half, y + half), (x + half, y - half),
                  (x + half, y + half), (x, y)])
    )  # fmt: skip


def swept(legs: tuple[Pose2, ...]) -> list[Pose2]:
    """Return the poses of a base that drives the legs as the navigator does."""
    poses, at = [], Pose2()
    for leg in legs:
        turn = math.remainder(leg.yaw - at.yaw, math.tau)
        for s in np.linspace(0.0, 1.0, 60).tolist():
            poses.append(Pose2(at.x + s * (leg.x - at.x), at.y + s * (leg.y - at.y), at.yaw))
        poses += [
            Pose2(leg.x, leg.y, at.yaw + s * turn) for s in np.linspace(0.0, 1.0, 60).tolist()
        ]
        at = leg
    return poses


def distance(pose: Pose2, points: np.ndarray) -> float:
    c, s = math.cos(pose.yaw), math.sin(pose.yaw)
    inside = (points - (pose.x, pose.y)) @ np.array([[c, -s], [s, c]])
    return float(BODY_DOCKING.distances(inside).min())


def test_free_ground_is_crossed_straight():
    layers = [OutlineLayer(BODY_DOCKING, np.empty((0, 2)))]
    assert legs_to(lambda _: [Pose2(2.0, 0.0, 0.0)], layers) == (Pose2(2.0, 0.0, 0.0),)
    turned, goal = legs_to(lambda _: [Pose2(0.0, 2.0, math.pi / 2)], layers)
    assert turned == pytest.approx((0.0, 0.0, math.pi / 2))
    assert goal == Pose2(0.0, 2.0, math.pi / 2)


def test_a_base_at_a_table_backs_off_before_it_turns():
    table = square(0.45, 0.0, 0.2)
    goal = Pose2(-2.0, -1.0, math.atan2(-1.0, -2.0))
    layers = [OutlineLayer(BODY_DOCKING, table)]
    legs = legs_to(lambda _: [goal], layers)
    assert len(legs) == 3
    back, turned, end = legs
    assert back.x < 0.0
    assert back[1:] == (0.0, 0.0)
    assert (turned.x, turned.y) == (back.x, back.y)
    assert end == goal
    assert min(distance(pose, table) for pose in swept(legs)) >= CLEARANCE
    # A turn in place would have hit the table.
    spot = [Pose2(0.0, 0.0, yaw) for yaw in np.linspace(0.0, math.tau, 60).tolist()]
    assert min(distance(pose, table) for pose in spot) == 0.0


@pytest.mark.long
def test_drives_of_random_scenes_keep_clear():
    rng, found = np.random.default_rng(3), 0
    for _ in range(30):
        points = np.concatenate([
            square(*rng.uniform(-2.0, 2.0, 2), rng.uniform(0.05, 0.25)) for _ in range(4)
        ])  # fmt: skip
        goals = [Pose2(*rng.uniform(-2.0, 2.0, 2), rng.uniform(-3.0, 3.0)) for _ in range(3)]
        if distance(Pose2(), points) < CLEARANCE:
            continue
        legs = legs_to(lambda _, goals=goals: goals, [OutlineLayer(BODY_DOCKING, points)])
        if legs:
            found += 1
            assert legs[-1] in goals
            assert min(distance(pose, points) for pose in swept(legs)) > 0.5 * CLEARANCE
    assert found > 10


def test_no_way():
    ring = np.concatenate([square(0.9 * c, 0.9 * s, 0.2) for c, s in (
        (math.cos(a), math.sin(a)) for a in np.linspace(0.0, math.tau, 24).tolist())])  # fmt: skip
    goals = [Pose2(3.0, 0.0, 0.0), Pose2(0.0, -3.0, 0.0)]
    assert legs_to(lambda _: goals, [OutlineLayer(BODY_DOCKING, ring)]) == ()


def test_the_next_candidate_counts_where_the_first_is_taken():
    goals = [Pose2(2.0, 0.0, 0.0), Pose2(2.0, 1.0, math.atan2(1.0, 2.0))]
    layers = [OutlineLayer(BODY_DOCKING, square(1.5, 0.0, 0.1))]
    assert legs_to(lambda _: goals, layers)[-1] == goals[1]


def test_a_turn_without_room_at_the_goal_is_made_before_it():
    table = square(2.0, 1.2, 0.2)
    goal = Pose2(2.0, 0.75, math.pi / 2)  # faces the table, unlike the approach
    layers = [OutlineLayer(BODY_DOCKING, table)]
    legs = legs_to(lambda _: [goal], layers)
    assert legs[-1] == goal
    assert legs[-2].yaw == goal.yaw
    assert legs[-2].x == pytest.approx(goal.x)
    assert min(distance(pose, table) for pose in swept(legs)) >= CLEARANCE
