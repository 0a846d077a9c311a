# SPDX-License-Identifier: Apache-2.0
"""The car node over DDS, with small cars in the mock simulation."""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from ackermann_msgs.msg import AckermannDrive, AckermannDriveStamped
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import Twist, TwistStamped
from nav_msgs.msg import Odometry
from ros_client import BEST_EFFORT, values_of
from sample_car import FRONT, REAR, STEERING, WHEELBASE, write_car
from sensor_msgs.msg import JointState

from motion_nodes.core.bases.ackermann import AckermannBase
from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.bases.from_robot import base_of
from motion_nodes.core.robot.loader import load_robot

NODE = "/car/ackermann_steering_controller"
BACK = "/back/ackermann_steering_controller"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A car that steers in front and drives all wheels, and a truck that steers behind."""
    rear = {"steered": "rear", "driven": FRONT, "rear_axle_x": -0.2}
    folder = tmp_path_factory.mktemp("cars")
    return {
        "car": write_car(folder / "car", rear_axle_x=-0.1),
        "back": write_car(folder / "back", **rear),
    }


@pytest.fixture(scope="module")
def cell(module_suite, module_client, folders, tmp_path_factory):
    """Both robots with their nodes, ready to drive."""
    client = module_client
    # Refusals are awaited in the diagnostics.
    file = tmp_path_factory.mktemp("params") / "reports.yaml"
    file.write_text("/**:\n  ros__parameters:\n    diagnostic_updater: {period: 0.1}\n")
    module_suite.bring_up(
        *(f"{name}:={path}" for name, path in folders.items()),
        backend="mock",
        rate=100.0,
        params_file=str(file),
    )
    found = {}
    for name, path in folders.items():
        node = f"/{name}/ackermann_steering_controller"
        client.wait_for_diagnosis(node, "no command yet")
        assert client.set_parameters(node, cmd_vel_timeout=0.2).successful
        found[name] = SimpleNamespace(
            client=client,
            node=node,
            base=base_of(load_robot(str(path))),
            reference=client.publisher(TwistStamped, f"{node}/reference"),
            stamped=client.publisher(TwistStamped, f"{node}/cmd_vel"),
            plain=client.publisher(Twist, f"{node}/cmd_vel_unstamped"),
            usual=client.publisher(TwistStamped, f"/{name}/cmd_vel"),
            drive=client.publisher(AckermannDriveStamped, f"{node}/ackermann_cmd"),
            commands=client.listen(JointState, f"/{name}/joint_command"),
            odom=client.listen(Odometry, f"{node}/odom"),
            truth=client.listen(Odometry, f"/{name}/ground_truth", BEST_EFFORT),
        )
    topics = ("commands", "odom", "truth")
    client.wait(
        lambda: all(getattr(one, topic) for one in found.values() for topic in topics),
        "messages of all cars",
    )
    return found


@pytest.fixture
def car(cell):
    stand(cell["car"])
    return cell["car"]


def twist(vx: float, wz: float) -> Twist:
    message = Twist()
    message.linear.x, message.angular.z = vx, wz
    return message


def drive(angle: float = 0.0, speed: float = 0.0, rate: float = 0.0, acceleration: float = 0.0):
    return AckermannDriveStamped(
        drive=AckermannDrive(
            steering_angle=angle,
            steering_angle_velocity=rate,
            speed=speed,
            acceleration=acceleration,
        )
    )


def warnings(car: SimpleNamespace) -> tuple[int, str]:
    """Return the number of warnings in the diagnostics, and the newest."""
    values = values_of(car.client.diagnostics(NODE))
    return int(values.get("warnings", "0")), values.get("last warning", "")


def until_refused(car: SimpleNamespace, send: Callable[[], None], word: str) -> None:
    """Send commands until the node has warned of one more than before, with a word."""
    before, _ = warnings(car)

    def refused() -> bool:
        count, text = warnings(car)
        return count > before and word in text

    car.client.repeat(send, refused, f"a warning with '{word}'")


def wheels_of(message: JointState) -> np.ndarray:
    return np.array([v for v in message.velocity if not math.isnan(v)])


def steering_of(message: JointState) -> np.ndarray:
    return np.array([p for p in message.position if not math.isnan(p)])


def stand(one: SimpleNamespace) -> None:
    one.commands.clear()
    one.client.wait(
        lambda: one.commands and not any(wheels_of(one.commands.newest)), "the wheels to stand"
    )


def drives(one: SimpleNamespace, vx: float, wz: float) -> Any:
    """Return a condition: wheels and steering are those of a twist of the base."""
    base: AckermannBase = one.base
    goal = base.nearest_twist(Twist2(vx, 0.0, wz))
    angles = base.geometry.wheel_angles(goal.wz / goal.vx)

    def check() -> bool:
        message = one.commands.newest
        return (
            message is not None
            and np.allclose(steering_of(message), angles, rtol=0, atol=1e-6)
            and np.allclose(wheels_of(message), base.wheels_from_twist(goal), rtol=0, atol=1e-6)
        )

    return check


def steers(one: SimpleNamespace, angle: float) -> Any:
    """Return a condition: the steering is commanded to an angle in the middle [rad]."""

    def check() -> bool:
        message = one.commands.newest
        return message is not None and math.isclose(
            one.base.steering_angle(steering_of(message)), angle, abs_tol=1e-6
        )

    return check


def test_what_is_commanded(car):
    def send():
        return car.stamped.publish(TwistStamped(twist=twist(0.5, 0.4)))

    car.client.repeat(send, drives(car, 0.5, 0.4), "wheels and steering of the twist")
    message = car.commands.newest
    assert list(message.name) == [*FRONT, *REAR, *STEERING]
    np.testing.assert_array_equal(np.isnan(message.position), [True] * 4 + [False] * 2)
    np.testing.assert_array_equal(np.isnan(message.velocity), [False] * 4 + [True] * 2)
    inner, outer = message.position[4:]
    assert 0.0 < outer < inner


@pytest.mark.parametrize("which", ["reference", "stamped", "plain", "usual"])
def test_every_twist_drives(car, which):
    publisher, message = getattr(car, which), twist(-0.4, 0.3)
    message = message if which == "plain" else TwistStamped(twist=message)
    car.client.repeat(
        lambda: publisher.publish(message), drives(car, -0.4, 0.3), f"driving back by {which}"
    )
    assert car.base.steering_angle(steering_of(car.commands.newest)) < 0.0


def test_rear_steering_turns_to_the_side_that_was_asked_for(cell):
    back = cell["back"]
    assert back.client.get_parameter(BACK, "front_steering") is False
    back.client.repeat(
        lambda: back.usual.publish(TwistStamped(twist=twist(0.5, 0.4))),
        drives(back, 0.5, 0.4),
        "wheels and steering of the twist",
    )
    assert list(back.commands.newest.name) == [*FRONT, *STEERING]
    assert np.all(steering_of(back.commands.newest) < 0.0)
    before = back.truth.newest.pose.pose.orientation.z
    back.client.repeat(
        lambda: back.usual.publish(TwistStamped(twist=twist(0.5, 0.4))),
        lambda: back.truth.newest.pose.pose.orientation.z > before + 0.05,
        "the truck to turn left",
    )


def test_steering_angle_and_speed(car):
    for speed in (0.6, -0.6):
        yaw_rate = speed * math.tan(0.3) / WHEELBASE
        car.client.repeat(
            lambda v=speed: car.drive.publish(drive(0.3, v)),
            drives(car, speed, yaw_rate),
            f"{speed} m/s at 0.3 rad",
        )


def test_steering_while_the_car_stands(car):
    car.client.repeat(lambda: car.drive.publish(drive(-0.25)), steers(car, -0.25), "-0.25 rad")
    assert not any(wheels_of(car.commands.newest))
    # A stop by twist, and silence, leave it there.
    car.stamped.publish(TwistStamped())
    car.client.spin(0.5)
    assert steers(car, -0.25)()

    def told() -> bool:
        values = values_of(car.client.diagnostics(NODE))
        names = [f"steering angle {what} [rad]" for what in ("commanded", "measured")]
        return all(values[name] == "-0.25" for name in names)

    car.client.wait(told, "the steering's angle in diagnostics")


def test_twists_may_carry_the_steering_angle(car):
    assert car.client.set_parameters(NODE, twist_angular_z="steering_angle").successful
    try:
        car.client.repeat(
            lambda: car.plain.publish(twist(-0.5, 0.2)),
            drives(car, -0.5, -0.5 * math.tan(0.2) / WHEELBASE),
            "0.2 rad backward",
        )
        car.client.repeat(
            lambda: car.plain.publish(twist(0.0, -0.2)), steers(car, -0.2), "-0.2 rad, standing"
        )
    finally:
        assert car.client.set_parameters(NODE, twist_angular_z="yaw_rate").successful
    refused = car.client.set_parameters(NODE, twist_angular_z="angle")
    assert not refused.successful
    assert "yaw_rate, steering_angle" in refused.reason


@pytest.mark.parametrize(
    ("send", "words"),
    [
        (lambda one: one.plain.publish(twist(0.4, 3.0)), "wz 3 as"),
        (lambda one: one.plain.publish(twist(0.0, 1.0)), "wz 1 as 0 rad/s"),
        (lambda one: one.drive.publish(drive(1.2, 0.3)), "steering angle 1.2 rad is beyond"),
    ],
)
def test_what_cannot_be_driven_is_told(car, send, words):
    status = car.client.repeat(
        lambda: send(car),
        lambda: next((s for s in [car.client.diagnostics(NODE)] if s and words in s.message), None),
        f"diagnosis '{words}'",
    )
    assert status.level == DiagnosticStatus.WARN
    assert abs(steering_of(car.commands.newest)).max() <= 0.6 + 1e-9


def test_a_stale_drive_command_is_refused(car):
    message = drive(0.2, 0.5)
    message.header.stamp.nanosec = 1
    car.commands.clear()
    until_refused(car, lambda: car.drive.publish(message), "stamp")
    car.client.wait(lambda: len(car.commands) > 30, "commands")
    assert not any(any(wheels_of(m)) for m in car.commands.messages)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"wheelbase": 0.0}, "wheelbase"),
        ({"traction_track_width": math.nan}, "traction_track_width"),
        ({"steering_wheels_radius": -0.1}, "steering_wheels_radius"),
        ({"fixed_axle_x": math.inf}, "fixed_axle_x is inf"),
        ({"max_steering_angle": -0.3}, "max_steering_angle"),
        ({"clip_wheels": True}, "clip_wheels"),
        ({"steering_joints_names": ["a", "b"]}, "steering_joints_names"),
    ],
)
def test_bad_parameters_change_nothing(car, parameters, words):
    answer = car.client.set_parameters(NODE, **parameters)
    assert not answer.successful
    assert words in answer.reason
    car.client.repeat(
        lambda: car.plain.publish(twist(0.4, 0.3)), drives(car, 0.4, 0.3), "driving as before"
    )


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"steering_joints_names": ["steer_left", "steer_wright"]}, "'steer_wright' is not known"),
        ({"traction_joints_names": ["rear_left", "front_left"]}, "front_left are named more than"),
    ],
)
def test_wrong_joints_are_refused(suite, folders, parameters, words):
    process = suite.node(
        "ackermann_base", robot=str(folders["car"]), namespace="wrong", **parameters
    )
    process.wait_for(words)
    assert process.exit_code() == 1


def test_the_wrong_robot_is_refused(suite):
    process = suite.node("ackermann_base", robot="jetbot", namespace="wrong")
    process.wait_for("robot 'jetbot' is of kind 'differential', not ackermann")
