# SPDX-License-Identifier: Apache-2.0
"""Kernels of the sphere fit beside plain NumPy."""

import numpy as np
import pytest

from motion_nodes.kernels.simd import Lanes
from motion_nodes.kernels.sphere_fit import DescentRules, count_within, descend, module, nearest
from motion_nodes.typing import Array


def spheres_and_points(count: int, points: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(count)
    spheres = np.column_stack((rng.normal(0.2, 0.1, (count, 3)), rng.uniform(0.02, 0.05, count)))
    return spheres, rng.normal(0.2, 0.1, (points, 3))


def distances(spheres: Array, points: Array) -> Array:
    return np.linalg.norm(points[:, None] - spheres[:, :3], axis=2) - spheres[:, 3]


def descended(spheres: Array, points: Array, weights: Array, rules: DescentRules) -> Array:
    """Return the spheres after all steps, by the formulas on whole arrays."""
    found, inner = spheres.copy(), len(points) - len(weights)
    mean, square = np.zeros_like(found), np.zeros_like(found)
    for step in range(rules.steps):
        share = rules.begin + step * (rules.end - rules.begin) / rules.steps
        owner = distances(found, points).argmin(axis=1)
        away = points - found[owner, :3]
        length = np.linalg.norm(away, axis=1)
        distance = length - found[owner, 3]
        lacking = np.maximum(distance[:inner] + rules.within, 0.0)
        at_edge = np.maximum(1.0 - np.abs(distance[inner:]) / rules.edge, 0.0)
        hold = rules.hold * (0.3 + 1.7 * share)
        pull = np.concatenate((hold * lacking, -rules.pull * weights * at_edge))
        towards = np.column_stack((away / length[:, None], np.ones(len(points))))
        gradient = np.zeros_like(found)
        np.add.at(gradient, owner, -pull[:, None] * towards)
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.99 * square + 0.01 * gradient**2
        size = np.sqrt(square / (1.0 - 0.99 ** (step + 1))) + 1e-9
        found -= rules.size * (1.0 - share) * mean / (1.0 - 0.9 ** (step + 1)) / size
        found[:, 3] = np.maximum(found[:, 3], rules.least)
    return found


@pytest.mark.parametrize(("count", "points"), [(1, 1), (3, 8), (40, 1003), (700, 50)])
def test_the_closest_sphere_is_that_of_numpy(count, points):
    spheres, places = spheres_and_points(count, points)
    beyond, owner = nearest(spheres, places)
    expected = distances(spheres, places)
    np.testing.assert_allclose(beyond, expected.min(axis=1), atol=1e-15)
    np.testing.assert_array_equal(owner, expected.argmin(axis=1))


@pytest.mark.parametrize(("count", "points"), [(1, 1), (5, 0), (77, 401)])
def test_points_within_reach_are_counted(count, points):
    spheres, places = spheres_and_points(count, points)
    counts = count_within(places, spheres[:, :3], 2.0 * spheres[:, 3])
    within = distances(spheres, places) <= spheres[:, 3]
    np.testing.assert_array_equal(counts, within.sum(axis=0))


@pytest.mark.parametrize(("count", "points", "outer"), [(1, 30, 30), (4, 200, 0), (20, 2000, 900)])
def test_the_descent_is_that_of_numpy(count, points, outer):
    spheres, places = spheres_and_points(count, points)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, outer)
    rules = DescentRules(12, 0.2, 0.6, 900.0, 0.002, 0.005, 4.0, 0.002, 0.004)
    found = descend(spheres, places, weights, rules)
    np.testing.assert_allclose(found, descended(spheres, places, weights, rules), atol=1e-9)
    assert np.abs(found - spheres).max() > 1e-3


def test_narrow_registers_have_the_same_functions():
    text = module(Lanes("float", 4), Lanes("double", 2))
    assert text.count("define ") == 4
