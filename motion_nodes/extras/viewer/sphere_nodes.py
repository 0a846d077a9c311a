# SPDX-License-Identifier: Apache-2.0
"""Scene nodes of collision spheres, one per link, with colours by distance.

The collision spheres of a robot, coloured by their distance to the objects of its scene.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import viser
from numpy.typing import NDArray

from motion_nodes.core.robot.link_poses import LinkPoses
from motion_nodes.core.robot.poses import inverse
from motion_nodes.core.scene.numpy_checks import GenericChecks
from motion_nodes.core.scene.robot_spheres import CollisionBody
from motion_nodes.core.scene.scene import Scene
from motion_nodes.typing import Array

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
        """Start with an empty scene."""
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
        """Start without nodes."""
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
