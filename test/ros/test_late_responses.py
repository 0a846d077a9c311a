# SPDX-License-Identifier: Apache-2.0
"""Responses to clients that are discovered late: repeated, bounded, and not blocking others."""

from __future__ import annotations

import threading
import time
import warnings

import pytest
from control_msgs.action import ParallelGripperCommand
from patience import wait_until
from rclpy.action import ActionClient, CancelResponse
from rclpy.exceptions import InvalidHandle
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_srvs.srv import Trigger

from motion_nodes.ros.concurrency import rclpy_internals
from motion_nodes.ros.concurrency.rclpy_internals import LeanExecutor
from motion_nodes.ros.endpoint_node import EndpointNode

ACCEPTED = CancelResponse.ACCEPT

NEVER_MATCHED = QoSProfile(depth=5, durability=DurabilityPolicy.TRANSIENT_LOCAL)
"""Of a client whose requests arrive, and whose reader of responses no service matches."""


@pytest.fixture(autouse=True)
def _short_timeout(monkeypatch):
    monkeypatch.setattr(rclpy_internals, "DISCOVERY_TIMEOUT", 0.3)


class Send:
    """A send of rclpy that fails ``failures`` times, as while a client is not discovered."""

    def __init__(self, failures: int, error: type[Exception] | None = None) -> None:
        self.calls, self.failures, self.error = 0, failures, error
        self.delivered, self.lost = threading.Event(), threading.Event()

    def __call__(self, *_args) -> None:
        self.calls += 1
        if self.calls <= self.failures:
            if self.error:
                raise self.error("gone")
            warnings.warn("failed to send response (timeout): client", RuntimeWarning, 2)
            return
        self.delivered.set()


def late_threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "late response"]


def ended() -> None:
    for thread in late_threads():
        thread.join(10.0)


@pytest.mark.parametrize("failures", [0, 1, 3])
def test_a_response_is_repeated_until_its_client_is_discovered(failures, monkeypatch):
    monkeypatch.setattr(rclpy_internals, "DISCOVERY_TIMEOUT", 30.0)
    send = Send(failures)
    rclpy_internals.deliver(send, send.lost.set)
    assert send.delivered.wait(10.0)
    ended()
    assert send.calls == failures + 1
    assert not send.lost.is_set()


def test_a_client_that_is_never_discovered_is_given_up():
    send = Send(1000)
    rclpy_internals.deliver(send, send.lost.set)
    assert send.lost.wait(10.0)
    assert 2 <= send.calls <= 10


def test_a_service_that_has_ended_ends_its_repetitions(monkeypatch):
    monkeypatch.setattr(rclpy_internals, "DISCOVERY_TIMEOUT", 30.0)
    first, gone = Send(1), Send(1000, InvalidHandle)

    def send() -> None:
        (first if first.calls == 0 else gone)()

    rclpy_internals.deliver(send, first.lost.set)
    ended()
    assert gone.calls == 1
    assert not first.lost.is_set()


def test_other_errors_and_warnings_are_those_of_the_caller():
    with pytest.raises(ZeroDivisionError):
        rclpy_internals.deliver(lambda: 1 / 0, lambda: None)
    with pytest.warns(RuntimeWarning, match="failed to send response"):
        Send(1)()  # of a node that is not ours
    with pytest.warns(RuntimeWarning, match="another"):
        rclpy_internals.deliver(lambda: warnings.warn("another", RuntimeWarning, 2), lambda: None)
    assert not late_threads()


@pytest.mark.long
def test_the_number_of_late_responses_is_bounded(monkeypatch):
    monkeypatch.setattr(rclpy_internals, "DISCOVERY_TIMEOUT", 1.0)
    sends = [Send(1000) for _ in range(rclpy_internals.MAX_LATE + 5)]
    for send in sends:
        rclpy_internals.deliver(send, send.lost.set)
    assert [send.lost.is_set() for send in sends[rclpy_internals.MAX_LATE :]] == [True] * 5
    assert len(late_threads()) <= rclpy_internals.MAX_LATE
    ended()
    assert all(send.lost.is_set() for send in sends)


@pytest.fixture
def node(client):
    made = EndpointNode("late")
    client.node.executor.add_node(made)
    yield made
    ended()
    made.destroy_node()


def test_every_service_of_a_node_repeats_its_responses(node):
    node.serve(Trigger, "~/own", lambda _request, response: response)
    services = {service.srv_name.rpartition("/")[2]: service for service in node.services}
    assert {"own", "change_state", "get_state", "get_parameters"} <= set(services)
    for service in services.values():
        assert "send_response" in vars(service)


def test_others_are_answered_while_a_client_is_not_discovered(node, client, monkeypatch):
    monkeypatch.setattr(rclpy_internals, "DISCOVERY_TIMEOUT", 1.0)
    node.serve(Trigger, "~/own", lambda _request, response: response)
    unmatched = client.node.create_client(Trigger, "/late/own", qos_profile=NEVER_MATCHED)
    client.wait(lambda: node.count_clients("/late/own"), "the client")
    pending = unmatched.call_async(Trigger.Request())
    client.wait(late_threads, "a late response")
    for _ in range(3):
        assert client.call(Trigger, "/late/own") is not None
    client.wait(lambda: node.warn.total, "the warning")
    assert "not discovered" in node.warn.last
    assert not pending.done()


def test_a_goal_whose_client_is_discovered_late_begins_once(client, monkeypatch):
    repeated, begun = [], []
    monkeypatch.setattr(rclpy_internals, "repeat", lambda send, lost: repeated.append((send, lost)))
    server = rclpy_internals.RespondingActionServer(
        client.node,
        ParallelGripperCommand,
        "grip",
        lambda _handle: ParallelGripperCommand.Result(),
        handle_accepted_callback=begun.append,
    )
    goals = ActionClient(
        client.node, ParallelGripperCommand, "grip", goal_service_qos_profile=NEVER_MATCHED
    )
    request = ParallelGripperCommand.Goal()
    request.command.position = [0.02]
    goals.send_goal_async(request)
    client.wait(lambda: begun and repeated, "the goal")
    assert [list(handle.request.command.position) for handle in begun] == [[0.02]]
    ((send, _lost),) = repeated
    with pytest.raises(rclpy_internals.Undelivered), rclpy_internals.undelivered_raises():
        send()
    goals.destroy()
    server.destroy()


class PausedSends:
    """The C++ part of an action client whose thread pauses after each request that it sends."""

    def __init__(self, handle, pause: float) -> None:
        self._handle, self._pause = handle, pause

    def __getattr__(self, name: str):
        found = getattr(self._handle, name)
        if not (name.startswith("send_") and name.endswith("_request")):
            return found

        def paused(request):
            number = found(request)
            time.sleep(self._pause)
            return number

        return paused


@pytest.fixture
def spun_client(ros):
    """A node that another thread spins, as pymoveit2's and many others are."""
    made = Node("spun_client", use_global_arguments=False)
    executor = SingleThreadedExecutor()
    executor.add_node(made)
    thread = threading.Thread(target=executor.spin, daemon=True)
    thread.start()
    yield made
    executor.shutdown()
    thread.join(10.0)
    made.destroy_node()


def test_no_response_overtakes_the_bookkeeping_of_its_client(spun_client, monkeypatch):
    # The pause is far shorter, also on a busy machine.
    monkeypatch.setattr(rclpy_internals, "HOLD_BACK", 0.2)
    node = Node("quick_server", use_global_arguments=False)
    executor = LeanExecutor()
    executor.add_node(node)

    def execute(handle):
        handle.succeed()
        return ParallelGripperCommand.Result(reached_goal=True)

    server = rclpy_internals.RespondingActionServer(
        node, ParallelGripperCommand, "quick", execute, cancel_callback=lambda _goal: ACCEPTED
    )
    thread = threading.Thread(target=executor.spin, daemon=True)
    thread.start()
    goals = ActionClient(spun_client, ParallelGripperCommand, "quick")
    wait_until(goals.server_is_ready, "the server")
    paused = PausedSends(goals._client_handle, 0.005)
    goals._client_handle = paused
    for _ in range(3):
        accepted = goals.send_goal_async(ParallelGripperCommand.Goal())
        wait_until(accepted.done, "the response to the goal")
        canceled = accepted.result().cancel_goal_async()
        wait_until(canceled.done, "the response to the cancellation")
        result = accepted.result().get_result_async()
        wait_until(result.done, "the result")
        assert result.result().result.reached_goal
    goals._client_handle = paused._handle
    executor.shutdown()
    thread.join(10.0)
    server.destroy()
    node.destroy_node()
