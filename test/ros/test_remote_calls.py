# SPDX-License-Identifier: Apache-2.0
"""Service calls from coroutines of an executor."""

from __future__ import annotations

import pytest
from patience import LIMIT
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.task import Future
from std_srvs.srv import Trigger

from motion_nodes.ros.clients.client_node import NoAnswer, RemoteCalls


@pytest.fixture
def pair(ros):
    """Calls of a node, and an executor that spins it beside a service that never responds."""
    node = Node("test_calls", use_global_arguments=False)
    never = Future()

    async def silent(_request, _response):
        return await never

    node.create_service(Trigger, "silent", silent)
    node.create_service(Trigger, "works", lambda _, response: response)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    calls = RemoteCalls(node, lambda: 0.2)
    calls.connect(Trigger, "silent")
    calls.connect(Trigger, "works")
    for name in ("silent", "works"):
        assert calls._clients[name].wait_for_service(LIMIT)
    yield calls, executor
    executor.shutdown()
    node.destroy_node()


async def answer_of(call):
    try:
        return await call
    except NoAnswer as error:
        return error


def outcome(executor, call):
    task = executor.create_task(answer_of(call))
    executor.spin_until_future_complete(task, LIMIT)
    return task.result()


def test_a_response_is_returned(pair):
    calls, executor = pair
    answer = outcome(executor, calls.call("works", Trigger.Request(), LIMIT))
    assert isinstance(answer, Trigger.Response)


def test_no_response_in_time(pair):
    calls, executor = pair
    assert isinstance(outcome(executor, calls.call("silent", Trigger.Request())), NoAnswer)


def test_a_cleanup_ends_calls_under_way_and_later_ones(pair):
    calls, executor = pair
    task = executor.create_task(answer_of(calls.call("silent", Trigger.Request(), LIMIT)))
    executor.spin_once(timeout_sec=1.0)
    calls.destroy()
    executor.spin_until_future_complete(task, LIMIT)
    assert isinstance(task.result(), NoAnswer)
    assert isinstance(outcome(executor, calls.call("works", Trigger.Request())), NoAnswer)
