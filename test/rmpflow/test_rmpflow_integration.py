# SPDX-License-Identifier: Apache-2.0
"""Integration: limits for any desired acceleration, substeps, smoothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raised_errors import about

from motion_nodes.core.reactive.integration import (
    Integrator,
    JointMotion,
    Smoothing,
    SmoothingSettings,
    substeps,
)
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.errors import InvalidConfig
from motion_nodes.kernels.formulas.ops import NUMPY
from motion_nodes.kernels.rmp.rmp_integration import INPUTS, affordable

NAMES = ("a", "b", "c")


def limits(jerk=500.0):
    return JointLimits(
        NAMES,
        np.array([-1.0, -0.3, -3.0]),
        np.array([1.0, 0.02, 3.0]),
        np.array([2.0, 0.5, 10.0]),
        np.ones(3),
        np.array([10.0, 3.0, 50.0]),
        np.array([jerk, 0.4 * jerk, 10.0 * jerk]),
    )


def at_rest():
    return JointMotion(np.zeros(3), np.zeros(3), np.zeros(3))


@pytest.mark.parametrize("dt", [0.001, 0.00334, 0.01])
@pytest.mark.parametrize("kind", ["up", "random", "bang"])
def test_no_wish_breaks_a_limit(kind, dt):
    """Position, velocity, acceleration and jerk limits hold at every step, up to rounding."""
    given_limits, rng = limits(), np.random.default_rng(4)
    integrator = Integrator(given_limits, 50.0, bounded_jerk=True)
    state, farthest = at_rest(), np.full(3, -np.inf)
    for k in range(3000):
        wish = {
            "up": np.full(3, 1e4),
            "random": rng.normal(size=3) * 1e3,
            "bang": np.full(3, 1e5 if (k // 137) % 2 else -1e5),
        }[kind]
        before = state.qdd.copy()
        integrator.step(state, wish, dt)
        assert np.abs(state.qdd - before).max() <= np.max(given_limits.jerk * dt * (1 + 1e-9))
        assert (np.abs(state.qdd - before) <= given_limits.jerk * dt * (1 + 1e-9)).all()
        assert (np.abs(state.qdd) <= given_limits.acceleration * (1 + 1e-9)).all()
        assert (np.abs(state.qd) <= given_limits.velocity * (1 + 1e-9)).all()
        assert given_limits.within(state.q, 0.0)
        farthest = np.maximum(farthest, state.q)
    if kind == "up":
        assert farthest == pytest.approx(given_limits.upper, abs=0.02)


@given(
    rows=st.lists(
        st.tuples(
            *(st.floats(-1.0, 1.0), st.floats(-3.0, 3.0), st.floats(-20.0, 20.0)),
            st.floats(-15.0, 15.0),
        ),
        min_size=1,
        max_size=13,
    )
)
@settings(derandomize=True, max_examples=60, deadline=None)
def test_generated_steps_are_those_of_numpy(rows):
    inputs = np.array([[*row, -1.0, 1.0, 2.5, 15.0, 4000.0, 0.002] for row in rows])
    assert inputs.shape[1] == len(INPUTS)
    q, qd, last, desired = inputs[:, :4].T
    one = np.ones(len(rows))
    joints = JointLimits(
        tuple(map(str, range(len(rows)))), -one, one, 2.5 * one, one, 15.0 * one, 4000.0 * one
    )
    state = JointMotion(q, qd, last)
    Integrator(joints, 50.0, bounded_jerk=True).step(state, desired, 0.002)
    a = np.asarray(affordable(NUMPY, dict(zip(INPUTS, inputs.T, strict=True))))
    # A bisection step that differs by rounding changes the result by the last interval.
    free = state.qd == pytest.approx(qd + 0.002 * a, abs=1e-7)
    stopped = (np.abs(q + 0.002 * qd) > 1.0) & (state.qd == 0.0)
    assert free or (stopped | (np.abs(state.qd - qd - 0.002 * a) < 1e-7)).all()
    assert state.qdd == pytest.approx(np.where(stopped, 0.0, a), abs=1e-5)


def test_outside_its_limits_a_joint_gets_no_further_out_and_comes_back():
    integrator = Integrator(limits(), 50.0, bounded_jerk=True)
    state = JointMotion(np.array([1.1, 0.0, 0.0]), np.array([0.5, 0.0, 0.0]), np.zeros(3))
    for _ in range(500):
        integrator.step(state, np.array([1e3, 0.0, 0.0]), 0.002)
        assert state.q[0] <= 1.1
    for _ in range(2000):
        integrator.step(state, np.array([-30.0, 0.0, 0.0]), 0.002)
    assert -1.0 <= state.q[0] <= 1.0


def test_too_great_a_wish_keeps_its_direction():
    integrator = Integrator(limits(jerk=1e6), 50.0, bounded_jerk=False)
    state, wish = at_rest(), np.array([100.0, 30.0, -300.0])
    integrator.step(state, wish, 0.001)
    assert state.qdd / np.linalg.norm(state.qdd) == pytest.approx(wish / np.linalg.norm(wish))
    assert np.abs(state.qdd / limits().acceleration).max() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("duration", "longest", "count"),
    [(1 / 60, 0.00334, 5), (0.001, 0.00334, 1), (0.01, 0.005, 2), (0.02, 1 / 300, 6)],
)
def test_number_of_steps(duration, longest, count):
    assert substeps(duration, longest) == (count, pytest.approx(duration / count))


@pytest.mark.parametrize("duration", [0.0, -0.1, np.nan, np.inf])
def test_durations_that_are_none_are_refused(duration):
    with pytest.raises(InvalidConfig, check=about("duration")):
        substeps(duration, 0.001)


def test_time_scaling_is_the_same_path_driven_slower():
    """A damped spring at speed s passes the same states, 1/s times later."""

    def policy(q):
        return lambda qd: -4.0 * q - 2.0 * qd

    def run(scalar, steps, dt):
        own = SmoothingSettings(desired_speed_scalar=scalar, big_jump=1e9, medium_jump=1e9)
        smoothing, q, qd = Smoothing(own), np.array([1.0]), np.zeros(1)
        for _ in range(steps):
            a = smoothing.acceleration(policy(q), qd, np.zeros(1), dt)
            q, qd = q + dt * qd, qd + dt * a
        return q, qd

    q1, qd1 = run(1.0, 1000, 0.001)
    q2, qd2 = run(0.5, 1000, 0.002)
    assert q2 == pytest.approx(q1, abs=1e-9)
    assert qd2 == pytest.approx(0.5 * qd1, abs=1e-9)


def test_a_big_jump_drops_the_speed_which_recovers():
    smoothing = Smoothing(SmoothingSettings())
    last, most = np.zeros(3), 0.0
    for k in range(600):
        wish = np.array([40.0, 0.0, 0.0]) if k > 10 else np.zeros(3)
        new = smoothing.acceleration(lambda qd, w=wish: w, np.zeros(3), last, 0.005)
        most = max(most, float(np.linalg.norm(new - last)))
        if k == 11:
            assert smoothing.speed_scalar < 0.25
        last = new
    assert most <= 7.0 + 1e-9
    assert smoothing.speed_scalar == pytest.approx(1.0, abs=0.01)
    assert last == pytest.approx([40.0, 0.0, 0.0], rel=0.02)


@pytest.mark.parametrize("name", ["min_speed_scalar", "big_jump", "recovery"])
@pytest.mark.parametrize("value", [-1.0, np.nan])
def test_bad_smoothing_is_refused(name, value):
    with pytest.raises(InvalidConfig, check=about(name)):
        SmoothingSettings(**{name: value})
