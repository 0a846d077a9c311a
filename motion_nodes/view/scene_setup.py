# SPDX-License-Identifier: Apache-2.0
"""Floor, lights and the first camera position, chosen by the size of what is shown."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import viser

from motion_nodes.model.tree import Array

FIELD_OF_VIEW = np.deg2rad(40.0)
"""Vertical; a longer lens than viser's 75 degrees keeps a robot's proportions."""
VIEW_DIRECTION = np.array([0.80, 0.52, 0.34])
"""From the robot to the camera: front left (x forward, y left) and a little above."""
PANEL_SHIFT = 0.45
"""The panel covers the right of the page, so robots stand this part of their size to the left."""
SHEET_SHIFT = 0.2
"""On a phone it covers the bottom: so much of the distance to the camera robots stand higher."""
LANDSCAPE = 1.6
"""Width by height of a usual page."""
DRIVEN_RADIUS = 0.9
"""Around robots that drive at least this much floor is in sight [m]: a closer picture would be
empty in seconds."""


class SceneSetup:
    """Floor and lights, and the camera where everything is in sight.

    Args:
        server: the viser server.
        balls: centre, shape (3,), and radius [m] of a ball about each robot.
        dark: whether the page is dark, so that the lines of the floor do not glare.
        least_radius: of what is in sight at first [m].
        shadows: whether there are shadows and reflections, which take a graphics card.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        balls: Sequence[tuple[Array, float]],
        dark: bool = False,
        *,
        least_radius: float = 0.0,
        shadows: bool = True,
    ) -> None:
        """Add everything."""
        self._scene = server.scene
        self.least_radius = least_radius
        self._radius = max(_ball_about(balls)[1], least_radius)
        self.darken(dark)
        self.cast_shadows(shadows)
        camera = server.initial_camera
        camera.fov = float(FIELD_OF_VIEW)
        camera.near = 0.01
        camera.position, camera.look_at = camera_for(balls, VIEW_DIRECTION, least_radius)

    def cast_shadows(self, shadows: bool) -> None:
        """Switch shadows and reflections on or off."""
        self._scene.configure_default_lights(enabled=True, cast_shadow=shadows)
        self._scene.configure_environment_map(
            "studio" if shadows else None, environment_intensity=0.3
        )
        # What reflections brighten otherwise.
        self._scene.add_light_ambient("/ambient", intensity=1.5, visible=not shadows)

    def darken(self, dark: bool) -> None:
        """Draw the floor for a dark or a light page."""
        self.floor = self._scene.add_grid(
            "/floor",
            infinite_grid=True,
            cell_size=0.1 if self._radius < 0.5 else 0.25,
            section_size=1.0,
            cell_color=(58, 63, 69) if dark else (190, 197, 204),
            section_color=(92, 99, 107) if dark else (140, 150, 160),
            cell_thickness=0.8,
            section_thickness=1.2,
            fade_distance=max(12.0 * self._radius, 4.0),
            fade_strength=1.5,
            shadow_opacity=0.35,
            plane_color=(120, 134, 150),
            plane_opacity=0.22,
        )


def camera_for(
    balls: Sequence[tuple[Array, float]],
    direction: Array,
    least_radius: float,
    aspect: float = LANDSCAPE,
) -> tuple[Array, Array]:
    """Return where a camera stands and what it looks at, shape (3,) each, to see all balls.

    Args:
        balls: centre and radius [m] of each.
        direction: from them to the camera, shape (3,).
        least_radius: of what is in sight [m].
        aspect: width of the page by its height.
    """
    centre, radius = _ball_about(balls)
    radius = max(radius, least_radius)
    towards = direction / np.linalg.norm(direction)
    half = np.arctan(np.tan(FIELD_OF_VIEW / 2) * min(1.0, aspect))
    distance = radius / np.sin(half)
    if aspect >= 1.0:
        right = np.cross((0.0, 0.0, 1.0), towards)
        share = min(1.0, (aspect - 1.0) / (LANDSCAPE - 1.0))
        centre = centre + right / np.linalg.norm(right) * share * PANEL_SHIFT * radius
    else:
        # There the panel is at the bottom.
        centre = centre - np.array([0.0, 0.0, SHEET_SHIFT * distance])
    return centre + towards * distance, centre


def _ball_about(balls: Sequence[tuple[Array, float]]) -> tuple[Array, float]:
    """Return a ball that holds the given ones."""
    if not balls:
        return np.zeros(3), 1.0
    low = np.min([centre - radius for centre, radius in balls], axis=0)
    high = np.max([centre + radius for centre, radius in balls], axis=0)
    centre = (low + high) / 2
    return centre, max(float(np.linalg.norm(c - centre)) + r for c, r in balls)
