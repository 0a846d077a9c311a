# SPDX-License-Identifier: Apache-2.0
"""Camera presets and appearance of the page."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import viser

from motion_nodes.typing import Array
from motion_nodes.view.page_server import set_theme
from motion_nodes.view.scene_setup import VIEW_DIRECTION, SceneSetup, camera_for

DIRECTIONS: dict[str, Array] = {
    "Fit": VIEW_DIRECTION,
    "Front": np.array([1.0, 0.0, 0.12]),
    "Side": np.array([0.0, 1.0, 0.12]),
    # Not exactly vertical, where the camera's up direction would be undefined.
    "Top": np.array([-0.02, 0.0, 1.0]),
}
"""Directions from the robots to the camera, in the world frame, shape (3,)."""
SETTLING = 3.0
"""[s] Time within which a new page in portrait format settles on its initial camera."""


class ViewPanel:
    """Camera presets, dark theme and shadows.

    Args:
        server: the viser server.
        setup: floor and lights.
        bounding_spheres: returns the centre [m], shape (3,), and radius [m] of each robot's
            bounding sphere in the world.
        dark: initial theme.
        shadows: whether shadows and reflections are initially enabled.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        setup: SceneSetup,
        bounding_spheres: Callable[[], list[tuple[Array, float]]],
        dark: bool,
        shadows: bool,
    ) -> None:
        """Add the folder."""
        self._server, self._setup, self._bounding_spheres = server, setup, bounding_spheres
        with server.gui.add_folder("View", expand_by_default=False):
            self.camera = server.gui.add_button_group("Camera", tuple(DIRECTIONS))
            self.dark = server.gui.add_checkbox("Dark", dark)
            self.shadows = server.gui.add_checkbox(
                "Shadows", shadows, hint="Shadows and reflections. Turn off on slow devices."
            )
        self.camera.on_click(self._camera_pressed)
        self.dark.on_update(self._dark_changed)
        self.shadows.on_update(self._shadows_changed)

    def set_initial_camera(self, client: viser.ClientHandle) -> None:
        """Place the camera of a new page in portrait format, whose panel is at the bottom.

        A new page reports its size and camera several times, the first time possibly before it has
        its size, and may replace a camera that it was sent meanwhile.
        """
        end = time.monotonic() + SETTLING

        async def updated(camera: viser.CameraHandle) -> None:
            if time.monotonic() < end and camera.aspect < 1.0:
                position, _ = self._view_from(VIEW_DIRECTION, camera.aspect)
                if not np.allclose(camera.position, position, atol=1e-3):
                    self._place_camera(client, VIEW_DIRECTION)

        client.camera.on_update(updated)
        if client.camera.aspect < 1.0:
            self._place_camera(client, VIEW_DIRECTION)

    def _view_from(self, direction: Array, aspect: float) -> tuple[Array, Array]:
        """Return position and target of a camera that shows all robots [m], shape (3,) each."""
        radius = self._setup.min_radius
        return camera_for(self._bounding_spheres(), direction, radius, float(aspect))

    def _place_camera(self, client: viser.ClientHandle, direction: Array) -> None:
        position, look_at = self._view_from(direction, client.camera.aspect)
        with client.atomic():
            client.camera.up_direction = (0.0, 0.0, 1.0)
            client.camera.position = position
            client.camera.look_at = look_at

    async def _camera_pressed(self, event: viser.GuiEvent[viser.GuiButtonGroupHandle]) -> None:
        """Place the camera of the page on which the button was pressed."""
        if event.client is not None:
            self._place_camera(event.client, DIRECTIONS[str(event.target.value)])

    async def _dark_changed(self, _: viser.GuiEvent[viser.GuiCheckboxHandle]) -> None:
        set_theme(self._server, bool(self.dark.value))
        self._setup.set_dark(bool(self.dark.value))

    async def _shadows_changed(self, _: viser.GuiEvent[viser.GuiCheckboxHandle]) -> None:
        self._setup.set_shadows(bool(self.shadows.value))
