# SPDX-License-Identifier: Apache-2.0
"""The drive pad of one base on the panel; handlers run on viser's event loop."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

import numpy as np
import viser

from motion_nodes.typing import Array
from motion_nodes.view.angle_unit import DEG, AngleUnit
from motion_nodes.view.arrow_keys import arrow_checkbox
from motion_nodes.view.button_colours import SECONDARY
from motion_nodes.view.drive_state import Direction, PadState, PadTwist
from motion_nodes.view.page_layout import grid_style
from motion_nodes.view.status_text import steering_line
from motion_nodes.view.viewed_robot import ViewedRobot

HOLD_RATE = 10.0
"""Rate at which a page repeats the event of a held button [Hz]."""
START_FRACTION = 0.5
"""Initial value of the speed sliders, as a fraction of their max."""

_CROSS: tuple[tuple[str, ...], ...] = (
    ("", "Forward", ""),
    ("Left", "Stop", "Right"),
    ("", "Back", ""),
)
"""Arrangement of the buttons; empty: none."""
_BELOW = {
    "holonomic": ("Slide left", "Back", "Slide right"),
    "floating": ("Slide left", "Back", "Slide right"),
    "ackermann": ("Back left", "Back", "Back right"),
}
"""Last row for kinds of bases with more directions."""
_TURNING = {
    "Forward": (Direction.FORWARD, viser.Icon.ARROW_UP),
    "Left": (Direction.TURN_LEFT, viser.Icon.ROTATE_2),
    "Right": (Direction.TURN_RIGHT, viser.Icon.ROTATE_CLOCKWISE_2),
    "Back": (Direction.BACK, viser.Icon.ARROW_DOWN),
    "Slide left": (Direction.SLIDE_LEFT, viser.Icon.ARROW_LEFT),
    "Slide right": (Direction.SLIDE_RIGHT, viser.Icon.ARROW_RIGHT),
}
_STEERED = {
    "Left": (Direction.ARC_LEFT, viser.Icon.ARROW_CURVE_LEFT),
    "Right": (Direction.ARC_RIGHT, viser.Icon.ARROW_CURVE_RIGHT),
    "Back left": (Direction.BACK_LEFT, viser.Icon.ARROW_DOWN_LEFT),
    "Back right": (Direction.BACK_RIGHT, viser.Icon.ARROW_DOWN_RIGHT),
}


class DrivePanel:
    """Buttons and speed sliders of a base.

    Args:
        gui: viser's panel; elements are added to the active container.
        viewed: the robot.
        changed: called when there is a new twist to send by ``step``.
        on_clear_trail: called to clear the trail.
        unit: of the turn rate and of steering angles.
    """

    def __init__(
        self,
        gui: viser.GuiApi,
        viewed: ViewedRobot,
        changed: Callable[[], None],
        on_clear_trail: Callable[[], None],
        unit: AngleUnit,
    ) -> None:
        """Add the elements to the panel."""
        self._gui, self._changed, self._unit = gui, changed, unit
        self._max_angular = viewed.max_angular
        self._lock = threading.Lock()
        linear, angular = viewed.max_linear, viewed.max_angular
        self._state = PadState(START_FRACTION * linear, START_FRACTION * angular)
        self.latch = gui.add_checkbox(
            "Latch",
            False,
            hint="Off: the base moves while a button is held. On: a click starts a motion that "
            "continues until Stop is pressed or the page is closed.",
        )
        self._add_pad(viewed)
        self._steering = tuple(map(viewed.model.joint_names.index, viewed.steering))
        if self._steering:
            self.angles = gui.add_markdown(steering_line([np.nan] * len(self._steering)))
        self.linear = gui.add_slider(
            "Speed [m/s]", 0.0, linear, step=linear / 100, initial_value=START_FRACTION * linear
        )
        self._turning = gui.add_folder(None)
        self._turn_rate = START_FRACTION * angular
        self.angular = self._add_angular()
        unit.on_change.append(self._unit_changed)
        self.linear.on_update(self._speed_moved)
        gui.add_button("Clear trail", color=SECONDARY, icon=viser.Icon.ERASER).on_click(
            lambda _: on_clear_trail()
        )

    def stop(self) -> None:
        """Stop; from any thread."""
        with self._lock:
            self._state.stop()
        self._changed()

    def stop_if_driving(self) -> bool:
        """Stop an active drive, from any thread; return whether there was one."""
        with self._lock:
            driving = self._state.direction is not None
        if driving:
            self.stop()
        return driving

    def show_steering(self, q: Array) -> None:
        """Show the steering angles; ``q``: all joint positions [rad or m], shape (n,)."""
        if self._steering:
            angles = [float(q[i]) for i in self._steering]
            line = steering_line(angles, self._unit.name == DEG)
            if line != self.angles.content:
                self.angles.content = line

    def client_left(self, client: int) -> None:
        """Stop a drive that was started by a disconnected page; from any thread."""
        with self._lock:
            before = self._state.direction
            self._state.client_left(client)
            changed = self._state.direction is not before
        if changed:
            self._changed()

    def latched_by(self) -> int | None:
        """Return the client id of the page with an active latched drive, from any thread."""
        with self._lock:
            return self._state.latched_by

    def step(self) -> tuple[PadTwist | None, bool]:
        """Return the twist to send now, or None, and whether the drive is active; thread-safe."""
        with self._lock:
            return self._state.step(time.monotonic()), self._state.active

    def _add_pad(self, viewed: ViewedRobot) -> None:
        """Add the buttons as a cross, and the checkbox of their keys."""
        kind = viewed.model.kind
        directions = _TURNING | (_STEERED if kind == "ackermann" else {})
        buttons: dict[str, viser.GuiButtonHandle] = {}
        rows = (*_CROSS[:2], _BELOW.get(kind, _CROSS[2]))
        for label in filter(None, (label for row in rows for label in row)):
            if label == "Stop":
                buttons[label] = self._add_stop()
            else:
                buttons[label] = self._add_direction(label, *directions[label])
        ids = {label: button._impl.uuid for label, button in buttons.items()}
        self._gui.add_html(
            grid_style([[buttons.get(label) for label in row] for row in rows])
            + arrow_checkbox(viewed.name, ids)
        )

    def _add_stop(self) -> viser.GuiButtonHandle:
        stop = self._gui.add_button("Stop", color="red", icon=viser.Icon.HAND_STOP)
        # Stops when pressed, not only when released.
        stop.on_hold(self._stop_pressed, callback_hz=HOLD_RATE)
        stop.on_click(self._stop_pressed)
        return stop

    def _add_direction(
        self, label: str, direction: Direction, icon: viser.IconName
    ) -> viser.GuiButtonHandle:
        """Add the button of a direction."""

        async def held(event: viser.GuiEvent[viser.GuiButtonHandle]) -> None:
            if event.client_id is not None and not self.latch.value:
                with self._lock:
                    self._state.hold(direction, event.client_id, time.monotonic())
                self._changed()

        async def clicked(event: viser.GuiEvent[viser.GuiButtonHandle]) -> None:
            # A page reports a click when the button is released.
            if event.client_id is None:
                return
            with self._lock:
                if self.latch.value:
                    self._state.latch(direction, event.client_id, time.monotonic())
                else:
                    self._state.release()
            self._changed()

        button = self._gui.add_button(label, icon=icon)
        button.on_hold(held, callback_hz=HOLD_RATE)
        button.on_click(clicked)
        return button

    async def _stop_pressed(self, _: viser.GuiEvent[viser.GuiButtonHandle]) -> None:
        self.stop()

    async def _speed_moved(self, _: viser.GuiEvent[viser.GuiSliderHandle[float]]) -> None:
        turn_rate = self.angular.value / self._unit.per_radian
        if not math.isfinite(self.linear.value + turn_rate):
            return
        self._turn_rate = float(np.clip(turn_rate, 0.0, self._max_angular))
        with self._lock:
            self._state.set_speeds(
                float(np.clip(self.linear.value, 0.0, self.linear.max)), self._turn_rate
            )

    def _add_angular(self) -> viser.GuiSliderHandle[float]:
        """Add the slider of the turn rate."""
        scale = self._unit.per_radian
        top, value = scale * self._max_angular, scale * self._turn_rate
        step = top / 100
        if self._unit.name == DEG and top > 1.0:
            top, value, step = float(math.floor(top)), float(round(value)), 1.0
        with self._turning:
            slider = self._gui.add_slider(
                f"Turn rate [{self._unit.name}/s]", 0.0, top, step, min(value, top)
            )
        slider.on_update(self._speed_moved)
        return slider

    def _unit_changed(self) -> None:
        """Replace the slider: a value that a page still sends in the unit before is ignored."""
        self.angular.remove()
        self.angular = self._add_angular()
