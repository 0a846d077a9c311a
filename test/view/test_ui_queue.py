# SPDX-License-Identifier: Apache-2.0
"""The thread that forwards commands: in order, newest value, one at a time."""

from __future__ import annotations

import threading

import pytest

from motion_nodes.extras.viewer.ui_commands import CallbackQueue

LIMIT = 10.0


@pytest.fixture
def start():
    started = []

    def make(repeat=lambda: False):
        started.append(CallbackQueue(repeat))
        return started[-1]

    yield make
    for queue in started:
        queue.close()


def test_calls_come_in_order_on_one_thread(start):
    queue, seen, done = start(), [], threading.Event()
    for number in range(100):
        queue.put(number, lambda n=number: seen.append((n, threading.current_thread().name)))
    queue.put("end", done.set)
    assert done.wait(LIMIT)
    assert seen == [(number, "viewer-callbacks") for number in range(100)]


def test_slow_receiver_gets_the_newest_value_after_older_wishes(start):
    queue, seen = start(), []
    entered, gate, done = threading.Event(), threading.Event(), threading.Event()
    queue.put("block", lambda: (entered.set(), gate.wait(LIMIT)))
    assert entered.wait(LIMIT)
    for value in range(50):
        queue.put("slider", lambda v=value: seen.append(v))
    queue.put("state", lambda: seen.append("state"))
    queue.put("slider", lambda: seen.append("last"))
    queue.put("end", done.set)
    gate.set()
    assert done.wait(LIMIT)
    assert seen == ["state", "last"]


def test_failing_callback_does_not_end_the_thread(start, caplog):
    queue, done = start(), threading.Event()
    queue.put("bad", lambda: 1 / 0)
    queue.put("good", done.set)
    assert done.wait(LIMIT)
    assert "viewer callback failed" in caplog.text


def test_repeats_until_there_is_nothing_more(start):
    times, over = [], threading.Event()

    def repeat():
        times.append(1)
        if len(times) == 4:
            over.set()
        return len(times) < 4

    queue = start(repeat)
    queue.start_repeating()
    assert over.wait(LIMIT)
    queue.close()
    assert len(times) == 4


def test_close_makes_the_calls_that_are_still_queued():
    seen = []
    queue = CallbackQueue(lambda: False)
    for number in range(20):
        queue.put(number, lambda n=number: seen.append(n))
    queue.close()
    assert seen == list(range(20))
