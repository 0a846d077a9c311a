# SPDX-License-Identifier: Apache-2.0
"""docs/moveit_messages.md lists every field of requests and scenes; unused ones are reported."""

import re
from pathlib import Path
from typing import Any

import moveit_msgs.msg as msg
import numpy as np
import pytest
from geometry_msgs.msg import Pose
from shape_msgs.msg import Mesh, SolidPrimitive
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from motion_nodes.core.planning.planners import planner_names
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.scene.scene import Scene
from motion_nodes.errors import UnknownFrame
from motion_nodes.ros.current_state import RobotFrames
from motion_nodes.ros.messages.constraints import GoalContext
from motion_nodes.ros.messages.moveit_messages import RequestRejected
from motion_nodes.ros.messages.plan_messages import not_used, options_not_used, reference_path
from motion_nodes.ros.scene.scene_messages import SceneMessages
from motion_nodes.ros.scene.scene_update import SceneFrames

PAGE = (Path(__file__).parents[2] / "docs" / "moveit_messages.md").read_text("utf-8")
ROWS = dict(re.findall(r"^\| `(\w+\.\w+)` \| (\w+) \|", PAGE, re.MULTILINE))
ROOTS = ("MotionPlanRequest", "PlanningOptions", "MotionSequenceItem", "PlanningScene")
FRANKA = load_robot("franka")
ARM = FRANKA.group("arm")
KINEMATICS = Kinematics(FRANKA.tree, FRANKA.joint_names, base=FRANKA.base_frame)


def fields_of(roots: tuple[str, ...]) -> set[str]:
    """Return all fields of messages, recursively except in fields that are not read."""
    found: set[str] = set()
    waiting, seen = list(roots), set(roots)
    while waiting:
        kind = waiting.pop()
        for name, type_ in getattr(msg, kind).get_fields_and_field_types().items():
            field = f"{kind}.{name}"
            found.add(field)
            inner = re.search(r"moveit_msgs/(\w+)", type_)
            read = ROWS.get(field) in (None, "honoured")
            if inner and read and inner[1] not in seen:
                seen.add(inner[1])
                waiting.append(inner[1])
    return found


def test_the_page_lists_exactly_the_fields_of_the_messages():
    assert set(ROWS) == fields_of(ROOTS)
    assert set(ROWS.values()) == {"honoured", "rejected", "note", "warning", "label"}
    assert all(name in PAGE for name in ("TrajOpt", "RRTstar") if name in planner_names())


class NoTree:
    """An empty /tf."""

    def update(self) -> None:
        """Do nothing."""

    def pose(self, base: str, name: str) -> Any:
        raise UnknownFrame(name, ())


def context() -> GoalContext:
    return GoalContext(FRANKA, ARM, FRANKA.home.copy(), RobotFrames(KINEMATICS, NoTree(), ""))


def request(**fields: Any) -> str:
    try:
        return "; ".join(not_used(msg.MotionPlanRequest(**fields)))
    except RequestRejected as error:
        return str(error)


def options(**fields: Any) -> str:
    return "; ".join(options_not_used(msg.PlanningOptions(**fields)))


def weighted(kind: str) -> str:
    made = getattr(msg, f"{kind.capitalize()}Constraint")
    parts = {f"{kind}_constraints": [made(weight=1.0), made(weight=0.5)]}
    return request(goal_constraints=[msg.Constraints(**parts)])


def region(**fields: Any) -> str:
    part = msg.PositionConstraint(constraint_region=msg.BoundingVolume(**fields))
    with pytest.raises(RequestRejected) as refusal:
        context().goals([msg.Constraints(position_constraints=[part])])
    return str(refusal.value)


def sight() -> str:
    part = msg.VisibilityConstraint(max_view_angle=1.0, target_radius=0.1, cone_sides=4)
    part.sensor_pose.header.frame_id = "panda_hand"
    where = context()
    where.path_constraints(msg.Constraints(visibility_constraints=[part]))
    return "; ".join(where.notes)


def scene(**fields: Any) -> str:
    frames = SceneFrames(KINEMATICS, RobotFrames(KINEMATICS, NoTree(), ""), lambda: FRANKA.home)
    diff = msg.PlanningScene(is_diff=True, **fields)
    diff.robot_state.is_diff = True
    after, findings = SceneMessages(FRANKA, frames).apply(Scene(), diff)
    assert findings.success
    del after
    return "; ".join(findings.warnings)


def attached(**fields: Any) -> str:
    ball = SolidPrimitive(type=SolidPrimitive.SPHERE, dimensions=[0.1])
    item = msg.CollisionObject(id="ball", primitives=[ball], primitive_poses=[Pose()])
    held = msg.AttachedCollisionObject(link_name="panda_hand", object=item, **fields)
    return scene(robot_state=msg.RobotState(attached_collision_objects=[held]))


def workspace() -> str:
    space = msg.WorkspaceParameters()
    space.max_corner.z = 1.0
    return request(workspace_parameters=space)


def multi_dof() -> str:
    start = msg.RobotState()
    start.multi_dof_joint_state.joint_names = ["floating"]
    return request(start_state=start)


NAMED = {
    "MotionPlanRequest.workspace_parameters": workspace,
    "MotionPlanRequest.trajectory_constraints": lambda: request(
        trajectory_constraints=msg.TrajectoryConstraints(constraints=[msg.Constraints()])
    ),
    "MotionPlanRequest.reference_trajectories": lambda: request(
        reference_trajectories=[msg.GenericTrajectory()]
    ),
    "PlanningOptions.look_around": lambda: options(look_around=True),
    "PlanningOptions.max_safe_execution_cost": lambda: options(max_safe_execution_cost=1.0),
    "RobotState.multi_dof_joint_state": multi_dof,
    "JointConstraint.weight": lambda: weighted("joint"),
    "PositionConstraint.weight": lambda: weighted("position"),
    "OrientationConstraint.weight": lambda: weighted("orientation"),
    "VisibilityConstraint.weight": lambda: weighted("visibility"),
    "VisibilityConstraint.target_radius": sight,
    "VisibilityConstraint.cone_sides": sight,
    "BoundingVolume.meshes": lambda: region(meshes=[Mesh()]),
    "BoundingVolume.mesh_poses": lambda: region(mesh_poses=[Pose()]),
    "PlanningScene.robot_model_name": lambda: scene(robot_model_name="ur10e"),
    "AttachedCollisionObject.detach_posture": lambda: attached(
        detach_posture=JointTrajectory(points=[JointTrajectoryPoint()])
    ),
    "AttachedCollisionObject.weight": lambda: attached(weight=0.5),
}
"""Response to a request that sets a field without effect, by field."""


def test_there_is_a_case_for_each_field_without_an_effect():
    assert set(NAMED) == {
        field for field, effect in ROWS.items() if effect in ("rejected", "note", "warning")
    }


@pytest.mark.parametrize("field", NAMED)
def test_a_field_without_an_effect_is_named(field):
    assert field.rpartition(".")[2] in NAMED[field]()


def test_usual_requests_get_no_notes():
    usual = msg.MotionPlanRequest(goal_constraints=[msg.Constraints()])
    usual.goal_constraints[0].joint_constraints = [msg.JointConstraint(weight=1.0)] * 7
    usual.start_state.joint_state.name = list(FRANKA.joint_names)
    usual.start_state.joint_state.velocity = [1e-3] * len(FRANKA.joint_names)
    assert not_used(usual) == []
    assert options_not_used(msg.PlanningOptions()) == []
    usual.start_state.joint_state.velocity[2] = 0.5
    assert "panda_joint3" in not_used(usual)[0]
    usual.workspace_parameters.min_corner.x = 1.0
    with pytest.raises(RequestRejected):
        not_used(usual)


def reference(names: list[str], rows: Any) -> Any:
    points = [JointTrajectoryPoint(positions=[float(x) for x in row]) for row in rows]
    message = JointTrajectory(joint_names=names, points=points)
    given = msg.GenericTrajectory(joint_trajectory=[message])
    return msg.MotionPlanRequest(reference_trajectories=[given])


def test_a_reference_trajectory_is_read_in_the_order_of_the_group():
    names = list(reversed(FRANKA.joint_names))
    rows = np.random.default_rng(3).uniform(-1.0, 1.0, (3, len(names)))
    path = reference_path(reference(names, rows), ARM.joints)
    assert np.allclose(path, rows[:, [names.index(name) for name in ARM.joints]])
    assert reference_path(msg.MotionPlanRequest(), ARM.joints) == ()


@pytest.mark.parametrize(
    ("names", "rows"),
    [
        (list(ARM.joints)[1:], np.zeros((2, 6))),
        (list(ARM.joints), np.zeros((1, 7))),
        (list(ARM.joints), np.zeros((2, 6))),
        (list(ARM.joints), np.full((2, 7), np.nan)),
        (list(ARM.joints), np.full((2, 7), 1e30)),
    ],
)
def test_invalid_reference_trajectories_are_refused(names, rows):
    with pytest.raises(RequestRejected, match="reference_trajectories"):
        reference_path(reference(names, rows), ARM.joints)
