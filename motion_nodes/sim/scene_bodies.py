# SPDX-License-Identifier: Apache-2.0
"""Objects of planning scenes as bodies of a MuJoCo model.

World objects are mocap bodies: their pose is set, and contacts do not move them. Attached bodies
are massless bodies welded to their link. MuJoCo uses the convex hull of a mesh, so a non-convex
mesh is replaced by the hulls of the exact checks, and a cone by an inscribed convex mesh.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import mujoco
import numpy as np

from motion_nodes.errors import InvalidCommand
from motion_nodes.model.tree import Box, Cylinder, Sphere
from motion_nodes.scene.allowed_collisions import AllowedCollisions
from motion_nodes.scene.mesh_hulls import hulls_of
from motion_nodes.scene.robot_spheres import link_bodies
from motion_nodes.scene.scene import Part, Scene
from motion_nodes.scene.scenery import SCENERY
from motion_nodes.scene.shapes import Capsule, Cone, HalfSpace, Solid, TriangleMesh
from motion_nodes.scene.voxels import OCTOMAP
from motion_nodes.sim.mjcf_meshes import set_hull, solid_corners
from motion_nodes.sim.mjcf_shapes import (
    ROBOTS,
    SURROUNDINGS,
    contact_reference,
    quat_wxyz,
    set_primitive,
)
from motion_nodes.sim.placement import RobotPlacement
from motion_nodes.typing import Array

PREFIX = "scene:"
"""Prefix of the names of these bodies."""
MAX_BODIES = 1000
"""Max number of bodies in a cell, which lengthens a step by 0.1 to 0.2 ms."""
OBJECT_GROUP = 0
"""Geom group of these bodies; visible by default in MuJoCo's viewers."""
_CONE_SIDES = 32
_RGBA = (0.85, 0.55, 0.25, 1.0)


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
