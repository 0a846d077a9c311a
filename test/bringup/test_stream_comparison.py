# SPDX-License-Identifier: Apache-2.0
"""Comparison of the messages that processes receive."""

import pytest

from motion_nodes.bringup.process_health import FRESH, StreamComparison

STATES = "/arm/joint_states"


@pytest.fixture
def streams():
    """Two processes that have received both topics until 1 s."""
    streams = StreamComparison()
    for tick in range(11):
        for name in ("container", "planner"):
            streams.update(name, {"/clock": tick, STATES: 5 * tick}, 0.1 * tick)
    return streams


def test_a_topic_that_only_one_process_misses_is_found(streams):
    for tick in range(11, 60):
        streams.update("container", {"/clock": 10, STATES: 50}, 0.1 * tick)
        streams.update("planner", {"/clock": tick, STATES: 50}, 0.1 * tick)
    found = streams.missed("container", 5.9)
    assert (found.topic, found.receiver) == ("/clock", "planner")
    assert found.seconds == pytest.approx(4.9)  # since 1 s, of the container
    assert streams.missed("planner", 5.9) is None, "nobody receives joint states"
    streams.update("container", {"/clock": 11, STATES: 50}, 6.0)
    assert streams.missed("container", 6.0) is None


def test_a_topic_that_a_process_does_not_read_is_not_missed(streams):
    for tick in range(11, 60):
        streams.update("container", {}, 0.1 * tick)
        streams.update("planner", {"/clock": tick}, 0.1 * tick)
    assert streams.missed("container", 5.9) is None
    # Its time begins when it reads the topic again.
    streams.update("container", {"/clock": 10}, 6.0)
    streams.update("planner", {"/clock": 60}, 6.0)
    assert streams.missed("container", 6.0) is None


def test_the_longest_missed_topic_is_named(streams):
    for tick in range(11, 40):
        streams.update("container", {"/clock": min(tick, 20), STATES: 50}, 0.1 * tick)
        streams.update("planner", {"/clock": tick, STATES: 5 * tick}, 0.1 * tick)
    assert streams.missed("container", 3.9).topic == STATES


def test_a_process_that_has_ended_receives_nothing(streams):
    for tick in range(11, 51):
        streams.update("container", {"/clock": 10}, 0.1 * tick)
        streams.update("planner", {"/clock": tick}, 0.1 * tick)
    assert streams.missed("container", 5.0) is not None
    streams.forget("planner")
    assert streams.missed("container", 5.0) is None
    streams.forget("nobody")
    assert streams.missed("nobody", 5.0 + FRESH) is None


def test_after_a_pause_nobody_has_missed_anything(streams):
    for tick in range(11, 600):  # the publisher is paused for a minute
        for name in ("container", "planner"):
            streams.update(name, {"/clock": 10}, 0.1 * tick)
    streams.update("planner", {"/clock": 11}, 60.0)
    assert streams.missed("container", 60.3) is None
    streams.update("container", {"/clock": 12}, 60.4)
    for tick in range(605, 640):
        for name in ("container", "planner"):
            streams.update(name, {"/clock": tick}, 0.1 * tick)
            assert streams.missed(name, 0.1 * tick) is None


def test_the_first_report_of_a_process_is_no_message(streams):
    for tick in range(11, 600):
        streams.update("container", {"/clock": 10}, 0.1 * tick)
    streams.update("new", {"/clock": 0}, 60.0)
    assert streams.missed("container", 60.0) is None
    streams.update("new", {"/clock": 1}, 60.4)  # one message alone, of a paused simulation
    assert streams.missed("container", 60.5) is None
