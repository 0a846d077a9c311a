# SPDX-License-Identifier: Apache-2.0
"""Pipeline of industrial motions: sequences of PTP, LIN and CIRC, with blending between them.

Consecutive motions with a blend radius become one path, whose joints do not stop; all others stop
at their goal. A blend begins and ends at the distance of its radius from the goal. The path of each
motion is given, so that the pipeline has no strategies of search.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from motion_nodes.core.planning.cartesian import checker_kinematics, tool_speeds
from motion_nodes.core.planning.constrained_plan import constraint_fault
from motion_nodes.core.planning.constraint_set import ConstraintSet
from motion_nodes.core.planning.path_verification import PathVerifier
from motion_nodes.core.planning.pipeline import PLAN_ADAPTERS, Pipeline, answer, joined, searched
from motion_nodes.core.planning.plan_run import ExcessEnds, PlanAttempt, PlanOptions, PlanRun
from motion_nodes.core.planning.planning_problem import (
    MotionPlan,
    PlanRequest,
    PlanResult,
    PlanStatus,
    check_start,
)
from motion_nodes.core.planning.tool_motions import ArcPoint, MotionRejected, ToolMotion, tool_path
from motion_nodes.core.robot.inverse_dynamics import Payload
from motion_nodes.core.robot.kinematics import GroupKinematics
from motion_nodes.core.trajectory.joint_path import JointPath, chained
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory, polynomial_between
from motion_nodes.core.trajectory.time_parameterization import scaled_limits, time_optimal
from motion_nodes.core.trajectory.timed_path import EFFORT_SHARE, TimedPath, effort_limits
from motion_nodes.errors import InvalidCommand
from motion_nodes.typing import Array

_BISECTIONS = 40
_SAMPLE_TIME = 0.005
"""Time between two verified configurations [s]; of slow motions longer, see :func:`_step`."""
_MOST = 20_000
"""Max number of configurations that are verified, and of points on curves, of a slow motion."""
AT_GOAL = "the robot is at the goal already: there is nothing to move"
"""Note of a plan without a motion."""
_TIME_STEP = 0.01
"""Time between two points of a trajectory [s]."""


def blended(
    before: JointPath, after: JointPath, distance: Callable[[Array], float], radius: float
) -> tuple[JointPath, JointPath, JointPath]:
    """Return two paths shortened around the point where they meet, and the blend between them.

    The blend is a polynomial of degree five that continues position, first and second derivative.

    Args:
        before: path that ends at the point.
        after: path that begins there, without stops within the radius.
        distance: returns the distance of the tool from the point [m] at a configuration.
        radius: distance at which the blend begins and ends [m].

    Returns:
        The first path, the blend, the second path.
    """
    leave = _place(before, distance, radius, from_end=True)
    enter = _place(after, distance, radius, from_end=False)
    first, second = _part(before, 0.0, leave), _part(after, enter, after.length)
    span = (before.length - leave) + enter
    ends = [
        (path.evaluate([s])[0], path.evaluate([s], 1)[0], path.evaluate([s], 2)[0])
        for path, s in ((before, leave), (after, enter))
    ]
    coefficients = np.array(polynomial_between(ends[0], ends[1], span))
    blend = JointPath(
        before.joint_names, np.array([0.0, span]), coefficients[np.newaxis], np.empty(0)
    )
    return first, blend, second


def joined_smoothly(parts: Sequence[JointPath]) -> JointPath:
    """Return consecutive paths, at least one, as one path without stops between them."""
    whole = chained(parts)
    ends = np.cumsum([part.length for part in parts])[:-1]
    kept = [s for s in whole.stops if not np.isclose(s, ends, rtol=0.0, atol=1e-9).any()]
    return JointPath(whole.joint_names, whole.breaks, whole.coefficients, np.array(kept))


def _place(
    path: JointPath, distance: Callable[[Array], float], radius: float, *, from_end: bool
) -> float:
    """Return the place nearest to the end (or start) at which the tool is at a distance."""
    places = np.linspace(0.0, path.length, 201)
    places = places[::-1] if from_end else places
    far = places[-1]
    near = places[0]
    for s in places[1:]:
        if distance(path.evaluate([s])[0]) >= radius:
            far = s
            break
        near = s
    for _ in range(_BISECTIONS):
        middle = 0.5 * (near + far)
        if distance(path.evaluate([middle])[0]) >= radius:
            far = middle
        else:
            near = middle
    return float(near)


def _part(path: JointPath, begin: float, end: float) -> JointPath:
    """Return the part of a path between two places."""
    inner = path.breaks[(path.breaks > begin + 1e-12) & (path.breaks < end - 1e-12)]
    breaks = np.concatenate([[begin], inner, [end]])
    middles = 0.5 * (breaks[:-1] + breaks[1:])
    piece = path.piece_at(middles)
    # Taylor expansion of each piece around its new start.
    degree = path.coefficients.shape[1] - 1
    factorial = np.cumprod(np.append(1.0, np.arange(1, degree + 1)))
    coefficients = np.stack(
        [
            path.evaluate(breaks[:-1], order, piece) / factorial[order]
            for order in range(degree + 1)
        ],
        axis=1,
    )
    stops = path.stops[(path.stops > begin) & (path.stops < end)] - begin
    return JointPath(path.joint_names, breaks - begin, coefficients, stops)


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
    if not items:
        raise InvalidCommand("the sequence has no items")
    _check_radii(items)
    options = PlanOptions(effort_share=effort_share, payload=payload, time_step=_TIME_STEP)
    run, sequence = PlanRun(items[0].request, options), _Sequence(items)
    try:
        found = searched(run, Pipeline(sequence.search, (sequence.drive,), strategies=()))
    except MotionRejected as rejected:
        name = items[0].kind.value
        return answer(run, PlanResult(rejected.status, None, str(rejected), name))
    plan = answer(run, found.result, found)
    for finish in PLAN_ADAPTERS:
        plan = finish(run, plan)
    return plan


class _Sequence:
    """Search and adapter of the pipeline, for the items of one sequence."""

    def __init__(self, items: Sequence[SequenceItem]) -> None:
        self._items = items
        self._paths: list[JointPath | None] = []
        """Of each item; None if it does not move."""

    def search(self, run: PlanRun, request: PlanRequest, first: bool) -> PlanAttempt:
        """Find the path of each item, from where the one before ends.

        Raises:
            MotionRejected: an invalid start, or a goal or path that cannot be reached.
            InvalidCommand: goals or arcs that are not defined.
        """
        items, checker = self._items, request.checker
        start = check_start(checker, request.start)
        if start.status is not None:
            raise MotionRejected(start.status, start.reason)
        q, way = start.q, [start.q]
        with run.stage("path"):
            for number, item in enumerate(items):
                try:
                    path = tool_path(item.request, q, item.kind, item.arc, item.link)
                except (MotionRejected, InvalidCommand) as error:
                    raise _numbered(error, number, len(items)) from None
                self._paths.append(path)
                if path is not None:
                    q = path.evaluate([path.length])[0]
                    way.append(q)
        name = items[0].kind.value if len(items) == 1 else "sequence"
        result = PlanResult(PlanStatus.SOLVED, np.array(way), "", name, goal_index=0)
        return PlanAttempt(ExcessEnds(request), result)

    def drive(self, run: PlanRun, found: PlanAttempt) -> None:
        """Blend, time-parameterize and verify the motions between two stops, and sample them.

        Raises:
            MotionRejected: a motion leaves limits, is in collision or violates constraints.
            InvalidCommand: blend radii that overlap.
        """
        items, options, checker = self._items, run.options, found.ends.request.checker
        kinematics = checker_kinematics(checker)
        trajectory = _standing(checker.joint_names, found.path[0])
        motions: list[TimedPath] = []
        for first, last in _runs(items):
            part, paths = items[first : last + 1], self._paths[first : last + 1]
            moved = [path for path in paths if path is not None]
            if not moved and first == last:
                continue
            if len(moved) < len(paths):
                still = first + paths.index(None)
                text = "it does not move, so that it cannot be blended with its neighbour"
                raise _numbered(InvalidCommand(text), still, len(items))
            path = _blended_run(part, moved, kinematics)
            with run.stage("retime"):
                motion = _timed(part, path, options.effort_share, options.payload)
            with run.stage("verify"):
                _verify(part, motion, first, len(items))
            motions.append(motion)
            points = motion.points(_step(motion, options.time_step))
            trajectory = joined(trajectory, points, options.time_step)
        for note in _notes(items) if motions else (AT_GOAL,):
            run.note(note)
        found.move_along(trajectory.positions)
        found.points = trajectory
        found.motion = motions[0] if len(motions) == 1 else None


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


def _step(motion: TimedPath, usual: float) -> float:
    """Return the time step of a motion [s]; a slow one has no more samples than others need."""
    return max(usual, motion.duration / _MOST)


def _verify(items: Sequence[SequenceItem], motion: TimedPath, first: int, count: int) -> None:
    """Raise an error if a motion leaves limits, is in collision or violates constraints."""
    checker = items[0].request.checker
    driven = motion.states(motion.sample_times(_step(motion, _SAMPLE_TIME)))[0]
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
