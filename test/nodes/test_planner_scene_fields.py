# SPDX-License-Identifier: Apache-2.0
"""Subframes, link padding, scene files and the URDF of a group, queried from another process."""

import numpy as np
import pytest
from geometry_msgs.msg import Pose
from joint_client import ARM, FRANKA, HOME, JointClient
from moveit_msgs.msg import (
    AttachedCollisionObject,
    CollisionObject,
    GenericTrajectory,
    LinkPadding,
    MoveItErrorCodes,
    PlanningScene,
    PlanningSceneWorld,
    RobotState,
)
from moveit_msgs.srv import (
    ApplyPlanningScene,
    GetGroupUrdf,
    GetPlanningScene,
    LoadGeometryFromFile,
    SaveGeometryToFile,
)
from planner_client import Planner, box, end_of, pose_constraints
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.urdf import read_urdf

Codes = MoveItErrorCodes
HELD = "panda_hand_tcp"
FINGERS_AND_HAND = ("panda_hand", "panda_leftfinger", "panda_rightfinger")
KINEMATICS = Kinematics(FRANKA.tree, FRANKA.joint_names, base=FRANKA.base_frame)
ASIDE = {**{name: HOME[name] for name in ARM}, "panda_joint1": 0.8, "panda_joint4": -1.9}
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def planner(module_suite, module_client):
    """A planner that has received the state of the robot."""
    module_suite.node("mock_sim", robots=["franka"], update_rate=100.0)
    module_suite.node("rrt_planner", robot="franka", use_sim_time=True)
    arm = JointClient(module_client)
    made = Planner(arm)
    made.wait()
    yield made
    arm.close()


def apply(planner, **fields):
    """Apply a diff of the scene."""
    scene = PlanningScene(is_diff=True, **fields)
    scene.robot_state.is_diff = True
    name = f"{planner.namespace}/apply_planning_scene"
    return planner.client.call(ApplyPlanningScene, name, ApplyPlanningScene.Request(scene=scene))


def test_a_goal_for_the_subframe_of_a_held_object(planner):
    rod = box("rod", (0.02, 0.02, 0.2), (0.0, 0.0, 0.1))
    rod.header.frame_id = HELD
    rod.subframe_names, rod.subframe_poses = ["end"], [Pose()]
    rod.subframe_poses[0].position.z = 0.1
    held = AttachedCollisionObject(link_name=HELD, object=rod, touch_links=list(FINGERS_AND_HAND))
    start = RobotState(is_diff=True, attached_collision_objects=[held])
    at_end = pose_constraints((0.45, 0.1, 0.3), (1.0, 0.0, 0.0, 0.0), link="rod/end")
    plan = planner.plan(at_end, start_state=start)
    assert plan.error_code.val == Codes.SUCCESS, plan.error_code.message
    q = FRANKA.home.copy()
    for name, value in end_of(plan.trajectory).items():
        q[FRANKA.joint_names.index(name)] = value
    X_BE = KINEMATICS.pose(q, HELD) @ from_xyz_rpy((0.0, 0.0, 0.2))
    assert np.allclose(X_BE[:3, 3], (0.45, 0.1, 0.3), atol=1.1e-3)
    code, text = planner.refused(pose_constraints((0.4, 0.1, 0.3), (1, 0, 0, 0), link="rod/end"))
    assert (code, "rod/end" in text) == (Codes.INVALID_LINK_NAME, True)


def test_padding_of_a_link_blocks_a_goal_until_it_is_removed(planner):
    pads = [LinkPadding(link_name="panda_hand", padding=0.2)]
    q = FRANKA.home.copy()
    q[[FRANKA.joint_names.index(name) for name in ASIDE]] = list(ASIDE.values())
    # Farther from the start than the goal is.
    beside = from_xyz_rpy(rpy=(0.0, 0.0, 0.55)) @ KINEMATICS.pose(q, "panda_hand")
    near = box("post", (0.05, 0.05, 0.05), tuple(beside[:3, 3].tolist()))
    world = PlanningSceneWorld(collision_objects=[near])
    assert planner.plan(ASIDE).error_code.val == Codes.SUCCESS
    try:
        assert apply(planner, world=world, link_padding=pads).success
        code, text = planner.refused(ASIDE)
        assert (code, "panda_hand" in text) == (Codes.GOAL_IN_COLLISION, True)
        assert apply(planner, link_padding=[LinkPadding(link_name="panda_hand")]).success
        assert planner.plan(ASIDE).error_code.val == Codes.SUCCESS
        assert not apply(planner, link_padding=[LinkPadding(link_name="hand")]).success
    finally:
        near.operation = CollisionObject.REMOVE
        off = [LinkPadding(link_name="panda_hand")]
        assert apply(planner, world=world, link_padding=off).success


def test_scene_files_and_the_urdf_of_a_group(planner, tmp_path):
    file = str(tmp_path / "cell.scene")

    def call(kind, name, path):
        request = kind.Request(file_path_and_name=path)
        return planner.client.call(kind, f"{planner.namespace}/{name}", request).success

    post = box("post", (0.05, 0.05, 0.05), (2.0, 0.55, 0.4))
    world = PlanningSceneWorld(collision_objects=[post])
    assert apply(planner, world=world).success
    assert call(SaveGeometryToFile, "save_geometry_to_file", file)
    assert not call(SaveGeometryToFile, "save_geometry_to_file", "cell.scene")
    post.operation = CollisionObject.REMOVE
    assert apply(planner, world=world).success
    assert call(LoadGeometryFromFile, "load_geometry_from_file", file)
    assert not call(LoadGeometryFromFile, "load_geometry_from_file", str(tmp_path))
    got = planner.client.call(GetPlanningScene, f"{planner.namespace}/get_planning_scene").scene
    assert "post" in {item.id for item in got.world.collision_objects}
    assert apply(planner, world=world).success
    name = f"{planner.namespace}/get_urdf"
    answer = planner.client.call(GetGroupUrdf, name, GetGroupUrdf.Request(group_name="arm"))
    assert answer.error_code.val == Codes.SUCCESS
    assert HELD in read_urdf(answer.urdf_string, "arm").links
    answer = planner.client.call(GetGroupUrdf, name, GetGroupUrdf.Request(group_name="leg"))
    assert answer.error_code.val == Codes.INVALID_GROUP_NAME


def test_a_reference_trajectory_guides_trajopt_and_is_noted_by_others(planner):
    rows = [[HOME[name] for name in ARM], [ASIDE[name] for name in ARM]]
    points = [JointTrajectoryPoint(positions=row) for row in rows]
    message = JointTrajectory(joint_names=list(ARM), points=points)
    guided = {"reference_trajectories": [GenericTrajectory(joint_trajectory=[message])]}
    plan = planner.plan(ASIDE, planner_id="TrajOpt", **guided)
    assert plan.error_code.val == Codes.SUCCESS, plan.error_code.message
    assert "reference_trajectories" not in plan.error_code.message
    assert "reference_trajectories" in planner.plan(ASIDE, **guided).error_code.message
    points.pop()
    message.points = points
    assert "reference_traj" in planner.refused(ASIDE, planner_id="TrajOpt", **guided)[1]
