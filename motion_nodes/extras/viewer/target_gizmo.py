# SPDX-License-Identifier: Apache-2.0
"""The target of a tool: dragged in the scene, or shown as received from another program."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable

import numpy as np
import viser
from numpy.typing import ArrayLike

from motion_nodes.core.robot.link_poses import LinkPoses
from motion_nodes.core.robot.poses import (
    from_xyz_quat,
    from_xyz_rpy,
    inverse,
    rigid_pose,
    to_quat_wxyz,
    to_rpy,
)
from motion_nodes.core.robot.tree import frozen
from motion_nodes.extras.viewer.joint_panel import show_value
from motion_nodes.extras.viewer.panel_style import (
    DEG,
    SECONDARY,
    AngleUnit,
    by_user,
    on_loop,
    plain,
    show_text,
)
from motion_nodes.extras.viewer.ui_commands import (
    PLAN_VERBS,
    PanelEvents,
    PlanCommand,
    TargetCommand,
)
from motion_nodes.extras.viewer.viewed_robot import PLANNER, RMPFLOW, ViewedRobot
from motion_nodes.typing import Array

STEPS = ((0.001, 1.0), (0.005, 2.0), (0.02, 5.0), (0.1, 15.0))
"""Jog steps: translation [m] and rotation [degrees]."""
DEFAULT_STEP = 1
"""Index of the initial jog step."""
ANGLE_STEPS = 0.001, 0.1
"""Step of the rotation [rad] and [deg]."""
EDITING_TIME = 10.0
"""Time after an edit during which the numbers are not replaced by the pose of the target [s]."""
BASE, TOOL = "base", "tool"
"""Frames in which a pose is jogged."""
DIRECTIONS = ("+X", "-X", "+Y", "-Y", "+Z", "-Z")
HOLD = 0.7
"""Time after a drag during which the program does not move the handles [s], because poses received
meanwhile may be outdated."""
MIN_MOVE = 1e-7
"""Smaller changes of the pose's elements are not sent."""
TARGET_RGB = (225, 60, 130)
RELATIVE_SIZE = 0.2
"""Size of the handles relative to the robot's extent in the home configuration."""
MIN_SIZE = 0.05
"""Min size of the handles [m]."""


def jogged(X_BT: Array, direction: str, step: tuple[float, float], frame: str, turn: bool) -> Array:
    """Return a pose moved by one step.

    Args:
        X_BT: pose of the tool in the base frame, shape (4, 4).
        direction: one of :data:`DIRECTIONS`.
        step: translation [m] and rotation [degrees].
        frame: axes of the step, ``base`` or ``tool``; rotations are about the tool's origin.
        turn: whether to rotate.
    """
    axis = np.zeros(3)
    axis["XYZ".index(direction[1])] = 1.0 if direction[0] == "+" else -1.0
    zero = np.zeros(3)
    change = from_xyz_rpy(zero, np.deg2rad(step[1]) * axis) if turn else np.eye(4)
    if not turn:
        change[:3, 3] = step[0] * axis
    if frame == TOOL:
        return np.asarray(X_BT @ change)
    moved = X_BT.copy()
    moved[:3, :3] = change[:3, :3] @ X_BT[:3, :3]
    moved[:3, 3] += change[:3, 3]
    return moved


class PosePanel:
    """Shows a pose as numbers, and reports poses that are entered or jogged.

    Args:
        gui: viser's panel; elements are added to the active container.
        current: returns the pose of the target, shape (4, 4).
        moved: called on viser's event loop with poses set by the user.
        unit: of the rotation.
    """

    def __init__(
        self,
        gui: viser.GuiApi,
        current: Callable[[], Array],
        moved: Callable[[Array], None],
        unit: AngleUnit,
    ) -> None:
        self._gui, self._current, self._moved, self._unit = gui, current, moved, unit
        self._shown = np.full((4, 4), np.nan)
        self._edited_until = 0.0
        with gui.add_folder("Pose", expand_by_default=False) as self._folder:
            self.position = gui.add_vector3("Position [m]", (0.0, 0.0, 0.0), step=0.001)
            self.position.on_update(by_user(self._edited))
            self.rotation = self._add_rotation()
            enter = gui.add_button("Move target to pose", hint="Applies the numbers above.")
            self.frame = gui.add_dropdown("Jog frame", (BASE, TOOL))
            labels = self._step_labels()
            self.step = gui.add_dropdown("Jog step", labels, initial_value=labels[DEFAULT_STEP])
            self.translate = gui.add_button_group("Translate", DIRECTIONS)
            self.rotate = gui.add_button_group("Rotate", DIRECTIONS)
        unit.on_change.append(self._unit_changed)
        enter.on_click(by_user(self._entered))
        for group in (self.translate, self.rotate):
            group.on_click(by_user(functools.partial(self._jogged, group)))

    def refresh(self, X_BT: Array) -> None:
        """Show a pose, unless it is shown already or the user edits it; on viser's event loop."""
        editing = time.monotonic() < self._edited_until
        if editing or np.abs(X_BT - self._shown).max() < 5e-5:
            return
        self._shown = X_BT.copy()
        # viser defines the setters where mypy does not find them.
        self.position.value = tuple(np.round(X_BT[:3, 3], 4).tolist())  # type: ignore[misc]
        angles = np.round(self._unit.per_radian * to_rpy(X_BT), round(self._unit.pick(4, 2)))
        self.rotation.value = tuple(angles.tolist())  # type: ignore[misc]

    def end_editing(self) -> None:
        """Show the pose of the target again, because the user chose another one."""
        self._edited_until = 0.0

    def _add_rotation(self, order: float | None = None) -> viser.GuiVector3Handle:
        rotation = self._gui.add_vector3(
            f"RPY [{self._unit.name}]", (0.0, 0.0, 0.0), step=self._unit.pick(*ANGLE_STEPS),
            hint="Roll, pitch and yaw (URDF).", order=order,
        )  # fmt: skip
        rotation.on_update(by_user(self._edited))
        return rotation

    def _step_labels(self) -> tuple[str, ...]:
        """Return the labels of the jog steps."""
        turns = (
            f"{turn:g}°" if self._unit.name == DEG else f"{np.deg2rad(turn):.3f} rad"
            for _, turn in STEPS
        )
        return tuple(
            f"{1e3 * move:g} mm, {turn}" for (move, _), turn in zip(STEPS, turns, strict=True)
        )

    def _unit_changed(self) -> None:
        """Replace the rotation: a value that a page still sends in the unit before is ignored."""
        chosen = tuple(self.step.options).index(str(self.step.value))
        labels = self._step_labels()
        self.step.options = labels
        self.step.value = labels[chosen]
        before = self.rotation
        before.remove()
        with self._folder:
            self.rotation = self._add_rotation(before.order)
        self.end_editing()
        self._shown[:] = np.inf
        self.refresh(self._current())

    def _edited(self) -> None:
        self._edited_until = time.monotonic() + EDITING_TIME

    def _entered(self) -> None:
        values = np.array([self.position.value, self.rotation.value])
        if np.isfinite(values).all():
            self.end_editing()
            self._moved(from_xyz_rpy(values[0], values[1] / self._unit.per_radian))

    def _jogged(self, group: viser.GuiButtonGroupHandle) -> None:
        self.end_editing()
        step = STEPS[tuple(self.step.options).index(str(self.step.value))]
        frame, turn = str(self.frame.value), group is self.rotate
        self._moved(jogged(self._current(), str(group.value), step, frame, turn))


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
        self, scene: viser.SceneApi, path: str, size: float, dragged: Callable[[Array, bool], None]
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


class TargetGizmo:
    """Accepts targets from any thread, and reports those that the user sets.

    Args:
        server: the viser server; panel elements are added to the active container.
        viewed: a robot with a tool and followers.
        base: scene node of its scene frame.
        events: receivers of the panel's commands.
        unit: of angles on the panel.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        viewed: ViewedRobot,
        base: str,
        events: PanelEvents,
        unit: AngleUnit,
    ) -> None:
        """Add the elements to the panel; the target itself is hidden."""
        self._viewed, self._events, self._redraw = viewed, events, events.redraw
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
        reach = float(np.linalg.norm(self._poses.in_root(self._q)[:, :3, 3], axis=1).max())
        size = max(RELATIVE_SIZE * reach, MIN_SIZE)
        self.handles = DragHandles(server.scene, path, size, self._dragged)
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
        self.stop = server.gui.add_button(
            "Stop", color=SECONDARY, icon=viser.Icon.HAND_STOP,
            hint="Ends the motion to a target or goal; commands are accepted further.",
        )  # fmt: skip
        reset = server.gui.add_button(
            "Reset target to tool", color=SECONDARY, icon=viser.Icon.TARGET
        )
        self._message = server.gui.add_markdown("", visible=False)
        self.pose = PosePanel(server.gui, self.current, self._pose_set, unit)
        self.show.on_update(by_user(self._show_changed))
        self.follower.on_update(on_loop(self._show_plan_buttons))
        self.plan.on_click(by_user(self._plan_pressed))
        self.stop.on_click(by_user(self._stop_pressed))
        reset.on_click(by_user(self._reset_pressed))
        self._show_plan_buttons()

    def set_target(self, X_BT: ArrayLike) -> None:
        """Show a received target.

        Args:
            X_BT: pose of the tool in the scene frame, shape (4, 4).

        Raises:
            InvalidCommand: not a finite rigid pose; the previous target is kept.
        """
        pose = frozen(rigid_pose(X_BT, f"{self._viewed.name}: target"))
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
            received = None
            if not self.handles.held:
                # The newest one received during a drag is shown after it, not lost.
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
        show_text(self._message, plain(self._texts.get(str(self.follower.value), "")))

    def _tool(self, q: Array) -> Array:
        X_RL = self._poses.in_root(q)
        base, tool = self._rows
        return np.asarray(inverse(X_RL[base]) @ X_RL[tool])

    def _dragged(self, X_BT: Array, ended: bool) -> None:
        if self.follower.value != PLANNER:
            self._events.target(TargetCommand(X_BT, self.follower.value))

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

    def _show_changed(self) -> None:
        self._was_shown = True
        if self.show.value and not self._placed:
            self._reset_to_tool()
        self._redraw()

    def _plan_pressed(self) -> None:
        verb, scaling = PLAN_VERBS[str(self.plan.value)], self._events.scaling()
        self._events.plan(PlanCommand(verb, X_BT=self.current(), scaling=scaling))

    def _stop_pressed(self) -> None:
        self._events.target(TargetCommand(self.handles.pose, str(self.follower.value), "stop"))

    def _reset_pressed(self) -> None:
        self.pose.end_editing()
        self._reset_to_tool()
        self._redraw()

    def _reset_to_tool(self) -> None:
        with self._lock:
            self._reset_pending = True
