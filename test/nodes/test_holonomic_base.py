# SPDX-License-Identifier: Apache-2.0
"""The holonomic base node over DDS, with a robot on three omni wheels in the mock simulation."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from bases.holonomic_samples import kaya
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import Twist, TwistStamped
from model.holonomic_robot import TRIANGLE, triangle
from model.robot_samples import write_robot
from nav_msgs.msg import Odometry
from ros_client import BEST_EFFORT
from sensor_msgs.msg import JointState

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.bases.holonomic import HolonomicBase

NODE = "/tri/mecanum_drive_controller"
ROLLING = HolonomicBase(kaya(left_handed=False))


@pytest.fixture(scope="module")
def robot_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("triangle")
    write_robot(folder, TRIANGLE, triangle())
    return folder


@pytest.fixture(scope="module")
def base(module_suite, module_client, robot_folder, tmp_path_factory):
    """The robot with its node, ready to drive, without twist limits."""
    # Refusals are awaited in the diagnostics.
    file = tmp_path_factory.mktemp("params") / "reports.yaml"
    file.write_text("/**:\n  ros__parameters:\n    diagnostic_updater: {period: 0.1}\n")
    module_suite.bring_up(f"tri:={robot_folder}", backend="mock", rate=100.0, params_file=str(file))
    module_client.wait_for_diagnosis(NODE, "no command yet")
    free = {
        f"{axis}__max_{what}": math.nan
        for axis in ("linear__x", "linear__y", "angular__z")
        for what in ("velocity", "acceleration", "deceleration")
    }
    assert module_client.set_parameters(NODE, cmd_vel_timeout=0.2, **free).successful
    return SimpleNamespace(
        client=module_client,
        stamped=module_client.publisher(TwistStamped, "/tri/cmd_vel"),
        reference=module_client.publisher(TwistStamped, f"{NODE}/reference"),
        plain=module_client.publisher(Twist, f"{NODE}/cmd_vel_unstamped"),
        wheels=module_client.listen(JointState, "/tri/joint_command"),
        odom=module_client.listen(Odometry, f"{NODE}/odom"),
        truth=module_client.listen(Odometry, "/tri/ground_truth", BEST_EFFORT),
        out=module_client.listen(TwistStamped, f"{NODE}/cmd_vel_out"),
    )


def twist_message(vx: float, vy: float, wz: float) -> Twist:
    message = Twist()
    message.linear.x, message.linear.y, message.angular.z = vx, vy, wz
    return message


def stamped(vx: float, vy: float, wz: float) -> TwistStamped:
    return TwistStamped(twist=twist_message(vx, vy, wz))


def wheels_are(base: SimpleNamespace, speeds: Any, tolerance: float = 1e-6) -> Any:
    """Return a condition on the newest command."""

    def check() -> bool:
        message = base.wheels.newest
        return message is not None and np.allclose(message.velocity, speeds, rtol=0, atol=tolerance)

    return check


def drive_until(base: SimpleNamespace, twist: tuple[float, ...], speeds: Any) -> None:
    base.client.repeat(
        lambda: base.stamped.publish(stamped(*twist)),
        wheels_are(base, speeds),
        f"wheel speeds {np.round(speeds, 3).tolist()} for {twist}",
    )


def drive_until_told(
    base: SimpleNamespace, asked: tuple[float, ...], told: tuple[float, ...]
) -> None:
    """Drive until the node publishes ``cmd_vel_out`` with the given twist."""

    def heard() -> bool:
        message = base.out.newest
        if message is None:
            return False
        twist = message.twist
        seen = (twist.linear.x, twist.linear.y, twist.angular.z)
        return np.allclose(seen, told, rtol=0, atol=1e-9)

    base.client.repeat(
        lambda: base.stamped.publish(stamped(*asked)), heard, f"{told} on ~/cmd_vel_out"
    )


def stop(base: SimpleNamespace) -> None:
    # Pending zeros may be from a pause of this process, before the last twist.
    base.wheels.clear()
    base.client.wait(wheels_are(base, (0.0, 0.0, 0.0), 0.0), "the wheels to stand")


@pytest.mark.parametrize("which", ["stamped", "reference", "plain"])
def test_every_input_drives(base, which):
    def send() -> None:
        message = twist_message(0.1, -0.2, 0.3)
        one = getattr(base, which)
        one.publish(message if which == "plain" else TwistStamped(twist=message))

    speeds = ROLLING.wheels_from_twist(Twist2(0.1, -0.2, 0.3))
    base.client.repeat(send, wheels_are(base, speeds), f"wheels turned by {which}")
    stop(base)


def test_the_quadratic_programme_is_a_parameter(base):
    assert base.client.set_parameters(NODE, solver="qp").successful
    try:
        drive_until(base, (1.0, 1.0, 0.1), (25.111903, -14.321637, 14.545453))
        # Odometry reports the actual motion: the base turns the wrong way.
        base.client.repeat(
            lambda: base.stamped.publish(stamped(0.0, 0.0, 0.1)),
            lambda: base.odom.newest.twist.twist.angular.z < -3.0,
            "odometry of what the wheels do",
        )
        for change in ({"clip_wheels": True}, {"solver": "osqp"}):
            refused = base.client.set_parameters(NODE, **change)
            assert not refused.successful
            assert "qp" in refused.reason
    finally:
        assert base.client.set_parameters(NODE, solver="kinematic").successful
    stop(base)


@pytest.mark.parametrize(
    ("parameters", "driven"),
    [
        ({"linear_gain": 0.5, "angular_gain": 2.0}, (0.15, -0.2, 0.6)),
        ({"max_linear_speed": 0.25}, (0.15, -0.2, 0.3)),
        ({"max_angular_speed": 0.2}, (0.3, -0.4, 0.2)),
        ({"linear__y__max_velocity": 0.1}, (0.075, -0.1, 0.075)),
    ],
)
def test_gains_and_speed_limits(base, parameters, driven):
    usual = {name: 1.0 if name.endswith("gain") else math.nan for name in parameters}
    assert base.client.set_parameters(NODE, **parameters).successful
    try:
        drive_until(base, (0.3, -0.4, 0.3), ROLLING.wheels_from_twist(Twist2(*driven)))
    finally:
        assert base.client.set_parameters(NODE, **usual).successful
    stop(base)


def test_geometry_may_be_changed_while_it_runs(base):
    twist = Twist2(0.2, 0.1, 0.3)
    speeds = ROLLING.wheels_from_twist(twist)
    assert base.client.set_parameters(NODE, kinematics__wheels_radius=0.08).successful
    drive_until(base, tuple(twist), 0.5 * speeds)
    # Seen from a frame 0.1 m ahead of the middle, turning moves that frame to the left.
    changes = {"kinematics__wheels_radius": 0.0, "kinematics__base_frame_offset__x": 0.1}
    assert base.client.set_parameters(NODE, **changes).successful
    drive_until(base, (0.0, 0.03, 0.3), ROLLING.wheels_from_twist(Twist2(0.0, 0.0, 0.3)))
    assert base.client.set_parameters(NODE, kinematics__base_frame_offset__x=0.0).successful
    stop(base)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"wheel_radii": [0.04, 0.04]}, "wheel_radii has 2 entries for 3 wheel_names"),
        ({"wheel_radii": [0.04, 0.0, 0.04]}, "wheel_radii is 0.0; it must be above 0"),
        ({"roller_angle_deg": [90.0, 0.0, 90.0]}, "rollers along the wheel's axis"),
        ({"wheel_x": [0.0] * 3, "wheel_y": [0.0] * 3}, "have the same position"),
        ({"wheel_axis_yaw": [0.0, math.nan, 0.0]}, "wheel_axis_yaw is nan"),
        ({"kinematics__base_frame_offset__theta": math.inf}, "base_frame_offset.theta is inf"),
        ({"linear_gain": -1.0}, "linear_gain"),
        ({"max_linear_speed": math.inf}, "max_linear_speed is inf"),
        ({"wheel_names": ["j0"]}, "wheel_names"),
    ],
)
def test_bad_parameters_change_nothing(base, parameters, words):
    answer = base.client.set_parameters(NODE, **parameters)
    assert not answer.successful
    assert words in answer.reason
    drive_until(base, (0.1, 0.1, 0.1), ROLLING.wheels_from_twist(Twist2(0.1, 0.1, 0.1)))
    stop(base)


def test_wheels_that_cannot_move_sideways(base):
    """Parallel axes: the feasible part is driven, and the rest is reported."""
    client = base.client
    before = client.get_parameter(NODE, "wheel_axis_yaw")
    assert client.set_parameters(NODE, wheel_axis_yaw=[0.5 * math.pi] * 3).successful
    status = client.wait_for_diagnosis(NODE, "the wheels cannot drive sideways")
    assert status.level == DiagnosticStatus.WARN
    drive_until(base, (0.2, 0.5, 0.0), (5.0, 5.0, 5.0))
    drive_until_told(base, (0.2, 0.5, 0.0), (0.2, 0.0, 0.0))
    assert client.set_parameters(NODE, wheel_axis_yaw=list(before)).successful
    stop(base)
    client.wait(
        lambda: "sideways" not in client.diagnostics(NODE).message, "the warning to be gone"
    )
