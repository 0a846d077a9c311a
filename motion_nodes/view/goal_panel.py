# SPDX-License-Identifier: Apache-2.0
"""Goals of the planner on the panel: named states, joint sliders, or the target of the tool."""

from __future__ import annotations

from collections.abc import Callable

import viser

from motion_nodes.typing import Array
from motion_nodes.view.goal_state_panel import GOAL, GoalStatePanel
from motion_nodes.view.joint_panel import show_value
from motion_nodes.view.scaling_panel import MotionScaling
from motion_nodes.view.status_text import plain
from motion_nodes.view.ui_commands import PLAN_VERBS, PlanCommand

SLIDERS, TARGET = "joint sliders", "target"
"""Goals that are not named states."""
NO_GOAL = f"The sliders set the robot. Choose '{GOAL}' in 'Sliders set' on the tab Joints."


class GoalPanel:
    """Plans and executes motions to goals of the panel.

    Args:
        gui: viser's panel; elements are added to the active container.
        states: names of the named states.
        joints: the goal state of the joint sliders; None: none.
        target: returns the pose of the target in the scene frame, shape (4, 4); None: no target.
        scaling: returns the scaling factors for plans.
        commanded: called on viser's event loop.
    """

    def __init__(
        self,
        gui: viser.GuiApi,
        states: tuple[str, ...],
        joints: GoalStatePanel | None,
        target: Callable[[], Array] | None,
        scaling: Callable[[], MotionScaling],
        commanded: Callable[[PlanCommand], None],
    ) -> None:
        """Add the elements."""
        self._joints, self._target, self._commanded = joints, target, commanded
        self._scaling = scaling
        self._text = self._note = ""
        others = {SLIDERS: joints, TARGET: target}
        self.goal = gui.add_dropdown(
            "Goal", (*states, *(name for name, given in others.items() if given is not None)),
            hint="A named state, the goal state of the joint sliders, or the target of the tool.",
        )  # fmt: skip
        self.verbs = gui.add_button_group(
            "Motion", tuple(PLAN_VERBS),
            hint="With the velocity and acceleration scaling at the top of the panel.",
        )  # fmt: skip
        self._message = gui.add_markdown("", visible=False)
        self.goal.on_update(self._chosen)
        self.verbs.on_click(self._pressed)
        if joints is not None:
            joints.on_change.append(self._mode_changed)

    def set_message(self, text: str) -> None:
        """Store the status of the planner, shown below the buttons."""
        self._text = text

    def refresh(self) -> None:
        """Update the panel; on viser's event loop."""
        text = plain(self._note or self._text)
        if text != self._message.content:
            self._message.content, self._message.visible = text, bool(text)

    def _mode_changed(self) -> None:
        """Select the goal state that the sliders set from now on."""
        assert self._joints is not None
        self._note = ""
        if self._joints.active:
            show_value(self.goal, SLIDERS)

    async def _chosen(self, event: viser.GuiEvent[viser.GuiDropdownHandle[str]]) -> None:
        if event.client is None:
            return
        self._note = ""
        if self.goal.value == SLIDERS and self._joints is not None:
            self._joints.set_active(True)

    async def _pressed(self, event: viser.GuiEvent[viser.GuiButtonGroupHandle]) -> None:
        if event.client is None:
            return
        verb, goal = PLAN_VERBS[str(event.target.value)], str(self.goal.value)
        self._note = ""
        if goal == SLIDERS and self._joints is not None:
            if self._joints.active or verb == "stop":
                self._commanded(self._joints.command(verb))
            else:
                self._note = NO_GOAL
            return
        scaling = self._scaling()
        self._commanded(
            PlanCommand(
                verb,
                state="" if goal == TARGET else goal,
                X_BT=self._target() if goal == TARGET and self._target is not None else None,
                velocity_scaling=scaling.velocity,
                acceleration_scaling=scaling.acceleration,
            )
        )
