# SPDX-License-Identifier: Apache-2.0
"""Configurations in which several links are at poses at once: inverse kinematics of several tips.

The links are solved for one after the other, each with the joints that no link before it uses; so
arms without common joints are independent of each other. If a link is not reached with the joints
that the others share with it, all poses together are reached by Newton's method from there. For a
goal of one pose, configurations are sampled by inverse kinematics.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from motion_nodes.core.ik.problem import (
    IkRequest,
    IkResult,
    IkSettings,
    IkStatus,
    IkTolerance,
    Validity,
    pose_error,
    rejection,
)
from motion_nodes.core.ik.relaxed_poses import FULL
from motion_nodes.core.planning.cartesian import checker_kinematics
from motion_nodes.core.planning.planning_problem import (
    PlanStatus,
    PoseGoal,
    PosesGoal,
    in_words,
    range_words,
)
from motion_nodes.core.planning.pose_solvers import ATTEMPTS, pose_solver
from motion_nodes.core.robot.poses import as_pose, inverse, rigid_pose, rotation_about
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.errors import InvalidCommand
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.typing import Array

if TYPE_CHECKING:
    from motion_nodes.core.planning.constraint_set import ConstraintSet

_INSIDE = 0.9
"""Fraction of a goal region used by samples."""
_LEFT = 0.05
"""Fraction of a goal region left for the solver's error."""
_FAR = 0.5
"""Max displacement of position samples along an unconstrained direction [m]."""
_ALONE = 0.1
"""Timeout of the check whether one pose is reached alone [s]."""


class PoseSampler:
    """Samples collision-free configurations for a link's pose; not thread-safe."""

    beside_spheres: int
    """Number of configurations rejected because spheres alone collide, not the exact geometry."""

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
        self._held = None if goal.joints is None else goal.joints.range_in(checker)
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
        self.beside_spheres = 0

    @property
    def impossible(self) -> bool:
        """Whether further samples are useless: the target is out of reach, or no joint may move."""
        impossible = self._held is not None and bool(self._held.fault)
        return impossible or self._statuses == {IkStatus.OUT_OF_REACH}

    @property
    def samples_region(self) -> bool:
        """Whether poses are drawn within the tolerances, instead of one for all configurations."""
        return _wide(self._goal.tolerance)

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
            where += f" with {range_words(self._checker, self._held)}"
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
        if self._checker.exact.is_free(whole):
            if spheres_free:
                return True
            self.beside_spheres += 1
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
        fixed the position of the origin is defined only after it is sampled. Few joints hardly
        reach any sample of a free axis; the solver finds what they reach.
        """
        tolerance = self._goal.tolerance
        if self._X_TL is None:
            few = len(self._columns) < FULL and tolerance.free.any()
            if first or few or not _wide(tolerance) or tolerance.free[:3].any():
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


class PosesSampler:
    """Samples configurations for the poses of several links; not thread-safe."""

    beside_spheres: int
    """Number of configurations rejected because spheres alone collide, not the exact geometry."""

    def __init__(
        self,
        checker: CollisionChecker,
        goal: PosesGoal,
        start: Array,
        rng: np.random.Generator,
        *,
        spheres: bool = True,
        validity: Validity | None = None,
    ) -> None:
        """Create the sampler.

        Args:
            checker: robot and scene.
            goal: the poses.
            start: current joint positions, shape (n,); joints that move none of the links are kept.
            rng: for seeds of searches and samples of regions.
            spheres: whether collision spheres must be collision-free as well as the exact geometry.
            validity: condition on a configuration, or the reason of its rejection; None: it is
                collision-free.

        Raises:
            InvalidCommand: an invalid pose.
            UnknownFrame: the robot does not have one of the links.
            InvalidConfig: none of the joints moves one of them.
        """
        self._checker, self._goal, self._start, self._spheres = checker, goal, start, spheres
        self._parts = [
            PoseSampler(checker, replace(pose, joints=goal.joints), start, rng)
            for pose in goal.poses
        ]
        self._validity = validity or self._collision_free
        self._rejected, self._timed_out = "", False
        self.beside_spheres = 0

    @property
    def impossible(self) -> bool:
        """Whether further samples are useless: a target is out of reach, or no joint may move."""
        return any(part.impossible for part in self._parts)

    @property
    def samples_region(self) -> bool:
        """Whether poses are drawn within the tolerances, instead of one for all configurations."""
        return any(part.samples_region for part in self._parts)

    @property
    def rejected(self) -> str:
        """Why a configuration with these poses was rejected; empty if none was found."""
        return self._rejected

    def draw(self, *, first: bool, timeout: float) -> Array | None:
        """Return a configuration, shape (n,), or None if this try found none.

        Args:
            first: search near the start; else from random seeds and within the goal's tolerances.
            timeout: max duration [s].
        """
        end, q, complete = compute_time() + timeout, self._start.copy(), True
        solved: set[int] = set()
        for part in self._parts:
            left, own = end - compute_time(), set(part.columns)
            found = None
            if left > 0.0 and not own <= solved:
                found = part.solve(q, first=first, timeout=left, locked=solved)
            self._timed_out = self._timed_out or left <= 0.0
            complete = complete and found is not None
            q = q if found is None else found
            solved |= own
        if not complete:
            if self.impossible or compute_time() >= end:
                return None
            points, converged = self._together.projected(q[None, :])
            if not converged[0]:
                return None
            q = points[0]
        reason = rejection(self._validity, q)
        if not reason:
            return q
        self._rejected = self._rejected or reason
        return None

    def why_none(self) -> tuple[PlanStatus, str]:
        """Return status and reason if no sample was found."""
        if self._rejected:
            words = f"{self._goal.label} is in collision: {self._rejected}"
            return PlanStatus.GOAL_IN_COLLISION, words
        for part in self._parts:
            if part.impossible or part.solve(self._start, first=False, timeout=_ALONE) is None:
                return part.why_none()
        if self._timed_out:
            words = f"{self._goal.label}: no IK solution within the timeout"
            return PlanStatus.TIMED_OUT, words
        words = f"{self._goal.label}: each pose is reachable alone, but not all of them at once"
        return PlanStatus.GOAL_UNREACHABLE, words

    def _collision_free(self, q: Array) -> bool | str:
        spheres_free = not self._spheres or self._checker.is_free(q)
        if self._checker.exact.is_free(q):
            if spheres_free:
                return True
            self.beside_spheres += 1
        return in_words(self._checker, q)

    @cached_property
    def _together(self) -> ConstraintSet:
        # Imported on use: most processes have no such goals.
        from motion_nodes.core.planning.constraint_set import ConstraintSet

        n = len(self._start)
        low, high = np.full(n, -np.inf), np.full(n, np.inf)
        if self._goal.joints is not None:
            room = self._goal.joints.range_in(self._checker)
            low, high = room.low, room.high
        return ConstraintSet(self._checker, ()).with_goal(self._goal, low, high)


def pose_sampler(
    checker: CollisionChecker,
    goal: PoseGoal | PosesGoal,
    start: Array,
    rng: np.random.Generator,
    *,
    spheres: bool = True,
) -> PoseSampler | PosesSampler:
    """Return the sampler of a goal; arguments and errors are those of the samplers."""
    if isinstance(goal, PosesGoal):
        return PosesSampler(checker, goal, start, rng, spheres=spheres)
    return PoseSampler(checker, goal, start, rng, spheres=spheres)


def solve_poses(
    checker: CollisionChecker,
    goal: PosesGoal,
    seed: Array,
    settings: IkSettings | None = None,
    validity: Validity | None = None,
) -> IkResult:
    """Solve inverse kinematics for the poses of several links.

    Args:
        checker: its joints are solved for; all others are fixed at its positions.
        goal: the poses, in the robot's base.
        seed: initial guess, shape (n,).
        settings: timeout, max number of seeds, random seed; tolerances are the goal's.
        validity: further condition on a solution; returns True, or the reason for rejection.

    Returns:
        The result; its errors are those of the pose that is farthest from its target.

    Raises:
        InvalidCommand, UnknownFrame, InvalidConfig: as :class:`PosesSampler`.
    """
    settings = settings or IkSettings()
    rng = np.random.default_rng(settings.random_seed)
    start = checker.limits.clip(seed)
    validity = validity or (lambda q: True)
    sampler = PosesSampler(checker, goal, start, rng, validity=validity)
    validity(start)  # its preparation may take longer than the search
    began = compute_time()
    q, tries = None, 0
    while q is None and tries < settings.attempts and not sampler.impossible:
        left = settings.timeout - (compute_time() - began)
        if left <= 0.0:
            break
        q = sampler.draw(first=tries == 0, timeout=left)
        tries += 1
    status, reason = IkStatus.SOLVED, ""
    if q is None:
        status, reason = _failure(sampler)
    found = start if q is None else q
    errors = _worst_error(checker, goal, found)
    return IkResult(
        status,
        found,
        errors,
        float(np.linalg.norm(errors[:3])),
        float(np.linalg.norm(errors[3:])),
        0,
        tries,
        compute_time() - began,
        reason,
    )


def _failure(sampler: PosesSampler) -> tuple[IkStatus, str]:
    if sampler.rejected:
        return IkStatus.REFUSED, f"every solution found was rejected: {sampler.rejected}"
    impossible = sampler.impossible
    status, reason = sampler.why_none()
    if impossible:
        return IkStatus.OUT_OF_REACH, reason
    timed_out = status is PlanStatus.TIMED_OUT
    return (IkStatus.TIMED_OUT if timed_out else IkStatus.NOT_FOUND), reason


def _worst_error(checker: CollisionChecker, goal: PosesGoal, q: Array) -> Array:
    """Return the error of the pose that is farthest from its target, shape (6,)."""
    kinematics = checker_kinematics(checker)
    errors = [
        pose_error(
            kinematics.pose(q, pose.link)
            @ np.asarray(np.eye(4) if pose.X_LT is None else pose.X_LT),
            np.asarray(pose.X_BT, np.float64),
        )
        for pose in goal.poses
    ]
    return np.asarray(max(errors, key=lambda error: float(np.linalg.norm(error))))
