# SPDX-License-Identifier: Apache-2.0
"""Loops, their queues of jobs, and periodic threads."""

import gc
import threading
import time

import numpy as np
import pytest
from patience import wait_until
from rclpy.node import Node

from motion_nodes.ros.concurrency.loops import ExecutorQueue, LoopQueue, PeriodicCall, RateLoop


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


def test_a_number_of_jobs_is_run_and_an_empty_queue_is_no_error():
    queue, done = LoopQueue(), list[int]()
    threads = [
        threading.Thread(target=queue.call, args=(lambda k=k: done.append(k), 10.0))
        for k in range(3)
    ]
    for number, thread in enumerate(threads, start=1):
        thread.start()
        wait_until(lambda n=number: len(queue) == n, "the job")
    queue.run(2)
    assert done == [0, 1]
    queue.run()
    queue.run(2)
    assert done == [0, 1, 2]
    for thread in threads:
        thread.join(10.0)


class Caller:
    """Records the times of its calls, each of which may take ``takes`` [s]."""

    def __init__(self, takes: float = 0.0) -> None:
        self.takes, self.times, self.called = takes, [], threading.Event()

    def call(self) -> None:
        self.times.append(time.monotonic())
        self.called.set()
        time.sleep(self.takes)


def wait_for_calls(caller: Caller, count: int) -> None:
    end = time.monotonic() + 30.0
    while len(caller.times) < count:
        assert time.monotonic() < end
        time.sleep(0.005)


def test_two_are_called_at_their_own_periods():
    begin = time.monotonic()
    often, seldom = Caller(), Caller()
    calls = [PeriodicCall(often.call, 0.01), PeriodicCall(seldom.call, 0.1)]
    wait_for_calls(seldom, 3)
    for call in calls:
        call.end()
    assert seldom.times[0] - begin >= 0.05
    assert len(often.times) > len(seldom.times)


def test_those_of_equal_period_are_due_together():
    callers = [Caller() for _ in range(3)]
    calls = []
    for caller in callers:
        calls.append(PeriodicCall(caller.call, 0.1))
        time.sleep(0.03)
    dues = {round(call.due % 0.1, 6) % 0.1 for call in calls}
    for call in calls:
        call.end()
    assert len(dues) == 1


def test_nothing_is_called_after_the_end_and_all_begins_anew():
    for _ in range(2):
        caller = Caller()
        call = PeriodicCall(caller.call, 0.01)
        wait_for_calls(caller, 1)
        call.end()
        count = len(caller.times)
        time.sleep(0.05)
        assert len(caller.times) == count


def test_the_end_waits_for_a_call_under_way():
    caller = Caller(takes=0.2)
    call = PeriodicCall(caller.call, 0.01)
    assert caller.called.wait(30.0)
    call.end()
    assert time.monotonic() - caller.times[-1] >= 0.2


def test_one_that_ends_itself_ends():
    class Once(Caller):
        def call(self) -> None:
            super().call()
            regular.end()

    once = Once()
    regular = PeriodicCall(once.call, 0.01)
    wait_for_calls(once, 1)
    time.sleep(0.05)
    assert len(once.times) == 1


def test_an_object_that_has_gone_is_called_no_more():
    caller, other = Caller(), Caller()
    times = caller.times
    PeriodicCall(caller.call, 0.01)
    kept = PeriodicCall(other.call, 0.01)
    wait_for_calls(caller, 1)
    del caller
    gc.collect()
    count = len(times)
    wait_for_calls(other, len(other.times) + 5)
    assert len(times) <= count + 1
    kept.end()


def test_what_came_late_is_not_made_up_for():
    slow, quick = Caller(takes=0.1), Caller()
    calls = [PeriodicCall(slow.call, 0.2), PeriodicCall(quick.call, 0.02)]
    wait_for_calls(slow, 3)
    for call in calls:
        call.end()
    # Of 30 periods before the third slow call, 10 pass in the two others.
    assert sum(t <= slow.times[2] for t in quick.times) < 28


def test_a_job_that_runs_the_others_does_not_recurse(ros):
    """Thousands of jobs wait after a delay of the executor, and each may run the others."""
    node = Node("jobs", use_global_arguments=False)
    jobs, done = ExecutorQueue(node), []

    def job() -> None:
        jobs.run()
        done.append(1)

    for _ in range(5000):
        jobs.submit(job)
    jobs.submit(lambda: 1 / 0)
    jobs.submit(job)
    jobs.run()
    assert len(done) == 5001
    jobs.destroy()
    node.destroy_node()
