# SPDX-License-Identifier: Apache-2.0
"""Time stamps of commands: accepted, clamped to now, or refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motion_nodes.ros.ros_time import command_time

TIMES = st.floats(0.0, 1e9)


def test_no_stamp_means_now():
    assert command_time(0.0, 12.0, 0.5) == (12.0, None)


def test_a_recent_stamp_is_the_time_given():
    assert command_time(11.7, 12.0, 0.5) == (11.7, None)


def test_an_old_stamp_is_refused_with_the_reason():
    given_at, warning = command_time(11.0, 12.0, 0.5)
    assert given_at is None
    assert "1.0 s old" in warning
    assert "timeout of 0.5 s" in warning
    assert "use_sim_time" in warning


def test_a_slightly_future_stamp_counts_from_now():
    assert command_time(12.2, 12.0, 0.5) == (12.0, None)


def test_a_far_future_stamp_counts_from_now_with_a_warning():
    given_at, warning = command_time(20.0, 12.0, 0.5)
    assert given_at == 12.0
    assert "8.0 s ahead" in warning


@given(stamp=TIMES, now=TIMES, timeout=st.floats(1e-3, 60.0))
def test_no_command_ever_counts_longer_than_the_timeout(stamp, now, timeout):
    given_at, warning = command_time(stamp, now, timeout)
    if given_at is None:
        assert warning
        assert stamp < now
    else:
        assert given_at <= now
        assert now - given_at <= timeout * (1.0 + 1e-9) + 1e-6


@pytest.mark.parametrize("now", [0.0, 5.0])
def test_boundaries(now):
    assert command_time(now, now, 0.5)[0] == now
