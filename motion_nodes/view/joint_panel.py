# SPDX-License-Identifier: Apache-2.0
"""Sliders and named states of one robot on the panel.

All functions here run on viser's event loop. There the value that a page sent and the value that
mirrors the robot cannot overtake each other. A value that is sent to a page is written over what
somebody is typing there, so a robot at rest sends none, and the first value from a page ends it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import viser

from motion_nodes.model.tree import Array, JointKind
from motion_nodes.view.debounced_inputs import SettledValues
from motion_nodes.view.viewed_robot import ViewedRobot

SLIDER_STEPS = {JointKind.PRISMATIC: 0.0005}
"""Resolution of a slider [m]; others have ``ANGLE_STEP``."""
ANGLE_STEP = 0.001
"""Resolution of a slider [rad]."""
LEAST_CHANGE = 0.8
"""Of a step: a robot that moved less is still where the slider shows it, whatever the noise."""
_GRIPPER = "gripper"

_T = TypeVar("_T")


class JointPanel:
    """Shows joint positions and takes wishes for them.

    Args:
        gui: viser's panel; elements go into the folder that is open.
        viewed: the robot.
        on_target: called with joint name and position when somebody moves a slider.
        on_state: called with the name of the named state whose button was pressed.
    """

    def __init__(
        self,
        gui: viser.GuiApi,
        viewed: ViewedRobot,
        on_target: Callable[[str, float], None],
        on_state: Callable[[str], None],
    ) -> None:
        """Add the elements."""
        self._viewed = viewed
        self._on_target, self._on_state = on_target, on_state
        self._settled = SettledValues(self._asked)
        self._index = {name: i for i, name in enumerate(viewed.model.joint_names)}
        self.sliders: dict[str, viser.GuiSliderHandle[float]] = {}
        if viewed.named_states and viewed.sliders:
            self.states = gui.add_button_group(
                "Go to", tuple(viewed.named_states), hint="Send the robot to a named state."
            )
            self.states.on_click(self._state_pressed)
        self.follow = gui.add_checkbox(
            "Follow",
            True,
            hint="Sliders show where the robot is. Moving one switches this off: from then on "
            "they show what you asked for. To type while the robot moves, switch it off first.",
            visible=bool(viewed.sliders),
        )
        for name, label in zip(
            viewed.sliders or (), short_labels(tuple(viewed.sliders or ())), strict=True
        ):
            self._add_slider(gui, name, label)
        self.gripper: viser.GuiSliderHandle[float] | None = None
        if viewed.gripper:
            self.gripper = gui.add_slider(
                "Gripper [%]", min=0.0, max=100.0, step=1.0, initial_value=100.0,
                marks=((0.0, "closed"), (100.0, "open")), hint="All fingers at once.",
            )  # fmt: skip
            self.gripper.on_update(self._gripped)
            self._settled.know(_GRIPPER, 100.0)

    def mirror(self, q: Array) -> None:
        """Show positions [rad or m], shape (n,), unless somebody has taken hold of a slider."""
        if not self.follow.value:
            return
        for name, slider in self.sliders.items():
            value = float(q[self._index[name]])
            if np.isfinite(value):
                self._show(name, slider, self._bounded(slider, value, name))
        if self.gripper is not None:
            shares = [
                (q[self._index[joint]] - closed) / (opened - closed)
                for joint, (closed, opened) in self._viewed.gripper.items()
                if opened != closed
            ]
            share = float(np.mean(shares)) if shares else np.nan
            if np.isfinite(share):
                self._show(_GRIPPER, self.gripper, float(np.clip(100.0 * share, 0.0, 100.0)))

    def _bounded(self, slider: viser.GuiSliderHandle[float], value: float, name: str) -> float:
        """Return a joint position within the ends of its slider."""
        if self._viewed.model.tree.joint(name).kind is JointKind.CONTINUOUS:
            value = (value + np.pi) % (2.0 * np.pi) - np.pi
        return float(min(max(value, slider.min), slider.max))

    def _show(self, key: str, slider: viser.GuiSliderHandle[float], value: float) -> None:
        """Have a slider show a value, on its nearest step."""
        if abs(value - slider.value) < LEAST_CHANGE * slider.step:
            return
        on_step = min(max(round(value / slider.step) * slider.step, slider.min), slider.max)
        show_value(slider, float(on_step))
        self._settled.know(key, float(on_step))

    def _add_slider(self, gui: viser.GuiApi, name: str, label: str) -> None:
        """Add the slider of one joint."""
        joint = self._viewed.model.tree.joint(name)
        lower = joint.lower if np.isfinite(joint.lower) else -np.pi
        upper = joint.upper if np.isfinite(joint.upper) else np.pi
        home = float(self._viewed.model.home[self._index[name]])
        slides = joint.kind is JointKind.PRISMATIC
        slider = gui.add_slider(
            f"{label} [{'m' if slides else 'rad'}]",
            min=float(lower),
            max=float(upper),
            step=SLIDER_STEPS.get(joint.kind, ANGLE_STEP),
            initial_value=float(np.clip(home, lower, upper)),
            marks=_marks(lower, upper, slides),
            hint=_hint(name, lower, upper, slides),
        )
        self.sliders[name] = slider

        async def moved(event: viser.GuiEvent[viser.GuiSliderHandle[float]]) -> None:
            # Without a client it was the program that set the value, in mirror().
            if event.client is not None:
                show_value(self.follow, False)
                self._settled.take(name, float(event.target.value), slider.max - slider.min)

        slider.on_update(moved)
        self._settled.know(name, float(slider.value))

    async def _gripped(self, event: viser.GuiEvent[viser.GuiSliderHandle[float]]) -> None:
        """Ask for the fingers to be opened so far."""
        if event.client is not None:
            show_value(self.follow, False)
            self._settled.take(_GRIPPER, float(event.target.value), 100.0)

    def _asked(self, key: str, value: float) -> None:
        """Tell of what somebody asks for: a joint's position, or the gripper's opening [%]."""
        if key != _GRIPPER:
            self._on_target(key, value)
            return
        for joint, (closed, opened) in self._viewed.gripper.items():
            self._on_target(joint, closed + value / 100.0 * (opened - closed))

    async def _state_pressed(self, event: viser.GuiEvent[viser.GuiButtonGroupHandle]) -> None:
        """Ask for a named state, and show how the robot goes there."""
        if event.client is not None:
            show_value(self.follow, True)
            self._settled.forget()
            self._on_state(str(event.target.value))


def show_value(handle: viser.GuiInputHandle[_T], value: _T) -> None:
    """Set what an element shows."""
    # viser defines the setter away from its getter, where mypy does not find it.
    handle.value = value  # type: ignore[misc]


def short_labels(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names without the words that all of them begin with."""
    if len(names) < 2:
        return names
    first, last = min(names), max(names)
    same = 0
    while same < min(len(first), len(last)) and first[same] == last[same]:
        same += 1
    cut = first.rfind("_", 0, same) + 1
    return tuple(name[cut:] for name in names)


def _marks(lower: float, upper: float, slides: bool) -> tuple[tuple[float, str], ...]:
    """Return the marks below a slider: its ends, in degrees or millimetres."""
    if slides:
        return ((lower, f"{1000 * lower:.0f} mm"), (upper, f"{1000 * upper:.0f} mm"))
    return ((lower, f"{np.rad2deg(lower):.0f}°"), (upper, f"{np.rad2deg(upper):.0f}°"))


def _hint(name: str, lower: float, upper: float, slides: bool) -> str:
    """Return the text that appears over a slider."""
    if slides:
        return f"{name}: {lower:.4g} to {upper:.4g} m"
    degrees = f"{np.rad2deg(lower):.1f}° to {np.rad2deg(upper):.1f}°"
    return f"{name}: {lower:.4g} to {upper:.4g} rad ({degrees})"
