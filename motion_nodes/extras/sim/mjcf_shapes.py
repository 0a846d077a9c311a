# SPDX-License-Identifier: Apache-2.0
"""Shapes, meshes and scenery as MuJoCo geoms.

MuJoCo's half sizes and scalar-first quaternions are used only in this module.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import mujoco
import numpy as np

from motion_nodes.core.robot.poses import rigid_pose
from motion_nodes.core.robot.robot_yaml import ContactDescription
from motion_nodes.core.robot.tree import (
    Box,
    Cylinder,
    Geometry,
    JointKind,
    Mesh,
    Shape,
    Sphere,
    frozen,
)
from motion_nodes.core.scene.mesh_file import mesh_hulls
from motion_nodes.core.scene.robot_spheres import rigid_links
from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.kernels.cache import in_turns
from motion_nodes.typing import Array

_MOST_TRIANGLES = 200_000
"""Max number of triangles of an STL file that MuJoCo reads."""
_PLATE = 1e-5
"""Min thickness of hulls [m]."""
_LOG = logging.getLogger(__name__)
COLLISION_GROUP = 3
"""Geom group of collision shapes; hidden by default in MuJoCo's viewers."""
VISUAL_GROUP = 2
SURROUNDINGS, ROBOTS = 4, 3
"""contype and conaffinity of static geoms: they collide with links and rollers, not with each
other."""
_DEFAULT_RGBA = (0.7, 0.72, 0.75, 1.0)
_KIND = {
    Box: mujoco.mjtGeom.mjGEOM_BOX,
    Sphere: mujoco.mjtGeom.mjGEOM_SPHERE,
    Cylinder: mujoco.mjtGeom.mjGEOM_CYLINDER,
}


class MeshLibrary:
    """Mesh files of one robot, each loaded once per scale."""

    def __init__(self, spec: mujoco.MjSpec, prefix: str, find: Callable[[str], Path]) -> None:
        """Start empty.

        Args:
            spec: specification to which mesh assets are added.
            prefix: prefix of the names of mesh assets.
            find: resolves a mesh file name of the URDF.
        """
        self._spec = spec
        self._prefix = prefix
        self._find = find
        self._files: dict[Mesh, str] = {}
        self._hulls: dict[tuple[Mesh, bool], list[str | None]] = {}
        self._count = 0

    def readable(self, mesh: Mesh) -> bool:
        """Return whether MuJoCo reads the file of a mesh: OBJ, or binary STL that is not too large.

        Raises:
            InvalidDescription: the file is missing.
        """
        suffix = Path(mesh.filename).suffix.lower()
        if suffix != ".stl":
            return suffix == ".obj"
        path = self._find(mesh.filename)
        with path.open("rb") as file:
            count = int.from_bytes(file.read(84)[80:], "little")
        # A text file has letters there, and another size.
        return 1 <= count <= _MOST_TRIANGLES and path.stat().st_size == 84 + 50 * count

    def add(self, geometry: Geometry) -> str | None:
        """Return the asset name of a mesh file, None for a primitive.

        Args:
            geometry: a mesh of a readable format, or a primitive.

        Raises:
            InvalidDescription: the file is missing.
        """
        if not isinstance(geometry, Mesh):
            return None
        if geometry not in self._files:
            path = self._find(geometry.filename)
            made = self._new(path)
            made.file, made.scale = str(path.resolve()), geometry.scale
            self._files[geometry] = made.name
        return self._files[geometry]

    def prepare(self, geometries: Iterable[Geometry]) -> None:
        """Compute the hulls of meshes for :meth:`add_hulls`, shared with other processes.

        Raises:
            InvalidDescription: a file is missing or cannot be read.
        """
        meshes = [geometry for geometry in geometries if isinstance(geometry, Mesh)]
        in_turns(partial(mesh_hulls, self._find(mesh.filename), mesh.scale) for mesh in meshes)

    def add_hulls(self, geometry: Geometry, whole: bool) -> list[str | None]:
        """Return the asset names of the convex hulls of a mesh; [None] for a primitive.

        Args:
            geometry: the mesh or primitive.
            whole: return one hull, also for a non-convex mesh.

        Raises:
            InvalidDescription: the file is missing or cannot be read.
        """
        if not isinstance(geometry, Mesh):
            return [None]
        key = (geometry, whole)
        if key not in self._hulls:
            self._hulls[key] = self._new_hulls(geometry, whole)
        return self._hulls[key]

    def _new_hulls(self, mesh: Mesh, whole: bool) -> list[str | None]:
        """Add the hulls of a mesh; a convex mesh needs none, MuJoCo computes the hull of a file."""
        if whole and self.readable(mesh):
            return [self.add(mesh)]
        path = self._find(mesh.filename)
        hulls = mesh_hulls(path, mesh.scale, whole)
        solid = [solid_corners(corners) for corners in hulls]
        if len(hulls) == 1 and self.readable(mesh) and solid[0] is hulls[0]:
            return [self.add(mesh)]
        names: list[str | None] = []
        for corners in solid:
            made = self._new(path)
            made.uservert = corners.astype(np.float32).ravel()
            names.append(made.name)
        return names

    def _new(self, path: Path) -> mujoco.MjsMesh:
        """Add an empty mesh asset."""
        made = self._spec.add_mesh(name=f"{self._prefix}/{path.stem}_{self._count}")
        self._count += 1
        # Masses are those of the links; the volume of an open mesh may be zero.
        made.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL
        return made


def set_hull(spec: mujoco.MjSpec, geom: mujoco.MjsGeom, corners: Array) -> None:
    """Set the shape of a geom to a convex hull; its mesh asset has the name of the geom.

    Args:
        spec: specification of the geom.
        geom: the geom.
        corners: corners of the hull [m], shape (c, 3); see :func:`solid_corners` for flat ones.
    """
    geom.type, geom.meshname = mujoco.mjtGeom.mjGEOM_MESH, geom.name
    # Masses are those of the bodies; the volume of a plate may be zero.
    shell = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL
    spec.add_mesh(name=geom.name, uservert=corners.ravel(), inertia=shell)


def solid_corners(corners: Array) -> Array:
    """Return the corners of a hull; a flat one gets a thickness, because MuJoCo rejects flat hulls.

    Args:
        corners: shape (c, 3) [m].

    Returns:
        The same array, or one of shape (2 c, 3) and more.
    """
    offsets = corners - corners.mean(axis=0)
    for axis in np.linalg.eigh(offsets.T @ offsets)[1].T:
        if np.ptp(corners @ axis) < _PLATE:
            corners = np.concatenate([corners + 0.5 * _PLATE * axis, corners - 0.5 * _PLATE * axis])
    return corners


@dataclass(frozen=True)
class Obstacle:
    """A static shape in the world.

    Raises:
        InvalidConfig: a mesh, sizes that are not positive, or a pose that is not rigid.
    """

    name: str
    """Unique among the obstacles."""
    geometry: Box | Sphere | Cylinder
    """Shape with its sizes [m]."""
    X_WO: Array = field(default_factory=lambda: frozen(np.eye(4)))
    """Pose of the shape's centre in the world, shape (4, 4)."""
    rgba: tuple[float, float, float, float] = (0.8, 0.45, 0.2, 1.0)
    """Colour, 0 to 1 each."""

    def __post_init__(self) -> None:
        """Validate shape and pose."""
        if not isinstance(self.geometry, Box | Sphere | Cylinder):
            raise InvalidConfig(
                f"obstacle '{self.name}' must be a Box, Sphere or Cylinder, "
                f"got {type(self.geometry).__name__}."
            )
        size = geom_size(self.geometry)
        if not (np.isfinite(size).all() and min(size) > 0.0):
            raise InvalidConfig(
                f"sizes of obstacle '{self.name}' must be finite and above 0, got {self.geometry}."
            )
        X_WO = rigid_pose(self.X_WO, f"pose of obstacle '{self.name}'", error=InvalidConfig)
        object.__setattr__(self, "X_WO", frozen(X_WO))


def quat_wxyz(R: Array) -> Array:
    """Return MuJoCo's scalar-first quaternion of a rotation matrix, shape (4,)."""
    quat = np.empty(4)
    mujoco.mju_mat2Quat(quat, np.ascontiguousarray(R, dtype=np.float64).ravel())
    return quat


def geom_size(geometry: Box | Sphere | Cylinder) -> tuple[float, ...]:
    """Return MuJoCo's size of a primitive: half lengths and radii [m], 1 to 3 values."""
    if isinstance(geometry, Box):
        x, y, z = geometry.size
        return (x / 2, y / 2, z / 2)
    if isinstance(geometry, Sphere):
        return (geometry.radius,)
    return (geometry.radius, geometry.length / 2)


def add_collision(
    body: mujoco.MjsBody,
    shape: Shape,
    name: str,
    meshes: MeshLibrary,
    *,
    crowned: bool = False,
    whole: bool = False,
) -> list[mujoco.MjsGeom]:
    """Add a collision shape; a non-convex mesh is replaced by the hulls of the exact checks.

    A link thus has the same shape in simulation and planning. Several hulls are geoms ``NAME_0``,
    ``NAME_1``, ...

    Args:
        body: body of the link.
        shape: the shape, with its pose in the link.
        name: name of the geom.
        meshes: the robot's mesh files.
        crowned: replace a cylinder by an ellipsoid of the same radius and width. Such a tyre has
            one contact point at its centre, as the kinematics of a base assume; a cylinder rests on
            its two edges and slips when the base turns on the spot.
        whole: replace any mesh by one convex hull: tyres of several hulls roll less smoothly.

    Returns:
        Its geoms.

    Raises:
        InvalidDescription: a mesh file is missing or cannot be read.
    """
    assets, geoms = meshes.add_hulls(shape.geometry, whole), []
    for k, asset in enumerate(assets):
        geom = body.add_geom(
            name=name if len(assets) == 1 else f"{name}_{k}",
            group=COLLISION_GROUP,
            rgba=(0.4, 0.5, 0.8, 0.4),
        )
        _set_shape(geom, shape, asset)
        if crowned and isinstance(shape.geometry, Cylinder):
            radius, length = shape.geometry.radius, shape.geometry.length
            geom.type = mujoco.mjtGeom.mjGEOM_ELLIPSOID
            geom.size = (radius, radius, length / 2)
        geoms.append(geom)
    return geoms


def set_contact(geom: mujoco.MjsGeom, contact: ContactDescription | None, time_step: float) -> None:
    """Set contact stiffness and friction of a geom.

    Args:
        geom: the geom.
        contact: friction of its link; None: MuJoCo's default.
        time_step: time step of the simulation [s].
    """
    geom.solref = contact_reference(time_step)
    if contact is None:
        return
    # Without priority, the friction of a pair is the larger one: a frictionless caster would have
    # the floor's friction.
    geom.priority = 1
    geom.friction = (contact.friction, contact.torsional_friction, contact.rolling_friction)
    geom.condim = 3 if contact.friction > 0.0 else 1


def set_pad(geom: mujoco.MjsGeom) -> None:
    """Make a geom a finger pad: it resists torsion, and is stiff against light objects.

    The stiffness of MuJoCo's contacts scales with the masses in contact: with the default impedance
    fingers with 70 N penetrate a ball of 40 g by 6 mm and lose it.
    """
    geom.condim = 4
    geom.solimp[:3] = (0.95, 0.99, 0.001)


def contact_reference(time_step: float) -> tuple[float, float]:
    """Return MuJoCo's ``solref`` of contacts: a time constant of four time steps, damping ratio 1.

    With softer contacts, tyres sink into the floor and roll on a smaller radius, and strong light
    links pass through each other.

    Args:
        time_step: time step of the simulation [s].
    """
    return 4.0 * time_step, 1.0


def add_visual(body: mujoco.MjsBody, shape: Shape, name: str, meshes: MeshLibrary) -> None:
    """Add a visual shape; a mesh that MuJoCo does not read is skipped with a warning.

    Args:
        body: body of the link.
        shape: the shape, with its pose in the link.
        name: name of the geom.
        meshes: the robot's mesh files.
    """
    if isinstance(shape.geometry, Mesh) and not meshes.readable(shape.geometry):
        _LOG.warning(
            "%s: visual mesh '%s' is skipped: MuJoCo reads .obj, and binary .stl of at most %d "
            "triangles.",
            body.name,
            shape.geometry.filename,
            _MOST_TRIANGLES,
        )
        return
    geom = body.add_geom(name=name, group=VISUAL_GROUP, contype=0, conaffinity=0)
    _set_shape(geom, shape, meshes.add(shape.geometry))
    geom.rgba = shape.rgba or _DEFAULT_RGBA


def _set_shape(geom: mujoco.MjsGeom, shape: Shape, mesh: str | None) -> None:
    """Set type, size and pose of a geom; ``mesh``: name of its mesh asset."""
    geom.pos = shape.X_LG[:3, 3]
    geom.quat = quat_wxyz(shape.X_LG[:3, :3])
    if mesh is not None:
        geom.type = mujoco.mjtGeom.mjGEOM_MESH
        geom.meshname = mesh
        return
    geometry = shape.geometry
    assert not isinstance(geometry, Mesh)
    set_primitive(geom, geometry)


def set_primitive(geom: mujoco.MjsGeom, geometry: Box | Sphere | Cylinder) -> None:
    """Set type and size of a geom."""
    geom.type = _KIND[type(geometry)]
    size = geom_size(geometry)
    geom.size[: len(size)] = size


def add_scenery(
    spec: mujoco.MjSpec, obstacles: tuple[Obstacle, ...], floor_height: float = 0.0
) -> None:
    """Add floor, light and obstacles.

    Args:
        spec: specification of the cell.
        obstacles: static obstacles.
        floor_height: height of the floor in the world [m].
    """
    spec.add_texture(
        name="sky",
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=(0.75, 0.83, 0.92),
        rgb2=(0.95, 0.97, 1.0),
        width=64,
        height=384,
    )
    spec.add_texture(
        name="checker",
        type=mujoco.mjtTexture.mjTEXTURE_2D,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
        rgb1=(0.86, 0.88, 0.90),
        rgb2=(0.78, 0.81, 0.84),
        width=256,
        height=256,
    )
    floor = spec.add_material(name="floor", texrepeat=(1, 1), texuniform=True)
    floor.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "checker"
    spec.worldbody.add_geom(
        name="floor",
        type=mujoco.mjtGeom.mjGEOM_PLANE,
        pos=(0.0, 0.0, floor_height),
        size=(0, 0, 1),
        contype=SURROUNDINGS,
        conaffinity=ROBOTS,
        material="floor",
        friction=(1.0, 0.005, 0.0001),
        solref=contact_reference(spec.option.timestep),
    )
    # The shadow map spans `extent`; the default grows with the scene, which coarsens shadows.
    spec.stat.extent = 2.0
    spec.stat.center = (0.0, 0.0, 0.3)
    spec.visual.quality.shadowsize = 4096
    spec.worldbody.add_light(
        name="sun",
        type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
        pos=(1.0, -0.7, 3.0),
        dir=(-0.3, 0.2, -1.0),
        diffuse=(0.6, 0.6, 0.6),
        castshadow=True,
    )
    for obstacle in obstacles:
        size = geom_size(obstacle.geometry)
        spec.worldbody.add_geom(
            name=f"obstacle:{obstacle.name}",
            type=_KIND[type(obstacle.geometry)],
            size=(*size, *(0.0,) * (3 - len(size))),
            contype=SURROUNDINGS,
            conaffinity=ROBOTS,
            pos=obstacle.X_WO[:3, 3],
            quat=quat_wxyz(obstacle.X_WO[:3, :3]),
            rgba=obstacle.rgba,
            solref=contact_reference(spec.option.timestep),
        )


def exclude_neighbours(spec: mujoco.MjSpec, placement: RobotPlacement) -> None:
    """Disable collisions between links that are connected by a joint.

    Links connected by fixed joints count as one. MuJoCo's own filter for parent and child does not
    apply to a parent that is fixed to the world.

    Args:
        spec: specification of the world, with the robot's bodies.
        placement: the robot.
    """
    tree = placement.robot.tree
    block = rigid_links(tree)
    solid: dict[str, list[str]] = {}
    for name, link in tree.links.items():
        if link.collisions:
            solid.setdefault(block[name], []).append(name)
    for joint in tree.joints.values():
        if not joint.movable:
            continue
        above = solid.get(block[joint.parent], [])
        below = solid.get(block[joint.child], [])
        for a, b in itertools.product(above, below):
            exclude(spec, f"{placement.name}/{a}", f"{placement.name}/{b}")
    exclude_ignored(spec, placement, solid)


def exclude_ignored(
    spec: mujoco.MjSpec, placement: RobotPlacement, solid: dict[str, list[str]]
) -> None:
    """Disable collisions that robot.yaml ignores, so that planning and physics agree.

    Fingers, both moved by prismatic joints, still stop each other.

    Args:
        spec: specification of the world, with the robot's bodies.
        placement: the robot.
        solid: links with collision shapes by their rigid block.
    """
    robot = placement.robot
    links = {link for names in solid.values() for link in names}
    sliding = {j.child for j in robot.tree.joints.values() if j.kind is JointKind.PRISMATIC}
    for a, b in robot.description.collision.ignore:
        if {a, b} <= links and not {a, b} <= sliding:
            exclude(spec, f"{placement.name}/{a}", f"{placement.name}/{b}")


def exclude_touching(spec: mujoco.MjSpec, model: mujoco.MjModel, data: mujoco.MjData) -> None:
    """Disable collisions between links of one robot that are in contact in the home state.

    Args:
        spec: specification of the world.
        model: the model compiled from it.
        data: the home state, with contacts.
    """
    pairs: set[tuple[str, str]] = set()
    for contact in data.contact:
        a, b = sorted(model.body(int(model.geom_bodyid[geom])).name for geom in contact.geom)
        if a.partition("/")[0] == b.partition("/")[0]:
            pairs.add((a, b))
    for a, b in sorted(pairs):
        exclude(spec, a, b)


def lowest_point(model: mujoco.MjModel, data: mujoco.MjData, robot: str, default: float) -> float:
    """Return the height of the lowest point of a robot's collision shapes [m].

    Args:
        model: the world.
        data: its state, with current poses.
        robot: name of the robot, the prefix of its bodies.
        default: returned for a robot without collision shapes [m].
    """
    heights = [
        float(data.geom_xpos[i, 2]) - _reach_down(model, data, i)
        for i in range(model.ngeom)
        if model.geom_contype[i]
        and model.body(int(model.geom_bodyid[i])).name.startswith(f"{robot}/")
    ]
    return min(heights, default=default)


def _reach_down(model: mujoco.MjModel, data: mujoco.MjData, geom: int) -> float:
    """Return the extent of a geom below its centre [m] (support function)."""
    size = model.geom_size[geom]
    down = data.geom_xmat[geom].reshape(3, 3)[2]
    kind = model.geom_type[geom]
    if kind == mujoco.mjtGeom.mjGEOM_SPHERE:
        return float(size[0])
    if kind == mujoco.mjtGeom.mjGEOM_CYLINDER:
        return float(size[0] * np.hypot(down[0], down[1]) + size[1] * abs(down[2]))
    if kind == mujoco.mjtGeom.mjGEOM_ELLIPSOID:
        return float(np.linalg.norm(size * down))
    if kind == mujoco.mjtGeom.mjGEOM_BOX:
        return float(size @ np.abs(down))
    mesh = model.geom_dataid[geom]
    first = model.mesh_vertadr[mesh]
    vertices = model.mesh_vert[first : first + model.mesh_vertnum[mesh]]
    return float(-(vertices @ down).min())


def exclude(spec: mujoco.MjSpec, a: str, b: str) -> None:
    """Disable collisions between two bodies, given by their names."""
    spec.add_exclude(name=f"{a}|{b}", bodyname1=a, bodyname2=b)
