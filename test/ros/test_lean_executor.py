# SPDX-License-Identifier: Apache-2.0
"""The executor that keeps its wait set: all kinds of entities, which come and go while it spins."""

import contextlib
import threading
import time

import pytest
import rclpy
from patience import wait_until
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.context import Context
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.task import Future
from std_msgs.msg import Int64
from std_srvs.srv import Trigger

from motion_nodes.ros.concurrency import rclpy_internals
from motion_nodes.ros.concurrency.rclpy_internals import KeptWaitSet, LeanExecutor

DEEP = 1000


@pytest.fixture
def node(ros):
    node = Node("lean_test", use_global_arguments=False)
    yield node
    node.destroy_node()


@pytest.fixture
def executor(node):
    """An executor that spins in a thread."""
    executor = LeanExecutor()
    executor.add_node(node)
    spinner = threading.Thread(target=executor.spin, daemon=True)
    spinner.start()
    yield executor
    executor.shutdown()
    spinner.join(60.0)
    assert not spinner.is_alive()


@pytest.fixture
def collections(monkeypatch):
    """An entry for each collection of the entities."""
    counted: list[None] = []

    class Counted(KeptWaitSet):
        def __init__(self, *args) -> None:
            super().__init__(*args)
            counted.append(None)

    monkeypatch.setattr(rclpy_internals, "KeptWaitSet", Counted)
    return counted


def respond(_request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
    response.success = True
    return response


def call(node: Node, name: str) -> Future:
    client = node.create_client(Trigger, name)
    wait_until(client.service_is_ready, "the service")
    return client.call_async(Trigger.Request())


def test_each_kind_is_executed(node, executor):
    numbers: list[int] = []
    ticks, triggered = threading.Event(), threading.Event()
    node.create_subscription(Int64, "numbers", lambda m: numbers.append(m.data), DEEP)
    publisher = node.create_publisher(Int64, "numbers", DEEP)
    node.create_timer(0.01, ticks.set)
    guard = node.create_guard_condition(triggered.set)
    node.create_service(Trigger, "ask", respond)
    wait_until(lambda: publisher.get_subscription_count() == 1, "the subscription")
    for i in range(200):
        publisher.publish(Int64(data=i))
    guard.trigger()
    answer = call(node, "ask")
    wait_until(lambda: len(numbers) == 200 and answer.done(), "all messages and the answer")
    assert numbers == list(range(200))
    assert answer.result().success
    assert ticks.wait(60.0)
    assert triggered.wait(60.0)


def test_entities_are_collected_again_only_after_changes(node, executor, collections):
    ticks: list[None] = []
    node.create_timer(0.001, lambda: ticks.append(None))
    wait_until(lambda: len(ticks) > 5, "the timer")
    before, ticked = len(collections), len(ticks)
    wait_until(lambda: len(ticks) > ticked + 100, "the timer")
    assert len(collections) == before
    node.create_service(Trigger, "later", respond)
    wait_until(lambda: len(collections) > before, "the new service")


def test_a_callback_causes_no_other_wait(node):
    executor, waits = LeanExecutor(), 0
    executor.add_node(node)
    guard = node.create_guard_condition(lambda: None)
    original = KeptWaitSet.wait

    def counted(self, *args, **kwargs) -> None:
        nonlocal waits
        waits += 1
        original(self, *args, **kwargs)

    executor.spin_once(timeout_sec=0.1)  # those of the new entities
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KeptWaitSet, "wait", counted)
        patch.setattr(rclpy_internals, "EVENT_PERIOD", 1000.0)
        for i in range(10):
            guard.trigger()
            executor.spin_once(timeout_sec=60.0)
            assert waits == i + 1
    executor.shutdown()


def test_services_come_and_go_in_other_threads(node, executor):
    for i in range(30):
        service = node.create_service(Trigger, f"ask_{i}", respond)
        answer = call(node, f"ask_{i}")
        wait_until(answer.done, "the answer")
        assert answer.result().success
        node.destroy_service(service)


def test_a_callback_may_destroy_what_is_ready(node, executor):
    heard: list[int] = []
    subscriptions = []

    def hear(message: Int64) -> None:
        heard.append(message.data)
        while subscriptions:
            node.destroy_subscription(subscriptions.pop())

    subscriptions += [node.create_subscription(Int64, "numbers", hear, DEEP) for _ in range(3)]
    publisher = node.create_publisher(Int64, "numbers", DEEP)
    wait_until(lambda: publisher.get_subscription_count() == 3, "the subscriptions")
    publisher.publish(Int64(data=7))
    wait_until(lambda: publisher.get_subscription_count() == 0, "the end of the subscriptions")
    assert heard == [7]


def test_a_coroutine_waits_for_another_service(node, executor):
    node.create_service(Trigger, "inner", respond)
    inner = node.create_client(Trigger, "inner")
    wait_until(inner.service_is_ready, "the service")

    async def forward(_request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        response.success = (await inner.call_async(Trigger.Request())).success
        return response

    # In another group than the client, or it would wait for itself.
    apart = MutuallyExclusiveCallbackGroup()
    node.create_service(Trigger, "outer", forward, callback_group=apart)
    answers = [call(node, "outer") for _ in range(5)]
    wait_until(lambda: all(each.done() for each in answers), "the answers")
    assert all(each.result().success for each in answers)


@pytest.mark.parametrize("timeout", [0.0, 0.05])
def test_timeouts(node, timeout):
    executor = LeanExecutor()
    executor.add_node(node)
    for _ in range(3):  # the first ones wake for the new entities
        begin = time.monotonic()
        executor.spin_once(timeout_sec=timeout)
        assert time.monotonic() - begin >= timeout
    executor.shutdown()


def test_a_timeout_counts_from_its_call(node):
    executor = LeanExecutor()
    executor.add_node(node)
    executor.spin_once(timeout_sec=0.1)
    executor.create_task(lambda: None)
    executor.spin_once(timeout_sec=0.1)  # the task
    begin = time.monotonic()
    executor.spin_once(timeout_sec=2.0)
    executor.spin_once(timeout_sec=2.0)
    assert 3.9 < time.monotonic() - begin < 5.9
    executor.shutdown()


def test_what_an_earlier_callback_destroyed_is_not_executed(node):
    executor, ran = LeanExecutor(), []
    executor.add_node(node)
    guards = []

    def first() -> None:
        ran.append("run")
        while guards:
            node.destroy_guard_condition(guards.pop())

    guards += [node.create_guard_condition(first) for _ in range(3)]
    for guard in guards:
        guard.trigger()
    for _ in range(10):
        executor.spin_once(timeout_sec=0.01)
    assert ran == ["run"]
    executor.shutdown()


@pytest.mark.long
def test_a_shutdown_of_the_context_ends_it():
    for _ in range(20):
        context = Context()
        rclpy.init(context=context)
        node = Node("lean_ended", context=context, use_global_arguments=False)
        executor = LeanExecutor(context=context)
        executor.add_node(node)
        node.create_timer(0.0005, lambda: None)

        def spin(executor: LeanExecutor = executor) -> None:
            with contextlib.suppress(ExternalShutdownException):
                executor.spin()

        spinner = threading.Thread(target=spin, daemon=True)
        spinner.start()
        time.sleep(0.01)
        rclpy.shutdown(context=context)
        spinner.join(60.0)
        assert not spinner.is_alive()


def test_futures(node):
    executor, future = LeanExecutor(), Future()
    executor.add_node(node)
    node.create_timer(0.02, lambda: future.done() or future.set_result(3))
    executor.spin_until_future_complete(future, 60.0)
    assert future.result() == 3
    executor.shutdown()


def test_a_node_that_is_removed_is_not_served(node):
    executor, ticks = LeanExecutor(), []
    executor.add_node(node)
    node.create_timer(0.001, lambda: ticks.append(None))
    while not ticks:
        executor.spin_once(timeout_sec=1.0)
    executor.remove_node(node)
    before = len(ticks)
    for _ in range(10):
        executor.spin_once(timeout_sec=0.01)
    assert len(ticks) == before
    executor.shutdown()


@pytest.mark.parametrize("make", [LeanExecutor, SingleThreadedExecutor])
def test_incompatible_quality_of_service_is_reported(node, make, capfd):
    executor = make()
    executor.add_node(node)
    spinner = threading.Thread(target=executor.spin, daemon=True)
    spinner.start()
    node.create_publisher(
        Int64, "offered", QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    )
    node.create_subscription(Int64, "offered", print, QoSProfile(depth=1))
    said = ""

    def reported() -> bool:
        nonlocal said
        said += "".join(capfd.readouterr())
        return "incompatible QoS" in said

    wait_until(reported, "the warning")
    executor.shutdown()
    spinner.join(60.0)


def test_nodes_come_while_it_spins(node, executor):
    for i in range(20):
        other = Node(f"guest_{i}", use_global_arguments=False)
        served = threading.Event()
        executor.add_node(other)
        other.create_timer(0.001, served.set)
        node.create_guard_condition(lambda: None)
        assert served.wait(60.0)
        executor.remove_node(other)
        other.destroy_node()


def test_destroyed_while_it_waits(ros):
    node = Node("lean_short", use_global_arguments=False)
    executor = LeanExecutor()
    executor.add_node(node)
    spinner = threading.Thread(target=executor.spin, daemon=True)
    spinner.start()
    for i in range(20):
        timer = node.create_timer(0.001, lambda: None)
        subscription = node.create_subscription(Int64, f"topic_{i}", print, 1)
        publisher = node.create_publisher(Int64, f"topic_{i}", 1)
        node.destroy_timer(timer)
        node.destroy_publisher(publisher)
        node.destroy_subscription(subscription)
    executor.shutdown()
    node.destroy_node()
    spinner.join(60.0)
    assert not spinner.is_alive()
