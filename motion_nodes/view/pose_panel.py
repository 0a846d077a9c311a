# SPDX-License-Identifier: Apache-2.0
"""Numbers and jog buttons of a target pose on the panel."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import viser

from motion_nodes.model.poses import from_xyz_rpy, to_rpy
from motion_nodes.typing import Array
from motion_nodes.view.angle_unit import DEG, AngleUnit

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
        """Add a closed folder."""
        self._gui, self._current, self._moved, self._unit = gui, current, moved, unit
        self._shown = np.full((4, 4), np.nan)
        self._edited_until = 0.0
        with gui.add_folder("Pose", expand_by_default=False) as self._folder:
            self.position = gui.add_vector3("Position [m]", (0.0, 0.0, 0.0), step=0.001)
            self.position.on_update(self._edited)
            self.rotation = self._add_rotation()
            enter = gui.add_button("Move target to pose", hint="Applies the numbers above.")
            self.frame = gui.add_dropdown("Jog frame", (BASE, TOOL))
            labels = self._step_labels()
            self.step = gui.add_dropdown("Jog step", labels, initial_value=labels[DEFAULT_STEP])
            self.translate = gui.add_button_group("Translate", DIRECTIONS)
            self.rotate = gui.add_button_group("Rotate", DIRECTIONS)
        unit.on_change.append(self._unit_changed)
        enter.on_click(self._entered)
        self.translate.on_click(self._jogged)
        self.rotate.on_click(self._jogged)

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
        rotation.on_update(self._edited)
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

    async def _edited(self, event: viser.GuiEvent[viser.GuiVector3Handle]) -> None:
        # Without a client, the value was set by refresh().
        if event.client is not None:
            self._edited_until = time.monotonic() + EDITING_TIME

    async def _entered(self, event: viser.GuiEvent[viser.GuiButtonHandle]) -> None:
        values = np.array([self.position.value, self.rotation.value])
        if event.client is not None and np.isfinite(values).all():
            self.end_editing()
            self._moved(from_xyz_rpy(values[0], values[1] / self._unit.per_radian))

    async def _jogged(self, event: viser.GuiEvent[viser.GuiButtonGroupHandle]) -> None:
        if event.client is None:
            return
        self.end_editing()
        turn = event.target is self.rotate
        step = STEPS[tuple(self.step.options).index(str(self.step.value))]
        frame = str(self.frame.value)
        self._moved(jogged(self._current(), str(event.target.value), step, frame, turn))
