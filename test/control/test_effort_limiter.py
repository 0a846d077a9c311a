# SPDX-License-Identifier: Apache-2.0
"""A reference that leads a joint by no more than its drive may push."""

import numpy as np

from motion_nodes.control.effort_limiter import held_back
from motion_nodes.control.joint_controller import JointReference

NAN, INF = np.nan, np.inf
STIFFNESS = np.array([1000.0, 500.0, 0.0])


def reference(positions, velocities):
    blank = np.full(3, NAN)
    return JointReference(np.array(positions), np.array(velocities), blank, blank)


def test_the_push_is_the_bound():
    there = np.array([0.0, 0.1, 0.0])
    bounds = np.array([20.0, INF, 5.0])
    held = held_back(reference([0.5, 0.9, 0.9], [0.1, 0.1, 0.1]), there, bounds, STIFFNESS)
    np.testing.assert_allclose(held.positions, [0.02, 0.9, 0.9])
    np.testing.assert_allclose(held.velocities, [0.0, 0.1, 0.1])
    assert STIFFNESS[0] * (held.positions[0] - there[0]) <= 20.0 + 1e-12
    back = held_back(reference([-0.5, 0.9, 0.9], [-0.1, 0.0, 0.0]), there, bounds, STIFFNESS)
    np.testing.assert_allclose(back.positions[0], -0.02)


def test_a_reference_within_reach_stays_as_it_is():
    given = reference([0.01, 0.2, 0.0], [0.3, 0.0, 0.0])
    bounds = np.array([20.0, 100.0, INF])
    held = held_back(given, np.array([0.0, 0.1, 0.0]), bounds, STIFFNESS)
    np.testing.assert_array_equal(held.positions, given.positions)
    np.testing.assert_array_equal(held.velocities, given.velocities)
    assert held_back(given, np.zeros(3), np.full(3, INF), STIFFNESS) is given


def test_joints_without_a_position_have_nothing_to_hold_back():
    given = reference([NAN, 0.2, 0.0], [0.3, 0.0, 0.0])
    held = held_back(given, np.zeros(3), np.array([1.0, INF, INF]), STIFFNESS)
    np.testing.assert_array_equal(held.positions, given.positions)
    np.testing.assert_array_equal(held.velocities, given.velocities)
