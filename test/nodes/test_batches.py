# SPDX-License-Identifier: Apache-2.0
"""compute_ik_batch and plan_batch: many poses and motions in one request."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from geometry_msgs.msg import Pose
from joint_client import JointClient
from moveit_msgs.msg import (
    Constraints,
    MotionPlanRequest,
    MotionSequenceItem,
    MoveItErrorCodes,
    PlanningScene,
)
from moveit_msgs.srv import ApplyPlanningScene, GetCartesianPath, GetMotionSequence
from planner_client import Planner, at, box, end_of, state

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import world_object
from motion_nodes.core.scene.world import World
from motion_nodes.ros.messages.moveit_messages import pose_message

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
Codes = MoveItErrorCodes
FRANKA = load_robot("franka")
ARM = FRANKA.group("arm").joints
KINEMATICS = Kinematics(FRANKA.tree, FRANKA.joint_names, base=FRANKA.base_frame)
TIP = "panda_hand_tcp"
BLOCKS = {f"block{k}": ((0.1, 0.1, 0.3), xyz) for k, xyz in enumerate(
    [(0.5, 0.3, 0.3), (0.5, -0.3, 0.3), (0.0, 0.55, 0.5), (-0.4, -0.4, 0.4)])}  # fmt: skip


def free_configurations(count: int) -> np.ndarray:
    """Return collision-free configurations among the blocks, shape (count, 9)."""
    world, rng = World(), np.random.default_rng(3)
    for name, (size, xyz) in BLOCKS.items():
        world.add(world_object(name, Box(size), from_xyz_rpy(xyz)))
    checker = CollisionChecker(FRANKA, FRANKA.joint_names, scene=world.scene)
    limits, found = FRANKA.group("arm").limits, []
    while len(found) < count:
        q = FRANKA.home.copy()
        q[:7] = rng.uniform(limits.lower, limits.upper)
        if checker.exact.is_free(q) and KINEMATICS.pose(q, TIP)[2, 3] > 0.1:
            found.append(q)
    return np.array(found)


Q = free_configurations(30)


@pytest.fixture(scope="module")
def planner(module_suite: Any, module_client: Any) -> Planner:
    module_suite.bring_up(
        "franka", backend="mock", floor_height=-1.0, without=("rmpflow_policy",)
    )  # fmt: skip
    made = Planner(JointClient(module_client))
    made.wait()
    scene = PlanningScene(is_diff=True)
    scene.robot_state.is_diff = True
    scene.world.collision_objects = [box(n, size, xyz) for n, (size, xyz) in BLOCKS.items()]
    request = ApplyPlanningScene.Request(scene=scene)
    assert module_client.call(ApplyPlanningScene, "apply_planning_scene", request).success
    return made


def solved(planner: Planner, poses: list[Pose], **fields: Any) -> Any:
    request = GetCartesianPath.Request(waypoints=poses, avoid_collisions=True)
    request.header.frame_id = FRANKA.base_frame
    request.start_state = state(dict(zip(FRANKA.joint_names, FRANKA.home.tolist(), strict=True)))
    for name, value in fields.items():
        setattr(request, name, value)
    return planner.client.call(GetCartesianPath, "compute_ik_batch", request, within=90.0)


def poses_of(configurations: np.ndarray) -> list[Pose]:
    return [pose_message(X) for X in KINEMATICS.pose_batch(configurations, TIP)]


def test_poses_among_blocks_are_solved_without_collisions(planner):
    wanted = KINEMATICS.pose_batch(Q, TIP)
    planner.client.wait(
        lambda: solved(planner, poses_of(Q[:1])).error_code.val == Codes.SUCCESS, "the scene"
    )
    answer = solved(planner, poses_of(Q))
    assert answer.error_code.val == Codes.SUCCESS, answer.error_code.message
    assert answer.fraction == 1.0
    trajectory = answer.solution.joint_trajectory
    found = Q.copy()
    columns = [FRANKA.joint_names.index(name) for name in trajectory.joint_names]
    found[:, columns] = [point.positions for point in trajectory.points]
    reached = KINEMATICS.pose_batch(found, TIP)
    assert np.abs(reached[:, :3, 3] - wanted[:, :3, 3]).max() < 2e-3
    assert np.abs(reached[:, :3, :3] - wanted[:, :3, :3]).max() < 2e-2
    world = World()
    for name, (size, xyz) in BLOCKS.items():
        world.add(world_object(name, Box(size), from_xyz_rpy(xyz)))
    checker = CollisionChecker(FRANKA, FRANKA.joint_names, scene=world.scene)
    assert checker.exact.are_free(found).all()


def test_poses_without_solution_are_left_empty(planner):
    far, inside = Pose(), pose_message(from_xyz_rpy((0.5, 0.3, 0.3), (np.pi, 0.0, 0.0)))
    far.position.x, far.orientation.w = 3.0, 1.0
    answer = solved(planner, [*poses_of(Q[:2]), far, inside])
    assert answer.error_code.val == Codes.NO_IK_SOLUTION
    assert "2 of 4" in answer.error_code.message
    points = answer.solution.joint_trajectory.points
    assert [len(point.positions) for point in points] == [7, 7, 0, 0]
    assert answer.fraction == 0.5
    answer = solved(planner, [*poses_of(Q[:2]), inside], avoid_collisions=False)
    assert answer.error_code.val == Codes.SUCCESS


@pytest.mark.parametrize("fields", [
    {"waypoints": []},
    {"waypoints": [Pose()] * 10_001},
    {"waypoints": [pose_message(np.full((4, 4), np.nan))]},
    {"group_name": "legs"},
    {"link_name": "panda_link99"},
    {"link_name": "panda_link3"},
    {"path_constraints": at({"panda_joint1": 0.0})},
], ids=str)  # fmt: skip
def test_invalid_batches_of_poses_are_refused(planner, fields):
    answer = solved(planner, poses_of(Q[:1]), **fields)
    assert answer.error_code.val != Codes.SUCCESS
    assert answer.error_code.message
    assert not answer.solution.joint_trajectory.points


def item(start: np.ndarray, goal: dict[str, float]) -> MotionSequenceItem:
    request = MotionPlanRequest(group_name="arm", goal_constraints=[at(goal)])
    request.start_state = state(dict(zip(FRANKA.joint_names, start.tolist(), strict=True)))
    return MotionSequenceItem(req=request)


def batch(planner: Planner, items: list[MotionSequenceItem]) -> Any:
    request = GetMotionSequence.Request()
    request.request.items = items
    return planner.client.call(GetMotionSequence, "plan_batch", request, within=90.0).response


def goal_of(q: np.ndarray) -> dict[str, float]:
    return dict(zip(ARM, q[:7].tolist(), strict=True))


def test_motions_are_planned_independently(planner):
    items = [item(start, goal_of(goal)) for start, goal in zip(Q[:8], Q[8:16], strict=True)]
    answer = batch(planner, items)
    assert answer.error_code.val == Codes.SUCCESS, answer.error_code.message
    for trajectory, start, goal in zip(answer.planned_trajectories, Q[:8], Q[8:16], strict=True):
        assert end_of(trajectory) == pytest.approx(goal_of(goal), abs=2e-3)
        first = trajectory.joint_trajectory.points[0].positions
        assert list(first) == pytest.approx(start[:7].tolist(), abs=1e-6)


def test_motions_without_a_plan_are_left_empty(planner):
    beyond = item(Q[0], {"panda_joint1": 9.0})
    answer = batch(planner, [item(Q[0], goal_of(Q[1])), beyond])
    assert answer.error_code.val not in (Codes.SUCCESS, Codes.UNDEFINED)
    assert "item 1" in answer.error_code.message
    counts = [len(t.joint_trajectory.points) for t in answer.planned_trajectories]
    assert counts[0] > 1
    assert counts[1] == 0


def test_invalid_batches_of_motions_are_refused(planner):
    blended = item(Q[0], goal_of(Q[1]))
    blended.blend_radius = 0.1
    empty = MotionSequenceItem(req=MotionPlanRequest(goal_constraints=[Constraints()]))
    for items in ([], [blended], [empty]):
        answer = batch(planner, items)
        assert answer.error_code.val != Codes.SUCCESS
        assert answer.error_code.message
        assert not any(t.joint_trajectory.points for t in answer.planned_trajectories)
