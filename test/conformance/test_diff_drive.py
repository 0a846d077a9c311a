# SPDX-License-Identifier: Apache-2.0
"""Behaviors of diff_drive_controller that a client sees, over DDS."""

import math
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from control_msgs.srv import SetOdometry
from controller_manager_msgs.srv import ListControllers
from geometry_msgs.msg import TwistStamped
from tf2_msgs.msg import TFMessage

from conformance.base_rig import FREE, Rig, write_base

RADIUS, SEPARATION = 0.05, 0.4
LEFT, RIGHT = ("fl", "rl"), ("fr", "rr")
WHEELS = LEFT + RIGHT
NODE = "diff_drive_controller"


def expected(vx: float, wz: float) -> list[float]:
    """Return the speeds of left and right wheels, two each."""
    left = (vx - 0.5 * wz * SEPARATION) / RADIUS
    right = (vx + 0.5 * wz * SEPARATION) / RADIUS
    return [left, left, right, right]


@pytest.fixture(scope="module")
def cell(module_suite, module_client, tmp_path_factory):
    """Nodes of a base with two wheels per side: usual, in open loop, and with velocities."""
    ys = {"fl": 0.2, "rl": 0.2, "fr": -0.2, "rr": -0.2}
    robot = write_base(
        tmp_path_factory.mktemp("robots") / "four", "differential",
        {"left_wheel_names": list(LEFT), "right_wheel_names": list(RIGHT),
         "wheel_radius": RADIUS, "wheel_separation": SEPARATION},
        {n: (f"{0.1 if n[0] == 'f' else -0.1} {y} {RADIUS}", "0 1 0") for n, y in ys.items()},
    )  # fmt: skip
    usual: dict[str, Any] = {"robot": str(robot), "update_rate": 100.0}
    module_suite.node("differential_base", **usual)
    more = {
        "open": {"open_loop": True, "publish_rate": 25.0, "tf_frame_prefix": "~"},
        "vel": {"position_feedback": False, "tf_frame_prefix": "pre",
                "velocity_rolling_window_size": 4},
    }  # fmt: skip
    for space, changes in more.items():
        module_suite.node("differential_base", namespace=space, **(usual | changes))
    module_suite.node("controller_manager", robot=str(robot))
    spaces = {"usual": "", "open": "/open", "vel": "/vel"}
    rigs = {n: Rig(module_client, f"{space}/{NODE}", WHEELS) for n, space in spaces.items()}
    for rig in rigs.values():
        rig.until(lambda r=rig: r.told, "the first references")
        rig.set(**{k.replace(".", "__"): v for k, v in FREE.items()})
    return SimpleNamespace(robot=robot, client=module_client, suite=module_suite, **rigs)


@pytest.fixture
def rig(cell):
    """The usual node, at rest."""
    cell.usual.stop()
    return cell.usual


def test_no_nan_before_the_first_command(cell):
    for rig in (cell.usual, cell.open, cell.vel):
        assert np.isfinite(rig.speeds()).all()


def test_speeds_of_rolling(rig):
    for vx, wz in ((0.5, 0.0), (0.0, 1.0), (0.3, -0.7)):
        rig.until_speeds(expected(vx, wz), lambda v=vx, w=wz: rig.send(v, w))


def test_commands_expire(rig):
    rig.set(cmd_vel_timeout=0.3)
    rig.until_speeds(expected(0.5, 0.0), lambda: rig.send(0.5, age=0.0))
    rig.rest()
    rig.wheels.keep_on(0.3, lambda: rig.send(0.5, age=5.0))
    assert not any(rig.speeds())
    rig.set(cmd_vel_timeout=0.5)


def test_without_a_timeout(rig):
    rig.set(cmd_vel_timeout=0.0)
    rig.until_speeds(expected(0.5, 0.0), lambda: rig.send(0.5, age=30.0))
    rig.wheels.keep_on(1.0)
    assert rig.speeds() == pytest.approx(expected(0.5, 0.0))
    rig.stop()
    rig.set(cmd_vel_timeout=0.5)


def test_nan_is_ignored(rig):
    rig.set(cmd_vel_timeout=5.0)
    rig.until_speeds(expected(0.4, 0.2), lambda: rig.send(0.4, 0.2))
    rig.wheels.keep_on(0.2, lambda: rig.send(math.nan, 0.0))
    assert rig.speeds() == pytest.approx(expected(0.4, 0.2))
    rig.set(cmd_vel_timeout=0.5)


def ramp(rig: Rig, goal: float) -> float:
    """Drive to a velocity; return the median acceleration of the references [m/s^2].

    Commands expire while this process pauses; the mean includes the stop.
    """
    before = rig.speeds()[0] * RADIUS
    rig.wheels.commands.clear()
    rig.until_speeds(expected(goal, 0.0), lambda: rig.send(goal))
    heard = rig.wheels.commands.messages
    stamps = [m.header.stamp.sec + 1e-9 * m.header.stamp.nanosec for m in heard]
    speeds = [m.velocity[0] * RADIUS for m in heard]
    moving = [k for k in range(len(heard)) if min(before, goal) < speeds[k] < max(before, goal)]
    rows = np.array([(stamps[k], speeds[k]) for k in moving])
    steps = np.diff(rows, axis=0)
    return float(np.median(steps[:, 1] / steps[:, 0]))


def test_acceleration_limits(rig):
    rig.set(
        linear__x__max_acceleration=2.0, linear__x__max_deceleration=-4.0,
        linear__x__max_acceleration_reverse=-5.0, linear__x__max_deceleration_reverse=3.0,
    )  # fmt: skip
    for goal, rate in ((1.0, 2.0), (0.0, -4.0), (-1.0, -5.0), (0.0, 3.0)):
        assert ramp(rig, goal) == pytest.approx(rate, rel=0.02)
    rig.set(linear__x__max_acceleration=5.0)
    assert ramp(rig, 1.0) == pytest.approx(5.0, rel=0.02)
    rig.set(**{f"linear__x__{name}": math.nan for name in (
        "max_acceleration", "max_deceleration", "max_acceleration_reverse",
        "max_deceleration_reverse")})  # fmt: skip


def test_min_acceleration_of_earlier_files(cell):
    """It bounds negative accelerations: forward when braking, and in reverse when starting."""
    limits = {"linear.x.max_acceleration": 2.0, "linear.x.min_acceleration": -4.0,
              "linear.x.max_velocity": 1.5, "angular.z.min_acceleration": -3.0,
              "angular.z.max_deceleration": 7.0}  # fmt: skip
    cell.suite.node(
        "differential_base", namespace="humble", robot=str(cell.robot), update_rate=100.0, **limits
    )
    rig = Rig(cell.client, f"/humble/{NODE}", WHEELS)
    rig.until(lambda: rig.told, "the first references")
    for goal, rate in ((1.0, 2.0), (0.0, -4.0), (-1.0, -4.0), (0.0, 2.0)):
        assert ramp(rig, goal) == pytest.approx(rate, rel=0.02)
    assert cell.client.get_parameter(rig.node, "angular.z.max_deceleration") == 7.0


def test_velocity_limits(rig, cell):
    for limits, asked, got in (
        ({"max_velocity": 0.5}, 2.0, 0.5),
        ({"max_velocity": 0.5, "min_velocity": -0.2}, -2.0, -0.2),
        ({"max_velocity": 0.0}, 2.0, 0.0),
        ({"max_velocity": 0.5, "min_velocity": 0.0}, -2.0, 0.0),
        ({"max_velocity": math.nan}, 2.0, 2.0),
        ({"max_velocity": 0.5, "has_velocity_limits": False}, 2.0, 2.0),
    ):
        usual = {"max_velocity": math.nan, "min_velocity": math.nan, "has_velocity_limits": True}
        rig.set(**{f"linear__x__{k}": v for k, v in (usual | limits).items()})
        rig.until_speeds(expected(got, 1.0 if not got else 0.0),
                         lambda a=asked, w=0.0 if got else 1.0: rig.send(a, w))  # fmt: skip
    rig.set(**{f"linear__x__{k}": v for k, v in usual.items()})


def test_axes_are_limited_apart_if_told_so(rig):
    rig.set(linear__x__max_velocity=0.5)
    rig.until_speeds(expected(0.5, 0.5), lambda: rig.send(1.0, 1.0))
    rig.set(clip_axes=True)
    rig.until_speeds(expected(0.5, 1.0), lambda: rig.send(1.0, 1.0))
    rig.set(clip_axes=False, linear__x__max_velocity=math.nan)


def test_multipliers(rig):
    rig.set(
        wheel_separation_multiplier=2.0, left_wheel_radius_multiplier=0.5,
        right_wheel_radius_multiplier=1.25,
    )  # fmt: skip
    left, right = (0.4 - 0.4 * 0.5) / (0.5 * RADIUS), (0.4 + 0.4 * 0.5) / (1.25 * RADIUS)
    rig.until_speeds([left, left, right, right], lambda: rig.send(0.4, 0.5))
    rig.set(
        wheel_separation_multiplier=1.0, left_wheel_radius_multiplier=1.0,
        right_wheel_radius_multiplier=1.0,
    )  # fmt: skip


def test_odometry(rig):
    def put(x: float, y: float, yaw: float) -> None:
        request = SetOdometry.Request(x=x, y=y, yaw=yaw)
        assert rig.client.call(SetOdometry, f"{rig.node}/set_odometry", request).success

    put(5.0, -2.0, 0.5 * math.pi)
    rig.place((5.0, -2.0, 0.5 * math.pi))
    rig.until(lambda: rig.pose[1] > -1.95, "motion along y", lambda: rig.send(0.5))
    rig.stop()
    assert rig.pose[0] == pytest.approx(5.0, abs=1e-6)
    for path in ((0.3, 0.0), (0.0, 0.6), (0.5, 0.8)):
        rig.wheels.keep_on(0.1)
        put(0.0, 0.0, 0.0)
        angles = np.array([rig.wheels.angles[w] for w in WHEELS])
        rig.place((0.0, 0.0, 0.0))
        turned = np.add(expected(*path), (0.1, -0.1, 0.1, -0.1))
        for joint, angle in zip(WHEELS, angles + turned, strict=True):
            rig.wheels.angles[joint] = float(angle)
        length, yaw = path
        end = (length, 0.0, 0.0)
        if yaw:
            end = (length / yaw * math.sin(yaw), length / yaw * (1.0 - math.cos(yaw)), yaw)
        rig.place(end, f"the end of {path}")


def test_open_loop(cell):
    rig = cell.open
    for limit, velocity in ((math.nan, 2.0), (0.5, 0.5)):
        rig.set(linear__x__max_velocity=limit)

        def told(v: float = velocity) -> bool:
            newest = rig.odometry.newest
            return newest is not None and abs(newest.twist.twist.linear.x - v) < 1e-6

        rig.client.repeat(lambda: rig.send(2.0), told, f"{velocity} m/s", rate=50.0)
    before = rig.pose[0]
    rig.client.repeat_for(lambda: rig.send(2.0), 0.5, rate=50.0)
    assert 0.05 < rig.pose[0] - before < 0.6
    stamps = [m.header.stamp.sec + 1e-9 * m.header.stamp.nanosec for m in rig.odometry.messages]
    assert np.median(np.diff(stamps)) == pytest.approx(0.04, abs=0.011)
    rig.set(linear__x__max_velocity=math.nan)


def test_velocity_feedback(cell):
    rig = cell.vel

    def send(v: float) -> None:
        # The positions would say something else.
        rig.measure([0.0] * 4, [v / RADIUS] * 4)
        time.sleep(0.01)

    rig.client.repeat(lambda: send(0.0), lambda: rig.odometry.newest, "odometry", rate=50.0)
    rig.client.repeat_for(lambda: send(0.0), 0.5, rate=50.0)
    rig.odometry.clear()

    def measured() -> float:
        return rig.odometry.newest.twist.twist.linear.x if rig.odometry.newest else 0.0

    # Few measurements of ten: a busy node takes several at once, between two messages.
    rig.client.repeat(lambda: send(1.0), lambda: measured() > 0.01, "a first one", rate=2.0)
    assert measured() < 0.99
    rig.client.repeat(lambda: send(1.0), lambda: abs(measured() - 1.0) < 1e-6, "1 m/s", rate=50.0)
    before, (begin, end) = rig.pose[0], (rig.odometry.newest, None)
    rig.client.repeat_for(lambda: send(1.0), 0.3, rate=50.0)
    end = rig.odometry.newest

    def seconds(m: Any) -> float:
        return m.header.stamp.sec + 1e-9 * m.header.stamp.nanosec

    assert rig.pose[0] - before == pytest.approx(seconds(end) - seconds(begin), rel=0.02)


def test_frame_prefixes(cell):
    frames = {"usual": ("odom", "base_link"), "vel": ("pre/odom", "pre/base_link"),
              "open": ("open/odom", "open/base_link")}  # fmt: skip
    for name, (parent, child) in frames.items():
        rig = getattr(cell, name)

        def named(parent: str = parent, child: str = child, rig: Rig = rig) -> bool:
            m = rig.odometry.newest
            return m is not None and (m.header.frame_id, m.child_frame_id) == (parent, child)

        rig.odometry.clear()
        rig.until(named, f"frames of {name}", lambda r=rig: r.measure([0.0] * 4, [0.0] * 4))
    for changes, parent in (({"tf_frame_prefix": "a"}, "a/odom"),
                            ({"tf_frame_prefix": "~/b"}, "b/odom"),
                            ({"tf_frame_prefix_enable": False}, "odom")):  # fmt: skip
        cell.usual.set(**changes)
        cell.usual.until(lambda p=parent: cell.usual.odometry.newest.header.frame_id == p, parent)
    cell.usual.set(tf_frame_prefix="", tf_frame_prefix_enable=True)


def test_outputs(rig):
    transforms = rig.client.listen(TFMessage, "/tf")
    limited = rig.client.listen(TwistStamped, f"{rig.node}/cmd_vel_out")
    diagonal = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    twist = [0.6, 0.5, 0.4, 0.3, 0.2, 0.1]
    rig.set(pose_covariance_diagonal=diagonal, twist_covariance_diagonal=twist,
            linear__x__max_velocity=0.5)  # fmt: skip

    def base_frame() -> bool:
        return any(t.child_frame_id == "base_link" for m in transforms.messages
                   for t in m.transforms)  # fmt: skip

    rig.until(base_frame, "the transform")
    rig.until(
        lambda: limited.newest and limited.newest.twist.linear.x == pytest.approx(0.5),
        "the limited twist", lambda: rig.send(2.0),
    )  # fmt: skip
    newest = rig.odometry.newest
    for covariance, given in ((newest.pose.covariance, diagonal), (newest.twist.covariance, twist)):
        assert np.diag(np.reshape(covariance, (6, 6))).tolist() == given
    rig.set(enable_odom_tf=False, publish_limited_velocity=False, linear__x__max_velocity=math.nan)
    rig.stop()
    transforms.clear()
    limited.clear()
    rig.wheels.keep_on(0.3, lambda: rig.send(0.1))
    assert not base_frame()
    assert not limited
    rig.set(enable_odom_tf=True, publish_limited_velocity=True)


def test_lifecycle(rig):
    client = rig.client
    rig.until_speeds(expected(0.5, 0.0), lambda: rig.send(0.5))
    assert client.change_state(rig.node, "deactivate")
    rig.until(lambda: not any(rig.speeds()), "rest")
    rig.wheels.keep_on(0.2, lambda: rig.send(0.5))
    assert not any(rig.speeds())
    assert client.change_state(rig.node, "cleanup")
    assert client.change_state(rig.node, "configure")
    assert client.change_state(rig.node, "activate")
    rig.rest()
    rig.set(**{k.replace(".", "__"): v for k, v in FREE.items()})
    rig.until_speeds(expected(0.5, 0.0), lambda: rig.send(0.5))


def test_wheels_per_side(cell):
    for left in ([""], ["fl"]):
        process = cell.suite.node(
            "differential_base", namespace="bad", robot=str(cell.robot), left_wheel_names=left
        )
        assert process.exit_code() == 1


def test_interfaces(cell):
    answer = cell.client.call(ListControllers, "/controller_manager/list_controllers")
    (found,) = [c for c in answer.controller if c.name == NODE]
    assert sorted(found.claimed_interfaces) == sorted(f"{w}/velocity" for w in WHEELS)
    assert (found.state, found.type) == ("active", f"{NODE}/DiffDriveController")


def test_references_of_others(cell):
    rig = Rig(cell.client, cell.usual.node, WHEELS, topic="reference")
    rig.until_speeds(expected(0.2, 0.1), lambda: rig.send(0.2, 0.1))
    rig.stop()


def test_absurd_commands(rig):
    rig.wheels.keep_on(0.2, lambda: rig.send(1e5))
    assert not any(rig.speeds())
