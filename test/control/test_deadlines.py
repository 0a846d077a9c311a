# SPDX-License-Identifier: Apache-2.0
"""Each deadline of a stream is served once and in order, whenever the thread wakes up."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motion_nodes.ros.ros_time import MAX_CATCH_UP, Deadlines

PERIODS = st.sampled_from([1 / 250, 1 / 300, 1 / 1000, 1 / 30, 0.01])
STARTS = st.integers(0, 4_000_000_000_000_000_000)
"""[ns] Of simulated time near 0, and of the system's clock."""


def wake_ups(longest: float) -> st.SearchStrategy[list[float]]:
    """Return the periods between wake-ups: early, on time, in bursts, late by many."""
    usual = st.floats(0.0, 2.5)
    return st.lists(st.one_of(usual, st.just(0.0), st.floats(0.0, longest)), min_size=1)


def served(deadlines: Deadlines, start: int, period: float, apart: list[float]) -> list[int]:
    """Return all stamps, and check that none lies in the future of its wake-up."""
    now, stamps = float(start), []
    for share in apart:
        now += share * period * 1e9
        due = deadlines.due(round(now))
        assert all(stamp <= round(now) for stamp in due.stamps)
        stamps += due.stamps
        assert deadlines.next_ns > round(now)
    return stamps


@given(PERIODS, STARTS, wake_ups(9.9))
def test_every_deadline_is_served_once_however_late(period, start, apart):
    deadlines = Deadlines(period)
    deadlines.begin(start, start)
    stamps = served(deadlines, start, period, apart)
    expected = [start + round(k * period * 1e9) for k in range(1, len(stamps) + 1)]
    assert stamps == expected
    # The next one is in the future: none is missing at the end.
    assert deadlines.next_ns == start + round((len(stamps) + 1) * period * 1e9)


@given(PERIODS, STARTS, wake_ups(80.0))
def test_stamps_stay_on_the_grid_after_any_stall(period, start, apart):
    deadlines = Deadlines(period)
    deadlines.begin(start, start)
    stamps = served(deadlines, start, period, apart)
    numbers = [round((stamp - start) / (period * 1e9)) for stamp in stamps]
    assert all(
        abs(start + k * period * 1e9 - s) < 1e4 for k, s in zip(numbers, stamps, strict=True)
    )
    assert all(b > a for a, b in itertools.pairwise(numbers))


@given(PERIODS, wake_ups(9.9), st.integers(2, 40))
def test_a_sampled_motion_is_even_by_order_and_by_stamps(period, apart, bunch):
    """With a clock in coarse steps, samples equal those of a punctual sampler."""
    deadlines = Deadlines(period)
    deadlines.begin(0, 0)
    grain = period / bunch
    now, stamps = 0.0, []
    for share in apart:
        now += share * period
        stamps += deadlines.due(round(round(now / grain) * grain * 1e9)).stamps
    reference = np.sin(3.0 * period * np.arange(1, len(stamps) + 1))
    by_stamp = np.sin(3.0 * 1e-9 * np.array(stamps))
    np.testing.assert_allclose(reference, by_stamp, atol=1e-8)


def test_a_long_stall_is_not_made_up_for():
    deadlines = Deadlines(0.004)
    deadlines.begin(0, 0)
    assert deadlines.due(4_000_000).stamps == (4_000_000,)
    most = round(MAX_CATCH_UP / 0.004)
    due = deadlines.due(4_000_000 * (1 + most))
    assert (len(due.stamps), due.skipped, due.next_ns) == (most, 0, 8_000_000)
    late = deadlines.due(4_000_000 * (2 + 2 * most) + 123)
    assert late.stamps == (4_000_000 * (2 + 2 * most),)
    assert late.skipped == most
    assert late.next_ns == late.stamps[0]
    assert deadlines.next_ns == 4_000_000 * (3 + 2 * most)


def test_slow_streams_are_made_up_for_by_ten_periods():
    deadlines = Deadlines(0.1)
    deadlines.begin(0, 0)
    assert len(deadlines.due(1_000_000_000).stamps) == 10


def test_time_that_goes_back_serves_nothing_twice():
    deadlines = Deadlines(0.01)
    deadlines.begin(0, 5_000_000)
    assert deadlines.due(20_000_000).stamps == (10_000_000, 20_000_000)
    assert deadlines.due(12_000_000).stamps == ()
    assert deadlines.due(29_999_999).stamps == ()
    assert deadlines.due(30_000_000).stamps == (30_000_000,)


def test_begins_anew_after_a_jump():
    deadlines = Deadlines(0.01)
    deadlines.begin(0, 50_000_000)
    assert deadlines.next_ns == 60_000_000
    deadlines.begin(0, 0)
    assert deadlines.due(0).stamps == ()
    assert deadlines.due(10_000_000).stamps == (10_000_000,)


def test_deadlines_taken_while_time_stands_are_not_due_again():
    deadlines = Deadlines(0.01)
    deadlines.begin(0, 0)
    assert [deadlines.take() for _ in range(3)] == [10_000_000, 20_000_000, 30_000_000]
    assert deadlines.due(35_000_000).stamps == ()
    assert deadlines.due(40_000_000).stamps == (40_000_000,)


@pytest.mark.parametrize("period", [0.0, -1.0, float("nan"), float("inf")])
def test_bad_periods_are_refused(period):
    with pytest.raises(ValueError, match="finite"):
        Deadlines(period)
