# SPDX-License-Identifier: Apache-2.0
"""The button that stops all robots, above everything else of the panel, and the one to resume."""

from __future__ import annotations

from collections.abc import Callable

import viser

from motion_nodes.view.status_text import plain


class StopPanel:
    """Stop is always there, Resume only while the robots are stopped.

    Args:
        gui: viser's panel.
        stop: called when Stop or Esc is pressed, on viser's event loop.
        resume: called when Resume is pressed, likewise.
    """

    def __init__(
        self, gui: viser.GuiApi, stop: Callable[[], None], resume: Callable[[], None]
    ) -> None:
        """Add the buttons."""
        self._reason = ""
        self.line = gui.add_markdown("", visible=False)
        self.stop = gui.add_button(
            "Stop all robots", color="red", hint="Brings all robots to rest, until Resume. Key: Esc"
        )
        self.resume = gui.add_button(
            "Resume",
            color="green",
            visible=False,
            hint="Commands are taken again; nothing moves by itself",
        )
        self.key = gui.add_command(
            "Stop all robots", description="Until Resume is pressed", hotkey="escape"
        )
        # Coroutines run on the event loop itself: no pool thread that may be busy.
        self.stop.on_click(_called(stop))
        self.key.on_trigger(_called(stop))
        self.resume.on_click(_called(resume))

    def take(self, reason: str) -> bool:
        """Take why the robots are stopped, nothing where they are not; return whether it is new."""
        new = reason != self._reason
        self._reason = reason
        return new

    def refresh(self) -> None:
        """Renew the line and the button; on viser's event loop."""
        reason = self._reason
        content = f"🛑 **{plain(reason)}**" if reason else ""
        if content != self.line.content:
            self.line.content = content
            self.line.visible = self.resume.visible = bool(reason)


def _called(action: Callable[[], None]) -> Callable[[object], object]:
    async def call(_: object) -> None:
        action()

    return call
