# SPDX-License-Identifier: Apache-2.0
"""Blocked joints by positions alone: what lags, leads or is late is not blocked, what stands is."""

from __future__ import annotations

import numpy as np
import pytest

from motion_nodes.core.control.joint_guard import EXTRAPOLATED, GuardSettings, JointGuard

LAG, SPEED = 0.25, 2.6
TOLERANCE = np.array([0.05])
FREE = np.zeros(1, np.bool_)


def times_blocked(period, measured):
    """Move a joint back and forth from rest, and return when it counts as blocked [s].

    Args:
        period: of references and measurements [s].
        measured: returns the measured position from the reference as a function and the time.
    """
    wide = np.full(1, np.inf)
    guard = JointGuard(GuardSettings(TOLERANCE, wide, LAG, -wide, wide), period)

    def reference(time):
        return np.array([SPEED * np.sin(max(time, 0.0))])

    found = []
    for k in range(round(-0.5 / period), round(4.0 / period)):
        time = k * period
        if guard.check(np.asarray(measured(reference, time)), TOLERANCE, FREE) is not None:
            found.append(time)
        guard.note(reference(time), np.array([SPEED * np.cos(time) * (time > 0.0)]), period)
    return found


@pytest.mark.parametrize("period", [0.02, 0.004])
@pytest.mark.parametrize("delay", [0.2, 0.04, -EXTRAPOLATED])
def test_a_joint_that_lags_or_is_extrapolated_is_not_blocked(period, delay):
    """Extrapolated references precede the newest one, that of the last cycle."""
    assert not times_blocked(period, lambda reference, time: reference(time - period - delay))


@pytest.mark.parametrize("period", [0.02, 0.004])
@pytest.mark.parametrize("begin", [0.1, 1.0, 2.5])
def test_a_joint_that_stands_is_blocked(period, begin):
    found = times_blocked(period, lambda reference, time: reference(min(time, begin)))
    assert found
    # All references of the last LAG seconds are more than the tolerance away.
    assert begin + LAG < found[0] < begin + LAG + 0.4


@pytest.mark.parametrize("period", [0.02, 0.004])
def test_a_joint_that_runs_away_is_blocked(period):
    """Further ahead than any extrapolation."""
    found = times_blocked(period, lambda reference, time: reference(time + 0.1))
    assert found
    assert found[0] < 1.0
