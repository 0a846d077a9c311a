# SPDX-License-Identifier: Apache-2.0
"""Objects of planning scenes as bodies of a running MuJoCo model, and contacts of robots with them.

World objects are mocap bodies: their pose is set, and contacts do not move them. Attached bodies
are massless bodies welded to their link. MuJoCo uses the convex hull of a mesh, so a non-convex
mesh is replaced by the hulls of the exact checks, and a cone by an inscribed convex mesh.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.bases.from_robot import base_of
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.core.scene.mesh_file import hulls_of
from motion_nodes.core.scene.robot_spheres import link_bodies, rigid_links
from motion_nodes.core.scene.scene import AllowedCollisions, Part, Scene
from motion_nodes.core.scene.scenery import SCENERY
from motion_nodes.core.scene.shapes import (
    Capsule,
    Cone,
    HalfSpace,
    Solid,
    TriangleMesh,
    hull_meshes,
    is_registered,
)
from motion_nodes.core.scene.voxels import OCTOMAP
from motion_nodes.errors import InvalidCommand
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.free_bodies import PREFIX as FREE
from motion_nodes.extras.sim.mjcf_shapes import (
    ROBOTS,
    SURROUNDINGS,
    contact_reference,
    quat_wxyz,
    set_hull,
    set_primitive,
    solid_corners,
)
from motion_nodes.typing import Array

PREFIX = "scene:"
"""Prefix of the names of these bodies."""
MAX_BODIES = 1000
"""Max number of bodies in a cell, which lengthens a step by 0.1 to 0.2 ms."""
OBJECT_GROUP = 0
"""Geom group of these bodies; visible by default in MuJoCo's viewers."""
_CONE_SIDES = 32
_RGBA = (0.85, 0.55, 0.25, 1.0)
NEW_DEPTH = 1e-3
"""A new body that penetrates a robot deeper than this [m] has no contacts until they separate."""
MOVED_DEPTH = 0.02
"""Penetration depth of a moving body [m] beyond which its contacts are disabled: it may push a
robot, but not jump into it."""


@dataclass(frozen=True, eq=False)
class SceneBody:
    """One object of a planning scene in the simulation."""

    robot: str
    """Name of the robot in the cell to whose planning scene it belongs."""
    parts: tuple[Part, ...]
    """Solids with their poses in the object."""
    X: Array
    """Pose in the robot's base frame, or in ``link`` if attached, shape (4, 4)."""
    link: str = ""
    """Link to which it is attached; empty: a world object."""
    touching: frozenset[str] = frozenset()
    """Links of the robot whose contact with it is expected."""
    rgba: tuple[float, float, float, float] = _RGBA
    """Colour, 0 to 1 each."""

    def same_geometry(self, other: SceneBody) -> bool:
        """Return whether the bodies differ at most in their pose in the world."""
        return (
            self.parts is other.parts
            and (self.robot, self.link, self.rgba) == (other.robot, other.link, other.rgba)
            and (not self.link or (self.X is other.X and self.touching == other.touching))
        )


def bodies_of(scene: Scene, placement: RobotPlacement, prefix: str = "") -> dict[str, SceneBody]:
    """Return the bodies of a robot's planning scene, by name.

    Excludes scenery and the voxels of cameras, which the cell contains already, disabled objects,
    and objects that all links of the robot are allowed to touch.

    Args:
        scene: the planning scene, in the robot's base frame.
        placement: the robot in the cell.
        prefix: prefix that makes the objects' names unique, such as the robot's namespace.
    """
    links = [body.name for body in link_bodies(placement.robot)]
    allowed = scene.allowed
    found: dict[str, SceneBody] = {}
    for name, item in scene.objects.items():
        touching = _touching(allowed, name, links)
        if name == OCTOMAP or item.kind == SCENERY:
            continue
        if item.enabled and len(touching) < len(links):
            found[body_name(prefix, name)] = SceneBody(
                placement.name, item.parts, item.X_WO, touching=touching, rgba=item.rgba or _RGBA
            )
    for name, body in scene.attached.items():
        touching = _touching(allowed, name, links) | body.touch_links | {body.link}
        found[body_name(prefix, name)] = SceneBody(
            placement.name, body.parts, body.X_LO, body.link, touching, body.rgba or _RGBA
        )
    return found


def add_body(
    spec: mujoco.MjSpec, name: str, body: SceneBody, X_WO: Array, robot_bodies: Mapping[str, str]
) -> None:
    """Add a body to a specification.

    Args:
        spec: specification of the cell.
        name: name of the body.
        body: the body.
        X_WO: pose in the world, shape (4, 4); not used for attached bodies.
        robot_bodies: names in the model of its robot's links, by link.

    Raises:
        InvalidCommand: a shape that MuJoCo does not support.
    """
    if body.link:
        parent = spec.body(robot_bodies[body.link])
        made = parent.add_body(name=name, pos=body.X[:3, 3], quat=quat_wxyz(body.X[:3, :3]))
        for link in body.touching:
            if link in robot_bodies and link != body.link:
                spec.add_exclude(
                    name=f"{name}|{link}", bodyname1=name, bodyname2=robot_bodies[link]
                )
    else:
        made = spec.worldbody.add_body(
            name=name, mocap=True, pos=X_WO[:3, 3], quat=quat_wxyz(X_WO[:3, :3])
        )
    pieces = [(part.X_OS, piece) for part in body.parts for piece in _pieces(part.solid)]
    for index, (X_OS, piece) in enumerate(pieces):
        geom = made.add_geom(name=f"{name}/{index}", group=OBJECT_GROUP, rgba=body.rgba)
        geom.pos = X_OS[:3, 3]
        geom.quat = quat_wxyz(X_OS[:3, :3])
        geom.solref = contact_reference(spec.option.timestep)
        geom.contype, geom.conaffinity = contact_types(body)
        _shape(spec, geom, piece)


def contact_types(body: SceneBody) -> tuple[int, int]:
    """Return MuJoCo's contype and conaffinity of a body's geoms."""
    return (1, 1) if body.link else (SURROUNDINGS, ROBOTS)


def check_body(name: str, body: SceneBody) -> None:
    """Check that a body can be simulated; convex hulls are compiled separately.

    Args:
        name: name of the body.
        body: the body.

    Raises:
        InvalidCommand: a shape that MuJoCo rejects.
    """
    hulls = tuple(part for part in body.parts if isinstance(part.solid, Cone | TriangleMesh))
    if not hulls:
        return
    spec = mujoco.MjSpec()
    try:
        add_body(spec, name, replace(body, parts=hulls, link=""), np.eye(4), {})
        spec.compile()
    except ValueError as error:
        raise InvalidCommand(str(error)) from error


def body_name(prefix: str, name: str) -> str:
    """Return the name in the model of an object of a planning scene."""
    return f"{PREFIX}{prefix}:{name}" if prefix else f"{PREFIX}{name}"


def load_hulls(body: SceneBody) -> None:
    """Load or compute the convex hulls of a body's meshes, so that adding it does not block."""
    for part in body.parts:
        if isinstance(part.solid, TriangleMesh):
            hulls_of(part.solid)


def _touching(allowed: AllowedCollisions, name: str, links: Iterable[str]) -> frozenset[str]:
    return frozenset(link for link in links if allowed.allows(link, name))


def _pieces(solid: Solid) -> list[Solid | Array]:
    """Return a solid as MuJoCo primitives and corners of convex hulls [m], shape (c, 3)."""
    if isinstance(solid, TriangleMesh):
        return [solid_corners(corners) for corners in hulls_of(solid)]
    if is_registered(solid):
        return [mesh.vertices for mesh in hull_meshes(solid)]
    return [_cone_vertices(solid) if isinstance(solid, Cone) else solid]


def _shape(spec: mujoco.MjSpec, geom: mujoco.MjsGeom, solid: Solid | Array) -> None:
    """Set type and size of a geom."""
    kind = mujoco.mjtGeom
    if isinstance(solid, Box | Sphere | Cylinder):
        set_primitive(geom, solid)
    elif isinstance(solid, Capsule):
        geom.type = kind.mjGEOM_CAPSULE
        geom.size[:2] = (solid.radius, 0.5 * solid.length)
    elif isinstance(solid, HalfSpace):
        geom.type = kind.mjGEOM_PLANE
        geom.size[:] = (0.0, 0.0, 1.0)
    elif isinstance(solid, np.ndarray):
        set_hull(spec, geom, solid)
    else:
        raise InvalidCommand(f"{type(solid).__name__.lower()} is not a shape of the simulation")


def _cone_vertices(cone: Cone) -> Array:
    """Return the vertices of a convex mesh inscribed in a cone [m], shape (k, 3)."""
    angles = np.linspace(0.0, 2.0 * np.pi, _CONE_SIDES, endpoint=False)
    ring = np.column_stack((cone.radius * np.cos(angles), cone.radius * np.sin(angles)))
    base = np.column_stack((ring, np.full(_CONE_SIDES, -0.5 * cone.height)))
    return np.vstack((base, (0.0, 0.0, 0.5 * cone.height)))


class SceneCell:
    """The bodies of planning scenes in a model that was built without them."""

    def __init__(self, spec: mujoco.MjSpec, placements: Sequence[RobotPlacement]) -> None:
        """Start without bodies.

        Args:
            spec: specification of the robots and the floor.
            placements: the robots of the cell.
        """
        self._bare = spec
        self.spec = spec
        """Specification of the model with all bodies."""
        self._links = {
            p.name: {link: f"{p.name}/{link}" for link in p.robot.tree.frame_names}
            for p in placements
        }
        self.bodies: dict[str, SceneBody] = {}
        """Bodies in the model, by name."""
        self._places: dict[str, Array] = {}
        self.rejected: dict[str, str] = {}
        """Bodies that cannot be simulated, each with the reason."""
        self.inactive: dict[str, str] = {}
        """Bodies with disabled contacts, each with the link that it penetrates."""

    def change(
        self,
        bodies: Mapping[str, SceneBody],
        model: mujoco.MjModel,
        data: mujoco.MjData,
        base_pose: Callable[[str], Array],
    ) -> tuple[mujoco.MjModel, mujoco.MjData]:
        """Replace the bodies of the model.

        Args:
            bodies: all bodies, by name.
            model: the current model.
            data: its state.
            base_pose: returns ``X_WB`` of a robot by name.

        Returns:
            Model and state: unchanged objects if bodies have only moved; otherwise a recompiled
            model with the same state of the robots.
        """
        desired = self._accepted(bodies)
        places = {
            name: self._place(name, body, base_pose)
            for name, body in desired.items()
            if not body.link
        }
        fresh = {n for n, b in desired.items() if not _same(self.bodies.get(n), b)}
        moved = {
            name for name, X in places.items()
            if name not in fresh and self._places[name] is not X
        }  # fmt: skip
        rebuilt = bool(fresh) or desired.keys() != self.bodies.keys()
        if rebuilt:
            model, data = self._rebuilt(desired, places, model, data)
        self.bodies, self._places = desired, places
        for name in moved:
            self._move(name, model, data)
        self.inactive = {n: link for n, link in self.inactive.items() if n in desired}
        self._activate(fresh | set(self.inactive), NEW_DEPTH, model, data)
        self._activate(moved - set(self.inactive), MOVED_DEPTH, model, data)
        if rebuilt:
            # Computes efforts, poses and contacts before the next step.
            before = data.qacc_warmstart.copy()
            mujoco.mj_forward(model, data)
            data.qacc_warmstart[:] = before
        return model, data

    def revive(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Enable the contacts of bodies that no longer penetrate a robot.

        Args:
            model: the current model.
            data: its state.
        """
        if self.inactive:
            self._activate(set(self.inactive), NEW_DEPTH, model, data)

    def restore(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Restore the poses of the bodies after a reset of the state.

        Args:
            model: the current model.
            data: its state.
        """
        for name in self._places:
            self._move(name, model, data)
        self._activate(set(self.bodies), NEW_DEPTH, model, data)

    def _accepted(self, bodies: Mapping[str, SceneBody]) -> dict[str, SceneBody]:
        """Return the bodies that can be simulated; store the reasons why others cannot."""
        accepted: dict[str, SceneBody] = {}
        rejected: dict[str, str] = {}
        for name, body in bodies.items():
            known = self.bodies.get(name)
            if len(accepted) >= MAX_BODIES:
                rejected[name] = f"there are more than {MAX_BODIES} bodies"
            elif known is not None and known.parts is body.parts and known.link == body.link:
                accepted[name] = body
            else:
                try:
                    check_body(name, body)
                    accepted[name] = body
                except InvalidCommand as error:
                    rejected[name] = str(error)
        self.rejected = rejected
        return accepted

    def _place(self, name: str, body: SceneBody, base_pose: Callable[[str], Array]) -> Array:
        """Return the pose of a body in the world; motion of the robot's base does not change it."""
        known = self.bodies.get(name)
        if known is not None and not known.link and np.array_equal(known.X, body.X):
            return self._places[name]
        return base_pose(body.robot) @ body.X

    def _rebuilt(
        self,
        bodies: Mapping[str, SceneBody],
        places: Mapping[str, Array],
        model: mujoco.MjModel,
        data: mujoco.MjData,
    ) -> tuple[mujoco.MjModel, mujoco.MjData]:
        """Return a model with other bodies, and the same state.

        Bodies have no joints, so joints, drives and their order are unchanged.
        """
        spec = self._bare.copy()
        for name, body in bodies.items():
            add_body(spec, name, body, places.get(name, body.X), self._links[body.robot])
        made = spec.compile()
        made.actuator_biasprm[:] = model.actuator_biasprm
        made.eq_data[:] = model.eq_data
        for at in np.flatnonzero(model.eq_type == int(mujoco.mjtEq.mjEQ_WELD)):
            made.eq_obj2id[at] = made.body(model.body(int(model.eq_obj2id[at])).name).id
        state = mujoco.MjData(made)
        state.time = data.time
        for name_of in ("qpos", "qvel", "act", "ctrl", "qacc_warmstart", "qfrc_applied",
                      "eq_active"):  # fmt: skip
            getattr(state, name_of)[:] = getattr(data, name_of)
        self.spec = spec
        self.inactive = {n: link for n, link in self.inactive.items() if n in bodies}
        for name in self.inactive:
            _set_contacts(made, name, None)
        return made, state

    def _move(self, name: str, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        X = self._places[name]
        at = int(model.body_mocapid[model.body(name).id])
        data.mocap_pos[at] = X[:3, 3]
        data.mocap_quat[at] = quat_wxyz(X[:3, :3])

    def _activate(
        self, names: set[str], depth: float, model: mujoco.MjModel, data: mujoco.MjData
    ) -> None:
        """Enable the contacts of bodies that penetrate no robot deeper than ``depth`` [m]."""
        if not names:
            return
        for name in names:
            _set_contacts(model, name, contact_types(self.bodies[name]))
        trial = mujoco.MjData(model)
        trial.qpos[:] = data.qpos
        trial.mocap_pos[:], trial.mocap_quat[:] = data.mocap_pos, data.mocap_quat
        mujoco.mj_fwdPosition(model, trial)
        inside: dict[str, str] = {}
        for i in np.flatnonzero(trial.contact.dist < -depth):
            pair = [model.body(int(model.geom_bodyid[g])).name for g in trial.contact.geom[i]]
            for name, other in (pair, pair[::-1]):
                robot = next((r for r in self._links if other.startswith(f"{r}/")), None)
                if name in names and robot is not None:
                    inside[name] = other
        for name in names:
            if name in inside:
                _set_contacts(model, name, None)
                self.inactive[name] = inside[name]
            else:
                self.inactive.pop(name, None)


def _same(before: SceneBody | None, after: SceneBody) -> bool:
    return before is not None and before.same_geometry(after)


def _set_contacts(model: mujoco.MjModel, name: str, types: tuple[int, int] | None) -> None:
    """Set contype and conaffinity of a body's geoms; None: no contacts."""
    body = model.body(name).id
    first = int(model.body_geomadr[body])
    geoms = slice(first, first + int(model.body_geomnum[body]))
    model.geom_contype[geoms], model.geom_conaffinity[geoms] = types or (0, 0)
    model.body_contype[body], model.body_conaffinity[body] = types or (0, 0)


PAUSE = 0.1
"""Time without contact after which a contact counts as a new one [s]."""
FLOOR = "floor"
OPPOSITE = -0.5
"""Max cosine of the angle between the contact normals of two fingers that grasp an object."""
STANDING_GAP = 1e-3
"""A body closer than this to the floor in the home state stands on it [m]."""
SUPPORT_GAP = 0.1
"""The same for links that are fixed to a wheeled base, relative to the radius of its wheels."""


class CellContact(NamedTuple):
    """A contact between two bodies at one time."""

    pair: tuple[str, str]
    """Names: ``<robot>/<link>``, ``floor``, ``scene:<object>``; a link comes first."""
    depth: float
    """Penetration depth [m]."""
    force: float
    """Sum of the normal forces [N]."""
    expected: bool
    """Whether the contact is expected."""


@dataclass
class _PairContact:
    """The contact points of one pair, combined."""

    depth: float = 0.0
    """Max penetration depth [m]."""
    force: float = 0.0
    """Sum of the normal forces [N]."""
    normal: Array = field(default_factory=lambda: np.zeros(3))
    """Sum of the unit normals from the first body to the second, shape (3,)."""


class ContactRules:
    """Finds the contacts of a compiled model."""

    def __init__(
        self,
        model: mujoco.MjModel,
        placements: Sequence[RobotPlacement],
        bodies: Mapping[str, SceneBody],
        standing: frozenset[str],
        holding: frozenset[str] = frozenset(),
    ) -> None:
        """Classify the bodies of the model.

        Args:
            model: the compiled model.
            placements: the robots of the cell.
            bodies: bodies of planning scenes in the model, by name.
            standing: names of the bodies that stand on the floor in the home state.
            holding: names of the bodies with surface grippers.
        """
        self._holding = holding
        self._model = model
        self._bodies = bodies
        self._names = [model.body(i).name for i in range(model.nbody)]
        robots = {placement.name for placement in placements}
        links = np.array([name.partition("/")[0] in robots for name in self._names])
        free = np.array([name.startswith(FREE) for name in self._names])
        self._links, self._free = links, free
        self._moves = model.body_treeid >= 0
        rolling = {f"{p.name}/{link}" for p in placements for link in _rolling(p)}
        self._stands = np.zeros(model.nbody, dtype=np.bool_)
        for i, name in enumerate(self._names):
            self._stands[i] = name in standing or self._descends_from(i, rolling)
        self._fingers = {f"{p.name}/{link}" for p in placements for link in _fingers(p)}

    def find(self, data: mujoco.MjData) -> tuple[CellContact, ...]:
        """Return the contacts in a state, without those of bodies that stand on the floor.

        Args:
            data: the state, with computed contacts.
        """
        if not data.ncon:
            return ()
        model = self._model
        pairs: NDArray[np.int64] = model.geom_bodyid[data.contact.geom]
        depths = -data.contact.dist
        on_floor = ((pairs[:, 0] == 0) & self._stands[pairs[:, 1]]) | (
            (pairs[:, 1] == 0) & self._stands[pairs[:, 0]]
        )
        found: dict[tuple[str, str], _PairContact] = {}
        wrench = np.empty(6)
        # Contacts between objects are not reported.
        apart = self._free[pairs].any(axis=1) & ~self._links[pairs].any(axis=1)
        moves = self._moves[pairs].any(axis=1)
        for i in np.flatnonzero((depths > 0.0) & ~on_floor & ~apart & moves):
            pair, swapped = self._named(data.contact.geom[i], pairs[i])
            mujoco.mj_contactForce(model, data, int(i), wrench)
            contact = found.setdefault(pair, _PairContact())
            contact.depth = max(contact.depth, float(depths[i]))
            contact.force += float(wrench[0])
            contact.normal += data.contact.frame[i, :3] * (-1.0 if swapped else 1.0)
        grasped = self._grasped(found)
        return tuple(
            CellContact(pair, contact.depth, contact.force, self._expected(pair, grasped))
            for pair, contact in found.items()
        )

    def _descends_from(self, body: int, rolling: set[str]) -> bool:
        """Return whether a body is one of the given ones or their descendant."""
        while body > 0:
            if self._names[body] in rolling:
                return True
            body = int(self._model.body_parentid[body])
        return False

    def _named(
        self, geoms: NDArray[np.int32], bodies: NDArray[np.int64]
    ) -> tuple[tuple[str, str], bool]:
        """Return the names of a contact's bodies, and whether their order is swapped."""
        a, b = (
            self._names[body] if body else self._model.geom(int(geom)).name
            for geom, body in zip(geoms, bodies, strict=True)
        )
        return ((b, a), True) if _rank(b) < _rank(a) else ((a, b), False)

    def _grasped(self, contacts: Mapping[tuple[str, str], _PairContact]) -> set[str]:
        """Return the objects that gripper links touch from opposite sides."""
        finger_normals: dict[str, list[Array]] = {}
        for (link, item), contact in contacts.items():
            if item in self._bodies and link in self._fingers:
                length = max(float(np.linalg.norm(contact.normal)), 1e-9)
                finger_normals.setdefault(item, []).append(contact.normal / length)
        return {
            item
            for item, normals in finger_normals.items()
            if min(float(a @ b) for a in normals for b in normals) < OPPOSITE
        }

    def _expected(self, pair: tuple[str, str], grasped: set[str]) -> bool:
        link, item = pair
        if item.startswith(FREE):
            return link in self._fingers or link in self._holding
        body = self._bodies.get(item)
        if body is None:
            return False
        robot, _, name = link.partition("/")
        allowed = robot == body.robot and name in body.touching
        return allowed or (item in grasped and link in self._fingers)


@dataclass
class ContactRecord:
    """Statistics of the contacts of one pair."""

    depth: float = 0.0
    """Max penetration depth [m]."""
    force: float = 0.0
    """Max normal force [N]."""
    episodes: int = 0
    """Number of separate contacts."""
    last: float = -np.inf
    """Time of the last contact [s]."""


class ContactLog:
    """Unexpected contacts since the start or the last :meth:`clear`."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], ContactRecord] = {}
        """Statistics by pair."""

    def clear(self) -> None:
        """Remove all records."""
        self.records.clear()

    def add(self, time: float, contacts: Sequence[CellContact]) -> None:
        """Add the contacts of one step.

        Args:
            time: time of the step [s].
            contacts: all contacts; expected ones are ignored.
        """
        for contact in contacts:
            if contact.expected:
                continue
            record = self.records.setdefault(contact.pair, ContactRecord())
            record.episodes += time - record.last > PAUSE
            record.depth = max(record.depth, contact.depth)
            record.force = max(record.force, contact.force)
            record.last = time


def _rank(name: str) -> tuple[bool, bool, str]:
    """Return a sort key: links before objects before the floor."""
    return name == FLOOR, name.startswith((PREFIX, FREE)), name


def standing_bodies(
    model: mujoco.MjModel, data: mujoco.MjData, placements: Sequence[RobotPlacement]
) -> frozenset[str]:
    """Return the names of the bodies closer than ``STANDING_GAP`` to the floor.

    Casters and skids of a wheeled base may hang higher, by ``SUPPORT_GAP``: which of them carry it
    depends on its load.

    Args:
        model: the compiled model.
        data: the state, with current poses.
        placements: the robots of the cell.
    """
    floor = model.geom(FLOOR)
    gaps = {body: gap for placement in placements for body, gap in _support_gaps(placement)}
    found = set()
    for i in range(model.ngeom):
        if model.geom_contype[i] and model.body_treeid[model.geom_bodyid[i]] >= 0:
            name = model.body(int(model.geom_bodyid[i])).name
            least = max(gaps.get(name, 0.0), STANDING_GAP)
            if mujoco.mj_geomDistance(model, data, floor.id, i, 2.0 * least, None) < least:
                found.add(name)
    return frozenset(found)


def _support_gaps(placement: RobotPlacement) -> Iterator[tuple[str, float]]:
    """Yield the bodies that are fixed to a wheeled base, each with its gap [m]."""
    robot = placement.robot
    if robot.base is None:
        return
    gap = SUPPORT_GAP * float(base_of(robot).wheel_radii.min())
    rigid = rigid_links(robot.tree)
    for link, body in rigid.items():
        if body == rigid[robot.base_frame]:
            yield f"{placement.name}/{link}", gap


def _rolling(placement: RobotPlacement) -> set[str]:
    """Return the child links of wheel joints and passive joints."""
    robot = placement.robot
    joints = {*(robot.base.wheel_names if robot.base else ()), *robot.passive_joints}
    return {joint.child for joint in robot.tree.joints.values() if joint.name in joints}


def _fingers(placement: RobotPlacement) -> set[str]:
    """Return the links moved by groups without a tip and without wheels, which are grippers."""
    robot = placement.robot
    joints = {
        joint
        for group in robot.groups.values()
        if group.tip is None
        for joint in group.joints
        if joint not in robot.base_joints
    }
    return {
        joint.child
        for joint in robot.tree.joints.values()
        if joint.name in joints or (joint.mimic is not None and joint.mimic.joint in joints)
    }
