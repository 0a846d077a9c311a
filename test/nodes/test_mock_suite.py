# SPDX-License-Identifier: Apache-2.0
"""The whole suite on the backend without physics: the same topics, the same behaviour."""

import math
from types import SimpleNamespace

import pytest
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry
from ros_client import BEST_EFFORT, RosClient, values_of
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from motion_nodes.core.robot.loader import load_robot

ARM = "/cell/arm/joint_trajectory_controller"
BASE = "/cell/base/diff_drive_controller"
FRANKA = load_robot("franka")
NODES = (BASE, ARM, "/cell/arm/robot_state", "/mock_sim")


@pytest.fixture(scope="module")
def suite_of_two(module_suite, module_client):
    """A Franka and a JetBot under the namespace of a cell, without autostart."""
    module_suite.bring_up(
        "arm:=franka", "base:=jetbot@1,0,0", backend="mock", namespace="cell", autostart=False,
        stamped_cmd_vel=False,
    )  # fmt: skip
    return SimpleNamespace(
        client=module_client,
        states=module_client.listen(JointState, "/cell/arm/joint_states", BEST_EFFORT),
        odom=module_client.listen(Odometry, f"{BASE}/odom"),
        truth=module_client.listen(Odometry, "/cell/base/ground_truth"),
        wheels=module_client.listen(JointState, "/cell/base/joint_command"),
    )


def lead(client: RosClient, node: str) -> None:
    """Configure and activate a node."""
    assert client.change_state(node, "configure")
    assert client.change_state(node, "activate")
    assert client.state(node) == "active"


def test_nothing_starts_by_itself(suite_of_two):
    client = suite_of_two.client
    for node in ("/mock_sim", ARM, BASE, "/cell/arm/robot_state", "/cell/base/robot_state"):
        assert client.state(node) == "unconfigured"
        client.wait_for_diagnosis(node, "unconfigured")
    client.spin(0.2)
    assert not suite_of_two.states


def test_led_by_a_client(suite_of_two):
    """In any order: nodes wait for each other."""
    client = suite_of_two.client
    for node in NODES:
        lead(client, node)
    client.wait_for_diagnosis(ARM, "holding")
    client.wait_for_diagnosis(BASE, "no command yet")


def test_joint_command(suite_of_two):
    client = suite_of_two.client
    publisher = client.publisher(JointState, f"{ARM}/reference")
    goal = {"panda_joint2": -0.4, "panda_joint7": 1.0}
    client.wait(lambda: suite_of_two.states, "joint_states")

    def away() -> float:
        message = suite_of_two.states.newest
        joints = dict(zip(message.name, message.position, strict=True))
        return max(abs(joints[name] - value) for name, value in goal.items())

    client.repeat(
        lambda: publisher.publish(JointState(name=list(goal), position=list(goal.values()))),
        lambda: away() < 1e-3,
        "the arm at its goal",
        rate=2.0,
    )
    assert list(suite_of_two.states.newest.name) == list(FRANKA.joint_names)


def test_twist(suite_of_two):
    client = suite_of_two.client
    publisher = client.publisher(Twist, "/cell/base/cmd_vel")
    twist = Twist()
    twist.linear.x, twist.angular.z = 0.2, 0.5
    client.repeat(
        lambda: publisher.publish(twist),
        lambda: suite_of_two.odom and suite_of_two.odom.newest.pose.pose.position.x > 0.2,
        "the base to drive",
    )
    # Pending zeros may be from a pause of this process, before the last twist.
    wheels = suite_of_two.wheels
    wheels.clear()
    client.wait(lambda: wheels and not any(wheels.newest.velocity), "the wheels to stand")
    client.spin(0.2)

    def agree() -> bool:
        odom, truth = (h.newest.pose.pose.position for h in (suite_of_two.odom, suite_of_two.truth))
        # Without physics nothing slips; the robot stands at (1, 0).
        return math.hypot(truth.x - 1.0 - odom.x, truth.y - odom.y) < 1e-3

    client.wait(agree, "odometry of the robot's position")
    assert suite_of_two.odom.newest.header.frame_id == "cell/base/odom"
    assert suite_of_two.odom.newest.child_frame_id == "cell/base/base_link"


def test_real_time_factor(suite_of_two):
    client = suite_of_two.client
    assert client.set_parameters("/mock_sim", real_time_factor=0.5).successful

    def halved() -> bool:
        status = client.diagnostics("/mock_sim")
        return abs(float(values_of(status).get("real-time factor", 1.0)) - 0.5) < 0.1

    client.wait(halved, "simulated time at half speed")
    assert client.set_parameters("/mock_sim", real_time_factor=1).successful


def test_reset(suite_of_two):
    client = suite_of_two.client
    before = suite_of_two.states.newest.header.stamp.sec
    answer = client.call(Trigger, "/mock_sim/reset")
    assert answer.success
    assert answer.message == "the simulation was reset"
    suite_of_two.states.clear()
    # Some from before the reset may still arrive.
    client.wait(
        lambda: suite_of_two.states and suite_of_two.states.newest.header.stamp.sec < before,
        "states with an earlier time",
    )
    home = dict(zip(FRANKA.joint_names, FRANKA.home, strict=True))
    client.wait_for_diagnosis(ARM, "holding")
    message = suite_of_two.states.newest
    for name, position in zip(message.name, message.position, strict=True):
        assert position == pytest.approx(home[name], abs=0.02)
