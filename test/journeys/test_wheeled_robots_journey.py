# SPDX-License-Identifier: Apache-2.0
"""Bases of every kind brought up together: a Nova Carter, a Kaya and a Leatherback over DDS."""

import itertools
import math
from statistics import median

import pytest
from geometry_msgs.msg import Twist, TwistStamped
from long_params import shortened
from nav_msgs.msg import Odometry
from ros_client import RosClient
from sensor_msgs.msg import JointState

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.ros.names import BASE_CONTROLLERS

pytestmark = pytest.mark.timeout(900)

START = 40.0
"""[s] Longest wait for three robots to be up on a busy machine."""
ROBOTS = {"carter": "nova_carter", "kaya": "kaya", "car": "leatherback"}
PLACES = {"carter": (0.0, 0.0, 0.0), "kaya": (0.0, 3.0, 0.5), "car": (0.0, -3.0, -0.5)}
SPEEDS = {"carter": (0.6, 0.0, 0.6), "kaya": (0.25, 0.2, 0.8), "car": (0.6, 0.0, 0.8)}


class Base:
    """A client of one robot."""

    def __init__(self, client: RosClient, namespace: str) -> None:
        self.client, self.robot = client, load_robot(ROBOTS[namespace])
        node = f"/{namespace}/{BASE_CONTROLLERS[self.robot.kind]}"
        self.odom = client.listen(Odometry, f"{node}/odom")
        self.truth = client.listen(Odometry, f"/{namespace}/ground_truth")
        self.states = client.listen(JointState, f"/{namespace}/joint_states")
        self.twist = client.publisher(TwistStamped, f"{node}/cmd_vel")
        self.commands = client.publisher(JointState, f"/{namespace}/joint_command")

    def heard(self) -> bool:
        return bool(self.odom and self.truth and self.states)

    def clear(self) -> None:
        for heard in (self.odom, self.truth, self.states):
            heard.clear()

    def drive(self, vx: float, vy: float, wz: float) -> None:
        message = TwistStamped()
        message.twist.linear.x, message.twist.linear.y = vx, vy
        message.twist.angular.z = wz
        self.twist.publish(message)

    def stands(self) -> bool:
        twist = self.truth.newest.twist.twist
        return math.hypot(twist.linear.x, twist.linear.y) + abs(twist.angular.z) < 0.01

    def joints(self) -> dict[str, float]:
        newest = self.states.newest
        return dict(zip(newest.name, newest.position, strict=True))


def pose(message: Odometry) -> tuple[float, float, float]:
    p, q = message.pose.pose.position, message.pose.pose.orientation
    return p.x, p.y, math.atan2(2 * (q.w * q.z + q.x * q.y), 1 - 2 * (q.y**2 + q.z**2))


def time_of(message: Odometry) -> float:
    return message.header.stamp.sec + message.header.stamp.nanosec * 1e-9


def numbers(twist: Twist) -> tuple[float, float, float]:
    return twist.linear.x, twist.linear.y, twist.angular.z


def moved(start: Odometry, end: Odometry) -> tuple[float, float, float]:
    """Return the displacement in the frame of the start [m, m, rad]."""
    (x0, y0, yaw), (x1, y1, yaw1) = pose(start), pose(end)
    c, s = math.cos(yaw), math.sin(yaw)
    dx, dy = x1 - x0, y1 - y0
    return c * dx + s * dy, c * dy - s * dx, math.remainder(yaw1 - yaw, math.tau)


@pytest.fixture(scope="module", params=shortened(["mujoco", "mock"]))
def bases(request, module_suite, module_client):
    """All three robots in one simulation; every test runs in both simulations."""
    words = [
        f"{name}:={robot}@{','.join(map(str, PLACES[name]))}" for name, robot in ROBOTS.items()
    ]
    processes = module_suite.bring_up(*words, backend=request.param, rate=100.0)
    found = {name: Base(module_client, name) for name in ROBOTS}
    module_client.wait(lambda: all(base.heard() for base in found.values()), "all robots", START)
    yield found
    for process in processes.values():
        assert process.stop() == 0


@pytest.fixture(params=list(ROBOTS))
def base(request, bases, module_client):
    """One of the robots, at rest."""
    found = bases[request.param]
    found.speeds = SPEEDS[request.param]
    found.clear()
    module_client.wait(found.heard, "all topics")
    module_client.wait(found.stands, "the base to stand")
    return found


@pytest.mark.long
def test_twists_move_the_base_and_odometry_is_true(base, module_client):
    odom, truth = base.odom.newest, base.truth.newest
    base.clear()
    module_client.repeat(
        lambda: base.drive(*base.speeds),
        lambda: base.odom and time_of(base.odom.newest) - time_of(odom) > 2.0,
        "two simulated seconds",
    )
    module_client.wait(base.stands, "the base to stand after the last command")
    module_client.spin(0.3)
    path = [odom, *base.odom.messages]
    steps = list(itertools.pairwise(path))
    way = sum(math.dist(pose(a)[:2], pose(b)[:2]) for a, b in steps)
    believed, true = moved(odom, base.odom.newest), moved(truth, base.truth.newest)
    assert way > 0.5
    told = f"from {pose(odom)}, in truth {pose(truth)}: {believed}, in truth {true}"
    assert math.dist(believed[:2], true[:2]) < 0.02 * way + 0.005, told
    turned = sum(abs(math.remainder(pose(b)[2] - pose(a)[2], math.tau)) for a, b in steps)
    assert abs(math.remainder(believed[2] - true[2], math.tau)) < 0.02 * turned + 0.01
    fastest = max(abs(m.twist.twist.angular.z) for m in base.odom.messages)
    twists = [m.twist.twist for m in base.odom.messages]
    driven = [t for t in twists if abs(t.angular.z) > 0.9 * fastest]
    seen = [median(values) for values in zip(*map(numbers, driven), strict=True)]
    assert seen == pytest.approx(base.speeds, abs=0.03)


def test_joint_states_tell_of_every_joint_of_the_urdf(base):
    """Including casters, without rollers."""
    assert tuple(base.states.newest.name) == base.robot.joint_names
    assert all(map(math.isfinite, base.states.newest.position))


def test_a_car_turns_its_wheels(bases, module_client):
    car = bases["car"]
    module_client.repeat(
        lambda: car.drive(0.4, 0.0, 0.4),
        lambda: car.joints()["Knuckle__Upright__Front_Left"] > 0.3,
        "the wheels to turn to the left",
    )
    # R = 1 m: the inner wheel turns more.
    wanted = {
        f"Knuckle__Upright__Front_{name}": math.atan(0.32 / radius)
        for name, radius in (("Left", 0.88), ("Right", 1.12))
    }
    module_client.repeat(
        lambda: car.drive(0.4, 0.0, 0.4),
        lambda: all(abs(car.joints()[name] - angle) < 0.02 for name, angle in wanted.items()),
        f"the wheels at {wanted}",
    )


def test_a_command_to_casters_is_left_out(bases, module_client):
    carter = bases["carter"]
    module_client.wait(carter.stands, "the base to stand")
    before = carter.joints()["joint_swing_left"]
    names = ["joint_wheel_left", "joint_swing_left"]
    message = JointState(name=names, velocity=[5.0, 5.0])
    module_client.repeat_for(lambda: carter.commands.publish(message), 0.5)
    assert carter.joints()["joint_swing_left"] == pytest.approx(before, abs=0.01)
    assert carter.stands()
