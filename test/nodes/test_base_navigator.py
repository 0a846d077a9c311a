# SPDX-License-Identifier: Apache-2.0
"""The base navigator over DDS, with a scripted base: goals, ends, frames, faults."""

import math
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Path
from navigation_client import (
    ABORTED,
    CANCELED,
    SUCCEEDED,
    Codes,
    NavigationClient,
    path,
    pose_of,
    stamped,
)
from ros_client import LATCHED
from scripted_base import ScriptedBase
from scripted_scanner import BAD_SCANS, Scanner

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.nodes.navigation.navigation_requests import TRANSFORM_WAIT

pytestmark = pytest.mark.timeout(900)
NODE = "/base_navigator"
NEAR = 0.06
"""[m] Of the goal: its tolerance of 0.025, and the way of a stop that comes late in wall time."""


@pytest.fixture(scope="module")
def cell(module_suite, module_client):
    """A JetBot's navigator and a base for it."""
    base = ScriptedBase()
    process = module_suite.node(
        "base_navigator",
        robot="jetbot",
        **{"obstacles.cloud_topics": ["cloud"], "odom_timeout": 2.0},
    )
    navigator = NavigationClient(module_client)
    goal_pose = module_client.publisher(PoseStamped, "/goal_pose")
    navigator.wait_for()
    yield SimpleNamespace(
        base=base, navigator=navigator, client=module_client, goal_pose=goal_pose, process=process
    )
    navigator.close()
    base.close()


@pytest.fixture
def base(cell):
    """The base at the origin of its odometry, standing."""
    base = cell.base
    cell.client.wait(lambda: base.stands, "the base to stand")
    base.silent = base.broken = base.stuck = False
    base.map_to_odom = None
    base.put(cell.client, 0.0, 0.0, 0.0)
    cell.navigator.wait_for()
    base.told.clear()
    return base


@pytest.fixture
def navigator(cell):
    return cell.navigator


def under_way(cell: SimpleNamespace, goal: tuple[float, float, float] = (3.0, 0.0, 0.0)) -> Any:
    """A goal far away, and the base on its way at full speed."""
    call = cell.navigator.go(goal)
    assert call.accepted()
    cell.client.wait(lambda: cell.base.told and cell.base.told[-1][1].vx > 0.45, "full speed")
    return call


def now(cell: SimpleNamespace) -> float:
    return cell.client.node.get_clock().now().nanoseconds * 1e-9


class TestGoals:
    @pytest.mark.long
    def test_from_rviz(self, cell, base):
        cell.goal_pose.publish(stamped((0.4, 0.0, 0.5), stamp=now(cell)))
        cell.client.wait(lambda: base.told, "commands")
        cell.client.wait(lambda: base.stands and base.pose.x > 0.3, "arrival")
        cell.navigator.wait_for()
        assert base.pose.distance(Pose2(0.4, 0.0)) < NEAR
        assert base.pose.yaw == pytest.approx(0.5, abs=0.05)

    @pytest.mark.long
    def test_the_plan_stays_for_those_who_come_later(self, cell, base, navigator):
        status, _ = navigator.go((0.3, 0.1, 0.0)).result(within=30.0)
        assert status == SUCCEEDED
        late = cell.client.listen(Path, "/plan", LATCHED)
        cell.client.wait(lambda: late, "the plan")
        assert late.newest.header.frame_id == "odom"
        assert pose_of(late.newest.poses[0]).distance(Pose2()) < 0.02
        assert pose_of(late.newest.poses[-1]) == pytest.approx((0.3, 0.1, 0.0))

    def test_nothing_is_sent_without_a_goal(self, cell, base):
        """So that a joystick has the base for itself."""
        cell.client.spin(0.3)
        assert not base.told


class TestEnds:
    def test_cancel_brakes_within_the_limits_first(self, cell, base):
        call = under_way(cell)
        begin = len(base.told)
        assert call.cancel()
        status, result = call.result()
        assert (status, result.error_msg) == (CANCELED, "canceled by its client")
        cell.client.wait(lambda: base.stands, "the base to stand")
        speeds = [twist.vx for _, twist in base.told[begin:]]
        # Two ticks' worth at 1 m/s^2 and 50 Hz, should one have come late.
        assert np.diff(speeds).min() >= -0.041
        assert len(speeds) > 15

    def test_a_path_preempts_a_pose_and_can_be_canceled(self, cell, base):
        first = under_way(cell)
        x = base.pose.x
        second = cell.navigator.follow(path([(x, 0, 0), (x + 3.0, 0, 0)]))
        assert second.accepted()
        assert "preempted by FollowPath goal" in first.result()[1].error_msg
        assert second.cancel()
        assert second.result()[0] == CANCELED

    def test_lost_odometry(self, cell, base):
        call = under_way(cell)
        base.silent = True
        status, result = call.result()
        assert (status, result.error_code) == (ABORTED, Codes.TF_ERROR)
        assert "no odometry on /diff_drive_controller/odom" in result.error_msg
        cell.client.wait(lambda: base.stands, "the base to stand")
        cell.client.wait_for_diagnosis(NODE, "goals are refused", DiagnosticStatus.ERROR)
        refused = cell.navigator.go((1.0, 0.0, 0.0)).result()
        assert (refused[0], refused[1].error_code) == (ABORTED, Codes.TF_ERROR)
        assert "no odometry" in refused[1].error_msg
        base.silent = False
        cell.navigator.wait_for(news=True)
        status, result = cell.navigator.go((base.pose.x + 0.2, 0.0, 0.0)).result(30.0)
        assert status == SUCCEEDED, result.error_msg

    def test_odometry_that_is_not_finite_is_none(self, cell, base):
        call = under_way(cell)
        base.broken = True
        status, result = call.result()
        assert (status, result.error_code) == (ABORTED, Codes.TF_ERROR)
        cell.client.wait(lambda: base.stands, "the base to stand")
        assert all(map(math.isfinite, base.told[-1][1]))
        cell.navigator.wait_for_warning("odometry ignored")

    def test_carried_away_from_its_path(self, cell, base):
        call = cell.navigator.follow(path([(0, 0, 0), (5, 0, 0)]))
        cell.client.wait(lambda: base.told and base.told[-1][1].vx > 0.3, "motion")
        base.odometry.set_pose(1.0, 2.0, 0.0)
        status, result = call.result()
        assert (status, result.error_code) == (ABORTED, Codes.NO_VALID_CONTROL)
        assert "from the path; allowed is max_deviation" in result.error_msg

    @pytest.mark.long
    def test_deactivation(self, cell, base):
        call = under_way(cell)
        assert cell.client.change_state(NODE, "deactivate")
        status, result = call.result()
        assert (status, result.error_msg) == (ABORTED, "the navigator was deactivated")
        cell.client.wait(lambda: base.stands, "the base to stand")
        assert not cell.navigator.go((1.0, 0.0, 0.0)).accepted()
        assert cell.client.change_state(NODE, "activate")
        cell.navigator.wait_for(news=True)
        assert cell.navigator.go((base.pose.x + 0.2, 0.0, 0.0)).result(30.0)[0] == SUCCEEDED

    @pytest.mark.long
    def test_cleanup_and_configure_again(self, cell, base):
        for verbs in (("deactivate", "cleanup"), ("configure", "activate")):
            for verb in verbs:
                assert cell.client.change_state(NODE, verb)
            cell.navigator.wait_for("unconfigured" if "cleanup" in verbs else "no goal", news=True)
        status, result = cell.navigator.go((0.2, 0.0, 0.0), "camera").result(30.0)
        assert status == SUCCEEDED, result.error_msg


class TestFrames:
    def test_of_the_base(self, cell, base, navigator):
        base.put(cell.client, 1.0, 1.0, 0.5 * math.pi)
        cell.client.spin(0.5)
        assert navigator.go((0.4, 0.0, 0.0), "base_link").result(30.0)[0] == SUCCEEDED
        assert base.pose.distance(Pose2(1.0, 1.4)) < NEAR

    @pytest.mark.long
    def test_of_a_sensor_on_it(self, cell, base, navigator):
        """The camera sits 0.2 m ahead and looks to the left."""
        status, result = navigator.go((0.3, 0.0, 0.0), "camera").result(30.0)
        assert status == SUCCEEDED, result.error_msg
        assert base.pose.distance(Pose2(0.2, 0.3)) < NEAR
        assert base.pose.yaw == pytest.approx(0.5 * math.pi, abs=0.05)

    @pytest.mark.long
    def test_of_a_map_that_moves_against_the_odometry_meanwhile(self, cell, base, navigator):
        base.localize(cell.client, Pose2(2.0, 1.0, 0.5 * math.pi))
        call = navigator.go((2.0, 2.0, 0.5 * math.pi), "map")
        assert call.accepted()
        cell.client.wait(lambda: base.pose.x > 0.2, "motion")
        base.map_to_odom = Pose2(2.1, 0.9, 0.5 * math.pi + 0.1)
        status, result = call.result(30.0)
        assert status == SUCCEEDED, result.error_msg
        there = base.map_to_odom.compose(base.pose)
        assert there.distance(Pose2(2.0, 2.0)) < NEAR
        assert there.yaw == pytest.approx(0.5 * math.pi, abs=0.06)
        assert call.feedback[-1].feedback.current_pose.header.frame_id == "map"

    @pytest.mark.long
    def test_a_map_whose_localisation_has_died(self, cell, base, navigator):
        base.localize(cell.client, Pose2())
        call = navigator.go((3.0, 0.0, 0.0), "map")
        assert call.accepted()
        cell.client.wait(lambda: base.pose.x > 0.2, "motion")
        base.map_to_odom = None
        assert cell.client.set_parameters(NODE, transform_timeout=0.6).successful
        status, result = call.result()
        assert cell.client.set_parameters(NODE, transform_timeout=5.0).successful
        assert (status, result.error_code) == (ABORTED, Codes.TF_ERROR)
        assert "the newest transform from 'odom' to 'map' is" in result.error_msg

    def test_goals_that_wait_for_their_frame_block_nobody(self, cell, base, navigator):
        for _ in range(5):  # a busy machine may be late
            begin = time.monotonic()
            calls = [navigator.go((1.0, 0.0, 0.0), "nowhere") for _ in range(4)]
            assert all(call.accepted() for call in calls)
            assert cell.client.state(NODE)
            waiting, took = not calls[-1].done, time.monotonic() - begin
            for call in calls:
                status, result = call.result()
                assert (status, result.error_code) == (ABORTED, Codes.TF_ERROR)
            if took < TRANSFORM_WAIT:
                assert waiting
                return
        raise AssertionError("the state was not told while goals waited")

    def test_a_goal_that_waits_for_its_frame_is_canceled(self, cell, base, navigator):
        for _ in range(5):  # a busy machine may be late
            call = navigator.go((1.0, 0.0, 0.0), "nowhere")
            assert call.accepted()
            canceled = call.cancel()
            assert call.result()[0] == (CANCELED if canceled else ABORTED)
            if canceled:
                return
        raise AssertionError("no cancel request was accepted in time")


@pytest.fixture
def scanner(cell, base):
    change = cell.client.set_parameters
    assert change(NODE, obstacles__mode="auto", obstacles__sensor_timeout=0.5).successful
    yield Scanner(cell.client, base, NODE)
    assert change(NODE, obstacles__mode="off").successful


class TestObstacles:
    def test_it_stops_before_a_wall_and_goes_on(self, cell, base, scanner):
        scanner.until(lambda: scanner.diagnosed("no goal"), "a report")
        call = cell.navigator.go((3.0, 0.0, 0.0))
        assert call.accepted()
        scanner.until(lambda: scanner.diagnosed("an obstacle at (1.00, "), "the wall")
        assert base.pose.x == pytest.approx(1.0 - 0.1 - 0.058, abs=0.03)
        assert not call.done
        scanner.wall = 9.0
        scanner.until(lambda: base.pose.x > 1.1, "the way to be free")
        assert call.cancel()
        scanner.until(lambda: call.done, "the end")

    def test_bad_scans_move_nothing(self, cell, base, scanner):
        """Each is dropped with its reason, and the base waits for a good one."""
        scanner.wall = 9.0
        scanner.changes = BAD_SCANS[0][1]
        call = cell.navigator.go((1.5, 0.0, 0.0))
        assert call.accepted()
        for reason, changes in BAD_SCANS:
            scanner.changes = changes
            scanner.until(lambda r=reason: scanner.diagnosed(r), reason)
        assert base.pose.x < 0.02
        scanner.changes = {}
        scanner.until(lambda: base.pose.x > 0.2, "motion")
        cell.client.wait(lambda: scanner.diagnosed("no valid message on /scan for"), "silence")
        cell.client.wait(lambda: base.stands, "the base to stand")
        assert base.pose.x < 1.4
        assert not call.done
        assert cell.client.set_parameters(NODE, obstacles__sensor_silent="ignore").successful
        status, result = call.result()
        assert cell.client.set_parameters(NODE, obstacles__sensor_silent="hold").successful
        assert status == SUCCEEDED, result.error_msg

    def test_clouds_stop_it_too(self, cell, base, scanner):
        """The last test of the class: the navigator waits for clouds from now on."""
        scanner.wall = 9.0
        scanner.pole = 0.6
        call = cell.navigator.go((3.0, 0.0, 0.0))
        assert call.accepted()
        pole_at = "an obstacle at (0.60, "
        scanner.until(lambda: scanner.diagnosed(pole_at), "the pole")
        assert base.pose.x == pytest.approx(0.6 - 0.1 - 0.058, abs=0.03)
        assert call.cancel()
        call.result()


def zero_quaternion() -> PoseStamped:
    message = stamped((1.0, 0.0, 0.0))
    message.pose.orientation.w = 0.0
    return message


def two_frames() -> Path:
    message = path([(0, 0, 0), (1, 0, 0)])
    message.poses[1].header.frame_id = "map"
    return message


class TestRefusals:
    @pytest.mark.parametrize(
        ("message", "code", "text"),
        [
            (stamped((math.nan, 0.0, 0.0)), Codes.INVALID_PATH, "must be finite"),
            (stamped((1.0, 0.0, math.nan)), Codes.INVALID_PATH, "must be finite"),
            (zero_quaternion(), Codes.INVALID_PATH, "not a unit quaternion"),
            (stamped((1.0, 0.0, 0.0), ""), Codes.INVALID_PATH, "header.frame_id"),
            (stamped((1.0, 0.0, 0.0), "base_lnk"), Codes.TF_ERROR, "frame 'base_lnk' is not known"),
            (stamped((1.0, 0.0, 0.0), "base_link", 10.0), Codes.INVALID_PATH, "s old by its stamp"),
        ],
    )
    def test_poses(self, cell, base, navigator, message, code, text):
        status, result = navigator.go_to(message).result()
        assert (status, result.error_code) == (ABORTED, code)
        assert text in result.error_msg
        cell.client.spin(0.1)
        assert not base.told

    @pytest.mark.parametrize(
        ("message", "code", "text"),
        [
            (Path(), Codes.INVALID_PATH, "the path has no poses"),
            (path([(5, 0, 0)]), Codes.INVALID_PATH, "5.00 m from the start"),
            (path([(0, 0, 0), (math.inf, 0, 0)]), Codes.INVALID_PATH, "pose 1 of the path"),
            (path([(5, 0, 0), (6, 0, 0)]), Codes.INVALID_PATH, "5.00 m from the start"),
            (two_frames(), Codes.INVALID_PATH, "pose 1 of the path is in frame 'map'"),
            (path([(0, 0, 0), (1, 0, 0)], "nowhere"), Codes.TF_ERROR, "'nowhere' is not known"),
        ],
    )
    def test_paths(self, cell, base, navigator, message, code, text):
        status, result = navigator.follow(message).result()
        assert (status, result.error_code) == (ABORTED, code)
        assert text in result.error_msg
        cell.client.spin(0.1)
        assert not base.told

    @pytest.mark.long
    def test_a_bad_goal_leaves_the_one_under_way(self, cell, base):
        call = under_way(cell)
        assert cell.navigator.go((math.nan, 0.0, 0.0)).result()[0] == ABORTED
        cell.goal_pose.publish(stamped((math.nan, 0.0, 0.0)))
        cell.goal_pose.publish(stamped((0.0, 0.0, 0.0), stamp=now(cell) - 60.0))
        cell.navigator.wait_for_warning("goal_pose refused: goal_pose is 60")
        assert not call.done
        assert base.told[-1][1].vx > 0.4
        assert call.cancel()
        call.result()

    def test_parameters_that_this_base_cannot_have(self, cell, base):
        change = cell.client.set_parameters
        for bad in (
            {"approach": "teleport"},
            {"tracking_law": "pid"},
            {"xy_goal_tolerance": 0.0},
            {"linear__x__max_velocity": -1.0},
            {"max_steering_angle": math.nan},
        ):
            assert not change(NODE, **bad).successful
        assert cell.client.get_parameter(NODE, "approach") == "straight"

    def test_a_new_limit_counts_at_once(self, cell, base):
        call = under_way(cell)
        assert cell.client.set_parameters(NODE, linear__x__max_velocity=0.2).successful
        try:
            cell.client.wait(lambda: base.told[-1][1].vx == pytest.approx(0.2), "the new limit")
        finally:
            assert cell.client.set_parameters(NODE, linear__x__max_velocity=0.5).successful
        assert call.cancel()
        call.result()


def test_it_stops_the_base_when_it_is_stopped(cell, base):
    """The last test: it ends the process."""
    under_way(cell)
    assert cell.process.stop() == 0
    cell.client.wait(lambda: base.told[-1][1] == Twist2(), "a last word")
