# SPDX-License-Identifier: Apache-2.0
"""Sequences of point-to-point, linear and circular motions, with blending between them.

Consecutive motions with a blend radius become one path, whose joints do not stop; all others stop
at their goal. A blend begins and ends at the distance of its radius from the goal.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from motion_nodes.errors import InvalidCommand
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.model.group_kinematics import GroupKinematics
from motion_nodes.model.payload import Payload
from motion_nodes.planning.cartesian import checker_kinematics
from motion_nodes.planning.constrained.constrained_plan import constraint_fault
from motion_nodes.planning.constrained.constraint_set import ConstraintSet
from motion_nodes.planning.industrial.joint_blend import blended, joined_smoothly
from motion_nodes.planning.industrial.tool_motion import (
    ArcPoint,
    MotionRejected,
    ToolMotion,
    tool_path,
)
from motion_nodes.planning.joint_space import JointSpace
from motion_nodes.planning.path_verification import PathVerifier
from motion_nodes.planning.payload_checks import payload_along
from motion_nodes.planning.plan_run import PlanOptions, PlanRun
from motion_nodes.planning.planning_problem import MotionPlan, PlanRequest, PlanResult, PlanStatus
from motion_nodes.planning.recovered_plan import joined
from motion_nodes.planning.start_state import check_start
from motion_nodes.planning.tool_speed import tool_speeds
from motion_nodes.trajectory.joint_path import JointPath
from motion_nodes.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.trajectory.path_efforts import EFFORT_SHARE, effort_limits
from motion_nodes.trajectory.time_parameterization import scaled_limits, time_optimal
from motion_nodes.trajectory.timed_path import TimedPath
from motion_nodes.typing import Array

_SAMPLE_TIME = 0.005  # [s]
AT_GOAL = "the robot is at the goal already: there is nothing to move"
"""Note of a plan without a motion."""
_TIME_STEP = 0.01
"""Time between two points of a trajectory [s]."""


@dataclass(frozen=True, eq=False)
class SequenceItem:
    """One motion of a sequence."""

    request: PlanRequest
    """Checker, goal and constraints; the start is used of the first item only."""
    kind: ToolMotion
    """Kind of the motion."""
    link: str
    """Link that blend radii refer to, and that moves along lines and arcs to joint goals."""
    arc: ArcPoint | None = None
    """For CIRC."""
    blend_radius: float = 0.0
    """Radius around the goal within which the next motion begins [m]; 0: stop there."""
    velocity_scaling: float = 1.0
    """Velocity scaling factor; of blended motions the smallest is used."""
    acceleration_scaling: float = 1.0
    """Acceleration scaling factor, likewise."""
    tool_speed: tuple[str, float] | None = None
    """Link, and its max speed [m/s]."""


def plan_sequence(
    items: Sequence[SequenceItem],
    effort_share: float = EFFORT_SHARE,
    payload: Payload | None = None,
) -> MotionPlan:
    """Plan a sequence of motions.

    Args:
        items: at least one; all for the same joints.
        effort_share: fraction of the effort limits that may be used; 0: not considered.
        payload: for the effort limits; motions that it overloads are rejected.

    Returns:
        The plan; ``motion`` is None if the joints stop between motions. One that is at its goals
        already has a trajectory of one point.

    Raises:
        InvalidCommand: no items, invalid blend radii, goals or arcs.
        InvalidConfig, UnknownFrame: limits that permit no motion, unknown links.
    """
    began = compute_time()
    if not items:
        raise InvalidCommand("the sequence has no items")
    _check_radii(items)
    try:
        plan = _planned(items, effort_share, payload, began)
        options = PlanOptions(effort_share=effort_share, payload=payload)
        return payload_along(PlanRun(items[0].request, options), plan)
    except MotionRejected as rejected:
        spent = compute_time() - began
        result = PlanResult(rejected.status, None, str(rejected), items[0].kind.value, time=spent)
        return MotionPlan(result, None, None, (), (), spent)


def _planned(
    items: Sequence[SequenceItem], effort_share: float, payload: Payload | None, began: float
) -> MotionPlan:
    checker = items[0].request.checker
    start = check_start(checker, items[0].request.start)
    if start.status is not None:
        raise MotionRejected(start.status, start.reason)
    paths, q = [], start.q
    for number, item in enumerate(items):
        try:
            paths.append(tool_path(item.request, q, item.kind, item.arc, item.link))
        except (MotionRejected, InvalidCommand) as error:
            raise _numbered(error, number, len(items)) from None
        if paths[-1] is not None:
            q = paths[-1].evaluate([paths[-1].length])[0]
    kinematics = checker_kinematics(checker)
    trajectory = _standing(checker.joint_names, start.q)
    motions: list[TimedPath] = []
    for first, last in _runs(items):
        run, parts = items[first : last + 1], paths[first : last + 1]
        moved = [path for path in parts if path is not None]
        if not moved and first == last:
            continue
        if len(moved) < len(parts):
            still = first + parts.index(None)
            text = "it does not move, so that it cannot be blended with its neighbour"
            raise _numbered(InvalidCommand(text), still, len(items))
        path = _blended_run(run, moved, kinematics)
        motion = _timed(run, path, effort_share, payload)
        _verify(run, motion, first, len(items))
        motions.append(motion)
        trajectory = joined(trajectory, motion.points(_TIME_STEP), _TIME_STEP)
    spent = compute_time() - began
    space = JointSpace.of_robot(checker.robot, checker.joint_names)
    way = trajectory.positions
    name = items[0].kind.value if len(items) == 1 else "sequence"
    result = PlanResult(
        PlanStatus.SOLVED, way, "", name, cost=space.length(way), time=spent, goal_index=0
    )
    return MotionPlan(
        result,
        trajectory,
        motions[0] if len(motions) == 1 else None,
        (),
        _notes(items) if motions else (AT_GOAL,),
        spent,
    )


def _standing(names: Sequence[str], q: Array) -> JointTrajectory:
    """Return the trajectory of joints that stay at positions [rad or m], shape (n,): one point."""
    zero = np.zeros((1, len(q)))
    return JointTrajectory(tuple(names), np.zeros(1), q[np.newaxis], zero, zero)


def _check_radii(items: Sequence[SequenceItem]) -> None:
    for number, item in enumerate(items, start=1):
        if not (math.isfinite(item.blend_radius) and item.blend_radius >= 0.0):
            raise InvalidCommand(
                f"the blend radius of item {number} is {item.blend_radius} m; it must be finite "
                "and not negative"
            )
    if items[-1].blend_radius > 0.0:
        raise InvalidCommand(
            f"the blend radius of the last item is {items[-1].blend_radius:g} m; it must be 0: "
            "no motion follows"
        )


def _runs(items: Sequence[SequenceItem]) -> list[tuple[int, int]]:
    """Return first and last item of each part of the sequence without a stop."""
    ends = [k for k, item in enumerate(items) if item.blend_radius == 0.0]
    return list(zip([0, *(end + 1 for end in ends[:-1])], ends, strict=True))


def _blended_run(
    items: Sequence[SequenceItem], paths: Sequence[JointPath], kinematics: GroupKinematics
) -> JointPath:
    """Return one path along motions that are blended into each other."""

    def place(q: Array, link: str) -> Array:
        return np.asarray(kinematics.pose(q, link))[:3, 3]

    for (item, path), (other, following) in itertools.pairwise(zip(items, paths, strict=True)):
        here = place(path.evaluate([path.length])[0], item.link)
        there = place(following.evaluate([following.length])[0], item.link)
        before = place(path.evaluate([0.0])[0], item.link)
        away = float(min(np.linalg.norm(there - here), np.linalg.norm(before - here)))
        if item.blend_radius + other.blend_radius >= away:
            raise InvalidCommand(
                f"blend radii of {item.blend_radius:g} and {other.blend_radius:g} m overlap: the "
                f"tool's positions are {away:.4g} m apart"
            )
    parts: list[JointPath] = []
    rest = paths[0]
    for item, following in zip(items[:-1], paths[1:], strict=True):
        corner = place(rest.evaluate([rest.length])[0], item.link)
        link = item.link

        def distance(q: Array, corner: Array = corner, link: str = link) -> float:
            return float(np.linalg.norm(place(q, link) - corner))

        first, blend, rest = blended(rest, following, distance, item.blend_radius)
        parts += [first, blend]
    parts.append(rest)
    return joined_smoothly(parts)


def _timed(
    items: Sequence[SequenceItem], path: JointPath, share: float, payload: Payload | None
) -> TimedPath:
    checker = items[0].request.checker
    limits = scaled_limits(
        checker.limits,
        min(item.velocity_scaling or 1.0 for item in items),
        min(item.acceleration_scaling or 1.0 for item in items),
    )
    robot, joints = checker.robot, checker.joint_names
    efforts = effort_limits(robot, joints, checker.positions, share, payload)
    slowest: dict[str, float] = {}
    for link, speed in filter(None, (item.tool_speed for item in items)):
        slowest[link] = min(speed, slowest.get(link, math.inf))
    speeds = tool_speeds(checker, slowest)
    return time_optimal(path, limits, efforts=efforts, speeds=speeds)


def _verify(items: Sequence[SequenceItem], motion: TimedPath, first: int, count: int) -> None:
    """Raise an error if a motion leaves limits, is in collision or violates constraints."""
    checker = items[0].request.checker
    driven = motion.states(motion.sample_times(_SAMPLE_TIME))[0]
    reason = PathVerifier(checker).verify(driven).reason
    constraints = [c for item in items for c in item.request.constraints]
    if not reason and constraints:
        reason = constraint_fault(ConstraintSet(checker, constraints), checker, driven)
    if reason:
        raise _numbered(MotionRejected(PlanStatus.BLOCKED, reason), first, count)


def _numbered(error: Exception, number: int, count: int) -> Exception:
    """Return an error that names its item, if there are several."""
    if count == 1:
        return error
    text = f"item {number + 1} of {count}: {error}"
    if isinstance(error, MotionRejected):
        return MotionRejected(error.status, text)
    return InvalidCommand(text)


def _notes(items: Sequence[SequenceItem]) -> tuple[str, ...]:
    for first, last in _runs(items):
        run = items[first : last + 1]
        scalings = {(item.velocity_scaling, item.acceleration_scaling) for item in run}
        if len(scalings) > 1:
            return ("of blended motions with different scaling factors the smallest are used",)
    return ()
