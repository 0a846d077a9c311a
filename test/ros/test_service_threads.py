# SPDX-License-Identifier: Apache-2.0
"""Services outside the executor: responses, long and short requests, faults, the end."""

from __future__ import annotations

import threading
import time

import pytest
import rclpy
from rclpy.qos import qos_profile_services_default
from ros_client import RosClient
from std_srvs.srv import SetBool, Trigger

from motion_nodes.ros.concurrency.services import ServiceThreads


@pytest.fixture
def threads(client):
    node = rclpy.create_node("requests")
    made = ServiceThreads(node, threads=2)
    yield made
    made.destroy()
    node.destroy_node()


def offered(threads: ServiceThreads, kind, name: str, handler):
    threads.serve(kind, name, handler, qos_profile_services_default)


def yes(_request, response):
    response.success = True
    return response


def test_every_request_is_answered_without_an_executor(threads, client):
    offered(threads, Trigger, "~/yes", yes)
    threads.start()
    for _ in range(50):
        assert client.call(Trigger, "/requests/yes").success


def test_a_short_request_does_not_wait_for_a_long_one(threads, client):
    held = threading.Event()

    def wait(request, response):
        response.success = held.wait(10.0)
        return response

    offered(threads, SetBool, "~/wait", wait)
    offered(threads, Trigger, "~/yes", yes)
    threads.start()
    slow = client.node.create_client(SetBool, "/requests/wait")
    client.wait(slow.service_is_ready, "the service")
    answer = slow.call_async(SetBool.Request())
    for _ in range(5):
        assert client.call(Trigger, "/requests/yes").success
    assert not answer.done()
    held.set()
    client.wait(answer.done, "the long answer")
    assert answer.result().success


def test_a_handler_that_raises_still_answers(threads, client):
    def half(_request, response):
        response.message = "begun"
        raise RuntimeError("fault of the handler")

    offered(threads, Trigger, "~/half", half)
    threads.start()
    for _ in range(3):
        answer = client.call(Trigger, "/requests/half")
        assert not answer.success
        assert "fault of the handler" in answer.message


def test_a_client_that_leaves_does_no_harm(threads, client):
    offered(threads, Trigger, "~/late", lambda _, r: time.sleep(0.1) or r)
    offered(threads, Trigger, "~/yes", yes)
    threads.start()
    for _ in range(5):
        other = RosClient("test_leaving")
        service = other.node.create_client(Trigger, "/requests/late")
        other.wait(service.service_is_ready, "the service")
        service.call_async(Trigger.Request())
        other.close()
    assert client.call(Trigger, "/requests/yes").success


def test_the_end_waits_for_the_request_under_way(threads, client):
    begun, over = threading.Event(), threading.Event()

    def slow(_request, response):
        begun.set()
        time.sleep(0.3)
        over.set()
        response.success = True
        return response

    offered(threads, Trigger, "~/slow", slow)
    threads.start()
    service = client.node.create_client(Trigger, "/requests/slow")
    client.wait(service.service_is_ready, "the service")
    service.call_async(Trigger.Request())
    client.wait(begun.is_set, "the request")
    threads.destroy()
    assert over.is_set()
    client.wait(lambda: not service.service_is_ready(), "the service to go")
