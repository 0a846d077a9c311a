# SPDX-License-Identifier: Apache-2.0
"""Which grasps and places an arm reaches: inverse kinematics along the straight motion to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from motion_nodes.api.joint_group import JointGroup
from motion_nodes.ik.problem import IkSettings
from motion_nodes.model.poses import from_xyz_rpy, inverse, rotation_about
from motion_nodes.model.tree import Array
from motion_nodes.nodes.task.remote_work import Work
from motion_nodes.scene.world import World
from motion_nodes.tasks.contact_poses import backed
from motion_nodes.tasks.grasps import GraspPose, grasps_of
from motion_nodes.tasks.task_runner import SkillFailed
from motion_nodes.tasks.world_state import ObjectState

APPROACH = 0.10
"""Length of the straight motion before a grasp and after it [m]."""
RETREAT = 0.05
"""Length of the straight motion after a handle is released [m]: the fingers are clear of it."""
PULL_SEEDS, EASY_PULL = 10, 0.3
"""Number of random initial guesses of a pull, and its ease beyond which no other one is tried."""
SAMPLES = 6
"""Number of poses that are checked along a straight motion."""
CLOSE = 0.02
"""Distance of poses up to which only the end of a straight motion is checked [m]."""
MAX_CHANGE = 0.7
"""Max change of a joint between two of them [rad]."""
UP = np.array([0.0, 0.0, 1.0])
PUSHED = 0.25
"""Share of the lift of a surface that friction along a stroke may take, with a friction of 1."""
TURNS = (0.0, 0.5 * np.pi, -0.5 * np.pi, np.pi, 0.25 * np.pi, -0.25 * np.pi)
"""Turns about the vertical axis that are tried for what is free to turn [rad]."""


class Reachability:
    """Chooses among poses; collisions are those of the world now."""

    def __init__(
        self, arm: JointGroup, world: World, positions: Callable[[], Array | None]
    ) -> None:
        """Create it for an arm.

        Args:
            arm: the arm.
            world: its planning scene.
            positions: returns the measured positions of the arm [rad].
        """
        self._arm, self._world, self._positions = arm, world, positions

    def warm_up(self) -> None:
        """Compile what the choice needs."""
        home = self._arm.fk(self._arm.state("home"))
        self._solution(home, self._arm.state("home"), self._world)

    def grasp(self, target: ObjectState, max_width: float) -> Work:
        """Return a grasp of an object, and joint positions [rad] of the approach to it.

        Raises:
            SkillFailed: no candidate is reachable.
        """
        grasps = grasps_of(target, max_width)
        if not grasps:
            raise SkillFailed(
                f"'{target.name}' does not fit between the fingers, which open to "
                f"{1e3 * max_width:.0f} mm"
            )
        around = self._without(target.name)
        for grasp in self._least_turn_first(grasps):
            q = self._start(raised(grasp.X_WG), grasp.X_WG, around)
            if q is not None and self._arm.collision_free(q, self._world):
                return grasp, q
            yield
        raise SkillFailed(f"no grasp of '{target.name}' is within reach and collision-free")

    def place(self, poses: Iterable[Array], X_OT: Array) -> Work:
        """Return a pose of the held object, and joint positions [rad] above it.

        Args:
            poses: of the object, best first, shape (4, 4) each.
            X_OT: pose of the tool in the object, shape (4, 4).

        Raises:
            SkillFailed: none is within reach.
        """
        for pose in poses:
            for turned in _turned(pose):
                X_BT = turned @ X_OT
                q = self._start(raised(X_BT), X_BT, self._world)
                if q is not None:
                    return turned, q
                yield
        raise SkillFailed("no place there is within reach and collision-free")

    def pour(self, pose: Array, X_OT: Array, angle: float) -> Work:
        """Return poses of the tool before and after a held object is tilted, and joint positions.

        Args:
            pose: of the object before, of which the heading is free, shape (4, 4).
            X_OT: pose of the tool in the object, shape (4, 4).
            angle: of the tilt about the closing direction of the fingers [rad].

        Raises:
            SkillFailed: it is not within reach.
        """
        for turned in _turned(pose):
            begin = turned @ X_OT
            for pitch in (angle, -angle):
                end = begin @ from_xyz_rpy((0.0, 0.0, 0.0), (0.0, pitch, 0.0))
                q = self._start(begin, end, self._world)
                if q is not None:
                    return begin, end, q
                yield
        raise SkillFailed("the object cannot be tilted there: out of reach, or in collision")

    def push(self, begin: Array, end: Array, target: ObjectState) -> Work:
        """Return poses of the tool at both ends of a push, and joint positions above the first.

        Args:
            begin: position of the tool [m], shape (3,).
            end: where it moves to.
            target: what is pushed.

        Raises:
            SkillFailed: it is not within reach.
        """
        around = self._without(target.name)
        down = np.diag([1.0, -1.0, -1.0, 1.0])
        for X in _turned(down):
            first, last = np.array(X), np.array(X)
            first[:3, 3], last[:3, 3] = begin, end
            q = self._start(raised(first), first, self._world)
            reached = None if q is None else self._follow(q, raised(first), first, self._world)
            if reached is not None and self._follow(reached, first, last, around) is not None:
                return first, last, q
            yield
        raise SkillFailed(f"'{target.name}' cannot be pushed there: out of reach, or in collision")

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
            raise SkillFailed(f"'{target.name}' cannot be pulled: out of reach, or in collision")
        return best

    def strokes(self, strokes: list[list[Array]], X_OT: Array, surface: ObjectState) -> Work:
        """Return the parts of strokes that are within reach and collision-free.

        They go to and fro; those along which the object would jump (:meth:`_pushes`) are pulled
        one by one.

        Args:
            strokes: poses of the held object, shape (4, 4) each; see
                :func:`~motion_nodes.tasks.contact_poses.strokes_over`.
            X_OT: pose of the tool in the object, shape (4, 4).
            surface: what is wiped, which the object may touch.

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
                above = self._start(raised(X_BT), X_BT, around)
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
        """Return the upward over the lifting acceleration of the tool by forces of a surface.

        Friction mu against a motion along a direction takes mu times this share of the lift that
        the normal force gives the tool. From 1 on the surface does not keep the tool off: it digs
        in and jumps, like a chalk that is pushed. Pulled the other way, it is lifted off softly.
        The inertia of the joints is taken to be equal: mobility J J^T.

        Args:
            strokes: poses of the object; the share is that in the middle.
            X_OT: pose of the tool in the object, shape (4, 4).
            around: the world without what is wiped.
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

    def _seeds(self, count: int) -> Iterator[Array]:
        """Return initial guesses [rad]: measured and named positions, and random ones."""
        names = self._arm.state_names
        measured = self._positions()
        if measured is not None:
            yield measured
        yield self._arm.state("ready" if "ready" in names else "home")
        limits, random = self._arm.limits, np.random.default_rng(0)
        for _ in range(count):
            yield random.uniform(limits.lower, limits.upper)

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
        """Return how well the arm pulls: about 0.2 is usual, less is near a singularity or limit.

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

    def _start(self, begin: Array, end: Array, world: World) -> Array | None:
        """Return joint positions at the begin of a straight motion; None if it is not possible.

        Args:
            begin: pose of the tool in the base frame, shape (4, 4).
            end: pose that it moves to.
            world: obstacles.
        """
        for seed in self._seeds(0):
            q = self._solution(begin, seed, world)
            if q is not None and self._follow(q, begin, end, world) is not None:
                return q
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
        q = self._positions()
        tool = self._arm.fk(self._arm.state("home") if q is None else q)
        return sorted(
            grasps,
            key=lambda g: (
                g.rank,
                round(float(g.X_WG[2, 3]), 4),
                -float(np.trace(g.X_WG.T @ tool)),
            ),
        )


def _in_order(
    strokes: list[list[Array]], *, single: bool, back: bool
) -> Iterator[tuple[int, Array]]:
    """Return poses of strokes with their numbers in the stroke.

    Args:
        strokes: in their order.
        single: whether all go in one direction; else they go to and fro.
        back: whether the first one is reversed.
    """
    for stroke in strokes:
        yield from enumerate(stroke[::-1] if back else stroke)
        back = back if single else not back


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
    """Return a pose on the way, with the rotation about one axis, shape (4, 4)."""
    X = np.array(begin)
    X[:3, 3] += s * (end[:3, 3] - begin[:3, 3])
    R = (inverse(begin) @ end)[:3, :3]
    angle = float(np.arccos(np.clip(0.5 * (np.trace(R) - 1.0), -1.0, 1.0)))
    if angle > 1e-6:
        axis = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
        if (length := float(np.linalg.norm(axis))) > 1e-9:
            X[:3, :3] = begin[:3, :3] @ rotation_about(axis / length, np.array(s * angle))
    return X
