# SPDX-License-Identifier: Apache-2.0
"""The target of an arm: dragged in the picture, or shown where somebody else puts it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import viser

from motion_nodes.model.poses import inverse
from motion_nodes.model.tree import Array
from motion_nodes.view.drag_handles import DragHandles
from motion_nodes.view.joint_panel import show_value
from motion_nodes.view.link_poses import LinkPoses
from motion_nodes.view.status_text import plain
from motion_nodes.view.ui_commands import TargetWish
from motion_nodes.view.viewed_robot import PLANNER, RMPFLOW, ViewedRobot, checked_pose

TARGET_RGB = (225, 60, 130)
SHARE_OF_REACH = 0.2
"""Size of the handles, as a part of how far the robot reaches at home."""
LEAST_SIZE = 0.05


class TargetGizmo:
    """Takes targets from any thread, and wishes for them from the page.

    Args:
        server: the viser server; panel elements go into the tab that is open.
        viewed: a robot with a tool and somebody who follows targets.
        base: name of the node of its scene frame.
        wish: called on viser's event loop with what somebody wants.
        redraw: called when the picture is to be drawn anew.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        viewed: ViewedRobot,
        base: str,
        wish: Callable[[TargetWish], None],
        redraw: Callable[[], None],
    ) -> None:
        """Add the part of the panel; the target itself is hidden."""
        self._viewed, self._wish, self._redraw = viewed, wish, redraw
        self._scene = server.scene
        self._poses = LinkPoses(viewed.model.tree)
        names = viewed.model.tree.frame_names
        self._rows = names.index(viewed.scene_frame or names[0]), names.index(viewed.tool)
        self._lock = threading.Lock()
        self._heard: Array | None = None
        self._heard_any = self._was_shown = self._to_tool = self._known = False
        self._mark: viser.SceneNodeHandle | None = None
        self._text = ""
        path = f"{base}/target"
        self.handles = DragHandles(server.scene, path, self._size(), self._dragged)
        self.show = server.gui.add_checkbox(
            "Drag a target",
            False,
            hint="Arrows and rings at the tool: drag them, and the robot follows.",
        )
        self.follower = server.gui.add_dropdown(
            "Who follows",
            tuple(viewed.followers),
            hint="RMPflow goes around obstacles at once; IK goes straight to it; the planner "
            "waits for a button.",
        )
        self.turn = server.gui.add_checkbox("Turn it, too", True)
        self.plan = server.gui.add_button_group("Motion", ("Plan", "Go", "Stop"), visible=False)
        self.stop = server.gui.add_button("Stop", color="red", icon=viser.Icon.HAND_STOP)
        back = server.gui.add_button("Back to the tool", icon=viser.Icon.TARGET)
        self._words = server.gui.add_markdown("", visible=False)
        self.show.on_update(self._shown)
        self.follower.on_update(self._chosen)
        self.plan.on_click(self._pressed)
        self.stop.on_click(self._stopped)
        back.on_click(self._back)
        self._show_plan_buttons()

    def take(self, X_BT: object) -> None:
        """Show where somebody else wants the tool, in the scene frame, shape (4, 4).

        Raises:
            InvalidCommand: when it is no finite rigid pose; the last one stays.
        """
        pose = checked_pose(X_BT, f"{self._viewed.name}: target")
        with self._lock:
            self._heard = pose

    def take_words(self, text: str) -> None:
        """Take what there is to say of the target's follower."""
        self._text = text

    def draw(self, q: Array) -> None:
        """Send what changed, with the robot's joints at ``q``, shape (n,)."""
        with self._lock:
            heard, self._heard = self._heard, None
            to_tool, self._to_tool = self._to_tool, False
        if heard is not None:
            self._heard_any = self._known = True
            self.handles.place(heard)
        elif to_tool:
            self.handles.place(self._tool(q))
        shown = bool(self.show.value)
        self.handles.show(shown, bool(self.turn.value))
        if shown and self._mark is None:
            self._mark = self._scene.add_icosphere(
                f"{self.handles.path}/mark", radius=0.12 * self.handles.size, color=TARGET_RGB,
                subdivisions=2, opacity=0.8, cast_shadow=False,
            )  # fmt: skip

    def refresh_panel(self) -> None:
        """Renew the panel; on viser's event loop."""
        if self._heard_any:
            # Whoever moves a target wants it to be seen; people may hide it again.
            self._heard_any = False
            if not self._was_shown:
                self._was_shown = True
                show_value(self.show, True)
                self._redraw()
        text = plain(self._text)
        if text != self._words.content:
            self._words.content, self._words.visible = text, bool(text)

    def _size(self) -> float:
        X_RL = self._poses.in_root(np.asarray(self._viewed.model.home, dtype=np.float64))
        reach = float(np.linalg.norm(X_RL[:, :3, 3], axis=1).max())
        return max(SHARE_OF_REACH * reach, LEAST_SIZE)

    def _tool(self, q: Array) -> Array:
        X_RL = self._poses.in_root(q)
        base, tool = self._rows
        return np.asarray(inverse(X_RL[base]) @ X_RL[tool])

    def _dragged(self, X_BT: Array, ended: bool) -> None:
        if self.follower.value != PLANNER:
            self._wish(TargetWish(X_BT, self.follower.value))

    def _show_plan_buttons(self) -> None:
        self.plan.visible = self.follower.value == PLANNER
        # Inverse kinematics sends the joints there at once: there is nothing to stop.
        self.stop.visible = self.follower.value == RMPFLOW

    async def _shown(self, event: viser.GuiEvent[viser.GuiCheckboxHandle]) -> None:
        if event.client is not None:
            self._was_shown = True
            if self.show.value and not self._known:
                self._put_at_tool()
            self._redraw()

    async def _chosen(self, _: viser.GuiEvent[viser.GuiDropdownHandle[str]]) -> None:
        self._show_plan_buttons()

    async def _pressed(self, event: viser.GuiEvent[viser.GuiButtonGroupHandle]) -> None:
        if event.client is not None:
            verb = str(event.target.value).lower()
            self._wish(TargetWish(self.handles.pose, PLANNER, verb))

    async def _stopped(self, event: viser.GuiEvent[viser.GuiButtonHandle]) -> None:
        if event.client is not None:
            self._wish(TargetWish(self.handles.pose, str(self.follower.value), "stop"))

    async def _back(self, event: viser.GuiEvent[viser.GuiButtonHandle]) -> None:
        if event.client is not None:
            self._put_at_tool()
            self._redraw()

    def _put_at_tool(self) -> None:
        with self._lock:
            self._to_tool = True
