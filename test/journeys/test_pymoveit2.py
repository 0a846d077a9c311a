# SPDX-License-Identifier: Apache-2.0
"""pymoveit2 itself, unmodified, moves a Franka in MuJoCo: arm, gripper and planning scene."""

import numpy as np
import pytest
from joint_client import JointClient
from planner_client import Planner

from motion_nodes.core.robot.loader import load_robot

pymoveit2 = pytest.importorskip("pymoveit2", reason="pymoveit2 is not installed")
pytestmark = pytest.mark.timeout(900)
FRANKA = load_robot("franka")
DOWN = (1.0, 0.0, 0.0, 0.0)
"""Quaternion (x, y, z, w) of a hand that points down."""
WITHIN = 90.0
"""Timeout of a call [s]."""


@pytest.fixture(scope="module")
def arm(module_suite, module_client):
    """The arm under a suite with a planner."""
    module_suite.bring_up("franka", without=("rmpflow_policy", "trajectory_generator"), rate=100.0)
    made = JointClient(module_client)
    made.wait_for()
    Planner(made).wait()
    yield made
    made.close()


@pytest.fixture(scope="module")
def robot(arm):
    """pymoveit2's session, from URDF and SRDF in move_group's parameters."""
    with pymoveit2.connect(timeout_sec=WITHIN) as session:
        yield session


def test_the_description_is_complete(robot):
    assert robot.arm.group_name == "arm"
    assert (robot.arm.base_link_name, robot.arm.end_effector_name) == (
        "panda_link0", "panda_hand_tcp",
    )  # fmt: skip
    assert robot.joint_positions("ready") == pytest.approx(FRANKA.named_state("ready")[:7])


def test_configuration_pose_and_line(arm, robot):
    goal = robot.joint_positions("extended")
    assert robot.move_to_configuration(goal, timeout_sec=WITHIN), robot.last_failure()
    joints = dict(zip(robot.arm.joint_names, goal, strict=True))
    arm.client.wait(lambda: arm.away(joints) < 0.01, "the arm is extended")
    for y, straight in ((0.1, False), (0.0, True)):
        place = (0.45, y, 0.45)
        moved = robot.move_to_pose(place, DOWN, cartesian=straight, timeout_sec=WITHIN)
        assert moved, robot.last_failure()
        at = robot.arm.compute_fk().pose.position
        assert (at.x, at.y, at.z) == pytest.approx(place, abs=5e-3)


@pytest.mark.long
def test_the_gripper(arm, robot):
    # session.gripper probes servers with clients that it destroys while its executor uses them.
    gripper = pymoveit2.GripperInterface(
        robot.node, interface=pymoveit2.GripperCommand, **robot.description.moveit2_gripper_kwargs()
    )
    for move, position in ((gripper.close, 0.0), (gripper.open, 0.04)):
        assert move()
        assert gripper.wait_until_executed(timeout_sec=WITHIN), gripper.last_failure()
        goal = {"panda_finger_joint1": position}
        arm.client.wait(lambda goal=goal: arm.away(goal) < 0.004, f"fingers at {position}")


def test_a_box_in_the_scene_blocks_inverse_kinematics(arm, robot):
    robot.arm.add_collision_box(
        "wall", (0.3, 0.04, 0.5), position=(0.45, 0.0, 0.25), quat_xyzw=(0.0, 0.0, 0.0, 1.0)
    )

    def known() -> bool:
        robot.arm.update_planning_scene(timeout_sec=WITHIN)
        return "wall" in {item.id for item in robot.arm.planning_scene.world.collision_objects}

    arm.client.wait(known, "the box is in the planning scene")
    inside = robot.arm.compute_ik((0.45, 0.0, 0.25), DOWN)
    assert inside is None, "the hand would be in the box"
    robot.arm.remove_collision_object("wall")
    arm.client.wait(lambda: not known(), "the box is gone")
    free = robot.arm.compute_ik((0.45, 0.0, 0.25), DOWN)
    assert free is not None
    assert np.isfinite(free.position).all()
