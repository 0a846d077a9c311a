# SPDX-License-Identifier: Apache-2.0
"""The base navigator's goals of several poses: navigate_through_poses, follow_waypoints."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from navigation_client import ABORTED, CANCELED, SUCCEEDED, Codes, NavigationClient, stamped
from scripted_base import ScriptedBase

from motion_nodes.core.navigation.planar_geometry import Pose2

pytestmark = pytest.mark.timeout(900)
NEAR = 0.06
"""[m] Of the goal: its tolerance of 0.025, and the way of a stop that comes late in wall time."""


@pytest.fixture
def base(navigator: NavigationClient, moved: ScriptedBase) -> ScriptedBase:
    """The base at the origin of its odometry, standing."""
    navigator.client.wait(lambda: moved.stands, "the base to stand")
    moved.put(navigator.client, 0.0, 0.0, 0.0)
    navigator.wait_for()
    return moved


def test_to_several_poses(base, navigator):
    """Poses of the moving frame base_link are those of the start."""
    poses = ((0.1, 0.0, 0.0), (0.1, 0.0, 0.3), (0.2, 0.03, 0.3))
    call = navigator.go_through(*poses, frame="base_link")
    status, result = call.result(within=40.0)
    assert (status, result.error_code, result.error_msg) == (SUCCEEDED, Codes.NONE, "")
    assert base.pose.distance(Pose2(*poses[-1])) < NEAR
    assert abs(base.pose.yaw - 0.3) < 0.05
    feedback = [entry.feedback for entry in call.feedback]
    left = [f.number_of_poses_remaining for f in feedback]
    assert left == sorted(left, reverse=True)
    assert set(left) == {3, 2, 1}
    assert feedback[0].distance_remaining == pytest.approx(0.1 + math.hypot(0.1, 0.03), abs=0.05)
    times = [f.navigation_time.sec + 1e-9 * f.navigation_time.nanosec for f in feedback]
    assert (np.diff(times) >= 0.0).all()


def test_several_poses_are_refused_and_canceled_as_one(base, navigator):
    for poses, text in ((), "no poses"), (((0.1, 0, 0), (0.2, math.nan, 0)), "pose 2 of 2"):
        status, result = navigator.go_through(*poses).result()
        assert (status, result.error_code) == (ABORTED, Codes.INVALID_PATH)
        assert text in result.error_msg
    call = navigator.go_through((0.1, 0.0, 0.0), (3.0, 0.0, 0.0), (4.0, 0.0, 0.0))
    assert call.accepted()
    navigator.client.wait(
        lambda: call.feedback and call.feedback[-1].feedback.number_of_poses_remaining == 2,
        "the second pose",
    )
    call.cancel()
    assert call.result()[0] == CANCELED
    navigator.client.wait(lambda: base.stands, "the base to stand")


@pytest.mark.long
def test_waypoints_in_loops_and_those_that_are_missed(base, navigator):
    call = navigator.visit((9.0, 0, 0), (0.05, 0, 0), goal_index=2)
    status, result = call.result()
    assert (status, result.error_code) == (ABORTED, Codes.INVALID_PATH)
    assert "goal_index is 2" in result.error_msg
    call = navigator.visit((0, 0, 0.0), (0, 0, 0.15), goal_index=1, number_of_loops=1)
    status, result = call.result(within=30.0)
    assert (status, list(result.missed_waypoints)) == (SUCCEEDED, [])
    told = [entry.feedback.current_waypoint for entry in call.feedback]
    assert [k for k, _ in itertools.groupby(told)] == [1, 0, 1]
    call = navigator.visit((0.0, 0.0, 0.1), (3.0, 0.0, 0.0))
    assert call.accepted()
    navigator.client.wait(
        lambda: call.feedback and call.feedback[-1].feedback.current_waypoint == 1, "the second"
    )
    assert navigator.go((0.3, 0.0, 0.0)).result(within=30.0)[0] == SUCCEEDED
    status, result = call.result()
    assert (status, [missed.index for missed in result.missed_waypoints]) == (ABORTED, [1])
    navigator.client.wait(lambda: base.stands, "the base to stand")


def test_a_waypoint_in_an_unknown_frame_is_named(base, navigator):
    bad = stamped((1.0, 0.0, 0.0), "moon")
    call = navigator.visit((0.05, 0.0, 0.0), bad, (0.1, 0.0, 0.0))
    status, result = call.result()
    assert (status, result.error_code) == (ABORTED, Codes.TF_ERROR)
    (missed,) = result.missed_waypoints
    assert (missed.index, missed.error_code, missed.goal) == (1, Codes.TF_ERROR, bad)
    assert base.pose.distance(Pose2()) < 1e-3  # known before the first motion


@pytest.mark.long
def test_waypoints_after_a_missed_one_are_visited_if_told_so(base, navigator):
    assert navigator.client.set_parameters(navigator.node, stop_on_failure=False).successful
    try:
        bad = stamped((1.0, 0.0, 0.0), "moon"), stamped((math.nan, 0.0, 0.0))
        call = navigator.visit(bad[0], (0.1, 0.0, 0.0), bad[1], number_of_loops=1)
        status, result = call.result(within=40.0)
        assert (status, result.error_code) == (SUCCEEDED, Codes.NONE)
        missed = [(m.index, m.error_code) for m in result.missed_waypoints]
        assert missed == [(0, Codes.TF_ERROR), (2, Codes.INVALID_PATH)] * 2
        assert base.pose.distance(Pose2(0.1)) < NEAR
        # None is left to visit.
        status, result = navigator.visit(*bad).result()
        assert (status, [m.index for m in result.missed_waypoints]) == (SUCCEEDED, [0, 1])
        # One that is not reached because the base is stuck.
        base.stuck = True
        more = {"movement_time_allowance": 0.5}
        assert navigator.client.set_parameters(navigator.node, **more).successful
        call = navigator.visit((0.5, 0.0, 0.0), (0.6, 0.0, 0.0))
        status, result = call.result(within=40.0)
        assert (status, [m.index for m in result.missed_waypoints]) == (SUCCEEDED, [0, 1])
    finally:
        base.stuck = False
        usual = {"stop_on_failure": True, "movement_time_allowance": 10.0}
        assert navigator.client.set_parameters(navigator.node, **usual).successful
