# SPDX-License-Identifier: Apache-2.0
"""The RMPs against golden values, and the integration of what they want."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raised_errors import about

from motion_nodes.core.reactive import numpy_policy
from motion_nodes.core.reactive.integration import (
    Integrator,
    JointMotion,
    Smoothing,
    SmoothingSettings,
    substeps,
)
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.rmpflow_settings import Collision, RmpflowSettings
from motion_nodes.errors import InvalidConfig
from motion_nodes.kernels.formulas import rmps
from motion_nodes.kernels.formulas.ops import NUMPY
from motion_nodes.kernels.formulas.rmps import JointState, ToolState
from motion_nodes.kernels.rmp.rmp_integration import INPUTS, affordable
from motion_nodes.kernels.rmp.rmp_leaves import LEAVES, axis_coefficients

DEFAULTS = RmpflowSettings()
LEAF = {leaf.name: (leaf, leaf.coefficients(DEFAULTS)) for leaf in LEAVES}
DISTANCES = st.floats(-0.1, 1.0)
SPEEDS = st.floats(-5.0, 5.0)


def joint(name, **known):
    """Return acceleration and metric of a joint's RMP with the default settings."""
    state = dict.fromkeys(("q", "qd", "offset", "distance"), 0.0)
    state |= {"lower": 0.0, "upper": 1.0, "max_velocity": 4.0, "region": 1.5}
    leaf, p = LEAF[name]
    metric, force = leaf.joint(NUMPY, JointState(**(state | known)), p)
    return force / np.where(metric == 0.0, 1.0, metric), metric


def tool(name, x, v, goal=(0.0, 0.0, 0.0)):
    """Return acceleration and metric of the tool's RMP with the default settings."""
    leaf, p = LEAF[name]
    M, force = leaf.tool(NUMPY, ToolState(list(x), list(v), list(goal)), p)
    return np.linalg.solve(np.array(M), np.array(force)), np.array(M)


def limit(x, xd):
    return rmps.limit(NUMPY, x, xd, LEAF["joint_limit_rmp"][1])


@pytest.mark.parametrize(("offset", "pull"), [(0.2, 20.0), (0.5, 50.0), (1.0, 50.0), (3.0, 50.0)])
def test_posture_pulls_no_harder_beyond_the_threshold(offset, pull):
    direction = np.array([0.6, 0.0, -0.8])
    acceleration, metric = joint("cspace_target_rmp", offset=offset * direction, distance=offset)
    assert acceleration == pytest.approx(pull * direction)
    assert metric == 50.0


def test_posture_damps():
    qd = np.array([0.1, -0.2])
    acceleration, _ = joint("cspace_target_rmp", qd=qd)
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
    got = limit(x, xd)
    assert got[0] == pytest.approx(acceleration, rel=1e-4)
    assert got[1] == pytest.approx(metric, rel=1e-4)


@pytest.mark.parametrize(
    ("qd", "acceleration", "metric"),
    [(3.0, -500.0, 112.5), (3.9, -1400.0, 775.862), (-3.0, 500.0, 112.5), (2.5, 0.0, 0.0)],
)
def test_velocity_cap(qd, acceleration, metric):
    got = joint("joint_velocity_cap_rmp", qd=qd)
    assert got[0] == pytest.approx(acceleration)
    assert got[1] == pytest.approx(metric, rel=1e-5)


def test_velocity_cap_stays_finite_beyond_the_cap():
    acceleration, metric = joint("joint_velocity_cap_rmp", qd=np.array([4.0, 50.0]))
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
    n = np.array([2.0, -1.0, 2.0]) / 3.0
    acceleration, M = tool("target_rmp", np.zeros(3), np.zeros(3), d * n)
    assert acceleration == pytest.approx(pull * n, rel=1e-6)
    assert rmps.boosted(NUMPY, d * d, LEAF["target_rmp"][1]) == pytest.approx(boost, rel=1e-5)
    across = np.array([1.0, 2.0, 0.0]) / np.sqrt(5.0)
    assert across @ M @ across == pytest.approx(boost * alpha * 1e4, rel=1e-4)
    assert n @ M @ n == pytest.approx(boost * (alpha * 1e4 + (1.0 - alpha) * 2500.0), rel=1e-4)


def test_target_reached_asks_for_nothing_and_stays_finite():
    acceleration, M = tool("target_rmp", np.ones(3), np.zeros(3), np.ones(3))
    assert acceleration == pytest.approx(np.zeros(3))
    assert np.diag(M) == pytest.approx([20.0 * 1e4] * 3)


def test_axis_counts_more_near_the_position():
    n, goal, p = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], axis_coefficients(DEFAULTS)
    assert rmps.axis_target(n, [0.0] * 3, goal, p) == pytest.approx([-210.0, 210.0, 0.0])
    assert rmps.axis_weight(NUMPY, 7.0, 0.0, p) == 10.0
    assert rmps.axis_weight(NUMPY, 0.0, 1.0, p) == pytest.approx(30000.0)
    beta = np.exp(-0.5)
    at_scale = rmps.axis_weight(NUMPY, 0.08**2, 1.0, p)
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
    got = numpy_policy.collision(x, xd, Collision())
    assert got[0] == pytest.approx(acceleration, rel=1e-5, abs=5e-7)
    assert got[1] == pytest.approx(metric, rel=1e-5, abs=1e-5)


def test_damping_grows_with_the_square_of_the_speed():
    xd = np.array([0.3, 0.0, 0.4])
    acceleration, metric = tool("damping_rmp", np.zeros(3), xd)
    assert acceleration == pytest.approx(-30.0 * 0.5 * xd)
    assert metric == pytest.approx(25.0 * np.eye(3))


@given(x=DISTANCES, xd=SPEEDS)
@settings(derandomize=True, max_examples=200)
def test_obstacles_and_limits_never_pull_nor_weigh_negative(x, xd):
    for acceleration, metric in (
        numpy_policy.collision(x, xd, Collision()),
        limit(x, min(xd, 0.0)),
    ):
        assert metric >= 0.0
        assert np.isfinite(metric)
        assert xd > 0.0 or acceleration >= 0.0


def test_cap_keeps_the_direction():
    a = np.array([30.0, -40.0, 120.0])
    assert numpy_policy.capped(a, 50.0) == pytest.approx(a * (50.0 / 130.0))
    assert numpy_policy.capped(a, 200.0) is a


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
