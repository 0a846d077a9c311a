# SPDX-License-Identifier: Apache-2.0
"""Jerk-limited motions from state to state: closed forms, limits, errors, no waypoints."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raised_errors import about
from trajectory.retime_limits import JERK, arm_limits, limits_of

import motion_nodes
from motion_nodes.core.trajectory.joint_trajectory import Infeasible, TrajectorySample
from motion_nodes.core.trajectory.splice import point_to_point
from motion_nodes.errors import InvalidCommand, InvalidConfig


def test_ruckig_is_never_given_waypoints():
    # With waypoints the community version calls a server on the network.
    for source in Path(motion_nodes.__file__).parent.rglob("*.py"):
        text = source.read_text()
        assert "intermediate_positions" not in text, source
        assert "cloud" not in text.lower() or "ruckig" not in text, source


def test_rest_to_rest_takes_the_closed_form():
    # Max velocity and acceleration are reached: T = D/v + v/a + a/j.
    trajectory = point_to_point([0.0], [1.0], limits_of(2.175, 15.0, 7500.0))
    assert trajectory.duration == pytest.approx(1 / 2.175 + 2.175 / 15 + 15 / 7500, abs=1e-9)
    short = point_to_point([0.0], [1e-3], limits_of(2.0, 15.0, 100.0))
    assert short.duration == pytest.approx(4.0 * np.cbrt(1e-3 / (2.0 * 100.0)), rel=1e-9)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.integers(0, 10_000), st.booleans())
def test_any_state_to_any_state_within_limits(seed, jerk_limited):
    rng = np.random.default_rng(seed)
    limits = arm_limits(JERK * 0.01 if jerk_limited else np.inf)
    states = [
        TrajectorySample(
            rng.uniform(-2.5, 2.5, 7),
            rng.uniform(-0.5, 0.5, 7) * limits.velocity,
            rng.uniform(-0.1, 0.1, 7) * limits.acceleration,
        )
        for _ in range(2)
    ]
    trajectory = point_to_point(*states, limits)
    for time, state in zip((0.0, trajectory.end_time), states, strict=True):
        # Without jerk limits accelerations jump, so those of start and goal have no effect.
        parts = 3 if jerk_limited else 2
        for got, wanted in list(zip(trajectory.sample(time), state, strict=True))[:parts]:
            np.testing.assert_allclose(got, wanted, atol=1e-6)
    h = 1e-3
    samples = [trajectory.sample(t) for t in np.arange(0.0, trajectory.end_time, h)]
    v, a = np.array([s.velocity for s in samples]), np.array([s.acceleration for s in samples])
    assert np.all(np.abs(v) <= limits.velocity + 1e-6)
    assert np.all(np.abs(a) <= limits.acceleration + 1e-6)
    assert np.all(np.abs(np.diff(a, axis=0)) <= limits.jerk * h + 1e-6)
    assert np.all(np.abs(np.diff(v, axis=0)) <= limits.acceleration * h + 1e-9)


def test_all_joints_arrive_together_and_scaling_slows_down():
    limits = limits_of([1.0, 1.0], 5.0, 50.0)
    trajectory = point_to_point([0.0, 0.0], [1.0, 0.1], limits)
    before = trajectory.sample(trajectory.end_time - 1e-2)
    assert np.all(np.abs(before.velocity) > 0.0)
    slow = point_to_point([0.0, 0.0], [1.0, 0.1], limits, velocity_scaling=0.5)
    assert slow.duration > trajectory.duration
    for time in (-1.0, trajectory.end_time + 1.0):
        np.testing.assert_array_equal(trajectory.sample(time).velocity, 0.0)


@pytest.mark.parametrize(
    ("start", "goal", "error", "words"),
    [
        ([0.0], [0.0], Infeasible, "goal"),
        ([0.0], [11.0], Infeasible, "goal"),
        ([np.nan], [1.0], InvalidCommand, "joint1"),
        ([0.0, 0.0], [1.0], InvalidCommand, "position"),
        (
            TrajectorySample(np.zeros(1), np.ones(1) * 9, np.zeros(1)),
            [1.0],
            Infeasible,
            "joint1",
        ),
        (
            TrajectorySample(np.ones(1) * 9.99, np.ones(1), np.zeros(1)),
            [1.0],
            Infeasible,
            "joint1",
        ),
    ],
)
def test_states_of_no_use_are_refused(start, goal, error, words):
    with pytest.raises(error, check=about(words)):
        point_to_point(start, goal, limits_of(1.0, 5.0, 50.0))


def test_limits_are_needed():
    with pytest.raises(InvalidConfig):
        point_to_point([0.0], [1.0], limits_of(1.0, np.inf, 50.0))
