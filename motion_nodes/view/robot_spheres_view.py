# SPDX-License-Identifier: Apache-2.0
"""The collision spheres of a robot, coloured by their distance to the objects of its scene."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import viser

from motion_nodes.model.link_poses import LinkPoses
from motion_nodes.model.poses import inverse
from motion_nodes.scene.robot_spheres import CollisionBody
from motion_nodes.scene.scene import Scene
from motion_nodes.typing import Array
from motion_nodes.view.sphere_nodes import PLAIN_RGB, DistanceColours, add_spheres

PERIOD = 0.15
"""Min time between two updates of the distances [s]."""


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
