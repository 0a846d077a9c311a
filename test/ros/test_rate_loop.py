# SPDX-License-Identifier: Apache-2.0
"""The loop of a node at a fixed rate."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from patience import wait_until

from motion_nodes.ros.concurrency.loops import RateLoop


def never(error: BaseException) -> None:
    raise AssertionError(f"crashed: {error}")


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf"), 1e5])
def test_bad_rates_are_refused(rate):
    with pytest.raises(ValueError):
        RateLoop(rate, lambda: None, never)


def test_rate_is_kept_on_average():
    ticks = []
    loop = RateLoop(200.0, lambda: ticks.append(time.monotonic()), never)
    loop.start()
    wait_until(lambda: len(ticks) >= 101, "101 ticks")
    assert loop.stop()
    # Absolute deadlines: lateness does not accumulate, only skipped ticks change the mean.
    took, statistics = ticks[100] - ticks[0], loop.statistics()
    off = statistics.worst_lateness + 1.0 / 200.0
    assert 100 / 200.0 - off <= took <= (100 + statistics.late) / 200.0 + off


def test_missed_ticks_are_skipped_and_counted():
    ticks = []

    def tick() -> None:
        ticks.append(time.monotonic())
        if len(ticks) == 3:
            time.sleep(0.1)

    loop = RateLoop(100.0, tick, never)
    loop.start()
    wait_until(lambda: len(ticks) >= 6, "six ticks")
    loop.stop()
    statistics = loop.statistics()
    assert statistics.late >= 8
    assert statistics.worst_lateness >= 0.08
    # Missed ticks are not repeated: the loop continues at its rate.
    assert ticks[5] - ticks[2] >= 0.1 + 0.009


def test_statistics_begin_anew_after_each_look():
    ticks = []

    def tick() -> None:
        ticks.append(1)
        time.sleep(0.002)

    loop = RateLoop(100.0, tick, never)
    loop.start()
    wait_until(lambda: len(ticks) > 20, "ticks")
    first = loop.statistics()
    assert 0.0 < first.rate <= 110.0
    assert 0.002 * 0.9 * first.rate < first.busy <= 1.0
    loop.stop()
    loop.statistics()
    time.sleep(0.05)
    last = loop.statistics()
    assert last.rate == 0.0
    assert last.busy == 0.0


def test_a_crash_ends_the_loop_and_is_reported_once():
    crashes: list[BaseException] = []
    ticks = []

    def tick() -> None:
        ticks.append(1)
        raise ZeroDivisionError("on purpose")

    loop = RateLoop(500.0, tick, crashes.append)
    loop.start()
    wait_until(lambda: crashes, "the report")
    time.sleep(0.05)
    assert len(ticks) == len(crashes) == 1
    assert isinstance(crashes[0], ZeroDivisionError)
    assert loop.stop()


def test_stop_from_within_a_tick():
    results = []
    loop = RateLoop(500.0, lambda: results.append((loop.inside, loop.stop())), never)
    loop.start()
    wait_until(lambda: results, "a tick")
    time.sleep(0.05)
    assert results == [(True, True)]
    assert not loop.inside


def test_stop_waits_for_the_tick_under_way():
    begun, ended = threading.Event(), threading.Event()

    def tick() -> None:
        begun.set()
        time.sleep(0.15)
        ended.set()

    loop = RateLoop(100.0, tick, never)
    loop.start()
    assert begun.wait(5.0)
    assert loop.stop()
    assert ended.is_set()


def test_stop_says_when_a_tick_does_not_end():
    release = threading.Event()
    begun = threading.Event()

    def tick() -> None:
        begun.set()
        release.wait(10.0)

    loop = RateLoop(100.0, tick, never)
    loop.start()
    assert begun.wait(5.0)
    assert not loop.stop(timeout=0.05)
    release.set()
    assert loop.stop()


def test_a_slow_loop_stops_at_once():
    loop = RateLoop(0.01, lambda: None, never)
    loop.start()
    time.sleep(0.05)
    assert loop.stop(timeout=10.0)


def test_a_loop_that_never_began_can_be_stopped():
    assert RateLoop(10.0, lambda: None, never).stop()


def test_a_tick_without_work_lets_periods_pass():
    deadlines = []

    def tick() -> None:
        deadlines.append(loop.deadline)
        loop.stride = 10

    loop = RateLoop(500.0, tick, never)
    loop.start()
    wait_until(lambda: len(deadlines) >= 4, "four ticks")
    loop.stop()
    periods = np.diff(deadlines) / loop.period
    assert (periods > 9.5).all()
    np.testing.assert_allclose(periods, periods.round(), atol=1e-3)
    assert loop.statistics().nominal == pytest.approx(50.0)


def test_a_wake_ends_a_long_sleep_and_keeps_the_grid():
    ticks = []

    def tick() -> None:
        ticks.append(loop.deadline)
        loop.stride = 1000

    loop = RateLoop(100.0, tick, never)
    loop.start()
    wait_until(lambda: ticks, "the first cycle")
    loop.wake()
    wait_until(lambda: len(ticks) == 2, "the cycle of the wake, not ten seconds later")
    assert loop.stop()
    periods = (ticks[1] - ticks[0]) * 100.0
    assert periods == pytest.approx(round(periods), abs=1e-6)
    assert 1 <= round(periods) < 1000
