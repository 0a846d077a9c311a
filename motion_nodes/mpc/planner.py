# SPDX-License-Identifier: Apache-2.0
"""Planner of the reactive MPC: samples motions, evaluates them, and selects one.

Source: G. Williams, A. Aldrich, E. Theodorou, Model predictive path integral control, JGCD 40(2),
2017, for the weighted mean of samples; M. Bhardwaj et al., STORM: an integrated framework for fast
joint-space model-predictive control for reactive manipulation, CoRL 2021, for the costs of arms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from motion_nodes.kernels.rmp.rmp_memory import ObstacleArrays
from motion_nodes.mpc.attractor_sampling import (
    DIRECT,
    MEAN,
    PLAN,
    AttractorSampler,
    braking_attractor,
)
from motion_nodes.mpc.goal_postures import GoalPostures
from motion_nodes.mpc.guide_search import GuideSearch
from motion_nodes.mpc.rollouts import COSTS, TAIL, RolloutCosts, Rollouts
from motion_nodes.rmpflow.numpy_policy import Goal
from motion_nodes.typing import Array

_STAYS = 0.95
"""Factor of the cost of the plan in use, so that equally good plans do not alternate."""
_UNSAFE = 1e3
"""Cost of a clearance below the min, per relative deficit."""
_UNSEEN = 100.0
"""Cost of a motion without a collision-free line from its end to its goal, if there is a guide."""
_AT_GOAL = 0.1
"""Distance from a goal below which a knot moves with it [rad or m]."""
_BLOCKED = 0.05
"""Cost of collisions between a motion's end and its goal above which a guide is searched."""
_AGAIN = 0.1
"""Time without progress after which goals are searched again [s]."""
_GUESSES = 8
"""Number of nodes of the guide search used as initial guesses for goals."""
_BETTER = 0.02
"""Min decrease of the remaining distance that counts as progress [rad or m]."""


_PER_DISTANCE = COSTS["terminal"] * COSTS["goal"]
"""Cost of the distance of a motion's end from its goal [1/rad or 1/m]."""


@dataclass(frozen=True, eq=False)
class JointPlan:
    """The selected motion."""

    knots: Array
    """Knots of the attractor [rad or m], shape (k, n)."""
    goal: Array
    """Goal of the motion [rad or m], shape (n,)."""
    clearance: float
    """Min predicted distance from obstacles and between links, within the margins [m]."""
    remaining: float
    """Distance of its end from the target in joint space [rad or m], plus the cost of collisions in
    between; 0 if no collision-free configuration at the target is known."""


class MpcPlanner:
    """Selects motions, each based on the previous one; not thread-safe."""

    def __init__(
        self, rollouts: Rollouts, sampler: AttractorSampler, goals: GoalPostures,
        guides: GuideSearch, braking: Array,
    ) -> None:  # fmt: skip
        """Create.

        Args:
            rollouts: evaluates motions.
            sampler: draws motions.
            goals: finds configurations at the target.
            guides: finds waypoints if no motion ends in sight of a goal.
            braking: decelerations of braking joints [rad/s^2 or m/s^2], shape (n,).
        """
        self._rollouts, self._sampler, self._goals = rollouts, sampler, goals
        self._guides = guides
        self._braking = braking
        self._scale = np.ones(len(braking))
        self.reset()

    def reset(self) -> None:
        """Discard the plan, and reset the random numbers."""
        self._sampler.reset()
        self._goals.reset(self._sampler.settings.seed)
        self._guides.reset(self._sampler.settings.seed)
        self.forget()

    def forget(self) -> None:
        """Discard the plan and the guide; the next update starts without them."""
        self.plan: JointPlan | None = None
        self._mean: Array | None = None
        self._guide: Array | None = None
        self._target = -1
        self._guides.forget()
        self._least, self._waited, self._searched = np.inf, 0.0, 0.0

    def attractor(self, elapsed: float) -> Array:
        """Return the attractor [rad or m] at a time after the last plan [s], shape (n,)."""
        assert self.plan is not None
        return np.asarray((self._rollouts.basis(np.array([elapsed])) @ self.plan.knots)[0])

    def update(
        self, q: Array, qd: Array, qdd: Array, goal: Goal, obstacles: ObstacleArrays,
        clearance: float, elapsed: float,
    ) -> JointPlan:  # fmt: skip
        """Return a new plan.

        Args:
            q: positions [rad or m], shape (n,).
            qd: velocities [rad/s or m/s], shape (n,).
            qdd: accelerations of the last step [rad/s^2 or m/s^2], shape (n,).
            goal: goal in the base frame.
            obstacles: obstacles in the base frame.
            clearance: current distance of the robot from obstacles [m].
            elapsed: time since the last plan [s].
        """
        anew = self._guide is None and self._waited - self._searched > _AGAIN
        if anew:
            self._searched = self._waited
        self._rollouts.set_obstacles(obstacles)
        reached = self._guides.reached(_GUESSES) if anew else None
        ends = self._goals.at(goal, q, self._sampler.settings.branches, reached)
        if self._goals.target != self._target:
            self._target, self._guide = self._goals.target, None
            self._guides.forget()
            self._least, self._waited, self._searched = np.inf, 0.0, 0.0
        self._rollouts.set_goal(goal, self._scale, free=len(self._goals.free) > 0)
        goals, beyond = self._with_guide(ends)
        plan, mean, branch = self._shifted(goals, elapsed)
        brake = braking_attractor(q, qd, self._braking)
        knots, branches = self._sampler.draw(q, goals, goal.posture, plan, mean, branch, brake)
        found = self._rollouts.run(q, qd, qdd, knots, goals[branches])
        cost = self._judged(found, clearance) + _PER_DISTANCE * beyond[branches]
        best = int(np.argmin(cost))
        self._mean = self._weighted_mean(knots, cost, branches == branches[best])
        blocked = float(found.blocked[best])
        remaining = float(found.distance[best] + beyond[branches[best]]) + blocked
        free = len(self._goals.free) > 0
        self.plan = JointPlan(
            knots[best].copy(), goals[branches[best]], float(found.clearance[best]),
            remaining if free else 0.0,
        )  # fmt: skip
        if branches[best] < len(ends) and blocked < _BLOCKED:
            self._guide = None
        elif blocked > _BLOCKED and free:
            found_guide = self._guides.grow(brake, self._goals.free)
            self._guide = self._guide if found_guide is None else found_guide
        self._note_progress(float(np.linalg.norm(q - self.plan.goal)) + remaining, elapsed)
        return self.plan

    def _with_guide(self, ends: Array) -> tuple[Array, Array]:
        """Return ends and waypoints of the guide, and the distance of each from an end."""
        if self._guide is None:
            return ends, np.zeros(len(ends))
        # The last waypoint is a goal, which moves with the target.
        nearest = ends[np.abs(ends - self._guide[-1]).max(axis=1).argmin()]
        points = np.concatenate((self._guide[:-1], nearest[None]))
        lengths = np.linalg.norm(np.diff(points, axis=0), axis=1)
        beyond = np.cumsum(lengths[::-1])[::-1]
        return np.concatenate((ends, points[:-1])), np.concatenate((np.zeros(len(ends)), beyond))

    def _shifted(self, goals: Array, elapsed: float) -> tuple[Array, Array, int]:
        """Return plan and mean shifted by a time [s], and the index of their goal."""
        if self.plan is None or self._mean is None:
            direct = np.tile(goals[0], (len(self._rollouts.knot_times), 1))
            return direct, direct, 0
        branch = int(np.argmin(np.abs(goals - self.plan.goal).max(axis=1)))
        later = self._rollouts.basis(self._rollouts.knot_times + elapsed)
        moved = goals[branch] - self.plan.goal
        shifted = []
        for knots in (self.plan.knots, self._mean):
            at_goal = np.abs(knots - self.plan.goal).max(axis=1) < _AT_GOAL
            shifted.append(later @ (knots + at_goal[:, None] * moved))
        return shifted[0], shifted[1], branch

    def _judged(self, found: RolloutCosts, clearance: float) -> Array:
        """Return the costs of all samples, including preferences and lack of clearance."""
        cost = found.cost.copy()
        cost[PLAN if self.plan is not None else DIRECT] *= _STAYS
        least = min(self._sampler.settings.clearance, max(clearance, 0.0))
        if self._guide is not None:
            cost += np.where(found.free < TAIL, _UNSEEN, 0.0)
        if least > 0.0:
            cost += _UNSAFE * np.maximum(least - found.clearance, 0.0) / least
        return np.asarray(cost)

    def _weighted_mean(self, knots: Array, cost: Array, comparable: Array) -> Array:
        """Return the mean of the best comparable samples, weighted by their costs."""
        s = self._sampler.settings
        candidates = np.flatnonzero(comparable)
        elites = candidates[np.argsort(cost[candidates], kind="stable")[: s.elites]]
        least = cost[elites[0]]
        if not np.isfinite(least):
            return np.asarray(knots[MEAN].copy())
        weights = np.exp(-(cost[elites] - least) / (s.temperature * max(least, 1e-6)))
        return np.asarray(np.tensordot(weights / weights.sum(), knots[elites], 1))

    def _note_progress(self, remaining: float, elapsed: float) -> None:
        if remaining < self._least - _BETTER or remaining < _AT_GOAL:
            self._least, self._waited, self._searched = remaining, 0.0, 0.0
        else:
            self._waited += elapsed
