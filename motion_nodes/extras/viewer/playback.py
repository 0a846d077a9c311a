# SPDX-License-Identifier: Apache-2.0
"""Playback of a motion on the panel: played in a loop, or at the time of a slider.

During playback the time is shown as text and not by the slider: a value sent to a slider would
overwrite the user's input.
"""

from __future__ import annotations

import time

import numpy as np
import viser

from motion_nodes.extras.viewer.joint_panel import show_value

STEP = 0.01
"""Step of the time slider [s]."""
PAUSE = 1.0
"""Pause at the end of a motion before the playback loops [s]."""
SPEEDS = ("0.25", "0.5", "1", "2", "5", "10")


class Playback:
    """A switch, a time slider and, if asked for, a speed; the time may be asked from any thread.

    Args:
        gui: viser's panel; elements are added to the active container, hidden.
        speeds: whether to offer speeds other than real time.
    """

    def __init__(self, gui: viser.GuiApi, *, speeds: bool = False) -> None:
        """Add the elements; without a motion its duration is 0."""
        self.duration = 0.0
        """Of the motion [s]."""
        self._start, self._rate = 0.0, 1.0
        self.play = gui.add_checkbox("Play", True, visible=False, hint="Loop playback.")
        self.text = gui.add_markdown("", visible=False)
        self.scrub = gui.add_slider(
            "Time [s]", min=0.0, max=1.0, step=STEP, initial_value=0.0, visible=False,
            hint="Moves the ghost to this time and pauses playback.",
        )  # fmt: skip
        self.speed: viser.GuiDropdownHandle[str] | None = None
        if speeds:
            self.speed = gui.add_dropdown("Speed", SPEEDS, initial_value="1", visible=False)
            self.speed.on_update(self._speed_chosen)
        self.scrub.on_update(self._scrubbed)
        self.play.on_update(self._play_switched)

    @property
    def now(self) -> float:
        """Time within the motion [s]."""
        if self.play.value:
            return self._played()
        return min(float(self.scrub.value), self.duration)

    def restart(self, duration: float) -> None:
        """Start with a motion of a duration [s]."""
        self.duration = duration
        self._start = time.monotonic()

    def refresh(self, shown: bool, playing: bool) -> None:
        """Show or hide the elements, and update them; on viser's event loop.

        Args:
            shown: whether there is a motion.
            playing: whether it is drawn and played, so that its time is shown.
        """
        for element in (self.play, self.scrub, *([self.speed] if self.speed is not None else [])):
            if element.visible != shown:
                element.visible = shown
        end = round(max(np.ceil(self.duration / STEP - 1e-9), 1.0) * STEP, 2)
        if self.scrub.max != end:
            self.scrub.max = end
            show_value(self.scrub, min(self.scrub.value, end))
        text = f"**{self.now:.1f} s** of {self.duration:.1f} s" if playing else ""
        if text != self.text.content:
            self.text.content, self.text.visible = text, bool(text)

    def _played(self) -> float:
        passed = (time.monotonic() - self._start) * self._rate
        return min(passed % (self.duration + PAUSE * self._rate), self.duration)

    def _play_from(self, when: float) -> None:
        self._start = time.monotonic() - min(when, self.duration) / self._rate

    async def _speed_chosen(self, event: viser.GuiEvent[viser.GuiDropdownHandle[str]]) -> None:
        assert self.speed is not None
        when = self._played()
        self._rate = float(self.speed.value)
        self._play_from(when)

    async def _scrubbed(self, event: viser.GuiEvent[viser.GuiSliderHandle[float]]) -> None:
        # Without a client, the value was set by the program.
        if event.client is not None:
            show_value(self.play, False)

    async def _play_switched(self, event: viser.GuiEvent[viser.GuiCheckboxHandle]) -> None:
        """Pause at the ghost's current time, or continue from the slider's."""
        if event.client is None:
            return
        if self.play.value:
            self._play_from(float(self.scrub.value))
        else:
            show_value(self.scrub, round(self._played() / STEP) * STEP)
