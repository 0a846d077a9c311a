# SPDX-License-Identifier: Apache-2.0
"""A client of the planner node, with requests like those of MoveIt's clients."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from geometry_msgs.msg import Pose
from joint_client import ARM, HOME, SUCCEEDED, JointClient
from moveit_msgs.action import ExecuteTrajectory, MoveGroup
from moveit_msgs.msg import (
    CollisionObject,
    Constraints,
    JointConstraint,
    MoveItErrorCodes,
    OrientationConstraint,
    PositionConstraint,
    RobotState,
    WorkspaceParameters,
)
from moveit_msgs.srv import GetMotionPlan
from ros_client import values_of
from sensor_msgs.msg import JointState
from shape_msgs.msg import SolidPrimitive

Codes = MoveItErrorCodes


def box(name: str, size: tuple[float, float, float], at: tuple[float, float, float]) -> Any:
    """Return a message that adds a box to the scene, in the robot's base frame."""
    message = CollisionObject(id=name, operation=CollisionObject.ADD)
    message.pose.position.x, message.pose.position.y, message.pose.position.z = at
    message.primitives = [SolidPrimitive(type=SolidPrimitive.BOX, dimensions=size)]
    message.primitive_poses = [Pose()]
    return message


def at(joints: Mapping[str, float], tolerance: float = 1e-3) -> Constraints:
    """Return joint constraints."""
    return Constraints(
        joint_constraints=[
            JointConstraint(
                joint_name=name,
                position=value,
                tolerance_above=tolerance,
                tolerance_below=tolerance,
                weight=1.0,
            )
            for name, value in joints.items()
        ]
    )


def state(joints: Mapping[str, float]) -> RobotState:
    """Return a robot state of some joints."""
    return RobotState(joint_state=JointState(name=list(joints), position=list(joints.values())))


def end_of(message: Any) -> dict[str, float]:
    """Return the last positions of a trajectory, by joint."""
    message = message.joint_trajectory
    return dict(zip(message.joint_names, message.points[-1].positions, strict=True))


class Planner:
    """A client of the planner."""

    def __init__(self, arm: JointClient, namespace: str = "") -> None:
        self.arm = arm
        self.client = arm.client
        self.namespace = namespace

    def wait(self) -> None:
        """Wait until it is ready to plan."""

        def ready() -> bool:
            status = self.client.diagnostics(f"{self.namespace}/move_group")
            return status is not None and values_of(status).get("ready to plan") == "True"

        # The first start on a machine compiles.
        self.client.wait(ready, "the planner", within=240.0)

    def go_home(self) -> None:
        """Move to the state home, and wait until the arm rests."""
        status, result = self.move({name: HOME[name] for name in ARM}).result()
        assert status == SUCCEEDED, result.error_code.message
        self.arm.rest()

    def plan(self, goal: Any, **fields: Any) -> Any:
        """Call plan_kinematic_path; return its response."""
        request = GetMotionPlan.Request()
        self.fill(request.motion_plan_request, goal, fields)
        # The first use of a planner on a machine compiles it.
        name = f"{self.namespace}/plan_kinematic_path"
        answer = self.client.call(GetMotionPlan, name, request, within=90.0)
        return answer.motion_plan_response

    def refused(self, goal: Any, **fields: Any) -> tuple[int, str]:
        """Call it with a request that must fail; return error code and message."""
        answer = self.plan(goal, **fields)
        assert answer.error_code.val != Codes.SUCCESS
        assert answer.error_code.source == "move_group"
        assert not answer.trajectory.joint_trajectory.points, "a failed plan with points"
        return answer.error_code.val, answer.error_code.message

    def fill(self, request: Any, goal: Any, fields: dict[str, Any]) -> None:
        """Fill in a request with goals (joints or constraints) and other fields."""
        request.group_name = "arm"
        goals = goal if isinstance(goal, list) else [goal]
        request.goal_constraints = [g if isinstance(g, Constraints) else at(g) for g in goals]
        for name, value in fields.items():
            setattr(request, name, value)

    def move(self, goal: Any, *, options: dict[str, Any] | None = None, **fields: Any) -> Any:
        """Send a goal to move_action."""
        message = MoveGroup.Goal()
        self.fill(message.request, goal, fields)
        for name, value in (options or {}).items():
            setattr(message.planning_options, name, value)
        return self.arm.send(message, MoveGroup, f"{self.namespace}/move_action")

    def execute(self, message: Any, **fields: Any) -> Any:
        """Send a trajectory to execute_trajectory."""
        goal = ExecuteTrajectory.Goal(**fields)
        goal.trajectory.joint_trajectory = message
        return self.arm.send(goal, ExecuteTrajectory, f"{self.namespace}/execute_trajectory")


def planning_cell(suite: Any, client: Any) -> Iterator[Planner]:
    """Yield the planner of a Franka without physics, with its controller, at home."""
    suite.node("articulation_controller", robot="franka", use_sim_time=True, update_rate=100.0)
    suite.node("mock_sim", robots=["franka"], update_rate=100.0)
    suite.node("rrt_planner", robot="franka", use_sim_time=True)
    arm = JointClient(client)
    arm.wait_for()
    made = Planner(arm)
    made.wait()
    made.go_home()
    yield made
    arm.close()


def pose_constraints(
    position: Sequence[float],
    quat_xyzw: Sequence[float],
    link: str = "panda_hand_tcp",
    frame: str = "panda_link0",
    tolerance: float = 1e-3,
) -> Constraints:
    """Return a pose goal like pymoveit2's: a small sphere, and an orientation with tolerances."""
    place = PositionConstraint(link_name=link, weight=1.0)
    place.header.frame_id = frame
    place.constraint_region.primitives = [
        SolidPrimitive(type=SolidPrimitive.SPHERE, dimensions=[tolerance])
    ]
    pose = Pose()
    pose.position.x, pose.position.y, pose.position.z = map(float, position)
    place.constraint_region.primitive_poses = [pose]
    turn = OrientationConstraint(link_name=link, weight=1.0)
    turn.header.frame_id = frame
    q = turn.orientation
    q.x, q.y, q.z, q.w = map(float, quat_xyzw)
    turn.absolute_x_axis_tolerance = tolerance
    turn.absolute_y_axis_tolerance = tolerance
    turn.absolute_z_axis_tolerance = tolerance
    return Constraints(position_constraints=[place], orientation_constraints=[turn])


def as_pymoveit2_asks(
    planner: Planner,
    position: Sequence[float],
    quat_xyzw: Sequence[float],
    options: dict[str, Any] | None = None,
    **fields: Any,
) -> Any:
    """Send a pose to move_action with the fields that pymoveit2 fills in.

    Source: pymoveit2, moveit2.py (02cd3ed): ``move_to_pose`` with ``use_move_group_action``.
    """
    planner.client.wait(lambda: planner.arm.states, "joint states")
    workspace = WorkspaceParameters()
    workspace.header.frame_id = "panda_link0"
    for corner, value in ((workspace.min_corner, -1.0), (workspace.max_corner, 1.0)):
        corner.x = corner.y = corner.z = value
    asked = {
        "workspace_parameters": workspace,
        "start_state": RobotState(joint_state=planner.arm.states.newest),
        "num_planning_attempts": 5,
        "allowed_planning_time": 0.5,
        "max_velocity_scaling_factor": 0.0,
        "max_acceleration_scaling_factor": 0.0,
    }
    goal = pose_constraints(position, quat_xyzw)
    return planner.move(goal, options=options, **asked | fields)
