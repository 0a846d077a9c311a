# SPDX-License-Identifier: Apache-2.0
"""Behaviors of steering_controllers_library, its controllers, and tricycle_controller, over DDS."""

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
def cell(module_suite, module_client, tmp_path_factory):
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
def at_rest(cell):
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


@pytest.mark.parametrize("name", ["car", "tri", "bike", "fork"])
def test_kinematics(cell, name):
    for vx, wz in ((0.5, 0.0), (0.5, 0.6), (0.6, -0.8), (-0.4, 0.3)):
        drive(cell.rigs[name], name, vx, wz)


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


def test_open_loop(cell):
    tri = cell.tri

    def moving(v: float) -> bool:
        newest = tri.odometry.newest
        return newest is not None and abs(newest.twist.twist.linear.x - v) < 1e-6

    tri.until(lambda: moving(0.5), "0.5 m/s", lambda: tri.send(0.5, 0.1))
    tri.until(lambda: moving(0.0), "rest")


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


@pytest.mark.parametrize("name", ["car", "bike", "fork"])
def test_odometry(cell, name):
    rig = cell.rigs[name]
    drive(rig, name, 0.5, 0.5)

    def turning() -> bool:
        seen = rig.odometry.newest.twist.twist
        return abs(seen.linear.x - 0.5) < 0.05 and abs(seen.angular.z - 0.5) < 0.05

    rig.until(turning, "the twist of the command", lambda: rig.send(0.5, 0.5))


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


def test_prefixes(cell):
    for prefix, before in (("", ""), ("a", "a/"), ("~", "car/"), ("", "")):
        cell.car.set(tf_frame_prefix=prefix)

        def named(before: str = before) -> bool:
            m = cell.car.odometry.newest
            return (m.header.frame_id, m.child_frame_id) == (f"{before}odom", f"{before}base_link")

        cell.car.until(named, f"frames with {prefix}")


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


def test_interfaces(cell):
    answer = cell.client.call(ListControllers, "/tri/controller_manager/list_controllers")
    (found,) = [c for c in answer.controller if c.name == TRI]
    wanted = ["rear_left/velocity", "rear_right/velocity", "steer/position"]
    assert sorted(found.claimed_interfaces) == wanted
    assert found.type == f"{TRI}/TricycleSteeringController"


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
