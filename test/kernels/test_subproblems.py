# SPDX-License-Identifier: Apache-2.0
"""The geometric problems of closed forms: what is returned fulfils what was asked for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from motion_nodes.kernels.ik import subproblems as sp
from motion_nodes.kernels.jit import kernel


# The parts have no form for Python; these have.
@kernel
def angle_to(k, p, q, usual):
    return sp.angle_to(k, p, q, usual)


@kernel
def angles_to_plane(h, k, p, d, usual, slack):
    return sp.angles_to_plane(h, k, p, d, usual, slack)


@kernel
def angles_to_distance(k, p, q, d, usual, slack):
    return sp.angles_to_distance(k, p, q, d, usual, slack)


@kernel
def common_normal(h1, p1, h2, p2):
    return sp.common_normal(h1, p1, h2, p2)


@kernel
def zeros_of_wave(f, out):
    return sp.zeros_of_wave(f, out)


@kernel
def within(room, i, angle):
    return sp.within(room, i, angle)


def unit(rng):
    v = rng.normal(size=3)
    return v / np.linalg.norm(v)


def turned(k, angle, p):
    return Rotation.from_rotvec(angle * np.asarray(k)).apply(p)


def vec(v):
    return tuple(float(x) for x in v)


def test_the_angle_from_one_point_to_another():
    rng = np.random.default_rng(1)
    for _ in range(50):
        k, p, angle = unit(rng), rng.normal(size=3), rng.uniform(-np.pi, np.pi)
        q = turned(k, angle, p)
        assert angle_to(vec(k), vec(p), vec(q), 9.0) == pytest.approx(angle, abs=1e-12)
    assert angle_to(vec(k), vec(2 * k), vec(k), 0.7) == 0.7


def test_the_angles_at_which_a_point_meets_a_plane():
    rng = np.random.default_rng(2)
    for _ in range(50):
        h, k, p, angle = unit(rng), unit(rng), rng.normal(size=3), rng.uniform(-np.pi, np.pi)
        d = h @ turned(k, angle, p)
        count, *angles = angles_to_plane(vec(h), vec(k), vec(p), d, 0.0, 1e-6)
        assert count == 2
        for found in angles:
            assert h @ turned(k, found, p) == pytest.approx(d, abs=1e-12)
        assert min(abs(math.remainder(x - angle, 2 * np.pi)) for x in angles) < 1e-7


def test_planes_that_are_touched_missed_or_met_everywhere():
    x, z = (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)
    count, first, second = angles_to_plane(x, z, x, 1.0, 0.0, 1e-6)
    assert (count, first, second) == (2, 0.0, 0.0)
    assert angles_to_plane(x, z, x, 1.01, 0.0, 1e-6)[0] == 0
    count, first, second = angles_to_plane(x, z, x, 1.01, 0.0, 0.05)
    assert count == 2
    assert 0.1 < first == -second < 0.2
    assert angles_to_plane(z, z, x, 0.0, 0.7, 1e-6) == (1, 0.7, 0.7)
    assert angles_to_plane(z, z, x, 0.5, 0.7, 1e-6)[0] == 0


def test_the_angles_at_which_a_point_has_a_distance():
    rng = np.random.default_rng(3)
    for _ in range(50):
        k, p, q = unit(rng), rng.normal(size=3), rng.normal(size=3)
        d = np.linalg.norm(turned(k, 0.8, p) - q)
        count, *angles = angles_to_distance(vec(k), vec(p), vec(q), d, 0.0, 1e-6)
        assert count == 2
        for found in angles:
            assert np.linalg.norm(turned(k, found, p) - q) == pytest.approx(d, abs=1e-9)


def test_the_common_normal_stands_upright_on_both_lines():
    rng = np.random.default_rng(4)
    for _ in range(20):
        h1, h2, p1, p2 = unit(rng), unit(rng), rng.normal(size=3), rng.normal(size=3)
        a, b = map(np.array, common_normal(vec(h1), vec(p1), vec(h2), vec(p2)))
        np.testing.assert_allclose(np.cross(a - p1, h1), 0.0, atol=1e-9)
        np.testing.assert_allclose(np.cross(b - p2, h2), 0.0, atol=1e-9)
        np.testing.assert_allclose([h1 @ (b - a), h2 @ (b - a)], 0.0, atol=1e-9)
        a, b = map(np.array, common_normal(vec(h1), vec(p1), vec(-h1), vec(p2)))
        assert h1 @ (b - a) == pytest.approx(0.0, abs=1e-12)


def wave(f, x):
    return f @ [np.ones_like(x), np.cos(x), np.sin(x), np.cos(2 * x), np.sin(2 * x)]


def test_all_zeros_of_a_wave_are_found():
    rng, out, grid = np.random.default_rng(5), np.empty(4), np.linspace(-np.pi, np.pi, 20001)
    for _ in range(200):
        f = rng.normal(size=5)
        count = zeros_of_wave(f, out)
        found = out[:count]
        crossings = np.count_nonzero(np.diff(np.sign(wave(f, grid))))
        exact = [x for x in found if abs(wave(f, x)) < 1e-9]
        assert len(exact) == crossings
    # Without its second harmonic, with a double zero, and without any zero.
    assert zeros_of_wave(np.array([0.0, 1.0, 0.0, 0.0, 0.0]), out) == 2
    np.testing.assert_allclose(np.cos(out[:2]), 0.0, atol=1e-15)
    double = np.array([1.5, -2.0, 0.0, 0.5, 0.0])  # (1 - cos x)^2
    count = zeros_of_wave(double, out)
    assert count >= 1
    assert np.abs(out[:count]).min() < 1e-3
    assert zeros_of_wave(np.array([3.0, 1.0, 0.5, 0.2, 0.1]), out) == 0


def test_angles_are_within_limits_whatever_their_turns():
    room = np.array([[-1.0, 0.0], [3.0, 7.0]])
    for angle in (-0.99, 0.0, 1.99, 1.99 - 2 * np.pi, -0.99 + 4 * np.pi):
        assert within(room, 0, angle)
    for angle in (-1.1, 2.1, 3.0, 3.0 - 2 * np.pi):
        assert not within(room, 0, angle)
    assert within(room, 1, -123.0)
