# SPDX-License-Identifier: Apache-2.0
"""Positions of joints outside of the group, as given with a request: a box between the fingers.

With open fingers the hand is around it, with closed fingers they touch it. The state of the robot
has closed fingers, so that only the positions of the request can tell.
"""

from typing import Any

import numpy as np
import pytest
import scene_requests as requests
from geometry_msgs.msg import PoseStamped
from joint_client import JointClient
from moveit_msgs.msg import MoveItErrorCodes, PlanningScene
from moveit_msgs.srv import ApplyPlanningScene, GetCartesianPath, GetPositionIK, GetStateValidity
from planner_client import Planner, at, end_of, pose_constraints, state

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy, to_quat_xyzw
from motion_nodes.ros.messages.moveit_messages import pose_message

Codes = MoveItErrorCodes
FRANKA = load_robot("franka")
ARM, TIP = FRANKA.group("arm"), "panda_hand_tcp"
KINEMATICS = Kinematics(FRANKA.tree, FRANKA.joint_names, base=FRANKA.base_frame)
READY = dict(zip(FRANKA.joint_names, FRANKA.named_state("ready").tolist(), strict=True))
FINGERS = [name for name in FRANKA.joint_names if "finger" in name]
OPEN, CLOSED = dict.fromkeys(FINGERS, 0.04), dict.fromkeys(FINGERS, 0.0)
X_TIP = KINEMATICS.pose(np.array([READY[name] for name in FRANKA.joint_names]), TIP)
ABOVE = READY | {"panda_joint4": READY["panda_joint4"] + 0.25}
"""With the hand away from the box."""
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def planner(module_suite, module_client):
    """Planner and kinematics of a robot without physics, with the box at the tip in READY."""
    module_suite.node("mock_sim", robots=["franka"], update_rate=100.0)
    module_suite.node("rrt_planner", robot="franka", use_sim_time=True)
    module_suite.node("ik_service", robot="franka", use_sim_time=True)
    arm = JointClient(module_client)
    made = Planner(arm)
    made.wait()
    scene = PlanningScene(is_diff=True)
    scene.robot_state.is_diff = True
    turned = X_TIP @ from_xyz_rpy((0.0, 0.0, 0.005))
    box = requests.box("box", (0.015, 0.05, 0.02), turned[:3, 3])
    box.pose = pose_message(turned)
    scene.world.collision_objects = [box]
    request = ApplyPlanningScene.Request(scene=scene)
    assert made.client.call(ApplyPlanningScene, "/apply_planning_scene", request).success
    made.client.wait(lambda: not valid(made, READY | CLOSED), "the box at compute_ik")
    yield made
    arm.close()


def valid(planner: Planner, q: dict[str, float]) -> bool:
    """Return what check_state_validity says about the arm."""
    request = GetStateValidity.Request(robot_state=state(q), group_name="arm")
    return bool(planner.client.call(GetStateValidity, "/check_state_validity", request).valid)


def test_state_validity(planner):
    assert valid(planner, READY | OPEN)
    assert not valid(planner, READY | CLOSED)


@pytest.mark.parametrize("pose", [False, True])
def test_planning(planner, pose):
    goal: Any = at({name: READY[name] for name in ARM.joints})
    if pose:
        goal = pose_constraints(X_TIP[:3, 3], to_quat_xyzw(X_TIP))
    plan = planner.plan(goal, start_state=state(ABOVE | OPEN), allowed_planning_time=5.0)
    assert plan.error_code.val == Codes.SUCCESS, plan.error_code.message
    assert set(end_of(plan.trajectory)) == set(ARM.joints)
    planner.refused(goal, start_state=state(ABOVE | CLOSED), allowed_planning_time=1.0)


def test_inverse_kinematics(planner):
    def answer(fingers: dict[str, float]) -> Any:
        request = GetPositionIK.Request()
        asked = request.ik_request
        asked.group_name, asked.avoid_collisions, asked.timeout.sec = "arm", True, 2
        asked.robot_state = state(READY | fingers)
        asked.pose_stamped = PoseStamped(pose=pose_message(X_TIP))
        return planner.client.call(GetPositionIK, "/compute_ik", request)

    found = answer(OPEN)
    assert found.error_code.val == Codes.SUCCESS, found.error_code.message
    joints = found.solution.joint_state
    assert OPEN.items() <= dict(zip(joints.name, joints.position, strict=True)).items()
    assert answer(CLOSED).error_code.val == Codes.NO_IK_SOLUTION


def test_straight_paths(planner):
    def answer(fingers: dict[str, float]) -> Any:
        request = GetCartesianPath.Request(group_name="arm", max_step=0.005)
        request.start_state, request.avoid_collisions = state(READY | fingers), True
        request.waypoints = [pose_message(X_TIP @ from_xyz_rpy((0.0, 0.0, -0.03)))]
        return planner.client.call(GetCartesianPath, "/compute_cartesian_path", request)

    found = answer(OPEN)
    assert found.fraction == 1.0, found.error_code.message
    assert answer(CLOSED).fraction < 1.0
