# SPDX-License-Identifier: Apache-2.0
"""The leaves against golden values of the Franka's parameters."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motion_nodes.model.rmpflow_settings import (
    AxisTarget,
    Collision,
    CspaceTarget,
    Damping,
    JointLimit,
    TargetSettings,
)
from motion_nodes.rmpflow import rmps

DISTANCES = st.floats(-0.1, 1.0)
SPEEDS = st.floats(-5.0, 5.0)


@pytest.mark.parametrize(("offset", "pull"), [(0.2, 20.0), (0.5, 50.0), (1.0, 50.0), (3.0, 50.0)])
def test_posture_pulls_no_harder_beyond_the_threshold(offset, pull):
    direction = np.array([0.6, 0.0, -0.8])
    acceleration, metric = rmps.cspace_target(
        np.zeros(3), np.zeros(3), offset * direction, CspaceTarget()
    )
    assert acceleration == pytest.approx(pull * direction)
    assert metric == 50.0


def test_posture_damps():
    qd = np.array([0.1, -0.2])
    acceleration, _ = rmps.cspace_target(np.zeros(2), qd, np.zeros(2), CspaceTarget())
    assert acceleration == pytest.approx(-50.0 * qd)


@pytest.mark.parametrize(
    ("x", "xd", "acceleration", "metric"),
    [
        (0.5, 0.0, 0.039984, 9.9998),
        (0.05, 0.0, 3.846154, 99.98),
        (0.01, 0.0, 50.0, 499.5005),
        (0.0, 0.0, 100.0, 5e5),
        (-0.3, 0.0, 100.0, 5e5),
        (0.05, -0.1, 23.846154, 199.95093),
        (0.05, 0.1, -16.153846, 0.009078),
    ],
)
def test_joint_limit(x, xd, acceleration, metric):
    got = rmps.joint_limit(x, xd, JointLimit())
    assert got[0] == pytest.approx(acceleration, rel=1e-4)
    assert got[1] == pytest.approx(metric, rel=1e-4)


@pytest.mark.parametrize(
    ("qd", "acceleration", "metric"),
    [(3.0, -500.0, 112.5), (3.9, -1400.0, 775.862), (-3.0, 500.0, 112.5), (2.5, 0.0, 0.0)],
)
def test_velocity_cap(qd, acceleration, metric):
    got = rmps.joint_velocity_cap(qd, 4.0, 1.5, 1000.0, 100.0)
    assert got[0] == pytest.approx(acceleration)
    assert got[1] == pytest.approx(metric, rel=1e-5)


def test_velocity_cap_stays_finite_beyond_the_cap():
    acceleration, metric = rmps.joint_velocity_cap([4.0, 50.0], 4.0, 1.5, 1000.0, 100.0)
    assert np.isfinite(metric).all()
    assert (metric > 1e6).all()
    assert (acceleration < 0.0).all()


@pytest.mark.parametrize(
    ("d", "pull", "alpha", "boost"),
    [
        (0.5, 26.08696, 0.01, 1.0),
        (0.1, 17.142857, 0.143982, 1.000071),
        (0.05, 12.0, 0.610465, 1.834802),
        (0.01, 3.529412, 0.980397, 17.767441),
    ],
)
def test_target(d, pull, alpha, boost):
    p, n = TargetSettings(), np.array([2.0, -1.0, 2.0]) / 3.0
    acceleration, M = rmps.target(np.zeros(3), np.zeros(3), d * n, p)
    assert acceleration == pytest.approx(pull * n, rel=1e-6)
    assert rmps.target_alpha(d, p) == pytest.approx(alpha, rel=1e-5)
    assert rmps.target_boost(d, p) == pytest.approx(boost, rel=1e-5)
    across = np.array([1.0, 2.0, 0.0]) / np.sqrt(5.0)
    assert across @ M @ across == pytest.approx(boost * alpha * 1e4, rel=1e-4)
    assert n @ M @ n == pytest.approx(boost * (alpha * 1e4 + (1.0 - alpha) * 2500.0), rel=1e-4)


def test_target_reached_asks_for_nothing_and_stays_finite():
    acceleration, M = rmps.target(np.ones(3), np.zeros(3), np.ones(3), TargetSettings())
    assert acceleration == pytest.approx(np.zeros(3))
    assert np.diag(M) == pytest.approx([20.0 * 1e4] * 3)


def test_axis_counts_more_near_the_position():
    p, n, goal = AxisTarget(), np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0])
    acceleration, alone = rmps.axis_target(n, np.zeros(3), goal, None, p)
    assert acceleration == pytest.approx(210.0 * (goal - n))
    assert alone == 10.0
    assert rmps.axis_target(n, np.zeros(3), goal, 0.0, p)[1] == pytest.approx(30000.0)
    at_scale = rmps.axis_target(n, np.zeros(3), goal, 0.08, p)[1]
    beta = np.exp(-0.5)
    assert at_scale == pytest.approx(10.0 * (3000.0 * beta + 1.0 - beta))


@pytest.mark.parametrize(
    ("x", "xd", "acceleration", "metric"),
    [
        (0.6, 0.0, 0.0, 0.0),
        (0.2, 0.0, 2e-6, 179.982),
        (0.05, 0.0, 5.390358, 1619.352),
        (0.05, -0.2, 13.326866, 3238.7045),
        (0.01, 0.0, 294.303553, 9584.830),
        (0.01, -0.2, 332.765091, 19169.66),
        (0.01, 0.2, 294.303553, 4e-5),
    ],
)
def test_collision(x, xd, acceleration, metric):
    got = rmps.collision(x, xd, Collision())
    assert got[0] == pytest.approx(acceleration, rel=1e-5, abs=5e-7)
    assert got[1] == pytest.approx(metric, rel=1e-5, abs=1e-5)


def test_damping_grows_with_the_square_of_the_speed():
    xd = np.array([0.3, 0.0, 0.4])
    acceleration, metric = rmps.damping(xd, Damping())
    assert acceleration == pytest.approx(-30.0 * 0.5 * xd)
    assert metric == pytest.approx(25.0)


@given(x=DISTANCES, xd=SPEEDS)
@settings(derandomize=True, max_examples=200)
def test_obstacles_and_limits_never_pull_nor_weigh_negative(x, xd):
    for acceleration, metric in (
        rmps.collision(x, xd, Collision()),
        rmps.joint_limit(x, min(xd, 0.0), JointLimit()),
    ):
        assert metric >= 0.0
        assert np.isfinite(metric)
        assert xd > 0.0 or acceleration >= 0.0


def test_cap_keeps_the_direction():
    a = np.array([30.0, -40.0, 120.0])
    assert rmps.capped(a, 50.0) == pytest.approx(a * (50.0 / 130.0))
    assert rmps.capped(a, 200.0) is a
