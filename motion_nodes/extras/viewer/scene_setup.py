# SPDX-License-Identifier: Apache-2.0
"""Floor, lights and initial camera pose, scaled to the robots."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np
import viser

from motion_nodes.typing import Array

FIELD_OF_VIEW = np.deg2rad(40.0)
"""Vertical field of view [rad]; below viser's 75 degrees, for less perspective distortion."""
VIEW_DIRECTION = np.array([0.80, 0.52, 0.34])
"""From the robot to the camera: front left (x forward, y left) and slightly above."""
PANEL_WIDTH = 400.0
"""Width of the panel on the right with its margin [pixels]."""
PHONE_WIDTH = 576.0
"""Up to this width of the page [pixels] the panel is a sheet at the bottom."""
SHEET = 0.45
"""Part of a phone's height that the sheet covers."""
MARGIN = 1.08
"""Free space around the robots, as a factor of their radius."""
PAGE = 1280.0, 800.0
"""Width and height of a typical page [pixels]."""
MOBILE_RADIUS = 0.9
"""Min radius in view of a mobile robot [m], which would otherwise leave the view in seconds."""
PANEL_PERIOD = 0.2
"""Period of status lines, sliders and trails [s]."""


class SceneSetup:
    """Floor and lights, and a camera with all robots in view.

    Args:
        server: the viser server.
        bounding_spheres: centre [m], shape (3,), and radius [m] of each robot's bounding sphere.
        dark: whether the page is dark; selects the colours of the floor.
        min_radius: min radius initially in view [m].
        shadows: whether to enable shadows and reflections; slow without a graphics card.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        bounding_spheres: Sequence[tuple[Array, float]],
        dark: bool = False,
        *,
        min_radius: float = 0.0,
        shadows: bool = True,
    ) -> None:
        self._scene = server.scene
        self.min_radius = min_radius
        self._radius = max(_enclosing_sphere(bounding_spheres)[1], min_radius)
        self.set_dark(dark)
        self.set_shadows(shadows)
        camera = server.initial_camera
        camera.fov = float(FIELD_OF_VIEW)
        camera.near = 0.01
        camera.position, camera.look_at = camera_for(bounding_spheres, VIEW_DIRECTION, min_radius)

    def set_shadows(self, shadows: bool) -> None:
        """Enable or disable shadows and reflections."""
        self._scene.configure_default_lights(enabled=True, cast_shadow=shadows)
        self._scene.configure_environment_map(
            "studio" if shadows else None, environment_intensity=0.3
        )
        # Replaces the light of the environment map.
        self._scene.add_light_ambient("/ambient", intensity=1.5, visible=not shadows)

    def set_dark(self, dark: bool) -> None:
        """Draw the floor in the colours of the dark or light theme."""
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
    bounding_spheres: Sequence[tuple[Array, float]],
    direction: Array,
    min_radius: float,
    size: tuple[float, float] = PAGE,
) -> tuple[Array, Array]:
    """Return a camera position with all spheres in the middle of what the panel leaves free.

    Args:
        bounding_spheres: centre [m], shape (3,), and radius [m] of each.
        direction: from them to the camera, shape (3,).
        min_radius: min radius in view [m].
        size: width and height of the page [pixels].

    Returns:
        Camera position and look-at point in the world [m], shape (3,) each.
    """
    centre, radius = _enclosing_sphere(bounding_spheres)
    radius = max(radius, min_radius)
    towards = direction / np.linalg.norm(direction)
    width, height = size
    phone = width <= PHONE_WIDTH
    panel, sheet = (0.0, SHEET * height) if phone else (min(PANEL_WIDTH, 0.6 * width), 0.0)
    per_pixel = 2.0 * np.tan(FIELD_OF_VIEW / 2) / height
    half = np.arctan(0.5 * per_pixel * min(width - panel, height - sheet))
    distance = MARGIN * radius / np.sin(half)
    right = np.cross((0.0, 0.0, 1.0), towards)
    right /= np.linalg.norm(right)
    up = np.cross(towards, right)
    centre = centre + 0.5 * per_pixel * distance * (panel * right - sheet * up)
    return centre + towards * distance, centre


def _enclosing_sphere(spheres: Sequence[tuple[Array, float]]) -> tuple[Array, float]:
    """Return centre and radius of a sphere that encloses the given ones."""
    if not spheres:
        return np.zeros(3), 1.0
    low = np.min([centre - radius for centre, radius in spheres], axis=0)
    high = np.max([centre + radius for centre, radius in spheres], axis=0)
    centre = (low + high) / 2
    return centre, max(float(np.linalg.norm(c - centre)) + r for c, r in spheres)


_log = logging.getLogger(__name__)


class DrawLoop:
    """Calls a drawing function on its own thread, which sleeps while no page is open.

    Args:
        period: min time between two calls [s].
        draw: draws the scene; its argument is whether the panels are due, too.
        page_open: returns whether any page is open.
        animated: returns whether anything moves between updates.
    """

    def __init__(
        self,
        period: float,
        draw: Callable[[bool], None],
        page_open: Callable[[], bool],
        animated: Callable[[], bool],
    ) -> None:
        """Create the loop; :meth:`start` starts its thread."""
        self._period, self._draw = period, draw
        self._page_open, self._animated = page_open, animated
        self._closed = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="viewer-draw", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def request(self) -> None:
        """Draw soon, even if nothing has changed."""
        self._wake.set()

    def request_if_watched(self) -> None:
        """Draw soon if a page is open."""
        if self._page_open():
            self._wake.set()

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        self._wake.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=2.0)

    def _run(self) -> None:
        panel_due = 0.0
        while not self._closed.is_set():
            pause = self._period if self._animated() else PANEL_PERIOD
            self._wake.wait(pause if self._page_open() else None)
            self._wake.clear()
            if self._closed.is_set() or not self._page_open():
                continue
            now = time.monotonic()
            try:
                self._draw(now >= panel_due)
            except Exception:
                _log.exception("Drawing failed; the viewer continues.")
            if now >= panel_due:
                panel_due = now + PANEL_PERIOD
            self._closed.wait(max(0.0, self._period - (time.monotonic() - now)))
