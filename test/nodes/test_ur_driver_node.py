# SPDX-License-Identifier: Apache-2.0
"""The driver node between a joint controller and a UR5e's controller on loopback."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from hardware.fake_ur_controller import FakeUrController
from joint_client import SUCCEEDED, JointClient, smooth
from ros_processes import RosClient, Suite
from std_srvs.srv import Trigger

from motion_nodes.bringup.bringup_config import HardwareOptions
from motion_nodes.model.loader import load_robot

DRIVER = "/robot_driver"
ERROR = DiagnosticStatus.ERROR
READY = [0.0, -1.571, 1.571, -1.571, -1.571, 0.0]
WITHOUT = (
    "robot_state", "ik_service", "rmpflow_policy", "trajectory_generator", "controller_manager",
    "rrt_planner",
)  # fmt: skip


@pytest.fixture
def controller() -> Iterator[FakeUrController]:
    fake = FakeUrController()
    fake.arm.q = list(READY)
    yield fake
    fake.close()


@pytest.fixture
def arm(
    suite: Suite, client: RosClient, controller: FakeUrController, tmp_path: Path
) -> Iterator[JointClient]:
    folder = tmp_path / "ur5e"
    shutil.copytree(load_robot("ur5e").directory, folder)
    ports = "".join(f"    {name}: {port}\n" for name, port in controller.settings.items())
    with (folder / "robot.yaml").open("a") as file:
        # Patient, for a busy machine.
        patient = "    rate: 125.0\n    max_silence: 0.5\n    link_timeout: 1.0\n"
        file.write(f"hardware:\n  driver: ur\n  settings:\n{patient}{ports}")
    params = tmp_path / "params.yaml"
    patient = "{state_timeout: 3.0, tracking_lag: 0.8}"
    params.write_text("/**/joint_trajectory_controller: {ros__parameters: " + patient + "}")
    suite.bring_up(
        str(folder),
        params_file=str(params),
        backend="hardware",
        hardware=HardwareOptions(device="127.0.0.1"),
        without=WITHOUT,
    )
    made = JointClient(client)
    made.wait_for()
    client.wait(lambda: bool(controller.arm.targets), "the arm follows")
    yield made
    made.close()


def test_trajectory_moves_the_arm_and_a_protective_stop_holds_it_until_a_reset(
    arm: JointClient, client: RosClient, controller: FakeUrController
) -> None:
    status, result = arm.follow(smooth({"elbow_joint": 1.45, "wrist_1_joint": -1.45}, 2.0)).result()
    assert status == SUCCEEDED, result.error_string
    client.wait(lambda: abs(arm.joints["elbow_joint"] - 1.45) < 5e-3, "the arm at its goal")
    sent = np.array([list(values.values()) for values in controller.received])
    assert (np.abs(sent[:, 6:12]) <= np.pi).all()

    controller.safety = 3
    client.wait_for_diagnosis(DRIVER, "PROTECTIVE_STOP", level=ERROR)
    assert client.call(Trigger, f"{DRIVER}/reset").success
    client.wait(lambda: len(controller.programs) == 2, "the program again")
    client.wait_for_diagnosis(arm.controller, "holding")
    status, result = arm.follow(smooth({"elbow_joint": 1.55}, 2.0)).result()
    assert status == SUCCEEDED, result.error_string

    controller.close()
    client.wait_for_diagnosis(DRIVER, "RTDE")
    client.wait_for_diagnosis(arm.controller, "joint_states")
