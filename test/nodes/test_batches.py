# SPDX-License-Identifier: Apache-2.0
"""Batches of poses and motions in one request."""

from types import SimpleNamespace
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

from motion_nodes.core.ik.problem import IkSettings
from motion_nodes.core.ik.solvers import DEFAULT
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import world_object
from motion_nodes.core.scene.world import World
from motion_nodes.nodes.kinematics.kinematics_requests import CHUNK, IkBatches, IkChains
from motion_nodes.ros.messages.moveit_messages import RequestRejected, pose_message

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
def planner(module_suite, module_client):
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


@pytest.mark.long
@pytest.mark.timeout(600)
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


@pytest.mark.long
@pytest.mark.timeout(600)
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


@pytest.mark.long
@pytest.mark.timeout(600)
def test_motions_are_planned_independently(planner):
    items = [item(start, goal_of(goal)) for start, goal in zip(Q[:8], Q[8:16], strict=True)]
    answer = batch(planner, items)
    assert answer.error_code.val == Codes.SUCCESS, answer.error_code.message
    for trajectory, start, goal in zip(answer.planned_trajectories, Q[:8], Q[8:16], strict=True):
        assert end_of(trajectory) == pytest.approx(goal_of(goal), abs=2e-3)
        first = trajectory.joint_trajectory.points[0].positions
        assert list(first) == pytest.approx(start[:7].tolist(), abs=1e-6)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_invalid_batches_of_motions_are_refused(planner):
    blended = item(Q[0], goal_of(Q[1]))
    blended.blend_radius = 0.1
    empty = MotionSequenceItem(req=MotionPlanRequest(goal_constraints=[Constraints()]))
    for items in ([], [blended], [empty]):
        answer = batch(planner, items)
        assert answer.error_code.val != Codes.SUCCESS
        assert answer.error_code.message
        assert not any(t.joint_trajectory.points for t in answer.planned_trajectories)


ARM_IK_BATCHES = FRANKA.group("arm")
COUNT = 2 * CHUNK + 3


@pytest.fixture(scope="module")
def own():
    """What the service needs of the node, without ROS."""
    return SimpleNamespace(
        robot=FRANKA,
        kinematics=Kinematics(FRANKA.tree, FRANKA.joint_names, base=FRANKA.base_frame),
        chains=IkChains(FRANKA, DEFAULT, IkSettings()),
        checks=SimpleNamespace(wait=lambda: None),
        frames=SimpleNamespace(is_own=lambda frame: True, pose=lambda frame, q: np.eye(4)),
        group=lambda name: ARM_IK_BATCHES,
        settings=IkSettings,
        state=lambda given, what: FRANKA.home,
    )


def asked(own, out_of_reach: int | None = None):
    """Return a request for poses of a small circle, one of which may be out of reach."""
    X = own.kinematics.pose(FRANKA.home, ARM_IK_BATCHES.tip)
    request = GetCartesianPath.Request(group_name="arm")
    for k in range(COUNT):
        pose = pose_message(X)
        pose.position.y += 0.1 * np.sin(0.1 * k)
        pose.position.x += 5.0 * (k == out_of_reach)
        request.waypoints.append(pose)
    return request


def test_all_parts_are_solved_in_order(own):
    response, missing = GetCartesianPath.Response(), CHUNK + 1
    with pytest.raises(RequestRejected, match=f"{COUNT - 1} of {COUNT} .* waypoint {missing}: out"):
        IkBatches(FRANKA).solve(own, asked(own, missing), response, lambda: False)
    points = response.solution.joint_trajectory.points
    assert [k for k, point in enumerate(points) if not point.positions] == [missing]
    assert response.fraction == pytest.approx(1.0 - 1.0 / COUNT)
    for k, point in enumerate(points):
        if k != missing:
            q = FRANKA.home.copy()
            q[ARM_IK_BATCHES.indices] = point.positions
            away = own.kinematics.pose(q, ARM_IK_BATCHES.tip) - own.kinematics.pose(
                FRANKA.home, ARM_IK_BATCHES.tip
            )
            assert away[:3, 3] == pytest.approx([0.0, 0.1 * np.sin(0.1 * k), 0.0], abs=1e-3)


def test_a_cancelled_request_ends_after_the_current_part(own):
    response, calls = GetCartesianPath.Response(), []

    def cancelled() -> bool:
        calls.append(True)
        return len(calls) > 1

    with pytest.raises(RequestRejected, match=f"cancelled after {CHUNK} of {COUNT}") as raised:
        IkBatches(FRANKA).solve(own, asked(own), response, cancelled)
    assert raised.value.code == MoveItErrorCodes.PREEMPTED
    assert not response.solution.joint_trajectory.points
