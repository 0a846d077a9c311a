# SPDX-License-Identifier: Apache-2.0
"""Reachability of grasps, places, pulls and strokes: inverse kinematics along straight motions."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from motion_nodes.core.ik.problem import IkSettings
from motion_nodes.core.robot.poses import from_xyz_rpy, rotation_about, rotation_vector, turned
from motion_nodes.core.scene.world import World
from motion_nodes.extras.tasks.skill_poses import MARGIN, GraspPose, backed, grasps_of
from motion_nodes.extras.tasks.task_codes import SkillFailed, TaskCode
from motion_nodes.extras.tasks.world_state import ObjectState, half_extents
from motion_nodes.nodes.task.arm_motions import ArmMotions
from motion_nodes.nodes.task.remote_work import Work, beside
from motion_nodes.typing import Array

APPROACH = 0.10
"""Length of the straight motion before a grasp and after it [m]."""
SAMPLES = 6
"""Number of poses that are checked along a straight motion."""
CLOSE = 0.02
"""Distance of poses up to which only the end of a straight motion is checked [m]."""
EXPLAINED = 4
"""Number of poses for which the cause of a failure is looked for."""
TILTED = 5.0
"""Tilt from which an object does not rest on a side [degrees]."""
MAX_CHANGE = 0.7
"""Max change of a joint between two of them [rad]."""
UP = np.array([0.0, 0.0, 1.0])
MIN_TILT = 1.3
"""Min tilt of a container that is poured [rad]."""
POUR_HIGHER = (0.0, 0.1)
"""Heights above the preferred pose that are tried for a container that is poured [m]."""
POUR_SEEDS = 4
"""Number of random seeds for it."""
TURNS = (0.0, 0.5 * np.pi, -0.5 * np.pi, np.pi, 0.25 * np.pi, -0.25 * np.pi)
"""Rotations about the vertical axis that are tried for objects with a free heading [rad]."""
RETREAT = 0.05
"""Length of the straight retreat after a handle is released [m]."""
PULL_SEEDS, EASY_PULL = 10, 0.3
"""Number of random seeds for a pull, and the quality beyond which no other one is tried."""
PUSHED = 0.25
"""Max ratio of the accelerations by friction and by normal force, with a friction of 1."""


class Reachability:
    """Selects reachable poses, checked against the current planning scene."""

    def __init__(self, motions: ArmMotions, world: World) -> None:
        self._motions, self._arm, self._world = motions, motions.arm, world

    def warm_up(self) -> None:
        """Compile the kernels."""
        home = self._arm.fk(self._arm.state("home"))
        self._solution(home, self._arm.state("home"), self._world)

    def grasp(self, target: ObjectState, max_width: float) -> Work:
        """Return a grasp of an object, and joint positions [rad] of the approach to it.

        Raises:
            SkillFailed: no candidate is reachable.
        """
        if target.mesh is None:
            grasps = grasps_of(target, max_width)
        else:  # sampling takes tenths of a second, which would block the loop
            grasps = yield from beside(lambda: grasps_of(target, max_width))
        if not grasps:
            raise _no_side(target, max_width)
        around = self._without(target.name)
        for grasp in self._least_turn_first(grasps):
            q = yield from self._start(raised(grasp.X_WG), grasp.X_WG, around)
            if q is not None and self._arm.collision_free(q, self._world):
                return grasp, q
            yield
        poses = [grasp.X_WG for grasp in grasps]
        raise (yield from self._out_of_reach(f"'{target.name}'", poses, around))

    def place(self, poses: Sequence[Array], X_OT: Array) -> Work:
        """Return a pose of the held object, and joint positions [rad] above it.

        Args:
            poses: of the object, best first, shape (4, 4) each.
            X_OT: pose of the tool in the object, shape (4, 4).

        Raises:
            SkillFailed: none is within reach.
        """
        for pose in poses:
            for X in _turned(pose):
                X_BT = X @ X_OT
                q = yield from self._start(raised(X_BT), X_BT, self._world)
                if q is not None:
                    return X, q
                yield
        poses = [X @ X_OT for pose in poses for X in _turned(pose)]
        raise (yield from self._out_of_reach("the place", poses, self._world))

    def pour(self, pose: Array, X_OT: Array, angle: float) -> Work:
        """Return poses of the tool before and after a held object is tilted, and joint positions.

        Args:
            pose: of the object before, of which the heading is free, shape (4, 4).
            X_OT: pose of the tool in the object, shape (4, 4).
            angle: of the tilt about the closing direction of the fingers [rad]; reduced down to
                MIN_TILT where it is not within reach.

        Raises:
            SkillFailed: it is not within reach.
        """
        for share in np.linspace(1.0, MIN_TILT / angle, 3).tolist():
            for X, higher in itertools.product(_turned(pose), POUR_HIGHER):
                begin = X @ X_OT
                begin[2, 3] += higher
                for pitch in (share * angle, -share * angle):
                    end = begin @ from_xyz_rpy((0.0, 0.0, 0.0), (0.0, pitch, 0.0))
                    q = yield from self._start(begin, end, self._world, POUR_SEEDS)
                    if q is not None:
                        return begin, end, q
                    yield
        raise SkillFailed(
            "the object cannot be tilted there: out of reach, or in collision",
            TaskCode.OUT_OF_REACH,
        )

    def push(self, begin: Array, end: Array, target: ObjectState) -> Work:
        """Return poses of the tool at both ends of a push, and joint positions above the first.

        Args:
            begin: position of the tool [m], shape (3,).
            end: where it moves to.
            target: pushed object.

        Raises:
            SkillFailed: it is not within reach.
        """
        around = self._without(target.name)
        down = np.diag([1.0, -1.0, -1.0, 1.0])
        for X in _turned(down):
            first, last = np.array(X), np.array(X)
            first[:3, 3], last[:3, 3] = begin, end
            q = yield from self._start(raised(first), first, self._world)
            reached = None if q is None else self._follow(q, raised(first), first, self._world)
            if reached is not None and self._follow(reached, first, last, around) is not None:
                return first, last, q
            yield
        raise SkillFailed(
            f"'{target.name}' cannot be pushed there: out of reach, or in collision",
            TaskCode.OUT_OF_REACH,
        )

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
                :func:`~motion_nodes.extras.tasks.skill_poses.strokes_over`.
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

    def _seeds(self, count: int) -> Iterator[Array]:
        """Return seeds [rad]: measured and named positions, and random ones."""
        names = self._arm.state_names
        measured = self._motions.positions()
        if measured is not None:
            yield measured
        yield self._arm.state("ready" if "ready" in names else "home")
        limits, random = self._arm.limits, np.random.default_rng(0)
        for _ in range(count):
            yield random.uniform(limits.lower, limits.upper)

    def _start(self, begin: Array, end: Array, world: World, seeds: int = 0) -> Work:
        """Return joint positions at the begin of a straight motion; None if it is not possible.

        Yields after each seed: the loop that advances it also watches the held object.

        Args:
            begin: pose of the tool in the base frame, shape (4, 4).
            end: pose that it moves to.
            world: obstacles.
            seeds: number of random seeds.
        """
        for seed in self._seeds(seeds):
            q = self._solution(begin, seed, world)
            if q is not None and self._follow(q, begin, end, world) is not None:
                return q
            yield
        return None

    def _follow(self, q: Array, begin: Array, end: Array, world: World) -> Array | None:
        """Return joint positions after a straight motion from ``q``; None if joints jump."""
        apart = float(np.linalg.norm(end[:3, 3] - begin[:3, 3]))
        samples = SAMPLES if apart > CLOSE else 2
        for s in np.linspace(0.0, 1.0, samples)[1:]:
            found = self._solution(_between(begin, end, float(s)), q, world, attempts=1)
            if found is None or float(np.abs(found - q).max()) > MAX_CHANGE:
                return None
            q = found
        return q

    def _out_of_reach(self, what: str, poses: Sequence[Array], world: World) -> Work:
        """Return why the tool cannot get to any of some poses: reach, or collisions."""
        free = World()
        for pose in poses[:EXPLAINED]:
            for X in (pose, raised(pose)):
                q = None
                for seed in self._seeds(1):
                    q = self._solution(X, seed, free) if q is None else q
                    yield
                problems = () if q is None else self._arm.problems(q, world)
                if problems:
                    why = "; ".join(problems[:2])
                    return SkillFailed(f"{what} cannot be reached: {why}", TaskCode.IN_COLLISION)
        away = min(float(np.linalg.norm(pose[:3, 3])) for pose in poses)
        return SkillFailed(
            f"{what} is out of reach, {away:.2f} m from the arm's base: no joint positions lead "
            "straight down to it",
            TaskCode.OUT_OF_REACH,
        )

    def _without(self, name: str) -> World:
        """Return the world without an object."""
        around = World(self._world.scene)
        if name in around.scene.objects:
            around.remove(name)
        return around

    def _solution(self, X_BT: Array, seed: Array, world: World, attempts: int = 20) -> Array | None:
        settings = IkSettings(attempts=attempts)
        result = self._arm.ik(X_BT, seed=seed, world=world, settings=settings)
        return result.q if result.success else None

    def _least_turn_first(self, grasps: list[GraspPose]) -> list[GraspPose]:
        """Return grasps of equal height in the order of the hand's rotation to them."""
        q = self._motions.positions()
        tool = self._arm.fk(self._arm.state("home") if q is None else q)
        return sorted(
            grasps,
            key=lambda g: (
                g.rank,
                round(float(g.X_WG[2, 3]), 4),
                -float(np.trace(g.X_WG.T @ tool)),
            ),
        )

    # ---- pulls and strokes

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
        q = self._motions.positions()
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


def _no_side(target: ObjectState, max_width: float) -> SkillFailed:
    """Return why an object has no grasp from above."""
    least = 2.0 * float(half_extents(target.shape).min())
    if target.mesh is not None or least + MARGIN > max_width:
        what = "does not fit" if target.mesh is None else "has no two sides that fit, from above,"
        return SkillFailed(
            f"'{target.name}' {what} between the fingers, which open to {1e3 * max_width:.0f} mm",
            TaskCode.DOES_NOT_FIT,
        )
    tilt = float(np.degrees(np.arccos(min(1.0, float(np.abs(target.X_WO[2, :3]).max())))))
    if tilt > TILTED:
        text = f"'{target.name}' is tilted by {tilt:.0f} degrees: no two of its sides are vertical"
        return SkillFailed(text, TaskCode.DOES_NOT_FIT)
    return SkillFailed(
        f"the sides of '{target.name}' that fit between the fingers, which open to "
        f"{1e3 * max_width:.0f} mm, are above and below, or it is too flat",
        TaskCode.DOES_NOT_FIT,
    )


def _turned(pose: Array) -> Iterator[Array]:
    """Return a pose with some headings, shape (4, 4) each."""
    for turn in TURNS:
        X = np.array(pose)
        X[:3, :3] = rotation_about(UP, np.array(turn)) @ pose[:3, :3]
        yield X


def raised(pose: Array) -> Array:
    """Return a pose that is higher by the length of an approach, shape (4, 4)."""
    above = np.array(pose)
    above[2, 3] += APPROACH
    return above


def _between(begin: Array, end: Array, s: float) -> Array:
    """Return an interpolated pose, with the rotation about one axis, shape (4, 4)."""
    X = np.array(begin)
    X[:3, 3] += s * (end[:3, 3] - begin[:3, 3])
    way = np.array(rotation_vector(end[:3, :3] @ begin[:3, :3].T))
    X[:3, :3] = turned(begin[:3, :3], s * way)
    return X


def _in_order(
    strokes: list[list[Array]], *, single: bool, back: bool
) -> Iterator[tuple[int, Array]]:
    """Return poses of strokes with their numbers in the stroke."""
    for stroke in strokes:
        yield from enumerate(stroke[::-1] if back else stroke)
        back = back if single else not back
