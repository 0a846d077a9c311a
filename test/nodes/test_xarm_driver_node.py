# SPDX-License-Identifier: Apache-2.0
"""The driver node between a joint controller and an xArm's controller on loopback."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from hardware.fake_xarm import FakeXArm
from joint_client import SUCCEEDED, JointClient, smooth
from ros_processes import RosClient, Suite
from std_srvs.srv import Trigger

from motion_nodes.bringup.bringup_config import HardwareOptions
from motion_nodes.model.loader import load_robot

DRIVER = "/robot_driver"
READY = [0.0, -0.3268, -0.5595, 0.0, 0.8863, 0.0, 0.0]
WITHOUT = (
    "robot_state", "ik_service", "rmpflow_policy", "trajectory_generator", "controller_manager",
    "rrt_planner",
)  # fmt: skip


@pytest.fixture
def controller() -> Iterator[FakeXArm]:
    fake = FakeXArm()
    fake.q = list(READY)
    yield fake
    fake.close()


@pytest.fixture
def arm(
    suite: Suite, client: RosClient, controller: FakeXArm, tmp_path: Path
) -> Iterator[JointClient]:
    folder = tmp_path / "xarm6"
    shutil.copytree(load_robot("xarm6").directory, folder)
    with (folder / "robot.yaml").open("a") as file:
        # Patient, for a busy machine.
        settings = f"    port: {controller.port}\n    link_timeout: 2.0\n"
        file.write(f"hardware:\n  driver: xarm\n  settings:\n{settings}")
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
    client.wait(lambda: bool(controller.targets), "the arm follows")
    yield made
    made.close()


def test_trajectory_moves_the_arm_and_a_collision_holds_it_until_a_reset(
    arm: JointClient, client: RosClient, controller: FakeXArm
) -> None:
    status, result = arm.follow(smooth({"joint1": 0.2, "joint5": 0.7}, 1.0)).result()
    assert status == SUCCEEDED, result.error_string
    client.wait(lambda: abs(controller.q[4] - 0.7) < 5e-3, "the arm at its goal")

    controller.fail(31)
    client.wait_for_diagnosis(DRIVER, "Collision Caused", level=DiagnosticStatus.ERROR)
    assert client.call(Trigger, f"{DRIVER}/reset").success
    client.wait(lambda: controller.state == 2 and not controller.error, "the arm again")

    controller.close()
    client.wait_for_diagnosis(DRIVER, "xArm")
