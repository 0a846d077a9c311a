# SPDX-License-Identifier: Apache-2.0
"""Reactive MPC as a policy with the interface of RMPflow.

Its planner samples motions (stop, direct motions, variations of the last plan, detours), evaluates
them, and selects one. Source: G. Williams, A. Aldrich, E. Theodorou, Model predictive path integral
control, JGCD 40(2), 2017, for the weighted mean of samples; M. Bhardwaj et al., STORM: an
integrated framework for fast joint-space model-predictive control for reactive manipulation, CoRL
2021, for the costs of arms.

Motions end at joint configurations of the target. A target of the tool has several configurations
(branches of inverse kinematics, redundancy). The best of them, collision-free and close, are goals;
while the target moves, they follow it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.ik.chain import IkChain, joints_between
from motion_nodes.core.ik.problem import IkRequest, IkResult, IkSettings, IkTolerance
from motion_nodes.core.ik.solver import LeastSquaresIk
from motion_nodes.core.reactive.integration import JointMotion
from motion_nodes.core.reactive.mpc_rollouts import COSTS, TAIL, GuideSearch, RolloutCosts, Rollouts
from motion_nodes.core.reactive.mpc_settings import MpcSettings
from motion_nodes.core.reactive.numpy_policy import Goal
from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.reactive.policy_state import error_of, watch
from motion_nodes.core.robot.rmpflow_settings import RmpflowSettings
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.scene import Scene
from motion_nodes.kernels import mpc
from motion_nodes.kernels.formulas.ops import NUMPY
from motion_nodes.kernels.rmp.rmp_memory import ObstacleArrays
from motion_nodes.tolerances import DUPLICATE_BRANCHES, PERIOD_ROUNDING
from motion_nodes.typing import Array

BRAKE = 0
"""Index of the sample that brakes to a stop."""
PLAN, MEAN = 1, 2
"""Indices of the plan in use, and of the mean of its best variations."""
DIRECT = 3
"""Index of the first sample that moves straight to a goal; there is one per goal."""
_DETOURS = 0.3
"""Fraction of detours among the samples."""
_QUIET = (0.05, 1.0)
"""Range of a random number per sample, whose square scales the noise."""
_TOLERANCE = (1e-4, 1e-3)  # [m], [rad]
_ATTEMPTS = 8
_TIMEOUT = 1.0  # [s] never reached, so that results depend on the input alone
_ITERATIONS = 1500  # of one solve; a failed one takes less than a millisecond
_RANDOM = 6  # random initial guesses of a search
_FOLLOWED = 0.1  # [m, rad] displacement of a target beyond which branches are searched again
_POSTURE = 0.3  # weight of the distance from the posture; that from the current positions is 1
_COLLIDING = 100.0  # cost of a collision, added to these distances
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
_HARDEST = 1e6
_PER_RADIAN = 0.1
"""Weight of the remaining distance in joint space in the error of the tool [m/rad]."""


class LastPlan(NamedTuple):
    """The plan in use, shifted by the time since it was made."""

    knots: Array
    """Shape (k, n)."""
    mean: Array
    """Mean of its best variations, shape (k, n)."""
    branch: int
    """Index of its goal."""


class AttractorSampler:
    """Draws the samples of each plan; repeatable for equal seeds."""

    def __init__(self, settings: MpcSettings, lower: Array, upper: Array, lanes: int) -> None:
        """Create.

        Args:
            settings: number of samples and knots, noise, seed.
            lower: lower limits of the joints [rad or m], shape (n,); may be infinite.
            upper: upper limits of the joints [rad or m], shape (n,); may be infinite.
            lanes: the number of samples is rounded up to a multiple of it.
        """
        self.settings = settings
        self.count = -(-settings.samples // lanes) * lanes
        self.range = sampling_range(lower, upper)
        """Limits within which detours are drawn, finite [rad or m], shape (n,) each."""
        self._limits = lower, upper
        self.reset()

    def reset(self) -> None:
        """Reset the random numbers."""
        self._rng = np.random.default_rng(self.settings.seed)

    def draw(
        self, q: Array, goals: Array, posture: Array, last: LastPlan, brake: Array
    ) -> tuple[Array, Array]:
        """Return attractors of all samples, shape (s, k, n), and the index of the goal of each.

        Positions are in [rad or m].

        Args:
            q: current positions, shape (n,).
            goals: configurations at which motions may end, shape (b, n).
            posture: target posture, shape (n,).
            last: the plan in use.
            brake: positions at which the joints stop if they brake, shape (n,).
        """
        plan, mean, branch = last
        k, n = plan.shape
        knots = np.empty((self.count, k, n))
        branches = np.full(self.count, branch)
        knots[BRAKE], knots[PLAN], knots[MEAN] = brake, plan, mean
        first = DIRECT + len(goals)
        knots[DIRECT:first] = goals[:, None]
        branches[DIRECT:first] = np.arange(len(goals))
        varied = first + round((1.0 - _DETOURS) * (self.count - first))
        knots[first:varied] = self._variations(varied - first, mean, plan)
        branches[varied:] = self._rng.integers(len(goals), size=self.count - varied)
        knots[varied:] = self._detours(q, goals[branches[varied:]], posture, k)
        return np.clip(knots, *self._limits), branches

    def _variations(self, count: int, mean: Array, plan: Array) -> Array:
        """Return noise around the mean and the plan, shape (count, k, n)."""
        scale = self.settings.noise * self._rng.uniform(*_QUIET, (count, 1, 1)) ** 2
        noise = scale * self._rng.standard_normal((count, *mean.shape))
        centres = np.where(np.arange(count)[:, None, None] % 2, mean, plan)
        return np.asarray(centres + noise)

    def _detours(self, q: Array, goals: Array, posture: Array, k: int) -> Array:
        """Return motions to a random configuration, then to a goal, shape (s, k, n)."""
        rng, (count, n) = self._rng, goals.shape
        anywhere = rng.uniform(*self.range, (count, n))
        share = rng.uniform(0.0, 0.6, (count, 1))
        start = np.where(rng.uniform(size=(count, 1)) < 0.3, posture, q)
        middle = start + rng.uniform(0.0, 1.0, (count, 1)) * (goals - start)
        via = middle + share * (anywhere - middle)
        leave = rng.integers(1, k, size=(count, 1, 1))
        return np.where(np.arange(k)[None, :, None] < leave, via[:, None], goals[:, None])


def sampling_range(lower: Array, upper: Array) -> tuple[Array, Array]:
    """Return the part of joint limits in which configurations are drawn, finite [rad or m].

    It is within pi of 0, or of the limit that is closest to 0; all arrays have shape (n,).
    """
    middle = np.clip(0.0, lower, upper)
    return np.maximum(lower, middle - np.pi), np.minimum(upper, middle + np.pi)


def braking_attractor(q: Array, qd: Array, acceleration: Array) -> Array:
    """Return the positions at which joints stop if they brake [rad or m], shape (n,)."""
    return np.asarray(q + 0.5 * qd * np.abs(qd) / acceleration)


class GoalPostures:
    """Finds configurations at a target, and moves them with it; not thread-safe."""

    def __init__(
        self,
        robot: Robot,
        joints: tuple[str, ...],
        tool: str,
        are_free: Callable[[Array], NDArray[np.bool_]],
    ) -> None:
        """Create; code is compiled at the first use of a robot.

        Args:
            robot: the robot.
            joints: names of the active joints.
            tool: frame of the targets.
            are_free: returns which positions of the active joints [rad or m], shape (m, n), are
                collision-free.
        """
        every = joints_between(robot.tree, robot.base_frame, tool)
        chained = [name for name in joints if name in every]
        others = zip(robot.joint_names, robot.home, strict=True)
        fixed = {name: float(q) for name, q in others if name not in chained}
        chain = IkChain(
            robot.tree, robot.base_frame, tool, chained, limits=robot.limits, fixed=fixed
        )
        self._turns = robot.limits.select(joints).turns
        self._columns = [joints.index(name) for name in chained]
        self._lower, self._upper = sampling_range(chain.lower, chain.upper)
        self._solver = LeastSquaresIk(chain)
        self._are_free = are_free
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Clear all goals, and seed the random initial guesses."""
        self._rng = np.random.default_rng(seed)
        self._goal: Goal | None = None
        self._searched: Goal | None = None
        self._found: Array = np.empty((0, 0))
        self.target = 0
        """Number of targets so far; increased when the target jumps."""
        self.reachable = True
        """Whether the configurations are at the target; otherwise they are the closest found."""
        self.free: Array = np.empty((0, 0))
        """Collision-free configurations among them [rad or m], shape (f, n)."""

    def at(self, goal: Goal, q: Array, count: int, guesses: Array | None = None) -> Array:
        """Return up to ``count`` configurations for a goal [rad or m], best first, shape (b, n).

        Args:
            goal: goal in the base frame.
            q: current positions of the active joints [rad or m], shape (n,).
            count: max number of configurations.
            guesses: if given, search again with these additional initial guesses, shape (m, n).
        """
        if goal.position is None and goal.rotation is None:
            if self._goal is None or _moved(goal, self._goal) > 0.0:
                self.target += 1
            self._searched = None
            self.reachable = True
            self._found = goal.posture[None]
        elif self._searched is None or _moved(goal, self._searched) > _FOLLOWED:
            self.target += 1
            self._search(goal, q, count)
        elif guesses is not None:
            self._search(goal, q, count, guesses)
        elif self.reachable and not len(self.free):
            self._search(goal, q, count)
        elif self._goal is None or _moved(goal, self._goal) > 0.0:
            self._follow(goal)
        self._goal = goal
        self.free = self._found[self._are_free(self._found)]
        return self._found

    def _search(self, goal: Goal, q: Array, count: int, further: Array | None = None) -> None:
        """Solve from many initial guesses, and keep the best configurations."""
        self._searched = goal
        guesses = [q, goal.posture, *self._found, *(() if further is None else further)]
        for drawn in self._rng.uniform(self._lower, self._upper, (_RANDOM, len(self._lower))):
            guess = q.copy()
            guess[self._columns] = drawn
            guesses.append(guess)
        results = [self._solved(goal, guess) for guess in guesses]
        solved = [self._turns.nearest(x, q) for x, result in results if result.success]
        self.reachable = bool(solved)
        if not solved:
            self._found = min(results, key=lambda item: _error(item[1]))[0][None]
            return
        different: list[Array] = []
        for solution in self._sorted(np.array(solved), q, goal.posture):
            if all(np.abs(solution - known).max() > DUPLICATE_BRANCHES for known in different):
                different.append(solution)
        self._found = np.array(different[:count])

    def _follow(self, goal: Goal) -> None:
        """Move the configurations with the target; those that cannot follow are dropped."""
        results = [self._solved(goal, guess) for guess in self._found]
        kept = [solution for solution, result in results if result.success]
        self.reachable = bool(kept)
        self._found = np.array(kept) if kept else results[0][0][None]

    def _solved(self, goal: Goal, guess: Array) -> tuple[Array, IkResult]:
        target, (position, orientation) = np.eye(4), _TOLERANCE
        if goal.position is None:
            tolerance = IkTolerance(np.inf, orientation)
        else:
            target[:3, 3] = goal.position
            tolerance = IkTolerance(position, np.inf if goal.rotation is None else orientation)
        if goal.rotation is not None:
            target[:3, :3] = goal.rotation
        settings = IkSettings(
            tolerance, attempts=_ATTEMPTS, max_iterations=_ITERATIONS, timeout=_TIMEOUT
        )
        result = self._solver.solve(IkRequest(target, guess[self._columns], settings=settings))
        solution = guess.copy()
        solution[self._columns] = result.q
        return solution, result

    def _sorted(self, solutions: Array, q: Array, posture: Array) -> Array:
        """Return the configurations, best first, shape (m, n)."""
        away = np.linalg.norm(self._turns.difference(q, solutions), axis=1)
        away += _POSTURE * np.linalg.norm(self._turns.difference(posture, solutions), axis=1)
        cost = away + np.where(self._are_free(solutions), 0.0, _COLLIDING)
        return solutions[np.argsort(cost, kind="stable")]


def _error(result: IkResult) -> float:
    return result.position_error + 0.1 * result.orientation_error


def _moved(goal: Goal, known: Goal) -> float:
    """Return the displacement of a target; infinite if it is of another kind.

    It is the max change of the position [m] and of the elements of the rotation matrix; a different
    posture counts as 1e-9.
    """
    moved = 0.0 if np.array_equal(goal.posture, known.posture) else 1e-9
    for a, b in ((goal.position, known.position), (goal.rotation, known.rotation)):
        if (a is None) != (b is None):
            return np.inf
        if a is not None and b is not None:
            moved = max(moved, float(np.abs(a - b).max()))
    return moved


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
        self,
        state: JointMotion,
        goal: Goal,
        obstacles: ObstacleArrays,
        clearance: float,
        elapsed: float,
    ) -> JointPlan:
        """Return a new plan.

        Args:
            state: positions and velocities, and accelerations of the last step.
            goal: goal in the base frame.
            obstacles: obstacles in the base frame.
            clearance: current distance of the robot from obstacles [m].
            elapsed: time since the last plan [s].
        """
        q = state.q
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
        last = self._shifted(goals, elapsed)
        brake = braking_attractor(q, state.qd, self._braking)
        knots, branches = self._sampler.draw(q, goals, goal.posture, last, brake)
        found = self._rollouts.run(q, state.qd, state.qdd, knots, goals[branches])
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

    def _shifted(self, goals: Array, elapsed: float) -> LastPlan:
        """Return the last plan shifted by a time [s]."""
        if self.plan is None or self._mean is None:
            direct = np.tile(goals[0], (len(self._rollouts.knot_times), 1))
            return LastPlan(direct, direct, 0)
        branch = int(np.argmin(np.abs(goals - self.plan.goal).max(axis=1)))
        later = self._rollouts.basis(self._rollouts.knot_times + elapsed)
        moved = goals[branch] - self.plan.goal
        shifted = []
        for knots in (self.plan.knots, self._mean):
            at_goal = np.abs(knots - self.plan.goal).max(axis=1) < _AT_GOAL
            shifted.append(later @ (knots + at_goal[:, None] * moved))
        return LastPlan(shifted[0], shifted[1], branch)

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


class MpcPolicy(RmpflowPolicy):
    """Moves the joints of a robot to a target around obstacles, by sampled motions.

    Inputs, outputs, limits and stops are those of :class:`RmpflowPolicy`. For each plan, motions
    over a horizon are sampled and evaluated; the tracking law follows the best one until the next
    plan.
    """

    def __init__(
        self,
        robot: Robot,
        *arguments: Any,
        joints: Sequence[str] | str = "arm",
        mpc: MpcSettings | None = None,
        **options: Any,
    ) -> None:
        """Create the policy; code is compiled at the first use of a robot.

        Args:
            robot: robot with collision spheres or collision geometry.
            arguments: as for :class:`RmpflowPolicy`.
            joints: as for :class:`RmpflowPolicy`.
            mpc: horizon, samples and costs; default: those of :class:`MpcSettings`.
            options: as for :class:`RmpflowPolicy`.

        Raises:
            UnknownGroup, UnknownJoint, UnknownFrame: a name that the robot does not have.
            InvalidDescription: the robot has no settings, or they cannot be read.
            InvalidConfig: settings that do not fit the robot, or no joint moves the tool.
        """
        self._planner: MpcPlanner | None = None
        super().__init__(robot, *arguments, joints=joints, **options)
        self.mpc = mpc or MpcSettings()
        limits = self._evaluator.limits
        self._rollouts = Rollouts(robot, self.active_joints, self.tool)
        self._rollouts.set_settings(self.mpc)
        self._set_limits()
        sampler = AttractorSampler(self.mpc, limits.lower, limits.upper, self._rollouts.lanes)
        goals = GoalPostures(robot, self.active_joints, self.tool, self._rollouts.are_free)
        guides = GuideSearch(self._rollouts, *sampler.range)
        self._planner = MpcPlanner(self._rollouts, sampler, goals, guides, self.max_acceleration)
        self.reset()

    def reset(self) -> None:
        """Clear targets, obstacles, attached bodies, state and plan; keep parameters and base."""
        super().reset()
        self._since_plan = np.inf
        if self._planner is not None:
            self._planner.reset()
            self._rollouts.set_scene(self.scene)

    def set_settings(self, settings: RmpflowSettings) -> None:
        """Replace the parameters of the RMPs; their velocity limits also apply to the MPC."""
        super().set_settings(settings)
        self._set_limits()

    def _set_limits(self) -> None:
        limits = self._evaluator.limits
        self._speed = np.minimum(limits.velocity, self._evaluator.bounds.max_velocity)
        jerk = np.minimum(limits.jerk, _HARDEST)
        self._rollouts.set_limits(self._speed, self.max_acceleration, jerk)

    def set_scene(self, scene: Scene, now: float | None = None) -> None:
        """Set the obstacles and attached bodies; see :meth:`RmpflowPolicy.set_scene`."""
        before = self.scene
        super().set_scene(scene, now)
        if before.attached != scene.attached or before.allowed is not scene.allowed:
            self._rollouts.set_scene(scene)

    def use_distance_field(self, by_field: bool) -> None:
        """Keep the boxes: plans need the obstacles around the whole motion ahead."""

    @property
    def plan(self) -> JointPlan | None:
        """The followed motion; None before the first plan and after a stop."""
        return None if self._planner is None else self._planner.plan

    def tool_lead(self, twist: Array) -> Array:
        """Return the lead of a target that moves with a twist; see :class:`RmpflowPolicy`."""
        return twist / mpc.GAIN

    def joint_lead(self, velocity: Array) -> Array:
        """Return the same for joints, shape (n,) each [rad/s or m/s; rad or m]."""
        return velocity / mpc.GAIN

    def _advance(self, state: JointMotion, count: int, dt: float) -> tuple[Array, Array]:
        self._turn_posture(state.q)
        if self._stopping:
            self._forget_plan()
        elif self._since_plan >= self.mpc.period - PERIOD_ROUNDING:
            self._update_plan(state)
        return super()._advance(state, count, dt)

    def _update_plan(self, state: JointMotion) -> None:
        assert self._planner is not None
        elapsed = self._since_plan if np.isfinite(self._since_plan) else 0.0
        seen = state.q + self._sag
        whole = np.concatenate((seen, self._watched_q))
        clearance = float(self._evaluator.clearances(whole).min(initial=np.inf))
        self._rollouts.set_watched(self._watched_q)
        self._planner.update(
            replace(state, q=seen), self._evaluator.goal, self._evaluator.obstacles, clearance,
            elapsed,
        )  # fmt: skip
        self._since_plan = 0.0

    def _forget_plan(self) -> None:
        assert self._planner is not None
        self._planner.forget()
        self._since_plan = np.inf

    @property
    def _rmps_alone(self) -> bool:
        return self.plan is None and super()._rmps_alone

    def _accelerations(self, state: JointMotion, dt: float) -> Callable[[Array], Array]:
        if self._stopping or self.plan is None:
            return super()._accelerations(state, dt)
        assert self._planner is not None
        offset = self._planner.attractor(self._since_plan) - state.q - self._sag
        self._since_plan += dt
        rate = mpc.tracking_rate(NUMPY, offset, self._speed, self.max_acceleration).min()
        response = mpc.response(dt)

        def law(qd: Array) -> Array:
            return np.asarray(mpc.acceleration(rate, offset, qd, response))

        return law

    def _watch(self, duration: float) -> None:
        plan, goal, errors = self.plan, self._evaluator.goal, self._errors()
        if plan is None:
            watch(self._progress, goal, errors, duration)
            return
        watch(
            self._progress, goal, errors, duration,
            error_of(goal, errors) + _PER_RADIAN * plan.remaining,
        )  # fmt: skip
