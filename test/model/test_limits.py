# SPDX-License-Identifier: Apache-2.0
"""Joint limits: clipping, messages of violations, selection of joints."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motion_nodes.core.robot.limits import JointLimits, joint_indices
from motion_nodes.errors import InvalidCommand, UnknownJoint

LIMITS = JointLimits(
    ("a", "b", "c"),
    lower=np.array([-1.0, 0.0, -np.inf]),
    upper=np.array([1.0, 0.5, np.inf]),
    velocity=np.array([1.0, 2.0, 3.0]),
    effort=np.array([4.0, 5.0, 6.0]),
    acceleration=np.array([7.0, 8.0, 9.0]),
    jerk=np.array([10.0, 11.0, 12.0]),
)
POSITIONS = st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3)


@given(POSITIONS)
def test_clipping_ends_inside_and_is_idempotent(q: list[float]) -> None:
    clipped = LIMITS.clip(q)
    assert LIMITS.within(clipped)
    assert LIMITS.violations(clipped) == ()
    np.testing.assert_array_equal(LIMITS.clip(clipped), clipped)
    assert LIMITS.within(q) == (LIMITS.violations(q) == ()) == bool(np.all(clipped == q))


def test_violations_say_which_joint_and_what_is_allowed() -> None:
    assert LIMITS.violations([2.0, 0.25, 1e9]) == ("a is 2, allowed is -1 to 1",)
    assert LIMITS.violations([-90.0, 0.25, 0.0])[0].endswith("(in degrees? Angles are in rad)")
    assert len(LIMITS.violations([-2.0, 1.0, 0.0])) == 2
    assert LIMITS.violations([1.0 + 1e-9, 0.0, 0.0], tolerance=1e-8) == ()


def test_nan_is_outside_and_stays_nan() -> None:
    q = [np.nan, 0.0, np.nan]
    assert not LIMITS.within(q)
    assert LIMITS.violations(q) == (
        "a is nan, allowed is -1 to 1",
        "c is nan, allowed is -inf to inf",
    )
    np.testing.assert_array_equal(LIMITS.clip(q), q)


def test_many_positions_are_clipped_at_once() -> None:
    q = np.array([[5.0, 5.0, 5.0], [-5.0, -5.0, -5.0]])
    np.testing.assert_array_equal(LIMITS.clip(q), [[1.0, 0.5, 5.0], [-1.0, 0.0, -5.0]])


@pytest.mark.parametrize("q", [[], [1.0], [0.0] * 4, 3.0])
def test_a_wrong_count_is_named(q: object) -> None:
    for call in (LIMITS.clip, LIMITS.within, LIMITS.violations):
        with pytest.raises(InvalidCommand):
            call(q)  # type: ignore[arg-type]


def test_selecting_keeps_the_order_asked_for() -> None:
    chosen = LIMITS.select(["c", "a"])
    assert chosen.names == ("c", "a")
    np.testing.assert_array_equal(chosen.effort, (6.0, 4.0))
    np.testing.assert_array_equal(chosen.jerk, (12.0, 10.0))
    with pytest.raises(UnknownJoint):
        LIMITS.select(["a", "d"])


def test_limits_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        LIMITS.lower[0] = -9.0
    with pytest.raises(ValueError, match="read-only"):
        LIMITS.select(["a"]).upper[0] = 9.0


def test_indices_of_a_permutation() -> None:
    np.testing.assert_array_equal(joint_indices(("c", "b", "a"), LIMITS.names), (2, 1, 0))
    assert joint_indices((), LIMITS.names).shape == (0,)
