# SPDX-License-Identifier: Apache-2.0
"""Obstacles of a policy: a scene, the motion of its objects, and the pose of the robot's base.

Twists of obstacles are estimated from successive scenes, and their poses predicted in between.
Without twists, the retreat from a moving obstacle looks like increasing clearance, and the policy
stops again. Without prediction, it avoids the obstacle's pose at the last update, which is wrong by
speed times update period.

Obstacles are repacked incrementally in the robot's base frame; attached bodies are spheres in the
tool's frame.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from motion_nodes.core.reactive.compiled_policy import Evaluator
from motion_nodes.core.reactive.rmp_inputs import pack_parts, placed
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.poses import inverse, rotation_vector, turned
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import frozen
from motion_nodes.core.scene.distance_field import DistanceField, field_around
from motion_nodes.core.scene.robot_spheres import bounding_sphere, carried_body, rigid_links
from motion_nodes.core.scene.scene import AllowedCollisions, Scene, WorldObject
from motion_nodes.core.scene.voxels import OCTOMAP, Voxels
from motion_nodes.errors import InvalidCommand
from motion_nodes.kernels.rmp.rmp_memory import CARRIED, OBSTACLE, ObstacleArrays, empty_obstacles
from motion_nodes.typing import Array

_FASTEST = 3.0  # [m/s, rad/s] faster changes are teleports, not motion
_LEAST_HOLD = 0.1  # [s] min time that a twist estimate is held
_MAX_HORIZON = 0.3  # [s] max time of prediction, within which a motion is certain
_UNCERTAIN_INTERVALS = 1.5  # update intervals within which it is possible
_UNCERTAIN_HORIZON = 1.2  # [s] max time within which it is possible
_POSE_SPACING = 0.15  # [s] time between two poses of a possible motion
_MAX_AGE = 0.5  # [s] max age of an observation; older stamps are those of another clock
_WINDOW = 0.5  # [s] min time over which a mean velocity is measured
_HALF_TURN = -0.99  # trace of a rotation matrix below which its axis is ill-defined
_STILL = np.zeros(6)
FIELD_REACH = 0.5
"""Distance up to which voxels are avoided by their field [m]; RMPs of obstacles fade out before."""
STEEP = 0.1
"""Length of a gradient above which its direction is that of the nearest voxel."""
SHOWN = 3
"""Max number of names in a message."""


@dataclass(frozen=True, eq=False)
class _Seen:
    item: WorldObject
    at: float
    """Time at which the pose was observed."""
    received: float
    twist: Array
    interval: float
    drift: Array
    """Mean velocity over the last window, which noise hardly changes [m/s], shape (3,)."""
    window: tuple[float, Array]
    """Begin of the current window, and the position then."""

    @property
    def until(self) -> float:
        """Return the time after which the object is at rest: two intervals without an update."""
        return self.received + max(2.0 * self.interval, _LEAST_HOLD)

    def poses(self, now: float) -> tuple[Array, ...]:
        """Return where it may be, shape (4, 4) each.

        That is the predicted pose, until an update is due or the prediction too long. Then it may
        have stopped there or moved on: the poses are those on its way.
        """
        horizons = (
            min(self.interval, _MAX_HORIZON),
            min(_UNCERTAIN_INTERVALS * self.interval, _UNCERTAIN_HORIZON),
        )
        certain, possible = (
            min(now, self.received + max(each, _LEAST_HOLD)) - self.at for each in horizons
        )
        count = 1 + math.ceil((possible - certain) / _POSE_SPACING)
        times = np.linspace(certain, possible, count)
        return tuple(_moved(self.item.X_WO, self.twist * t) for t in times)


class ObstacleMotion:
    """Twists of objects, estimated from scenes and their times."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._moving = False

    def update(self, scene: Scene, now: float, stamp: float | None = None) -> None:
        """Process a scene.

        Args:
            scene: the current world.
            now: time of an arbitrary clock [s].
            stamp: the same time on the clock of the objects' stamps [s]; None: they are ignored.
        """
        self._seen = {
            name: self._look(item, now, _age(item, stamp)) for name, item in scene.objects.items()
        }

    @property
    def moving(self) -> bool:
        """Whether an object moves according to the last :meth:`twists`."""
        return self._moving

    def _look(self, item: WorldObject, now: float, age: float) -> _Seen:
        known, at = self._seen.get(item.name), now - age
        here = item.X_WO[:3, 3]
        if known is None:
            return _Seen(item, at, now, _STILL, 0.0, _STILL[:3], (at, here))
        if known.item is item:
            return known
        if known.item.X_WO.tobytes() == item.X_WO.tobytes():
            return replace(known, item=item)
        interval = at - known.at
        if interval <= 0.0:
            return replace(known, item=item, at=at, received=now)
        twist, drift, window = (
            _twist(known.item.X_WO, item.X_WO, interval),
            known.drift,
            known.window,
        )
        if twist is _STILL or now > known.until:
            drift, window = _STILL[:3], (known.at, known.item.X_WO[:3, 3])
        if twist is not _STILL and at - window[0] >= _WINDOW:
            drift, window = (here - window[1]) / (at - window[0]), (at, here)
        return _Seen(item, at, now, twist, interval, drift, window)

    def twists(self, now: float) -> Mapping[str, Array]:
        """Return the twists of moving objects in the world: linear [m/s], angular [rad/s], (6,)."""
        twists = {name: seen.twist for name, seen in self._seen.items() if _moves(seen, now)}
        self._moving = bool(twists)
        return twists

    def drifts(self, now: float) -> Mapping[str, Array]:
        """Return mean velocities of moving objects in the world [m/s], shape (3,) each."""
        return {name: seen.drift for name, seen in self._seen.items() if _moves(seen, now)}

    def poses(self, now: float) -> Mapping[str, tuple[Array, ...]]:
        """Return where moving objects may be in the world, by constant twists, (4, 4) each."""
        return {name: seen.poses(now) for name, seen in self._seen.items() if _moves(seen, now)}


def _moves(seen: _Seen, now: float) -> bool:
    return seen.twist is not _STILL and now <= seen.until


def _age(item: WorldObject, stamp: float | None) -> float:
    """Return the age of an object's pose [s]; stamps of another clock are ignored."""
    if stamp is None or item.observed_at is None:
        return 0.0
    age = stamp - item.observed_at
    return age if abs(age) <= _MAX_AGE else 0.0


def _twist(before: Array, after: Array, interval: float) -> Array:
    R = after[:3, :3] @ before[:3, :3].T
    if float(R.trace()) < _HALF_TURN:
        return _STILL
    turn = np.array(rotation_vector(R))
    twist = np.concatenate((after[:3, 3] - before[:3, 3], turn)) / interval
    return _STILL if float(np.abs(twist).max()) > _FASTEST else twist


def _moved(X: Array, displacement: Array) -> Array:
    """Return a pose after a translation [m] and a rotation vector [rad] in the world's axes."""
    moved = X.copy()
    moved[:3, 3] += displacement[:3]
    moved[:3, :3] = turned(X[:3, :3], displacement[3:])
    return moved


@dataclass(frozen=True, eq=False)
class _Packed:
    item: WorldObject
    X_WO: Array
    twist: Array
    own: ObstacleArrays
    """In the frame of the object, at rest."""
    rows: ObstacleArrays
    """In the base frame."""


class ObstaclePacker:
    """Packs scenes incrementally."""

    def __init__(self, links: Iterable[str] = ()) -> None:
        """Create the packer.

        Args:
            links: links that avoid obstacles; objects with which all of them may collide are
                skipped.
        """
        self._links = frozenset(links)
        self._X_BW = np.eye(4)
        self._known: dict[tuple[str, int], _Packed] = {}
        self._allowed: AllowedCollisions | None = None
        self._keeps_off: dict[str, bool] = {}

    def packed(
        self,
        scene: Scene,
        X_BW: Array,
        twists: Mapping[str, Array] | None = None,
        poses: Mapping[str, tuple[Array, ...]] | None = None,
    ) -> ObstacleArrays:
        """Return the enabled objects that must be avoided.

        Args:
            scene: the world.
            X_BW: pose of the world in the robot's base frame, shape (4, 4).
            twists: of objects in the world [m/s, rad/s], shape (6,) each; default: at rest.
            poses: where objects may be in the world, shape (4, 4) each; default: where they are
                in the scene.
        """
        moving, predicted = twists or {}, poses or {}
        if not np.array_equal(X_BW, self._X_BW):
            self._X_BW, self._known = X_BW.copy(), {}
        if scene.allowed is not self._allowed:
            self._allowed, self._keeps_off = scene.allowed, {}
        before = self._keeps_off
        self._keeps_off = {
            name: before[name] if name in before else self.must_keep_off(scene, name)
            for name in scene.objects
        }
        chosen = [o for o in scene.objects.values() if o.enabled and self._keeps_off[o.name]]
        desired = {
            (o.name, k): (o, X_WO, moving.get(o.name, _STILL))
            for o in chosen
            for k, X_WO in enumerate(predicted.get(o.name, (o.X_WO,)))
        }
        fresh = self._placed({k: v for k, v in desired.items() if not self._is_known(k, *v)})
        self._known = {key: fresh.get(key) or self._known[key] for key in desired}
        known = [found.rows.rows for found in self._known.values()]
        if not known:
            return empty_obstacles()
        return ObstacleArrays(
            {name: np.concatenate([rows[name] for rows in known]) for name in known[0]}
        )

    def must_keep_off(self, scene: Scene, name: str) -> bool:
        """Return whether any link must avoid an object."""
        allows = scene.allowed.allows
        return not self._links or not all(allows(link, name) for link in self._links)

    def _is_known(self, key: tuple[str, int], item: WorldObject, X_WO: Array, twist: Array) -> bool:
        known = self._known.get(key)
        if known is None or known.item is not item or known.X_WO is not X_WO:
            return False
        return known.twist is twist or np.array_equal(known.twist, twist)

    def _placed(
        self, desired: Mapping[tuple[str, int], tuple[WorldObject, Array, Array]]
    ) -> dict[tuple[str, int], _Packed]:
        """Return objects with poses and twists, packed in one batch, which is much faster."""
        if not desired:
            return {}
        items, poses, twists = zip(*desired.values(), strict=True)
        own = [self._in_own_frame(item) for item in items]
        X_BO = self._X_BW @ np.stack(poses)
        R = self._X_BW[:3, :3]
        turned = (np.stack(twists).reshape(-1, 2, 3) @ R.T).reshape(-1, 6)
        moved = {
            name: _split_placed([o.rows[name] for o in own], X_BO, turned) for name in own[0].rows
        }
        return {
            key: _Packed(*found, own[k], ObstacleArrays({name: moved[name][k] for name in moved}))
            for k, (key, found) in enumerate(desired.items())
        }

    def _in_own_frame(self, item: WorldObject) -> ObstacleArrays:
        known = self._known.get((item.name, 0))
        same = known is not None and known.item.parts is item.parts
        return known.own if known is not None and same else pack_parts(item.parts)


def _split_placed(tables: list[Array], X_BO: Array, twists: Array) -> list[Array]:
    """Return the rows of each object in the base frame."""
    counts = [len(table) for table in tables]
    if not any(counts):
        return tables
    owner = np.repeat(np.arange(len(tables)), counts)
    rows = placed(np.concatenate(tables), X_BO[owner], twists[owner])
    return np.split(rows, np.cumsum(counts)[:-1])


def supported_scene(robot: Robot, tool: str, scene: Scene) -> tuple[Scene, str]:
    """Return a scene without the attached bodies that are not supported.

    Args:
        robot: the robot.
        tool: frame of the tool.
        scene: scene with attached bodies.

    Returns:
        The scene, the same object if all are supported, and which bodies are missing and why,
        empty if none.
    """
    top = rigid_links(robot.tree)
    moving = [name for name, item in scene.attached.items() if top.get(item.link) != top[tool]]
    rest = [name for name in scene.attached if name not in moving]
    missing = [*moving, *rest[CARRIED:]]
    if not missing:
        return scene, ""
    reasons = []
    if moving:
        reasons.append(
            f"attached to links that move relative to '{tool}': {', '.join(moving[:SHOWN])}"
        )
    if rest[CARRIED:]:
        reasons.append(f"more than {CARRIED}: {', '.join(rest[CARRIED:][:SHOWN])}")
    attached = {name: scene.attached[name] for name in rest[:CARRIED]}
    text = f"attached bodies do not avoid obstacles ({len(missing)}), {'; '.join(reasons)}"
    return replace(scene, attached=MappingProxyType(attached)), text


def carried_spheres(robot: Robot, tool: str, scene: Scene) -> Array:
    """Return the attached bodies as spheres, shape (c, 4): centre (tool frame) and radius [m].

    If the max number of spheres would be exceeded, each body is replaced by one bounding sphere.

    Args:
        robot: the robot.
        tool: frame of the tool.
        scene: scene with attached bodies.

    Raises:
        InvalidCommand: a body is attached to a link that moves relative to the tool, or there are
            too many bodies.
    """
    if not scene.attached:
        return np.empty((0, 4))
    top = rigid_links(robot.tree)
    kinematics = Kinematics(robot.tree)
    q = robot.home
    X_TW = inverse(kinematics.pose(q, tool))
    bodies = []
    for item in scene.attached.values():
        if top.get(item.link) != top[tool]:
            raise InvalidCommand(
                f"'{item.name}' is attached to '{item.link}', which moves relative to '{tool}': "
                f"RMPflow supports only bodies that move with its tool.",
                field=item.name,
            )
        X_TL = X_TW @ kinematics.pose(q, item.link)
        spheres = carried_body(item).spheres
        centres = spheres[:, :3] @ X_TL[:3, :3].T + X_TL[:3, 3]
        bodies.append(np.column_stack((centres, spheres[:, 3])))
    if sum(map(len, bodies)) > CARRIED:
        bodies = [bounding_sphere(body)[None] for body in bodies]
    if len(bodies) > CARRIED:
        raise InvalidCommand(f"{len(bodies)} bodies are attached; the max is {CARRIED}.")
    return np.concatenate(bodies)


@dataclass(frozen=True, eq=False)
class FieldObstacles:
    """Voxels as seen from spheres: the nearest point of each, by a distance field."""

    item: WorldObject
    field: DistanceField

    def nearest(self, spheres: Array, X_BW: Array) -> Array:
        """Return a small ball at the nearest surface point of each sphere that has one in reach.

        A sphere that is not near any voxel, or inside of some at equal distance to all sides, has
        none.

        Args:
            spheres: centre and radius in the base frame [m], shape (s, 4).
            X_BW: pose of the world in the base frame, shape (4, 4).

        Returns:
            Rows of :class:`ObstacleArrays`, shape (k, OBSTACLE).
        """
        X_BF = X_BW @ self.item.X_WO @ self.item.parts[0].X_OS
        X_FB = inverse(X_BF)
        centres = spheres[:, :3] @ X_FB[:3, :3].T + X_FB[:3, 3]
        distances = self.field.distance(centres)
        near = np.flatnonzero(distances - spheres[:, 3] < FIELD_REACH)
        away = self.field.gradient(centres[near])
        length = np.linalg.norm(away, axis=1)
        known = length > STEEP
        near, away = near[known], away[known] / length[known, None]
        radius = self.field.edge
        balls = centres[near] - (distances[near, None] + radius) * away
        rows = np.zeros((len(near), OBSTACLE))
        rows[:, [0, 4, 8]] = 1.0
        rows[:, 9:12] = balls @ X_BF[:3, :3].T + X_BF[:3, 3]
        rows[:, 15] = radius
        return rows


class MovingScene:
    """Provides an evaluator with the obstacles of a scene, in the base frame, with twists."""

    def __init__(self, robot: Robot, tool: str, evaluator: Evaluator) -> None:
        self._robot, self._tool, self._evaluator = robot, tool, evaluator
        self.X_WB: Array = frozen(np.eye(4))
        """Pose of the robot's base frame in the world."""
        self.X_BW: Array = self.X_WB
        """Pose of the world in the base frame."""
        self._by_field = False
        self.reset()

    def reset(self) -> None:
        """Clear all objects; the base pose stays."""
        self.scene = Scene()
        self._motion = ObstacleMotion()
        self._given: dict[str, Array] = {}
        self._twists: dict[str, Array] = {}
        self._time = 0.0
        self._packer = ObstaclePacker(self._evaluator.spheres.links)
        self._lone = ObstaclePacker(self._evaluator.spheres.links)
        """Packs one object at a time."""
        self._field: FieldObstacles | None = None
        self._evaluator.set_carried(np.empty((0, 4)))
        self._refresh()

    def set_scene(self, scene: Scene, now: float | None = None) -> None:
        """Replace the obstacles.

        Args:
            scene: the world.
            now: time on the clock of the objects' stamps [s]; None: poses count as observed now.

        Raises:
            InvalidCommand: an attached body is not supported; the previous scene stays.
        """
        if scene.attached != self.scene.attached:
            self._evaluator.set_carried(carried_spheres(self._robot, self._tool, scene))
        self.scene = scene
        self._motion.update(scene, self._time, now)
        self._refresh()

    def set_base(self, X_WB: Array) -> None:
        """Set the pose of the base in the world, shape (4, 4)."""
        self.X_WB, self.X_BW = X_WB, inverse(X_WB)
        self._refresh()

    def use_field(self, by_field: bool) -> None:
        """Select whether the octomap is avoided by its distance field instead of its boxes."""
        if by_field != self._by_field:
            self._by_field = by_field
            self._refresh()

    def look_around(self, q: Array) -> None:
        """Provide the voxels that are nearest to the robot, if they are avoided by their field.

        Args:
            q: positions of the evaluator's joints [rad or m].
        """
        if self._field is not None:
            spheres = self._evaluator.sphere_positions(q)
            near = self._field.nearest(spheres, self.X_BW)
            rows = {
                **self._packed.rows,
                "sphere": np.concatenate((self._packed.rows["sphere"], near)),
            }
            self._evaluator.set_obstacles(ObstacleArrays(rows))

    def set_twists(self, twists: Mapping[str, Array]) -> None:
        """Set the twists of objects in the world, shape (6,) each, instead of estimating them."""
        self._given = dict(twists)
        self._refresh()

    def elapse(self, duration: float) -> None:
        """Advance the time [s].

        Objects that are observed to move are predicted to continue, between slow updates perhaps;
        others rest where they were last observed.
        """
        self._time += duration
        if self._motion.moving:
            self._refresh()

    @property
    def twists(self) -> dict[str, Array]:
        """Twists of objects in the world: linear [m/s], angular [rad/s], shape (6,) each."""
        return dict(self._twists)

    def approaching(self, q: Array, lead: float) -> str:
        """Return the name of a moving object that may reach the robot; empty if none does.

        It may if its distance is less than the way of its origin, in whatever direction.

        Args:
            q: positions of the evaluator's joints [rad or m].
            lead: time within which it may reach the robot [s].
        """
        drifts = {**self._motion.drifts(self._time), **{k: v[:3] for k, v in self._given.items()}}
        poses, found = self._motion.poses(self._time), ""
        for name, drift in drifts.items():
            way = lead * float(np.linalg.norm(drift))
            item = self.scene.objects.get(name)
            if way == 0.0 or item is None:
                continue
            alone = replace(self.scene, objects={name: item})
            self._evaluator.set_obstacles(self._lone.packed(alone, self.X_BW, None, poses))
            if float(self._evaluator.clearances(q).min(initial=np.inf)) < way:
                found = name
                break
        self._evaluator.set_obstacles(self._packed)
        return found

    def _refresh(self) -> None:
        self._twists = {**self._motion.twists(self._time), **self._given}
        poses = self._motion.poses(self._time)
        scene = self.scene
        self._field = self._found_field()
        if self._field is not None:
            others = {name: item for name, item in scene.objects.items() if name != OCTOMAP}
            scene = replace(scene, objects=others)
        self._packed = self._packer.packed(scene, self.X_BW, self._twists, poses)
        self._evaluator.set_obstacles(self._packed)

    def _found_field(self) -> FieldObstacles | None:
        """Return the field of the octomap, if it is used, known and not too large."""
        item = self.scene.objects.get(OCTOMAP) if self._by_field else None
        if item is None or not item.enabled or len(item.parts) != 1:
            return None
        if not self._packer.must_keep_off(self.scene, OCTOMAP):
            return None
        known = self._field
        if known is not None and known.item is item:
            return known
        solid = item.parts[0].solid
        field = field_around(solid, FIELD_REACH) if isinstance(solid, Voxels) else None
        return None if field is None else FieldObstacles(item, field)
