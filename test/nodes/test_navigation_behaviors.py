# SPDX-License-Identifier: Apache-2.0
"""The base navigator's spin, backup and drive_on_heading, and poses that it passes."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
from geometry_msgs.msg import Point
from joint_client import duration
from nav2_msgs.action import BackUp, DriveOnHeading, NavigateToPose, Spin
from navigation_client import ABORTED, CANCELED, SUCCEEDED, NavigationClient, stamped
from scripted_scanner import Scanner

from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.nodes.navigation.navigation_requests import (
    NavigationRejected,
    plan_behavior,
    plan_through,
)
from motion_nodes.nodes.navigation.navigator_params import (
    NavigatorParams,
    config_of,
    kind_of,
    navigator_defaults,
)

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
NODE = "/base_navigator"


@pytest.fixture
def base(navigator, moved):
    """The base at the origin of its odometry, standing."""
    navigator.client.wait(lambda: moved.stands, "the base to stand")
    moved.silent, moved.ahead = False, 0.0
    moved.put(navigator.client, 0.0, 0.0, 0.0)
    navigator.wait_for()
    moved.told.clear()
    return moved


def spin(navigator: NavigationClient, angle: float, allowance: float = 0.0) -> Any:
    goal = Spin.Goal(target_yaw=angle, time_allowance=duration(allowance))
    return navigator.send(Spin, "spin", goal)


def back_up(navigator: NavigationClient, x: float, speed: float, **more: float) -> Any:
    goal = BackUp.Goal(target=Point(x=x), speed=speed, time_allowance=duration(0.0))
    goal.target.y = more.get("y", 0.0)
    return navigator.send(BackUp, "backup", goal)


def ahead(navigator: NavigationClient, x: float, speed: float, allowance: float = 0.0) -> Any:
    goal = DriveOnHeading.Goal(target=Point(x=x), speed=speed, time_allowance=duration(allowance))
    return navigator.send(DriveOnHeading, "drive_on_heading", goal)


def test_cancel_preemption_and_lost_odometry(base, navigator):
    call = spin(navigator, 60.0)
    assert call.accepted()
    navigator.client.wait(lambda: base.told and base.told[-1][1].wz > 0.5, "rotation")
    assert call.cancel()
    status, result = call.result()
    assert (status, result.error_code) == (CANCELED, Spin.Result.NONE)
    navigator.client.wait(lambda: base.stands, "rest after the cancelation")
    first = spin(navigator, 60.0)
    assert first.accepted()
    second = back_up(navigator, 3.0, 0.3)
    assert second.accepted()
    status, result = first.result()
    assert (status, result.error_code) == (ABORTED, Spin.Result.UNKNOWN)
    assert "preempted by BackUp goal" in result.error_msg
    # A behavior is preempted by a goal of navigation.
    third = navigator.send(
        NavigateToPose, "navigate_to_pose", NavigateToPose.Goal(pose=stamped((3.0, 0.0, 0.0)))
    )
    assert third.accepted()
    assert second.result()[1].error_code == BackUp.Result.UNKNOWN
    assert third.cancel()
    assert third.result()[0] == CANCELED
    last = ahead(navigator, 3.0, 0.2)
    assert last.accepted()
    navigator.client.wait(lambda: base.told[-1][1].vx > 0.1, "motion")
    base.silent = True
    status, result = last.result()
    assert (status, result.error_code) == (ABORTED, DriveOnHeading.Result.TF_ERROR)


def test_an_obstacle_ends_a_behavior(base, navigator):
    """The last test: the navigator waits for scans from now on."""
    scanner = Scanner(navigator.client, base, NODE)
    scanner.until(lambda: scanner.diagnosed("no goal"), "a report")
    navigator.client.repeat_for(scanner.show, 1.0)  # It may have reported before the first scan.
    call = ahead(navigator, 3.0, 0.3)
    assert call.accepted()
    scanner.until(lambda: call.done, "the end")
    status, result = call.result()
    assert (status, result.error_code) == (ABORTED, DriveOnHeading.Result.COLLISION_AHEAD)
    assert "an obstacle at (1.0" in result.error_msg
    assert base.pose.x == pytest.approx(1.0 - 0.1 - 0.058, abs=0.04)
    call = back_up(navigator, 0.2, 0.2)
    assert call.accepted()
    scanner.until(lambda: call.done, "the end")
    assert call.result()[0] == SUCCEEDED


# ---- without ROS


def host_of(**changes: Any) -> Any:
    """Return a navigator at the origin with changed parameters."""
    robot = load_robot("jetbot")
    params = NavigatorParams(robot="jetbot", **(navigator_defaults(robot) | changes))
    config = config_of(params, kind_of(robot))
    return SimpleNamespace(
        config=lambda: config, frame_pose=lambda _: Pose2(), base_pose=Pose2, odom_frame="odom",
        around=lambda frame, direct: None,
    )  # fmt: skip


def planned(*goals: tuple[str, float, float, float], **changes: Any) -> int:
    """Return the number of poses of the first motion through poses."""
    plan = plan_through(host_of(**changes), [(frame, Pose2(*pose)) for frame, *pose in goals])
    return 1 + len(plan.after)


def test_collision_checks_cannot_be_disabled():
    """A field of later versions of Nav2."""
    request = SimpleNamespace(
        target=Point(x=1.0), speed=0.2, time_allowance=duration(0.0), disable_collision_checks=True
    )
    with pytest.raises(NavigationRejected, match=r"obstacles\.mode"):
        plan_behavior(host_of(), request)
    request.disable_collision_checks = False
    plan = plan_behavior(host_of(), request)
    assert (plan.path.length, plan.allowance, plan.blocked) == (1.0, math.inf, "end")


def test_where_the_base_has_to_stop():
    a, b, c = ("odom", 1.0, 0.0, 0.0), ("odom", 2.0, 0.0, 0.0), ("odom", 3.0, 1.0, 0.0)
    turn = ("odom", 2.0, 0.0, 1.0)
    assert planned(a) == 1
    assert planned(a, b, c) == 3
    assert planned(a, b, turn, c) == 2
    assert planned(turn, ("odom", 2.0, 0.0, 2.0)) == 1
    assert planned(("odom", 0.0, 0.0, 1.0), b, c) == 1
    assert planned(a, b, ("map", 3.0, 1.0, 0.0)) == 2
    assert planned(a, b, c, approach="turn_then_drive") == 1
    assert planned(a, b, c, approach="dubins") == 3
