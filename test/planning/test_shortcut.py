# SPDX-License-Identifier: Apache-2.0
"""Shortened paths: length, exact ends, free edges."""

import itertools
import math

import numpy as np
import pytest
from raised_errors import about

from motion_nodes.core.planning.planar_world import PlanarWorld, Wall, maze
from motion_nodes.core.planning.rrt_connect import RrtConnect
from motion_nodes.core.planning.search_settings import ShorteningSettings
from motion_nodes.core.planning.shortcut import shorten_path
from motion_nodes.errors import InvalidCommand, InvalidConfig

START, GOAL = (0.7, 0.7), (9.3, 9.3)
THOROUGH = ShorteningSettings(rounds=20, jumps=20, corner_tries=3, least_gain=1e-5)


def length(path, weights=(1.0, 1.0)):
    return float(np.linalg.norm(np.diff(path, axis=0) * weights, axis=1).sum())


@pytest.fixture(scope="module")
def world():
    return maze()


@pytest.fixture(scope="module")
def paths(world):
    requests = (world.request(START, GOAL, random_seed=k, timeout=100.0) for k in range(12))
    return [RrtConnect().plan(request).path for request in requests]


@pytest.mark.parametrize("settings", [ShorteningSettings(), THOROUGH])
def test_shorter_free_and_with_the_same_ends(world, paths, settings):
    for path in paths:
        kept = path.copy()
        shorter = shorten_path(world.checker, path, settings)
        np.testing.assert_array_equal(path, kept)  # the input does not change
        assert tuple(shorter[0]) == START
        assert tuple(shorter[-1]) == GOAL
        assert length(shorter) < 0.98 * length(path)
        for a, b in itertools.pairwise(shorter):
            assert world.checker.edge_free(a, b)


def test_more_rounds_come_nearer_to_the_shortest(world, paths):
    usual = [length(shorten_path(world.checker, path)) for path in paths]
    thorough = [length(shorten_path(world.checker, path, THOROUGH)) for path in paths]
    assert np.mean(thorough) < np.mean(usual)


def test_round_one_corner_the_shortest_path_is_found():
    """The shortest path around the end of a wall touches it; its length is known."""
    world = PlanarWorld([Wall((5.0, 3.0), (0.02, 6.0))], radius=0.01, resolution=0.01)
    path = [(2.0, 3.0), (2.0, 9.5), (8.0, 9.5), (8.0, 3.0)]
    least = 2.0 * math.hypot(3.0, 3.0)
    assert length(shorten_path(world.checker, path, THOROUGH)) == pytest.approx(least, rel=0.02)
    assert length(shorten_path(world.checker, path)) < 1.12 * least


def test_equal_seeds_give_equal_paths(world, paths):
    one, same = (shorten_path(world.checker, paths[0], THOROUGH, random_seed=3) for _ in "ab")
    np.testing.assert_array_equal(one, same)


def test_weights_say_what_is_short(world, paths):
    weights = (5.0, 1.0)
    settings = ShorteningSettings(rounds=8, jumps=20, distance_metric_weights=weights)
    for path in paths:
        assert length(shorten_path(world.checker, path, settings), weights) <= length(path, weights)


@pytest.mark.parametrize("path", [[START], [START, START], [START, (1.2, 3.0)]])
def test_paths_that_cannot_get_shorter_stay(world, path):
    np.testing.assert_array_equal(shorten_path(world.checker, path), path)


def test_repeated_waypoints_do_no_harm(world, paths):
    path = np.repeat(paths[0], 3, axis=0)
    shorter = shorten_path(world.checker, path, THOROUGH)
    assert np.isfinite(shorter).all()
    assert length(shorter) < length(path)


def test_a_path_of_thousands_of_waypoints_is_shortened_soon(world, paths):
    shares = np.linspace(0.0, 1.0, 400, endpoint=False)[:, np.newaxis]
    pieces = [a + shares * (b - a) for a, b in zip(paths[0][:-1], paths[0][1:], strict=True)]
    path = np.concatenate([*pieces, paths[0][-1:]])
    assert len(path) > 2000
    shorter = shorten_path(world.checker, path)
    assert len(shorter) < 40
    assert length(shorter) <= length(path)


def test_nothing_is_done_in_no_rounds(world, paths):
    none = ShorteningSettings(rounds=0)
    np.testing.assert_array_equal(shorten_path(world.checker, paths[0], none), paths[0])


@pytest.mark.parametrize("path", [[], [0.7, 0.7], [(0.7, 0.7, 0.7)], [(math.nan, 0.7), (1.0, 1.0)]])
def test_what_is_no_path_is_refused(world, path):
    with pytest.raises(InvalidCommand):
        shorten_path(world.checker, path)


def test_wrong_settings_are_refused_by_name(world):
    with pytest.raises(InvalidConfig, check=about("rounds")):
        ShorteningSettings(rounds=-1)
    with pytest.raises(InvalidConfig, check=about("distance_metric_weights")):
        shorten_path(
            world.checker, [START, GOAL], ShorteningSettings(distance_metric_weights=(1.0,))
        )
