# SPDX-License-Identifier: Apache-2.0
"""Behaviors of steering_controllers_library, its controllers, and tricycle_controller, over DDS."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from ackermann_msgs.msg import AckermannDrive
from control_msgs.msg import SteeringControllerStatus
from control_msgs.srv import SetOdometry
from controller_manager_msgs.srv import ListControllers
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry
from ros_client import RosClient
from sample_car import (
    FRONT_RADIUS,
    FRONT_TRACK,
    REAR,
    REAR_RADIUS,
    REAR_TRACK,
    STEERING,
    WHEELBASE,
    write_car,
    write_tricycle,
)
from std_srvs.srv import Empty
from tf2_msgs.msg import TFMessage

from conformance.base_rig import FREE, Rig, twist
from conformance.behaviours import BY_PARAMETER, behaviour, not_offered

LIBRARY = "steering_controllers_library"
CAR = "ackermann_steering_controller"
TRI = "tricycle_steering_controller"
BIKE = "bicycle_steering_controller"
FORK = "tricycle_controller"
RIGHT_FIRST = {
    "traction_joints_names": list(REAR[::-1]),
    "steering_joints_names": list(STEERING[::-1]),
}
"""The order of the peers' files."""


@pytest.fixture(scope="module")
def cell(module_suite: Any, module_client: RosClient, tmp_path_factory: Any) -> SimpleNamespace:
    """A car, a tricycle, a bicycle, and a tricycle that is driven at its fork."""
    folder = tmp_path_factory.mktemp("robots")
    robots = {
        "car": write_car(folder / "car", driven=REAR, limit=1.2),
        "tri": write_tricycle(folder / "tri"),
        "bike": write_tricycle(folder / "bike", rear=1),
        "fork": write_tricycle(folder / "fork", driven="front", controller=FORK),
    }
    nodes = {"car": CAR, "tri": TRI, "bike": BIKE, "fork": FORK}
    joints = {
        "car": REAR + STEERING, "tri": (*REAR, "steer"), "bike": ("rear", "steer"),
        "fork": ("front", "steer"),
    }  # fmt: skip
    more: dict[str, dict[str, Any]] = {
        "car": RIGHT_FIRST | {"reference_timeout": 0.5},
        "tri": {"wheel_track": REAR_TRACK, "open_loop": True},
        "bike": {"traction_wheel_radius": REAR_RADIUS, "position_feedback": False},
        "fork": {"traction_joint_name": "front", "steering_joint_name": "steer",
                 "wheel_radius": FRONT_RADIUS, "cmd_vel_timeout": 400,
                 "publish_ackermann_command": True},
    }  # fmt: skip
    rigs = {}
    for name, robot in robots.items():
        module_suite.node(
            "ackermann_base", name=nodes[name], namespace=name, robot=str(robot),
            update_rate=100.0, **more[name],
        )  # fmt: skip
        topic = "cmd_vel" if name == "fork" else "reference"
        rigs[name] = Rig(module_client, f"/{name}/{nodes[name]}", joints[name], topic)
    module_suite.node("controller_manager", namespace="tri", robot=str(robots["tri"]))
    for rig in rigs.values():
        rig.until(lambda r=rig: r.told, "the first references")
        rig.set(**{k.replace(".", "__"): v for k, v in FREE.items()})
    return SimpleNamespace(
        client=module_client, suite=module_suite, robots=robots, rigs=rigs, **rigs
    )


@pytest.fixture(autouse=True)
def at_rest(cell: SimpleNamespace) -> None:
    for rig in cell.rigs.values():
        rig.stop()


def wheels_of(name: str, vx: float, wz: float) -> tuple[list[float], list[float]]:
    """Return speeds of the traction wheels, left first, and steering angles, left first."""
    angle = math.atan(WHEELBASE * wz / vx)
    if name == "bike":
        return [vx / REAR_RADIUS], [angle]
    if name == "fork":
        return [vx / FRONT_RADIUS / math.cos(angle)], [angle]
    sides = [(vx - 0.5 * s * REAR_TRACK * wz) / REAR_RADIUS for s in (1, -1)]
    if name == "tri":
        return sides, [angle]
    angles = [math.atan(WHEELBASE * wz / (vx - 0.5 * s * FRONT_TRACK * wz)) for s in (1, -1)]
    return sides, angles


def drive(rig: Rig, name: str, vx: float, wz: float) -> None:
    """Drive until speeds and angles are those of rolling."""
    speeds, angles = wheels_of(name, vx, wz)
    steering = [j for j in rig.joints if "steer" in j]

    def reached() -> bool:
        return np.allclose([rig.told[j][0] for j in steering], angles, 0.0, 1e-6)

    traction = [j for j in rig.joints if "steer" not in j]
    rig.until(reached, f"angles {angles}", lambda: rig.send(vx, wz))
    rig.until_speeds(speeds, lambda: rig.send(vx, wz), joints=traction)


@behaviour(
    "ackermann_steering_controller",
    "straight on all wheels turn alike and the steering is straight",
    source="test_steering_odometry.cpp: ackermann_IK_linear",
)
@behaviour(
    "ackermann_steering_controller",
    "a left turn gives the outer wheel more speed and the inner steered wheel more angle",
    source="test_steering_odometry.cpp: ackermann_IK_left; "
    "test_ackermann_steering_controller.cpp: test_update_logic",
)
@behaviour(
    "ackermann_steering_controller",
    "a right turn mirrors it",
    source="test_steering_odometry.cpp: ackermann_IK_right",
)
@behaviour(
    "ackermann_steering_controller",
    "joints are named with the right one first",
    source="ackermann_steering_controller_params.yaml; steering_controllers_library.yaml",
)
@behaviour(
    "ackermann_steering_controller",
    "different track widths of both axles",
    source="test_ackermann_steering_controller.cpp: all_parameters_set_configure_success",
)
@behaviour(
    "tricycle_steering_controller",
    "straight on both wheels turn alike",
    source="test_steering_odometry.cpp: tricycle_IK_linear",
)
@behaviour(
    "tricycle_steering_controller",
    "in a turn the outer wheel is faster and the wheel steers to the same side",
    source="test_steering_odometry.cpp: tricycle_IK_left, tricycle_IK_right; "
    "test_tricycle_steering_controller.cpp: test_update_logic",
)
@behaviour(
    "bicycle_steering_controller",
    "straight on the wheel turns with v / r",
    source="test_steering_odometry.cpp: bicycle_IK_linear",
)
@behaviour(
    "bicycle_steering_controller",
    "in a turn the traction wheel keeps v / r and the steering is atan(wheelbase wz / v)",
    source="test_steering_odometry.cpp: bicycle_IK_left, bicycle_IK_right; "
    "test_bicycle_steering_controller.cpp: test_update_logic",
)
@behaviour(
    "tricycle_controller",
    "the steered traction wheel turns with v / (r cos(angle))",
    source="test_tricycle_controller.cpp: correct_initialization_using_parameters",
)
@behaviour(
    "tricycle_controller",
    "joints, wheel radius and a timeout in milliseconds by its own names",
    source="config/tricycle_drive_controller.yaml; tricycle_controller_parameter.yaml",
)
@behaviour(
    "tricycle_steering_controller",
    "deprecated names of the geometry are understood",
    source="jazzy: tricycle_steering_controller.yaml: wheel_track",
)
@pytest.mark.parametrize("name", ["car", "tri", "bike", "fork"])
def test_kinematics(cell, name):
    for vx, wz in ((0.5, 0.0), (0.5, 0.6), (0.6, -0.8), (-0.4, 0.3)):
        drive(cell.rigs[name], name, vx, wz)


@behaviour(
    "steering_controllers_library",
    "after reference_timeout the wheels stop and the steering stays",
    source="test_steering_controllers_library.cpp: test_position_feedback_ref_timeout, "
    "test_velocity_feedback_ref_timeout",
)
@behaviour(
    "steering_controllers_library",
    "a reference with a stamp of 0 is as of now",
    source="steering_controllers_library.cpp: reference_callback (missing timestamp)",
)
@behaviour(
    "steering_controllers_library",
    "a reference older than reference_timeout is ignored",
    source="steering_controllers_library.cpp: reference_callback",
)
@behaviour(
    "tricycle_controller",
    "a command that is not renewed stops the traction wheel",
    source="tricycle_controller.cpp: update",
)
def test_timeout(cell):
    for name in ("car", "bike", "fork"):
        rig = cell.rigs[name]
        drive(rig, name, 0.5, 0.4)
        _, angles = wheels_of(name, 0.5, 0.4)
        rig.rest()
        kept = [rig.told[j][0] for j in rig.joints if "steer" in j]
        assert kept == pytest.approx(angles, abs=1e-6)
        rig.wheels.keep_on(0.2, lambda r=rig: r.send(0.5, age=5.0))
        assert not any(rig.speeds())


@behaviour(
    "steering_controllers_library",
    "reference_timeout of 0 keeps the last reference",
    source="steering_controllers_library.cpp: update_reference_from_subscribers",
)
@behaviour(
    "steering_controllers_library",
    "a reference with NaN does not move the wheels",
    source="test_steering_controllers_library.cpp: test_open_loop_update_ignore_nan_vals",
)
def test_no_timeout_and_nan(cell):
    car = cell.car
    car.wheels.keep_on(0.2, lambda: car.send(math.nan, math.nan))
    assert not any(car.speeds())
    car.set(reference_timeout=0.0)
    drive(car, "car", 0.4, 0.0)
    car.wheels.keep_on(0.8)
    assert any(car.speeds())
    car.stop()
    car.set(reference_timeout=0.5)


@behaviour(
    "steering_controllers_library",
    "in open loop odometry has the velocity of the reference, and 0 after its timeout",
    source="test_steering_controllers_library.cpp: test_open_loop_update_timeout",
)
def test_open_loop(cell):
    tri = cell.tri

    def moving(v: float) -> bool:
        newest = tri.odometry.newest
        return newest is not None and abs(newest.twist.twist.linear.x - v) < 1e-6

    tri.until(lambda: moving(0.5), "0.5 m/s", lambda: tri.send(0.5, 0.1))
    tri.until(lambda: moving(0.0), "rest")


@behaviour(
    "steering_controllers_library",
    "odometry is on ~/odometry and ~/tf_odometry",
    source="steering_controllers_library.cpp: on_configure",
)
@behaviour(
    "steering_controllers_library",
    "enable_odom_tf of false stops ~/tf_odometry",
    source="steering_controllers_library.cpp: update_and_write_commands",
)
@behaviour(
    "steering_controllers_library",
    "~/controller_state has states and commands in the order of the parameters",
    source="test_ackermann_steering_controller.cpp: receive_message_and_publish_updated_status; "
    "test_bicycle_steering_controller.cpp: publish_status_success",
)
@behaviour(
    "steering_controllers_library",
    "~/reference_unstamped accepts twists without a stamp",
    source="humble: steering_controllers_library.cpp: on_configure (use_stamped_vel)",
)
def test_topics(cell):
    car, client = cell.car, cell.client
    odometry = client.listen(Odometry, f"{car.node}/odometry")
    transforms = client.listen(TFMessage, f"{car.node}/tf_odometry")
    states = client.listen(SteeringControllerStatus, f"{car.node}/controller_state")
    plain = client.publisher(Twist, f"{car.node}/reference_unstamped")
    angles = wheels_of("car", 0.5, 0.6)[1]

    def steered() -> bool:
        newest = states.newest
        return newest is not None and np.allclose(newest.steering_angle_command, angles[::-1])

    car.until(steered, "the state, right first", lambda: plain.publish(twist(0.5, 0.6)))
    car.until(lambda: odometry and transforms, "odometry and transforms")
    assert odometry.newest.child_frame_id == "base_link"
    assert transforms.newest.transforms[0].child_frame_id == "base_link"
    state = states.newest
    assert len(state.traction_wheels_position) == len(state.steer_positions) == 2
    car.set(enable_odom_tf=False)
    car.wheels.keep_on(0.2)
    transforms.clear()
    car.wheels.keep_on(0.3)
    assert not transforms
    car.set(enable_odom_tf=True)


@behaviour(
    "ackermann_steering_controller",
    "odometry of wheels and steering is that of the turn",
    source="test_steering_odometry.cpp: ackermann_odometry",
)
@behaviour(
    "bicycle_steering_controller",
    "odometry of wheel and steering is that of the turn, from velocities",
    source="test_steering_odometry.cpp: bicycle_odometry",
)
@behaviour(
    "tricycle_controller",
    "odometry of the steered traction wheel",
    source="test_tricycle_controller.cpp: odometry_reset_service",
)
@pytest.mark.parametrize("name", ["car", "bike", "fork"])
def test_odometry(cell, name):
    rig = cell.rigs[name]
    drive(rig, name, 0.5, 0.5)

    def turning() -> bool:
        seen = rig.odometry.newest.twist.twist
        return abs(seen.linear.x - 0.5) < 0.05 and abs(seen.angular.z - 0.5) < 0.05

    rig.until(turning, "the twist of the command", lambda: rig.send(0.5, 0.5))


@behaviour(
    "steering_controllers_library",
    "set_odometry sets x, y and yaw",
    source="test_steering_controllers_library.cpp: odometry_set_service",
)
@behaviour(
    "tricycle_controller",
    "reset_odometry sets odometry to 0, and the motion continues from there",
    source="test_tricycle_controller.cpp: odometry_reset_service",
)
@behaviour(
    "tricycle_controller",
    "publish_ackermann_command publishes angle and wheel speed on ~/cmd_ackermann",
    source="tricycle_controller.cpp: update",
)
def test_services(cell):
    request = SetOdometry.Request(x=5.0, y=-2.0, yaw=1.0)
    for name in ("car", "fork"):
        rig = cell.rigs[name]
        assert cell.client.call(SetOdometry, f"{rig.node}/set_odometry", request).success
        rig.place((5.0, -2.0, 1.0))
    fork = cell.fork
    cell.client.call(Empty, f"{fork.node}/reset_odometry")
    fork.place((0.0, 0.0, 0.0))
    commands = cell.client.listen(AckermannDrive, f"{fork.node}/cmd_ackermann")
    speeds, angles = wheels_of("fork", 0.5, 0.4)

    def told() -> bool:
        m = commands.newest
        return m is not None and np.allclose(
            (m.speed, m.steering_angle), (speeds[0], angles[0]), 0.0, 1e-4
        )

    fork.until(told, "the command", lambda: fork.send(0.5, 0.4))
    fork.until(lambda: fork.pose[0] > 0.05, "motion", lambda: fork.send(0.5, 0.0))


@behaviour(
    "steering_controllers_library",
    "a frame prefix without a namespace precedes both frames",
    source="test_steering_controllers_library.cpp: configure_succeeds_tf_prefix_no_namespace",
)
@behaviour(
    "steering_controllers_library",
    "a blank prefix leaves the frames",
    source="test_steering_controllers_library.cpp: configure_succeeds_tf_blank_prefix_no_namespace",
)
@behaviour(
    "steering_controllers_library",
    "a frame prefix replaces the namespace",
    source="test_steering_controllers_library.cpp: configure_succeeds_tf_prefix_set_namespace",
)
@behaviour(
    "steering_controllers_library",
    "a tilde in the prefix is the namespace",
    source="test_steering_controllers_library.cpp: "
    "configure_succeeds_tf_tilde_prefix_set_namespace",
)
def test_prefixes(cell):
    for prefix, before in (("", ""), ("a", "a/"), ("~", "car/"), ("", "")):
        cell.car.set(tf_frame_prefix=prefix)

        def named(before: str = before) -> bool:
            m = cell.car.odometry.newest
            return (m.header.frame_id, m.child_frame_id) == (f"{before}odom", f"{before}base_link")

        cell.car.until(named, f"frames with {prefix}")


@behaviour(
    "steering_controllers_library",
    "reduce_wheel_speed_until_steering_reached slows the wheels until the steering has followed",
    source="test_steering_odometry.cpp: ackermann_IK_right_steering_limited, "
    "bicycle_IK_right_steering_limited, tricycle_IK_right_steering_limited",
)
def test_slower_until_steered(cell):
    bike = cell.bike
    bike.set(reduce_wheel_speed_until_steering_reached=True)
    angle = wheels_of("bike", 0.3, 0.7)[1][0]
    bike.wheels.also = {"steer": 0.0}  # a steering that does not move
    bike.until(
        lambda: bike.told["steer"][0] == pytest.approx(angle) and bike.speeds("rear")[0] < 2.0,
        "slow wheels", lambda: bike.send(0.3, 0.7),
    )  # fmt: skip
    bike.wheels.also = {}
    bike.until_speeds([0.3 / REAR_RADIUS], lambda: bike.send(0.3, 0.7), joints=["rear"])
    bike.set(reduce_wheel_speed_until_steering_reached=False)


@behaviour(
    "steering_controllers_library",
    "command interfaces are the velocity of traction and the position of steering joints",
    source="test_steering_controllers_library.cpp: check_exported_interfaces; "
    "test_tricycle_steering_controller.cpp: check_exported_interfaces",
)
@behaviour(
    "tricycle_steering_controller",
    "the controller manager lists it by its own name and type",
    source="test_load_tricycle_steering_controller.cpp",
)
def test_interfaces(cell):
    answer = cell.client.call(ListControllers, "/tri/controller_manager/list_controllers")
    (found,) = [c for c in answer.controller if c.name == TRI]
    wanted = ["rear_left/velocity", "rear_right/velocity", "steer/position"]
    assert sorted(found.claimed_interfaces) == wanted
    assert found.type == f"{TRI}/TricycleSteeringController"


@behaviour(
    "steering_controllers_library",
    "a deactivated controller stops the wheels; after it is activated again commands work",
    source="test_ackermann_steering_controller.cpp: deactivate_success, reactivate_success",
)
@behaviour(
    "tricycle_controller",
    "a deactivated controller stops the traction wheel; cleanup and configure work",
    source="test_tricycle_controller.cpp: cleanup, correct_initialization_using_parameters",
)
def test_lifecycle(cell):
    for name in ("bike", "fork"):
        rig, client = cell.rigs[name], cell.client
        drive(rig, name, 0.5, 0.0)
        assert client.change_state(rig.node, "deactivate")
        rig.until(lambda r=rig: not any(r.speeds()), "rest")
        verbs = ("cleanup", "configure", "activate") if name == "fork" else ("activate",)
        for verb in verbs:
            assert client.change_state(rig.node, verb)
        rig.rest()
        if name == "fork":
            rig.set(**{k.replace(".", "__"): v for k, v in FREE.items()})
        drive(rig, name, 0.4, 0.0)


@behaviour(
    "steering_controllers_library",
    "states may be read from other joints",
    source="test_ackermann_steering_controller_preceding.cpp: check_exported_interfaces",
)
@behaviour(
    "steering_controllers_library",
    "a wrong number of state joints or of traction joints does not start",
    source="steering_controllers_library.cpp: on_configure",
)
@behaviour(
    "tricycle_controller",
    "without traction or steering joint it does not start",
    source="test_tricycle_controller.cpp: init_fails_if_only_traction_or_steering_side_defined",
)
def test_joints(cell):
    bad = (
        {"traction_joints_state_names": ["a"], "name": CAR, "robot": "car"},
        {
            "traction_joints_names": ["rear_left", "rear_right", "steer"],
            "name": TRI,
            "robot": "tri",
        },
        {"steering_joint_name": "", "name": FORK, "robot": "fork"},
    )
    for changes in bad:
        name, robot = changes.pop("name"), str(cell.robots[changes.pop("robot")])
        node = cell.suite.node("ackermann_base", name=name, namespace="bad", robot=robot, **changes)
        assert node.exit_code() == 1
    cell.suite.node(
        "ackermann_base", name=BIKE, namespace="state", robot=str(cell.robots["bike"]),
        update_rate=100.0, traction_joints_state_names=["encoder"],
    )  # fmt: skip
    rig = Rig(cell.client, f"/state/{BIKE}", ("rear", "steer"), "reference")
    rig.wheels.also = {"encoder": 0.0}

    def turn() -> None:
        rig.wheels.also["encoder"] += 0.1
        rig.send(0.0)

    rig.until(lambda: rig.odometry.newest and rig.pose[0] > 0.05, "motion of the encoder", turn)


@behaviour(
    "steering_controllers_library",
    "references of another controller move the wheels",
    source="test_update_logic_chained of the ackermann, bicycle and tricycle tests",
    verdict=BY_PARAMETER,
    why="controllers are nodes: references are messages",
    how="the other controller publishes on ~/reference",
)
@behaviour(
    "steering_controllers_library",
    "a twist of 0 turns the steering straight",
    source="steering_kinematics.cpp: convert_twist_to_steering_angle",
    verdict=BY_PARAMETER,
    why="by default a car at rest keeps its steering: it neither wears tyres nor changes its next "
    "curve",
    how="`peer_defaults: true`",
)
def test_steering_at_rest(cell):
    drive(cell.tri, "tri", 0.5, 0.4)
    cell.tri.stop()
    assert cell.tri.told["steer"][0] == pytest.approx(wheels_of("tri", 0.5, 0.4)[1][0])
    for name in ("tri", "car"):
        rig = cell.rigs[name]
        steering = [joint for joint in rig.joints if "steer" in joint]
        rig.set(peer_defaults=True)
        drive(rig, name, 0.5, 0.4)
        rig.until(
            lambda r=rig, s=steering: (
                not any(r.speeds()) and max(abs(r.told[j][0]) for j in s) < 1e-9
            ),
            "straight wheels at rest",
            lambda r=rig: r.send(0.0),
        )
        rig.set(peer_defaults=False)


@behaviour(
    "tricycle_controller",
    "velocity and acceleration of the traction wheel, and the rate of the steering are limited",
    source="test_traction_limiter.cpp: testVelocityLimits, testAccelerationLimits; "
    "steering_limiter.hpp",
)
@behaviour(
    "tricycle_controller",
    "without limits a command is executed at once",
    source="test_traction_limiter.cpp: testNoLimits",
)
@behaviour(
    "tricycle_controller",
    "deceleration and jerk have limits of their own",
    source="test_traction_limiter.cpp: testDecelerationLimits, testJerkLimits",
    verdict=BY_PARAMETER,
    how="linear.x.max_deceleration, linear.x.max_jerk [m/s^2, m/s^3]",
)
def test_limits_of_the_traction_wheel(cell):
    fork = cell.fork
    fork.set(max_wheel_velocity=5.0)
    fork.until_speeds([5.0], lambda: fork.send(2.0), joints=["front"])
    fork.set(max_wheel_velocity=math.nan, linear__x__max_deceleration=1.0)
    fork.until_speeds([1.0 / FRONT_RADIUS], lambda: fork.send(1.0), joints=["front"])
    fork.wheels.commands.clear()
    fork.until_speeds([0.0], lambda: fork.send(0.0), joints=["front"])
    falling = [m.velocity[0] for m in fork.wheels.commands.messages if 0.0 < m.velocity[0] < 19.9]
    assert np.median(np.diff(falling)) == pytest.approx(-0.01 / FRONT_RADIUS, rel=0.05)
    fork.set(linear__x__max_deceleration=math.nan, linear__x__max_acceleration=2.0)
    fork.wheels.commands.clear()
    fork.until_speeds([1.0 / FRONT_RADIUS], lambda: fork.send(1.0), joints=["front"])
    rising = [m.velocity[0] for m in fork.wheels.commands.messages if 0.1 < m.velocity[0] < 19.9]
    steps = np.diff(rising)  # on a busy machine a command may time out meanwhile
    assert np.median(steps[steps > 0.0]) == pytest.approx(0.02 / FRONT_RADIUS, rel=0.05)
    fork.set(linear__x__max_acceleration=math.nan, max_steering_velocity=0.5)
    fork.wheels.commands.clear()
    fork.until(lambda: fork.told, "references")
    drive(fork, "fork", 0.5, 0.4)
    k = fork.wheels.commands.newest.name.index("steer")
    angles = [m.position[k] for m in fork.wheels.commands.messages]
    turns = np.abs(np.diff([angle for angle in angles if math.isfinite(angle)]))
    assert turns.max() < 0.5 * turns.sum(), "a busy machine loses commands, but not most of them"
    assert np.median(turns[turns > 1e-6]) == pytest.approx(0.5 * 0.01, rel=0.05)
    fork.set(max_steering_velocity=math.nan)


not_offered(
    "steering_controllers_library",
    "reference interfaces linear/velocity and angular/velocity are exported",
    source="test_steering_controllers_library.cpp: check_exported_interfaces; the same of "
    "ackermann, bicycle and tricycle",
    why="controllers are nodes, which have topics instead of interfaces in one process",
)
not_offered(
    "tricycle_controller",
    "a yaw rate without velocity turns the steering to 90 degrees and the base on the spot",
    source="tricycle_controller.cpp: twist_to_ackermann",
    why="steering angles of 90 degrees are beyond the model of a car, whose curvature is finite",
)
