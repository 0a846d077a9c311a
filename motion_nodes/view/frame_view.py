# SPDX-License-Identifier: Apache-2.0
"""Axes and names of the frames of /tf, as RViz's TF display."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
import viser

from motion_nodes.model.poses import to_quat_wxyz
from motion_nodes.typing import Array
from motion_nodes.view.frame_tree import FrameTree
from motion_nodes.view.scene_view import escaped

AXES = 0.1
"""Length of the axes [m]."""
MAX_FRAMES = 300
"""Max number of frames drawn."""
MIN_MOVE = 5e-5
"""Smaller changes of the elements of a pose are not sent."""


@dataclass
class _Node:
    """A drawn frame."""

    parent: str
    X_PC: Array
    axes: viser.FrameHandle
    label: viser.LabelHandle | None = None


class FrameView:
    """Accepts frames from any thread and draws them on the drawing thread.

    Nodes are nested like the frames, so only frames that move in their parents cause messages.

    Args:
        scene: the viser scene.
        path: name of the parent node.
    """

    def __init__(self, scene: viser.SceneApi, path: str) -> None:
        """Start empty."""
        self._scene, self._path = scene, path
        self._lock = threading.Lock()
        self._newest: FrameTree | None = None
        self._nodes: dict[str, _Node] = {}

    @property
    def drawn(self) -> tuple[str, ...]:
        """Names of the drawn frames."""
        return tuple(self._nodes)

    def set_frames(self, tree: FrameTree) -> None:
        """Replace the frames."""
        with self._lock:
            self._newest = tree

    def draw(self, shown: bool, named: bool) -> None:
        """Send changes since the last call.

        Args:
            shown: whether to draw the frames.
            named: whether to draw their names, too.
        """
        if not shown:
            self._clear()
            return
        with self._lock:
            tree, self._newest = self._newest, None
        if tree is not None:
            self._draw_frames(tree)
        for name, node in self._nodes.items():
            if named and node.label is None:
                node.label = self._scene.add_label(f"{node.axes.name}/name", name)
            if node.label is not None and node.label.visible != named:
                node.label.visible = named

    def _draw_frames(self, tree: FrameTree) -> None:
        placed = tree.placed()[:MAX_FRAMES]
        parents = {name: parent for name, parent, _ in placed}
        # A node cannot move to another parent: all are drawn again then, which is rare.
        if any(parents.get(name) != node.parent for name, node in self._nodes.items()):
            self._clear()
        for name, parent, X_PC in placed:
            node = self._nodes.get(name)
            if node is None:
                above = self._nodes[parent].axes.name if parent else self._path
                axes = self._scene.add_frame(
                    f"{above}/{escaped(name)}", axes_length=AXES, axes_radius=0.03 * AXES,
                    origin_radius=0.04 * AXES, wxyz=to_quat_wxyz(X_PC[:3, :3]),
                    position=X_PC[:3, 3],
                )  # fmt: skip
                self._nodes[name] = _Node(parent, X_PC, axes)
            elif np.abs(X_PC - node.X_PC).max() > MIN_MOVE:
                if np.abs(X_PC[:3, :3] - node.X_PC[:3, :3]).max() > MIN_MOVE:
                    node.axes.wxyz = to_quat_wxyz(X_PC[:3, :3])
                node.axes.position = X_PC[:3, 3]
                node.X_PC = X_PC

    def _clear(self) -> None:
        for node in self._nodes.values():
            if not node.parent:
                node.axes.remove()  # with its children
        self._nodes = {}
