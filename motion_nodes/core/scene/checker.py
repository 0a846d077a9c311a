# SPDX-License-Identifier: Apache-2.0
"""Collision checks of a robot: with itself, with the world, with attached bodies.

Checkers of a robot's groups are kept between requests. Checks are restricted to pairs that a group
of joints moves relative to each other: the arm of a mobile robot cannot change contacts between
base and floor, or between fingers.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.robot import configurations
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.robot import Group, Robot
from motion_nodes.core.robot.tree import JointKind, frozen
from motion_nodes.core.scene.collision_arrays import CheckedRobot
from motion_nodes.core.scene.contacts import (
    Clearance,
    Contact,
    KernelChecker,
    SphereDistances,
    in_order,
    in_words,
    limit_contacts,
    required_distance,
)
from motion_nodes.core.scene.numpy_checks import GenericChecks, PairDistances, SpherePairs
from motion_nodes.core.scene.robot_spheres import (
    CollisionBody,
    carried_body,
    checked_pairs,
    link_bodies,
    with_margins,
)
from motion_nodes.core.scene.scene import Pair, Scene, checked_pose, pair_of
from motion_nodes.errors import InvalidConfig
from motion_nodes.typing import Array

if TYPE_CHECKING:
    from motion_nodes.core.scene.compiled_checks import SphereQueries
    from motion_nodes.core.scene.exact_checks import ExactChecks
    from motion_nodes.kernels.collision.collision_binding import CollisionTable

TRAVEL = 0.02
"""Approximate displacement of a sphere between two checked configurations [m]: below the radius of
typical spheres of an arm, so that undetected collisions are shallow."""
_SAMPLES = 200
_UNPAIRED: Any = ((), (), (), None)  # pairs of spheres, of exact shapes, and their bodies
MAX_GROUPS = 32
"""Max number of groups whose checkers are kept: any list of joints is a group."""


def checked_steps(
    robot: Robot,
    bodies: tuple[CollisionBody, ...],
    joints: Sequence[str],
    resolution: float | ArrayLike | None,
) -> Array:
    """Return the max step of each joint, from a displacement [m], from steps, or by default.

    Args:
        robot: the robot.
        bodies: its bodies.
        joints: joints of a configuration.
        resolution: displacement, steps, or None.

    Raises:
        InvalidConfig: not finite, not above 0, or wrong length.
    """
    given = np.asarray(TRAVEL if resolution is None else resolution, dtype=np.float64)
    if not (np.isfinite(given).all() and (given > 0.0).all()):
        raise InvalidConfig(
            f"resolution is {given}; it must be finite and above 0.", field="resolution"
        )
    if given.ndim == 0:
        return joint_steps(robot, bodies, joints, float(given))
    if given.shape != (len(joints),):
        raise InvalidConfig(
            f"resolution has {given.size} steps for {len(joints)} joints: {', '.join(joints)}."
        )
    return frozen(given)


def joint_steps(
    robot: Robot, bodies: tuple[CollisionBody, ...], joints: Sequence[str], travel: float
) -> Array:
    """Return the step of each joint that moves no sphere farther than ``travel`` [m].

    The distances of spheres from a joint's axis are sampled over the joint limits, those of
    revolute joints up to pi (deterministically).

    Returns:
        Steps [rad or m], shape (n,); pi for a joint that moves no sphere.
    """
    tree = robot.tree
    kinematics = Kinematics(tree, base=robot.base_frame)  # as the checker's: compiled once
    rng = np.random.default_rng(0)
    lower, upper = robot.limits.lower, robot.limits.upper
    low, high = np.maximum(lower, -math.pi), np.minimum(upper, math.pi)
    kinds = [tree.joints[name].kind for name in robot.joint_names]
    sliding = np.array([kind is JointKind.PRISMATIC for kind in kinds], np.bool_)
    whole = (low > high) | (sliding & np.isfinite(upper - lower))
    low, high = np.where(whole, lower, low), np.where(whole, upper, high)
    Q = np.concatenate((rng.uniform(low, high, (_SAMPLES, len(low))), robot.home[None]))
    frames = np.moveaxis(kinematics.frames_batch(Q), 1, 0)
    X = dict(zip(kinematics.frame_names, frames, strict=True))
    moved_by = _moving_joints(robot)
    return frozen(
        [_step(robot, bodies, joint, X, moved_by, travel) for joint in joints], (len(joints),)
    )


def _step(
    robot: Robot,
    bodies: tuple[CollisionBody, ...],
    name: str,
    X: dict[str, Array],
    moved_by: dict[str, set[str]],
    travel: float,
) -> float:
    followers = [j for j in robot.tree.joints.values() if j.movable and _leader(j) == name]
    farthest = 0.0
    for joint in followers:
        factor = 1.0 if joint.mimic is None else abs(joint.mimic.multiplier)
        moved = [body for body in bodies if joint.name in moved_by[body.link]]
        if joint.kind is JointKind.PRISMATIC:
            farthest = max(farthest, factor if moved else 0.0)
            continue
        X_J = X[joint.child]
        axis = X_J[:, :3, :3] @ joint.axis
        for body in moved:
            X_L = X[body.link]
            centres = X_L[:, :3, :3] @ body.spheres[:, :3].T
            offsets = centres.transpose(0, 2, 1) + (X_L[:, :3, 3] - X_J[:, :3, 3])[:, None]
            arms = np.linalg.norm(np.cross(axis[:, None], offsets), axis=2)
            farthest = max(farthest, factor * float(arms.max()))
    return min(math.pi, travel / farthest) if farthest > 0.0 else math.pi


def _leader(joint: object) -> str:
    mimic = joint.mimic  # type: ignore[attr-defined]
    return str(mimic.joint if mimic else joint.name)  # type: ignore[attr-defined]


def _moving_joints(robot: Robot) -> dict[str, set[str]]:
    """Return for each link the joints between it and the root."""
    above: dict[str, set[str]] = {}
    for link in robot.tree.frame_names:
        joint = robot.tree.parent_joint.get(link)
        above[link] = set() if joint is None else above[joint.parent] | {joint.name}
    return above


class CollisionChecker:
    """Checks configurations of a robot's joints against a scene.

    The robot is represented by its collision spheres (links without spheres by covers of their
    collision geometry), as are attached bodies. Spheres of a file need not contain the geometry,
    which :attr:`exact` checks. Checks are thread-safe; each thread changes only its own
    :meth:`snapshot`.
    """

    joint_names: tuple[str, ...]
    """The joints of a configuration, in order."""
    limits: JointLimits
    """Limits of these joints."""
    robot: Robot
    scene: Scene
    resolution: Array
    """Max step of each joint between two checked configurations of an edge, shape (n,)."""
    clearance: float
    """Min allowed distance of robot and attached bodies from the world [m], not from each other."""
    sphere_margin: float
    """Additional clearance of the spheres [m]; see :meth:`set_sphere_margin`."""

    def __init__(
        self,
        robot: Robot,
        joints: Sequence[str] | str | None = None,
        *,
        scene: Scene | None = None,
        X_WB: ArrayLike | None = None,
        clearance: float = 0.0,
        resolution: float | ArrayLike | None = None,
    ) -> None:
        """Create a checker; code may be compiled at the first use of a robot.

        Args:
            robot: robot with collision spheres or collision geometry.
            joints: names, or the name of a group; default: all commanded joints. Other joints have
                their ``home`` positions until :meth:`set_positions`.
            scene: the world; default: empty.
            X_WB: pose of the robot's base frame in the world, shape (4, 4); default: identity.
            clearance: see the attribute [m].
            resolution: resolution of edges: a scalar is the max displacement of a sphere between
                two checked configurations [m], default 2 cm; an array is the max step of each joint
                [rad or m], shape (n,).

        Raises:
            UnknownJoint, UnknownGroup: unknown name.
            InvalidConfig: a duplicate joint; a clearance or resolution that is not positive or
                finite.
            InvalidCommand: invalid pose.
            CodeGenerationError: code cannot be generated on this machine.
        """
        # Imported on demand, because LLVM loads slowly.
        from motion_nodes.core.scene.compiled_checks import CompiledChecks

        self.robot = robot
        self.joint_names = configurations.selected_joints(robot, joints)
        self._columns = robot.indices(self.joint_names)
        self.limits = robot.limits.select(self.joint_names)
        self._positions: Array = robot.home.copy()
        self._kinematics = Kinematics(robot.tree, base=robot.base_frame)
        self._kinematics.warm_up(())
        self._links = link_bodies(robot)
        self._X_WB = frozen(np.eye(4))
        self.resolution = checked_steps(robot, self._links, self.joint_names, resolution)
        self.scene, self.clearance, self.sphere_margin = Scene(), 0.0, 0.0
        self._bodies, self._paired = self._links, _UNPAIRED
        self._numpy: GenericChecks | None = None
        self._compiled = CompiledChecks(robot, self.joint_names)
        self._table: CollisionTable | None = None
        self._exact: dict[bool, ExactChecks] = {}  # shared by snapshots until they change
        if X_WB is not None:
            self.set_base_pose(X_WB)
        self.set_clearance(clearance)
        self.set_scene(scene or self.scene)

    def set_scene(self, scene: Scene) -> None:
        """Replace the scene; data of unchanged parts is reused.

        Raises:
            UnknownFrame: a body is attached to an unknown link; the scene is unchanged.
        """
        own = {body.carried: body for body in self._bodies if body.carried}
        carried = []
        for item in scene.attached.values():
            self.robot.tree.link(item.link)
            carried.append(own.get(item) or carried_body(item))
        links = self._links
        if scene.margins:
            links = with_margins(self.robot, links, scene.margins)
        bodies = (*links, *carried)
        self._bodies = self._bodies if bodies == self._bodies else bodies  # not packed again
        key = self._bodies, scene.allowed
        if self._paired[2:] != key:
            self._paired = (*(checked_pairs(self.robot, *key, exact=bool(x)) for x in (0, 1)), *key)
        self.scene = scene
        self._numpy, self._table, self._exact = None, None, {}

    def set_positions(self, positions: Mapping[str, float] | ArrayLike) -> None:
        """Set the positions of joints that are not in a configuration.

        Args:
            positions: positions by joint, or in the order of ``robot.joint_names`` [rad or m];
                those of the joints of a configuration have no effect.

        Raises:
            UnknownJoint: unknown joint.
            InvalidCommand: a value that is not finite, or wrong length.
        """
        self._positions = configurations.changed_positions(self.robot, self._positions, positions)
        self._table, self._exact = None, {}

    def set_base_pose(self, X_WB: ArrayLike) -> None:
        """Set the pose of the robot's base frame in the world, shape (4, 4).

        Raises:
            InvalidCommand: invalid pose.
        """
        self._X_WB = checked_pose(np.asarray(X_WB, dtype=np.float64), "base of the robot")
        self._table, self._exact = None, {}

    def set_clearance(self, clearance: float) -> None:
        """Set the min allowed distance from the world [m].

        Raises:
            InvalidConfig: it is negative or not finite.
        """
        self.clearance = configurations.checked_distance(clearance, "clearance")
        self._table, self._exact = None, {}

    def required_distance(self, pair: tuple[str, str]) -> float:
        """Return the min allowed distance of a pair of names [m]: 0 between the robot's bodies."""
        return required_distance(pair, self.scene.objects, self.clearance)

    def set_sphere_margin(self, margin: float) -> None:
        """Set an additional clearance of spheres, not of the exact geometry [m].

        Raises:
            InvalidConfig: it is negative or not finite.
        """
        self.sphere_margin = configurations.checked_distance(margin, "margin")
        self._table = None

    def set_resolution(self, resolution: float | ArrayLike | None) -> None:
        """Set the resolution of edges; see the constructor.

        Raises:
            InvalidConfig: it is not positive or finite.
        """
        self.resolution = checked_steps(self.robot, self._links, self.joint_names, resolution)
        self._table = None

    @property
    def positions(self) -> Array:
        """Positions [rad or m] of the joints outside configurations, over ``robot.joint_names``."""
        return frozen(self._positions)

    @property
    def base_pose(self) -> Array:
        """Pose of the robot's base frame in the world, shape (4, 4)."""
        return self._X_WB

    @property
    def bodies(self) -> tuple[CollisionBody, ...]:
        """Checked bodies: the links with spheres, and attached bodies."""
        return self._bodies

    @property
    def exact(self) -> ExactChecks:
        """Checks of the exact geometry in the current scene; thread-safe."""
        return self._exact_checks(beyond_spheres=False)

    def _exact_checks(self, *, beyond_spheres: bool) -> ExactChecks:
        if beyond_spheres not in self._exact:
            # Imported on demand: it imports Numba, which sphere checks do not need.
            from motion_nodes.core.scene.exact_checks import ExactChecks

            self._exact[beyond_spheres] = ExactChecks(self, beyond_spheres=beyond_spheres)
        return self._exact[beyond_spheres]

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Pairs of bodies checked with the exact geometry, as indices."""
        return self._paired[1]  # type: ignore[no-any-return]

    @property
    def pairs_beyond_spheres(self) -> tuple[tuple[int, int], ...]:
        """Those of :attr:`pairs` that the spheres do not check, by ``ignore_spheres``."""
        if not self.robot.description.collision.ignore_spheres:
            return ()
        by_spheres, by_shapes = (set(pairs) for pairs in self._paired[:2])
        return tuple(sorted(by_shapes - by_spheres))

    def are_free_by_both(self, Q: ArrayLike) -> NDArray[np.bool_]:
        """Return which configurations are free for the spheres and in the pairs beyond them.

        The spheres decide about their pairs; only :attr:`pairs_beyond_spheres` are checked by the
        exact geometry.

        Args:
            Q: configurations, shape (m, n) [rad or m].

        Returns:
            Shape (m,). As for :meth:`are_free`, limits are ignored.
        """
        free = self.are_free(Q)
        if free.any() and self.pairs_beyond_spheres:
            exact = self._exact_checks(beyond_spheres=True)
            free[free] = exact.are_free(np.asarray(Q, np.float64)[free])
        return free

    def is_free(self, q: ArrayLike) -> bool:
        """Return whether a configuration is collision-free for the spheres.

        Joint limits are ignored. False for NaN.

        Args:
            q: positions [rad or m], shape (n,).

        Raises:
            InvalidCommand: wrong number of positions.
        """
        return self._compiled.calls.is_free(self._checked(q, 1), self._packed())

    def are_free(self, Q: ArrayLike) -> NDArray[np.bool_]:
        """Return which configurations, shape (m, n), are collision-free, shape (m,)."""
        return self._compiled.calls.are_free(self._checked(Q, 2), self._packed())

    def edge_free(self, a: ArrayLike, b: ArrayLike) -> bool:
        """Return whether the straight edge from ``a`` (exclusive) to ``b`` is collision-free.

        Args:
            a: start positions [rad or m], shape (n,).
            b: end positions [rad or m], shape (n,).

        Raises:
            InvalidCommand: wrong number of positions.
        """
        start, end = self._checked(a, 1), self._checked(b, 1)
        return self._compiled.calls.edge_free(start, end, self._packed())

    def line_free(self, points: ArrayLike) -> bool:
        """Return whether the edges between successive points, shape (k, n), are collision-free.

        The first point is not checked.

        Raises:
            InvalidCommand: wrong number of positions.
        """
        return self._compiled.calls.line_free(self._checked(points, 2), self._packed())

    def distance(self, q: ArrayLike) -> Clearance:
        """Return the closest checked pair, and its distance [m].

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
        """Return all violations at q, shape (n,): limits, links, attached bodies, world.

        Each kind is sorted by decreasing depth. Positions that are not finite are reported alone.

        Raises:
            InvalidCommand: wrong number of positions.
        """
        values = self._checked(q, 1)
        contacts = limit_contacts(self.limits, values)
        if np.isfinite(values).all():
            for pair in self._pairs(values, self.clearance):
                required = self.required_distance((pair.first, pair.second))
                if pair.distance < required:
                    contacts.append(pair.contact(required, pair.second in self.scene.objects))
        return in_order(contacts)

    def problems(self, q: ArrayLike, tolerance: float = 0.0) -> tuple[str, ...]:
        """Return all violations as text; empty if valid.

        Args:
            q: positions [rad or m], shape (n,).
            tolerance: tolerance of joint limits [rad or m].

        Raises:
            InvalidCommand: wrong number of positions.
        """
        values = self._checked(q, 1)
        texts = list(self.limits.violations(values, tolerance))
        for contact in self.explain(values):
            if contact.kind != "limit":
                texts.append(in_words(contact, self.required_distance(contact.pair)))
        return tuple(texts)

    def sphere_positions(self, q: ArrayLike) -> Array:
        """Return the spheres of robot and attached bodies in the world.

        Returns:
            Centre and radius [m], shape (s, 4), in the order of ``sphere_bodies``.
        """
        return np.concatenate(self._checks().place(self._poses(self._checked(q, 1))))

    @property
    def sphere_bodies(self) -> tuple[str, ...]:
        """Name of the link or attached body of each sphere."""
        return tuple(body.name for body in self._bodies for _ in body.spheres)

    def sphere_distances(self, q: ArrayLike) -> SphereDistances:
        """Return the distance [m] of each sphere to the closest object whose collision is checked.

        The clearance is not subtracted. Objects farther than 0.5 m beyond the robot's reach may be
        omitted. Depths in a non-convex mesh are those in its filling boxes.

        Raises:
            InvalidCommand: wrong number of positions.
        """
        frames = self._frames(self._checked(q, 1))
        return self._sphere_queries().distances(frames, self._packed())

    def world_distances(self, Q: ArrayLike) -> tuple[Array, Array]:
        """Return distances and directions of :meth:`sphere_distances`, (m, s) and (m, s, 3)."""
        values = self._checked(Q, 2)
        full = np.repeat(self._positions[np.newaxis], len(values), axis=0)
        full[:, self._columns] = values
        return self._sphere_queries().batch(self._kinematics.frames_batch(full), self._packed())

    def _sphere_queries(self) -> SphereQueries:
        frames = self._kinematics.frame_names
        return self._compiled.sphere_queries(self._packed(), self._bodies, frames, self._X_WB)

    def sphere_pairs(self) -> SpherePairs:
        """Return the distances of all checked pairs of spheres, with gradients.

        For the current robot and scene. The clearance is subtracted from distances to the world.
        """

        def poses(Q: Array) -> Array:
            full = np.repeat(positions[np.newaxis], len(Q), axis=0)
            full[:, self._columns] = Q
            return np.asarray(X_WB @ self._kinematics.frames_batch(full)[:, links])

        X_WB, positions = self._X_WB, self._positions
        names = list(self._kinematics.frame_names)
        links = [names.index(body.link) for body in self._bodies]
        return SpherePairs(self._bodies, self._paired[0], self.scene, poses, self.clearance)

    def kernel(self) -> KernelChecker:
        """Return the checks as machine code, a snapshot of the current scene."""
        table, calls = self._packed(), self._compiled.calls
        return KernelChecker(calls.state_address, calls.edge_address, table.address, (table, calls))

    def snapshot(self) -> CollisionChecker:
        """Return an independent copy, for another thread; compiled code is shared."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)  # data is replaced on change, never modified
        other._compiled = self._compiled.copy()
        return other

    def _checked(self, q: ArrayLike, dimensions: int) -> Array:
        return configurations.checked_configurations(q, self.joint_names, dimensions)

    def _checks(self) -> GenericChecks:
        if self._numpy is None:
            self._numpy = GenericChecks(self._bodies, self._paired[0], self.scene)
        return self._numpy

    def _packed(self) -> CollisionTable:
        if self._table is None:
            checked = CheckedRobot(
                self._bodies, self._paired[0], self._positions, self.resolution, self.clearance,
                self.sphere_margin,
            )  # fmt: skip
            self._table = self._compiled.table(checked, self.scene, self._X_WB)
        return self._table

    def _frames(self, q: Array) -> Array:
        full = self._positions.copy()
        full[self._columns] = q
        return self._kinematics.frames(full)

    def _poses(self, q: Array) -> dict[str, Array]:
        poses = self._X_WB @ self._frames(q)
        return dict(zip(self._kinematics.frame_names, poses, strict=True))

    def _pairs(self, q: Array, within: float) -> list[PairDistances]:
        checks = self._checks()
        placed = checks.place(self._poses(q))
        return [*checks.self_distances(placed), *checks.world_distances(placed, within)]


def carriers(robot: Robot, joints: Collection[str]) -> Mapping[str, str]:
    """Return for each link the top link of its rigid group when only the given joints move.

    Args:
        robot: the robot.
        joints: the moving joints, including their mimic joints.
    """
    tree = robot.tree
    found: dict[str, str] = {}
    for link in tree.frame_names:
        joint = tree.parent_joint.get(link)
        if joint is None:
            found[link] = link
            continue
        leads = joint.mimic.joint if joint.mimic is not None else joint.name
        found[link] = link if leads in joints else found[joint.parent]
    return found


def scene_for(robot: Robot, joints: Collection[str], scene: Scene) -> Scene:
    """Return a scene without pairs that some joints cannot change.

    A collision is allowed if the joints do not move the pair relative to each other; explicit
    entries of the scene are kept. Cached: the same scene yields the same object.

    Args:
        robot: the robot of the scene.
        joints: the moving joints.
        scene: the complete scene.
    """
    with _RESTRICTING:
        known = _RESTRICTED.setdefault(scene, {})
    key = (robot, frozenset(joints))
    if key not in known:
        known[key] = _scene_for(robot, joints, scene)
    return known[key]


_RESTRICTED: weakref.WeakKeyDictionary[Scene, dict[Any, Scene]] = weakref.WeakKeyDictionary()
_RESTRICTING = threading.Lock()


def _scene_for(robot: Robot, joints: Collection[str], scene: Scene) -> Scene:
    carrier = carriers(robot, joints)
    bodies = {body.name: carrier[body.name] for body in link_bodies(robot)}
    bodies |= {body.name: carrier[body.link] for body in scene.attached.values()}
    still = [name for name, on in bodies.items() if on == robot.tree.root]
    pairs: set[Pair] = {pair_of(name, item) for name in still for item in scene.objects}
    names = list(bodies)
    for i, a in enumerate(names):
        pairs.update(pair_of(a, b) for b in names[i + 1 :] if bodies[a] == bodies[b])
    return replace(scene, allowed=scene.allowed.with_pairs(pairs.difference(scene.allowed.pairs)))


class CheckerCache:
    """Provides checkers to several threads; only changed tables are computed again."""

    def __init__(self, robot: Robot, clearance: Callable[[], float]) -> None:
        """Create an empty cache.

        Args:
            robot: to check.
            clearance: returns the min clearance from obstacles [m].
        """
        self._robot = robot
        self._clearance = clearance
        self._checkers: dict[str, CollisionChecker] = {}
        self._lock = threading.Lock()

    def checker(self, group: Group, scene: Scene, q: Array) -> CollisionChecker:
        """Return a checker of a group for use in one thread.

        Args:
            group: joints of its configurations.
            scene: to check against.
            q: positions of all joints [rad or m], shape (n,).
        """
        moved, clearance = scene_for(self._robot, group.joints, scene), self._clearance()
        others = np.ones(len(q), bool)
        others[group.indices] = False
        with self._lock:
            checker = self._checkers.get(group.name)
            if checker is None:
                checker = CollisionChecker(self._robot, group.joints)
                if len(self._checkers) >= MAX_GROUPS:
                    self._checkers.pop(next(iter(self._checkers)))
                self._checkers[group.name] = checker
            # Setting anything recomputes its tables, which may take longer than a plan.
            if checker.clearance != clearance:
                checker.set_clearance(clearance)
            if (checker.positions[others] != q[others]).any():
                checker.set_positions(q)
            if checker.scene is not moved:
                checker.set_scene(moved)
            checker.kernel()
            return checker.snapshot()


class CollisionFree:
    """Accepts collision-free solutions of inverse kinematics; used by one batch at a time.

    Spheres are checked during the search, then exact geometry.
    """

    def __init__(self, checker: CollisionChecker, joint_names: Sequence[str]) -> None:
        """Create.

        Args:
            checker: of the joints of the solutions, in its scene.
            joint_names: joints of the solutions.

        Raises:
            InvalidConfig: the checker has other joints.
        """
        if checker.joint_names != tuple(joint_names):
            raise InvalidConfig(
                f"the checker has joints {', '.join(checker.joint_names)}, the chain "
                f"{', '.join(joint_names)}."
            )
        self._checker = checker
        self._kernel = checker.kernel()  # keeps the memory at these addresses alive
        self.check, self.memory = self._kernel.state, self._kernel.memory

    def decide(self, Q: Array) -> NDArray[np.bool_]:
        """Return which configurations, shape (m, n), are collision-free for the exact geometry."""
        return self._checker.exact.are_free(Q)

    def validity(self, q: Array) -> bool:
        """Return whether a configuration, shape (n,), is collision-free for the exact geometry."""
        return self._checker.exact.is_free(q)
