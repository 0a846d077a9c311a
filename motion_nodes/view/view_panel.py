# SPDX-License-Identifier: Apache-2.0
"""Where people look from, and whether the page is dark."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import viser

from motion_nodes.model.tree import Array
from motion_nodes.view.page_server import set_theme
from motion_nodes.view.scene_setup import VIEW_DIRECTION, SceneSetup, camera_for

DIRECTIONS: dict[str, Array] = {
    "Fit": VIEW_DIRECTION,
    "Front": np.array([1.0, 0.0, 0.12]),
    "Side": np.array([0.0, 1.0, 0.12]),
    # Not straight from above: there the camera would not know what is up.
    "Top": np.array([-0.02, 0.0, 1.0]),
}
"""From what is shown to the camera."""


class ViewPanel:
    """Camera presets and the dark page.

    Args:
        server: the viser server.
        stage: floor and lights.
        balls: returns centre, shape (3,), and radius [m] of a ball about each robot as it stands.
        dark: whether the page is dark at first.
        shadows: whether there are shadows and reflections at first.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        stage: SceneSetup,
        balls: Callable[[], list[tuple[Array, float]]],
        dark: bool,
        shadows: bool,
    ) -> None:
        """Add the folder."""
        self._server, self._stage, self._balls = server, stage, balls
        with server.gui.add_folder("View", expand_by_default=False):
            self.camera = server.gui.add_button_group("Camera", tuple(DIRECTIONS))
            self.dark = server.gui.add_checkbox("Dark", dark)
            self.shadows = server.gui.add_checkbox(
                "Shadows", shadows, hint="And reflections; off is easier on phones and the like."
            )
        self.camera.on_click(self._look)
        self.dark.on_update(self._darken)
        self.shadows.on_update(self._shade)

    def welcome(self, client: viser.ClientHandle) -> None:
        """Put the robots above the panel of a page that is higher than wide, as a phone's."""
        placed = False

        async def look(camera: viser.CameraHandle) -> None:
            # Its first word may come before the page has its size.
            nonlocal placed
            if not placed and camera.aspect < 1.0:
                placed = True
                self._put_camera(client, VIEW_DIRECTION)

        client.camera.on_update(look)
        if client.camera.aspect < 1.0:
            placed = True
            self._put_camera(client, VIEW_DIRECTION)

    def _put_camera(self, client: viser.ClientHandle, direction: Array) -> None:
        position, look_at = camera_for(
            self._balls(), direction, self._stage.least_radius, float(client.camera.aspect)
        )
        with client.atomic():
            client.camera.up_direction = (0.0, 0.0, 1.0)
            client.camera.position = position
            client.camera.look_at = look_at

    async def _look(self, event: viser.GuiEvent[viser.GuiButtonGroupHandle]) -> None:
        """Put the camera of the page that asked for it."""
        if event.client is None:
            return
        direction = DIRECTIONS[str(event.target.value)]
        self._put_camera(event.client, direction)

    async def _darken(self, _: viser.GuiEvent[viser.GuiCheckboxHandle]) -> None:
        set_theme(self._server, bool(self.dark.value))
        self._stage.darken(bool(self.dark.value))

    async def _shade(self, _: viser.GuiEvent[viser.GuiCheckboxHandle]) -> None:
        self._stage.cast_shadows(bool(self.shadows.value))
