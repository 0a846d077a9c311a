# SPDX-License-Identifier: Apache-2.0
"""The target of a tool: dragged in the scene, or shown as received from another program."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import viser

from motion_nodes.model.link_poses import LinkPoses
from motion_nodes.model.poses import inverse
from motion_nodes.typing import Array
from motion_nodes.view.angle_unit import AngleUnit
from motion_nodes.view.button_colours import SECONDARY
from motion_nodes.view.drag_handles import DragHandles
from motion_nodes.view.joint_panel import show_value
from motion_nodes.view.pose_panel import PosePanel
from motion_nodes.view.scaling_panel import MotionScaling
from motion_nodes.view.status_text import plain
from motion_nodes.view.ui_commands import PLAN_VERBS, TargetCommand
from motion_nodes.view.viewed_robot import PLANNER, RMPFLOW, ViewedRobot, checked_pose

TARGET_RGB = (225, 60, 130)
RELATIVE_SIZE = 0.2
"""Size of the handles relative to the robot's extent in the home configuration."""
MIN_SIZE = 0.05
"""Min size of the handles [m]."""


class TargetGizmo:
    """Accepts targets from any thread, and reports those that the user sets.

    Args:
        server: the viser server; panel elements are added to the active container.
        viewed: a robot with a tool and followers.
        base: scene node of its scene frame.
        commanded: called on viser's event loop with targets set by the user.
        redraw: called when the scene must be redrawn.
        unit: of angles on the panel.
        scaling: returns the scaling factors for plans.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        viewed: ViewedRobot,
        base: str,
        commanded: Callable[[TargetCommand], None],
        redraw: Callable[[], None],
        unit: AngleUnit,
        scaling: Callable[[], MotionScaling],
    ) -> None:
        """Add the elements to the panel; the target itself is hidden."""
        self._scaling = scaling
        self._viewed, self._commanded, self._redraw = viewed, commanded, redraw
        self._scene = server.scene
        self._poses = LinkPoses(viewed.model.tree)
        names = viewed.model.tree.frame_names
        self._rows = names.index(viewed.scene_frame or names[0]), names.index(viewed.tool)
        self._lock = threading.Lock()
        self._received: Array | None = None
        self._q = np.asarray(viewed.model.home, dtype=np.float64)
        self._new_received = self._was_shown = self._reset_pending = self._placed = False
        self._mark: viser.SceneNodeHandle | None = None
        self._texts: dict[str, str] = {}
        path = f"{base}/target"
        self.handles = DragHandles(server.scene, path, self._size(), self._dragged)
        self.show = server.gui.add_checkbox(
            "Show target handle",
            False,
            hint="Drag the arrows and rings at the tool to move the robot.",
        )
        self.follower = server.gui.add_dropdown(
            "Controller",
            tuple(viewed.followers),
            hint="RMPflow: reactive, avoids obstacles. IK: joint motion without collision "
            "checks. Planner: plans and executes on request.",
        )
        self.turn = server.gui.add_checkbox("Allow rotation", True)
        self.plan = server.gui.add_button_group("Motion", tuple(PLAN_VERBS), visible=False)
        self.stop = server.gui.add_button("Stop", color="red", icon=viser.Icon.HAND_STOP)
        reset = server.gui.add_button(
            "Reset target to tool", color=SECONDARY, icon=viser.Icon.TARGET
        )
        self._message = server.gui.add_markdown("", visible=False)
        self.pose = PosePanel(server.gui, self.current, self._pose_set, unit)
        self.show.on_update(self._show_changed)
        self.follower.on_update(self._follower_changed)
        self.plan.on_click(self._plan_pressed)
        self.stop.on_click(self._stop_pressed)
        reset.on_click(self._reset_pressed)
        self._show_plan_buttons()

    def set_target(self, X_BT: object) -> None:
        """Show a received target.

        Args:
            X_BT: pose of the tool in the scene frame, shape (4, 4).

        Raises:
            InvalidCommand: not a finite rigid pose; the previous target is kept.
        """
        pose = checked_pose(X_BT, f"{self._viewed.name}: target")
        with self._lock:
            self._received = pose

    def current(self) -> Array:
        """Return the pose of the target; without one, that of the tool."""
        known = self._placed or (self.show.value and not self._reset_pending)
        return self.handles.pose if known else self._tool(self._q)

    def set_message(self, text: str, follower: str) -> None:
        """Store the status of a controller, shown below the target while it is selected."""
        self._texts[follower] = text

    def draw(self, q: Array) -> None:
        """Send changes since the last call; ``q``: joint positions [rad or m], shape (n,)."""
        self._q = q
        with self._lock:
            received, self._received = self._received, None
            reset, self._reset_pending = self._reset_pending, False
        if received is not None:
            self._new_received = self._placed = True
            self.handles.place(received)
        elif reset:
            self.handles.place(self._tool(q), by_user=True)
        shown = bool(self.show.value)
        self.handles.show(shown, bool(self.turn.value))
        if shown and self._mark is None:
            self._mark = self._scene.add_icosphere(
                f"{self.handles.path}/mark", radius=0.12 * self.handles.size, color=TARGET_RGB,
                subdivisions=2, opacity=0.8, cast_shadow=False,
            )  # fmt: skip

    def refresh_panel(self) -> None:
        """Update the panel; on viser's event loop."""
        if self._new_received:
            # The first received target is shown; the user may hide it.
            self._new_received = False
            if not self._was_shown:
                self._was_shown = True
                show_value(self.show, True)
                self._redraw()
        self.pose.refresh(self.current())
        text = plain(self._texts.get(str(self.follower.value), ""))
        if text != self._message.content:
            self._message.content, self._message.visible = text, bool(text)

    def _size(self) -> float:
        X_RL = self._poses.in_root(np.asarray(self._viewed.model.home, dtype=np.float64))
        reach = float(np.linalg.norm(X_RL[:, :3, 3], axis=1).max())
        return max(RELATIVE_SIZE * reach, MIN_SIZE)

    def _tool(self, q: Array) -> Array:
        X_RL = self._poses.in_root(q)
        base, tool = self._rows
        return np.asarray(inverse(X_RL[base]) @ X_RL[tool])

    def _dragged(self, X_BT: Array, ended: bool) -> None:
        if self.follower.value != PLANNER:
            self._commanded(TargetCommand(X_BT, self.follower.value))

    def _pose_set(self, X_BT: Array) -> None:
        """Move the target to a pose from the panel, and command it as if it were dragged."""
        self._placed = self._was_shown = True
        self.handles.place(X_BT, by_user=True)
        show_value(self.show, True)
        self._dragged(X_BT, True)
        self._redraw()

    def _show_plan_buttons(self) -> None:
        self.plan.visible = self.follower.value == PLANNER
        # IK commands the joints once: there is no ongoing motion to stop.
        self.stop.visible = self.follower.value == RMPFLOW

    async def _show_changed(self, event: viser.GuiEvent[viser.GuiCheckboxHandle]) -> None:
        if event.client is not None:
            self._was_shown = True
            if self.show.value and not self._placed:
                self._reset_to_tool()
            self._redraw()

    async def _follower_changed(self, _: viser.GuiEvent[viser.GuiDropdownHandle[str]]) -> None:
        self._show_plan_buttons()

    async def _plan_pressed(self, event: viser.GuiEvent[viser.GuiButtonGroupHandle]) -> None:
        if event.client is not None:
            verb = PLAN_VERBS[str(event.target.value)]
            scaling = self._scaling()
            self._commanded(
                TargetCommand(self.current(), PLANNER, verb, scaling.velocity, scaling.acceleration)
            )

    async def _stop_pressed(self, event: viser.GuiEvent[viser.GuiButtonHandle]) -> None:
        if event.client is not None:
            self._commanded(TargetCommand(self.handles.pose, str(self.follower.value), "stop"))

    async def _reset_pressed(self, event: viser.GuiEvent[viser.GuiButtonHandle]) -> None:
        if event.client is not None:
            self.pose.end_editing()
            self._reset_to_tool()
            self._redraw()

    def _reset_to_tool(self) -> None:
        with self._lock:
            self._reset_pending = True
