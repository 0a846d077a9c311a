# SPDX-License-Identifier: Apache-2.0
"""Joint sliders and named states of one robot on the panel.

All functions run on viser's event loop, so values from a page and values sent to it are processed
in order. A value sent to a page overwrites the user's input: so a robot at rest sends none, and the
first value from a page ends the updates.

In the mode for goals of the planner sliders command nothing: they move the ghost, and Plan and
Execute send its positions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import numpy as np
import viser

from motion_nodes.core.robot.limits import turns_of
from motion_nodes.core.robot.tree import JointKind
from motion_nodes.extras.viewer.panel_style import AngleUnit, by_user, plain, show_text
from motion_nodes.extras.viewer.robot_view import GHOST, Appearance, RobotView, ghost_of
from motion_nodes.extras.viewer.ui_commands import (
    PLAN_VERBS,
    DebouncedValues,
    MotionScaling,
    PanelEvents,
    PlanCommand,
)
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot
from motion_nodes.typing import Array

ROBOT, GOAL = "robot", "goal state"
"""What the sliders set."""
GOAL_LOOK = Appearance(rgb=(225, 60, 130), opacity=0.35, shadow=False, grow=GHOST.grow)
"""Appearance of the goal state: the colour of the target of the tool."""
REACHED = 0.005
"""A goal of which no joint is further from the robot's state than this is not drawn [rad or m]."""
SLIDE_STEP = 0.0005
"""Step of the sliders of prismatic joints [m]."""
ANGLE_STEPS = 0.001, 0.1
"""Step of the sliders of revolute joints [rad] and [deg]."""
MIN_CHANGE = 0.8
"""Changes below this fraction of a step are measurement noise and not sent."""
_GRIPPER = "gripper"
_T = TypeVar("_T")


class GoalStatePanel:
    """The goal state that joint sliders set.

    Args:
        server: the viser server; panel elements are added to the active container.
        viewed: a robot with ``planned_joints``.
        path: scene node of the robot's base, the parent of the ghost.
        values: returns the positions of the joint sliders by joint [rad or m].
        scaling: returns the scaling factors for plans.
        commanded: called on viser's event loop with goals for the planner.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        viewed: ViewedRobot,
        path: str,
        values: Callable[[], Mapping[str, float]],
        scaling: Callable[[], MotionScaling],
        commanded: Callable[[PlanCommand], None],
    ) -> None:
        """Add the elements; the sliders set the robot."""
        self._scene, self._viewed, self._path = server.scene, viewed, path
        self.values = values
        """Returns the positions of the joint sliders by joint [rad or m]."""
        self._scaling, self._commanded = scaling, commanded
        names = viewed.model.joint_names
        self._turns = turns_of(viewed.model.tree, viewed.model.joint_names)
        self._rows = np.array([names.index(name) for name in viewed.planned_joints])
        self.active = False
        """Whether the sliders set the goal state."""
        self.on_change: list[Callable[[], None]] = []
        """Called on viser's event loop when the mode has changed."""
        self.on_state: list[Callable[[Mapping[str, float]], None]] = []
        """Called on viser's event loop with the positions of a state that becomes the goal [rad or
        m], by joint."""
        self.ghost: RobotView | None = None
        self._text = ""
        gui = server.gui
        self.mode = gui.add_dropdown(
            "Sliders set", (ROBOT, GOAL),
            hint="Robot: sliders move the joints at once, without avoiding obstacles. Goal state: "
            "sliders move a ghost, and the planner plans to it.",
        )  # fmt: skip
        planned = set(viewed.planned_joints)
        self._states = {n: q for n, q in viewed.state_positions.items() if planned & q.keys()}
        self.states: viser.GuiButtonGroupHandle | None = None
        if self._states:
            self.states = gui.add_button_group(
                "Set goal to state", tuple(self._states), visible=False,
                hint="Sets the goal to a named state; the robot does not move.",
            )  # fmt: skip
            self.states.on_click(by_user(self._state_pressed))
        self.verbs = gui.add_button_group(
            "Motion", tuple(PLAN_VERBS), visible=False,
            hint="Plan to the goal state, or plan and execute.",
        )  # fmt: skip
        self._message = gui.add_markdown("", visible=False)
        self.mode.on_update(by_user(lambda: self.set_active(self.mode.value == GOAL)))
        self.verbs.on_click(by_user(self._verb_pressed))

    def set_active(self, active: bool) -> None:
        """Change the mode; on viser's event loop.

        Args:
            active: whether the sliders set the goal state.
        """
        chosen = GOAL if active else ROBOT
        if self.mode.value != chosen:
            self.mode.value = chosen
        if active == self.active:
            return
        self.active = self.verbs.visible = active
        if self.states is not None:
            self.states.visible = active
        for call in self.on_change:
            call()

    def set_state(self, state: Mapping[str, float]) -> None:
        """Make a state the goal [rad or m], by joint; on viser's event loop."""
        self.set_active(True)
        for call in self.on_state:
            call(state)

    def command(self, verb: str) -> PlanCommand:
        """Return the command to plan to the goal state.

        Args:
            verb: ``plan``, ``execute`` or ``stop``.
        """
        values = self.values()
        joints = {name: values[name] for name in self._viewed.planned_joints if name in values}
        return PlanCommand(verb, joints=joints, scaling=self._scaling())

    def set_message(self, text: str) -> None:
        """Store the status of the planner, shown below the buttons."""
        self._text = text

    def refresh(self) -> None:
        """Update the panel; on viser's event loop."""
        text = plain(self._text) if self.active else ""
        show_text(self._message, text)

    def draw(self, q: Array) -> None:
        """Draw the ghost while it differs from the robot; on the drawing thread.

        Args:
            q: joint positions [rad or m], shape (n,).
        """
        if not self.active:
            if self.ghost is not None:
                self.ghost.base.visible = False
            return
        goal, values = q.copy(), self.values()
        for name, row in zip(self._viewed.planned_joints, self._rows, strict=True):
            goal[row] = values.get(name, q[row])
        shown = bool(self._turns.distance(q, goal)[self._rows].max() > REACHED)
        if shown and self.ghost is None:
            path = f"{self._path}/goal_state"
            self.ghost = ghost_of(self._scene, self._viewed, path, GOAL_LOOK)
        if self.ghost is not None:
            if shown:
                self.ghost.draw_joints(goal)
            self.ghost.base.visible = shown

    def _state_pressed(self) -> None:
        if self.active and self.states is not None:
            for call in self.on_state:
                call(self._states[str(self.states.value)])

    def _verb_pressed(self) -> None:
        if self.active:
            self._commanded(self.command(PLAN_VERBS[str(self.verbs.value)]))


class JointPanel:
    """Shows joint positions and reports commanded ones.

    Args:
        gui: viser's panel; elements are added to the active container.
        viewed: the robot.
        events: receivers of joint targets and named states.
        unit: of the sliders of revolute joints.
        goal: the goal state that the sliders may set; None: they only set the robot.
    """

    def __init__(
        self,
        gui: viser.GuiApi,
        viewed: ViewedRobot,
        events: PanelEvents,
        unit: AngleUnit,
        goal: GoalStatePanel | None = None,
    ) -> None:
        self._gui, self._viewed, self._unit = gui, viewed, unit
        self._events, self._goal = events, goal
        self._debounced = DebouncedValues(self._commanded, events.slider_hold)
        self._index = {name: i for i, name in enumerate(viewed.model.joint_names)}
        self._q: Array = np.full(len(self._index), np.nan)
        """Actual positions [rad or m], shape (n,); NaN: unknown."""
        self.sliders: dict[str, viser.GuiSliderHandle[float]] = {}
        """Slider of each joint, in the unit of the panel."""
        self.values: dict[str, float] = {}
        """Positions that the sliders show [rad or m], by joint."""
        joints = tuple(viewed.sliders or ())
        self._labels = dict(zip(joints, short_labels(joints), strict=True))
        self.states: viser.GuiButtonGroupHandle | None = None
        if viewed.named_states and viewed.sliders:
            self.states = gui.add_button_group(
                "Move to state", tuple(viewed.named_states), hint="Move to a named state."
            )
            self.states.on_click(by_user(self._state_pressed))
        self.follow = gui.add_checkbox(
            "Sliders show actual position",
            True,
            hint="Turned off when a slider is moved: the sliders then show commanded positions. "
            "Turn it off to enter numbers while the robot moves.",
            visible=bool(viewed.sliders),
        )
        self._frame = gui.add_folder(None)
        for name in joints:
            home = float(viewed.model.home[self._index[name]])
            self.values[name] = float(np.clip(home, *self._range(name)))
            self._debounced.set_shown(name, self.values[name])
            self._add_slider(name)
        unit.on_change.append(self._replace_angles)
        self.gripper: viser.GuiSliderHandle[float] | None = None
        if viewed.gripper:
            self.gripper = gui.add_slider(
                "Gripper [%]", min=0.0, max=100.0, step=1.0, initial_value=100.0,
                marks=((0.0, "closed"), (100.0, "open")), hint="Opening of all fingers.",
            )  # fmt: skip
            self.gripper.on_update(by_user(self._gripper_moved))
            self._debounced.set_shown(_GRIPPER, 100.0)
        if goal is not None:
            goal.on_change.append(self._mode_changed)
            goal.on_state.append(self._set_goal)

    @property
    def sets_goal(self) -> bool:
        """Whether the sliders set the goal state of the planner, and not the robot."""
        return self._goal is not None and self._goal.active

    def mirror(self, q: Array) -> None:
        """Show actual positions unless the user has moved a slider, or holds one.

        Args:
            q: positions of all joints [rad or m], shape (n,); NaN: unknown.
        """
        self._q = q
        if self.sets_goal or not self.follow.value or self._events.slider_hold.held:
            return
        self._show({name: float(q[self._index[name]]) for name in self.sliders})
        if self.gripper is not None:
            shares = [
                (q[self._index[joint]] - closed) / (opened - closed)
                for joint, (closed, opened) in self._viewed.gripper.items()
                if opened != closed
            ]
            share = float(np.mean(shares)) if shares else np.nan
            if np.isfinite(share):
                opening = float(np.clip(100.0 * share, 0.0, 100.0))
                if (shown := _shown(self.gripper, opening)) is not None:
                    self._debounced.set_shown(_GRIPPER, shown)

    def _range(self, name: str) -> tuple[float, float]:
        """Return the limits of a joint [rad or m]; of continuous ones, one turn."""
        joint = self._viewed.model.tree.joint(name)
        lower = joint.lower if np.isfinite(joint.lower) else -np.pi
        upper = joint.upper if np.isfinite(joint.upper) else np.pi
        return float(lower), float(upper)

    def _slides(self, name: str) -> bool:
        return self._viewed.model.tree.joint(name).kind is JointKind.PRISMATIC

    def _scale(self, name: str) -> float:
        """Return the size of 1 rad or 1 m on the slider of a joint."""
        return 1.0 if self._slides(name) else self._unit.per_radian

    def _replace_angles(self) -> None:
        """Replace the sliders of angles, because the unit has changed.

        A page may still send a value in the unit before. It has the id of a removed slider, and is
        ignored; with a slider that only changes its range, it would command another position.
        """
        self._replace([name for name in self.sliders if not self._slides(name)])

    def _mode_changed(self) -> None:
        """Show the actual positions, because the sliders set something else from now on.

        A page on which a slider is still dragged must not command the robot with a value that was
        meant for the goal: its slider is removed, too.
        """
        self._debounced.cancel()
        show_value(self.follow, True)
        self.follow.visible = not self.sets_goal
        if self.states is not None:
            self.states.visible = not self.sets_goal
        if self.gripper is not None:
            self.gripper.disabled = self.sets_goal
        self._show({name: float(self._q[self._index[name]]) for name in self.sliders})
        self._replace(list(self.sliders))
        self._events.redraw()

    def _set_goal(self, positions: Mapping[str, float]) -> None:
        """Show a goal state on the sliders of the planned joints."""
        planned = self._viewed.planned_joints
        self._show({name: value for name, value in positions.items() if name in planned})
        self._events.redraw()

    def _show(self, positions: Mapping[str, float]) -> None:
        """Show finite positions [rad or m] on the sliders of their joints."""
        for name, value in positions.items():
            if name in self.sliders and np.isfinite(value):
                if self._viewed.model.tree.joint(name).kind is JointKind.CONTINUOUS:
                    value = (value + np.pi) % (2.0 * np.pi) - np.pi
                scale, bounded = self._scale(name), float(np.clip(value, *self._range(name)))
                if (shown := _shown(self.sliders[name], scale * bounded)) is not None:
                    self.values[name] = shown / scale
                    self._debounced.set_shown(name, self.values[name])

    def _replace(self, names: Iterable[str]) -> None:
        """Replace the sliders of joints; what pages still send to the previous ones is ignored."""
        for name in names:
            before = self.sliders.pop(name)
            before.remove()
            self._add_slider(name, before.order)
        self.sliders = {name: self.sliders[name] for name in self.values}

    def _add_slider(self, name: str, order: float | None = None) -> None:
        """Add the slider of one joint."""
        slides, scale = self._slides(name), self._scale(name)
        lower, upper = self._range(name)
        low, high = scale * lower, scale * upper
        unit = "m" if slides else self._unit.name
        step = SLIDE_STEP if slides else self._unit.pick(*ANGLE_STEPS)
        digits = 3 if slides else round(self._unit.pick(2, 0))
        with self._frame:
            slider = self._gui.add_slider(
                f"{self._labels[name]} [{unit}]",
                min=low,
                max=high,
                step=step,
                initial_value=on_step(scale * self.values[name], step, low, high),
                marks=tuple((limit, f"{limit:.{digits}f}") for limit in (low, high)),
                hint=_hint(name, lower, upper, slides),
                order=order,
                disabled=self.sets_goal and name not in self._viewed.planned_joints,
            )
        self.sliders[name] = slider

        def moved() -> None:
            if not math.isfinite(slider.value):
                return
            # Rounded to a step, a value may be beyond the limit.
            value = self.values[name] = float(np.clip(slider.value / scale, lower, upper))
            if self.sets_goal:
                self._events.redraw()
                return
            show_value(self.follow, False)
            self._debounced.set_input(name, value, upper - lower)

        slider.on_update(by_user(moved))

    def _gripper_moved(self) -> None:
        """Command the opening of the gripper."""
        opening = math.nan if self.gripper is None else float(self.gripper.value)
        if not self.sets_goal and math.isfinite(opening):
            show_value(self.follow, False)
            self._debounced.set_input(_GRIPPER, float(np.clip(opening, 0.0, 100.0)), 100.0)

    def _commanded(self, key: str, value: float) -> None:
        """Report a commanded joint position [rad or m] or gripper opening [%]."""
        if key != _GRIPPER:
            self._events.joint_target(key, value)
            return
        for joint, (closed, opened) in self._viewed.gripper.items():
            self._events.joint_target(joint, closed + value / 100.0 * (opened - closed))

    def _state_pressed(self) -> None:
        """Command a named state, and show actual positions during the motion."""
        if not self.sets_goal and self.states is not None:
            show_value(self.follow, True)
            self._debounced.cancel()
            self._events.named_state(str(self.states.value))


def show_value(handle: viser.GuiInputHandle[_T], value: _T) -> None:
    """Set the value of a panel element."""
    # viser defines the setter where mypy does not find it.
    handle.value = value  # type: ignore[misc]


def short_labels(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names without their common prefix, cut after an underscore."""
    if len(names) < 2:
        return names
    first, last = min(names), max(names)
    same = 0
    while same < min(len(first), len(last)) and first[same] == last[same]:
        same += 1
    cut = first.rfind("_", 0, same) + 1
    return tuple(name[cut:] for name in names)


def _shown(slider: viser.GuiSliderHandle[float], value: float) -> float | None:
    """Show a value on a slider, rounded to its step; return what it shows, None if unchanged."""
    if abs(value - slider.value) < MIN_CHANGE * slider.step:
        return None
    shown = on_step(value, slider.step, slider.min, slider.max)
    show_value(slider, shown)
    return shown


def on_step(value: float, step: float, lower: float, upper: float) -> float:
    """Return a value rounded to a step, within limits."""
    # Multiples of a step have more digits than it, which a page shows.
    digits = max(0, 2 - math.floor(math.log10(step)))
    return min(max(round(round(value / step) * step, digits), lower), upper)


def _hint(name: str, lower: float, upper: float, slides: bool) -> str:
    """Return the tooltip of a slider."""
    if slides:
        return f"{name}: {lower:.4g} to {upper:.4g} m"
    degrees = f"{np.rad2deg(lower):.1f}° to {np.rad2deg(upper):.1f}°"
    return f"{name}: {lower:.4g} to {upper:.4g} rad ({degrees})"
