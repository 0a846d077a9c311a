# SPDX-License-Identifier: Apache-2.0
"""Handles in the scene for dragging a pose: arrows for translation, rings for rotation."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
import viser

from motion_nodes.model.poses import from_xyz_quat, to_quat_wxyz
from motion_nodes.typing import Array

HOLD = 0.7
"""Time after a drag during which the program does not move the handles [s], because poses received
meanwhile may be outdated."""
MIN_MOVE = 1e-7
"""Smaller changes of the pose's elements are not sent."""


class DragHandles:
    """Handles at a pose that is set by both user and program.

    Args:
        scene: the viser scene.
        path: path of their node; poses are relative to its parent.
        size: of the handles [m].
        dragged: called on viser's event loop with the pose, shape (4, 4), while they are dragged,
            and with True when the drag ends.
    """

    def __init__(
        self,
        scene: viser.SceneApi,
        path: str,
        size: float,
        dragged: Callable[[Array, bool], None],
    ) -> None:
        """Create hidden handles; their node is added when they are first shown."""
        self._scene, self.path, self.size = scene, path, size
        self._dragged = dragged
        self._lock = threading.Lock()
        self._held_until = 0.0
        self._pose = np.eye(4)
        self._turning = True
        self._node: viser.TransformControlsHandle | None = None

    @property
    def pose(self) -> Array:
        """Pose relative to the parent node, shape (4, 4)."""
        with self._lock:
            return self._pose

    @property
    def held(self) -> bool:
        """Whether the user is dragging them, or was within ``HOLD``."""
        return time.monotonic() < self._held_until

    @property
    def visible(self) -> bool:
        """Whether they are shown."""
        return self._node is not None and bool(self._node.visible)

    def place(self, X: Array, *, by_user: bool = False) -> None:
        """Move them to a pose, shape (4, 4), unless they are held.

        Args:
            X: the pose.
            by_user: whether the user chose it, such as by a button: then it ends the hold.
        """
        if self.held and not by_user:
            return
        with self._lock:
            if by_user:
                self._held_until = 0.0
            moved = np.abs(X - self._pose).max() > MIN_MOVE
            self._pose = np.array(X)
        if moved and self._node is not None:
            self._node.position = X[:3, 3]
            self._node.wxyz = to_quat_wxyz(X[:3, :3])

    def show(self, shown: bool, turning: bool = True) -> None:
        """Show or hide them; on the drawing thread.

        Args:
            shown: whether to show them.
            turning: whether to show the rings for rotation.
        """
        if self._node is None:
            if not shown:
                return
            self._node = self._scene.add_transform_controls(
                self.path, scale=self.size, line_width=3.0, disable_rotations=not turning,
                depth_test=False, opacity=0.85, wxyz=to_quat_wxyz(self._pose[:3, :3]),
                position=self._pose[:3, 3],
            )  # fmt: skip
            self._turning = turning
            self._node.on_update(self._moved)
        if shown != self._node.visible:
            self._node.visible = shown
        if turning != self._turning:
            self._turning = turning
            self._node.disable_rotations = not turning

    async def _moved(self, event: viser.TransformControlsEvent) -> None:
        """Process a drag; on viser's event loop, which preserves the order of the events."""
        wxyz, position = np.asarray(event.target.wxyz), np.asarray(event.target.position)
        # Seen edge-on, a handle can be dragged to infinity by one pixel.
        if not (np.isfinite(wxyz).all() and np.isfinite(position).all() and wxyz.any()):
            return
        X = from_xyz_quat(position, np.roll(wxyz, -1))
        with self._lock:
            self._pose = X
            self._held_until = time.monotonic() + HOLD
        if event.phase != "start":
            self._dragged(X, event.phase == "end")
