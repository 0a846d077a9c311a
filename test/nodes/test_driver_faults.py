# SPDX-License-Identifier: Apache-2.0
"""Controllers with a faulty driver, which the test plays."""

import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import Twist
from ros_client import BEST_EFFORT, RosClient
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState

from motion_nodes.core.control.stream_resampler import StreamSample
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.nodes.robot_driver import RobotDriverNode
from motion_nodes.ros.messages.joint_channels import JointChannels

CONTROLLER = "/joint_trajectory_controller"
BASE = "/diff_drive_controller"
FRANKA = load_robot("franka")
HOME = dict(zip(FRANKA.joint_names, FRANKA.home.tolist(), strict=True))
ARM = {name: value for name, value in HOME.items() if "finger" not in name}
FINGERS = {name: value for name, value in HOME.items() if "finger" in name}
WHEELS = {"left_wheel_joint": 0.0, "right_wheel_joint": 0.0}


class Driver:
    """Publishes given joint states."""

    def __init__(self, client: RosClient) -> None:
        self.client = client
        self.publisher = client.publisher(JointState, "/joint_states")
        self.commands = client.listen(JointState, "/joint_command", BEST_EFFORT)

    def state(self, *parts: Mapping[str, float], stamped: bool = True) -> None:
        for part in parts:
            message = JointState(name=list(part), position=list(part.values()))
            if stamped:
                message.header.stamp = self.client.node.get_clock().now().to_msg()
            self.publisher.publish(message)

    def until(self, condition: Callable[[], object], what: str, *parts: Mapping[str, float]):
        """Publish states at 50 Hz until a condition holds."""
        return self.client.repeat(lambda: self.state(*parts), condition, what, rate=50.0)

    def until_diagnosed(
        self, node: str, text: str, *parts: Mapping[str, float], level: bytes | None = None
    ) -> DiagnosticStatus:
        def found() -> DiagnosticStatus | None:
            status = self.client.diagnostics(node)
            right = status is not None and text in status.message
            return status if right and level in (None, status.level) else None

        return self.until(found, f"{node} diagnoses '{text}'", *parts)


@pytest.fixture
def arm(suite, client):
    """A controller in wall time, and a driver that has not published yet."""
    suite.node("articulation_controller", robot="franka")
    driver = Driver(client)
    client.wait_for_diagnosis(CONTROLLER, "waiting for joint_states")
    return driver


@pytest.mark.long
def test_arm_and_gripper_from_two_drivers(arm):
    """One of them dies."""
    status = arm.until_diagnosed(CONTROLLER, "not reported: ", ARM)
    assert all(name in status.message for name in FINGERS)
    assert not any(name in status.message for name in ARM)
    assert not arm.commands, "nothing may be commanded before all joints are known"
    arm.until_diagnosed(CONTROLLER, "holding", dict(reversed(ARM.items())), FINGERS)
    arm.until(lambda: arm.commands, "commands", ARM, FINGERS)
    np.testing.assert_allclose(arm.commands.newest.position, FRANKA.home, atol=1e-9)
    status = arm.until_diagnosed(CONTROLLER, "no joint_states for", ARM)
    assert f"of {', '.join(FINGERS)}" in status.message
    assert status.level == DiagnosticStatus.ERROR
    arm.until_diagnosed(CONTROLLER, "holding", ARM, FINGERS)


def test_a_robot_that_comes_back_elsewhere_is_held_there(arm):
    arm.until_diagnosed(CONTROLLER, "holding", HOME)
    arm.client.wait_for_diagnosis(CONTROLLER, "commands are refused", DiagnosticStatus.ERROR)
    elsewhere = {name: value + 0.3 * (name in ARM) for name, value in HOME.items()}
    begin = arm.client.node.get_clock().now().nanoseconds * 1e-9

    def since() -> list[JointState]:
        heard = arm.commands.messages
        return [m for m in heard if m.header.stamp.sec + 1e-9 * m.header.stamp.nanosec > begin]

    arm.until_diagnosed(CONTROLLER, "holding", elsewhere)
    arm.until(since, "commands", elsewhere)
    for message in since():
        positions = dict(zip(message.name, message.position, strict=True))
        assert max(abs(positions[name] - elsewhere[name]) for name in ARM) < 1e-6


def drive(client: RosClient) -> Callable[[], None]:
    publisher = client.publisher(Twist, f"{BASE}/cmd_vel_unstamped")
    twist = Twist()
    twist.linear.x = 0.2
    return lambda: publisher.publish(twist)


@pytest.mark.long
@pytest.mark.parametrize("unlimited", [False, True])
def test_no_clock_no_motion(suite, client, unlimited):
    """Simulated time that never begins: no timeout would ever end a command."""
    limits = {"linear__x__max_acceleration": 1000.0} if unlimited else {}
    base = suite.node("differential_base", robot="jetbot", use_sim_time=True, **limits)
    driver, send = Driver(client), drive(client)

    def both() -> None:
        driver.state(WHEELS, stamped=False)
        send()

    refusal = "command refused: /clock does not advance"
    client.repeat(both, lambda: refusal in base.output, "refusal")
    client.repeat(both, lambda: len(driver.commands) > 20, "wheel commands")
    assert not any(any(message.velocity) for message in driver.commands.messages)
    driver.until_diagnosed(BASE, "/clock does not advance", WHEELS, level=DiagnosticStatus.WARN)
    clock = client.publisher(Clock, "/clock")
    begun = time.monotonic()

    def all_three() -> None:
        message = Clock()
        seconds = 100.0 + time.monotonic() - begun
        message.clock.sec = int(seconds)
        message.clock.nanosec = int(seconds % 1.0 * 1e9)
        clock.publish(message)
        both()

    client.repeat(all_three, lambda: any(driver.commands.newest.velocity), "motion", rate=50.0)
    # The clock dies while commands go on.
    client.repeat(both, lambda: not any(driver.commands.newest.velocity), "the stop", rate=50.0)


def test_commands_are_refused_until_the_wheels_are_known(suite, client):
    base = suite.node("differential_base", robot="jetbot")
    driver, send = Driver(client), drive(client)
    client.repeat(
        send, lambda: "command refused: waiting for joint_states" in base.output, "the refusal"
    )
    client.wait(lambda: driver.commands, "commands")
    assert not any(any(message.velocity) for message in driver.commands.messages)

    def both() -> None:
        driver.state(WHEELS)
        send()

    client.repeat(both, lambda: any(driver.commands.newest.velocity), "motion")


ROBOT = load_robot("franka")

ARM_DRIVER_COMMANDS = ROBOT.arm_joints[:7]
"""A driver without the hand."""


class _Node(RobotDriverNode):
    """The node without ROS."""

    def __init__(self, *messages: JointState) -> None:
        self.accepted: list[StreamSample] = []
        self.warnings: list[str] = []
        self._commands = SimpleNamespace(all=lambda: messages)
        self._channels = JointChannels(ROBOT.joint_names, ROBOT.name)
        self._indices = ROBOT.indices(ARM_DRIVER_COMMANDS)
        self.session = SimpleNamespace(command=lambda *parts: self.accepted.append(parts[2]))
        self.warn = lambda _, text: self.warnings.append(text)
        self._take_commands(1)


def test_joints_that_the_driver_does_not_move_are_left_out():
    names = list(reversed(ROBOT.joint_names))
    positions = np.arange(float(len(names)))
    node = _Node(JointState(name=names, position=positions.tolist()))
    (sample,) = node.accepted
    assert sample.position.tolist() == [
        positions[names.index(joint)] for joint in ARM_DRIVER_COMMANDS
    ]
    assert np.isnan(sample.velocity).all()


@pytest.mark.parametrize("channel", ["position", "velocity", "effort"])
@pytest.mark.parametrize("count", [1, 8, 10])
def test_arrays_of_another_length_are_refused_as_a_whole(channel, count):
    n = len(ROBOT.joint_names)
    channels = {"position": [0.0] * n, "velocity": [0.0] * n} | {channel: [0.0] * count}
    node = _Node(JointState(name=list(ROBOT.joint_names), **channels))
    assert not node.accepted
    assert len(node.warnings) == 1


def test_unknown_joints_are_refused():
    node = _Node(JointState(name=[*ARM_DRIVER_COMMANDS, "elbow"], position=[0.0] * 8))
    assert not node.accepted
    assert "elbow" in node.warnings[0]
