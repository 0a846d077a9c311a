# SPDX-License-Identifier: Apache-2.0
"""Spheres of links in the picture: one node for each link, whatever their number."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

import numpy as np
import viser
from numpy.typing import NDArray

from motion_nodes.model.tree import Array
from motion_nodes.scene.numpy_checks import GenericChecks
from motion_nodes.scene.robot_spheres import CollisionBody
from motion_nodes.scene.scene import Scene

PLAIN_RGB = (240, 200, 60)
"""Of spheres that nothing is known of."""
DISTANCES = (0.0, 0.02, 0.06, 0.15, 0.30)
"""[m] To the nearest object, for which colours are given."""
COLOURS = ((215, 40, 40), (235, 110, 30), (240, 200, 60), (120, 190, 90), (90, 150, 215))
"""Red touches, blue is far from all."""
STEPS = 24
"""Colours are of so many kinds: what changes less is not sent."""
MOST_PARTS = 200
"""Of objects; with more the distances are not looked at, which would take too long."""

Rgb = tuple[int, int, int]


@functools.cache
def unit_sphere() -> tuple[NDArray[np.float32], NDArray[np.uint32]]:
    """Return corners and triangles of a sphere of radius 1."""
    # Here, because it costs a quarter of a second and is seldom needed.
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
        scene: to add to.
        path: name of the node, below that of a link.
        spheres: centre in the link and radius [m], shape (s, 4).
        colour: of all, or of each, shape (s, 3).
        opacity: 1 is solid.
    """
    vertices, faces = unit_sphere()
    unturned = np.tile(np.array([1.0, 0.0, 0.0, 0.0], np.float32), (len(spheres), 1))
    return scene.add_batched_meshes_simple(
        path, vertices, faces, batched_wxyzs=unturned,
        batched_positions=spheres[:, :3].astype(np.float32),
        batched_scales=spheres[:, 3].astype(np.float32),
        batched_colors=np.asarray(colour, dtype=np.uint8), lod="off", opacity=opacity,
        flat_shading=False, cast_shadow=False, receive_shadow=False,
    )  # fmt: skip


def distance_colours(distances: Array) -> NDArray[np.uint8]:
    """Return the colour of each of some distances [m], shape (s,), as bytes, shape (s, 3)."""
    most = DISTANCES[-1]
    bounded = np.clip(np.nan_to_num(distances, nan=0.0, posinf=most), 0.0, most)
    stepped = np.round(bounded / most * STEPS) * most / STEPS
    channels = np.array(COLOURS, dtype=np.float64)
    return np.column_stack(
        [np.interp(stepped, DISTANCES, channels[:, k]).astype(np.uint8) for k in range(3)]
    )


class DistanceColours:
    """Colours of a robot's spheres by how far the nearest object of its scene is."""

    def __init__(self, bodies: Iterable[CollisionBody]) -> None:
        """Take the spheres."""
        self.bodies = tuple(bodies)
        self._scene: Scene | None = None
        self._checks = GenericChecks(self.bodies, (), Scene())

    def of(self, scene: Scene, X_WL: Mapping[str, Array]) -> list[NDArray[np.uint8]] | None:
        """Return the colours of each body's spheres, or None where there is nothing to be far from.

        Args:
            scene: the objects.
            X_WL: pose of each link in the frame of the scene, shape (4, 4) each.
        """
        parts = sum(len(item.parts) for item in scene.objects.values())
        if not 0 < parts <= MOST_PARTS:
            return None
        if scene is not self._scene:
            self._scene, self._checks = scene, GenericChecks(self.bodies, (), scene)
        distances = self._checks.sphere_distances(self._checks.place(dict(X_WL)))[0]
        ends = np.cumsum([len(body.spheres) for body in self.bodies])[:-1]
        return [distance_colours(part) for part in np.split(distances, ends)]
