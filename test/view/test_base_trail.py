# SPDX-License-Identifier: Apache-2.0
"""The trail of a base: thinned, bounded, and restarted after a jump."""

from __future__ import annotations

import numpy as np
from view.toy_robot import pose

from motion_nodes.extras.viewer.live_robot import JUMP, MAX_POINTS, SPACING, TrailPoints
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot


def test_points_are_thinned_by_distance():
    trail = TrailPoints()
    for x in np.arange(0.0, 1.0, 0.001):
        trail.add(np.array([x, 0.0, 0.0]))
    lengths = np.linalg.norm(np.diff(trail.segments(), axis=1), axis=2)
    assert len(trail) <= 1.0 / SPACING + 1
    assert (lengths >= SPACING - 1e-9).all()
    assert (lengths < SPACING + 0.0011).all()


def test_a_base_that_stands_or_trembles_adds_nothing():
    trail = TrailPoints()
    rng = np.random.default_rng(1)
    changes = [trail.add(rng.normal(0.0, SPACING / 20, 3)) for _ in range(500)]
    assert sum(changes) == 1


def test_number_is_bounded_and_the_newest_stay():
    trail = TrailPoints()
    for step in range(5 * MAX_POINTS):
        trail.add(np.array([0.0, step * 2 * SPACING, 0.0]))
    assert len(trail) == MAX_POINTS
    assert trail.segments()[-1, 1, 1] == (5 * MAX_POINTS - 1) * 2 * SPACING
    assert trail.segments().shape == (MAX_POINTS - 1, 2, 3)


def test_a_jump_starts_the_line_anew():
    trail = TrailPoints()
    for x in np.arange(0.0, 1.0, 0.05):
        trail.add(np.array([x, 0.0, 0.0]))
    trail.add(np.array([1.0 + 2 * JUMP, 0.0, 0.0]))
    assert len(trail.segments()) == 0


def test_trail_appears_in_the_scene_and_can_be_cleared(open_viewer, toy):
    viewer = open_viewer(ViewedRobot(toy, "rover", drive=True))
    scene = viewer._server.scene
    for x in np.arange(0.0, 0.5, 0.05):
        viewer.update_base("rover", pose((x, 0.0, 0.0)))
    viewer.flush()
    assert scene.get_handle_by_name("/trails/rover").points.shape == (9, 2, 3)
    viewer._robots["rover"].request_clear_trail()
    viewer.flush()
    assert scene.get_handle_by_name("/trails/rover") is None
    viewer.update_base("rover", pose((0.6, 0.0, 0.0)))
    viewer.update_base("rover", pose((0.7, 0.0, 0.0)))
    viewer.flush()
    assert len(scene.get_handle_by_name("/trails/rover").points) == 1
