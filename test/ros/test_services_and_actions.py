# SPDX-License-Identifier: Apache-2.0
"""Services outside the executor, calls from coroutines, action servers, late responses."""

import threading
import time
import warnings
from typing import Any

import pytest
import rclpy
from action_msgs.msg import GoalStatus
from control_msgs.action import GripperCommand, ParallelGripperCommand
from nav2_msgs.action import ComputePathToPose
from patience import LIMIT, wait_until
from rclpy.action import ActionClient, CancelResponse
from rclpy.exceptions import InvalidHandle
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_services_default
from rclpy.task import Future
from ros_client import RosClient, spun
from rosgraph_msgs.msg import Clock
from std_srvs.srv import SetBool, Trigger

from motion_nodes.ros import qos
from motion_nodes.ros.clients.client_node import NoAnswer, RemoteCalls
from motion_nodes.ros.concurrency import rclpy_internals, servers
from motion_nodes.ros.concurrency.loops import ExecutorQueue
from motion_nodes.ros.concurrency.rclpy_internals import LeanExecutor
from motion_nodes.ros.concurrency.servers import (
    ActionGoal,
    ActionOutcome,
    GoalServer,
    ServiceThreads,
)
from motion_nodes.ros.endpoint_node import EndpointNode
from motion_nodes.ros.node import MotionNode, NodeParams


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


MANY, MOST = QoSProfile(depth=100), 16


class Waiting(MotionNode[NodeParams]):
    """Offers an action whose goals wait."""

    params_type = NodeParams

    def __init__(self) -> None:
        super().__init__("waiting", ros_args=[])

    def configure(self) -> None:
        self.jobs = ExecutorQueue(self)
        self.begun: list[ActionGoal] = []
        self.server = GoalServer(
            self, self.jobs, ComputePathToPose, "~/plan", begin=self.begun.append,
            cancel=lambda goal: False,
        )  # fmt: skip

    def tick(self, dt: float) -> None:
        """Nothing."""

    def release(self) -> None:
        self.server.destroy()
        self.jobs.destroy()


@pytest.fixture
def node(ros):
    yield from spun(Waiting(), SingleThreadedExecutor())


def test_goals_beyond_the_bound_are_aborted_with_the_reason(node, client, monkeypatch):
    monkeypatch.setattr(servers, "MOST_GOALS", MOST)
    profiles = {"goal_service_qos_profile": MANY, "result_service_qos_profile": MANY}
    action = ActionClient(client.node, ComputePathToPose, "waiting/plan", **profiles)
    client.wait(action.server_is_ready, "the action server")
    results: list[Any] = []
    for count in (MOST, 3):
        sent = [action.send_goal_async(ComputePathToPose.Goal()) for _ in range(count)]
        client.wait(lambda s=sent: all(f.done() for f in s), "the responses")
        results += [future.result().get_result_async() for future in sent]
    client.wait(lambda: all(f.done() for f in results[MOST:]), "the results of the last")
    for future in results[MOST:]:
        answer = future.result()
        assert answer.status == GoalStatus.STATUS_ABORTED
        assert str(MOST) in answer.result.error_msg
    assert not any(future.done() for future in results[:MOST])
    assert len(node.begun) == MOST
    for goal in node.begun:
        goal.finish(ActionOutcome.SUCCEEDED, goal.result)
    client.wait(lambda: all(f.done() for f in results), "all results")
    action.destroy()


TICKS = 50


class Gripping(MotionNode[NodeParams]):
    """Offers an action whose goals end at once."""

    params_type = NodeParams

    def __init__(self) -> None:
        super().__init__("gripping", ros_args=["--ros-args", "-p", "use_sim_time:=true"])

    def configure(self) -> None:
        self.jobs = ExecutorQueue(self)
        self.server = GoalServer(
            self, self.jobs, GripperCommand, "~/grip", begin=self._begin, cancel=lambda goal: False
        )
        self.ticks = 0

    def tick(self, dt: float) -> None:
        self.ticks += 1

    def release(self) -> None:
        self.server.destroy()
        self.jobs.destroy()

    def _begin(self, goal: ActionGoal) -> None:
        goal.finish(ActionOutcome.SUCCEEDED, goal.result)


class CountingExecutor(SingleThreadedExecutor):
    """Counts how often it checks an entity."""

    looks = 0

    def can_execute(self, entity: Any) -> bool:
        self.looks += 1
        return bool(super().can_execute(entity))


@pytest.fixture
def executor(ros):
    made = CountingExecutor()
    yield made
    made.shutdown()


@pytest.fixture
def node_of_action_clock(executor):
    yield from spun(Gripping(), executor)


def test_the_clock_wakes_nobody_and_goals_are_stamped_by_it(node_of_action_clock, executor, client):
    clock = client.publisher(Clock, "/clock", qos.STATES)
    action = ActionClient(client.node, GripperCommand, "gripping/grip")
    client.wait(action.server_is_ready, "the action server")
    seconds = 1000

    def tell() -> None:
        nonlocal seconds
        seconds += 1
        message = Clock()
        message.clock.sec = seconds
        clock.publish(message)

    client.repeat(tell, lambda: node_of_action_clock.now() > 1000.0, "simulated time")
    client.spin(0.3)
    before, ticks = executor.looks, node_of_action_clock.ticks
    for _ in range(TICKS):
        tell()
        time.sleep(0.02)
    assert node_of_action_clock.ticks > ticks + TICKS // 4
    wait_until(lambda: node_of_action_clock.now() == pytest.approx(seconds), "the last time")
    # Other events, such as the discovery of a client, may cause a check of all entities.
    entities = (
        sum(1 for _ in node_of_action_clock.services)
        + sum(1 for _ in node_of_action_clock.waitables)
        + 10
    )
    assert executor.looks - before < 5 * entities
    future = action.send_goal_async(GripperCommand.Goal())
    client.wait(future.done, "the goal's answer")
    stamp = future.result().stamp
    assert stamp.sec == seconds


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
def node_of_late_responses(client):
    made = EndpointNode("late")
    client.node.executor.add_node(made)
    yield made
    ended()
    made.destroy_node()


def test_every_service_of_a_node_repeats_its_responses(node_of_late_responses):
    node_of_late_responses.serve(Trigger, "~/own", lambda _request, response: response)
    services = {
        service.srv_name.rpartition("/")[2]: service for service in node_of_late_responses.services
    }
    assert {"own", "change_state", "get_state", "get_parameters"} <= set(services)
    for service in services.values():
        assert "send_response" in vars(service)


def test_others_are_answered_while_a_client_is_not_discovered(
    node_of_late_responses, client, monkeypatch
):
    monkeypatch.setattr(rclpy_internals, "DISCOVERY_TIMEOUT", 1.0)
    node_of_late_responses.serve(Trigger, "~/own", lambda _request, response: response)
    unmatched = client.node.create_client(Trigger, "/late/own", qos_profile=NEVER_MATCHED)
    client.wait(lambda: node_of_late_responses.count_clients("/late/own"), "the client")
    pending = unmatched.call_async(Trigger.Request())
    client.wait(late_threads, "a late response")
    for _ in range(3):
        assert client.call(Trigger, "/late/own") is not None
    client.wait(lambda: node_of_late_responses.warn.total, "the warning")
    assert "not discovered" in node_of_late_responses.warn.last
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
