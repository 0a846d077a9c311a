# SPDX-License-Identifier: Apache-2.0
"""Whether a robot collides: with itself, with what stands around it, with what it carries."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.errors import InvalidConfig
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.limits import JointLimits
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Array, frozen
from motion_nodes.scene.configurations import changed_positions, checked_configurations
from motion_nodes.scene.contacts import (
    Clearance,
    Contact,
    KernelChecker,
    SphereDistances,
    in_order,
    in_words,
    limit_contacts,
)
from motion_nodes.scene.edge_resolution import checked_steps, edge_step_count
from motion_nodes.scene.numpy_checker import generic_kernel
from motion_nodes.scene.numpy_checks import GenericChecks, PairDistances
from motion_nodes.scene.robot_spheres import CollisionBody, carried_body, checked_pairs, link_bodies
from motion_nodes.scene.scene import Scene, checked_pose
from motion_nodes.scene.sphere_pairs import SpherePairs

if TYPE_CHECKING:
    from motion_nodes.kernels.collision.collision_binding import CollisionTable
    from motion_nodes.scene.compiled_checks import CompiledChecks
    from motion_nodes.scene.exact_checks import ExactChecks
    from motion_nodes.scene.sphere_queries import SphereQueries

_LOG = logging.getLogger(__name__)


class CollisionChecker:
    """Checks configurations of a robot's joints against a scene.

    The robot is its collision spheres (or, of links without, spheres around their collision
    geometry); what it carries is covered by spheres, too: fast enough to search with. The true
    shapes are what :attr:`exact` checks, which has the last word.

    Checks may run in several threads at once; changes may not: give each thread a
    :meth:`snapshot`.
    """

    joint_names: tuple[str, ...]
    """The joints of a configuration, in its order."""
    limits: JointLimits
    """Limits of these joints."""
    robot: Robot
    scene: Scene
    """What is checked against."""
    resolution: Array
    """Greatest step of each joint between two configurations of an edge [rad or m], shape (n,)."""
    clearance: float
    """Pairs that are nearer than this count as colliding [m]."""

    def __init__(
        self,
        robot: Robot,
        joints: Sequence[str] | str | None = None,
        *,
        scene: Scene | None = None,
        X_WB: ArrayLike | None = None,
        clearance: float = 0.0,
        resolution: float | ArrayLike | None = None,
        generic: bool = False,
    ) -> None:
        """Prepare; code may be compiled the first time for a robot.

        Args:
            robot: with collision spheres or collision geometry.
            joints: names, or the name of a group; default: all that are commanded. The others stand
                as in ``home`` until :meth:`set_positions`.
            scene: the world; default: empty.
            X_WB: pose of the robot's base frame in the world, shape (4, 4); default: at the origin.
            clearance: see the attribute [m].
            resolution: of edges: a length is how far a sphere may move between two configurations
                that are checked [m], default 2 cm; an array holds the step of each joint
                [rad or m], shape (n,).
            generic: True to use no generated code.

        Raises:
            UnknownJoint, UnknownGroup: for a name that the robot has not.
            InvalidConfig: a joint twice; a clearance or resolution that is not positive or finite.
            InvalidCommand: a pose that is none.
        """
        self.robot = robot
        if isinstance(joints, str):
            self.joint_names = robot.group(joints).joints
        else:
            self.joint_names = tuple(joints) if joints is not None else robot.joint_names
        if len(set(self.joint_names)) != len(self.joint_names):
            raise InvalidConfig(f"joints to check are named twice: {', '.join(self.joint_names)}.")
        self._columns = robot.indices(self.joint_names)
        self.limits = robot.limits.select(self.joint_names)
        self._positions: Array = robot.home.copy()
        self._kinematics = Kinematics(robot.tree, base=robot.base_frame, generic=generic)
        self._links = link_bodies(robot)
        self._X_WB = frozen(np.eye(4))
        self.resolution = checked_steps(self.robot, self._links, self.joint_names, resolution)
        self.scene = Scene()
        self.clearance = 0.0
        self._bodies = self._links
        self._generic: GenericChecks | None = None
        self._compiled = None if generic else _compiled_checks(robot, self.joint_names)
        self._table: CollisionTable | None = None
        self._exact: ExactChecks | None = None
        self._margin = 0.0
        self._queries: tuple[CollisionTable, SphereQueries] | None = None
        if X_WB is not None:
            self.set_base_pose(X_WB)
        self.set_clearance(clearance)
        self.set_scene(scene or self.scene)

    def set_scene(self, scene: Scene) -> None:
        """Check against another scene from now on; what it shares with the one before is kept.

        Raises:
            UnknownFrame: something is attached to a link that the robot has not; then the scene
                before stays.
        """
        known = {body.carried: body for body in self._bodies if body.carried}
        carried = []
        for item in scene.attached.values():
            self.robot.tree.link(item.link)
            carried.append(known.get(item) or carried_body(item))
        bodies = (*self._links, *carried)
        if bodies != self._bodies:  # the same objects: then what is packed of them can stay
            self._bodies = bodies
        self._pairs_to_check = checked_pairs(self.robot, self._bodies, scene.allowed)
        self.scene = scene
        self._generic = self._table = self._exact = None

    def set_positions(self, positions: Mapping[str, float] | ArrayLike) -> None:
        """Set where the joints stand that are not in a configuration.

        Args:
            positions: by name of the joint, or over ``robot.joint_names`` [rad or m]; those of the
                configuration's own joints have no effect.

        Raises:
            UnknownJoint: for a name that the robot has not.
            InvalidCommand: a value that is not finite, or a wrong number of them.
        """
        self._positions = changed_positions(self.robot, self._positions, positions)
        self._table = self._exact = None

    def set_base_pose(self, X_WB: ArrayLike) -> None:
        """Set the pose of the robot's base frame in the world, shape (4, 4).

        Raises:
            InvalidCommand: it is no pose.
        """
        self._X_WB = checked_pose(np.asarray(X_WB, dtype=np.float64), "base of the robot")
        self._table = self._exact = None

    def set_clearance(self, clearance: float) -> None:
        """Set how near pairs may be [m].

        Raises:
            InvalidConfig: it is negative or not finite.
        """
        if not (np.isfinite(clearance) and clearance >= 0.0):
            raise InvalidConfig(f"clearance is {clearance} m; it must be finite and not negative.")
        self.clearance = float(clearance)
        self._table = self._exact = None

    def set_sphere_margin(self, margin: float) -> None:
        """Set how much more than the clearance spheres must be apart, but not true shapes [m].

        Raises:
            InvalidConfig: it is negative or not finite.
        """
        if not (np.isfinite(margin) and margin >= 0.0):
            raise InvalidConfig(f"margin is {margin} m; it must be finite and not negative.")
        self._margin = float(margin)
        self._table = None

    def set_resolution(self, resolution: float | ArrayLike | None) -> None:
        """Set how finely edges are checked; see the argument of the same name when it is made.

        Raises:
            InvalidConfig: it is not positive or finite.
        """
        self.resolution = checked_steps(self.robot, self._links, self.joint_names, resolution)
        self._table = None

    @property
    def positions(self) -> Array:
        """Where all joints stand that are not in a configuration, over ``robot.joint_names``."""
        return frozen(self._positions)

    @property
    def base_pose(self) -> Array:
        """Pose of the robot's base frame in the world, shape (4, 4)."""
        return self._X_WB

    @property
    def bodies(self) -> tuple[CollisionBody, ...]:
        """What is checked: the links that have spheres, and what is carried."""
        return self._bodies

    @property
    def exact(self) -> ExactChecks:
        """The checks of true shapes, in the scene as it is now; for one thread."""
        if self._exact is None:
            # Imported here: it imports Numba, which searches by spheres do not need.
            from motion_nodes.scene.exact_checks import ExactChecks

            self._exact = ExactChecks(self)
        return self._exact

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Which of the bodies must not touch each other, as indices."""
        return self._pairs_to_check

    def is_free(self, q: ArrayLike) -> bool:
        """Return whether nothing is touched; limits do not count. NaN is not free.

        Args:
            q: positions [rad or m], shape (n,).

        Raises:
            InvalidCommand: wrong number of positions.
        """
        values = self._checked(q, 1)
        if self._compiled is None:
            return self._is_free(values)
        return self._compiled.calls.is_free(values, self._packed())

    def are_free(self, Q: ArrayLike) -> NDArray[np.bool_]:
        """Return the same for many configurations, shape (m, n), as shape (m,)."""
        values = self._checked(Q, 2)
        if self._compiled is None:
            return np.array([self._is_free(q) for q in values], dtype=np.bool_)
        return self._compiled.calls.are_free(values, self._packed())

    def edge_free(self, a: ArrayLike, b: ArrayLike) -> bool:
        """Return whether the straight way from ``a`` to ``b`` is free, ``b`` included, ``a`` not.

        Args:
            a: positions [rad or m], shape (n,).
            b: the same.

        Raises:
            InvalidCommand: wrong number of positions.
        """
        start, end = self._checked(a, 1), self._checked(b, 1)
        if self._compiled is not None:
            return self._compiled.calls.edge_free(start, end, self._packed())
        count = edge_step_count(end - start, self.resolution)
        if count is None:
            return False
        # From coarse to fine: an obstacle in the middle is met soon.
        order = sorted(range(1, count + 1), key=lambda k: (k & -k, k), reverse=True)
        return all(self._is_free(start + (k / count) * (end - start)) for k in order)

    def distance(self, q: ArrayLike) -> Clearance:
        """Return the nearest pair of all that must not touch, and how near it is.

        Raises:
            InvalidCommand: wrong number of positions.
        """
        values = self._checked(q, 1)
        if not np.isfinite(values).all():
            return Clearance(float("nan"), None)
        checks = self._checks()
        placed = checks.place(self._poses(values))
        in_world = checks.nearest_in_world(placed)
        pairs = [*checks.self_distances(placed), *([in_world] if in_world else [])]
        if not pairs:
            return Clearance(float("inf"), None)
        nearest = min(pairs, key=lambda pair: pair.distance)
        return Clearance(nearest.distance, (nearest.first, nearest.second))

    def explain(self, q: ArrayLike) -> tuple[Contact, ...]:
        """Return what is wrong with a configuration: limits, then links, carried things, world.

        Within each kind the worst comes first. A joint that is not a finite number is all that is
        told.

        Raises:
            InvalidCommand: wrong number of positions.
        """
        values = self._checked(q, 1)
        contacts = limit_contacts(self.limits, values)
        if np.isfinite(values).all():
            for pair in self._pairs(values, self.clearance):
                if pair.distance < self.clearance:
                    contacts.append(self._contact(pair))
        return in_order(contacts)

    def problems(self, q: ArrayLike, tolerance: float = 0.0) -> tuple[str, ...]:
        """Say for people what is wrong with a configuration; empty if nothing is.

        Args:
            q: positions [rad or m], shape (n,).
            tolerance: how far outside its limits a joint still counts as inside [rad or m].

        Raises:
            InvalidCommand: wrong number of positions.
        """
        values = self._checked(q, 1)
        said = list(self.limits.violations(values, tolerance))
        for contact in self.explain(values):
            if contact.kind != "limit":
                said.append(in_words(contact, self.clearance))
        return tuple(said)

    def sphere_positions(self, q: ArrayLike) -> Array:
        """Return the spheres of robot and carried bodies in the world.

        Returns:
            Centre and radius [m], shape (s, 4), in the order of ``sphere_bodies``.
        """
        return np.concatenate(self._checks().place(self._poses(self._checked(q, 1))))

    @property
    def sphere_bodies(self) -> tuple[str, ...]:
        """Name of the link or carried body of each sphere."""
        return tuple(body.name for body in self._bodies for _ in body.spheres)

    def sphere_distances(self, q: ArrayLike) -> SphereDistances:
        """Return of each sphere how far the nearest object is that it must not touch, and where.

        The clearance is not taken off. Objects that nothing of the robot can come within half a
        metre of may be left out. With generated code, depths in a mesh that is not convex are those
        in the boxes that fill it.

        Raises:
            InvalidCommand: wrong number of positions.
        """
        if self._compiled is not None:
            table = self._packed()
            if self._queries is None or self._queries[0] is not table:
                frames = self._kinematics.frame_names
                queries = self._compiled.sphere_queries(self._bodies, frames, self._X_WB)
                self._queries = (table, queries)
            return self._queries[1].distances(self._frames(self._checked(q, 1)), table)
        placed = self._checks().place(self._poses(self._checked(q, 1)))
        distance, direction, names = self._checks().sphere_distances(placed)
        positions = np.concatenate(placed)[:, :3]
        return SphereDistances(distance, direction, positions, tuple(names))

    def sphere_pairs(self) -> SpherePairs:
        """Return the distances of all pairs of spheres that must not touch, with gradients.

        They are those of the robot and the scene as they are now. The clearance is not taken off.
        """

        def poses(Q: Array) -> Array:
            full = np.repeat(positions[np.newaxis], len(Q), axis=0)
            full[:, self._columns] = Q
            return np.asarray(X_WB @ self._kinematics.frames_batch(full)[:, links])

        X_WB, positions = self._X_WB, self._positions
        names = list(self._kinematics.frame_names)
        links = [names.index(body.link) for body in self._bodies]
        return SpherePairs(self._bodies, self._pairs_to_check, self.scene, poses)

    def kernel(self) -> KernelChecker:
        """Return the checks as machine code; later changes here do not reach it."""
        if self._compiled is not None:
            table, calls = self._packed(), self._compiled.calls
            keep = (table, calls)
            return KernelChecker(calls.state_address, calls.edge_address, table.address, keep)
        return generic_kernel(self.snapshot())

    def snapshot(self) -> CollisionChecker:
        """Return an independent copy, for another thread; compiled code is shared."""
        other = copy.copy(self)  # what changes is replaced, never written to
        other._compiled = copy.copy(self._compiled)
        other._exact = None  # its scratch memory is for one thread
        return other

    def _checked(self, q: ArrayLike, dimensions: int) -> Array:
        return checked_configurations(q, self.joint_names, dimensions)

    def _checks(self) -> GenericChecks:
        if self._generic is None:
            self._generic = GenericChecks(self._bodies, self._pairs_to_check, self.scene)
        return self._generic

    def _packed(self) -> CollisionTable:
        assert self._compiled is not None
        table = self._table
        if table is None:
            table = self._table = self._compiled.table(
                self._bodies,
                self._pairs_to_check,
                self._positions,
                self.clearance + self._margin,
                self.resolution,
                self.scene,
                self._X_WB,
            )
        return table

    def _frames(self, q: Array) -> Array:
        full = self._positions.copy()
        full[self._columns] = q
        return self._kinematics.frames(full)

    def _poses(self, q: Array) -> dict[str, Array]:
        poses = self._X_WB @ self._frames(q)
        return dict(zip(self._kinematics.frame_names, poses, strict=True))

    def _is_free(self, q: Array) -> bool:
        if not np.isfinite(q).all():
            return False
        apart = self.clearance + self._margin
        return all(pair.distance >= apart for pair in self._pairs(q, apart))

    def _pairs(self, q: Array, within: float) -> list[PairDistances]:
        checks = self._checks()
        placed = checks.place(self._poses(q))
        return [*checks.self_distances(placed), *checks.world_distances(placed, within)]

    def _contact(self, pair: PairDistances) -> Contact:
        in_world = pair.second in self.scene.objects
        kind = "attached" if pair.carried else "world" if in_world else "self"
        depth = self.clearance - pair.distance
        names = (pair.first, pair.second)
        return Contact(kind, names, depth, frozen(pair.position), frozen(pair.normal))  # type: ignore[arg-type]


def _compiled_checks(robot: Robot, joints: tuple[str, ...]) -> CompiledChecks | None:
    """Return the generated checks, or None where no code can be compiled."""
    try:
        # Imported here: without llvmlite the generic checks have to do.
        from motion_nodes.scene.compiled_checks import CompiledChecks

        return CompiledChecks(robot, joints)
    except (ImportError, OSError, RuntimeError) as error:
        _LOG.warning("generic collision checks in use: %s", error)
        return None
