# SPDX-License-Identifier: Apache-2.0
"""Suites with the drivers of real arms: all ways to move, the stop, and a fault on the way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from contracts.declared_interfaces import endpoints_of, expected
from diagnostic_msgs.msg import DiagnosticStatus
from hardware.driver_journey import DriverJourney
from hardware.fake_process import FakeProcess
from hardware.standins import ROBOTS, ready_state, robot_folder
from ros_processes import RosClient, Suite
from std_srvs.srv import SetBool, Trigger

from motion_nodes.bringup.bringup_config import HardwareOptions
from motion_nodes.model.loader import load_robot

DRIVER = "/robot_driver"
WITHOUT = ("robot_state", "ik_service", "trajectory_generator", "controller_manager")
NEAR = 0.01
"""[rad] Servos have 4096 positions per turn."""
PATIENT: dict[str, dict[str, Any]] = {
    "feetech": {"reply_timeout": 0.3},
    "dynamixel": {"reply_timeout": 0.3},
    "ur": {"rate": 125.0, "max_silence": 0.5, "link_timeout": 1.0},
    "xarm": {"link_timeout": 2.0},
}
"""Settings for a busy machine."""
PARAMETERS = (
    "/**/joint_trajectory_controller: {ros__parameters: {state_timeout: 3.0, tracking_lag: 0.8}}"
)


FAULTS = {
    "feetech": "elbow_flex: overload",
    "dynamixel": "joint3: overheated",
    "ur": "PROTECTIVE_STOP",
    "xarm": "Collision Caused",
}
"""What is said of each controller's fault."""


@pytest.fixture(params=list(FAULTS))
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def controller(driver: str) -> Iterator[FakeProcess]:
    host = f"127.{os.getpid() >> 16 & 255}.{os.getpid() >> 8 & 255}.{max(1, os.getpid() & 255)}"
    made = FakeProcess(driver, host)
    yield made
    made.close()


@pytest.fixture
def journey(
    suite: Suite, client: RosClient, driver: str, controller: FakeProcess, tmp_path: Path
) -> Iterator[DriverJourney]:
    params = tmp_path / "params.yaml"
    params.write_text(PARAMETERS)
    suite.bring_up(
        robot_folder(driver, controller.standin, tmp_path, **PATIENT[driver]),
        params_file=str(params),
        backend="hardware",
        hardware=HardwareOptions(device=controller.standin.device),
        without=WITHOUT,
    )
    made = DriverJourney(client, load_robot(ROBOTS[driver]), ready_state(driver))
    made.arm.wait_for()
    made.planner.wait()
    yield made
    made.close()


def test_an_arm_moves_in_all_ways_and_a_fault_holds_it_until_a_reset(
    journey: DriverJourney, driver: str, controller: FakeProcess
) -> None:
    client = journey.client
    promised = {e for e in expected({"": "real"}) if e.node == DRIVER}
    assert endpoints_of(client, DRIVER) == promised
    for name, part in journey.parts(NEAR).items():
        try:
            part()
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}; {journey.reports()}") from error
    controller.fail()
    client.wait_for_diagnosis(DRIVER, FAULTS[driver], level=DiagnosticStatus.ERROR)
    controller.mend()
    client.wait(lambda: client.call(Trigger, f"{DRIVER}/reset").success, "a reset that is accepted")
    client.wait_for_diagnosis(journey.arm.controller, "holding")
    journey.trajectory(NEAR)

    assert client.call(SetBool, f"{DRIVER}/enable", SetBool.Request(data=False)).success
    controller.close()
    client.wait_for_diagnosis(journey.arm.controller, "joint_states")
