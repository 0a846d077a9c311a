# SPDX-License-Identifier: Apache-2.0
"""Joint configurations at a target, at which the motions of the reactive MPC may end.

A target of the tool has several configurations (branches of inverse kinematics, redundancy). The
best of them, collision-free and close, are goals; while the target moves, they follow it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from motion_nodes.ik.chain import IkChain, joints_between
from motion_nodes.ik.problem import IkRequest, IkResult, IkSettings, IkTolerance
from motion_nodes.ik.solver import LeastSquaresIk
from motion_nodes.model.robot import Robot
from motion_nodes.mpc.attractor_sampling import sampling_range
from motion_nodes.rmpflow.numpy_policy import Goal
from motion_nodes.typing import Array

_TOLERANCE = (1e-4, 1e-3)  # [m], [rad]
_ATTEMPTS = 8
_TIMEOUT = 1.0  # [s] never reached, so that results depend on the input alone
_ITERATIONS = 1500  # of one solve; a failed one takes less than a millisecond
_RANDOM = 6  # random initial guesses of a search
_SAME = 0.1  # [rad or m] max difference of duplicates
_FOLLOWED = 0.1  # [m, rad] displacement of a target beyond which branches are searched again
_POSTURE = 0.3  # weight of the distance from the posture; that from the current positions is 1
_COLLIDING = 100.0  # cost of a collision, added to these distances


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
            if all(np.abs(solution - known).max() > _SAME for known in different):
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
