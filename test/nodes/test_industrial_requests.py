# SPDX-License-Identifier: Apache-2.0
"""PTP, LIN, CIRC, sequences and path constraints, sent by clients from another process."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from geometry_msgs.msg import Pose
from joint_client import ARM, FRANKA, HOME, SUCCEEDED
from moveit_msgs.action import MoveGroupSequence
from moveit_msgs.msg import (
    Constraints,
    MotionPlanRequest,
    MotionSequenceItem,
    MoveItErrorCodes,
    OrientationConstraint,
    PositionConstraint,
)
from moveit_msgs.srv import GetMotionSequence
from planner_client import Planner, at, end_of, planning_cell, pose_constraints, state

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.poses import to_quat_xyzw
from motion_nodes.ros.messages.moveit_messages import pose_message

Codes = MoveItErrorCodes
PILZ = "pilz_industrial_motion_planner"
TIP = FRANKA.group("arm").tip
KINEMATICS = Kinematics(FRANKA.tree, FRANKA.joint_names, base=FRANKA.base_frame)
HERE = KINEMATICS.pose(FRANKA.home, TIP)
pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def planner(module_suite, module_client):
    """A robot without physics, its controller and the planner, at home."""
    yield from planning_cell(module_suite, module_client)


def beside(x: float = 0.0, y: float = 0.0, z: float = 0.0) -> Constraints:
    return pose_constraints(HERE[:3, 3] + (x, y, z), to_quat_xyzw(HERE))


def tool_poses(trajectory: Any) -> np.ndarray:
    message = trajectory.joint_trajectory
    columns = [FRANKA.joint_names.index(name) for name in message.joint_names]
    Q = np.tile(FRANKA.home, (len(message.points), 1))
    Q[:, columns] = [point.positions for point in message.points]
    return KINEMATICS.pose_batch(Q, TIP)


def tool_positions(trajectory: Any) -> np.ndarray:
    return tool_poses(trajectory)[:, :3, 3] - HERE[:3, 3]


def arc(name: str, x: float, y: float, z: float) -> Constraints:
    """Return the path constraint with the auxiliary point of CIRC [m]."""
    point = PositionConstraint(link_name=TIP)
    pose = Pose()
    pose.position.x, pose.position.y, pose.position.z = (HERE[:3, 3] + (x, y, z)).tolist()
    point.constraint_region.primitive_poses = [pose]
    return Constraints(name=name, position_constraints=[point])


def item(goal: Constraints, planner_id: str = "LIN", radius: float = 0.0) -> MotionSequenceItem:
    request = MotionPlanRequest(group_name="arm", pipeline_id=PILZ, planner_id=planner_id)
    request.goal_constraints = [goal]
    request.max_velocity_scaling_factor = request.max_acceleration_scaling_factor = 0.5
    return MotionSequenceItem(req=request, blend_radius=radius)


def sequence(planner: Planner, items: Sequence[MotionSequenceItem]) -> Any:
    request = GetMotionSequence.Request()
    request.request.items = list(items)
    name = "/plan_sequence_path"
    return planner.client.call(GetMotionSequence, name, request, within=90.0).response


def test_lines_and_arcs_of_the_tool(planner):
    start = state(HOME)
    answer = planner.plan(beside(0.0, 0.2), pipeline_id=PILZ, planner_id="LIN", start_state=start)
    assert answer.error_code.val == Codes.SUCCESS, answer.error_code.message
    P = tool_positions(answer.trajectory)
    assert np.abs(P[:, [0, 2]]).max() < 1e-4
    assert P[-1] == pytest.approx((0.0, 0.2, 0.0), abs=1e-4)
    for name, point in (
        ("center", (0.0, 0.1, 0.0)),
        ("interim", (0.0, 0.1 - 0.0707107, 0.0707107)),
    ):
        answer = planner.plan(
            beside(0.0, 0.1, 0.1),
            pipeline_id=PILZ,
            planner_id="CIRC",
            path_constraints=arc(name, *point),
            start_state=start,
        )
        assert answer.error_code.val == Codes.SUCCESS, answer.error_code.message
        P = tool_positions(answer.trajectory) - (0.0, 0.1, 0.0)
        assert np.abs(np.linalg.norm(P, axis=1) - 0.1).max() < 1e-4


def test_a_point_to_point_motion_is_straight_in_joint_space(planner):
    goal = {**{name: HOME[name] for name in ARM}, "panda_joint1": 0.5}
    answer = planner.plan(at(goal), pipeline_id=PILZ, planner_id="PTP", start_state=state(HOME))
    assert answer.error_code.val == Codes.SUCCESS, answer.error_code.message
    assert end_of(answer.trajectory) == pytest.approx(goal, abs=2e-3)


def test_a_sequence_is_planned_and_executed(planner):
    """There and back, so that the next test begins at home."""
    items = [
        item(beside(0.1), "LIN", 0.03),
        item(beside(0.1, 0.1), "PTP"),
        item(beside(), "LIN"),
    ]
    answer = sequence(planner, items)
    assert answer.error_code.val == Codes.SUCCESS, answer.error_code.message
    (trajectory,) = answer.planned_trajectories
    corner = np.linalg.norm(tool_positions(trajectory) - (0.1, 0.0, 0.0), axis=1).min()
    assert 1e-3 < corner < 0.03
    goal = MoveGroupSequence.Goal()
    goal.request.items = items
    sent = planner.arm.send(goal, MoveGroupSequence, "/sequence_move_group")
    status, result = sent.result()
    assert status == SUCCEEDED, result.response.error_code.message
    assert result.response.error_code.val == Codes.SUCCESS
    planner.arm.rest()


def test_what_cannot_be_planned_is_refused_by_name(planner):
    start = state(HOME)
    for fields, word in (
        ({"pipeline_id": PILZ, "planner_id": "SPIRAL"}, "SPIRAL"),
        ({"pipeline_id": PILZ}, "PTP"),
        ({"pipeline_id": "pilz"}, "'pilz'"),
        ({"pipeline_id": PILZ, "planner_id": "CIRC"}, "interim"),
        ({"pipeline_id": PILZ, "planner_id": "CIRC",
          "path_constraints": arc("center", 0.0, 0.05, 0.0)}, "in line"),
    ):  # fmt: skip
        _, text = planner.refused(beside(0.0, 0.1), start_state=start, **fields)
        assert word in text
    answer = planner.plan(beside(0.0, 0.1), pipeline_id="ompl", start_state=start)
    assert answer.error_code.val == Codes.SUCCESS
    assert "ompl" in answer.error_code.message, "another pipeline is used, with a note"
    code, _ = planner.refused(beside(2.0), pipeline_id=PILZ, planner_id="LIN", start_state=start)
    assert code == Codes.NO_IK_SOLUTION


def test_sequences_that_contradict_themselves_are_refused(planner):
    started = item(beside(0.1, 0.1))
    started.req.start_state = state(HOME)
    other = item(beside(0.1, 0.1))
    other.req.group_name = "hand"
    for items in (
        [item(beside(0.1), radius=0.05)],
        [item(beside(0.1), radius=-0.1), item(beside())],
        [item(beside(0.1), radius=0.2), item(beside())],
        [item(beside(0.1)), started],
        [item(beside(0.1)), other],
        [item(beside(0.1), radius=0.01), item(beside(0.1))],
        [item(beside(0.1), "RRTConnect")],
    ):
        answer = sequence(planner, items)
        assert answer.error_code.val != Codes.SUCCESS
        assert answer.error_code.message
        assert not answer.planned_trajectories


def test_motions_to_where_the_robot_is_succeed(planner):
    assert sequence(planner, []).error_code.val == Codes.SUCCESS
    sent = planner.arm.send(MoveGroupSequence.Goal(), MoveGroupSequence, "/sequence_move_group")
    status, result = sent.result()
    assert (status, result.response.error_code.val) == (SUCCEEDED, Codes.SUCCESS)
    assert planner.move(beside(), pipeline_id=PILZ, planner_id="PTP").result()[0] == SUCCEEDED
    planner.arm.rest()
    for kind in ("PTP", "LIN"):
        status, result = planner.move(beside(), pipeline_id=PILZ, planner_id=kind).result()
        assert status == SUCCEEDED, result.error_code.message
        points = result.planned_trajectory.joint_trajectory.points
        assert [point.time_from_start.sec for point in points] == [0]
    whole = sequence(planner, [item(beside(), kind) for kind in ("PTP", "LIN")])
    assert whole.error_code.val == Codes.SUCCESS, whole.error_code.message
    for kind in ("PTP", "LIN"):
        around = [item(beside(), kind), item(beside(0.05)), item(beside(0.05), kind)]
        answer = sequence(planner, around)
        assert answer.error_code.val == Codes.SUCCESS, answer.error_code.message
        P = tool_positions(answer.planned_trajectories[0])
        assert P[-1] == pytest.approx((0.05, 0.0, 0.0), abs=1e-4)


@pytest.mark.long
def test_the_hand_stays_upright_along_the_path(planner):
    """As clients send it: an orientation constraint with a free yaw, in the base frame."""
    upright = OrientationConstraint(
        link_name=TIP,
        absolute_x_axis_tolerance=0.1,
        absolute_y_axis_tolerance=0.1,
        absolute_z_axis_tolerance=2.0 * math.pi,
        weight=1.0,
    )
    upright.header.frame_id = FRANKA.base_frame
    upright.orientation = pose_message(HERE).orientation
    goal = {**{name: HOME[name] for name in ARM}, "panda_joint1": 1.0}
    constraints = Constraints(orientation_constraints=[upright])
    status, result = planner.move(goal, path_constraints=constraints).result()
    assert status == SUCCEEDED, result.error_code.message
    axes = tool_poses(result.planned_trajectory)[:, :3, 2]
    tilt = np.arccos(np.clip(axes @ HERE[:3, 2], -1.0, 1.0))
    assert tilt.max() <= math.hypot(0.1, 0.1)
    status, result = planner.move({name: HOME[name] for name in ARM}).result()
    assert status == SUCCEEDED, result.error_code.message
    planner.arm.rest()
