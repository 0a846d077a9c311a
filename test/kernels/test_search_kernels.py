# SPDX-License-Identifier: Apache-2.0
"""Kernels of the planners for a point among discs: exact checks, and shortest paths in closed form.

The shortest path past one disc consists of two tangents and an arc.
"""

import itertools
import math

import numpy as np
import pytest
from kernels.plain_kernels import plain

from motion_nodes.kernels.search import classic_trees, path_shorten, rrt, rrt_connect

CLASSIC, SHORTEN, SAMPLES = plain(classic_trees), plain(path_shorten), plain(rrt_connect)
RANDOM = plain(classic_trees)
RRT = plain(rrt)
START, GOAL, RADIUS = np.array([-2.0, 0.0]), np.array([2.0, 0.0]), 0.8
SHORTEST = 2.0 * math.sqrt(4.0 - RADIUS**2) + RADIUS * (math.pi - 2.0 * math.acos(RADIUS / 2.0))
LOW, HIGH = np.full(2, -2.5), np.full(2, 2.5)
SPLITMIX = (0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F)
"""First values of SplitMix64 with seed 0, as published with the algorithm."""


class Discs:
    """Exact checks of points and segments among discs."""

    memory = None

    def __init__(self, *discs):
        self.discs = [(np.array(centre), radius) for centre, radius in discs]

    def state(self, q):
        return self.edge(q, q)

    def edge(self, a, b):
        way = b - a
        for centre, radius in self.discs:
            share = np.clip((centre - a) @ way / max(way @ way, 1e-300), 0.0, 1.0)
            if np.linalg.norm(a + share * way - centre) < radius:
                return False
        return True


ONE = Discs(((0.0, 0.0), RADIUS))
SPACE = CLASSIC.TreeSpace(LOW, HIGH, np.zeros(2, bool), np.ones(2))


def random(seed=0):
    return np.array([seed], np.uint64)


def length(path):
    return np.linalg.norm(np.diff(path, axis=0), axis=1).sum()


def free(path, discs=ONE):
    """Return whether all points of a path are outside of all discs, by dense samples."""
    share = np.linspace(0.0, 1.0, 200)[:, None]
    points = np.concatenate([a + share * (b - a) for a, b in itertools.pairwise(path)])
    return all(
        (np.linalg.norm(points - centre, axis=1) >= radius - 1e-9).all()
        for centre, radius in discs.discs
    )


@pytest.fixture(autouse=True)
def _integers_wrap():
    with np.errstate(over="ignore"):
        yield


def test_random_numbers_are_those_of_splitmix():
    expected = [(x >> 11) / 2.0**53 for x in SPLITMIX]
    state = random()
    assert [RANDOM.uniform(state) for _ in SPLITMIX] == expected
    samples = SAMPLES.make_samples(LOW, HIGH, 0.1, 0.5)
    SAMPLES.begin(samples, 0)
    assert samples.place.ravel()[:3].tolist() == expected
    state = random(3)
    values = np.array([CLASSIC.normal(state) for _ in range(1500)])
    assert [values.mean(), values.std(), (values**4).mean()] == pytest.approx([0, 1, 3], abs=0.3)


def test_metric_with_a_continuous_joint():
    wraps, weights = np.array([True, False]), np.array([1.0, 2.0])
    space = CLASSIC.TreeSpace(LOW, HIGH, wraps, weights)
    a, b = np.array([3.0, 1.0]), np.array([-3.0, 0.5])
    turn = 2.0 * math.pi - 6.0
    assert CLASSIC.way(space, 0, a[0], b[0]) == pytest.approx(turn)
    assert CLASSIC.way(space, 0, 0.0, math.pi) == pytest.approx(math.pi)
    away = math.hypot(turn, 1.0)
    assert CLASSIC.distance(space, a, b) == pytest.approx(away)
    out = np.empty(2)
    assert CLASSIC.steer(space, a, b, 0.5 * away, out) == pytest.approx(0.5 * away)
    assert out == pytest.approx([3.0 + 0.5 * turn, 0.75])
    assert CLASSIC.steer(space, a, b, 9.0, out) == pytest.approx(away)
    nodes = np.random.default_rng(1).uniform(-3.0, 3.0, (40, 2))
    d = nodes - b
    d[:, 0] -= 2.0 * math.pi * np.round(d[:, 0] / (2.0 * math.pi))
    away = np.linalg.norm(d * weights, axis=1)
    assert CLASSIC.nearest(space, nodes, 40, b) == away.argmin()
    squares = [CLASSIC.square_below(space, nodes, i, b, math.inf, True) for i in range(40)]
    assert squares == pytest.approx(away**2)


def test_samples_of_trees_are_free_and_near_where_asked():
    state, out = random(5), np.empty(2)
    drawn, near = [], []
    for _ in range(120):
        assert CLASSIC.draw(SPACE, state, ONE, 50, out)
        drawn.append(out.copy())
        assert CLASSIC.draw_near(SPACE, state, ONE, GOAL, 50, out)
        near.append(np.abs(out - GOAL).max())
        assert (np.abs(out) <= 2.5).all()
        assert ONE.state(out)
    assert max(near) <= 0.25 * 5.0
    assert 0.05 < np.median(near) < 0.3  # fractions of 1/200 to 1/4, by their logarithm
    share = (np.array(drawn)[:, 0] < 0.0).mean()
    assert share == pytest.approx(0.5, abs=0.15)
    nowhere = Discs(((0.0, 0.0), 10.0))
    assert not CLASSIC.draw(SPACE, state, nowhere, 5, out)
    assert not CLASSIC.draw_near(SPACE, state, nowhere, GOAL, 5, out)


def test_low_discrepancy_samples_fill_the_space_and_the_box_between_ends():
    samples = SAMPLES.make_samples(LOW, HIGH, 0.1, 0.25)
    root = samples.steps[0] ** -1.0
    assert root**3 == pytest.approx(root + 1.0)
    SAMPLES.begin(samples, 11)
    for d in range(2):
        SAMPLES.draw_near(samples, d, min(START[d], GOAL[d]), max(START[d], GOAL[d]))
    drawn, out = [], np.empty(2)
    for _ in range(800):
        SAMPLES.sample(samples, out)
        drawn.append(out.copy())
    near = np.array(drawn[3::4])
    assert near.max(axis=0) == pytest.approx([2.5, 0.5], abs=0.06)
    assert near.min(axis=0) == pytest.approx([-2.5, -0.5], abs=0.06)
    anywhere = np.array([q for k, q in enumerate(drawn) if k % 4 != 3])
    counts, *_ = np.histogram2d(*anywhere.T, bins=6, range=[(-2.5, 2.5)] * 2)
    # A grid of 36 cells holds 600 / 36 = 17 samples each; 600 random ones vary by 4.
    assert counts.min() >= 13
    assert counts.max() <= 21
