# SPDX-License-Identifier: Apache-2.0
"""Suites with the drivers of real robots: all kinds of motion, the stop, and a fault."""

import os
from pathlib import Path
from typing import Any

import pytest
from contracts.declared_interfaces import endpoints_of, expected
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import TwistStamped
from hardware.driver_journey import DriverJourney
from hardware.fake_controllers import ROBOTS, FakeController, ready_state, robot_folder
from hardware.fake_process import FakeProcess
from joint_client import ABORTED, SUCCEEDED
from long_params import shortened
from nav_msgs.msg import Odometry
from navigation_client import NavigationClient
from ros_client import RosClient
from ros_processes import Suite
from std_srvs.srv import SetBool, Trigger

from motion_nodes.bringup.bringup_config import HardwareOptions
from motion_nodes.core.robot.loader import load_robot

pytestmark = pytest.mark.real_time
DRIVER, BASE = "/robot_driver", "/diff_drive_controller"
TESTS = Path(__file__).parents[1]
WITHOUT = ("robot_state", "ik_service", "trajectory_generator", "controller_manager")
NEAR = 0.01
"""[rad] Servos have 4096 positions per turn."""
PATIENT: dict[str, dict[str, Any]] = {
    "feetech": {"reply_timeout": 0.9},
    "dynamixel": {"reply_timeout": 0.9},
    "ur": {"rate": 125.0, "max_silence": 0.5, "link_timeout": 1.0},
    "xarm": {"link_timeout": 2.0},
    "two_wheels": {"reply_timeout": 0.9},
}
"""Settings for a busy machine."""
PARAMETERS = """
/**/joint_trajectory_controller: {ros__parameters: {state_timeout: 3.0, tracking_lag: 0.8}}
/**/robot_driver: {ros__parameters: {command_timeout: 1.0, command_latency: 0.06, max_delay: 5.0}}
"""
"""For a busy machine, too."""


FAULTS = {
    "ur": "PROTECTIVE_STOP",
    "feetech": "elbow_flex: overload",
    "dynamixel": "joint3: overheated",
    "xarm": "Collision Caused",
}
"""What is said of each controller's fault."""


class Bench:
    """Brings up a robot with its driver."""

    def __init__(self, suite: Suite, client: RosClient, folder: Path) -> None:
        self.suite, self.client, self._folder = suite, client, folder
        self._params = folder / "params.yaml"
        self._params.write_text(PARAMETERS)

    def start(self, driver: str, controller: FakeController) -> None:
        robot = robot_folder(driver, controller, self._folder, **PATIENT.get(driver, {}))
        self.suite.bring_up(
            robot,
            params_file=str(self._params),
            backend="hardware",
            hardware=HardwareOptions(device=controller.device),
            without=WITHOUT,
        )

    def arm(self, driver: str, controller: FakeController) -> DriverJourney:
        self.start(driver, controller)
        robot = load_robot(ROBOTS[driver])
        made = DriverJourney(self.client, robot, ready_state(driver), speed=0.5)
        made.arm.wait_for()
        made.planner.wait()
        return made


@pytest.fixture
def bench(suite, client, tmp_path):
    return Bench(suite, client, tmp_path)


@pytest.fixture
def host():
    """A loopback address of this process, because some ports are fixed."""
    return f"127.{os.getpid() >> 16 & 255}.{os.getpid() >> 8 & 255}.{max(1, os.getpid() & 255)}"


@pytest.fixture
def controllers(host):
    made: list[FakeProcess] = []

    def start(driver: str) -> FakeProcess:
        made.append(FakeProcess(driver, host))
        return made[-1]

    yield start
    for controller in made:
        controller.close()


def moves_in_all_ways(journey: DriverJourney) -> None:
    for name, part in journey.parts(NEAR).items():
        try:
            part()
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}; {journey.reports()}") from error


@pytest.mark.parametrize("driver", shortened(FAULTS, 1))
def test_an_arm_moves_in_all_ways_and_a_fault_holds_it_until_a_reset(bench, controllers, driver):
    controller, client = controllers(driver), bench.client
    journey = bench.arm(driver, controller.controller)
    promised = {e for e in expected({"": "real"}) if e.node == DRIVER}
    assert endpoints_of(client, DRIVER) == promised
    moves_in_all_ways(journey)
    controller.fail()
    client.wait_for_diagnosis(DRIVER, FAULTS[driver], level=DiagnosticStatus.ERROR)
    controller.mend()
    client.wait(lambda: client.call(Trigger, f"{DRIVER}/reset").success, "a reset that is accepted")
    client.wait_for_diagnosis(journey.arm.controller, "holding")
    journey.trajectory(NEAR)

    assert client.call(SetBool, f"{DRIVER}/enable", SetBool.Request(data=False)).success
    controller.close()
    client.wait_for_diagnosis(journey.arm.controller, "joint_states")
    journey.close()


def test_a_franka_moves_in_all_ways(bench, host):
    """With a stand-in of franky; franky itself is tested in test_franka_sim.py."""
    folders = (TESTS / "hardware" / "franky_standin", TESTS)
    bench.suite.environment["PYTHONPATH"] = ":".join(map(str, folders))
    bench.suite.environment["FRANKY_HOST"] = host
    bench.suite.fork = False  # A template has its own path.
    journey = bench.arm("franka", FakeController(host, {"link_timeout": 1.0}))
    moves_in_all_ways(journey)
    journey.close()


def test_a_base_drives_navigates_stops_and_holds_while_its_board_sends_garbage(bench, controllers):
    controller, client = controllers("two_wheels"), bench.client
    bench.start("two_wheels", controller.controller)
    navigator = NavigationClient(client)
    navigator.wait_for()
    odometry = client.listen(Odometry, f"{BASE}/odom")
    publisher = client.publisher(TwistStamped, f"{BASE}/cmd_vel")
    twist = TwistStamped()
    twist.twist.linear.x = 0.2

    def x() -> float:
        return float(odometry.newest.pose.pose.position.x) if odometry else 0.0

    def speed() -> float:
        return abs(odometry.newest.twist.twist.linear.x) if odometry else 0.0

    client.repeat(lambda: publisher.publish(twist), lambda: x() > 0.15, "15 cm by twists")
    client.wait(lambda: speed() < 0.01, "rest without twists")
    status, _ = navigator.go((x() + 0.2, 0.05, 0.0)).result()
    assert status == SUCCEEDED
    call = navigator.go((x() + 2.0, 0.0, 0.0))
    assert call.accepted()
    client.wait(lambda: speed() > 0.1, "motion")
    assert client.call(Trigger, f"{BASE}/stop").success
    assert call.result()[0] == ABORTED
    client.wait(lambda: speed() < 0.01, "rest after the stop")
    assert client.call(Trigger, f"{BASE}/resume").success

    controller.fail()
    client.wait_for_diagnosis(BASE, "joint_states")
    controller.mend()
    client.wait(lambda: client.call(Trigger, f"{DRIVER}/reset").success, "a reset that is accepted")
    client.repeat(lambda: publisher.publish(twist), lambda: speed() > 0.1, "motion again")
    navigator.close()
