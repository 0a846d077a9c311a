# SPDX-License-Identifier: Apache-2.0
"""Joint sliders as the goal state of the planner: the mode, its buttons, and a ghost of the goal.

In this mode sliders command nothing: they move the ghost, and Plan and Execute send its positions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import viser

from motion_nodes.model.joint_turns import turns_of
from motion_nodes.typing import Array
from motion_nodes.view.robot_view import RobotView, ghost_of
from motion_nodes.view.scaling_panel import MotionScaling
from motion_nodes.view.shape_nodes import GHOST, Appearance
from motion_nodes.view.status_text import plain
from motion_nodes.view.ui_commands import PLAN_VERBS, PlanCommand
from motion_nodes.view.viewed_robot import ViewedRobot

ROBOT, GOAL = "robot", "goal state"
"""What the sliders set."""
GOAL_LOOK = Appearance(rgb=(225, 60, 130), opacity=0.35, shadow=False, grow=GHOST.grow)
"""Appearance of the goal state: the colour of the target of the tool."""
REACHED = 0.005
"""A goal of which no joint is further from the robot's state than this is not drawn [rad or m]."""


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
        self._values, self._scaling, self._commanded = values, scaling, commanded
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
            self.states.on_click(self._state_pressed)
        self.verbs = gui.add_button_group(
            "Motion", tuple(PLAN_VERBS), visible=False,
            hint="Plan to the goal state, or plan and execute.",
        )  # fmt: skip
        self._message = gui.add_markdown("", visible=False)
        self.mode.on_update(self._mode_chosen)
        self.verbs.on_click(self._verb_pressed)

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

    def command(self, verb: str) -> PlanCommand:
        """Return the command to plan to the goal state.

        Args:
            verb: ``plan``, ``execute`` or ``stop``.
        """
        values, scaling = self._values(), self._scaling()
        joints = {name: values[name] for name in self._viewed.planned_joints if name in values}
        return PlanCommand(
            verb,
            joints=joints,
            velocity_scaling=scaling.velocity,
            acceleration_scaling=scaling.acceleration,
        )

    def set_message(self, text: str) -> None:
        """Store the status of the planner, shown below the buttons."""
        self._text = text

    def refresh(self) -> None:
        """Update the panel; on viser's event loop."""
        text = plain(self._text) if self.active else ""
        if text != self._message.content:
            self._message.content, self._message.visible = text, bool(text)

    def draw(self, q: Array) -> None:
        """Draw the ghost while it differs from the robot; on the drawing thread.

        Args:
            q: joint positions [rad or m], shape (n,).
        """
        if not self.active:
            if self.ghost is not None:
                self.ghost.base.visible = False
            return
        goal, values = q.copy(), self._values()
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

    async def _mode_chosen(self, event: viser.GuiEvent[viser.GuiDropdownHandle[str]]) -> None:
        if event.client is not None:
            self.set_active(self.mode.value == GOAL)

    async def _state_pressed(self, event: viser.GuiEvent[viser.GuiButtonGroupHandle]) -> None:
        if event.client is not None and self.active:
            for call in self.on_state:
                call(self._states[str(event.target.value)])

    async def _verb_pressed(self, event: viser.GuiEvent[viser.GuiButtonGroupHandle]) -> None:
        if event.client is not None and self.active:
            self._commanded(self.command(PLAN_VERBS[str(event.target.value)]))
