# SPDX-License-Identifier: Apache-2.0
"""Steps of jogged poses: along and about the axes of the base and of the tool."""

import numpy as np
import pytest

from motion_nodes.core.robot.poses import from_xyz_rpy, inverse, to_rpy
from motion_nodes.extras.viewer.target_gizmo import BASE, DIRECTIONS, TOOL, jogged

X = from_xyz_rpy((0.4, -0.1, 0.3), (0.3, -0.5, 1.1))
STEP = (0.02, 5.0)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_steps_are_along_and_about_the_axes(direction):
    axis = np.eye(3)["XYZ".index(direction[1])] * (1.0 if direction[0] == "+" else -1.0)
    along = jogged(X, direction, STEP, BASE, turn=False)
    np.testing.assert_allclose(along[:3, 3] - X[:3, 3], 0.02 * axis, atol=1e-12)
    np.testing.assert_allclose(along[:3, :3], X[:3, :3], atol=1e-12)
    about = jogged(X, direction, STEP, BASE, turn=True)
    np.testing.assert_allclose(about[:3, 3], X[:3, 3], atol=1e-12)
    change = np.eye(4)
    change[:3, :3] = about[:3, :3] @ X[:3, :3].T
    np.testing.assert_allclose(to_rpy(change), np.deg2rad(5.0) * axis, atol=1e-12)
    for turn in (False, True):
        own = inverse(X) @ jogged(X, direction, STEP, TOOL, turn=turn)
        wanted = (np.zeros(3), np.deg2rad(5.0) * axis) if turn else (0.02 * axis, np.zeros(3))
        np.testing.assert_allclose(own[:3, 3], wanted[0], atol=1e-12)
        np.testing.assert_allclose(to_rpy(own), wanted[1], atol=1e-12)


def test_opposite_steps_return():
    for frame in (BASE, TOOL):
        for turn in (False, True):
            there = jogged(X, "+Y", STEP, frame, turn=turn)
            np.testing.assert_allclose(jogged(there, "-Y", STEP, frame, turn=turn), X, atol=1e-12)
