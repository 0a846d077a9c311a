# SPDX-License-Identifier: Apache-2.0
"""Configurations for a pose goal, sampled by inverse kinematics."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np

from motion_nodes.errors import InvalidCommand
from motion_nodes.ik.problem import (
    IkRequest,
    IkSettings,
    IkStatus,
    IkTolerance,
    as_pose,
    rigid_pose,
)
from motion_nodes.model.poses import inverse, rotation_about
from motion_nodes.planning.joint_ranges import in_words as range_in_words
from motion_nodes.planning.joint_ranges import joint_range
from motion_nodes.planning.planning_problem import PlanStatus, PoseGoal
from motion_nodes.planning.pose_solvers import ATTEMPTS, pose_solver
from motion_nodes.planning.start_state import in_words
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.typing import Array

_INSIDE = 0.9
"""Fraction of a goal region used by samples."""
_LEFT = 0.05
"""Fraction of a goal region left for the solver's error."""
_FAR = 0.5
"""Max displacement of position samples along an unconstrained direction [m]."""


class PoseSampler:
    """Samples collision-free configurations for a link's pose; not thread-safe."""

    def __init__(
        self,
        checker: CollisionChecker,
        goal: PoseGoal,
        start: Array,
        rng: np.random.Generator,
        *,
        spheres: bool = True,
    ) -> None:
        """Create the sampler.

        Args:
            checker: robot and scene.
            goal: the goal.
            start: current joint positions, shape (n,); joints that do not move the link stay there.
            rng: for seeds of searches and samples of regions.
            spheres: whether collision spheres must be collision-free as well as the exact geometry.

        Raises:
            InvalidCommand: an invalid pose.
            UnknownFrame: the robot does not have this link.
            InvalidConfig: none of the joints moves it.
        """
        self._checker, self._goal, self._start, self._rng = checker, goal, start, rng
        self._spheres = spheres
        self._held = None if goal.joints is None else joint_range(checker, goal.joints)
        room = None if self._held is None or self._held.fault else self._held
        self._solver, self._columns = pose_solver(checker, goal.link, room)
        self._X_BT = as_pose(goal.X_BT, f"the goal of {goal.link}")
        if not np.isfinite(self._X_BT).all():
            raise InvalidCommand(
                f"the goal of {goal.link} holds numbers that are not finite.", field=goal.link
            )
        self._X_TL = None if goal.X_LT is None else inverse(rigid_pose(goal.X_LT, "X_LT", 1e-3))
        self._statuses: set[IkStatus] = set()
        self._reason = ""
        self._collision = ""

    @property
    def impossible(self) -> bool:
        """Whether further samples are useless: the target is out of reach, or no joint may move."""
        impossible = self._held is not None and bool(self._held.fault)
        return impossible or self._statuses == {IkStatus.OUT_OF_REACH}

    def draw(self, *, first: bool, timeout: float) -> Array | None:
        """Return a configuration, shape (n,), or None if this try found none.

        Args:
            first: search near the start, at the exact pose; else from random seeds and within the
                goal's tolerances.
            timeout: max duration [s].
        """
        return self.solve(self._start, first=first, timeout=timeout, validity=self._validity)

    def solve(
        self,
        q: Array,
        *,
        first: bool,
        timeout: float,
        locked: Collection[int] = (),
        validity: Callable[[Array], bool | str] | None = None,
    ) -> Array | None:
        """Return a configuration as :meth:`draw`, without the condition that it is collision-free.

        Args:
            q: seed if ``first``, and positions of the joints that do not move, shape (n,).
            first: see :meth:`draw`.
            timeout: max duration [s].
            locked: indices of joints that do not move.
            validity: condition on the positions of the joints that move the link.
        """
        if self.impossible:
            return None
        X_BL, tolerance = self._target(first)
        settings = IkSettings(
            tolerance=tolerance,
            attempts=ATTEMPTS,
            timeout=max(1e-4, timeout),
            random_seed=int(self._rng.integers(2**31)),
        )
        seed = q[self._columns] if first else None
        names = self._checker.joint_names
        fixed = {names[i]: float(q[i]) for i in self._columns if i in locked}
        request = IkRequest(X_BL, seed=seed, locked=fixed, validity=validity, settings=settings)
        result = self._solver.solve(request)
        if not fixed:
            self._statuses.add(result.status)
        if not result.success:
            self._reason = result.reason
            return None
        return self._whole(result.q, q)

    @property
    def columns(self) -> list[int]:
        """Indices of the joints that move the link."""
        return self._columns

    def why_none(self) -> tuple[PlanStatus, str]:
        """Return status and reason if no sample was found."""
        where = f"the goal of {self._goal.link}"
        if self._held is not None:
            where += f" with {range_in_words(self._checker, self._held)}"
        if self._held is not None and self._held.fault:
            return PlanStatus.GOAL_OUTSIDE_LIMITS, self._held.fault
        if self._collision:
            return PlanStatus.GOAL_IN_COLLISION, f"{where} is in collision: {self._collision}"
        if self._statuses <= {IkStatus.TIMED_OUT}:
            return PlanStatus.TIMED_OUT, f"{where}: no IK solution within the timeout"
        return PlanStatus.GOAL_UNREACHABLE, f"{where} cannot be reached: {self._why_not()}"

    def _why_not(self) -> str:
        """Return the solver's reason; or that pose and joint constraints contradict."""
        if self._held is None:
            return self._reason
        solver, columns = pose_solver(self._checker, self._goal.link)
        X_BL, tolerance = self._target(first=True)
        settings = IkSettings(tolerance=tolerance, attempts=ATTEMPTS, timeout=0.1)
        seed = self._start[columns]
        if not solver.solve(IkRequest(X_BL, seed=seed, settings=settings)).success:
            return self._reason
        return "pose and joint constraints contradict each other"

    def _validity(self, q: Array) -> bool | str:
        whole = self._whole(q, self._start)
        spheres_free = not self._spheres or self._checker.is_free(whole)
        if spheres_free and self._checker.exact.is_free(whole):
            return True
        if not self._collision:
            self._collision = in_words(self._checker, whole)
        return self._collision

    def _whole(self, q: Array, others: Array) -> Array:
        whole = others.copy()
        whole[self._columns] = q
        whole = self._checker.limits.clip(whole)
        return whole if self._held is None else np.clip(whole, self._held.low, self._held.high)

    def _target(self, first: bool) -> tuple[Array, IkTolerance]:
        """Return a pose of the link to solve for, and its tolerance.

        The solver stops at the border of a region, so for several solutions poses inside are
        sampled. The goal may also be a point beside the link's origin; if the orientation is not
        fixed the position of the origin is defined only after it is sampled.
        """
        tolerance = self._goal.tolerance
        if self._X_TL is None:
            if first or not _wide(tolerance) or tolerance.free[:3].any():
                return self._X_BT, tolerance
            return self._drawn(tolerance), _tight(tolerance, 0.0)
        X_BT = self._X_BT if first else self._drawn(tolerance)
        return X_BT @ self._X_TL, _tight(tolerance, float(np.linalg.norm(self._X_TL[:3, 3])))

    def _drawn(self, tolerance: IkTolerance) -> Array:
        """Return a random pose within the tolerances."""
        free, lengths = tolerance.free, _INSIDE * tolerance.lengths
        reach = np.minimum(_INSIDE * tolerance.axes, np.repeat(lengths, 3))
        reach = np.where(free, [_FAR] * 3 + [np.pi] * 3, reach)
        offset = reach * self._rng.uniform(-1.0, 1.0, 6)
        for part, length in ((slice(0, 3), lengths[0]), (slice(3, 6), min(lengths[1], np.pi))):
            size = float(np.linalg.norm(offset[part]))
            if size > length:
                # Unconstrained axes adapt, so that the others stay as sampled.
                kept = np.where(free[part], 0.0, offset[part])
                rest = np.sqrt(max(0.0, length**2 - float(kept @ kept)))
                across = float(np.linalg.norm(offset[part] - kept))
                scale = length / size if across == 0.0 else 1.0
                kept = kept * scale
                offset[part] = np.where(free[part], offset[part] * rest / max(across, 1e-12), kept)
        R = np.eye(3)
        angle = float(np.linalg.norm(offset[3:]))
        if free[3:].all():
            R = _random_rotation(self._rng)
        elif angle > 0.0:
            R = rotation_about(offset[3:] / angle, np.array(angle))
        X_BT = self._X_BT.copy()
        X_BT[:3, 3] += X_BT[:3, :3] @ offset[:3]
        X_BT[:3, :3] = X_BT[:3, :3] @ R
        return X_BT


def _wide(tolerance: IkTolerance) -> bool:
    """Return whether a tolerance is a region rather than a precision."""
    sizes = np.minimum(tolerance.axes, np.repeat(tolerance.lengths, 3))
    return bool((sizes > 0.02).any())


def _tight(tolerance: IkTolerance, lever: float) -> IkTolerance:
    """Return a tolerance for a pose sampled in a region that stays within the region.

    Args:
        tolerance: the region's.
        lever: distance of the goal point from the link's origin [m]; rotation moves it.
    """
    least = np.minimum(tolerance.axes, np.repeat(tolerance.lengths, 3))
    position, turning = _LEFT * float(least[:3].min()), _LEFT * float(least[3:].min())
    if lever > 0.0:
        turning = min(turning, 0.5 * position / lever)
        position *= 0.5
    return IkTolerance(min(1e-3, position), min(1e-3, turning))


def _random_rotation(rng: np.random.Generator) -> Array:
    """Return a uniform random rotation matrix: that of a quaternion of four normal numbers."""
    x, y, z, w = (q := rng.normal(size=4)) / np.linalg.norm(q)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )
