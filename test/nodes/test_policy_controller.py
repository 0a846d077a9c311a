# SPDX-License-Identifier: Apache-2.0
"""The policy controller over DDS: standing, twists, stops and bad messages."""

import math

import numpy as np
import pytest
from control_msgs.msg import DynamicJointState
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry
from policies.standing_policy import STANDING, write_standing_policy
from policies.walker import Walker
from ros_client import LATCHED
from sensor_msgs.msg import Imu
from std_msgs.msg import Empty

from motion_nodes.core.robot.loader import load_robot

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
JOINTS = load_robot("go2").joint_names


@pytest.fixture(scope="module")
def walker(module_suite, module_client, tmp_path_factory):
    """A Go2 in MuJoCo with a policy that stands."""
    folder = write_standing_policy(tmp_path_factory.mktemp("policy"), command_gain=0.1)
    module_suite.bring_up("go2", policies=(str(folder),), without=("robot_state",))
    made = Walker(module_client)
    made.wait("holding", 60.0)
    return made


def test_it_stands_up_and_the_simulation_has_its_imu(walker):
    imus, truth = walker.client.listen(Imu, "/imu"), walker.client.listen(Odometry, "/ground_truth")
    walker.client.wait(lambda: len(imus) and len(truth), "IMU and ground truth")
    assert truth.newest.pose.pose.position.z > 0.28
    assert imus.newest.linear_acceleration.z == pytest.approx(9.81, abs=1.0)
    assert abs(imus.newest.orientation.w) > 0.9
    walker.client.wait(
        lambda: walker.gains and math.isnan(walker.stiffness()), "the drives' own gains"
    )


@pytest.mark.long
def test_a_twist_starts_the_policy_and_its_end_holds(walker):
    walker.drive(0.5, "running")
    message = Twist()
    message.linear.x = 0.5
    walker.client.repeat(
        lambda: walker.twist.publish(message),
        lambda: walker.stiffness() == 100.0,
        "gains of training",
    )
    expected = np.array(STANDING) + 0.2 * 0.1 * 0.5

    def near() -> bool:
        newest = walker.commands.newest
        return bool(np.allclose(newest.position, expected, atol=1e-4))

    walker.client.repeat(lambda: walker.twist.publish(message), near, "the policy's targets")
    assert list(walker.commands.newest.name) == list(JOINTS)
    walker.wait("holding")
    walker.client.wait(lambda: math.isnan(walker.stiffness()), "the drives' own gains")


def test_invalid_gains_are_ignored_by_the_simulation(walker):
    gains = walker.client.publisher(DynamicJointState, "/joint_gains", LATCHED)
    truth = walker.client.listen(Odometry, "/ground_truth")
    for names, values in ((["nose"], []), ([JOINTS[0]], [])):
        gains.publish(DynamicJointState(joint_names=names, interface_values=values))
    truth.clear()
    walker.client.wait(lambda: len(truth) > 10, "the simulation")
    assert truth.newest.pose.pose.position.z > 0.28


def test_a_stop_leads_to_holding_and_refuses_commands_until_the_resume(walker):
    walker.drive(0.5, "running")
    stop = walker.client.publisher(Empty, "/stop")
    walker.client.repeat(
        lambda: stop.publish(Empty()), lambda: walker.mode == "holding", "holding after the stop"
    )
    message = Twist()
    message.linear.x = 0.5
    walker.client.repeat_for(lambda: walker.twist.publish(message), 0.5)
    assert walker.mode == "holding"
    assert not walker.ask("run").success
    assert walker.ask("resume").success
    walker.client.spin(0.7)
    walker.drive(0.5, "running")
    walker.wait("holding")
