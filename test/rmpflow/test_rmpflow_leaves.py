# SPDX-License-Identifier: Apache-2.0
"""The RMPs against golden values for the Franka's parameters."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motion_nodes.core.reactive import numpy_policy
from motion_nodes.core.robot.rmpflow_settings import Collision, RmpflowSettings
from motion_nodes.kernels.formulas import rmps
from motion_nodes.kernels.formulas.ops import NUMPY
from motion_nodes.kernels.formulas.rmps import JointState, ToolState
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
