# SPDX-License-Identifier: Apache-2.0
"""Attaching the selected object to a link of the robot, and detaching it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import viser

from motion_nodes.scene.scene import AttachedBody, WorldObject
from motion_nodes.scene.scenery import SCENERY
from motion_nodes.scene.shapes import HalfSpace
from motion_nodes.scene.voxels import OCTOMAP
from motion_nodes.view.button_colours import SECONDARY


class AttachPanel:
    """A list of links with buttons to attach and detach.

    Args:
        gui: viser's panel; elements are added to the active container, hidden.
        links: of the robot.
        tool: the link selected at first.
        selected: returns the name of the selected object; empty: none.
        report: called on viser's event loop with the name of an object, and the link to attach it
            to; empty: detach it.
    """

    def __init__(
        self,
        gui: viser.GuiApi,
        links: Sequence[str],
        tool: str,
        selected: Callable[[], str],
        report: Callable[[str, str], None],
    ) -> None:
        """Add the elements."""
        self._selected, self._report = selected, report
        self.link = gui.add_dropdown(
            "Attach to", tuple(links), initial_value=tool, visible=False,
            hint="The link that the object is attached to, at its present pose relative to it.",
        )  # fmt: skip
        self.attach = gui.add_button(
            "Attach object", color=SECONDARY, icon=viser.Icon.LINK, visible=False,
            hint="The object moves with the link, and may touch the links of its gripper.",
        )  # fmt: skip
        self.detach = gui.add_button(
            "Detach object", color=SECONDARY, icon=viser.Icon.UNLINK, visible=False,
            hint="Puts the object back in the world, at its present pose.",
        )  # fmt: skip
        self.note = gui.add_markdown("", visible=False)
        self.attach.on_click(self._attach_pressed)
        self.detach.on_click(self._detach_pressed)

    def show(self, item: WorldObject | None, body: AttachedBody | None) -> None:
        """Show what can be done with the selected object; on viser's event loop.

        Args:
            item: the object, if it is in the world.
            body: the object, if it is attached.
        """
        free = item is not None and attachable(item)
        for element, visible in (
            (self.link, free), (self.attach, free), (self.detach, body is not None),
        ):  # fmt: skip
            if element.visible != visible:
                element.visible = visible
        text = "" if body is None else f"Attached to `{body.link}`."
        if text != self.note.content:
            self.note.content, self.note.visible = text, bool(text)

    async def _attach_pressed(self, event: viser.GuiEvent[viser.GuiButtonHandle]) -> None:
        if event.client is not None and self._selected():
            self._report(self._selected(), str(self.link.value))

    async def _detach_pressed(self, event: viser.GuiEvent[viser.GuiButtonHandle]) -> None:
        if event.client is not None and self._selected():
            self._report(self._selected(), "")


def attachable(item: WorldObject) -> bool:
    """Return whether an object can be carried: it is not a part of the cell, voxels or a plane."""
    fixed = item.static or item.kind == SCENERY or item.name == OCTOMAP
    return not fixed and not any(isinstance(part.solid, HalfSpace) for part in item.parts)
