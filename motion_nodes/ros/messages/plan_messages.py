# SPDX-License-Identifier: Apache-2.0
"""Planning requests; plans as moveit_msgs: trajectories, error codes, displayed paths.

No field of a request is ignored silently: one without an effect is named in a note, an invalid one
rejected; see ``docs/planning.md``.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from builtin_interfaces.msg import Duration
from moveit_msgs.msg import (
    DisplayTrajectory,
    MoveItErrorCodes,
    PlanningScene,
    RobotState,
    RobotTrajectory,
)
from numpy.typing import NDArray
from trajectory_msgs.msg import JointTrajectoryPoint

from motion_nodes.core.planning.planning_problem import PlanStatus
from motion_nodes.core.planning.tool_motions import ArcPoint, ToolMotion
from motion_nodes.core.robot.bounds import JOINT_POSITION, POINTS
from motion_nodes.core.robot.robot import Group
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.errors import InvalidCommand, UnknownFrame, did_you_mean
from motion_nodes.ros.messages.constraints import GoalContext
from motion_nodes.ros.messages.moveit_messages import (
    RequestRejected,
    bounded,
    fill_robot_state,
    pose_of,
)
from motion_nodes.typing import Array

if TYPE_CHECKING:
    from motion_nodes.core.planning.tree_search import SearchTree

Codes = MoveItErrorCodes

MIN_SCALING = 1e-6
"""Min scaling factor; with smaller ones the numbers of a motion overflow."""
STRICT_SCALING = 1e-4
"""Factor up to which Pilz' planners reject requests; source: trajectory_generator.hpp."""

MAX_PLANNING_TIME = 600.0
"""[s] Max planning time of a request, which occupies a thread for it."""
MAX_REPLAN_DELAY = 60.0
"""[s] Max delay between two replanning attempts."""

PLAN_CODES = {
    PlanStatus.SOLVED: Codes.SUCCESS,
    PlanStatus.NO_GOAL: Codes.INVALID_GOAL_CONSTRAINTS,
    PlanStatus.START_IN_COLLISION: Codes.START_STATE_IN_COLLISION,
    PlanStatus.START_OUTSIDE_LIMITS: Codes.START_STATE_INVALID,
    PlanStatus.START_VIOLATES_CONSTRAINTS: Codes.START_STATE_VIOLATES_PATH_CONSTRAINTS,
    PlanStatus.GOAL_VIOLATES_CONSTRAINTS: Codes.GOAL_VIOLATES_PATH_CONSTRAINTS,
    PlanStatus.GOAL_IN_COLLISION: Codes.GOAL_IN_COLLISION,
    PlanStatus.GOAL_OUTSIDE_LIMITS: Codes.GOAL_STATE_INVALID,
    PlanStatus.GOAL_UNREACHABLE: Codes.NO_IK_SOLUTION,
    PlanStatus.TIMED_OUT: Codes.TIMED_OUT,
    PlanStatus.ITERATION_LIMIT: Codes.PLANNING_FAILED,
    PlanStatus.CANCELLED: Codes.PREEMPTED,
    PlanStatus.BLOCKED: Codes.PLANNING_FAILED,
    PlanStatus.INVALID_PATH: Codes.INVALID_MOTION_PLAN,
}
"""MoveIt's error code for each planning status."""
ERROR_CODES: dict[type, int] = {
    InvalidCommand: Codes.INVALID_GOAL_CONSTRAINTS,
    UnknownFrame: Codes.INVALID_LINK_NAME,
}
"""MoveIt's error code by type of the planning core's error."""


@dataclass(frozen=True)
class PlanJob:
    """A request with its scene."""

    request: Any
    """moveit_msgs/MotionPlanRequest."""
    scene_diff: PlanningScene | None = None
    """Changes of the planning scene for this request only."""
    from_current: bool = False
    """Whether the plan must start at the current state, because it is to be executed."""
    notes: tuple[str, ...] = ()
    """Notes for the client."""


@dataclass(frozen=True)
class PlannedMotion:
    """A plan as messages."""

    job: PlanJob
    group: Group
    q: Array
    """Positions of all joints at the start [rad or m], shape (n,)."""
    start: RobotState
    trajectory: RobotTrajectory
    time: float
    """Planning time [s]."""
    note: str
    """Note for the client; may be empty."""
    recovery_points: int = 0
    """Number of leading points that recover from an invalid start state."""
    tree: SearchTree | None = None
    """Search tree, for display."""


def trajectory_message(trajectory: JointTrajectory, frame: str = "") -> RobotTrajectory:
    """Return a trajectory as a message.

    Args:
        trajectory: the trajectory.
        frame: the robot's base frame, for the header.
    """
    message = RobotTrajectory()
    joints = message.joint_trajectory
    joints.joint_names, joints.header.frame_id = list(trajectory.joint_names), frame
    q, v, a = (
        [array("d") for _ in trajectory.times] if rows is None else _rows(rows)
        for rows in (trajectory.positions, trajectory.velocities, trajectory.accelerations)
    )
    nanoseconds = np.rint(1e9 * np.maximum(trajectory.times, 0.0)).astype(np.int64).tolist()
    joints.points = list(map(_point, q, v, a, nanoseconds))
    return message


def _rows(values: NDArray[np.float64]) -> list[array[float]]:
    """Return the rows of an array in the form of message fields."""
    every, width = array("d", np.ascontiguousarray(values, np.float64).tobytes()), values.shape[1]
    return [every[i : i + width] for i in range(0, len(every), width)]


def _point(
    position: array[float], velocity: array[float], acceleration: array[float], nanoseconds: int
) -> JointTrajectoryPoint:
    """Return a point of a trajectory.

    The fields of a generated message are set directly: its constructor creates each of them first,
    which takes four times as long, and a response has hundreds of points.
    """
    time = Duration.__new__(Duration)
    time._check_fields = False
    time._sec, time._nanosec = divmod(nanoseconds, 1_000_000_000)
    point = JointTrajectoryPoint.__new__(JointTrajectoryPoint)
    point._check_fields = False
    point._positions, point._velocities, point._accelerations = position, velocity, acceleration
    point._effort, point._time_from_start = array("d"), time
    return point


def state_message(joints: Mapping[str, float], stamp: Any, frame: str) -> RobotState:
    """Return joint positions [rad or m] as a robot state."""
    state = RobotState()
    fill_robot_state(state, joints)
    state.joint_state.header.stamp, state.joint_state.header.frame_id = stamp, frame
    return state


def display_message(
    robot: str, start: RobotState, trajectories: Sequence[RobotTrajectory]
) -> DisplayTrajectory:
    """Return the message that RViz displays as a planned path."""
    return DisplayTrajectory(model_id=robot, trajectory_start=start, trajectory=list(trajectories))


def scaling(request: Any, notes: list[str], *, strict: bool = False) -> tuple[float, float]:
    """Return the velocity and the acceleration scaling factor of a request.

    As in MoveIt, 0 stands for 1, and a factor above 1 is 1, with a note.

    Args:
        request: with ``max_velocity_scaling_factor`` and ``max_acceleration_scaling_factor``.
        notes: for the client.
        strict: whether factors above 1, and small ones, are rejected, as by Pilz' planners.

    Raises:
        RequestRejected: a factor is neither 0 nor at least MIN_SCALING, or above STRICT_SCALING.
    """
    factors = []
    least, word = (STRICT_SCALING, "above ") if strict else (MIN_SCALING, "")
    for what in ("max_velocity_scaling_factor", "max_acceleration_scaling_factor"):
        value = getattr(request, what)
        above = 1.0 < value < math.inf and not strict
        small = value <= least if strict else value < least
        if value != 0.0 and not above and (small or not value <= 1.0):
            raise RequestRejected(
                Codes.INVALID_MOTION_PLAN,
                f"{what} is {value}; allowed is {word}{least:g} to 1, or 0 for 1",
            )
        if above:
            notes.append(f"{what} is {value:g}; 1 is used, the max")
        factors.append(1.0 if above else value or 1.0)
    return factors[0], factors[1]


def planning_time(value: float, default: float, notes: list[str]) -> float:
    """Return the planning timeout [s].

    Args:
        value: ``allowed_planning_time`` of a request; 0 stands for the default.
        default: default timeout [s].
        notes: for the client; one above MAX_PLANNING_TIME is bounded.

    Raises:
        RequestRejected: it is negative or not finite.
    """
    if not math.isfinite(value) or value < 0.0:
        raise RequestRejected(
            Codes.PLANNING_FAILED,
            f"allowed_planning_time is {value} s; give a positive time, or 0 for {default:g} s",
        )
    return bounded(value, MAX_PLANNING_TIME, "allowed_planning_time", notes) or default


Path = tuple[tuple[float, ...], ...]
AT_REST = 0.02
"""Max joint velocity of a start state that counts as being at rest [rad/s or m/s]."""
PIPELINE = "motion_nodes"
"""Name of the default pipeline."""
INDUSTRIAL = "pilz_industrial_motion_planner"
"""Name of the pipeline with PTP, LIN and CIRC, as in MoveIt."""
_EQUIVALENT = ("ompl", "move_group", "chomp", "stomp")
"""Names of MoveIt's pipelines that clients send by default; a note names the one that is used."""
_ARC_NAMES = ("interim", "center")


def not_used(request: Any, *, guided: bool = False) -> list[str]:
    """Return notes on fields of a MotionPlanRequest that are set but have no effect.

    Args:
        request: the request.
        guided: whether the planner starts from ``reference_trajectories``.

    Raises:
        RequestRejected: an empty workspace, or trajectory constraints.
    """
    if request.trajectory_constraints.constraints:
        raise RequestRejected(
            MoveItErrorCodes.INVALID_GOAL_CONSTRAINTS,
            "trajectory_constraints are not supported; use path_constraints, or several goals",
        )
    notes = _workspace(request.workspace_parameters)
    if request.num_planning_attempts < 0:
        notes.append(f"num_planning_attempts is {request.num_planning_attempts}; 1 is used")
    if request.reference_trajectories and not guided:
        notes.append(
            "reference_trajectories are not used by this planner; 'TrajOpt' optimizes the first one"
        )
    moving = moving_joints(request.start_state)
    if moving:
        notes.append(
            f"velocities of start_state are not used ({moving[0]} is moving): plans start at rest"
        )
    if request.start_state.multi_dof_joint_state.joint_names:
        notes.append("multi_dof_joint_state is not used: the robot has no multi-DOF joints")
    alternatives = [*request.goal_constraints, request.path_constraints]
    if any(len(_weights(constraints)) > 1 for constraints in alternatives):
        notes.append("weights of constraints are not used: all constraints are satisfied")
    return notes


def moving_joints(state: Any) -> list[str]:
    """Return the joints of a RobotState that are not at rest."""
    given = zip(state.joint_state.name, state.joint_state.velocity, strict=False)
    return [name for name, value in given if abs(value) > AT_REST]


def options_not_used(options: Any) -> list[str]:
    """Return notes on fields of PlanningOptions that have no effect, or less than they say."""
    notes = []
    if options.look_around:
        notes.append(
            "look_around (and look_around_attempts) is not used: the planning scene is not scanned "
            "before execution"
        )
    if options.max_safe_execution_cost:
        notes.append(
            "max_safe_execution_cost is not used: paths through unknown space have no cost here"
        )
    if options.replan:
        bounded(options.replan_delay, MAX_REPLAN_DELAY, "replan_delay", notes)
    return notes


def reference_path(request: Any, joints: Sequence[str]) -> Path:
    """Return the waypoints of the first reference trajectory; empty if there is none.

    Args:
        request: MotionPlanRequest.
        joints: of the planning group, in order.

    Raises:
        RequestRejected: several trajectories, a Cartesian one, missing joints, fewer than two
            points, or invalid positions.
    """
    given = request.reference_trajectories
    if not given:
        return ()
    if len(given) > 1 or len(given[0].joint_trajectory) != 1 or given[0].cartesian_trajectory:
        raise _rejected(
            "give one trajectory of joints: reference_trajectories[0].joint_trajectory[0], no "
            "cartesian_trajectory"
        )
    message = given[0].joint_trajectory[0]
    names = list(message.joint_names)
    missing = [name for name in joints if name not in names]
    if missing:
        raise _rejected(f"joint '{missing[0]}' of the planning group is missing")
    if len(message.points) < 2:
        raise _rejected(f"it has {len(message.points)} points; at least 2 are needed")
    if len(message.points) > POINTS:
        raise _rejected(f"it has {len(message.points)} points; allowed are {POINTS}")
    columns = [names.index(name) for name in joints]
    path = []
    for number, point in enumerate(message.points, start=1):
        positions = list(point.positions)
        allowed = all(math.isfinite(x) and JOINT_POSITION.allows(x) for x in positions)
        if len(positions) != len(names) or not allowed:
            raise _rejected(
                f"point {number} needs {len(names)} positions, one for each joint name; allowed is "
                f"{JOINT_POSITION.text()}"
            )
        path.append(tuple(positions[column] for column in columns))
    return tuple(path)


def _workspace(space: Any) -> list[str]:
    corners = [(c.x, c.y, c.z) for c in (space.min_corner, space.max_corner)]
    if not any(value != 0.0 for corner in corners for value in corner):
        return []
    if not all(low <= high for low, high in zip(*corners, strict=True)):
        raise RequestRejected(
            MoveItErrorCodes.INVALID_MOTION_PLAN,
            f"workspace_parameters are empty: min_corner is {corners[0]}, max_corner {corners[1]}",
        )
    return ["workspace_parameters are not used: they bound mobile bases, and this robot is an arm"]


def _weights(constraints: Any) -> set[float]:
    """Return the different weights of constraints; 0 means that none is given."""
    kinds = ("joint", "position", "orientation", "visibility")
    given = [part.weight for kind in kinds for part in getattr(constraints, f"{kind}_constraints")]
    return {weight for weight in given if weight != 0.0}


def _rejected(text: str) -> RequestRejected:
    return RequestRejected(MoveItErrorCodes.INVALID_MOTION_PLAN, f"reference_trajectories: {text}")


_NAMES = tuple(kind.value for kind in ToolMotion)


def requested_motion(request: Any, notes: list[str]) -> ToolMotion | None:
    """Return PTP, LIN or CIRC; None for the sampling-based planners.

    Args:
        request: MotionPlanRequest.
        notes: for the client, extended.

    Raises:
        RequestRejected: there is no such pipeline, or no such planner of the industrial one.
    """
    pipeline, planner = request.pipeline_id.strip(), request.planner_id.strip()
    if pipeline == INDUSTRIAL:
        return _industrial(planner)
    if pipeline in _EQUIVALENT:
        notes.append(f"there is no pipeline '{pipeline}' here; '{PIPELINE}' is used")
    elif pipeline not in ("", PIPELINE):
        known = (PIPELINE, INDUSTRIAL)
        raise RequestRejected(
            MoveItErrorCodes.FAILURE,
            f"there is no planning pipeline '{pipeline}'; available: {', '.join(known)}."
            f"{did_you_mean(pipeline, known)}",
        )
    return ToolMotion(planner) if planner in _NAMES else None


def _industrial(planner: str) -> ToolMotion:
    if planner not in _NAMES:
        raise RequestRejected(
            MoveItErrorCodes.FAILURE,
            f"pipeline '{INDUSTRIAL}' has no planner '{planner}'; planner_id must be one of "
            f"{', '.join(_NAMES)}.{did_you_mean(planner, _NAMES)}",
        )
    return ToolMotion(planner)


def arc_point(request: Any, context: GoalContext) -> ArcPoint:
    """Return the point that defines an arc: that of a path constraint named center or interim.

    Args:
        request: MotionPlanRequest of a CIRC motion.
        context: robot, group and state of the request.

    Raises:
        RequestRejected: another name, an unknown link, or not one position constraint with one
            pose.
    """
    along = request.path_constraints
    if along.name not in _ARC_NAMES:
        raise _no_arc(
            f"CIRC needs path_constraints named 'interim' or 'center' with a position constraint; "
            f"the name is '{along.name}'.{did_you_mean(along.name, _ARC_NAMES)}"
        )
    if len(along.position_constraints) != 1:
        raise _no_arc(
            f"CIRC needs one position constraint in path_constraints, the {along.name} point; "
            f"there are {len(along.position_constraints)}"
        )
    constraint = along.position_constraints[0]
    if constraint.link_name:
        context.target(constraint.link_name)
    poses = constraint.constraint_region.primitive_poses
    if len(poses) != 1:
        raise _no_arc(
            f"the {along.name} point of CIRC is the primitive pose of its constraint region; there "
            f"are {len(poses)}"
        )
    X_FP, note = pose_of(poses[0], f"the {along.name} point")
    if note and not np.allclose(X_FP[:3, :3], np.eye(3)):
        context.notes.append(note)
    X_BP = context.frames.pose(constraint.header.frame_id, context.q) @ X_FP
    return ArcPoint(X_BP[:3, 3], is_center=along.name == "center")


def _no_arc(text: str) -> RequestRejected:
    return RequestRejected(MoveItErrorCodes.INVALID_MOTION_PLAN, text)
