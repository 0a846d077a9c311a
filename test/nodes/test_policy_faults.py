# SPDX-License-Identifier: Apache-2.0
"""Falls, lost measurements and unusable files of policies; the policy's client of the planner."""

import math
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from policies.standing_policy import STANDING, write_standing_policy
from policies.walker import Walker
from rclpy.parameter import Parameter
from rclpy.task import Future
from sensor_msgs.msg import Imu, JointState
from std_msgs.msg import Float64MultiArray

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.extras.policies.policy_files import load_policy
from motion_nodes.nodes import rmpflow_policy
from motion_nodes.nodes.policy.policy_signals import Measurements
from motion_nodes.nodes.policy_controller import PolicyControllerNode
from motion_nodes.nodes.rmpflow_policy import ANSWER_TIMEOUT, PRESENCE_PERIOD, Escape
from motion_nodes.ros.diagnostics import Report

JOINTS = load_robot("go2").joint_names
PATIENT = 1.0
"""[s] Max age of measurements: the scripted robot may pause on a busy machine."""


class ScriptedGo2:
    """Joint states and IMU of a scripted robot."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.imu_on, self.tilt, self.covariance = True, 0.0, 0.0
        self._states = client.publisher(JointState, "/joint_states")
        self._imu = client.publisher(Imu, "/imu")
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(0.01):
            now = self.client.node.get_clock().now().to_msg()
            state = JointState(name=list(JOINTS), position=STANDING, velocity=[0.0] * 12)
            state.header.stamp = now
            self._states.publish(state)
            if self.imu_on:
                imu = Imu()
                imu.header.stamp = now
                imu.orientation.x = math.sin(0.5 * self.tilt)
                imu.orientation.w = math.cos(0.5 * self.tilt)
                imu.orientation_covariance[0] = self.covariance
                self._imu.publish(imu)


def broken(robot: ScriptedGo2, fault: str) -> None:
    """Break a measurement."""
    if fault == "stale IMU":
        robot.imu_on = False
    elif fault == "fall":
        robot.tilt = 1.3
    else:
        robot.covariance = -1.0


@pytest.mark.long
@pytest.mark.timeout(900)
def test_falls_and_lost_measurements_damp_the_motors(suite, client, tmp_path):
    folder = write_standing_policy(tmp_path)
    # No idle timeout: a late client would see "holding" before the fault.
    suite.node(
        "policy_controller", robot="go2", policy=str(folder), stand_up_time=0.2, max_tilt=1.0,
        idle_time=0.0, input_timeout=PATIENT,
    )  # fmt: skip
    robot = ScriptedGo2(client)
    try:
        walker = Walker(client)
        walker.wait("holding", 60.0)
        for fault in ("stale IMU", "fall", "no orientation"):
            walker.drive(0.5, "running")
            broken(robot, fault)
            walker.drive(0.5, "damped")
            assert not walker.ask("stand_up").success
            robot.imu_on, robot.tilt, robot.covariance = True, 0.0, 0.0
            for _ in range(100):
                if walker.ask("stand_up").success:
                    break
                client.spin(0.05)
            # The end of the last stream may start the policy as soon as the robot stands.
            client.wait(lambda: walker.mode in ("holding", "running"), "the robot to stand")
    finally:
        robot.close()


@contextmanager
def configured(robot: str, policy: object) -> Iterator[PolicyControllerNode]:
    node = PolicyControllerNode(
        ros_args=["--ros-args", "-p", f"robot:={robot}", "-p", f"policy:={policy}", "-p",
                  "autostart:=false"]
    )  # fmt: skip
    try:
        node.trigger_configure()
        yield node
    finally:
        node.destroy_node()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_network_that_is_slower_than_its_period_is_reported(ros, tmp_path):
    folder = write_standing_policy(tmp_path)
    with configured("go2", folder) as node:
        node.activate()
        for seconds, slow in ((0.01, False), (0.03, True)):
            node._inference.append(seconds)
            report = Report()
            node.diagnose(report)
            assert any("1 of 2 evaluations" in text for text in report.texts) == slow


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_changed_parameter_does_not_interrupt_the_command(ros, tmp_path):
    folder = write_standing_policy(tmp_path)
    with configured("go2", folder) as node:
        node.activate()
        assert node.notice().endswith("drive it by ~/cmd_vel")
        commands = node._commands
        commands._shaper.set_target([0.5, 0.0, 0.0])
        assert commands.step(1.0)[0] == 0.5
        values = [Parameter("cmd_vel_timeout", value=1.0),
                  Parameter("max_command", value=[0.2, 0.5, 1.5])]  # fmt: skip
        assert node.set_parameters_atomically(values).successful
        assert commands.moving
        rate = node.params.max_command_rate[0]
        assert commands.step(0.01)[0] == pytest.approx(0.5 - 0.01 * rate)
        assert commands.step(1.0)[0] == 0.2


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_policy_without_twists_is_started_by_its_service(ros):
    with configured("franka", "franka_drawer") as node:
        assert node.failure is None
        assert node.notice().endswith("; start it by ~/run")


class Newest:
    """A polled subscription with one message or none."""

    message: Any = None

    def newest(self) -> Any:
        message, self.message = self.message, None
        return message

    def numbered(self) -> list[Any]:
        return []


class PollingNode:
    """A node without ROS: its subscriptions by topic."""

    params = SimpleNamespace(input_timeout=100.0, observation_timeout=0.5, odometry_topic="odom")

    def __init__(self) -> None:
        self.topics: dict[str, Newest] = defaultdict(Newest)

    def poll(self, _: Any, topic: str, profile: Any) -> Newest:
        return self.topics[topic]

    poll_bytes = poll


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("what", ["orientation", "angular_velocity"])
def test_an_imu_without_a_measurement_is_a_fault(tmp_path, what):
    node, robot = PollingNode(), load_robot("go2")
    measured = Measurements(node, robot, load_policy(write_standing_policy(tmp_path), robot))
    measured._at["joint_states"] = 0.0
    message = Imu()
    message.orientation.w = 1.0
    for number, covariance in enumerate((0.0, -1.0, 0.0)):
        getattr(message, f"{what}_covariance")[0] = covariance
        node.topics["imu"].message = message
        measured.take(0.1 * number)
        expected = f"the IMU reports no {what} (covariance -1)" if covariance else ""
        assert measured.fault(0.1 * number) == expected


@pytest.mark.long
@pytest.mark.timeout(900)
def test_observations_of_others_must_be_there_and_fresh():
    node, robot = PollingNode(), load_robot("franka")
    measured = Measurements(node, robot, load_policy("franka_drawer", robot))
    measured._at["joint_states"] = 0.0
    terms = [topic for topic in node.topics if "observations" in topic]
    assert len(terms) == 3
    for now, topic in enumerate(terms):
        assert "waiting" in measured.fault(0.1 * now)
        node.topics[topic].message = Float64MultiArray(data=[0.1])
        measured.take(0.1 * now)
    assert measured.fault(0.45) == ""
    assert measured.fault(0.55) == f"no {terms[0]} for 0.55 s"
    measured.forget()
    measured._at["joint_states"] = 0.0
    assert "waiting" in measured.fault(0.1)


PARAMS = SimpleNamespace(group="arm", escape_planning_time=1.0)


class ScriptedPlanner:
    """An action client of a planner that accepts goals and never sends a result."""

    def __init__(self) -> None:
        self.present, self.canceled = True, 0
        self.response: Future = Future()

    def server_is_ready(self) -> bool:
        return self.present

    def send_goal_async(self, goal: object) -> Future:
        return self.response

    def accept(self) -> None:
        handle = SimpleNamespace(
            accepted=True, get_result_async=Future, cancel_goal_async=self._cancel
        )
        self.response.set_result(handle)

    def _cancel(self) -> None:
        self.canceled += 1


class ScriptedFollower:
    """A follower that waits for an escape."""

    def __init__(self) -> None:
        self.policy = SimpleNamespace(tool="panda_hand_tcp")
        self.escape_target = SimpleNamespace(X_WT=np.eye(4), oriented=True)
        self.faults: list[str] = []

    def hand_back(self, now: float, fault: str, *, impossible: bool) -> None:
        self.faults.append(fault)
        self.escape_target = None


@pytest.fixture
def cell(monkeypatch):
    """An escape with a scripted planner, follower and clock."""
    made = SimpleNamespace(planner=ScriptedPlanner(), follower=ScriptedFollower(), now=0.0)
    monkeypatch.setattr(rmpflow_policy, "action_client", lambda *_: made.planner)
    monkeypatch.setattr(rmpflow_policy, "time", SimpleNamespace(monotonic=lambda: made.now))
    node = SimpleNamespace(warn=lambda *_: None)
    escape = Escape(node, SimpleNamespace(submit=lambda job: job()), "move_action")

    def step(dt: float) -> None:
        made.now += dt
        escape.update(made.follower, PARAMS, "panda_link0", made.now)

    made.step = step
    step(0.0)
    return made


def test_a_planner_that_does_not_respond_is_given_up(cell):
    cell.step(ANSWER_TIMEOUT - 0.1)
    assert not cell.follower.faults
    cell.step(0.2)
    assert cell.follower.faults == ["no response of a planner at move_action"]


def test_a_planner_that_ends_during_an_escape_is_given_up(cell):
    cell.planner.accept()
    for _ in range(100):
        cell.step(PRESENCE_PERIOD)
    assert not cell.follower.faults, "an escape may take long"
    cell.planner.present = False
    cell.step(ANSWER_TIMEOUT - PRESENCE_PERIOD)
    assert not cell.follower.faults, "discovery may have gaps"
    cell.step(2.0 * PRESENCE_PERIOD)
    assert cell.follower.faults == ["no response of a planner at move_action"]
    assert cell.planner.canceled == 1
