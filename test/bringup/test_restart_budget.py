# SPDX-License-Identifier: Apache-2.0
"""A bounded number of restarts in a sliding window, by a simulated clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raised_errors import about

from motion_nodes.bringup.process_health import RestartBudget, RestartLimits
from motion_nodes.errors import InvalidConfig


def test_the_delays_grow_and_then_the_budget_is_used_up():
    budget = RestartBudget(RestartLimits(burst=4, window=60.0, delays=(0.5, 1.0)))
    assert [budget.take(float(i)) for i in range(6)] == [0.5, 1.0, 1.0, 1.0, None, None]
    assert budget.total == 4


def test_restarts_count_for_the_window_only():
    budget = RestartBudget(RestartLimits(burst=2, window=10.0, delays=(1.0, 2.0)))
    assert budget.take(0.0) == 1.0
    assert budget.take(6.0) == 2.0
    assert budget.take(10.0) is None
    assert budget.take(10.5) == 2.0
    assert budget.take(100.0) == 1.0
    assert budget.used(100.0) == 1


def test_a_budget_of_nothing_restarts_nothing():
    assert RestartBudget(RestartLimits(burst=0)).take(0.0) is None


@given(
    st.integers(0, 5),
    st.floats(0.1, 100.0),
    st.lists(st.floats(0.0, 50.0), min_size=1, max_size=100),
)
def test_no_window_holds_more_restarts_than_the_burst(burst, window, gaps):
    budget = RestartBudget(RestartLimits(burst=burst, window=window))
    now, taken = 0.0, []
    for gap in gaps:
        now += gap
        if budget.take(now) is not None:
            taken.append(now)
    for begin in taken:
        assert sum(0.0 <= t - begin <= window for t in taken) <= burst
    assert budget.total == len(taken)


@pytest.mark.parametrize(
    "fields",
    [{"burst": -1}, {"window": 0.0}, {"window": float("nan")}, {"delays": ()}, {"delays": (-1.0,)},
     {"delays": (float("nan"),)}],
)  # fmt: skip
def test_wrong_numbers_are_refused(fields):
    with pytest.raises(InvalidConfig, check=about(next(iter(fields)))):
        RestartLimits(**fields)
