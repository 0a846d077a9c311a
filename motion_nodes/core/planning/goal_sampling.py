# SPDX-License-Identifier: Apache-2.0
"""Goal sampling: valid, collision-free configurations that satisfy the goals, or why none exist.

A joint goal without tolerance is one configuration; for goals with tolerances, and for poses,
several are sampled, all of which become roots of the search, because it is unknown which of them is
easiest to reach.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from motion_nodes.core.planning.joint_space import joint_range
from motion_nodes.core.planning.planning_problem import (
    Goal,
    JointGoal,
    PlanRequest,
    PlanStatus,
    PoseGoal,
    PosesGoal,
)
from motion_nodes.core.planning.several_poses import pose_sampler
from motion_nodes.core.planning.start_state import configuration, in_words
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.tolerances import DUPLICATE_GOALS
from motion_nodes.typing import Array


@dataclass(frozen=True)
class GoalOptions:
    """Limits of goal sampling."""

    configurations: int = 8
    """Max number of configurations per goal."""
    samples: int = 1000
    """Max number of tries per goal until the first configuration is found."""
    more_samples: int = 12
    """Max number of further tries per goal."""
    share: float = 0.5
    """Max fraction of the planning time until the first configuration is found."""
    patience: float = 1.0
    """Max duration until the first configuration is found [s], or a tenth of the planning time if
    that is longer."""


@dataclass(frozen=True, eq=False)
class GoalConfigurations:
    """Configurations that satisfy goals, or the reason of the failure."""

    Q: Array
    """Collision-free and within limits, shape (m, n)."""
    index: tuple[int, ...]
    """Index of the goal that each satisfies."""
    status: PlanStatus | None = None
    """None on success."""
    reason: str = ""


@dataclass
class _SampledStates:
    """Configurations found for one goal."""

    Q: list[Array] = field(default_factory=list)
    status: PlanStatus = PlanStatus.GOAL_UNREACHABLE
    reason: str = ""


def goal_configurations(
    request: PlanRequest, start: Array, options: GoalOptions | None = None
) -> GoalConfigurations:
    """Return configurations for the goals of a request.

    Equal requests give equal results, unless the timeout expires.

    Args:
        request: the goals, and the collision checker.
        start: start configuration, shape (n,); solutions close to it come first.
        options: limits of the sampling.

    Raises:
        InvalidCommand: a goal of wrong length, or an invalid pose.
        UnknownFrame: a pose for a link that the robot does not have.
        InvalidConfig: a pose for a link that none of the joints moves.
    """
    options = options or GoalOptions()
    n = len(request.checker.joint_names)
    if not request.goals:
        return GoalConfigurations(np.empty((0, n)), (), PlanStatus.NO_GOAL, "no goal was given")
    began = compute_time()
    patience = max(options.patience, 0.1 * request.timeout)
    latest = began + min(patience, options.share * request.timeout)
    all_found: list[_SampledStates] = []
    for number, goal in enumerate(request.goals):
        if request.cancelled():
            return GoalConfigurations(np.empty((0, n)), (), PlanStatus.CANCELLED, "cancelled")
        exact = _exactly(request.checker, goal)
        if exact is not None:
            all_found.append(exact)
            continue
        rng = np.random.default_rng([request.random_seed, number])
        # For reproducible results the limits are counts, not times.
        anything = any(found.Q for found in all_found)
        tries = options.more_samples if anything else options.samples
        chosen = replace(options, samples=tries)
        all_found.append(_configurations(request.checker, goal, start, rng, chosen, latest))
    index = tuple(k for k, found in enumerate(all_found) for _ in found.Q)
    if index:
        return GoalConfigurations(np.array([q for f in all_found for q in f.Q]), index)
    status, reason = _why_none(all_found)
    return GoalConfigurations(np.empty((0, n)), (), status, reason)


def _why_none(all_found: Sequence[_SampledStates]) -> tuple[PlanStatus, str]:
    """Return the status of the goal that came closest to success, and all reasons."""
    order = (
        PlanStatus.TIMED_OUT,
        PlanStatus.GOAL_IN_COLLISION,
        PlanStatus.GOAL_OUTSIDE_LIMITS,
        PlanStatus.GOAL_UNREACHABLE,
    )
    status = min((found.status for found in all_found), key=order.index)
    reasons = list(dict.fromkeys(found.reason for found in all_found))
    more = f" (and {len(reasons) - 3} more goals)" if len(reasons) > 3 else ""
    return status, "; ".join(reasons[:3]) + more


def _configurations(
    checker: CollisionChecker,
    goal: Goal,
    start: Array,
    rng: np.random.Generator,
    options: GoalOptions,
    end: float,
) -> _SampledStates:
    if isinstance(goal, JointGoal):
        return _of_joint_goal(checker, goal, rng, options, end)
    return _of_pose_goal(checker, goal, start, rng, options, end)


def _exactly(checker: CollisionChecker, goal: Goal) -> _SampledStates | None:
    """Return the simple case, a collision-free joint goal without tolerance; None otherwise."""
    if not isinstance(goal, JointGoal) or not is_exact(goal):
        return None
    q = checker.limits.settled(configuration(checker, goal.q, "a joint goal"))
    if not (checker.limits.within(q) and checker.is_free(q) and checker.exact.is_free(q)):
        return None
    return _SampledStates([q])


def is_exact(goal: JointGoal) -> bool:
    """Return whether a goal is one configuration, without tolerances."""
    return all(isinstance(x, float) and x == 0.0 for x in (goal.below, goal.above))


def _of_joint_goal(
    checker: CollisionChecker,
    goal: JointGoal,
    rng: np.random.Generator,
    options: GoalOptions,
    end: float,
) -> _SampledStates:
    found, room = _SampledStates(), joint_range(checker, goal)
    if room.fault:
        found.status, found.reason = PlanStatus.GOAL_OUTSIDE_LIMITS, room.fault
        return found
    nominal, wide = room.nominal, room.wide
    narrow = bool((room.high - room.low).max() < DUPLICATE_GOALS)  # treated as one goal
    tries = min(options.samples, 200) if wide else 0
    for sample in _samples(nominal, room.low, room.high, rng, tries):
        if checker.is_free(sample) and checker.exact.is_free(sample):
            _add(found, sample)
            if narrow or len(found.Q) >= options.configurations:
                break
        if compute_time() > end:
            break
    if not found.Q:
        tried = f"; none of {tries} samples within the tolerances is free" if wide else ""
        found.status = PlanStatus.GOAL_IN_COLLISION
        found.reason = f"the goal is in collision: {in_words(checker, nominal)}{tried}"
    return found


def _samples(
    nominal: Array, low: Array, high: Array, rng: np.random.Generator, count: int
) -> Iterator[Array]:
    """Yield the nominal positions, then random ones with increasing distance from them."""
    yield nominal
    for k in range(count):
        reach = min(1.0, 0.1 + k / 50.0)
        drawn = low + rng.uniform(size=len(low)) * (high - low)
        yield nominal + reach * (drawn - nominal)


def _of_pose_goal(
    checker: CollisionChecker,
    goal: PoseGoal | PosesGoal,
    start: Array,
    rng: np.random.Generator,
    options: GoalOptions,
    end: float,
) -> _SampledStates:
    found = _SampledStates()
    sampler = pose_sampler(checker, goal, start, rng)
    k, last = 0, options.samples
    while k < last and len(found.Q) < options.configurations:
        # For reproducible results the further tries are limited by their count alone.
        left = options.patience if found.Q else end - compute_time()
        if left <= 0.0:
            break
        q = sampler.draw(first=k == 0, timeout=left)
        k += 1
        if q is not None:
            if not found.Q:
                last = min(last, k + options.more_samples)
            _add(found, q)
        elif sampler.impossible:
            break
    if not found.Q:
        found.status, found.reason = sampler.why_none()
    return found


def _add(found: _SampledStates, q: Array) -> None:
    if all(np.abs(q - known).max() > DUPLICATE_GOALS for known in found.Q):
        found.Q.append(q)
