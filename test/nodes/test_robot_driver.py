# SPDX-License-Identifier: Apache-2.0
"""The driver node between a joint controller and servos on a pseudo terminal."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from contracts.declared_interfaces import endpoints_of, expected
from diagnostic_msgs.msg import DiagnosticStatus
from hardware.fake_feetech import FakeFeetechBus, so101_bus
from joint_client import SUCCEEDED, JointClient, smooth
from ros_processes import RosClient, Suite
from std_srvs.srv import SetBool, Trigger

from motion_nodes.bringup.bringup_config import HardwareOptions
from motion_nodes.model.loader import load_robot

DRIVER = "/robot_driver"
ERROR = DiagnosticStatus.ERROR
WITHOUT = (
    "robot_state", "ik_service", "rmpflow_policy", "trajectory_generator", "controller_manager",
    "rrt_planner",
)  # fmt: skip


def driver_state(client: RosClient) -> str:
    status = client.diagnostics(DRIVER)
    values = {} if status is None else {entry.key: entry.value for entry in status.values}
    return values.get("driver state", "")


@pytest.fixture
def bus() -> Iterator[FakeFeetechBus]:
    fake = so101_bus()
    yield fake
    fake.close()


@pytest.fixture
def patient_so101(tmp_path: Path) -> str:
    """A copy of the robot whose driver waits for answers of a fake bus on a busy machine."""
    folder = tmp_path / "so101"
    shutil.copytree(load_robot("so101").directory, folder)
    file = folder / "robot.yaml"
    text = file.read_text()
    file.write_text(text.replace("    rate: 100.0", "    reply_timeout: 0.3\n    rate: 100.0"))
    return str(folder)


@pytest.fixture
def arm(
    suite: Suite, client: RosClient, bus: FakeFeetechBus, patient_so101: str, tmp_path: Path
) -> Iterator[JointClient]:
    hardware = HardwareOptions(device=bus.device)
    params = tmp_path / "params.yaml"
    params.write_text("/**/joint_trajectory_controller: {ros__parameters: {state_timeout: 3.0}}")
    suite.bring_up(
        patient_so101,
        params_file=str(params),
        backend="hardware",
        hardware=hardware,
        without=WITHOUT,
    )
    made = JointClient(client)
    made.wait_for()
    client.wait(lambda: driver_state(client) == "enabled", "the drives enabled")
    yield made
    made.close()


def test_trajectory_moves_servos_and_a_fault_holds_them_until_a_reset(
    arm: JointClient, client: RosClient, bus: FakeFeetechBus
) -> None:
    assert all(servo.torque for servo in bus.servos.values())
    promised = {e for e in expected({"": "real"}) if e.node == DRIVER}
    assert endpoints_of(client, DRIVER) == promised
    goal = {"shoulder_pan": 0.3, "wrist_flex": -0.2}
    status, result = arm.follow(smooth(goal, 1.0)).result()
    assert status == SUCCEEDED, result.error_string
    client.wait(lambda: abs(arm.joints["shoulder_pan"] - 0.3) < 5e-3, "the arm at its goal")

    bus.servos[3].error = 0x20
    client.wait_for_diagnosis(DRIVER, "elbow_flex: overload", level=ERROR)
    assert not client.call(Trigger, f"{DRIVER}/reset").success
    bus.servos[3].error = 0
    client.wait(lambda: client.call(Trigger, f"{DRIVER}/reset").success, "a reset that is accepted")
    client.wait(lambda: driver_state(client) == "enabled", "the drives enabled again")
    client.wait_for_diagnosis(arm.controller, "holding")
    status, result = arm.follow(smooth({"shoulder_pan": 0.0}, 1.0)).result()
    assert status == SUCCEEDED, result.error_string

    assert client.call(SetBool, f"{DRIVER}/enable", SetBool.Request(data=False)).success
    client.wait(lambda: not any(s.torque for s in bus.servos.values()), "the torque off")

    bus.unplug()
    client.wait_for_diagnosis(DRIVER, "plugged in")
    client.wait_for_diagnosis(arm.controller, "joint_states")
