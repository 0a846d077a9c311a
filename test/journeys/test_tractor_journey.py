# SPDX-License-Identifier: Apache-2.0
"""A tractor that steers both axles, given as a file: driven over DDS in MuJoCo, judged by truth."""

import math
from itertools import pairwise
from pathlib import Path

import pytest
from geometry_msgs.msg import TwistStamped
from nav_msgs.msg import Odometry
from navigation_client import SUCCEEDED, NavigationClient, pose_of
from ros_client import RosClient

FILE = Path(__file__).parent.parent / "variety" / "tractor.urdf"
REACH, HALF_TRACK, MAX_WHEEL_ANGLE = 0.4, 0.33, 0.5
"""Distance of the axles from the middle [m], half their track [m], limit of the joints [rad]."""
RADIUS = 1.5
TIGHTEST = REACH / math.tan(MAX_WHEEL_ANGLE) + HALF_TRACK
"""Radius at which an inner wheel is at its limit [m]; with one steered axle it is 1.79 m."""
pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


class Tractor:
    """A client of the tractor."""

    def __init__(self, client: RosClient) -> None:
        self.client = client
        node = "/ackermann_steering_controller"
        self.odom = client.listen(Odometry, f"{node}/odom")
        self.truth = client.listen(Odometry, "/ground_truth")
        self.twist = client.publisher(TwistStamped, f"{node}/cmd_vel")

    def heard(self) -> bool:
        return bool(self.odom and self.truth)

    def stands(self) -> bool:
        twist = self.truth.newest.twist.twist
        return math.hypot(twist.linear.x, twist.linear.y) + abs(twist.angular.z) < 0.01

    def drive(self, speed: float, turn: float, seconds: float) -> list[Odometry]:
        """Drive for a simulated time; return the true poses from start to standstill."""
        for heard in (self.odom, self.truth):
            heard.clear()
        self.client.wait(self.heard, "odometry and truth")
        message = TwistStamped()
        message.twist.linear.x, message.twist.angular.z = speed, turn
        begin = time_of(self.truth.newest)
        self.client.repeat(
            lambda: self.twist.publish(message),
            lambda: time_of(self.truth.newest) - begin > seconds,
            f"{seconds} simulated seconds",
        )
        self.client.wait(self.stands, "the tractor to stand")
        self.client.spin(0.3)
        return list(self.truth.messages)

    def apart(self) -> tuple[float, float]:
        """Return distance [m] and angle [rad] between odometry and truth."""
        believed, true = pose_of(self.odom.newest), pose_of(self.truth.newest)
        turned = math.remainder(believed.yaw - true.yaw, math.tau)
        return math.dist((believed.x, believed.y), (true.x, true.y)), abs(turned)


def time_of(message: Odometry) -> float:
    return message.header.stamp.sec + message.header.stamp.nanosec * 1e-9


def way_and_turn(path: list[Odometry]) -> tuple[float, float]:
    """Return the length of a path [m] and its turn [rad]."""
    poses = [pose_of(message) for message in path]
    way = sum(math.dist((a.x, a.y), (b.x, b.y)) for a, b in pairwise(poses))
    return way, sum(math.remainder(b.yaw - a.yaw, math.tau) for a, b in pairwise(poses))


@pytest.fixture(scope="module")
def tractor(module_suite, module_client):
    """The running tractor, at the origin of the world."""
    processes = module_suite.bring_up(str(FILE), backend="mujoco", rate=100.0)
    found = Tractor(module_client)
    module_client.wait(found.heard, "the tractor", 90.0)
    yield found
    for process in processes.values():
        assert process.stop() == 0


@pytest.mark.parametrize(
    ("speed", "turn", "radius"),
    [
        (0.6, 0.6 / RADIUS, RADIUS),
        (-0.6, 0.6 / RADIUS, RADIUS),
        (0.6, -0.6 / RADIUS, RADIUS),
        (0.5, 2.0, TIGHTEST),
    ],
    ids=["left", "backward", "right", "tightest"],
)
def test_it_turns_about_the_commanded_centre(tractor, speed, turn, radius):
    path = tractor.drive(speed, turn, 3.0)
    way, turned = way_and_turn(path[len(path) // 3 :])  # after the steering has turned
    assert way > 0.5
    assert math.copysign(1.0, turned) == math.copysign(1.0, turn)
    assert way / abs(turned) == pytest.approx(radius, rel=0.05)
    distance, angle = tractor.apart()
    whole, swept = way_and_turn(path)
    assert distance < 0.03 * whole + 0.02
    assert angle < 0.03 * abs(swept) + 0.02


def test_the_navigator_parks_it_in_a_pose(tractor, module_client):
    navigator = NavigationClient(module_client)
    try:
        navigator.wait_for()
        here = pose_of(tractor.odom.newest)
        c, s = math.cos(here.yaw), math.sin(here.yaw)
        goal = (here.x + 2.5 * c - 1.0 * s, here.y + 2.5 * s + 1.0 * c, here.yaw + 0.6)
        call = navigator.go(goal)
        status, result = call.result(within=120.0)
        assert status == SUCCEEDED, result
        module_client.wait(tractor.stands, "the tractor to stand")
        module_client.spin(0.3)
        true, believed = pose_of(tractor.truth.newest), pose_of(tractor.odom.newest)
        # The navigator parks within 0.1 m and 0.25 rad; the rest is drift of the odometry.
        assert math.dist((believed.x, believed.y), goal[:2]) < 0.12
        assert math.dist((true.x, true.y), goal[:2]) < 0.35
        assert abs(math.remainder(true.yaw - goal[2], math.tau)) < 0.35
    finally:
        navigator.close()
