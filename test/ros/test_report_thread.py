# SPDX-License-Identifier: Apache-2.0
"""Periodic calls outside executor and loops, and their end."""

import gc
import threading
import time

from motion_nodes.ros.concurrency.loops import PeriodicCall


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
