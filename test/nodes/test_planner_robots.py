# SPDX-License-Identifier: Apache-2.0
"""Robots in namespaces: a UR10e that plans and executes, and a Franka with an attached object."""

import itertools
from typing import Any

import numpy as np
import pytest
import scene_requests as requests
from joint_client import SUCCEEDED, JointClient
from moveit_msgs.msg import AttachedCollisionObject, CollisionObject, MoveItErrorCodes
from moveit_msgs.srv import GetCartesianPath, GetPlanningScene
from planner_client import Planner, at, end_of, pose_constraints, state

from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.ik.problem import IkRequest
from motion_nodes.core.ik.solvers import make_solver
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy, to_quat_xyzw
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import AttachedBody, Part, Scene, world_object
from motion_nodes.ros.messages.moveit_messages import pose_message

Codes = MoveItErrorCodes
FRANKA, UR10E = load_robot("franka"), load_robot("ur10e")
UR_JOINTS = UR10E.group("arm").joints
READY = dict(zip(UR_JOINTS, UR10E.named_state("ready").tolist(), strict=True))
LOWERED = ["panda_joint1.max_velocity=0.2", "panda_joint4.max_acceleration=0.5"]
TOOL = Kinematics(UR10E.tree, UR10E.joint_names, base=UR10E.base_frame)
pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def cell(module_suite):
    """Both robots without physics; a planner each, and the controller of the UR10e."""
    module_suite.node("mock_sim", robots=["left:=franka", "right:=ur10e@2,0,0"], update_rate=100.0)
    settings = {"use_sim_time": True, "tf_frame_prefix": "~"}
    for namespace, robot in (("right", "ur10e"), ("left", "franka")):
        lowered = {"joint_limits": LOWERED} if robot == "franka" else {}
        module_suite.node("rrt_planner", robot=robot, namespace=namespace, **settings, **lowered)
    module_suite.node(
        "articulation_controller",
        robot="ur10e",
        namespace="right",
        use_sim_time=True,
        update_rate=100.0,
    )


@pytest.fixture(scope="module")
def right(cell, module_client):
    """The UR10e at rest in its state "ready"."""
    arm = JointClient(module_client, namespace="/right")
    arm.wait_for()
    planner = Planner(arm, "/right")
    planner.wait()
    status, result = planner.move(READY).result(within=30.0)
    assert status == SUCCEEDED, result.error_code.message
    yield planner
    arm.close()


def test_another_robot_plans_to_a_pose_in_its_own_frame_and_goes(right):
    X = TOOL.pose(UR10E.named_state("ready"), "tool0")
    wanted = X[:3, 3] + [0.05, 0.25, -0.1]
    goal = pose_constraints(wanted, to_quat_xyzw(X), "tool0", "right/base_link")
    status, result = right.move(goal, allowed_planning_time=5.0).result(within=30.0)
    assert status == SUCCEEDED, result.error_code.message
    joints = right.arm.rest()
    assert right.arm.away(end_of(result.planned_trajectory)) < 0.01
    reached = TOOL.pose([joints[name] for name in UR10E.joint_names], "tool0")
    np.testing.assert_allclose(reached[:3, 3], wanted, atol=3e-3)


def test_another_robot_goes_along_a_line_and_carries_it_out(right):
    joints = right.arm.rest()
    X = TOOL.pose([joints[name] for name in UR10E.joint_names], "tool0")
    request = GetCartesianPath.Request(group_name="manipulator", max_step=0.01)
    pose = pose_message(X)
    pose.position.z += 0.15
    request.waypoints.append(pose)
    answer = right.client.call(GetCartesianPath, "/right/compute_cartesian_path", request)
    assert answer.fraction == 1.0, answer.error_code.message
    status, result = right.execute(answer.solution.joint_trajectory).result(within=30.0)
    assert status == SUCCEEDED, result.error_code.message
    joints = right.arm.rest()
    reached = TOOL.pose([joints[name] for name in UR10E.joint_names], "tool0")
    np.testing.assert_allclose(reached[:3, 3], X[:3, 3] + [0.0, 0.0, 0.15], atol=3e-3)


# ---- attached objects

ARM = FRANKA.group("arm")
HAND = "panda_hand_tcp"
TOUCHING = ("panda_hand", "panda_leftfinger", "panda_rightfinger")
GAP, POST, BAR = 0.28, (0.06, 0.06, 1.2), (0.04, 0.45, 0.04)
"""[m] Between two posts, a hand's breadth and a half; the bar lies across it."""
X_POSTS = {
    name: from_xyz_rpy((0.5, side * (0.5 * GAP + 0.5 * POST[1]), 0.5 * POST[2]))
    for name, side in (("left_post", 1.0), ("right_post", -1.0))
}


def reaching(x: float) -> np.ndarray:
    """Return joint positions of the arm with its hand down, at ``x`` [m] ahead."""
    X = Kinematics(FRANKA.tree, FRANKA.joint_names, base="panda_link0").pose(FRANKA.home, HAND)
    X[:3, 3] = (x, 0.0, 0.45)
    solver = make_solver(IkChain.of_group(FRANKA, "arm"))
    found = solver.solve(IkRequest(X, seed=FRANKA.home[ARM.indices]))
    assert found.success, found.reason
    return found.q


BEFORE, BEHIND = reaching(0.33), reaching(0.68)


def checker(*, carrying: bool) -> CollisionChecker:
    """Return the test's own checker with the posts, and with or without the bar."""
    posts = {name: world_object(name, Box(POST), X) for name, X in X_POSTS.items()}
    bar = AttachedBody("bar", HAND, np.eye(4), (Part(Box(BAR), np.eye(4)),), frozenset(TOUCHING))
    scene = Scene(objects=posts, attached={"bar": bar} if carrying else {})
    made = CollisionChecker(FRANKA, ARM.joints, scene=scene)
    made.set_positions(FRANKA.home)
    return made


def fine(answer: Any) -> np.ndarray:
    """Return the plan in steps of a few milliradians [rad], shape (k, n)."""
    Q = np.array([point.positions for point in answer.trajectory.joint_trajectory.points])
    share = np.linspace(0.0, 1.0, 8)[:, None]
    return np.concatenate([a + share * (b - a) for a, b in itertools.pairwise(Q)])


@pytest.fixture(scope="module")
def left(cell, module_client):
    """The Franka, with two posts in front of it."""
    planner = Planner(JointClient(module_client, namespace="/left"), "/left")
    planner.wait()
    objects = module_client.publisher(CollisionObject, "/left/collision_object")
    for name, X in X_POSTS.items():
        objects.publish(requests.box(name, POST, X[:3, 3], frame="left/panda_link0"))
    module_client.wait(lambda: len(scene(planner).world.collision_objects) == 2, "the posts")
    yield planner
    planner.arm.close()


def scene(planner: Planner) -> Any:
    return planner.client.call(GetPlanningScene, "/left/get_planning_scene").scene


def test_what_a_request_alone_attaches_counts_for_it(left):
    loaded = checker(carrying=True)
    objects = left.client.publisher(CollisionObject, "/left/collision_object")
    objects.publish(requests.removed("bar"))
    left.client.wait(lambda: len(scene(left).world.collision_objects) == 2, "the posts alone")
    bar = AttachedCollisionObject(link_name=HAND, touch_links=list(TOUCHING))
    bar.object = requests.box("bar", BAR, (0.0, 0.0, 0.0), frame=HAND)
    begin = state(dict(zip(ARM.joints, BEFORE.tolist(), strict=True)))
    begin.attached_collision_objects = [bar]
    goal = at(dict(zip(ARM.joints, BEHIND.tolist(), strict=True)))
    answer = left.plan(goal, start_state=begin, allowed_planning_time=20.0)
    assert answer.error_code.val == Codes.SUCCESS, answer.error_code.message
    assert loaded.are_free(fine(answer)).all()
    assert not scene(left).robot_state.attached_collision_objects


@pytest.mark.parametrize("more", [
    {}, {"pipeline_id": "pilz_industrial_motion_planner", "planner_id": "PTP",
         "max_velocity_scaling_factor": 1.0, "max_acceleration_scaling_factor": 1.0},
])  # fmt: skip
def test_plans_keep_lowered_limits(left, more):
    begin = dict(zip(FRANKA.joint_names, FRANKA.home.tolist(), strict=True))
    goal = {name: begin[name] for name in ARM.joints}
    goal["panda_joint1"] += 0.8
    goal["panda_joint4"] += 0.3
    answer = left.plan(goal, start_state=state(begin), **more)
    assert answer.error_code.val == Codes.SUCCESS, answer.error_code.message
    points = answer.trajectory.joint_trajectory.points
    names = list(answer.trajectory.joint_trajectory.joint_names)
    one, four = names.index("panda_joint1"), names.index("panda_joint4")
    assert 0.1 < max(abs(point.velocities[one]) for point in points) < 0.2 + 1e-6
    assert max(abs(point.accelerations[four]) for point in points) < 0.5 + 1e-6
