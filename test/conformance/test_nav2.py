# SPDX-License-Identifier: Apache-2.0
"""Behaviors of Nav2's action servers, velocity smoother and simple commander, over DDS."""

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from geometry_msgs.msg import Point, PoseStamped, Twist, TwistStamped
from joint_client import duration
from nav2_msgs.action import (
    AssistedTeleop,
    BackUp,
    ComputePathThroughPoses,
    ComputePathToPose,
    DriveOnHeading,
    SmoothPath,
    Spin,
)
from nav2_msgs.msg import SpeedLimit
from nav2_msgs.srv import IsPathValid
from nav_msgs.msg import OccupancyGrid, Path
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
from std_msgs.msg import Empty

from conformance.base_rig import FREE, Rig
from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.core.robot.loader import load_robot

NEAR = 0.06
"""[m] Of the goal: its tolerance of 0.025, and the way of a stop that comes late in wall time."""
FASTEST = load_robot("jetbot").base.linear.x.max_velocity
"""[m/s]"""
Paths, Several = ComputePathToPose.Result, ComputePathThroughPoses.Result


@pytest.fixture(scope="module")
def cell(module_suite, module_client):
    """A JetBot's navigator and base, and the controller of another one."""
    base = ScriptedBase()
    module_suite.node("base_navigator", robot="jetbot", odom_timeout=2.0)
    module_suite.node(
        "differential_base", namespace="smooth", robot="jetbot", update_rate=100.0, open_loop=True
    )
    navigator = NavigationClient(module_client)
    navigator.wait_for()
    yield SimpleNamespace(base=base, navigator=navigator, client=module_client)
    navigator.close()
    base.close()


@pytest.fixture
def base(cell):
    """The base at the origin of its odometry, standing."""
    cell.client.wait(lambda: cell.base.stands, "the base to stand")
    cell.base.stuck = False
    cell.base.put(cell.client, 0.0, 0.0, 0.0)
    cell.navigator.wait_for()
    return cell.base


@pytest.fixture
def navigator(cell, base):
    return cell.navigator


def code(result: Any) -> int:
    return int(result.error_code)


def test_to_a_pose(navigator, base):
    call = navigator.go((0.2, 0.1, 0.5))
    status, result = call.result(within=40.0)
    assert (status, code(result), result.error_msg) == (SUCCEEDED, 0, "")
    assert base.pose.distance(Pose2(0.2, 0.1)) < NEAR
    assert abs(base.pose.yaw - 0.5) < 0.1
    feedback = [m.feedback for m in call.feedback]
    assert feedback[0].distance_remaining > feedback[-1].distance_remaining
    assert feedback[-1].current_pose.header.frame_id == "odom"
    assert pose_of(feedback[-1].current_pose).distance(Pose2(0.2, 0.1)) < 2.0 * NEAR
    times = [m.navigation_time.sec + 1e-9 * m.navigation_time.nanosec for m in feedback]
    assert times == sorted(times)
    assert times[-1] > times[0]
    left = [m.estimated_time_remaining for m in feedback]
    assert max(t.sec + 1e-9 * t.nanosec for t in left) > 0.0
    assert {m.number_of_recoveries for m in feedback} == {0}
    for _ in range(5):
        assert navigator.go((0.2, 0.1, 0.5)).result(within=40.0)[0] == SUCCEEDED


def test_preemption_and_cancel(navigator, base):
    far = navigator.go((5.0, 0.0, 0.0))
    assert far.accepted()
    navigator.client.wait(lambda: far.feedback, "feedback")
    near = navigator.go((0.1, 0.0, 0.0))
    assert far.result()[0] == ABORTED
    assert near.result(within=40.0)[0] == SUCCEEDED
    again = navigator.go((5.0, 0.0, 0.0))
    assert again.accepted()
    navigator.client.wait(lambda: again.feedback, "feedback")
    assert again.cancel()
    assert again.result()[0] == CANCELED
    navigator.client.wait(lambda: base.stands, "rest")


def test_speed_limits(navigator, base):
    client = navigator.client
    limits = client.publisher(SpeedLimit, "/speed_limit")
    twists = client.listen(TwistStamped, "/diff_drive_controller/cmd_vel")

    def fastest(limit: float, *, percentage: bool) -> float:
        """Return the max speed of a drive under a limit."""
        base.put(client, 0.0, 0.0, 0.0)
        twists.clear()
        limits.publish(SpeedLimit(speed_limit=limit, percentage=percentage))
        for wrong in (-1.0, math.nan, math.inf):
            limits.publish(SpeedLimit(speed_limit=wrong, percentage=percentage))
        client.spin(0.2)
        assert navigator.go((0.15, 0.0, 0.0)).result(within=60.0)[0] == SUCCEEDED
        return max(abs(m.twist.linear.x) for m in twists.messages)

    try:
        assert fastest(0.05, percentage=False) == pytest.approx(0.05, rel=1e-6)
        assert fastest(25.0, percentage=True) == pytest.approx(0.25 * FASTEST, rel=1e-6)
        assert fastest(0.0, percentage=True) > 0.3 * FASTEST
    finally:
        limits.publish(SpeedLimit())


def test_through_poses_and_refusals(navigator):
    status, result = navigator.go((1.0, 0.0, 0.0), frame="moon").result()
    assert (status, bool(code(result)), bool(result.error_msg)) == (ABORTED, True, True)
    status, result = navigator.go((1.0, 0.0, 0.0), behavior_tree="my.xml").result()
    assert (status, bool(code(result)), bool(result.error_msg)) == (ABORTED, True, True)
    call = navigator.go_through((0.1, 0.0, 0.0), (0.2, 0.03, 0.3))
    assert call.result(within=40.0)[0] == SUCCEEDED
    left = [m.feedback.number_of_poses_remaining for m in call.feedback]
    assert left == sorted(left, reverse=True)
    assert {1, 2} >= set(left)
    status, result = navigator.go_through().result()
    assert (status, bool(result.error_msg)) == (ABORTED, True)


def test_waypoints(navigator, base):
    call = navigator.visit((0.0, 0.0, 0.15), (0.0, 0.0, 0.0), number_of_loops=1, goal_index=1)
    status, result = call.result(within=40.0)
    assert (status, list(result.missed_waypoints)) == (SUCCEEDED, [])
    told = [m.feedback.current_waypoint for m in call.feedback]
    assert told == sorted(told[: told.index(0)], reverse=True) + told[told.index(0) :]
    old = navigator.visit((5.0, 0.0, 0.0))
    assert old.accepted()
    new = navigator.visit((4.0, 0.0, 0.0))
    assert old.result()[0] == ABORTED
    assert new.accepted()
    navigator.client.wait(lambda: new.feedback, "feedback")
    assert new.cancel()
    assert new.result()[0] == CANCELED


def test_missed_waypoints(navigator, base):
    bad = stamped((1.0, 0.0, 0.0), "moon")
    status, result = navigator.visit((0.1, 0.0, 0.0), bad).result(within=40.0)
    (missed,) = result.missed_waypoints
    assert (status, missed.index, missed.goal) == (ABORTED, 1, bad)
    assert missed.error_code != 0
    assert navigator.client.set_parameters(navigator.node, stop_on_failure=False).successful
    status, result = navigator.visit(bad, (0.1, 0.0, 0.0)).result(within=40.0)
    assert (status, [m.index for m in result.missed_waypoints]) == (SUCCEEDED, [0])
    assert base.pose.distance(Pose2(0.1)) < NEAR
    assert navigator.client.set_parameters(navigator.node, stop_on_failure=True).successful
    status, result = navigator.visit().result()
    assert (status, bool(result.error_msg)) == (ABORTED, True)
    assert navigator.client.set_parameters(navigator.node, peer_defaults=True).successful
    assert not navigator.visit().accepted()
    assert navigator.visit((0.1, 0.0, 0.0)).result()[0] == SUCCEEDED
    assert navigator.client.set_parameters(navigator.node, peer_defaults=False).successful


def test_follow_path(navigator, base):
    call = navigator.follow(path([(0.0, 0.0, 0.0), (0.15, 0.0, 0.0), (0.3, 0.02, 0.0)]))
    assert call.result(within=40.0)[0] == SUCCEEDED
    assert base.pose.distance(Pose2(0.3, 0.02)) < NEAR
    distances = [m.feedback.distance_to_goal for m in call.feedback]
    assert distances[0] > 0.1
    assert distances == sorted(distances, reverse=True)
    assert max(m.feedback.speed for m in call.feedback) > 0.02
    x, y, yaw = base.pose
    for spot in ([(x, y, yaw)], [(x, y, yaw), (x, y, yaw + 0.4)]):
        status, result = navigator.follow(path(spot)).result(within=20.0)
        assert (status, code(result)) == (SUCCEEDED, 0)
        assert base.pose.yaw == pytest.approx(spot[-1][2], abs=0.1)
    line = [(0.3, 0.0, 0.0), (0.6, 0.0, 0.0)]
    for message, more, expected in (
        (path([]), {}, Codes.INVALID_PATH),
        (path(line, "moon"), {}, Codes.TF_ERROR),
        (path(line), {"controller_id": "invalid_controller"}, Codes.INVALID_CONTROLLER),
    ):
        status, result = navigator.follow(message, **more).result()
        assert (status, code(result), bool(result.error_msg)) == (ABORTED, expected, True)
    base.stuck = True
    assert navigator.client.set_parameters(navigator.node, movement_time_allowance=0.5).successful
    status, result = navigator.follow(path(line)).result(within=20.0)
    assert (status, code(result)) == (ABORTED, Codes.FAILED_TO_MAKE_PROGRESS)
    assert result.error_msg
    assert navigator.client.set_parameters(navigator.node, movement_time_allowance=10.0).successful


def straight(kind: Any, x: float, speed: float, within: float = 10.0, y: float = 0.0) -> Any:
    return kind.Goal(target=Point(x=x, y=y), speed=speed, time_allowance=duration(within))


def test_spin(navigator, base):
    def spin(yaw: float, within: float = 10.0) -> Any:
        goal = Spin.Goal(target_yaw=yaw, time_allowance=duration(within))
        return navigator.send(Spin, "spin", goal)

    for yaw in (0.6, -0.6):
        before = base.pose.yaw
        call = spin(yaw)
        status, result = call.result(within=30.0)
        assert (status, code(result)) == (SUCCEEDED, 0)
        assert base.pose.yaw - before == pytest.approx(yaw, abs=0.1)
        assert call.feedback[-1].feedback.angular_distance_traveled > 0.2
    first = spin(3.0)
    assert first.accepted()
    second = spin(-0.3)
    assert first.result()[0] == ABORTED
    assert second.result(within=30.0)[0] == SUCCEEDED
    third = spin(3.0)
    assert third.accepted()
    assert third.cancel()
    assert third.result()[0] == CANCELED
    status, result = spin(3.0, 0.1).result(within=30.0)
    assert (status, code(result)) == (ABORTED, Spin.Result.TIMEOUT)


@pytest.mark.parametrize(("kind", "name", "sign"), [
    (BackUp, "backup", -1.0), (DriveOnHeading, "drive_on_heading", 1.0),
])  # fmt: skip
def test_straight_behaviors(navigator, base, kind, name, sign):
    def send(x: float, speed: float = 0.3, **more: Any) -> Any:
        return navigator.send(kind, name, straight(kind, x, speed, **more))

    base.told.clear()
    call = send(0.15, 0.1)
    status, result = call.result(within=30.0)
    assert (status, code(result)) == (SUCCEEDED, 0)
    assert base.pose.x == pytest.approx(sign * 0.15, abs=NEAR)
    speeds = [sign * twist.vx for _, twist in base.told]
    assert max(speeds) == pytest.approx(0.1, rel=0.02)
    assert min(speeds) > -0.02
    assert call.feedback[-1].feedback.distance_traveled > 0.05
    slow = send(2.0, 0.1)
    assert slow.accepted()
    fast = send(0.1)
    assert slow.result()[0] == ABORTED
    assert fast.result(within=30.0)[0] == SUCCEEDED
    third = send(2.0)
    assert third.accepted()
    assert third.cancel()
    assert third.result()[0] == CANCELED
    status, result = send(2.0, 0.05, within=0.2).result()
    assert (status, code(result)) == (ABORTED, kind.Result.TIMEOUT)
    status, result = send(0.5, y=0.5).result()
    assert (status, code(result)) == (ABORTED, kind.Result.INVALID_INPUT)
    if kind is DriveOnHeading:
        status, result = send(-0.5, 0.2).result()
        assert (status, code(result)) == (ABORTED, kind.Result.INVALID_INPUT)


def test_assisted_teleop(navigator, base):
    client = navigator.client
    twists = client.publisher(Twist, "/cmd_vel_teleop")
    ended = client.publisher(Empty, "/preempt_teleop")
    client.wait(lambda: ended.get_subscription_count(), "the topic")

    def steer(within: float = 0.0) -> Any:
        goal = AssistedTeleop.Goal(time_allowance=duration(within))
        return navigator.send(AssistedTeleop, "assisted_teleop", goal)

    def send(vx: float = 0.2, wz: float = 0.3) -> None:
        message = Twist()
        message.linear.x, message.angular.z = vx, wz
        twists.publish(message)

    base.told.clear()
    client.repeat_for(send, 0.3)
    assert all(twist == Twist2() for _, twist in base.told)
    call = steer()
    assert call.accepted()
    client.repeat(send, lambda: base.pose.x > 0.2, "the base to drive")
    assert max(twist.vx for _, twist in base.told) == pytest.approx(0.2)
    assert max(twist.wz for _, twist in base.told) == pytest.approx(0.3)
    client.wait(lambda: base.stands, "rest without twists")
    times = [m.feedback.current_teleop_duration for m in call.feedback]
    assert times[-1].sec + 1e-9 * times[-1].nanosec > 0.5
    ended.publish(Empty())
    status, result = call.result()
    assert (status, code(result)) == (SUCCEEDED, 0)
    assert result.total_elapsed_time.sec + result.total_elapsed_time.nanosec > 0
    status, result = steer(0.2).result()
    assert (status, code(result)) == (ABORTED, AssistedTeleop.Result.TIMEOUT)
    assert result.error_msg
    first = steer()
    assert first.accepted()
    second = steer()
    assert first.result()[0] == ABORTED
    assert second.accepted()
    client.repeat(send, lambda: base.told[-1][1].vx > 0.1, "the base to drive")
    assert second.cancel()
    assert second.result()[0] == CANCELED
    client.wait(lambda: base.stands, "rest after the cancelation")


def plan(navigator: Any, *goals: PoseStamped, start: PoseStamped | None = None, **more: Any) -> Any:
    """Request a path to one goal, or through several with ``many``."""
    many = more.pop("many", False)
    kind = ComputePathThroughPoses if many else ComputePathToPose
    name = "compute_path_through_poses" if many else "compute_path_to_pose"
    where: dict[str, Any] = {"goals": list(goals)} if many else {"goal": goals[0]}
    if start is not None:
        where |= {"start": start, "use_start": True}
    return navigator.send(kind, name, kind.Goal(**where, **more)).result(within=30.0)


def length(message: Path) -> float:
    """Return the length of a path [m]; 0 without poses."""
    points = [(p.pose.position.x, p.pose.position.y) for p in message.poses]
    return sum(math.dist(a, b) for a, b in itertools.pairwise(points))


def wall(frame: str = "odom") -> OccupancyGrid:
    """A map of 4 m by 4 m around the origin, with a wall at x = 1 m and a gap at its end."""
    cells = np.zeros((80, 80), np.int8)
    cells[:60, 60] = 100
    message = OccupancyGrid(data=cells.ravel().tolist())
    message.header.frame_id = frame
    message.info.width = message.info.height = 80
    message.info.resolution = 0.05
    message.info.origin.position.x = message.info.origin.position.y = -2.0
    message.info.origin.orientation.w = 1.0
    return message


def test_paths_on_an_empty_map(navigator, base):
    plans = navigator.client.listen(Path, "/unsmoothed_plan")
    status, result = plan(navigator, stamped((3.0, 4.0, 1.0)), start=stamped((0.0, 0.0, 0.0)))
    assert (status, code(result), result.path.header.frame_id) == (SUCCEEDED, 0, "odom")
    points = np.array([(p.pose.position.x, p.pose.position.y) for p in result.path.poses])
    assert np.hypot(*np.diff(points, axis=0).T).sum() == pytest.approx(5.0)
    assert pose_of(result.path.poses[-1]).yaw == pytest.approx(1.0)
    assert result.planning_time.sec == 0
    assert result.planning_time.nanosec > 0
    navigator.client.wait(lambda: plans.newest == result.path, "the published path")
    base.put(navigator.client, 0.5, 0.0, 0.0)
    _, result = plan(navigator, stamped((2.0, 0.0, 0.0)), planner_id="GridBased")
    assert result.path.poses[0].pose.position.x == pytest.approx(0.5)
    for goal, more, expected in (
        (stamped((1.0, 0.0, 0.0)), {"planner_id": "invalid_planner"}, "INVALID_PLANNER"),
        (stamped((1.0, 0.0, 0.0), "moon"), {}, "TF_ERROR"),
    ):
        status, result = plan(navigator, goal, **more)
        assert (status, code(result)) == (ABORTED, getattr(Paths, expected))
        assert result.error_msg
    via = stamped((1.0, 1.0, 0.0)), stamped((2.0, 0.0, 0.0))
    _, result = plan(navigator, *via, many=True)
    points = np.array([(p.pose.position.x, p.pose.position.y) for p in result.path.poses])
    assert np.hypot(*(points - (1.0, 1.0)).T).min() < 1e-6
    status, result = plan(navigator, many=True)
    assert (status, code(result)) == (ABORTED, Several.NO_VIAPOINTS_GIVEN)


def test_paths_on_a_map(navigator, base):
    maps = navigator.client.publisher(OccupancyGrid, "/map", LATCHED)
    maps.publish(wall())
    behind = stamped((1.5, 0.0, 0.0))

    def long() -> bool:
        _, result = plan(navigator, behind)
        rows = [(p.pose.position.x, p.pose.position.y) for p in result.path.poses]
        return bool(rows) and max(y for _, y in rows) > 1.0

    navigator.client.wait(long, "the path around the wall")
    straight = path([(0.1 * k, 0.0, 0.0) for k in range(-5, 16)])
    around = plan(navigator, behind)[1].path
    for message, invalid in ((straight, True), (around, False), (Path(), True)):
        answer = navigator.client.call(
            IsPathValid, "/is_path_valid", IsPathValid.Request(path=message)
        )
        assert answer.is_valid != invalid
        places = [message.poses[i].pose.position.x for i in answer.invalid_pose_indices]
        assert not places or all(0.8 < x < 1.3 for x in places)
        assert bool(places) == (message is straight)
    unknown = IsPathValid.Request(path=path([(0, 0, 0), (0.1, 0, 0)], "nowhere"))
    assert not navigator.client.call(IsPathValid, "/is_path_valid", unknown).is_valid
    for start, goal, expected in (
        ((0, 0, 0), (100, 100, 0), "GOAL_OUTSIDE_MAP"),
        ((-9, 0, 0), (1.5, 0, 0), "START_OUTSIDE_MAP"),
        ((0, 0, 0), (1.02, 0, 0), "GOAL_OCCUPIED"),
        ((1.02, 0, 0), (1.5, 0, 0), "START_OCCUPIED"),
    ):
        status, result = plan(navigator, stamped(goal), start=stamped(start))
        assert (status, code(result)) == (ABORTED, getattr(Paths, expected))
        assert result.error_msg
    assert navigator.client.set_parameters(navigator.node, planner__tolerance=0.5).successful
    status, result = plan(navigator, stamped((1.02, 0.0, 0.0)), start=stamped((0.0, 0.0, 0.0)))
    assert (status, code(result)) == (SUCCEEDED, 0)
    assert navigator.client.set_parameters(navigator.node, planner__tolerance=0.0).successful
    closed = wall()
    cells = np.array(closed.data, np.int8).reshape(80, 80)
    cells[:, 60] = 100
    closed.data = cells.ravel().tolist()
    maps.publish(closed)

    def refused() -> bool:
        return code(plan(navigator, behind)[1]) == Paths.NO_VALID_PATH

    navigator.client.wait(refused, "NO_VALID_PATH")


def test_smoothing(navigator):
    def smooth(message: Path, **more: Any) -> tuple[int, Any]:
        goal = SmoothPath.Goal(path=message, **more)
        return navigator.send(SmoothPath, "smooth_path", goal).result()

    corner = path([(0.0, 0.0, 0.0), (0.8, 0.0, 0.0), (0.8, 0.8, 1.0)])
    status, result = smooth(corner)
    assert (status, code(result), result.was_completed) == (SUCCEEDED, 0, True)
    ends = [pose_of(result.path.poses[k]) for k in (0, -1)]
    assert ends[0].distance(Pose2()) < 1e-6
    assert ends[1].distance(Pose2(0.8, 0.8)) < 1e-6
    codes = SmoothPath.Result
    through = path([(0.0, 0.0, 0.0), (0.5, 0.0, 0.0), (1.6, 0.0, 0.0)])
    maps = navigator.client.publisher(OccupancyGrid, "/map", LATCHED)
    maps.publish(wall())
    behind = stamped((1.5, 0.0, 0.0))
    around = 2.0  # [m]
    navigator.client.wait(lambda: length(plan(navigator, behind)[1].path) > around, "the map")
    for message, more, expected in (
        (corner, {"smoother_id": "invalid_smoother"}, codes.INVALID_SMOOTHER),
        (path([]), {}, codes.INVALID_PATH),
        (through, {"check_for_collisions": True}, codes.SMOOTHED_PATH_IN_COLLISION),
    ):
        status, result = smooth(message, **more)
        assert (status, code(result), bool(result.error_msg)) == (ABORTED, expected, True)


def test_velocity_smoothing(cell):
    rig = Rig(cell.client, "/smooth/diff_drive_controller", ("l", "r"))
    rig.set(**{k.replace(".", "__"): v for k, v in FREE.items()})
    rig.set(linear__x__max_velocity=0.5, linear__x__max_acceleration=1.0,
            linear__x__max_deceleration=2.0, cmd_vel_timeout=0.3)  # fmt: skip
    bad = cell.client.set_parameters(rig.node, linear__x__max_acceleration=math.inf)
    assert not bad.successful
    out = cell.client.listen(TwistStamped, f"{rig.node}/cmd_vel_out")

    def at(vx: float, wz: float) -> bool:
        m = out.newest
        return m is not None and np.allclose((m.twist.linear.x, m.twist.angular.z), (vx, wz))

    cell.client.repeat(lambda: rig.send(1.0, 0.4), lambda: at(0.5, 0.2), "0.5 m/s", rate=50.0)
    cell.client.wait(lambda: at(0.0, 0.0), "rest")
    speeds = np.array([m.twist.linear.x for m in out.messages])
    steps = np.diff(speeds)
    assert steps.max() == pytest.approx(0.01, rel=0.05)
    assert steps.min() == pytest.approx(-0.02, rel=0.05)
    turning = [(m.twist.linear.x, m.twist.angular.z) for m in out.messages if m.twist.linear.x]
    assert np.allclose([wz / vx for vx, wz in turning], 0.4)
    rig.set(deadband_velocity=[0.2, 0.0, 0.0])
    out.clear()
    cell.client.repeat(lambda: rig.send(1.0), lambda: at(0.5, 0.0), "0.5 m/s", rate=50.0)
    cell.client.wait(lambda: at(0.0, 0.0), "rest")
    speeds = np.array([m.twist.linear.x for m in out.messages])
    assert (speeds[speeds > 0.0] >= 0.2 - 1e-9).all()
    assert speeds[np.flatnonzero(speeds)[0]] == pytest.approx(0.2, abs=0.02)
    rig.set(deadband_velocity=[0.0, 0.0, 0.0])
