# SPDX-License-Identifier: Apache-2.0
"""Jogging: the commanded twist where possible, never beyond a limit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ik.ik_samples import draw, solver_of
from raised_errors import about
from scipy.optimize import lsq_linear

from motion_nodes.core.ik.differential import VelocityIk, bounded_least_squares
from motion_nodes.core.ik.problem import pose_error
from motion_nodes.errors import InvalidCommand, InvalidConfig

SPEEDS = np.array([2.175, 2.175, 2.175, 2.175, 2.61, 2.61, 2.61])
GOOD = np.array([0.3, -0.5, 0.4, -2.0, 0.2, 1.8, 0.5])


def jogger(**options) -> VelocityIk:
    return VelocityIk(solver_of().chain, SPEEDS, **options)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 6))
def test_bounded_least_squares_agrees_with_scipy(seed, n, m):
    rng = np.random.default_rng(seed)
    A, b, x_0 = rng.normal(size=(m, n)), rng.normal(size=m), rng.normal(size=n)
    low = rng.uniform(-1.0, 0.2, n)
    high = low + rng.uniform(0.0, 1.0, n) * (rng.uniform(size=n) > 0.1)
    damping = 10.0 ** rng.uniform(-4, 0)
    x = bounded_least_squares(A, b, damping, x_0, low, high)
    assert (low <= x).all()
    assert (x <= high).all()
    tall = np.vstack([A, np.sqrt(damping) * np.eye(n)])
    aim = np.concatenate([b, np.sqrt(damping) * x_0])
    wide = np.maximum(high, low + 1e-12)  # scipy wants room between bounds
    oracle = lsq_linear(tall, aim, (low, wide), method="bvls", tol=1e-12).x
    cost = [float(np.sum((tall @ y - aim) ** 2)) for y in (x, oracle)]
    assert cost[0] <= cost[1] + 1e-7 * (1.0 + cost[1])


@pytest.mark.parametrize("axes", ["base", "tip"])
def test_the_tip_does_what_is_wished(axes):
    chain, period = solver_of().chain, 1e-3
    jog = jogger()
    for twist in 0.1 * np.vstack([np.eye(6), -np.eye(6)]):
        step = jog.step(GOOD, twist, period, axes=axes)
        np.testing.assert_allclose(step.twist, twist, atol=1e-6)
        assert step.scale == 1.0
        assert step.stopped == ()
        before = chain.kinematics.pose(GOOD, chain.tip)
        after = chain.kinematics.pose(GOOD + step.velocity * period, chain.tip)
        moved = pose_error(after, before) / period  # in the tip's axes
        if axes == "base":
            moved = np.concatenate([before[:3, :3] @ moved[:3], before[:3, :3] @ moved[3:]])
        np.testing.assert_allclose(moved, twist, atol=2e-3)


def test_too_fast_is_slowed_down_in_the_same_direction():
    jog = jogger()
    twist = np.array([5.0, 2.0, 0.0, 0.0, 0.0, 3.0])
    step = jog.step(GOOD, twist, 1e-3)
    assert 0.0 < step.scale < 1.0
    assert (np.abs(step.velocity) <= SPEEDS * (1.0 + 1e-12)).all()
    assert np.isclose(np.abs(step.velocity) / SPEEDS, 1.0).any()
    np.testing.assert_allclose(step.twist, step.scale * twist, atol=1e-5)


def test_no_joint_leaves_its_limits_and_the_stopped_one_is_named():
    chain, period = solver_of().chain, 0.01
    jog = jogger()
    rng = np.random.default_rng(1)
    named = set()
    for q in draw(chain, 10, 1):
        twist = 0.5 * rng.normal(size=6)
        for _ in range(300):
            step = jog.step(q, twist, period)
            assert (np.abs(step.velocity) <= SPEEDS * (1.0 + 1e-12)).all()
            q = q + step.velocity * period
            assert (q >= chain.lower - 1e-12).all()
            assert (q <= chain.upper + 1e-12).all()
            named.update(step.stopped)
    assert len(named) >= 3


def test_from_beyond_a_limit_there_is_only_the_way_back():
    chain = solver_of().chain
    q = GOOD.copy()
    q[3] = chain.upper[3] + 0.05
    for twist in np.eye(6):
        velocity = jogger().step(q, 0.2 * twist, 0.01).velocity
        assert velocity[3] == pytest.approx(-SPEEDS[3])


def test_singular_configurations_are_passed_with_small_speeds():
    chain = solver_of("ur10e").chain
    jog = VelocityIk(chain, np.full(6, np.pi))
    stretched = np.array([0.2, -1.2, 0.0, 0.3, 0.0, 0.1])
    step = jog.step(stretched, [0.3, 0.0, 0.0, 0.0, 0.0, 0.0], 0.01)
    assert step.smallest_singular_value < 1e-6
    assert np.abs(step.velocity).max() < 3.0
    still = jog.step(stretched, np.zeros(6), 0.01)
    np.testing.assert_allclose(still.velocity, 0.0, atol=1e-12)


def test_secondary_motion_does_not_move_the_tip():
    wish = np.zeros(7)
    wish[2] = 0.5
    twist = np.array([0.05, 0.0, 0.0, 0.0, 0.0, 0.0])
    step = jogger().step(GOOD, twist, 1e-3, secondary=wish)
    np.testing.assert_allclose(step.twist, twist, atol=1e-4)
    assert np.linalg.norm(step.velocity - jogger().step(GOOD, twist, 1e-3).velocity) > 0.05


def test_bad_input_is_refused():
    jog = jogger()
    good = np.zeros(6)
    for q, twist, period, field in (
        (GOOD[:6], good, 0.01, "q"),
        ([*GOOD[:6], np.nan], good, 0.01, "q"),
        (GOOD, np.zeros(3), 0.01, "twist"),
        (GOOD, [np.inf, 0, 0, 0, 0, 0], 0.01, "twist"),
        (GOOD, "forward", 0.01, "twist"),
        (GOOD, good, 0.0, "period"),
        (GOOD, good, np.nan, "period"),
    ):
        with pytest.raises(InvalidCommand, check=about(field)):
            jog.step(q, twist, period)
    with pytest.raises(InvalidCommand):
        jog.step(GOOD, good, 0.01, secondary=np.zeros(6))
    for speeds in (np.zeros(7), np.ones(6), np.full(7, np.nan)):
        with pytest.raises(InvalidConfig):
            VelocityIk(solver_of().chain, speeds)
    with pytest.raises(InvalidConfig, check=about("threshold")):
        jogger(threshold=0.0)
