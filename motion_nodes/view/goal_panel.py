# SPDX-License-Identifier: Apache-2.0
"""Goals of the planner on the panel: named states, joint sliders, or the target of the tool."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import viser

from motion_nodes.model.tree import Array
from motion_nodes.view.status_text import plain
from motion_nodes.view.ui_commands import PLAN_VERBS, PlanCommand

SLIDERS, TARGET = "joint sliders", "target"
"""Goals that are not named states."""


class GoalPanel:
    """Plans and executes motions to goals of the panel.

    Args:
        gui: viser's panel; elements are added to the active container.
        states: names of the named states.
        joints: returns the values of the joint sliders by joint [rad or m].
        target: returns the pose of the target in the scene frame, shape (4, 4); None: no target.
        commanded: called on viser's event loop.
    """

    def __init__(
        self,
        gui: viser.GuiApi,
        states: tuple[str, ...],
        joints: Callable[[], Mapping[str, float]],
        target: Callable[[], Array] | None,
        commanded: Callable[[PlanCommand], None],
    ) -> None:
        """Add the elements."""
        self._joints, self._target, self._commanded = joints, target, commanded
        self._text = ""
        goals = (*states, SLIDERS, *((TARGET,) if target is not None else ()))
        self.goal = gui.add_dropdown(
            "Goal", goals,
            hint="A named state, the positions of the joint sliders (turn off 'Sliders show actual "
            "position'), or the target of the tool.",
        )  # fmt: skip
        self.velocity = gui.add_slider("Velocity [%]", 5.0, 100.0, 5.0, 100.0)
        self.acceleration = gui.add_slider("Acceleration [%]", 5.0, 100.0, 5.0, 100.0)
        self.verbs = gui.add_button_group("Motion", tuple(PLAN_VERBS))
        self._message = gui.add_markdown("", visible=False)
        self.verbs.on_click(self._pressed)

    def set_message(self, text: str) -> None:
        """Store the status of the planner, shown below the buttons."""
        self._text = text

    def refresh(self) -> None:
        """Update the panel; on viser's event loop."""
        text = plain(self._text)
        if text != self._message.content:
            self._message.content, self._message.visible = text, bool(text)

    async def _pressed(self, event: viser.GuiEvent[viser.GuiButtonGroupHandle]) -> None:
        if event.client is None:
            return
        goal = str(self.goal.value)
        self._commanded(
            PlanCommand(
                PLAN_VERBS[str(event.target.value)],
                state="" if goal in (SLIDERS, TARGET) else goal,
                joints=dict(self._joints()) if goal == SLIDERS else None,
                X_BT=self._target() if goal == TARGET and self._target is not None else None,
                velocity_scaling=float(self.velocity.value) / 100.0,
                acceleration_scaling=float(self.acceleration.value) / 100.0,
            )
        )
