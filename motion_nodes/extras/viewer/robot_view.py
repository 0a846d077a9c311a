# SPDX-License-Identifier: Apache-2.0
"""Scene nodes of one robot: one per link, nested like the kinematic tree, with its shapes.

Boxes, cylinders and spheres of a link are merged into one triangle mesh. Each scene node costs the
page time when it is added and in every frame, and a robot may have a hundred shapes: so shapes of a
link with the same colour become one node. Vertices at sharp edges are duplicated per face, so that
each face has its own normals.

Missing meshes are drawn as placeholders.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import numpy as np
import viser
from numpy.typing import NDArray

from motion_nodes.core.robot.link_poses import LinkPoses
from motion_nodes.core.robot.poses import to_quat_wxyz
from motion_nodes.core.robot.tree import Box, Cylinder, Mesh, Shape, Sphere
from motion_nodes.core.scene.mesh_file import MeshPart, read_mesh_parts
from motion_nodes.errors import MotionError
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot
from motion_nodes.typing import Array

SEGMENTS = 32
"""Number of segments around a surface of revolution."""
RINGS = 16
"""Number of rings of a sphere, from pole to pole."""
PLAIN_RGB = (198, 203, 208)
"""Colour of shapes without a colour in the URDF: the light grey of painted metal."""
PLACEHOLDER_RGB = (235, 140, 52)
"""Colour of the box drawn for a missing mesh."""
SPHERE_SUBDIVISIONS = 3
"""Subdivisions of an icosahedron: 1280 triangles; one more would be four times as many."""
PLACEHOLDER_SIZE = 0.06
"""Edge length of the box drawn for a missing mesh [m]."""
MIN_MOVE = 5e-5
"""Smaller joint displacements [rad or m] are not sent: 0.05 mm at the end of an arm of 1 m. So
encoder noise causes no messages."""
AXES = 0.1
"""Length of the axes of a link's frame [m]."""
MOBILE_MARGIN = 2.2
"""Factor on the bounding radius of a mobile robot, which needs space to drive."""
ARM_MARGIN = 1.25
"""Factor on the bounding radius of an arm, which reaches beyond its home configuration."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Triangles:
    """A triangle mesh."""

    vertices: Array
    """Vertices [m], shape (v, 3)."""
    faces: NDArray[np.uint32]
    """Indices into ``vertices``, shape (t, 3)."""


class MeshFiles:
    """Mesh files of one robot, each read once.

    Args:
        robot: name of the robot, for the warning.
        find: resolves a mesh file name of the URDF; raises if there is no such file.
    """

    def __init__(self, robot: str, find: Callable[[str], Path]) -> None:
        self._robot = robot
        self._find = find
        self._cache: dict[Mesh, tuple[MeshPart, ...]] = {}
        self._missing: list[str] = []

    @property
    def missing(self) -> tuple[str, ...]:
        """Meshes that could not be read, each with the reason."""
        return tuple(self._missing)

    def parts(self, mesh: Mesh) -> tuple[MeshPart, ...]:
        """Return the parts of a mesh, one per colour; none if it cannot be read."""
        if mesh not in self._cache:
            self._cache[mesh] = self._load(mesh)
        return self._cache[mesh]

    def warn_of_missing(self) -> None:
        """Log one warning that lists all meshes that could not be read."""
        if self._missing:
            _log.warning(
                "%s: %d mesh(es) could not be read and are drawn as boxes: %s. Install the package "
                "that contains them, or correct the file names in the URDF.",
                self._robot,
                len(self._missing),
                "; ".join(self._missing),
            )

    def _load(self, mesh: Mesh) -> tuple[MeshPart, ...]:
        try:
            return read_mesh_parts(self._find(mesh.filename), mesh.scale)
        except (MotionError, OSError) as error:
            self._missing.append(f"{mesh.filename} ({error})")
            return ()


def merged(shapes: Sequence[Shape], grow: float = 0.0) -> Triangles:
    """Return the triangles of boxes, cylinders and spheres in the frame of their link.

    Args:
        shapes: boxes, cylinders and spheres with their poses in the link.
        grow: offset of the surface [m].

    Raises:
        TypeError: a shape of another kind.
    """
    vertices, faces, count = [], [], 0
    for shape in shapes:
        part, size = _unit_part(shape, grow)
        corners = part.vertices * size
        vertices.append(corners @ shape.X_LG[:3, :3].T + shape.X_LG[:3, 3])
        faces.append(part.faces + np.uint32(count))
        count += len(corners)
    return Triangles(np.concatenate(vertices), np.concatenate(faces))


def _unit_part(shape: Shape, grow: float) -> tuple[Triangles, Array]:
    """Return a shape of unit size and its scale along x, y and z [m], shape (3,)."""
    match shape.geometry:
        case Box(size):
            return _box(), np.array(size) + 2.0 * grow
        case Cylinder(radius, length):
            return _cylinder(), np.array([radius + grow, radius + grow, length + 2.0 * grow])
        case Sphere(radius):
            return _sphere(), np.full(3, radius + grow)
    raise TypeError(f"{type(shape.geometry).__name__} cannot be merged")


@functools.cache
def _box() -> Triangles:
    """Return a cube of edge length 1; faces do not share vertices."""
    vertices = []
    for axis in range(3):
        for sign in (-1.0, 1.0):
            normal = sign * np.eye(3)[axis]
            u = np.eye(3)[(axis + 1) % 3]
            v = np.cross(normal, u)
            vertices += [0.5 * (normal + a * u + b * v)
                         for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]  # fmt: skip
    quads = 4 * np.arange(6)[:, None]
    faces = np.concatenate([quads + np.array([0, 1, 2]), quads + np.array([0, 2, 3])])
    return Triangles(np.array(vertices), faces.astype(np.uint32))


@functools.cache
def _cylinder() -> Triangles:
    """Return a cylinder of radius and length 1 along z; caps do not share vertices."""
    low, high = (0.0, -0.5), (0.0, 0.5)
    rims = [(1.0, -0.5), (1.0, -0.5), (1.0, 0.5), (1.0, 0.5)]
    return revolved(np.array([low, *rims, high]))


@functools.cache
def _sphere() -> Triangles:
    """Return a sphere of radius 1: rings of vertices between its poles."""
    polar = np.linspace(np.pi, 0.0, RINGS + 1)
    return revolved(np.column_stack((np.sin(polar), np.cos(polar))))


def revolved(outline: Array) -> Triangles:
    """Return the surface of revolution of an outline about the z axis.

    Args:
        outline: points (radius, z) [m] from low to high, shape (p, 2); a point given twice is an
            edge: the faces on its two sides do not share vertices.
    """
    angles = np.linspace(0.0, 2.0 * np.pi, SEGMENTS, endpoint=False)
    circle = np.column_stack((np.cos(angles), np.sin(angles)))
    rings = [np.column_stack((r * circle, np.full(SEGMENTS, z))) for r, z in outline]
    here = np.arange(SEGMENTS)
    after = (here + 1) % SEGMENTS
    faces = []
    for k in np.flatnonzero(np.diff(outline, axis=0).any(axis=1)):
        low, high = k * SEGMENTS, (k + 1) * SEGMENTS
        faces.append(np.column_stack((low + here, low + after, high + after)))
        faces.append(np.column_stack((low + here, high + after, high + here)))
    return Triangles(np.concatenate(rings), np.concatenate(faces).astype(np.uint32))


@dataclass(frozen=True)
class Appearance:
    """Appearance of the shapes of a robot."""

    rgb: tuple[int, int, int] | None = None
    """Colour of all shapes, 0 to 255 each; None: the colours of the URDF."""
    opacity: float = 1.0
    """0 to 1, multiplied by the shape's own; 1 is opaque."""
    shadow: bool = True
    """Whether shapes cast and receive shadows."""
    grow: float = 0.0
    """Offset of the surface [m]; avoids z-fighting where a ghost coincides with its robot."""


SOLID = Appearance()
GHOST = Appearance(rgb=(70, 140, 235), opacity=0.3, shadow=False, grow=0.0015)
"""Appearance of the joint reference."""


class _Surface(TypedDict):
    color: tuple[int, int, int]
    opacity: float | None
    cast_shadow: bool
    receive_shadow: bool
    wxyz: Array
    position: Array


def colour(shape: Shape, appearance: Appearance) -> tuple[tuple[int, int, int], float | None]:
    """Return the 8-bit colour of a shape and its opacity, None if opaque."""
    rgb, alpha = PLAIN_RGB, 1.0
    if shape.rgba is not None:
        bounded = np.clip(np.nan_to_num(shape.rgba), 0.0, 1.0)
        red, green, blue = (round(255 * float(part)) for part in bounded[:3])
        rgb, alpha = (red, green, blue), float(bounded[3])
    opacity = alpha * appearance.opacity
    return appearance.rgb or rgb, None if opacity >= 1.0 else opacity


def add_shape(
    scene: viser.SceneApi, path: str, shape: Shape, appearance: Appearance, meshes: MeshFiles
) -> viser.MeshHandle:
    """Add a shape as a child of its link's node.

    Args:
        scene: the viser scene.
        path: path of the new node.
        shape: geometry with its pose in the link.
        appearance: appearance.
        meshes: mesh files; a placeholder box is drawn for a missing one.

    Returns:
        The handle of the node.
    """
    rgb, opacity = colour(shape, appearance)
    surface = _Surface(
        color=rgb,
        opacity=opacity,
        cast_shadow=appearance.shadow,
        receive_shadow=appearance.shadow,
        wxyz=to_quat_wxyz(shape.X_LG[:3, :3]),
        position=shape.X_LG[:3, 3],
    )
    match shape.geometry:
        case Box((x, y, z)):
            sides = (x + 2 * appearance.grow, y + 2 * appearance.grow, z + 2 * appearance.grow)
            return scene.add_box(path, dimensions=sides, **surface)
        case Sphere(radius):
            return scene.add_icosphere(
                path, radius=radius + appearance.grow, subdivisions=SPHERE_SUBDIVISIONS, **surface
            )
        case Cylinder(radius, length):
            return scene.add_cylinder(
                path, radius=radius + appearance.grow, height=length + 2 * appearance.grow,
                radial_segments=48, **surface,
            )  # fmt: skip
        case Mesh() as mesh:
            if parts := meshes.parts(mesh):
                return _add_parts(scene, path, shape, appearance, parts)
    surface["color"] = PLACEHOLDER_RGB
    return scene.add_box(path, dimensions=(PLACEHOLDER_SIZE,) * 3, **surface)


def _add_parts(
    scene: viser.SceneApi,
    path: str,
    shape: Shape,
    appearance: Appearance,
    parts: Sequence[MeshPart],
) -> viser.MeshHandle:
    """Add a mesh; the nodes of further colours are children of the first one.

    As in RViz, a colour of the mesh file takes precedence over that of the URDF.
    """
    vertices = _grown(np.concatenate([part.vertices for part in parts]), appearance.grow)
    handles, begin = [], 0
    for k, part in enumerate(parts):
        end = begin + len(part.vertices)
        rgb, opacity = colour(dataclasses.replace(shape, rgba=part.rgba or shape.rgba), appearance)
        X = np.eye(4) if k else shape.X_LG
        handles.append(
            scene.add_mesh_simple(
                f"{path}/{k}" if k else path, vertices[begin:end], part.triangles, color=rgb,
                opacity=opacity, cast_shadow=appearance.shadow, receive_shadow=appearance.shadow,
                wxyz=to_quat_wxyz(X[:3, :3]), position=X[:3, 3], flat_shading=True,
            )
        )  # fmt: skip
        begin = end
    return handles[0]


def _add_shapes(
    scene: viser.SceneApi,
    path: str,
    shapes: Sequence[Shape],
    appearance: Appearance,
    meshes: MeshFiles,
) -> None:
    """Add the shapes of a link: one node per mesh, and one for all primitives of one colour."""
    same_colour: dict[object, list[int]] = {}
    for number, shape in enumerate(shapes):
        key = number if isinstance(shape.geometry, Mesh) else colour(shape, appearance)
        same_colour.setdefault(key, []).append(number)
    for numbers in same_colour.values():
        name, first = f"{path}_{numbers[0]}", shapes[numbers[0]]
        if len(numbers) == 1:
            add_shape(scene, name, first, appearance, meshes)
            continue
        triangles = merged([shapes[number] for number in numbers], appearance.grow)
        rgb, opacity = colour(first, appearance)
        scene.add_mesh_simple(
            name, triangles.vertices, triangles.faces, color=rgb, opacity=opacity,
            cast_shadow=appearance.shadow, receive_shadow=appearance.shadow,
        )  # fmt: skip


def _grown(vertices: Array, by: float) -> Array:
    """Return vertices scaled about their centre, the outermost moved by ``by`` [m], (v, 3)."""
    if not by:
        return vertices
    centre = 0.5 * (vertices.min(axis=0) + vertices.max(axis=0))
    half = max(0.5 * float(np.ptp(vertices, axis=0).max()), by)
    return np.asarray(centre + (1.0 + by / half) * (vertices - centre))


def reach(shape: Shape, meshes: MeshFiles) -> float:
    """Return the radius of the shape's bounding sphere about its origin [m]."""
    match shape.geometry:
        case Box(size):
            return float(np.linalg.norm(size)) / 2
        case Sphere(radius):
            return radius
        case Cylinder(radius, length):
            return float(np.hypot(radius, length / 2))
        case Mesh() as mesh:
            if parts := meshes.parts(mesh):
                return max(float(np.linalg.norm(p.vertices, axis=1).max()) for p in parts)
    return PLACEHOLDER_SIZE


class RobotView:
    """Draws one robot; not thread-safe.

    Args:
        scene: the viser scene.
        viewed: the robot.
        path: path of the robot's node, such as ``/robots/franka``.
        appearance: appearance of its shapes.
    """

    def __init__(
        self, scene: viser.SceneApi, viewed: ViewedRobot, path: str, appearance: Appearance = SOLID
    ) -> None:
        """Add all nodes in the home configuration at the robot's placement."""
        tree = viewed.model.tree
        self.viewed = viewed
        self.meshes = MeshFiles(viewed.name, viewed.model.mesh_path)
        self._poses = LinkPoses(tree)
        self._q = np.array(viewed.model.home, dtype=np.float64)
        self._drawn = self._poses.joint_values(self._q)
        # A revolute joint changes only the orientation, a prismatic one only the position of its
        # link: one message each.
        is_prismatic = np.array(self._poses.prismatic, bool)
        moving = np.array(self._poses.moving, int)
        self._prismatic_at = np.flatnonzero(is_prismatic)
        self._revolute_at = np.flatnonzero(~is_prismatic)
        self._prismatic, self._revolute = moving[self._prismatic_at], moving[self._revolute_at]
        self.base = scene.add_frame(
            path,
            show_axes=False,
            wxyz=to_quat_wxyz(viewed.X_WR[:3, :3]),
            position=viewed.X_WR[:3, 3],
        )
        self.links: list[viser.FrameHandle] = []
        """One node per link, in the order of the tree's ``frame_names``."""
        X_PL = self._poses.in_parent(self._q)
        wxyz = to_quat_wxyz(X_PL[:, :3, :3])
        for row, name in enumerate(tree.frame_names):
            parent = path if row == 0 else self.links[tree.packed.parent[row]].name
            link_path = f"{parent}/{name.replace('/', '_')}"
            self.links.append(
                scene.add_frame(
                    link_path, show_axes=False, axes_length=AXES, axes_radius=0.04 * AXES,
                    wxyz=wxyz[row], position=X_PL[row, :3, 3],
                )
            )  # fmt: skip
            _add_shapes(
                scene, f"{link_path}/visual", tree.links[name].visuals, appearance, self.meshes
            )

    @property
    def q(self) -> Array:
        """Joint positions drawn [rad or m], shape (n,)."""
        return self._q.copy()

    def draw_joints(self, q: Array) -> int:
        """Move the links whose joint has moved.

        Args:
            q: joint positions in the model's order [rad or m], shape (n,); NaN: unchanged.

        Returns:
            Number of links moved.
        """
        self._q = np.where(np.isnan(q), self._q, q)
        values = self._poses.joint_values(self._q)
        changed = np.abs(values - self._drawn) > MIN_MOVE
        if not changed.any():
            return 0
        self._drawn[changed] = values[changed]
        X_PL = self._poses.in_parent(self._q)
        rotated = self._revolute[changed[self._revolute_at]]
        for row, wxyz in zip(rotated, to_quat_wxyz(X_PL[rotated, :3, :3]), strict=True):
            self.links[row].wxyz = wxyz
        translated = self._prismatic[changed[self._prismatic_at]]
        for row in translated:
            self.links[row].position = X_PL[row, :3, 3]
        return len(rotated) + len(translated)

    def show_frames(self, shown: bool) -> None:
        """Show or hide the axes of all links."""
        for link in self.links:
            if link.show_axes != shown:
                link.show_axes = shown

    def draw_base(self, X_WB: Array) -> None:
        """Move the root link to a pose in the world, shape (4, 4)."""
        self.base.wxyz = to_quat_wxyz(X_WB[:3, :3])
        self.base.position = X_WB[:3, 3]


def ghost_of(
    scene: viser.SceneApi, viewed: ViewedRobot, path: str, appearance: Appearance
) -> RobotView:
    """Return another view of a robot, relative to the node of its base.

    Args:
        scene: the viser scene.
        viewed: the robot.
        path: path of the new node, a child of the node of the robot's base.
        appearance: appearance.
    """
    return RobotView(scene, dataclasses.replace(viewed, X_WR=np.eye(4)), path, appearance)


def bounding_sphere(viewed: ViewedRobot, meshes: MeshFiles) -> tuple[Array, float]:
    """Return a bounding sphere of a robot in its home configuration, with a margin for motion.

    Args:
        viewed: the robot.
        meshes: its mesh files.

    Returns:
        Centre in the world [m], shape (3,), and radius [m].
    """
    tree = viewed.model.tree
    X_RL = LinkPoses(tree).in_root(np.asarray(viewed.model.home, dtype=np.float64))
    corners = []
    for X, name in zip(X_RL, tree.frame_names, strict=True):
        for shape in tree.links[name].visuals:
            centre = (viewed.X_WR @ X @ shape.X_LG)[:3, 3]
            radius = reach(shape, meshes)
            corners += [centre - radius, centre + radius]
    if not corners:
        return viewed.X_WR[:3, 3].copy(), 0.5
    low, high = np.min(corners, axis=0), np.max(corners, axis=0)
    radius = float(np.linalg.norm(high - low)) / 2
    return (low + high) / 2, radius * (MOBILE_MARGIN if viewed.drive else ARM_MARGIN)
