# SPDX-License-Identifier: Apache-2.0
"""Motion planning requests: conversion from messages, planning, conversion to messages.

Requests run in several threads at once; each has its own scene and collision checker. The motions
of a batch are planned in parallel.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from moveit_msgs.msg import MoveItErrorCodes, RobotState, RobotTrajectory

from motion_nodes.core.planning.cartesian import cruising
from motion_nodes.core.planning.constrained_search import ConstrainedRrt
from motion_nodes.core.planning.path_constraints import PathConstraint
from motion_nodes.core.planning.pipeline import MotionPlan, PlanOptions, joined, plan
from motion_nodes.core.planning.planners import (
    DEFAULT,
    DirectMotion,
    PlannerSettings,
    default_settings,
    find_planner,
    load_others,
)
from motion_nodes.core.planning.planning_problem import Goal, PlanRequest
from motion_nodes.core.planning.trajopt import TrajOptSettings
from motion_nodes.core.planning.warm_up import load_direct_motions, load_planning, straight_motion
from motion_nodes.core.robot.inverse_dynamics import Payload
from motion_nodes.core.robot.robot import Group
from motion_nodes.core.scene.checker import CheckerCache
from motion_nodes.core.scene.scene import Scene
from motion_nodes.errors import MotionError
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.nodes.planner.planner_params import RrtPlannerParams
from motion_nodes.nodes.planner.planning_scene import PlanningSceneOwner
from motion_nodes.nodes.planner.tool_motion_requests import check_tool_motions, plan_tool_motion
from motion_nodes.ros.current_state import CurrentStateMonitor, RobotFrames
from motion_nodes.ros.messages.constraints import GoalContext
from motion_nodes.ros.messages.moveit_messages import RequestRejected, joint_values, requested_group
from motion_nodes.ros.messages.plan_messages import (
    ERROR_CODES,
    PLAN_CODES,
    PlanJob,
    PlannedMotion,
    not_used,
    planning_time,
    reference_path,
    requested_motion,
    scaling,
    state_message,
    trajectory_message,
)
from motion_nodes.ros.node import RobotNode
from motion_nodes.typing import Array

Codes = MoveItErrorCodes
MAX_MOTIONS = 1000
"""Max number of motions in a request."""


class PlanningRequests:
    """Plans for one robot; shared by services and actions."""

    def __init__(
        self,
        node: RobotNode[RrtPlannerParams],
        scenes: PlanningSceneOwner,
        frames: RobotFrames,
        state: CurrentStateMonitor,
    ) -> None:
        """Create the planning interface of a robot; :meth:`warm_up` makes it ready.

        Args:
            node: of the robot to plan for.
            scenes: its planning scene.
            frames: of the robot and /tf.
            state: its current state.
        """
        self._node, self.robot = node, node.robot
        self.scenes, self.frames, self.state = scenes, frames, state
        self.settings = PlannerSettings(default_settings)
        self.warm = threading.Event()
        """Set once all kernels are compiled and loaded."""
        self.direct = threading.Event()
        """Set once those of straight motions are, on a new machine before the others."""
        self.checker = CheckerCache(self.robot, lambda: self.params.clearance).checker

    @property
    def params(self) -> RrtPlannerParams:
        """The current parameters."""
        return self._node.params

    def warm_up(self) -> None:
        """Load the compiled kernels and set :attr:`warm`."""
        try:
            load_planning(self.robot)
            load_others()
        finally:
            self.warm.set()

    def load_direct(self) -> None:
        """Load the compiled kernels of straight motions and set :attr:`direct`."""
        load_direct_motions(self.robot)
        self.direct.set()

    def group(self, name: str) -> Group:
        """Return a group by name or alias; empty for the only one with a tip.

        Raises:
            RequestRejected: no such group, or several with a tip.
        """
        return requested_group(self.robot, name)

    def payload(self, tip: str | None) -> Payload | None:
        """Return the payload that motions of a tip carry; None without one, or without a tip."""
        mass, (x, y, z) = self.params.payload_mass, self.params.payload_center
        return None if mass == 0.0 or tip is None else Payload(tip, mass, (x, y, z))

    def start(
        self, given: RobotState, *, from_current: bool = False, ways: Array | float = 0.0
    ) -> Array:
        """Return the start state of a plan.

        Args:
            given: the request's start state; measured positions replace missing joints.
            from_current: whether to start at the current state; ``given`` must then agree with it.
            ways: how far the joints may still move before [rad or m], shape (n,).

        Returns:
            Positions of all joints [rad or m], shape (n,).

        Raises:
            RequestRejected: an invalid or incomplete state, or one that differs from the current
                state by more than the start tolerance.
        """
        values = joint_values(given, self.robot, "start_state")
        if not from_current:
            return self.state.complete(values, "start_state")
        current = self.state.fresh()
        tolerance = self.params.start_tolerance
        given_q = [values.get(n, x) for n, x in zip(self.robot.joint_names, current, strict=True)]
        away = self.robot.limits.turns.distance(given_q, current)
        distances = (away * (away > tolerance + ways)).tolist()
        for name, position, distance in zip(
            self.robot.joint_names, current.tolist(), distances, strict=True
        ):
            if distance > tolerance:
                raise RequestRejected(
                    Codes.START_STATE_INVALID,
                    f"start_state has {name} at {values[name]:.4f}, but it is at {position:.4f}: "
                    f"{distance:.4f} away, allowed is {tolerance:g} (start_tolerance); plans for "
                    "execution start at the current state",
                )
        return current

    def plan(self, job: PlanJob, cancelled: Callable[[], bool]) -> PlannedMotion:
        """Plan for a MotionPlanRequest.

        Args:
            job: the request.
            cancelled: returns whether to stop planning.

        Raises:
            RequestRejected: an invalid request, or no plan was found.
        """
        notes: list[str] = []
        if requested_motion(job.request, notes) is not None:
            return plan_tool_motion(self, job, cancelled)
        if not self.warm.is_set():
            self.reject_wrong(lambda: self._read(job, notes))
            if self._await_direct(cancelled):
                # A blocked line is left to the planner.
                with contextlib.suppress(RequestRejected):
                    return self._plan(job, cancelled, notes, early=True)
        self.await_warm(cancelled)
        return self._plan(job, cancelled, notes)

    def check(self, job: PlanJob) -> None:
        """Reject a wrong request, before it stops a motion under way.

        Raises:
            RequestRejected: an invalid request, or one for execution whose start state is farther
                away than the joints move until they stand.
        """
        if self.state.newest()[1]:
            return  # nothing is under way while the state is not known
        if job.from_current:
            self.start(
                job.request.start_state,
                from_current=True,
                ways=self.state.ways_to_rest(self.robot.limits.acceleration),
            )
        if requested_motion(job.request, []) is not None:
            check_tool_motions(self, job, [(job.request, 0.0)])
        else:
            self._read(replace(job, from_current=False), [])
            not_used(job.request)

    def _plan(
        self, job: PlanJob, cancelled: Callable[[], bool], notes: list[str], *, early: bool = False
    ) -> PlannedMotion:
        """Plan with the requested planner; ``early``: only the straight motion in its place.

        Raises:
            RequestRejected: as :meth:`plan`; or ``early`` and another planner is necessary.
        """
        request, params = job.request, self.params
        context, scene, goals, constraints, speed, options = self._read(job, notes)
        timeout = planning_time(
            request.allowed_planning_time, params.allowed_planning_time, context.notes
        )
        group, q = context.group, context.q
        if early:
            if find_planner(options.planner)[0] not in (DEFAULT, DirectMotion.name):
                raise RequestRejected(Codes.PLANNING_FAILED, "the planner is being compiled")
            options = straight_motion(options)
            context.notes.append("a straight motion, as the planner is still being compiled")
        guided = isinstance(options.settings, TrajOptSettings) and not constraints
        if guided and request.reference_trajectories:
            path = reference_path(request, group.joints)
            options = replace(options, settings=replace(options.settings, warm_start=path))
        context.notes.extend(not_used(request, guided=guided))
        problem = PlanRequest(
            checker=self.checker(group, scene, q),
            start=context.start,
            goals=goals,
            timeout=timeout,
            random_seed=params.random_seed,
            cancelled=cancelled,
            constraints=constraints,
        )
        try:
            found = plan(problem, options)
            if speed is not None:
                found = _cruising(problem, options, found, speed)
            if found.trajectory is None:
                words = "; ".join([found.reason, *context.notes])
                raise RequestRejected(PLAN_CODES[found.status], words)
            return PlannedMotion(
                job=job,
                group=group,
                q=q,
                start=self.start_message(q),
                trajectory=trajectory_message(found.trajectory, self.robot.base_frame),
                time=found.time,
                note="; ".join([*context.notes, *found.notes]),
                recovery_points=0 if found.recovery is None else len(found.recovery.times),
                tree=found.tree,
            )
        except RequestRejected:
            raise
        except MotionError as error:
            code = ERROR_CODES.get(type(error), Codes.PLANNING_FAILED)
            raise RequestRejected(code, str(error)) from None

    def _read(
        self, job: PlanJob, notes: list[str]
    ) -> tuple[
        GoalContext,
        Scene,
        tuple[Goal, ...],
        tuple[PathConstraint, ...],
        tuple[str, float] | None,
        PlanOptions,
    ]:
        """Return a request's context, scene, goals, path constraints, tool speed and options.

        Raises:
            RequestRejected: as :meth:`plan`, except that no plan was found.
        """
        request = job.request
        group = self.group(request.group_name)
        q = self.start(request.start_state, from_current=job.from_current)
        scene = self.scenes.scene_with(job.scene_diff, request.start_state)
        frames = self.frames.in_scene(scene)
        context = GoalContext(self.robot, group, q, frames, [*notes, *job.notes])
        constraints = context.path_constraints(request.path_constraints)
        speed = context.tool_speed(request)
        goals = context.goals(request.goal_constraints)
        options = self._options(request, context, bool(constraints))
        planning_time(request.allowed_planning_time, self.params.allowed_planning_time, [])
        return context, scene, goals, constraints, speed, options

    @staticmethod
    def reject_wrong(read: Callable[[], object]) -> None:
        """Reject a wrong request before it waits for the kernels.

        Args:
            read: reads the request.

        Raises:
            RequestRejected: as ``read``, unless the robot's state is not known yet.
        """
        try:
            read()
        except RequestRejected as error:
            if error.code not in (Codes.ROBOT_STATE_STALE, Codes.INVALID_ROBOT_STATE):
                raise

    def start_message(self, q: Array) -> RobotState:
        """Return positions of all joints [rad or m], shape (n,), as a robot state."""
        positions = dict(zip(self.robot.joint_names, q.tolist(), strict=True))
        return state_message(
            positions, self._node.get_clock().now().to_msg(), self.robot.base_frame
        )

    def _await_direct(self, cancelled: Callable[[], bool]) -> bool:
        """Wait until the first kernels are compiled; return whether only those are."""
        while not self.warm.wait(0.02):
            if self.direct.is_set():
                return True
            if cancelled():
                break
        return False

    def await_warm(self, cancelled: Callable[[], bool]) -> None:
        """Wait until all kernels are compiled, which takes long at the first start on a machine.

        Raises:
            RequestRejected: the request was cancelled meanwhile.
        """
        while not self.warm.wait(0.02):
            if cancelled():
                raise RequestRejected(
                    Codes.PREEMPTED, "cancelled while the planner was being compiled"
                )

    def _options(self, request: Any, context: GoalContext, constrained: bool) -> PlanOptions:
        group = context.group
        default = self.params.planner if group.tips else DirectMotion.name
        if constrained:
            default = ConstrainedRrt.name
        requested = request.planner_id or default
        name, _ = find_planner(requested)
        known = name in self.settings.planners
        velocity, acceleration = scaling(request, context.notes)
        return PlanOptions(
            planner=requested,
            settings=self.settings.settings(name, group.name) if known else None,
            attempts=max(1, request.num_planning_attempts),
            preferred_clearance=self.params.preferred_clearance,
            effort_share=self.params.effort_share,
            payload=self.payload(group.tip),
            # A recovery would not satisfy the constraints.
            recovery=None if constrained else self.params.recovery_settings,
            velocity_scaling=velocity,
            acceleration_scaling=acceleration,
        )


def plan_batch(
    requests: PlanningRequests, items: Any, response: Any, cancelled: Callable[[], bool]
) -> str:
    """Fill in a MotionSequenceResponse with the plans of independent motions.

    Args:
        requests: planning interface of the robot.
        items: moveit_msgs/MotionSequenceItem of each motion.
        response: of the service; a motion without a plan has an empty trajectory.
        cancelled: returns whether to stop planning.

    Returns:
        A note for the client; may be empty.

    Raises:
        RequestRejected: an invalid request, or motions without a plan. The response has the plans
            of the others.
    """
    if not 0 < len(items) <= MAX_MOTIONS:
        raise RequestRejected(
            MoveItErrorCodes.INVALID_MOTION_PLAN, f"{len(items)} items; give 1 to {MAX_MOTIONS}"
        )
    blended = [number for number, item in enumerate(items) if item.blend_radius]
    if blended:
        raise RequestRejected(
            MoveItErrorCodes.INVALID_MOTION_PLAN,
            f"item {blended[0]} has a blend_radius; motions of a batch are independent, use "
            "plan_sequence_path",
        )

    def planned(item: Any) -> PlannedMotion | RequestRejected:
        try:
            return requests.plan(PlanJob(item.req), cancelled)
        except RequestRejected as error:
            return error

    began = compute_time()
    with ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="plan-batch") as pool:
        found = list(pool.map(planned, items))
    response.planning_time = compute_time() - began
    plans = [each for each in found if isinstance(each, PlannedMotion)]
    if plans:
        response.sequence_start = plans[0].start
    response.planned_trajectories = [
        each.trajectory if isinstance(each, PlannedMotion) else RobotTrajectory() for each in found
    ]
    for number, each in enumerate(found):
        if isinstance(each, RequestRejected):
            text = f"{len(plans)} of {len(found)} motions planned; item {number}: {each}"
            raise RequestRejected(each.code, text)
    return "; ".join(dict.fromkeys(plan.note for plan in plans if plan.note))


def _cruising(
    problem: PlanRequest, options: PlanOptions, found: MotionPlan, speed: tuple[str, float]
) -> MotionPlan:
    """Return a plan with points at which the tool moves at most at a speed [m/s]."""
    if found.motion is None or found.trajectory is None:
        return found
    slower = cruising(
        found.motion,
        problem.checker,
        dict([speed]),
        scaling=(options.velocity_scaling, options.acceleration_scaling),
        effort_share=options.effort_share,
        payload=options.payload,
    )
    points = slower.points(options.time_step)
    if found.recovery is not None:
        points = joined(found.recovery, points, options.time_step)
    return replace(found, trajectory=points)
