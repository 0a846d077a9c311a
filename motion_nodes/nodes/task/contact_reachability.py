# SPDX-License-Identifier: Apache-2.0
"""Reachability of motions in contact: pulls of handles, and strokes over surfaces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from motion_nodes.model.tree import Array
from motion_nodes.nodes.task.reachability import APPROACH, Reachability, raised
from motion_nodes.nodes.task.remote_work import Work
from motion_nodes.scene.world import World
from motion_nodes.tasks.contact_poses import backed
from motion_nodes.tasks.grasps import GraspPose
from motion_nodes.tasks.task_codes import TaskCode
from motion_nodes.tasks.task_runner import SkillFailed
from motion_nodes.tasks.world_state import ObjectState

RETREAT = 0.05
"""Length of the straight retreat after a handle is released [m]."""
PULL_SEEDS, EASY_PULL = 10, 0.3
"""Number of random seeds for a pull, and the quality beyond which no other one is tried."""
PUSHED = 0.25
"""Max ratio of the accelerations by friction and by normal force, with a friction of 1."""


class ContactReachability(Reachability):
    """Selects pulls and strokes, checked against the current planning scene."""

    def pull(self, grasps: Iterable[GraspPose], distance: float, target: ObjectState) -> Work:
        """Return a grasp of a handle that can be pulled, and joint positions before its approach.

        Args:
            grasps: best first; the pull is against their approach.
            distance: of the pull [m]; the retreat follows it.
            target: the handle.

        Raises:
            SkillFailed: none is within reach.
        """
        around, best, ease = self._without(target.name), None, 0.0
        for grasp in grasps:
            for seed in self._seeds(PULL_SEEDS):
                path = self._pull_path(seed, grasp.X_WG, distance, around)
                found = self._ease(path, grasp.X_WG[:3, 2]) if path else -np.inf
                if path and (best is None or found > ease):
                    best, ease = (grasp, path[0]), found
                yield
                if ease > EASY_PULL:
                    return best
        if best is None:
            raise SkillFailed(
                f"'{target.name}' cannot be pulled: out of reach, or in collision",
                TaskCode.OUT_OF_REACH,
            )
        return best

    def strokes(self, strokes: list[list[Array]], X_OT: Array, surface: ObjectState) -> Work:
        """Return the parts of strokes that are within reach and collision-free.

        They alternate in direction; strokes along which the object would jump (:meth:`_pushes`) are
        all pulled in one direction.

        Args:
            strokes: poses of the held object, shape (4, 4) each; see
                :func:`~motion_nodes.tasks.contact_poses.strokes_over`.
            X_OT: pose of the tool in the object, shape (4, 4).
            surface: wiped object, with which contact is allowed.

        Returns:
            Lists of poses of the tool, each with joint positions [rad] above its first pose.
        """
        around, q = self._without(surface.name), None
        first, last = strokes[0][0], strokes[-1][-1]
        along = strokes[0][-1][:3, 3] - first[:3, 3]
        if self._pushes(strokes, X_OT, around, (last - first)[:3, 3] - along) > 0.0:
            strokes = strokes[::-1]
        pushed = self._pushes(strokes, X_OT, around, along)
        yield
        single = abs(pushed) > PUSHED
        parts: list[tuple[list[Array], Array]] = []
        previous = np.eye(4)
        for k, pose in _in_order(strokes, single=single, back=pushed > 0.0):
            X_BT = pose @ X_OT
            if single and k == 0:
                q = None
            if q is not None:
                q = self._follow(q, previous, X_BT, around)
            if q is None:
                above = yield from self._start(raised(X_BT), X_BT, around)
                if above is not None and self._arm.collision_free(above, self._world):
                    q = self._follow(above, raised(X_BT), X_BT, around)
                    parts.append(([], above))
            if q is not None:
                parts[-1][0].append(X_BT)
            previous = X_BT
            yield
        return parts

    # ---- inside

    def _pushes(
        self, strokes: list[list[Array]], X_OT: Array, around: World, along: Array
    ) -> float:
        """Return the vertical acceleration by a force along the motion, relative to a normal force.

        Friction mu against a motion along a direction reduces the upward acceleration by the
        normal force by mu times this ratio. From 1 on, the contact is unstable: the tool jams and
        jumps. The opposite direction is stable. Joint inertias are assumed equal: mobility J J^T.

        Args:
            strokes: poses of the object; evaluated at the middle one.
            X_OT: pose of the tool in the object, shape (4, 4).
            around: planning scene without the wiped object.
            along: direction of the motion, of any length, shape (3,).

        Returns:
            Dimensionless; 0 without a direction, or where nothing is within reach.
        """
        length = float(np.linalg.norm(along))
        poses = [pose for stroke in strokes for pose in stroke]
        middle = len(poses) // 2
        q = self._positions()
        seed = self._arm.state("home") if q is None else q
        for pose in (poses[middle], *poses) if length > 1e-9 else ():
            found = self._solution(pose @ X_OT, seed, around)
            if found is not None:
                J = self._arm.jacobian(found)[:3]
                return float((J[2] @ J.T @ along) / (length * (J[2] @ J[2])))
        return 0.0

    def _pull_path(self, seed: Array, X_WG: Array, distance: float, around: World) -> list[Array]:
        """Return joint positions before, at and after a pull [rad]; empty if it is not possible."""
        begin = backed(X_WG, APPROACH)
        q = self._solution(begin, seed, around, attempts=1)
        if q is None or not self._arm.collision_free(q, self._world):
            return []
        reached = self._follow(q, begin, X_WG, around)
        end = backed(X_WG, distance + RETREAT)
        last = None if reached is None else self._follow(reached, X_WG, end, around)
        return [] if reached is None or last is None else [q, reached, last]

    def _ease(self, path: list[Array], along: Array) -> float:
        """Return the quality of a pull: usually about 0.2, less near a singularity or joint limit.

        Args:
            path: joint positions [rad], shape (n,) each.
            along: unit vector of the pull, shape (3,).

        Returns:
            Smallest speed along it, without rotation, of unit joint velocities [m/rad], plus the
            smallest distance from a joint limit [rad].
        """
        limits, slowest, nearest = self._arm.limits, np.inf, np.inf
        for q in path:
            J = self._arm.jacobian(q)
            inverse_mobility = np.linalg.inv(J @ J.T + 1e-6 * np.eye(6))[:3, :3]
            slowest = min(slowest, float(along @ inverse_mobility @ along) ** -0.5)
            nearest = min(nearest, float(np.minimum(q - limits.lower, limits.upper - q).min()))
        return slowest + nearest


def _in_order(
    strokes: list[list[Array]], *, single: bool, back: bool
) -> Iterator[tuple[int, Array]]:
    """Return poses of strokes with their numbers in the stroke.

    Args:
        strokes: in their order.
        single: whether all strokes have the same direction; else they alternate.
        back: whether the first one is reversed.
    """
    for stroke in strokes:
        yield from enumerate(stroke[::-1] if back else stroke)
        back = back if single else not back
