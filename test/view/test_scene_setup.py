# SPDX-License-Identifier: Apache-2.0
"""The pose of the camera, at first and after the page was resized."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from motion_nodes.core.scene.shapes import spiral_directions
from motion_nodes.extras.viewer import browser
from motion_nodes.extras.viewer.browser import DIRECTIONS, ViewPanel
from motion_nodes.extras.viewer.scene_setup import (
    FIELD_OF_VIEW,
    VIEW_DIRECTION,
    SceneSetup,
    camera_for,
)
from motion_nodes.typing import Array


def camera(*balls: tuple[tuple[float, float, float], float], **options: Any) -> SimpleNamespace:
    """Return the camera that is set for given balls."""
    view = SimpleNamespace()
    server: Any = SimpleNamespace(scene=MagicMock(), initial_camera=view)
    SceneSetup(server, [(np.array(c), r) for c, r in balls], **options)
    return view


@pytest.mark.parametrize("size", [(1400, 900), (1024, 768), (760, 420), (800, 1200), (390, 844)])
def test_robots_fill_what_the_panel_leaves_free(size: tuple[int, int]) -> None:
    balls = [(np.array([0.0, 0.0, 0.5]), 0.6), (np.array([0.5, -0.5, 0.1]), 0.2)]
    position, look_at = camera_for(balls, VIEW_DIRECTION, 0.0, size)
    ahead = (look_at - position) / np.linalg.norm(look_at - position)
    right = np.cross(ahead, (0.0, 0.0, 1.0))
    right /= np.linalg.norm(right)
    points = np.vstack([c + r * spiral_directions(400) for c, r in balls]) - position
    focal = 0.5 * size[1] / np.tan(FIELD_OF_VIEW / 2) / (points @ ahead)
    x, y = (
        size[0] / 2 + focal * (points @ right),
        size[1] / 2 + focal * (points @ np.cross(ahead, right)),
    )
    phone = size[0] <= 576
    free = np.array(
        [size[0] - (not phone) * min(400, 0.6 * size[0]), size[1] * (0.55 if phone else 1)]
    )
    assert min(x.min(), y.min()) > 0.0
    assert ((x.max(), y.max()) < free).all()
    assert max(np.ptp(x) / free[0], np.ptp(y) / free[1]) > 0.6, "no smaller than needed"


def test_min_radius_leaves_room_to_drive() -> None:
    small, roomy = (camera(((0.0, 0.0, 0.1), 0.1), min_radius=r) for r in (0.0, 0.9))
    distances = [float(np.linalg.norm(v.position - v.look_at)) for v in (small, roomy)]
    assert distances[1] / distances[0] == pytest.approx(9.0)


def test_nothing_to_show_is_no_error() -> None:
    assert np.isfinite(camera().position).all()


class OpenPage:
    """A page of a size, whose camera is where it is placed; it reports what changes."""

    def __init__(self, width: int, height: int) -> None:
        self.client_id, self.atomic = 3, nullcontext
        self.camera: Any = SimpleNamespace(position=np.zeros(3), on_update=self._listen)
        self.camera.image_width, self.camera.image_height = width, height

    def _listen(self, updated: Any) -> None:
        self._updated = updated

    def report(self) -> Array:
        asyncio.run(self._updated(self.camera))
        return np.array(self.camera.position)


def test_a_resized_page_is_fitted_again_until_the_user_moves_its_camera(monkeypatch):
    ball = (np.array([0.2, 0.0, 0.5]), 0.6)
    panel = ViewPanel(MagicMock(), SimpleNamespace(min_radius=0.1), lambda: [ball], False, False)

    def wanted(direction: Array) -> Array:
        size = page.camera.image_width, page.camera.image_height
        return camera_for([ball], direction, 0.1, size)[0]

    page = OpenPage(1400, 900)
    monkeypatch.setattr(browser, "SETTLING", -1.0)
    panel.set_initial_camera(page)
    for direction in (VIEW_DIRECTION, DIRECTIONS["Side"]):
        panel._place_camera(page, direction)
        page.camera.image_width, page.camera.image_height = 390, 844
        np.testing.assert_allclose(page.report(), wanted(direction))
        page.camera.image_width, page.camera.image_height = 844, 390
        np.testing.assert_allclose(page.report(), wanted(direction))
    mine = page.camera.position = wanted(VIEW_DIRECTION) + 0.2
    page.camera.image_width = 1000
    np.testing.assert_allclose(page.report(), mine)
    panel.client_left(page.client_id)
    assert not panel._placed
