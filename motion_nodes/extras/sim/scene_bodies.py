# SPDX-License-Identifier: Apache-2.0
"""Objects of planning scenes as bodies of a MuJoCo model.

World objects are mocap bodies: their pose is set, and contacts do not move them. Attached bodies
are massless bodies welded to their link. MuJoCo uses the convex hull of a mesh, so a non-convex
mesh is replaced by the hulls of the exact checks, and a cone by an inscribed convex mesh.

Bodies of planning scenes in a running MuJoCo model: added, moved and removed at run
time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import mujoco
import numpy as np

from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.core.scene.allowed_collisions import AllowedCollisions
from motion_nodes.core.scene.mesh_file import hulls_of
from motion_nodes.core.scene.robot_spheres import link_bodies
from motion_nodes.core.scene.scene import Part, Scene
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
        for field in ("qpos", "qvel", "act", "ctrl", "qacc_warmstart", "qfrc_applied",
                      "eq_active"):  # fmt: skip
            getattr(state, field)[:] = getattr(data, field)
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
