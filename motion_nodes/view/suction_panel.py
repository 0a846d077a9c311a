# SPDX-License-Identifier: Apache-2.0
"""Button of a surface gripper on the panel of its robot; hidden for robots without one."""

from __future__ import annotations

from collections.abc import Callable

import viser

from motion_nodes.view.status_text import plain

OPEN = "open"
"""State of a gripper that the button closes; it opens it in all others."""


class SuctionPanel:
    """Shows the state of a surface gripper and reports presses of its button.

    Args:
        gui: viser's panel; elements are added to the active container.
        on_change: called with whether to close the gripper.
    """

    def __init__(self, gui: viser.GuiApi, on_change: Callable[[bool], None]) -> None:
        """Add the elements to the panel, hidden."""
        self._state = ""
        self.button = gui.add_button("Surface gripper", visible=False)
        self.button.on_click(lambda _: on_change(self._state == OPEN))
        self.text = gui.add_markdown("", visible=False)

    def show(self, state: str, held: str) -> None:
        """Show the state and the names of the held objects; on viser's event loop."""
        text = plain(f"{state}: {held}" if held else state)
        if text == self.text.content:
            return
        self._state = state
        self.button.label = "Close the gripper" if state == OPEN else "Open the gripper"
        self.button.visible = self.text.visible = True
        self.text.content = text
