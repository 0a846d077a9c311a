# SPDX-License-Identifier: Apache-2.0
"""The scene of the sphere editor: the robot, its spheres, handles at the selected one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import viser
from numpy.typing import NDArray

from motion_nodes.typing import Array
from motion_nodes.view.drag_handles import DragHandles
from motion_nodes.view.robot_view import RobotView
from motion_nodes.view.shape_nodes import Appearance
from motion_nodes.view.sphere_nodes import add_spheres
from motion_nodes.view.sphere_session import SphereSession
from motion_nodes.view.viewed_robot import ViewedRobot

OTHER_RGB, LINK_RGB, CHOSEN_RGB = (95, 145, 215), (240, 190, 40), (225, 45, 45)
"""Colours of spheres of other links, of the selected link, and of the selected sphere."""
GEOMETRY = Appearance(opacity=0.6, shadow=False)
HANDLE_SIZE = 0.12
"""Size of the handles [m]."""


class SpherePicture:
    """Draws an editing session; not thread-safe.

    Args:
        scene: the viser scene.
        session: the session.
        picked: called on viser's event loop with link and index of a clicked sphere.
        dragged: called on viser's event loop with the dragged centre in the selected link [m],
            shape (3,), and whether the drag has ended.
    """

    def __init__(
        self,
        scene: viser.SceneApi,
        session: SphereSession,
        picked: Callable[[str, int], None],
        dragged: Callable[[Array, bool], None],
    ) -> None:
        """Add the robot."""
        self._scene, self._session = scene, session
        self._picked, self._dragged = picked, dragged
        viewed = ViewedRobot.of(session.robot)
        self.robot = RobotView(scene, viewed, f"/robots/{viewed.name}", GEOMETRY)
        names = session.robot.tree.frame_names
        self._link_nodes = {n: node.name for n, node in zip(names, self.robot.links, strict=True)}
        self.nodes: dict[str, viser.BatchedMeshHandle] = {}
        """Spheres of each link."""
        self._drawn: dict[str, Array] = {}
        self._handles: dict[str, DragHandles] = {}

    @property
    def handles(self) -> DragHandles:
        """Handles of the selected link."""
        link = self._session.link
        if link not in self._handles:
            path = f"{self._link_nodes[link]}/sphere_handles"
            self._handles[link] = DragHandles(
                self._scene, path, HANDLE_SIZE, lambda X, end: self._dragged(X[:3, 3], end)
            )
        return self._handles[link]

    def draw(self) -> None:
        """Update spheres and handles from the session."""
        session = self._session
        for link in {*self._drawn, *session.spheres.links}:
            self._draw_link(link, session.spheres.of(link))
        chosen = session.chosen
        for link, handles in self._handles.items():
            if link != session.link:
                handles.show(False)
        if chosen is not None:
            X = np.eye(4)
            X[:3, 3] = chosen[:3]
            self.handles.place(X)
        self.handles.show(chosen is not None, turning=False)

    def draw_moved(self, centre: Array) -> None:
        """Draw the selected sphere at a centre in its link [m], shape (3,), while dragged."""
        link, index = self._session.link, self._session.index
        node = self.nodes.get(link)
        if node is not None and index < len(node.batched_positions):
            positions = node.batched_positions.copy()
            positions[index] = centre
            node.batched_positions = positions
            self._drawn.pop(link, None)

    def _draw_link(self, link: str, spheres: Array) -> None:
        node = self.nodes.get(link)
        if node is not None and len(node.batched_positions) != len(spheres):
            node.remove()
            node = self.nodes.pop(link, None) and None
        if not len(spheres):
            self._drawn.pop(link, None)
            return
        if node is None:
            node = self._add(link, spheres)
        elif self._drawn.get(link) is not spheres:
            node.batched_positions = spheres[:, :3].astype(np.float32)
            node.batched_scales = spheres[:, 3].astype(np.float32)
        self._drawn[link] = spheres
        colours = self._colours(link, len(spheres))
        if not np.array_equal(node.batched_colors, colours):
            node.batched_colors = colours

    def _add(self, link: str, spheres: Array) -> viser.BatchedMeshHandle:
        path = f"{self._link_nodes[link]}/spheres"
        node = add_spheres(
            self._scene, path, spheres, self._colours(link, len(spheres)), opacity=0.5
        )
        self.nodes[link] = node

        async def clicked(event: viser.SceneNodePointerEvent[viser.BatchedMeshHandle]) -> None:
            if event.instance_index is not None:
                self._picked(link, int(event.instance_index))

        node.on_click(clicked)
        return node

    def _colours(self, link: str, count: int) -> NDArray[np.uint8]:
        session = self._session
        plain = LINK_RGB if link == session.link else OTHER_RGB
        colours = np.tile(np.array(plain, dtype=np.uint8), (count, 1))
        if link == session.link and session.index < count:
            colours[session.index] = CHOSEN_RGB
        return colours
