# SPDX-License-Identifier: Apache-2.0
"""Detection of competing senders, and odometry at a regular rate."""

from __future__ import annotations

import random
import sys
import threading

import numpy as np
import pytest
from geometry_msgs.msg import Twist

from motion_nodes.ros.wheeled.base_commands import SenderWatch, TwistInputs
from motion_nodes.ros.wheeled.base_reports import MecanumState, RegularMoments


def hear(watch: SenderWatch, messages, step: float = 0.05, begin: float = 100.0) -> float:
    """Feed (topic, number) pairs at regular times; return the last time [s]."""
    now = begin
    for i, (topic, number) in enumerate(messages):
        now = begin + i * step
        watch.received(topic, number, now)
    return now


def test_one_sender_is_no_fight():
    watch = SenderWatch()
    now = hear(watch, [("a", 7 + 3 * i) for i in range(100)])  # some are lost
    assert watch.competing(now) == ()


def test_a_handover_and_a_restart_are_no_fight():
    watch = SenderWatch()
    hear(watch, [("a", i) for i in range(20)])
    now = hear(watch, [("a", i) for i in range(20)], begin=102.0)
    assert watch.competing(now) == ()
    now = hear(watch, [("b", i) for i in range(20)], begin=103.0)
    assert watch.competing(now) == ()


@pytest.mark.parametrize("ahead", [0, 1, 500, -500])
def test_two_senders_on_one_topic(ahead):
    """Whatever the offset of their numbers, every second number does not increase."""
    watch = SenderWatch()
    mixed = [pair for i in range(10) for pair in (("a", 1000 + i), ("a", 1000 + i + ahead))]
    assert watch.competing(hear(watch, mixed)) == ("a",)


def test_two_topics():
    watch = SenderWatch()
    now = hear(watch, [("ab"[i % 2], i) for i in range(10)])
    assert watch.competing(now) == ("a", "b")
    assert watch.competing(now + 1.0) == ("a", "b")
    assert watch.competing(now + 3.0) == ()
    assert watch.competing(1.0) == (), "time began anew"


def test_a_middleware_without_numbers_shows_topics_alone():
    watch = SenderWatch()
    assert watch.competing(hear(watch, [("a", None)] * 20)) == ()
    assert watch.competing(hear(watch, [("ab"[i % 2], None) for i in range(9)])) == ("a", "b")


def moments(rate: float, stamps) -> np.ndarray:
    """Return the times [s] out of ``stamps`` at which ``rate`` [Hz] publishes, shape (k,)."""
    regular = RegularMoments(rate)
    return np.array([t for t in stamps if regular.is_due(round(t * 1e9))])


def test_every_moment_without_a_rate():
    stamps = np.cumsum(np.random.default_rng(1).uniform(0.0, 0.1, 50))
    assert len(moments(0.0, stamps)) == 50


@pytest.mark.parametrize("rate", [3.0, 30.0, 50.0, 70.0, 100.0])
def test_the_mean_rate_is_as_asked(rate):
    stamps = 5.0 + np.arange(1000) * 0.01
    assert len(moments(rate, stamps)) == pytest.approx(10.0 * rate, abs=2)


def test_jitter_loses_nothing_at_the_sources_own_rate():
    rng = random.Random(2)
    stamps = [5.0 + i * 0.02 + rng.uniform(-0.004, 0.004) for i in range(500)]
    assert len(moments(50.0, stamps)) >= 490


def test_faster_than_the_source_is_every_moment():
    assert len(moments(500.0, 5.0 + np.arange(100) * 0.02)) == 100


def test_time_that_jumps_does_not_silence_it():
    stamps = [*np.arange(100.0, 101.0, 0.1), *np.arange(3.0, 4.0, 0.1), *np.arange(900, 901, 0.1)]
    seen = moments(5.0, stamps)
    for begin, end in ((100.0, 101.0), (3.0, 4.0), (900.0, 901.0)):
        assert np.sum((seen >= begin) & (seen < end)) == pytest.approx(5, abs=1)


def test_four_corners_are_found_in_any_order():
    assert MecanumState.corners((-1, 1, 1, -1), (1, -1, 1, -1)) == (2, 1, 0, 3)
    assert MecanumState.corners((1, 1, -1, -1), (1, 2, 1, -1)) is None
    assert MecanumState.corners((1, 0, -1), (0, 1, 0)) is None


def test_conflicts_are_read_while_messages_arrive():
    watch, end = SenderWatch(), threading.Event()

    def receive() -> None:
        while not end.is_set():
            watch.received("a", 1, 0.0)
            watch.received("b", 1, 0.0)

    receiving = threading.Thread(target=receive)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    receiving.start()
    try:
        for _ in range(20_000):
            assert set(watch.competing(0.0)) <= {"a", "b"}
    finally:
        end.set()
        receiving.join()
        sys.setswitchinterval(interval)


class Stream:
    """Stands for a polled topic of twists."""

    def __init__(self, topic: str) -> None:
        self.topic, self.polled = topic, 0.0
        self.waiting: list[tuple[Twist, int, float]] = []

    def traced(self) -> list[tuple[Twist, int, float]]:
        waiting, self.waiting = self.waiting, []
        return waiting


class Commands:
    """The command topics of a base; messages are sent on the unstamped one."""

    def __init__(self) -> None:
        self.topics: dict[str, Stream] = {}
        self.inputs = TwistInputs(self, stamped_cmd_vel=True)

    def poll(self, _kind, topic: str, _profile) -> Stream:
        return self.topics.setdefault(topic, Stream(topic))

    def warn(self, _kind: str, _text: str) -> None:
        pass

    def accepted(self, now: float, sent: float) -> bool:
        """Whether a message is accepted that arrives now and was sent at a source time [s]."""
        for topic in self.topics.values():
            topic.polled = now
        self.topics["~/cmd_vel_unstamped"].waiting.append((Twist(), 1, sent))
        return bool(self.inputs.take(now, 0.5, ""))


def test_a_stream_from_before_a_resume_must_pause():
    base = Commands()
    assert base.accepted(10.0, 10.0)
    base.inputs.pauses.suspend()
    assert not base.accepted(10.1, 10.1)
    assert not base.accepted(12.0, 10.2), "this node has stalled, the stream has not paused"
    assert base.accepted(13.0, 13.0)
    assert base.accepted(13.1, 13.1)


@pytest.mark.parametrize("skew", [2.0, -2.0])
def test_publishers_with_different_clocks_do_not_look_like_a_pause(skew):
    base = Commands()
    base.accepted(10.0, 10.0)
    base.inputs.pauses.suspend()
    for k in range(1, 20):
        now = 10.0 + 0.05 * k
        assert not base.accepted(now, now + (skew if k % 2 else 0.0))
    assert base.accepted(12.0, 15.0)
