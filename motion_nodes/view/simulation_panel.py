# SPDX-License-Identifier: Apache-2.0
"""The folder of the simulation on the panel: pause, continue and reset."""

from __future__ import annotations

from collections.abc import Callable

import viser

from motion_nodes.view.button_colours import SECONDARY
from motion_nodes.view.status_text import plain

PAUSE, CONTINUE = "Pause", "Continue"
"""Labels of the first button."""


class SimulationPanel:
    """Pauses and resets the simulation.

    Args:
        gui: viser's panel.
        pause: called with whether to pause or to continue.
        reset: called when Reset is pressed.
    """

    def __init__(
        self, gui: viser.GuiApi, pause: Callable[[bool], None], reset: Callable[[], None]
    ) -> None:
        """Add the folder."""
        self._paused, self._text = False, ""
        with gui.add_folder("Simulation", expand_by_default=False):
            self.pause = gui.add_button(
                PAUSE, color=SECONDARY, hint="Pauses simulated time and with it all robots."
            )
            self.reset = gui.add_button(
                "Reset", color=SECONDARY, icon=viser.Icon.RESTORE,
                hint="Returns all robots to their initial poses, at rest, and time to 0. "
                "Odometry continues.",
            )  # fmt: skip
            self._line = gui.add_markdown("", visible=False)
        self.pause.on_click(lambda _: pause(not self._paused))
        self.reset.on_click(lambda _: reset())

    def set_state(self, paused: bool, text: str | None = None) -> bool:
        """Store the state of the simulation and the line below the buttons.

        Args:
            paused: whether simulated time is paused.
            text: the line; None: unchanged.

        Returns:
            Whether something changed.
        """
        text = self._text if text is None else text
        new = (paused, text) != (self._paused, self._text)
        self._paused, self._text = paused, text
        return new

    def refresh(self) -> None:
        """Update the elements; on viser's event loop."""
        label = CONTINUE if self._paused else PAUSE
        if label != self.pause.label:
            self.pause.label = label
        text = plain(self._text)
        if text != self._line.content:
            self._line.content, self._line.visible = text, bool(text)
