# SPDX-License-Identifier: Apache-2.0
"""Configurations in which several links are at poses at once: inverse kinematics of several tips.

The links are solved for one after the other, each with the joints that no link before it uses; so
arms without common joints are independent of each other. If a link is not reached with the joints
that the others share with it, all poses together are reached by Newton's method from there.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from motion_nodes.ik.pose_error import pose_error
from motion_nodes.ik.problem import IkResult, IkSettings, IkStatus, Validity, rejection
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.planning.cartesian import checker_kinematics
from motion_nodes.planning.joint_ranges import joint_range
from motion_nodes.planning.planning_problem import PlanStatus, PoseGoal, PosesGoal
from motion_nodes.planning.pose_samples import PoseSampler
from motion_nodes.planning.start_state import in_words
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.typing import Array

if TYPE_CHECKING:
    from motion_nodes.planning.constrained.constraint_set import ConstraintSet


_ALONE = 0.1
"""Timeout of the check whether one pose is reached alone [s]."""


class PosesSampler:
    """Samples configurations for the poses of several links; not thread-safe."""

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

    @property
    def impossible(self) -> bool:
        """Whether further samples are useless: a target is out of reach, or no joint may move."""
        return any(part.impossible for part in self._parts)

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
        if spheres_free and self._checker.exact.is_free(q):
            return True
        return in_words(self._checker, q)

    @cached_property
    def _together(self) -> ConstraintSet:
        # Imported on use: most processes have no such goals.
        from motion_nodes.planning.constrained.constraint_set import ConstraintSet

        n = len(self._start)
        low, high = np.full(n, -np.inf), np.full(n, np.inf)
        if self._goal.joints is not None:
            room = joint_range(self._checker, self._goal.joints)
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
