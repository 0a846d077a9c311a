# SPDX-License-Identifier: Apache-2.0
"""Motions with a limited speed of a point: ramps, a phase of constant speed, closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from raised_errors import about
from trajectory.retime_limits import limits_of

from motion_nodes.core.trajectory.joint_path import JointPath
from motion_nodes.core.trajectory.time_parameterization import PointSpeeds, time_optimal
from motion_nodes.errors import InvalidConfig

AXES = np.vstack([np.eye(2), np.zeros((1, 2))])
"""Jacobian of a gantry: its joints are the coordinates of the tool."""
LENGTH = 1.5
WAY = LENGTH * np.array([0.6, 0.8])
V, A, J = 4.0, 2.0, 40.0
"""Limits of both joints."""


def gantry(limit: float) -> PointSpeeds:
    return PointSpeeds((lambda Q: np.tile(AXES, (len(Q), 1, 1)),), (limit,))


def line(pieces: int = 1) -> JointPath:
    """Return a line of the gantry, in one piece or in several equal ones."""
    breaks = np.linspace(0.0, LENGTH, pieces + 1)
    starts = breaks[:-1, None] / LENGTH * WAY
    coefficients = np.stack([starts, np.tile(WAY / LENGTH, (pieces, 1))], axis=1)
    return JointPath(limits_of([V, V], [A, A]).names, breaks, coefficients, np.empty(0))


@pytest.mark.parametrize("pieces", [1, 7])
@pytest.mark.parametrize("jerk", [np.inf, J])
@pytest.mark.parametrize("speed", [0.05, 0.2, 0.8])
def test_a_line_takes_the_time_of_a_trapezoid(speed, jerk, pieces):
    """Ramps at the acceleration of the joints, and between them the speed limit."""
    limits = limits_of([V, V], [A, A], jerk=[jerk, jerk])
    motion = time_optimal(line(pieces), limits, speeds=gantry(speed))
    a, j = A / 0.8, jerk / 0.8
    if not np.isfinite(jerk):
        ramp = speed / a
    elif speed * j < a**2:
        ramp = 2.0 * np.sqrt(speed / j)
    else:
        ramp = speed / a + a / j
    expected = LENGTH / speed + ramp
    assert motion.duration == pytest.approx(expected, rel=0.01)
    assert motion.duration >= expected * (1.0 - 1e-4)
    q, v, _, _ = motion.states(np.linspace(0.0, motion.duration, 4001))
    speeds = np.linalg.norm(v, axis=1)
    assert speeds.max() <= speed * (1.0 + 1e-3)
    share = float((speeds > 0.98 * speed).mean())
    assert share == pytest.approx(1.0 - 2.0 * ramp / expected, abs=0.05)
    np.testing.assert_allclose(q[-1], WAY, atol=1e-9)
    assert motion.limit_use(limits).stretch <= 1.0 + 1e-6


@pytest.mark.parametrize("jerk", [np.inf, J])
def test_a_limit_that_is_not_reached_changes_nothing(jerk):
    limits = limits_of([V, V], [A, A], jerk=[jerk, jerk])
    free = time_optimal(line(), limits)
    assert time_optimal(line(), limits, speeds=gantry(50.0)).duration == free.duration


@pytest.mark.parametrize("speed", [0.0, -1.0, np.nan])
def test_speeds_that_are_no_limits_are_refused(speed):
    with pytest.raises(InvalidConfig, check=about("max_speed")):
        gantry(speed)
