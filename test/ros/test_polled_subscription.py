# SPDX-License-Identifier: Apache-2.0
"""Subscriptions polled by a loop, without an executor."""

import threading
import time
from types import SimpleNamespace

import pytest
from patience import wait_until
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile
from std_msgs.msg import Int64

from motion_nodes.ros import qos
from motion_nodes.ros.concurrency import polled_subscription
from motion_nodes.ros.concurrency.loops import RateLoop
from motion_nodes.ros.concurrency.polled_subscription import (
    ACTIVE_TIME,
    IDLE_PERIOD,
    UNUSED_PERIOD,
    MessageWait,
    PolledSubscription,
)


@pytest.fixture
def node(ros):
    node = Node("polled_test", use_global_arguments=False)
    yield node
    node.destroy_node()


@pytest.fixture
def publisher(node):
    return node.create_publisher(Int64, "numbers", qos.STREAM)


def connect(node, publisher, profile=qos.COMMANDS) -> PolledSubscription[Int64]:
    polled = PolledSubscription(node, Int64, "numbers", profile)
    wait_until(lambda: publisher.get_subscription_count() > 0, "the two to meet")
    return polled


def gather(polled: PolledSubscription[Int64], count: int) -> list[int]:
    """Poll until ``count`` messages have arrived."""
    taken: list[int] = []
    wait_until(
        lambda: taken.extend(m.data for m in polled.all()) or len(taken) >= count, "all messages"
    )
    return taken


def test_nothing_yet(node, publisher):
    polled = connect(node, publisher)
    assert polled.all() == []
    assert polled.newest() is None
    assert polled.count == 0
    assert polled.age() == float("inf")
    assert polled.topic == "/numbers"
    assert polled.publishers == 1


def test_messages_come_in_order_and_once(node, publisher):
    polled = connect(node, publisher)
    for i in range(5):
        publisher.publish(Int64(data=i))
    assert gather(polled, 5) == list(range(5))
    assert polled.count == 5
    assert polled.age() < 5.0
    assert polled.all() == []


def test_newest_drops_the_older_ones(node, publisher):
    polled = connect(node, publisher)
    for i in range(5):
        publisher.publish(Int64(data=i))
    newest = []
    wait_until(
        lambda: newest.extend(filter(None, [polled.newest()])) or (newest and newest[-1].data == 4),
        "the last message",
    )
    assert polled.newest() is None


def test_depth_bounds_what_waits(node, publisher):
    polled = connect(node, publisher, qos.NEWEST)
    deep = PolledSubscription(node, Int64, "numbers", QoSProfile(depth=20))
    wait_until(lambda: publisher.get_subscription_count() == 2, "both subscriptions")
    for i in range(20):
        publisher.publish(Int64(data=i))
    assert gather(deep, 20) == list(range(20))
    assert [m.data for m in polled.all()] == [19]


def test_drop_leaves_no_trace(node, publisher):
    polled = connect(node, publisher)
    publisher.publish(Int64(data=1))
    wait_until(polled.drop, "the message")
    assert polled.count == 0
    assert polled.age() == float("inf")
    assert polled.newest() is None


def test_a_relaxed_subscription_polls_an_idle_topic_less_often(node, publisher, monkeypatch):
    """The loop's clock is replaced; what arrives is read at once while the topic is active."""
    polled = PolledSubscription(node, Int64, "numbers", qos.COMMANDS, relaxed=True)
    eager = PolledSubscription(node, Int64, "numbers", qos.COMMANDS)
    wait_until(lambda: publisher.get_subscription_count() == 2, "both subscriptions")
    now = [1000.0]
    monkeypatch.setattr(polled_subscription, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def publish(number: int) -> None:
        publisher.publish(Int64(data=number))
        assert gather(eager, 1) == [number]  # it has arrived at both

    assert polled.all() == []
    publish(1)
    now[0] += 0.5 * UNUSED_PERIOD
    assert polled.all() == []
    now[0] += UNUSED_PERIOD
    assert [m.data for m in polled.all()] == [1]
    publish(2)
    now[0] += 1e-6
    assert [m.data for m in polled.all()] == [2]
    now[0] += 2.0 * ACTIVE_TIME
    assert polled.all() == []
    publish(3)
    assert polled.all() == []
    polled.poll_next()
    assert [m.data for m in polled.all()] == [3]
    now[0] += 2.0 * ACTIVE_TIME
    assert polled.all() == []
    publish(4)
    now[0] += 1.5 * IDLE_PERIOD
    assert [m.data for m in polled.all()] == [4]


def test_an_executor_never_runs_it(node, publisher):
    """It serves other subscriptions of the same node meanwhile."""
    polled = connect(node, publisher)
    served: list[int] = []
    node.create_subscription(Int64, "numbers", lambda m: served.append(m.data), qos.STREAM)
    wait_until(lambda: publisher.get_subscription_count() == 2, "both subscriptions")
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    for i in range(5):
        publisher.publish(Int64(data=i))
    end = time.monotonic() + 10.0
    while len(served) < 5 and time.monotonic() < end:
        executor.spin_once(timeout_sec=0.05)
    executor.shutdown()
    assert served == list(range(5))
    assert gather(polled, 5) == list(range(5))


def test_taken_in_one_thread_while_an_executor_serves_in_another(node, publisher):
    polled = connect(node, publisher)
    served: list[int] = []
    node.create_subscription(Int64, "numbers", lambda m: served.append(m.data), qos.STREAM)
    wait_until(lambda: publisher.get_subscription_count() == 2, "both subscriptions")
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    spinner = threading.Thread(target=executor.spin)
    spinner.start()
    taken: list[int] = []
    try:
        for i in range(300):
            # The queue of its subscription has ten places.
            wait_until(lambda i=i: len(served) > i - 8, "the executor", pause=0.001)
            publisher.publish(Int64(data=i))
            taken += [m.data for m in polled.all()]
            time.sleep(0.001)
        wait_until(lambda: len(served) >= 300, "the executor to have served all")
        wait_until(
            lambda: taken.extend(m.data for m in polled.all()) or 299 in taken, "the last message"
        )
    finally:
        executor.shutdown()
        spinner.join(5.0)
    assert served == list(range(300))
    assert taken == sorted(set(taken))
    assert taken[-1] == 299
    assert len(taken) > 250


def test_destroyed(node, publisher):
    polled = connect(node, publisher)
    polled.destroy()
    wait_until(lambda: publisher.get_subscription_count() == 0, "the subscription to go")


def test_a_suspended_subscription_receives_nothing_until_it_resumes(node, publisher):
    polled = connect(node, publisher)
    polled.suspend()
    wait_until(lambda: publisher.get_subscription_count() == 0, "the end of the subscription")
    publisher.publish(Int64(data=1))
    assert polled.all() == []
    assert polled.newest() is None
    assert polled.drop() == 0
    polled.resume()
    wait_until(lambda: publisher.get_subscription_count() > 0, "the two to meet again")
    publisher.publish(Int64(data=2))
    assert gather(polled, 1) == [2]
    polled.suspend()
    polled.destroy()


def test_a_paused_loop_wakes_with_a_message_and_reads_it(node, publisher):
    polled, times = connect(node, publisher), []

    def tick() -> None:
        times.append((loop.deadline, [m.data for m in polled.all()]))
        loop.stride = 1000

    loop, waiting = RateLoop(100.0, tick, lambda error: None), MessageWait(node)
    waiting.inputs, loop.pause = [polled], waiting
    loop.start()
    wait_until(lambda: times, "the first cycle")
    publisher.publish(Int64(data=7))
    wait_until(lambda: len(times) >= 2, "the cycle of the message, not ten seconds later")
    wait_until(lambda: any(read == [7] for _, read in times), "the message")
    periods = (times[1][0] - times[0][0]) * 100.0
    assert periods == pytest.approx(round(periods), abs=1e-6)
    before = len(times)
    loop.wake()
    wait_until(lambda: len(times) > before, "the cycle of the wake")
    assert loop.stop(timeout=5.0)


def test_a_wait_ends_with_its_time_and_without_its_subscriptions(node, publisher):
    polled, waiting = connect(node, publisher), MessageWait(node)
    waiting.inputs = [polled]
    begin = time.monotonic()
    assert not waiting.wait(0.05)
    assert time.monotonic() - begin >= 0.045
    waiting.wake()
    assert waiting.wait(10.0)
    polled.suspend()
    publisher.publish(Int64(data=1))
    assert not waiting.wait(0.05)
    polled.resume()
    wait_until(lambda: publisher.get_subscription_count() > 0, "the two to meet again")
    publisher.publish(Int64(data=2))
    assert waiting.wait(10.0)
    assert gather(polled, 1) == [2]
    polled.destroy()
    assert not waiting.wait(0.01)
