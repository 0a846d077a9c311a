# SPDX-License-Identifier: Apache-2.0
"""The buttons at the top of the panel that stop all robots and resume."""

from __future__ import annotations

from collections.abc import Callable

import viser

from motion_nodes.view.page_layout import bar_style
from motion_nodes.view.status_text import plain


class StopPanel:
    """Stop is always visible, Resume only while the robots are stopped.

    Args:
        gui: viser's panel.
        stop: called on viser's event loop when Stop or Esc is pressed.
        resume: called on viser's event loop when Resume is pressed.
    """

    def __init__(
        self, gui: viser.GuiApi, stop: Callable[[], None], resume: Callable[[], None]
    ) -> None:
        """Add the buttons."""
        self._reason = ""
        self.line = gui.add_markdown("", visible=False)
        self.stop = gui.add_button(
            "Stop all robots", color="red", hint="Latched until Resume is pressed. Key: Esc"
        )
        self.resume = gui.add_button(
            "Resume",
            color="green",
            visible=False,
            hint="Commands are accepted again; interrupted motions are not continued",
        )
        gui.add_html(bar_style(self.stop, self.resume))
        self.key = gui.add_command(
            "Stop all robots", description="Latched until Resume is pressed", hotkey="escape"
        )
        # Coroutines run on the event loop itself, independent of the thread pool's load.
        self.stop.on_click(_called(stop))
        self.key.on_trigger(_called(stop))
        self.resume.on_click(_called(resume))

    def set_reason(self, reason: str) -> bool:
        """Store the reason of the stop, empty while not stopped; return whether it changed."""
        new = reason != self._reason
        self._reason = reason
        return new

    def refresh(self) -> None:
        """Update the line and the button; on viser's event loop."""
        reason = self._reason
        content = f"**{plain(reason)}**" if reason else ""
        if content != self.line.content:
            self.line.content = content
            self.line.visible = self.resume.visible = bool(reason)


def _called(action: Callable[[], None]) -> Callable[[object], object]:
    async def call(_: object) -> None:
        action()

    return call
