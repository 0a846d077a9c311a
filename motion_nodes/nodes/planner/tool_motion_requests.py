# SPDX-License-Identifier: Apache-2.0
"""Requests for motions of the tool: PTP, LIN and CIRC, sequences of them, straight paths.

The service compute_cartesian_path plans straight lines of a link through waypoints.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from moveit_msgs.msg import MoveItErrorCodes, RobotState
from sensor_msgs.msg import JointState

from motion_nodes.core.planning.cartesian import (
    CartesianOptions,
    CartesianStop,
    cartesian_motion,
    cartesian_path,
    cruising,
)
from motion_nodes.core.planning.constrained_plan import within_constraints
from motion_nodes.core.planning.industrial import SequenceItem, plan_sequence
from motion_nodes.core.planning.pipeline import PlanOptions
from motion_nodes.core.planning.planning_problem import (
    Goal,
    PlanRequest,
    PlanStatus,
    PoseGoal,
    PosesGoal,
)
from motion_nodes.core.planning.tool_motions import ToolMotion
from motion_nodes.core.robot.poses import inverse
from motion_nodes.core.robot.robot import Group
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import Scene
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.errors import InvalidCommand, InvalidConfig, MotionError, UnknownFrame
from motion_nodes.ros.messages.constraints import GoalContext, refused
from motion_nodes.ros.messages.moveit_messages import RequestRejected, pose_of
from motion_nodes.ros.messages.plan_messages import (
    ERROR_CODES,
    INDUSTRIAL,
    PLAN_CODES,
    PlanJob,
    PlannedMotion,
    arc_point,
    moving_joints,
    not_used,
    options_not_used,
    planning_time,
    requested_motion,
    scaling,
    trajectory_message,
)
from motion_nodes.typing import Array

if TYPE_CHECKING:
    from motion_nodes.nodes.planner.planning_requests import PlanningRequests

Codes = MoveItErrorCodes

SMALLEST_STEP = 1e-4
"""Smallest max_step of a straight path [m]: a metre of 10 000 steps takes about a second."""
NO_ITEMS = "the sequence has no items: there is nothing to do"
"""Note of an empty sequence, which succeeds as it does in MoveIt."""


def plan_tool_motion(
    requests: PlanningRequests, job: PlanJob, cancelled: Callable[[], bool]
) -> PlannedMotion:
    """Plan one PTP, LIN or CIRC motion.

    Raises:
        RequestRejected: an invalid request, or an impossible motion.
    """
    _check_start(requests, job)
    return _plan(requests, job, [(job.request, 0.0)], cancelled)


def check_tool_motions(
    requests: PlanningRequests, job: PlanJob, given: list[tuple[Any, float]]
) -> None:
    """Reject wrong PTP, LIN and CIRC motions, before they stop one under way.

    Args:
        requests: planning interface of the robot.
        job: the first motion's request, and the scene.
        given: moveit_msgs/MotionPlanRequest and blend radius [m] of each motion.

    Raises:
        RequestRejected: an invalid motion.
    """
    job = replace(job, from_current=False)
    if len(given) == 1:
        _check_start(requests, job)
    for part in _parts(requests, given, []):
        begun = replace(job, request=part[0][0])
        if requests.warm.is_set():
            _read_items(requests, begun, part, lambda: False)
        else:
            _read(requests, begun, part)


def _check_start(requests: PlanningRequests, job: PlanJob) -> None:
    start = job.request.start_state
    if requests.params.peer_defaults and _empty(start) and not start.is_diff:
        raise RequestRejected(
            Codes.INVALID_ROBOT_STATE,
            "start_state names no joints, which peer_defaults refuses; name them, or set is_diff "
            "for the current state",
        )


def plan_motion_sequence(
    requests: PlanningRequests, sequence: Any, job: PlanJob, cancelled: Callable[[], bool]
) -> list[PlannedMotion]:
    """Plan a MotionSequenceRequest.

    Args:
        requests: planning interface of the robot.
        sequence: its items.
        job: the first item's request, and the scene.
        cancelled: returns whether to stop planning.

    Returns:
        The motions, one after the other: of consecutive items of the same group one.

    Raises:
        RequestRejected: an invalid item, or an impossible motion.
    """
    notes = list(job.notes)
    parts = _parts(requests, items_of(sequence), notes)
    job, planned = replace(job, notes=tuple(notes)), list[PlannedMotion]()
    for part in parts:
        if planned:
            job = _continued(requests, job, part[0][0], planned[-1])
        planned.append(_plan(requests, job, part, cancelled))
    return planned


def items_of(sequence: Any) -> list[tuple[Any, float]]:
    """Return moveit_msgs/MotionPlanRequest and blend radius [m] of the items of a sequence."""
    return [(item.req, item.blend_radius) for item in sequence.items]


def _parts(
    requests: PlanningRequests, given: list[tuple[Any, float]], notes: list[str]
) -> list[list[tuple[Any, float]]]:
    """Return consecutive items of the same group, which are one motion.

    Source: pilz_industrial_motion_planner, command_list_manager.cpp.

    Args:
        requests: planning interface of the robot.
        given: the items.
        notes: receives a note on blends between groups, which stop instead.

    Raises:
        RequestRejected: no such group, or a start state of a group that has begun already.
    """
    names = [requests.group(request.group_name).name for request, _ in given]
    parts = list[list[tuple[Any, float]]]()
    for k, ((request, radius), name) in enumerate(zip(given, names, strict=True)):
        if name in names[:k] and not _empty(request.start_state):
            raise RequestRejected(
                Codes.INVALID_ROBOT_STATE,
                f"item {k + 1} of {len(given)}: only the first item of a group may have a "
                "start_state; the others start where the one before ends",
            )
        if radius > 0.0 and k + 1 < len(names) and names[k + 1] != name:
            notes.append(f"item {k + 1} stops: the next one moves another group")
            radius = 0.0
        if k == 0 or names[k - 1] != name:
            parts.append([])
        parts[-1].append((request, radius))
    return parts


def _continued(
    requests: PlanningRequests, job: PlanJob, request: Any, before: PlannedMotion
) -> PlanJob:
    """Return the job of a request that starts where a motion of other joints ends."""
    if job.from_current and not _empty(request.start_state):
        requests.start(request.start_state, from_current=True)
    q, points = before.q.copy(), before.trajectory.joint_trajectory.points
    if points:
        q[before.group.indices] = points[-1].positions
    values = dict(zip(requests.robot.joint_names, q.tolist(), strict=True))
    begun = copy.deepcopy(request)
    given = begun.start_state.joint_state
    values |= dict(zip(given.name, given.position, strict=False))
    begun.start_state.joint_state = JointState(name=list(values), position=list(values.values()))
    return PlanJob(begun, job.scene_diff)


def sequence_job(sequence: Any, options: Any, *, from_current: bool) -> PlanJob:
    """Return the job of a MotionSequenceRequest with items.

    Args:
        sequence: the request.
        options: its PlanningOptions.
        from_current: see :class:`.PlanJob`.
    """
    notes = tuple(options_not_used(options))
    return PlanJob(sequence.items[0].req, options.planning_scene_diff, from_current, notes)


def fill_sequence(response: Any, planned: Sequence[PlannedMotion]) -> str:
    """Fill in a MotionSequenceResponse, except its error code; return the notes for the client."""
    response.sequence_start = planned[0].start
    response.planning_time = sum(motion.time for motion in planned)
    response.planned_trajectories = [motion.trajectory for motion in planned]
    return "; ".join(filter(None, (motion.note for motion in planned)))


def _read(
    requests: PlanningRequests, job: PlanJob, given: list[tuple[Any, float]]
) -> tuple[Group, Array, Scene, GoalContext]:
    """Return group, start, scene and context of a job, after a check of its items.

    Raises:
        RequestRejected: the job or one of its items is wrong.
    """
    group = requests.group(job.request.group_name)
    q = requests.start(job.request.start_state, from_current=job.from_current)
    scene = requests.scenes.scene_with(job.scene_diff, job.request.start_state)
    frames = requests.frames.in_scene(scene)
    for number, (request, _) in enumerate(given, start=1):
        with _named_item(number, len(given)):
            if requests.params.peer_defaults:
                _check_complete(request, group)
    return group, q, scene, GoalContext(requests.robot, group, q, frames, [*job.notes])


@contextlib.contextmanager
def _named_item(number: int, count: int) -> Iterator[None]:
    """Context manager that adds the number of an item of several to rejections."""
    try:
        yield
    except RequestRejected as error:
        where = f"item {number} of {count}: " if count > 1 else ""
        raise RequestRejected(error.code, f"{where}{error}") from None


def _read_items(
    requests: PlanningRequests,
    job: PlanJob,
    given: list[tuple[Any, float]],
    cancelled: Callable[[], bool],
) -> tuple[Group, Array, GoalContext, list[SequenceItem]]:
    """Return group, start, context and items of a job.

    Raises:
        RequestRejected: the job or one of its items is wrong.
    """
    group, q, scene, context = _read(requests, job, given)
    problem = PlanRequest(
        requests.checker(group, scene, q),
        context.start,
        (),
        planning_time(
            job.request.allowed_planning_time,
            requests.params.allowed_planning_time,
            context.notes,
        ),
        requests.params.random_seed,
        cancelled,
    )
    items, params = [], requests.params
    for number, (request, radius) in enumerate(given, start=1):
        with _named_item(number, len(given)):
            unlimited = params.peer_defaults and request.max_cartesian_speed < 0.0
            item = _item(request, radius, context, problem, unlimited=unlimited)
            items.append(_with_usual_speed(item, params.max_trans_vel))
    return group, q, context, items


def _plan(
    requests: PlanningRequests,
    job: PlanJob,
    given: list[tuple[Any, float]],
    cancelled: Callable[[], bool],
) -> PlannedMotion:
    if not requests.warm.is_set():
        requests.reject_wrong(lambda: _read(requests, job, given))
        requests.await_warm(cancelled)
    group, q, context, items = _read_items(requests, job, given, cancelled)
    payload = requests.payload(group.tip)
    try:
        plan = plan_sequence(items, requests.params.effort_share, payload)
    except InvalidCommand as error:
        raise RequestRejected(Codes.INVALID_MOTION_PLAN, str(error)) from None
    except MotionError as error:
        unknown = isinstance(error, UnknownFrame)
        code = Codes.INVALID_LINK_NAME if unknown else Codes.PLANNING_FAILED
        raise RequestRejected(code, str(error)) from None
    notes = "; ".join(dict.fromkeys([*context.notes, *plan.notes]))
    if plan.trajectory is None:
        # Pilz counts a goal outside limits among the invalid constraints.
        outside = plan.status is PlanStatus.GOAL_OUTSIDE_LIMITS
        code = Codes.INVALID_GOAL_CONSTRAINTS if outside else PLAN_CODES[plan.status]
        raise RequestRejected(code, "; ".join(filter(None, [plan.reason, notes])))
    trajectory = trajectory_message(plan.trajectory, requests.robot.base_frame)
    start = requests.start_message(q)
    return PlannedMotion(job, group, q, start, trajectory, plan.time, notes)


def _check_goal(request: Any) -> None:
    """Require one goal, in joint space or of one tool, and a start at rest, as in Pilz."""
    goals = request.goal_constraints
    if len(goals) != 1:
        raise RequestRejected(
            Codes.INVALID_GOAL_CONSTRAINTS,
            f"{request.planner_id} needs one goal; {len(goals)} were given",
        )
    if goals[0].joint_constraints and (
        goals[0].position_constraints or goals[0].orientation_constraints
    ):
        raise RequestRejected(
            Codes.INVALID_GOAL_CONSTRAINTS,
            f"the goal of {request.planner_id} has constraints of joints and of the tool; give "
            "either",
        )
    moving = moving_joints(request.start_state)
    if moving:
        raise RequestRejected(
            Codes.INVALID_ROBOT_STATE,
            f"start_state has {moving[0]} moving; {request.planner_id} starts at rest",
        )


def _check_complete(request: Any, group: Group) -> None:
    """Require all fields that Pilz requires, instead of completing them.

    Source: pilz_industrial_motion_planner, trajectory_generator.cpp.
    """
    for name in ("max_velocity_scaling_factor", "max_acceleration_scaling_factor"):
        if getattr(request, name) == 0.0:
            raise RequestRejected(
                Codes.INVALID_MOTION_PLAN,
                f"{name} is 0, which peer_defaults refuses; give one above 0, up to 1",
            )
    for goal in request.goal_constraints:
        named = {constraint.joint_name for constraint in goal.joint_constraints}
        omitted = [joint for joint in group.joints if joint not in named]
        if named and omitted:
            raise RequestRejected(
                Codes.INVALID_GOAL_CONSTRAINTS,
                f"the goal omits {', '.join(omitted)}, which peer_defaults refuses; name all "
                f"joints of group '{group.name}'",
            )
        if not all(
            c.link_name for c in (*goal.position_constraints, *goal.orientation_constraints)
        ):
            raise RequestRejected(
                Codes.INVALID_GOAL_CONSTRAINTS,
                "a constraint of the goal has no link_name, which peer_defaults refuses",
            )


def _empty(state: RobotState) -> bool:
    return not (state.joint_state.name or state.multi_dof_joint_state.joint_names)


def _item(
    request: Any, radius: float, context: GoalContext, problem: PlanRequest, *, unlimited: bool
) -> SequenceItem:
    """Return an item of a sequence from its MotionPlanRequest.

    Args:
        request: the request.
        radius: its blend radius [m].
        context: robot, group and state of all items.
        problem: common part of their problems.
        unlimited: whether max_cartesian_speed is ignored.
    """
    kind = requested_motion(request, context.notes)
    if kind is None:
        raise RequestRejected(
            Codes.FAILURE,
            f"planner '{request.planner_id}' cannot plan items of sequences; use pipeline_id "
            f"'{INDUSTRIAL}' with PTP, LIN or CIRC",
        )
    _check_goal(request)
    context.notes.extend(not_used(request))
    along, arc = request.path_constraints, None
    if kind is ToolMotion.CIRC:
        arc, along = arc_point(request, context), _without_positions(along)
    goals = context.goals(request.goal_constraints)
    link = _tool(goals, kind, radius, context)
    return SequenceItem(
        replace(problem, goals=goals, constraints=context.path_constraints(along)),
        kind,
        link,
        arc,
        radius,
        *scaling(request, context.notes, strict=True),
        None if unlimited else context.tool_speed(request),
    )


def _with_usual_speed(item: SequenceItem, usual: float) -> SequenceItem:
    """Return a motion of the tool with the usual max speed [m/s], 0 for none, if it has no own."""
    if usual == 0.0 or item.kind is ToolMotion.PTP or item.tool_speed is not None:
        return item
    return replace(item, tool_speed=(item.link, usual * (item.velocity_scaling or 1.0)))


def _tool(goals: Sequence[Goal], kind: ToolMotion, radius: float, context: GoalContext) -> str:
    """Return the link that a motion controls, and that its blending refers to."""
    named = [goal.link for goal in goals if isinstance(goal, PoseGoal)]
    if named:
        return named[0]
    if not context.group.tips and kind is ToolMotion.PTP and radius == 0.0:
        return ""
    tips, several = context.group.tips, any(isinstance(goal, PosesGoal) for goal in goals)
    if len(tips) > 1 and radius == 0.0 and (several or kind is ToolMotion.PTP):
        return tips[0]  # not used: PTP moves joints, the other motions reject several poses
    return context.link("")


def _without_positions(constraints: Any) -> Any:
    """Return constraints without their positions, which define the arc of CIRC."""
    return type(constraints)(
        joint_constraints=constraints.joint_constraints,
        orientation_constraints=constraints.orientation_constraints,
        visibility_constraints=constraints.visibility_constraints,
    )


def straight_path(
    requests: PlanningRequests, request: Any, response: Any, cancelled: Callable[[], bool]
) -> str:
    """Fill in the response of GetCartesianPath.

    Args:
        requests: planning interface of the robot.
        request: of the service.
        response: of the service.
        cancelled: returns whether to stop waiting for the planner's warm-up.

    Returns:
        A note for the client, such as why the path is incomplete; may be empty.

    Raises:
        RequestRejected: an invalid request or start state.
    """

    def read() -> tuple[Any, ...]:
        group = requests.group(request.group_name)
        q = requests.start(request.start_state)
        scene = requests.scenes.scene_with(None, request.start_state)
        context = GoalContext(requests.robot, group, q, requests.frames.in_scene(scene))
        constraints = context.path_constraints(request.path_constraints)
        link, X_LF = context.target(request.link_name)
        speed = context.tool_speed(request)
        return group, q, scene, context, constraints, link, X_LF, speed

    if not requests.warm.is_set():
        requests.reject_wrong(read)
        requests.await_warm(cancelled)
    group, q, scene, context, constraints, link, X_LF, speed = read()
    checker = requests.checker(group, scene, q)
    options = _options(request, context.notes)
    try:
        found = cartesian_path(
            checker, context.start, link, _poses(request, context, X_LF), options
        )
        if constraints and found.stop is not CartesianStop.START:
            found = within_constraints(checker, found, constraints)
        if found.stop is CartesianStop.START:
            free = checker.exact.is_free(context.start)
            code = Codes.START_STATE_INVALID if free else Codes.START_STATE_IN_COLLISION
            raise RequestRejected(code, found.reason)
        factors = scaling(request, context.notes)
        trajectory = _timed(requests, request, checker, found.path, factors, speed)
    except RequestRejected:
        raise
    except MotionError as error:
        code = ERROR_CODES.get(type(error), Codes.INVALID_GOAL_CONSTRAINTS)
        raise RequestRejected(code, str(error)) from None
    response.start_state = requests.start_message(q)
    response.solution = trajectory_message(trajectory, requests.robot.base_frame)
    response.fraction = found.fraction
    return "; ".join(filter(None, [found.reason, *context.notes]))


def _poses(request: Any, context: GoalContext, X_LF: Array | None) -> list[Array]:
    """Return the waypoints of the link in the base frame; those given are of a frame in it."""
    if not request.waypoints:
        raise refused("the request has no waypoints")
    X_BF = context.frames.pose(request.header.frame_id, context.q)
    X_FL = np.eye(4) if X_LF is None else inverse(X_LF)
    poses = []
    for number, message in enumerate(request.waypoints, start=1):
        X_FT, note = pose_of(message, f"waypoint {number}")
        if note:
            context.notes.append(note)
        poses.append(X_BF @ X_FT @ X_FL)
    return poses


def _options(request: Any, notes: list[str]) -> CartesianOptions:
    """Return the options of a straight path; as in MoveIt, jump thresholds below 0 are none."""
    step = request.max_step
    if 0.0 < step < SMALLEST_STEP:
        notes.append(f"max_step is {step:g} m; {SMALLEST_STEP:g} m is used")
        step = SMALLEST_STEP
    try:
        return CartesianOptions(
            max_step=step,
            jump_factor=_threshold(request.jump_threshold),
            revolute_jump=_threshold(request.revolute_jump_threshold),
            prismatic_jump=_threshold(request.prismatic_jump_threshold),
            avoid_collisions=request.avoid_collisions,
        )
    except InvalidConfig as error:
        raise refused(str(error)) from None


def _threshold(given: float) -> float:
    return 0.0 if given < 0.0 else given


def _timed(
    requests: PlanningRequests,
    request: Any,
    checker: CollisionChecker,
    path: np.ndarray,
    factors: tuple[float, float],
    speed: tuple[str, float] | None,
) -> JointTrajectory:
    """Return the trajectory along a path; a single point if the path has no length."""
    params = requests.params
    payload = requests.payload(requests.group(request.group_name).tip)
    if np.abs(path - path[0]).max() == 0.0:
        zero = np.zeros_like(path[:1])
        return JointTrajectory(checker.joint_names, np.zeros(1), path[:1], zero, zero)
    motion = cartesian_motion(
        checker,
        path,
        scaling=factors,
        avoid_collisions=request.avoid_collisions,
        effort_share=params.effort_share,
        payload=payload,
    )
    if speed is not None:
        motion = cruising(
            motion,
            checker,
            dict([speed]),
            scaling=factors,
            effort_share=params.effort_share,
            payload=payload,
        )
    return motion.points(PlanOptions().time_step)
