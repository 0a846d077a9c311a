# SPDX-License-Identifier: Apache-2.0
"""Cartesian impedance control over DDS: a Franka in MuJoCo with targets, contact and stops."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from geometry_msgs.msg import PoseStamped, WrenchStamped
from joint_client import ARM, CONTROLLER, HOME, SUCCEEDED, JointClient, smooth
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool, Trigger

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.ros.messages.moveit_messages import pose_message
from motion_nodes.ros.names import IMPEDANCE_CONTROLLER

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
ROBOT = load_robot("franka")
KINEMATICS = Kinematics(ROBOT.tree, ROBOT.joint_names, base=ROBOT.base_frame)
GOAL = {**{name: HOME[name] for name in ARM}, "panda_joint1": 0.3}


class Compliant:
    """The controller's impedance mode as a client sees it."""

    def __init__(self, arm: JointClient) -> None:
        self.arm, self.client = arm, arm.client
        name = f"/{IMPEDANCE_CONTROLLER}/external_wrench"
        self.wrenches = self.client.listen(WrenchStamped, name)
        self.poses = self.client.listen(PoseStamped, f"/{IMPEDANCE_CONTROLLER}/current_pose")
        self._publishers = {
            kind: self.client.publisher(kind, f"/{IMPEDANCE_CONTROLLER}/{name}")
            for kind, name in (
                (PoseStamped, "target_pose"),
                (WrenchStamped, "target_wrench"),
                (JointState, "target_joint"),
            )
        }
        self.client.spin(0.3)

    @property
    def tool(self) -> np.ndarray:
        q = np.array([self.arm.joints[name] for name in ROBOT.joint_names])
        return KINEMATICS.pose(q, "panda_hand_tcp")

    def send(self, message: Any) -> None:
        self._publishers[type(message)].publish(message)

    def target(self, xyz: tuple[float, float, float], frame: str = "panda_link0") -> PoseStamped:
        message = PoseStamped(pose=pose_message(from_xyz_rpy(xyz, (np.pi, 0.0, 0.0))))
        message.header.frame_id = frame
        return message

    def activate(self, on: bool = True) -> Any:
        return self.client.call(
            SetBool, f"/{IMPEDANCE_CONTROLLER}/activate", SetBool.Request(data=on)
        )

    @property
    def active(self) -> bool:
        """Whether poses are published, as they are only while the mode is active."""
        self.poses.clear()
        self.client.spin(0.3)
        return len(self.poses) > 2

    def becomes_active(self) -> None:
        """Wait until poses are published."""
        self.poses.clear()
        self.client.wait(lambda: len(self.poses) > 2, "poses of the active mode")

    def refuses(self, message: Any) -> None:
        """A message changes nothing."""
        before = self.tool
        self.send(message)
        self.client.spin(0.4)
        assert np.abs(self.tool - before).max() < 2e-3
        assert not self.active

    def near(self, xyz: tuple[float, float, float]) -> Callable[[], bool]:
        return lambda: bool(np.abs(self.tool[:3, 3] - xyz).max() < 5e-3)


@pytest.fixture(scope="module")
def module_arm(module_suite, module_client):
    module_suite.bring_up(
        "franka", without=("trajectory_generator", "rmpflow_policy", "rrt_planner", "ik_service")
    )
    made = JointClient(module_client)
    module_client.wait_for_diagnosis(CONTROLLER, "holding", within=120.0)
    made.wait_for()
    return made


@pytest.fixture(scope="module")
def module_arm_mode(module_arm):
    return Compliant(module_arm)


@pytest.fixture
def mode(module_arm_mode):
    mode = module_arm_mode
    call = mode.arm.follow(smooth({name: HOME[name] for name in ARM}, 2.0))
    status, result = call.result()
    assert status == SUCCEEDED, result.error_string
    mode.arm.rest(below=5e-3)
    return mode


def test_it_is_switched_on_and_off_without_a_jump(mode):
    before = mode.tool
    answer = mode.activate()
    assert answer.success, answer.message
    mode.becomes_active()
    assert np.abs(mode.tool - before).max() < 2e-3
    assert mode.activate(False).success
    assert not mode.active
    assert np.abs(mode.tool - before).max() < 4e-3


def test_targets_are_followed_until_a_trajectory_takes_the_joints(mode):
    for xyz in ((0.45, 0.1, 0.45), (0.5, -0.1, 0.4)):
        mode.client.repeat(
            lambda xyz=xyz: mode.send(mode.target(xyz)), mode.near(xyz), f"the tool at {xyz}"
        )
    status, result = mode.arm.follow(smooth(GOAL, 2.0)).result()
    assert status == SUCCEEDED, result.error_string
    assert not mode.active


def test_a_stop_ends_it_and_is_obeyed(mode):
    sides = itertools.cycle((0.2, -0.2))
    mode.arm.clear()
    # To the other side if this process did not see the motion.
    mode.client.repeat(
        lambda: mode.send(mode.target((0.45, next(sides), 0.4))),
        lambda: mode.arm.states and mode.arm.speed() > 0.1,
        "motion",
        rate=0.5,
    )
    assert mode.client.call(Trigger, f"{CONTROLLER}/stop").success
    try:
        mode.arm.rest(below=5e-3)
        mode.refuses(mode.target((0.4, 0.0, 0.5)))
        assert not mode.activate().success
    finally:
        assert mode.client.call(Trigger, f"{CONTROLLER}/resume").success
