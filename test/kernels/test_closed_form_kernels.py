# SPDX-License-Identifier: Apache-2.0
"""Closed-form inverse kinematics, and the geometric problems that it is made of."""

import itertools
import math

import numpy as np
import pytest
from kernels.plain_kernels import plain
from scipy.linalg import expm
from scipy.spatial.transform import Rotation

from motion_nodes.kernels.ik import closed_form, closed_form_search
from motion_nodes.kernels.ik import closed_form as sp
from motion_nodes.kernels.jit import kernel

FORMS, WRISTS = plain(closed_form), plain(closed_form)
CHECK, SEARCH = plain(closed_form_search), plain(closed_form_search)
X, Y, Z = np.eye(3)
WRIST = (0.5, 0.05, 0.7)
SKEW = np.array([0.6, 0.0, 0.8])


def arm(axes, points):
    return np.array(axes, float), np.array(points, float)


ARMS = {
    FORMS.THREE_PARALLEL: arm(
        [Z, Y, Y, -Y, -Z, Y],
        [(0, 0, 0), (0, 0, 0.1), (-0.4, 0, 0.1), (-0.8, 0, 0.1), *[(-0.8, 0.12, 0.05)] * 2],
    ),
    WRISTS.PARALLEL_23: arm(
        [Z, Y, Y, X, Y, X], [(0, 0, 0), (0.1, 0, 0.3), (0.1, 0, 0.7), *[WRIST] * 3]
    ),
    WRISTS.MEETING: arm(
        [Z, Y, SKEW, X, Y, X], [*[(0, 0, 0.3)] * 2, (0.1, 0.05, 0.6), *[WRIST] * 3]
    ),
    WRISTS.PARALLEL_12: arm(
        [Z, Z, Y, X, Y, X], [(0, 0, 0), (0.4, 0, 0), (0.7, 0, 0.1), *[WRIST] * 3]
    ),
    WRISTS.GENERAL: arm(
        [Z, SKEW, Y, X, Y, X], [(0, 0, 0), (0.2, 0.1, 0.3), (0.3, 0, 0.5), *[WRIST] * 3]
    ),
}


def displacement(h, p, q):
    """Return the product of the exponentials of the joints' twists."""
    D = np.eye(4)
    for axis, point, angle in zip(h, p, q, strict=True):
        twist = np.zeros((4, 4))
        twist[:3, :3], twist[:3, 3] = np.cross(np.eye(3), axis), -np.cross(axis, point)
        D = D @ expm(angle * twist)
    return D


def apart(a, b):
    return np.abs((np.subtract(a, b) + math.pi) % (2.0 * math.pi) - math.pi).max()


@pytest.mark.long
@pytest.mark.parametrize("form", ARMS)
def test_candidates_reach_the_pose_and_contain_the_given_one(form):
    h, p = ARMS[form]
    rng, out = np.random.default_rng(form), np.empty((FORMS.MOST, 6))
    room = np.array([np.full(6, -4.0), np.full(6, 8.0)])
    tolerance = 1e-4 if form == WRISTS.GENERAL else 1e-8  # its zeros are approximate
    most = 0
    for _ in range(12):
        q = rng.uniform(-2.5, 2.5, 6)
        D = displacement(h, p, q)
        arm, t = FORMS.SixJoints(h, p, D[:3, :3], q, room, 1e-9), tuple(D[:3, 3])
        count = FORMS.closed_form(form, arm, t, out)
        most = max(most, count)
        assert min(apart(q, found) for found in out[:count]) < tolerance
        for a, b in itertools.combinations(out[:count], 2):
            assert apart(a, b) > 1e-3
        reached = [displacement(h, p, found) for found in out[:count]]
        np.testing.assert_allclose(reached, [D] * count, atol=tolerance)
        narrow = np.array([q - 0.05, np.full(6, 0.1)])
        few = FORMS.closed_form(form, arm._replace(room=narrow), t, out)
        assert 1 <= few <= count
    assert most >= 4


LIMITS = np.array([np.full(6, -3.0), np.full(6, 2.8)])
HOME = np.eye(4)
HOME[:3, :3], HOME[:3, 3] = Rotation.from_rotvec([0.3, -0.2, 0.9]).as_matrix(), (0.7, 0.1, 0.8)


def lines_of(h, p):
    return np.array([h, p, h, p])


def test_candidates_are_refined_or_refused():
    h, p = ARMS[WRISTS.PARALLEL_23]
    rng, work = np.random.default_rng(3), np.empty((12, 3))
    for _ in range(20):
        q = rng.uniform(-2.0, 2.0, 6)
        D = displacement(h, p, q)
        chain = CHECK.Chain(lines_of(h, p), tuple(HOME[:3, 3]), LIMITS, -1, work)
        D_given, held_third = (D[:3, :3], tuple(D[:3, 3])), chain._replace(free=2)
        near = q + rng.normal(0.0, 3e-3, 6)
        fixed = near.copy()
        if CHECK.settle(chain, *D_given, near):
            np.testing.assert_allclose(displacement(h, p, near), D, atol=2e-9)
        else:
            assert abs(math.sin(q[4])) < 0.2 or abs(q[2]) < 0.2  # singular
        far = q + 1.0
        assert not CHECK.settle(chain, *D_given, far)
        CHECK.settle(held_third, *D_given, fixed)
        assert fixed[2] == pytest.approx(q[2], abs=0.02)
        held = fixed[2]
        CHECK.settle(held_third, *D_given, fixed)
        assert fixed[2] == held


def search(form, free, backwards, lines, limits, target, seed, values):
    n = lines.shape[1]
    out = np.empty((8 * len(values), n))
    count = SEARCH.search(
        form, free, backwards, lines, HOME, limits, target, seed, np.ones(n), 2.0,
        np.array(values), 99, 1e-9, out,
    )  # fmt: skip
    return count, out[: max(count, 0)]


@pytest.mark.parametrize("backwards", [False, True])
def test_solutions_are_verified_within_limits_and_sorted(backwards):
    h, p = ARMS[WRISTS.PARALLEL_23]
    if backwards:
        h, p = h[::-1], p[::-1]
    rng = np.random.default_rng(4)
    for _ in range(6):
        q, seed = rng.uniform(-2.0, 2.0, 6), rng.uniform(-2.0, 2.0, 6)
        target = displacement(h, p, q) @ HOME
        given = (WRISTS.PARALLEL_23, -1, backwards, lines_of(h, p), LIMITS)
        count, found = search(*given, target, seed, [0.0])
        assert count >= 1
        assert min(np.abs(found - q).max(axis=1)) < 1e-6
        for one in found:
            np.testing.assert_allclose(displacement(h, p, one) @ HOME, target, atol=3e-9)
        assert (found >= LIMITS[0]).all()
        assert (found <= LIMITS[1]).all()
        away = np.linalg.norm(found - seed, axis=1)
        assert (np.diff(away) >= 0.0).all()
        for bad in (np.nan, np.inf):
            broken = target.copy()
            broken[0, 3] = bad
            assert search(*given, broken, seed, [0.0])[0] == SEARCH.NO_POSE
        assert search(*given, np.diag([-1.0, 1.0, 1.0, 1.0]), seed, [0.0])[0] == SEARCH.NO_POSE


@pytest.mark.parametrize("free", [0, 6])
def test_a_seventh_joint_takes_each_of_its_values(free):
    """Before the arm or behind it, where it is part of the tip."""
    h, p = ARMS[WRISTS.PARALLEL_23]
    h, p = np.insert(h, free, SKEW, axis=0), np.insert(p, free, (0.1, 0.2, 0.3), axis=0)
    limits = np.array([np.full(7, -3.0), np.full(7, 3.0)])
    q = np.random.default_rng(5).uniform(-1.5, 1.5, 7)
    target = displacement(h, p, q) @ HOME
    values = [q[free], q[free] + 0.1]
    given = (WRISTS.PARALLEL_23, free, False, lines_of(h, p), limits)
    count, found = search(*given, target, q, values)
    assert count >= 2
    assert found[0] == pytest.approx(q, abs=1e-6)
    assert set(found[:, free]) == set(values)
    for one in found:
        np.testing.assert_allclose(displacement(h, p, one) @ HOME, target, atol=3e-9)


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
