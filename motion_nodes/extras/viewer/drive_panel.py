# SPDX-License-Identifier: Apache-2.0
"""The drive pad of one base on the panel; handlers run on viser's event loop.

The state of a pad has a deadman switch, independent of clock and page. A direction is active only
while its button is held: the page repeats the event, and a timeout, a release, *Stop* or a
disconnected page ends it. A latched direction is active until it is stopped or the page that
latched it disconnects.

Arrow keys drive a base where a checkbox of its pad is set. A held key holds the button of its
direction, with the same deadman switch: the page repeats the event, and its end stops the base. The
checkbox is an element of HTML, so that each page has its own: somebody who turns the keys on does
not do so for others.
"""

from __future__ import annotations

import enum
import html
import json
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import viser

from motion_nodes.errors import InvalidCommand
from motion_nodes.extras.viewer.panel_style import (
    DEG,
    SECONDARY,
    AngleUnit,
    grid_style,
    on_loop,
    steering_line,
)
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot
from motion_nodes.typing import Array

HOLD_TIMEOUT = 0.5
"""Timeout of a held direction [s]; pages repeat at 10 Hz, with more jitter without a graphics card.
A release is reported immediately."""
STOP_REPEATS = 3
"""Number of zero twists sent after driving, because one message may be lost."""
LABEL = "Arrow keys"
_HINT = (
    "The arrow keys hold the buttons of the pad on this page. With Shift, holonomic bases slide. "
    "Sliders and fields that have the focus keep their keys."
)
_KEYS = {
    "Forward": "ArrowUp",
    "Left": "ArrowLeft",
    "Right": "ArrowRight",
    "Back": "ArrowDown",
    "Slide left": "ShiftArrowLeft",
    "Slide right": "ShiftArrowRight",
    "Stop": "stop",
}
SCRIPT = """
const arrows = [];  // held keys, the newest last
let pushed = null, halt = null;
const push = (button, kind) => button.dispatchEvent(new PointerEvent(kind, {bubbles: true}));
const chosenPad = () => {
  const box = document.querySelector("input[data-pad]:checked");
  return box && (box.checkVisibility?.() ?? true) ? JSON.parse(box.dataset.pad) : null;
};
const steer = () => {
  const pad = chosenPad();
  const next = pad && arrows.length ? document.getElementById(pad[arrows.at(-1)]) : null;
  if (next === pushed) return;
  if (pushed) {
    push(pushed, "pointerup");
    pushed.click();
  }
  pushed = next;
  halt = pad && document.getElementById(pad.stop);
  if (pushed) push(pushed, "pointerdown");
};
const letGo = () => {
  arrows.length = 0;
  if (!pushed) return;
  // No click: with Latch, it would start a motion.
  push(pushed, "pointerup");
  pushed = null;
  halt?.click();
};
const keepsKeys = (element) => element.closest?.("input:not([type=checkbox]), textarea, select, " +
  "[contenteditable], [role=slider], [role=tab], [role=listbox], [role=combobox]");
addEventListener("keydown", (event) => {
  if (event.key === "Escape") letGo();
  if (!event.key.startsWith("Arrow") || event.ctrlKey || event.altKey || event.metaKey) return;
  if (!event.isTrusted || keepsKeys(event.target) || !chosenPad()) return;
  // They would turn the camera, too.
  event.preventDefault();
  event.stopImmediatePropagation();
  if (!event.repeat) arrows.push((event.shiftKey ? "Shift" : "") + event.key);
  steer();
}, true);
addEventListener("keyup", (event) => {
  if (!event.key.startsWith("Arrow")) return;
  for (const key of [event.key, "Shift" + event.key]) {
    while (arrows.includes(key)) arrows.splice(arrows.indexOf(key), 1);
  }
  steer();
}, true);
addEventListener("focusin", (event) => { if (keepsKeys(event.target)) letGo(); });
addEventListener("blur", letGo);
addEventListener("pagehide", letGo);
addEventListener("visibilitychange", letGo);
addEventListener("change", (event) => {
  if (!event.target.matches?.("input[data-pad]")) return;
  letGo();
  for (const other of document.querySelectorAll("input[data-pad]")) {
    if (other !== event.target) other.checked = false;
  }
}, true);
"""
"""Part of the page's script."""
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


class Direction(enum.Enum):
    """Directions of a drive pad: signs of (vx, vy, wz).

    With the wheels steered to one side, a car in reverse moves to that side, too.
    """

    FORWARD = (1, 0, 0)
    BACK = (-1, 0, 0)
    TURN_LEFT = (0, 0, 1)
    TURN_RIGHT = (0, 0, -1)
    SLIDE_LEFT = (0, 1, 0)
    SLIDE_RIGHT = (0, -1, 0)
    ARC_LEFT = (1, 0, 1)
    ARC_RIGHT = (1, 0, -1)
    BACK_LEFT = (-1, 0, -1)
    BACK_RIGHT = (-1, 0, 1)


@dataclass(frozen=True)
class PadTwist:
    """Twist of a base in its own frame."""

    vx: float = 0.0
    """Forward velocity [m/s]."""
    vy: float = 0.0
    """Velocity to the left [m/s]."""
    wz: float = 0.0
    """Yaw rate, counter-clockwise [rad/s]."""


@dataclass(frozen=True)
class _Drive:
    direction: Direction
    client: int
    latched: bool
    seen: float


class PadState:
    """State of one drive pad; not thread-safe, the caller provides the time.

    Args:
        linear: linear speed [m/s].
        angular: turn rate [rad/s].

    Raises:
        InvalidCommand: a negative or non-finite speed.
    """

    def __init__(self, linear: float, angular: float) -> None:
        self._linear = self._angular = 0.0
        self.set_speeds(linear, angular)
        self._drive: _Drive | None = None
        self._zeros_due = 0

    @property
    def active(self) -> bool:
        """Whether there is a twist to send, including the zeros at the end of a motion."""
        return self._drive is not None or self._zeros_due > 0

    @property
    def direction(self) -> Direction | None:
        """Active direction; None at rest."""
        return self._drive.direction if self._drive else None

    @property
    def latched_by(self) -> int | None:
        """Client id of the page with an active latched drive, or None."""
        return self._drive.client if self._drive and self._drive.latched else None

    def set_speeds(self, linear: float, angular: float) -> None:
        """Set the speeds, also of an active drive.

        Args:
            linear: linear speed [m/s].
            angular: turn rate [rad/s].

        Raises:
            InvalidCommand: a negative or non-finite speed; nothing changes.
        """
        if not (np.isfinite([linear, angular]).all() and linear >= 0.0 and angular >= 0.0):
            raise InvalidCommand(
                f"drive speeds are {linear} m/s and {angular} rad/s; both must be finite and 0 or "
                "above.",
                field="speeds",
            )
        self._linear, self._angular = float(linear), float(angular)

    def hold(self, direction: Direction, client: int, now: float) -> None:
        """Start or continue a drive while a button is held.

        Args:
            direction: of the button.
            client: client id of the page.
            now: current time [s].
        """
        self._drive = _Drive(direction, client, latched=False, seen=now)

    def latch(self, direction: Direction, client: int, now: float) -> None:
        """Start a drive that continues until stopped; arguments as in :meth:`hold`."""
        self._drive = _Drive(direction, client, latched=True, seen=now)

    def release(self) -> None:
        """End a held drive; a latched one continues."""
        if self._drive is not None and not self._drive.latched:
            self.stop()

    def stop(self) -> None:
        """Stop; zero twists are sent even at rest."""
        self._drive = None
        self._zeros_due = STOP_REPEATS

    def client_left(self, client: int) -> None:
        """Stop a drive that was started by a disconnected page."""
        if self._drive is not None and self._drive.client == client:
            self.stop()

    def step(self, now: float) -> PadTwist | None:
        """Return the twist to send at the current time ``now`` [s], or None."""
        drive = self._drive
        if drive is not None and not drive.latched and now - drive.seen > HOLD_TIMEOUT:
            self.stop()
            drive = None
        if drive is not None:
            forward, left, turn = drive.direction.value
            return PadTwist(forward * self._linear, left * self._linear, turn * self._angular)
        if self._zeros_due > 0:
            self._zeros_due -= 1
            return PadTwist()
        return None


def _arrow_checkbox(name: str, buttons: Mapping[str, str]) -> str:
    """Return the HTML of the checkbox of a pad, whose ``buttons`` are ids by label."""
    keys = {key: buttons[label] for label, key in _KEYS.items() if label in buttons}
    data = html.escape(json.dumps(keys), quote=True)
    key = html.escape(f"keys-{name}", quote=True)
    return (
        '<div style="display: flex; align-items: center; margin: 0 0.75em 0.5em; '
        f'font-size: 0.875em" title="{html.escape(_HINT, quote=True)}">'
        f'<label for="{key}" style="width: 8.2em; opacity: 0.55; letter-spacing: -0.75px">{LABEL}'
        f'</label><input type="checkbox" id="{key}" data-pad="{data}" '
        'style="width: 1.1em; height: 1.1em; margin: 0"></div>'
    )


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
        self.linear.on_update(on_loop(self._speed_moved))
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
            + _arrow_checkbox(viewed.name, ids)
        )

    def _add_stop(self) -> viser.GuiButtonHandle:
        stop = self._gui.add_button("Stop", color=SECONDARY, icon=viser.Icon.HAND_STOP)
        # Stops when pressed, not only when released.
        stop.on_hold(on_loop(self.stop), callback_hz=HOLD_RATE)
        stop.on_click(on_loop(self.stop))
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

    def _speed_moved(self) -> None:
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
        slider.on_update(on_loop(self._speed_moved))
        return slider

    def _unit_changed(self) -> None:
        """Replace the slider: a value that a page still sends in the unit before is ignored."""
        self.angular.remove()
        self.angular = self._add_angular()
