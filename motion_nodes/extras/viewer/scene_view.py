# SPDX-License-Identifier: Apache-2.0
"""Scene nodes of objects of a planning scene, attached bodies and collision spheres."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import viser
from numpy.typing import NDArray

from motion_nodes.core.robot.link_poses import LinkPoses
from motion_nodes.core.robot.poses import inverse, to_quat_wxyz
from motion_nodes.core.robot.tree import Box, Cylinder, Shape, Sphere
from motion_nodes.core.scene.numpy_checks import GenericChecks
from motion_nodes.core.scene.robot_spheres import CollisionBody
from motion_nodes.core.scene.scene import AttachedBody, Part, Scene, WorldObject, difference
from motion_nodes.core.scene.scenery import SCENERY
from motion_nodes.core.scene.shapes import Capsule, Cone, HalfSpace, TriangleMesh, hull_meshes
from motion_nodes.core.scene.voxels import OCTOMAP, Voxels, box_surface
from motion_nodes.extras.viewer.robot_view import SOLID, Appearance, MeshFiles, add_shape, revolved
from motion_nodes.typing import Array

Rgba = tuple[float, float, float, float]
Surface = tuple[Array, NDArray[np.uint32]]
"""Vertices [m], shape (v, 3), and triangles, shape (t, 3)."""

OBJECT_RGBA: Rgba = (0.45, 0.65, 0.45, 0.85)
ATTACHED_RGBA: Rgba = (0.65, 0.45, 0.75, 0.9)
DISABLED = Appearance(opacity=0.25, shadow=False)
"""Objects excluded from collision checks."""
MAX_OBJECTS = 500
"""Max number of objects drawn; each is a node of the page's scene."""
GROUND_SIZE, GROUND_DEPTH = 4.0, 1e-3
"""Edge length of the square that represents a half-space, and its offset below the plane [m], so
that it does not cover the page's grid."""


class SceneView:
    """Draws scenes; not thread-safe.

    Args:
        scene: the viser scene.
        base: scene node of the frame of the objects' poses.
        links: scene node of each link, for attached bodies.
        meshes: mesh files of the robot; meshes of a scene contain their triangles.
    """

    def __init__(
        self, scene: viser.SceneApi, base: str, links: dict[str, str], meshes: MeshFiles
    ) -> None:
        self._scene, self._base, self._links, self._meshes = scene, base, links, meshes
        self._shown = Scene()
        self._nodes: dict[tuple[str, str], viser.FrameHandle] = {}
        """Node of each object, ("object", name), and attached body, ("attached", name)."""
        self._visible = True
        self.omitted = 0
        """Number of objects not drawn because of ``MAX_OBJECTS``."""
        self.on_pick: list[Callable[[str], None]] = []
        """Called on viser's event loop with the name of a clicked object; added before any is
        drawn."""

    @property
    def shown(self) -> Scene:
        """The scene last drawn."""
        return self._shown

    def place(self, name: str, X_WO: Array) -> None:
        """Draw an object at a pose until the scene moves it.

        Args:
            name: of the object; ignored if it is not drawn.
            X_WO: pose in the scene frame, shape (4, 4).
        """
        node = self._nodes.get(("object", name))
        if node is not None:
            _place(node, X_WO)

    def draw(self, scene: Scene) -> None:
        """Draw a scene by applying its differences from the last one."""
        diff = difference(self._shown, scene)
        for name in (*diff.removed, *diff.changed):
            self._remove("object", name)
        for name in diff.detached + diff.attached:
            self._remove("attached", name)
        for name in diff.moved:
            node = self._nodes.get(("object", name))
            if node is not None:
                _place(node, scene.objects[name].X_WO)
        self._add_objects(scene.objects.values())
        for name in diff.attached:
            self._add_attached(scene.attached[name])
        self._shown = scene

    def show(self, visible: bool) -> None:
        """Show or hide all objects, including those added later."""
        if visible == self._visible:
            return
        self._visible = visible
        for node in self._nodes.values():
            node.visible = visible

    def _add_objects(self, objects: Iterable[WorldObject]) -> None:
        self.omitted = 0
        for item in objects:
            if ("object", item.name) in self._nodes:
                continue
            if len(self._nodes) >= MAX_OBJECTS:
                self.omitted += 1
                continue
            appearance = SOLID if item.enabled else DISABLED
            node = self._frame("object", item.name, self._base, item.X_WO)
            parts = self._add_parts(node.name, item.parts, item.rgba or OBJECT_RGBA, appearance)
            # Fixed parts of the cell and voxels of cameras cannot be selected.
            if item.kind != SCENERY and item.name != OCTOMAP:
                self._make_clickable(item.name, parts)

    def _make_clickable(self, name: str, parts: list[viser.MeshHandle]) -> None:
        if not self.on_pick:
            return

        async def clicked(_: object) -> None:
            for picked in self.on_pick:
                picked(name)

        for part in parts:
            part.on_click(clicked)

    def _add_attached(self, body: AttachedBody) -> None:
        parent = self._links.get(body.link)
        if parent is not None:
            node = self._frame("attached", body.name, parent, body.X_LO)
            parts = self._add_parts(node.name, body.parts, body.rgba or ATTACHED_RGBA, SOLID)
            self._make_clickable(body.name, parts)

    def _frame(self, kind: str, name: str, parent: str, X: Array) -> viser.FrameHandle:
        path = f"{parent}/{kind}_{escaped(name)}"
        node = self._scene.add_frame(path, show_axes=False, visible=self._visible)
        _place(node, X)
        self._nodes[kind, name] = node
        return node

    def _remove(self, kind: str, name: str) -> None:
        node = self._nodes.pop((kind, name), None)
        if node is not None:
            node.remove()  # with its children

    def _add_parts(
        self, parent: str, parts: tuple[Part, ...], rgba: Rgba, appearance: Appearance
    ) -> list[viser.MeshHandle]:
        nodes: list[viser.MeshHandle] = []
        for number, part in enumerate(parts):
            path, solid = f"{parent}/part_{number}", part.solid
            if isinstance(solid, Sphere | Box | Cylinder):
                shape = Shape(solid, part.X_OS, rgba)
                nodes.append(add_shape(self._scene, path, shape, appearance, self._meshes))
            else:
                nodes.append(self._add_mesh(path, surface_of(solid), part.X_OS, rgba, appearance))
        return nodes

    def _add_mesh(
        self, path: str, surface: Surface, X_OS: Array, rgba: Rgba, appearance: Appearance
    ) -> viser.MeshHandle:
        vertices, faces = surface
        red, green, blue = (round(255 * min(max(x, 0.0), 1.0)) for x in rgba[:3])
        opacity = rgba[3] * appearance.opacity
        return self._scene.add_mesh_simple(
            path, vertices, faces, color=(red, green, blue), flat_shading=True,
            opacity=None if opacity >= 1.0 else opacity, side="double",
            wxyz=to_quat_wxyz(X_OS[:3, :3]), position=X_OS[:3, 3],
        )  # fmt: skip


def surface_of(solid: Capsule | Cone | HalfSpace | TriangleMesh | Voxels) -> Surface:
    """Return the surface of a solid in its own frame; of a half-space a square of its plane.

    Returns:
        Vertices [m], shape (v, 3), and triangles, shape (t, 3).
    """
    if isinstance(solid, TriangleMesh):
        return solid.vertices, solid.triangles.astype(np.uint32)
    if isinstance(solid, Voxels):
        return box_surface(solid.boxes)
    if isinstance(solid, HalfSpace):
        h, z = 0.5 * GROUND_SIZE, -GROUND_DEPTH
        corners = np.array([(-h, -h, z), (h, -h, z), (h, h, z), (-h, h, z)])
        return corners, np.array([(0, 1, 2), (0, 2, 3)], dtype=np.uint32)
    if isinstance(solid, Cone):
        h = 0.5 * solid.height
        surface = revolved(np.array([(0.0, -h), (solid.radius, -h), (0.0, h)]))
        return surface.vertices, surface.faces
    if not isinstance(solid, Capsule):
        meshes = hull_meshes(solid)
        first = np.cumsum([0, *(len(mesh.vertices) for mesh in meshes)])
        triangles = [m.triangles + n for m, n in zip(meshes, first[:-1], strict=True)]
        vertices = np.concatenate([mesh.vertices for mesh in meshes])
        return vertices, np.concatenate(triangles).astype(np.uint32)
    angles = np.linspace(0.0, 0.5 * np.pi, 9)
    arc = solid.radius * np.column_stack((np.cos(angles), np.sin(angles)))
    arc[:, 1] += 0.5 * solid.length
    surface = revolved(np.concatenate([arc[::-1] * (1.0, -1.0), arc]))
    return surface.vertices, surface.faces


def _place(node: viser.FrameHandle, X: Array) -> None:
    node.wxyz = to_quat_wxyz(X[:3, :3])
    node.position = X[:3, 3]


def escaped(name: str) -> str:
    """Return a name escaped for one component of a node's path; injective."""
    return "".join(
        c if c.isalnum() or c in "-_." else "".join(f"%{byte:02x}" for byte in c.encode())
        for c in name
    )


PLAIN_RGB = (240, 200, 60)
"""Colour of spheres whose distance is unknown."""
DISTANCES = (0.0, 0.02, 0.06, 0.15, 0.30)
"""Distances to the nearest object [m] of ``COLOURS``."""
COLOURS = ((215, 40, 40), (235, 110, 30), (240, 200, 60), (120, 190, 90), (90, 150, 215))
"""Colours at ``DISTANCES``, from red (in collision) to blue."""
STEPS = 24
"""Number of steps of the colour scale; smaller changes are not sent."""
MAX_PARTS = 200
"""Max number of shapes in a scene for which distances are computed, which would be slow."""
Rgb = tuple[int, int, int]
PERIOD = 0.15
"""Min time between two updates of the distances [s]."""


@functools.cache
def unit_sphere() -> tuple[NDArray[np.float32], NDArray[np.uint32]]:
    """Return vertices, shape (v, 3), and triangles, shape (t, 3), of a sphere of radius 1."""
    # Imported here, because it takes 0.25 s and is rarely needed.
    from trimesh.creation import icosphere

    mesh = icosphere(subdivisions=2)
    return np.asarray(mesh.vertices, np.float32), np.asarray(mesh.faces, np.uint32)


def add_spheres(
    scene: viser.SceneApi,
    path: str,
    spheres: Array,
    colour: Rgb | NDArray[np.uint8] = PLAIN_RGB,
    opacity: float = 0.4,
) -> viser.BatchedMeshHandle:
    """Add spheres as one node.

    Args:
        scene: the viser scene.
        path: path of the node, a child of the link's node.
        spheres: centre in the link and radius [m], shape (s, 4).
        colour: of all spheres, or of each, shape (s, 3).
        opacity: 0 to 1; 1 is opaque.

    Returns:
        The handle of the node.
    """
    vertices, faces = unit_sphere()
    identity = np.tile(np.array([1.0, 0.0, 0.0, 0.0], np.float32), (len(spheres), 1))
    return scene.add_batched_meshes_simple(
        path, vertices, faces, batched_wxyzs=identity,
        batched_positions=spheres[:, :3].astype(np.float32),
        batched_scales=spheres[:, 3].astype(np.float32),
        batched_colors=np.asarray(colour, dtype=np.uint8), lod="off", opacity=opacity,
        flat_shading=False, cast_shadow=False, receive_shadow=False,
    )  # fmt: skip


def distance_colours(distances: Array) -> NDArray[np.uint8]:
    """Return the colours of distances.

    Args:
        distances: to the nearest object [m], shape (s,); NaN counts as 0.

    Returns:
        Colours, shape (s, 3).
    """
    last = DISTANCES[-1]
    bounded = np.clip(np.nan_to_num(distances, nan=0.0, posinf=last), 0.0, last)
    stepped = np.round(bounded / last * STEPS) * last / STEPS
    channels = np.array(COLOURS, dtype=np.float64)
    return np.column_stack(
        [np.interp(stepped, DISTANCES, channels[:, k]).astype(np.uint8) for k in range(3)]
    )


class DistanceColours:
    """Colours of a robot's spheres by their distances to the objects of its scene.

    Args:
        bodies: the robot's collision spheres.
    """

    def __init__(self, bodies: Iterable[CollisionBody]) -> None:
        self.bodies = tuple(bodies)
        self._scene: Scene | None = None
        self._checks = GenericChecks(self.bodies, (), Scene())

    def of(self, scene: Scene, X_WL: Mapping[str, Array]) -> list[NDArray[np.uint8]] | None:
        """Return the colours of each body's spheres.

        Args:
            scene: the objects.
            X_WL: pose of each link in the scene frame, shape (4, 4) each.

        Returns:
            Colours of each body, shape (s, 3); None without objects or above ``MAX_PARTS``.
        """
        parts = sum(len(item.parts) for item in scene.objects.values())
        if not 0 < parts <= MAX_PARTS:
            return None
        if scene is not self._scene:
            self._scene, self._checks = scene, GenericChecks(self.bodies, (), scene)
        distances = self._checks.sphere_distances(self._checks.place(dict(X_WL)))[0]
        ends = np.cumsum([len(body.spheres) for body in self.bodies])[:-1]
        return [distance_colours(part) for part in np.split(distances, ends)]


class RobotSpheresView:
    """Draws spheres as children of their links' nodes; not thread-safe.

    Args:
        scene: the viser scene.
        poses: link poses.
        names: names of the links, in the order of the poses.
        base: index of the link that is the scene frame.
        links: scene node of each link.
        bodies: returns the spheres; called when they are first shown.
    """

    def __init__(
        self,
        scene: viser.SceneApi,
        poses: LinkPoses,
        names: tuple[str, ...],
        base: int,
        links: Mapping[str, str],
        bodies: Callable[[], Iterable[CollisionBody]],
    ) -> None:
        self._scene, self._poses, self._names, self._base = scene, poses, names, base
        self._links, self._bodies = links, bodies
        self._colours: DistanceColours | None = None
        self.nodes: list[viser.BatchedMeshHandle] = []
        """One node per body."""
        self._shown = False
        self._due = 0.0
        self._last: tuple[Scene, bytes] | None = None
        """Scene and joint positions of the last update of the colours."""

    def draw(self, shown: bool, q: Array, scene: Scene) -> None:
        """Show or hide the spheres and update their colours.

        Args:
            shown: whether to show them.
            q: joint positions [rad or m], shape (n,).
            scene: the objects.
        """
        if shown and self._colours is None:
            self._colours = DistanceColours(self._bodies())
            self.nodes = [
                add_spheres(self._scene, f"{self._links[body.link]}/spheres", body.spheres)
                for body in self._colours.bodies
            ]
            self._shown = True
        if shown != self._shown:
            self._shown = shown
            for node in self.nodes:
                node.visible = shown
        now = time.monotonic()
        if shown and now >= self._due:
            self._due = now + PERIOD
            self._colour(q, scene)

    def _colour(self, q: Array, scene: Scene) -> None:
        state = (scene, q.tobytes())
        if self._colours is None or state == self._last:
            return
        self._last = state
        X_RL = self._poses.in_root(q)
        X_BL = inverse(X_RL[self._base]) @ X_RL
        found = self._colours.of(scene, dict(zip(self._names, X_BL, strict=True)))
        plain = np.array(PLAIN_RGB, dtype=np.uint8)
        for k, node in enumerate(self.nodes):
            colours = plain if found is None else found[k]
            if not np.array_equal(node.batched_colors, colours):
                node.batched_colors = colours
