# SPDX-License-Identifier: Apache-2.0
"""The initial pose of the camera."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from motion_nodes.extras.viewer.scene_setup import FIELD_OF_VIEW, PANEL_SHIFT, SceneSetup


def camera(*balls: tuple[tuple[float, float, float], float], **options: Any) -> SimpleNamespace:
    """Return the camera that is set for given balls."""
    view = SimpleNamespace()
    server: Any = SimpleNamespace(scene=MagicMock(), initial_camera=view)
    SceneSetup(server, [(np.array(c), r) for c, r in balls], **options)
    return view


def angle_to(view: SimpleNamespace, point: np.ndarray) -> float:
    """Return the angle between the line of sight and a point [rad]."""
    sight, towards = view.look_at - view.position, point - view.position
    cosine = sight @ towards / np.linalg.norm(sight) / np.linalg.norm(towards)
    return float(np.arccos(np.clip(cosine, -1.0, 1.0)))


@pytest.mark.parametrize("radius", [0.05, 0.6, 3.0])
def test_a_robot_fills_the_picture_beside_the_panel(radius: float) -> None:
    centre = np.array([1.0, -2.0, 0.3])
    view = camera((tuple(centre), radius))
    distance = float(np.linalg.norm(view.position - view.look_at))
    assert distance * np.sin(FIELD_OF_VIEW / 2) == pytest.approx(radius)
    assert angle_to(view, centre) == pytest.approx(np.arctan(PANEL_SHIFT * radius / distance))
    # To the left of the middle, at its height.
    right = np.cross(view.look_at - view.position, (0.0, 0.0, 1.0))
    assert (centre - view.look_at) @ right < 0.0
    assert view.look_at[2] == pytest.approx(centre[2])


def test_all_robots_are_in_sight() -> None:
    balls = (((0.0, 0.0, 0.5), 0.6), ((0.5, -0.5, 0.1), 0.2), ((-1.0, 2.0, 0.0), 0.3))
    view = camera(*balls)
    for centre, radius in balls:
        away = float(np.linalg.norm(np.array(centre) - view.position))
        reach = angle_to(view, np.array(centre)) + np.arcsin(radius / away)
        assert reach < FIELD_OF_VIEW * (0.5 + PANEL_SHIFT / 2)


def test_min_radius_leaves_room_to_drive() -> None:
    small, roomy = (camera(((0.0, 0.0, 0.1), 0.1), min_radius=r) for r in (0.0, 0.9))
    distances = [float(np.linalg.norm(v.position - v.look_at)) for v in (small, roomy)]
    assert distances[1] / distances[0] == pytest.approx(9.0)


def test_nothing_to_show_is_no_error() -> None:
    assert np.isfinite(camera().position).all()
