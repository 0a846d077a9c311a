# SPDX-License-Identifier: Apache-2.0
"""Drives between objects: every pose of a drive is checked independently, by sampling."""

from __future__ import annotations

import math

import numpy as np
import pytest

from motion_nodes.core.navigation.footprint import footprint_from
from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.core.navigation.pose_motions import (
    CLEARANCE,
    OutlineLayer,
    legs_to,
    outline_points,
)

BODY = footprint_from([(0.1, 0.2), (0.1, -0.2), (-0.6, 0.2), (-0.6, -0.2)])


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
    return float(BODY.distances(inside).min())


def test_free_ground_is_crossed_straight() -> None:
    layers = [OutlineLayer(BODY, np.empty((0, 2)))]
    assert legs_to(lambda _: [Pose2(2.0, 0.0, 0.0)], layers) == (Pose2(2.0, 0.0, 0.0),)
    turned, goal = legs_to(lambda _: [Pose2(0.0, 2.0, math.pi / 2)], layers)
    assert turned == pytest.approx((0.0, 0.0, math.pi / 2))
    assert goal == Pose2(0.0, 2.0, math.pi / 2)


def test_a_base_at_a_table_backs_off_before_it_turns() -> None:
    table = square(0.45, 0.0, 0.2)
    goal = Pose2(-2.0, -1.0, math.atan2(-1.0, -2.0))
    layers = [OutlineLayer(BODY, table)]
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
def test_drives_of_random_scenes_keep_clear() -> None:
    rng, found = np.random.default_rng(3), 0
    for _ in range(30):
        points = np.concatenate([
            square(*rng.uniform(-2.0, 2.0, 2), rng.uniform(0.05, 0.25)) for _ in range(4)
        ])  # fmt: skip
        goals = [Pose2(*rng.uniform(-2.0, 2.0, 2), rng.uniform(-3.0, 3.0)) for _ in range(3)]
        if distance(Pose2(), points) < CLEARANCE:
            continue
        legs = legs_to(lambda _, goals=goals: goals, [OutlineLayer(BODY, points)])
        if legs:
            found += 1
            assert legs[-1] in goals
            assert min(distance(pose, points) for pose in swept(legs)) > 0.5 * CLEARANCE
    assert found > 10


def test_no_way() -> None:
    ring = np.concatenate([square(0.9 * c, 0.9 * s, 0.2) for c, s in (
        (math.cos(a), math.sin(a)) for a in np.linspace(0.0, math.tau, 24).tolist())])  # fmt: skip
    goals = [Pose2(3.0, 0.0, 0.0), Pose2(0.0, -3.0, 0.0)]
    assert legs_to(lambda _: goals, [OutlineLayer(BODY, ring)]) == ()


def test_the_next_candidate_counts_where_the_first_is_taken() -> None:
    goals = [Pose2(2.0, 0.0, 0.0), Pose2(2.0, 1.0, math.atan2(1.0, 2.0))]
    layers = [OutlineLayer(BODY, square(1.5, 0.0, 0.1))]
    assert legs_to(lambda _: goals, layers)[-1] == goals[1]


def test_a_turn_without_room_at_the_goal_is_made_before_it() -> None:
    table = square(2.0, 1.2, 0.2)
    goal = Pose2(2.0, 0.75, math.pi / 2)  # faces the table, unlike the approach
    layers = [OutlineLayer(BODY, table)]
    legs = legs_to(lambda _: [goal], layers)
    assert legs[-1] == goal
    assert legs[-2].yaw == goal.yaw
    assert legs[-2].x == pytest.approx(goal.x)
    assert min(distance(pose, table) for pose in swept(legs)) >= CLEARANCE
