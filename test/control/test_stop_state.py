# SPDX-License-Identifier: Apache-2.0
"""The latched stop without ROS: merging of copies in any order, and the time to rest."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from motion_nodes.core.control.stop_state import MAX_REASON, MAX_TIME, RestTimer, StopState
from motion_nodes.errors import InvalidCommand


def test_two_stops_and_one_resume():
    state = StopState().stop(100, "first").stop(200, "second")
    assert state.stopped
    assert state.reason == "first"
    assert not state.resume().stopped
    assert not state.resume().resume().stopped


def test_a_stop_after_a_resume_counts_whatever_the_clock_says():
    state = StopState().stop(1000, "a").resume()
    again = state.stop(5, "b")
    assert again.stopped
    assert again.reason == "b"


def test_late_and_repeated_messages_never_undo_a_stop():
    before = StopState()
    stopped = before.stop(10, "a")
    resumed = stopped.resume()
    again = resumed.stop(20, "b")
    for old in (before, stopped, resumed):
        assert again.merge(old) == again
        assert old.merge(again).stopped


def test_a_resume_covers_only_stops_that_it_knew_of():
    first = StopState().stop(10, "a")
    unknown = first.stop(20, "b")
    assert first.resume().merge(unknown).stopped
    assert unknown.merge(first.resume()).stopped


def test_copies_agree_in_whatever_order_they_are_merged():
    rng = np.random.default_rng(3)
    for _ in range(50):
        copies = [StopState()]
        for now in rng.integers(0, 1000, 3):
            some = copies[int(rng.integers(len(copies)))]
            copies.append(some.stop(int(now), "x") if rng.random() < 0.6 else some.resume())
        ends = set()
        for order in itertools.permutations(copies):
            merged = StopState()
            for copy in order:
                merged = merged.merge(copy)
            ends.add((merged.stopped_ns, merged.resumed_ns))
        assert len(ends) == 1


@pytest.mark.parametrize("times", [(1, 2), (-1, -1), (MAX_TIME + 1, 0), (0, -5)])
def test_impossible_times_are_refused(times):
    with pytest.raises(InvalidCommand):
        StopState(*times)


def test_a_stop_at_the_end_of_time_still_stops():
    assert StopState(MAX_TIME, MAX_TIME).stop(0, "late").stopped


def test_reasons_are_bounded():
    assert len(StopState().stop(1, "x" * 10_000).reason) == MAX_REASON
    assert len(StopState().merge(StopState(1, 0, "x" * 10_000)).reason) == MAX_REASON


def test_time_to_rest_is_that_of_the_last_motion():
    timer = RestTimer()
    timer.start(10.0)
    for i in range(40):
        now = 10.0 + 0.01 * i
        # Zero velocity for one sample of an oscillation.
        timer.update(now, still=i == 5 or i >= 20)
    assert timer.seconds == pytest.approx(0.2)
    assert not timer.waiting


def test_a_lost_robot_is_not_at_rest():
    timer = RestTimer()
    timer.start(0.0)
    for i in range(100):
        timer.update(0.01 * i, still=True, fault="no state")
    assert timer.waiting
    assert timer.fault == "no state"


def test_time_that_is_set_back_gives_no_negative_time():
    timer = RestTimer()
    timer.start(100.0)
    for i in range(50):
        timer.update(0.01 * i, still=i > 10)
    assert timer.seconds == pytest.approx(0.11)


def test_a_stop_that_is_known_already_changes_nothing():
    state = StopState().stop(10, "a").stop(20, "b")
    assert state.stop(20, "again") == state
    assert state.stop(10, "late") == state
    assert state.resume().stop(20, "repeated") == state.resume()
