# SPDX-License-Identifier: Apache-2.0
"""Actions and services that a node's threads or its loop execute instead of the executor.

The executor accepts a goal of an action and passes it on; a node's loop or a thread executes it,
and reports feedback and the result. A goal that cannot be executed is accepted and aborted, since
only a result can contain the reason. A goal of a loop starts between two cycles. When it has ended,
the loop wakes the executor, which sends the result; until then the executor publishes feedback. The
node polls its servers after each cycle, whatever the cycle did, and a goal that has ended before
its server knows it is sent its result at once: each goal gets exactly one.

The clock of a node's action servers is set only when a goal arrives. An action server has a timer
on its node's clock, which expires old results. In simulated time each ``/clock`` message of the
node therefore wakes the executor, several hundred times per second in a process of many nodes, and
each time it polls everything it serves. Goals only need the right stamp when they are accepted.

Services are answered by a pool of threads, or by the loop. An executor answers requests one after
another, 0.3 ms after they arrive, and a long request blocks everything else that it serves. The
pool follows the leader/followers pattern: the leader waits for a request, takes it, promotes the
next thread and answers. A short request then takes little more than the transport, and long ones
run in parallel where kernels release the GIL.
"""

from __future__ import annotations

import enum
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from rclpy.action import CancelResponse, GoalResponse
from rclpy.clock import Clock, ClockType
from rclpy.exceptions import InvalidHandle
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.task import Future
from rclpy.time import Time

from motion_nodes.errors import MotionError
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.loops import ExecutorQueue
from motion_nodes.ros.concurrency.rclpy_internals import (
    EntityWait,
    PolledGroup,
    RCLError,
    RespondingActionServer,
    begin_cancel,
    send_response,
    set_simulated,
    take_request,
)
from motion_nodes.ros.messages.message_bounds import fault_of, fill_failure
from motion_nodes.ros.node import MotionNode

RESULT_TIMEOUT = 30
"""[s] How long results are kept; rclpy's default of 15 minutes would keep every trajectory."""

MOST_GOALS = 256
"""Max number of goals of one action that have no result yet; further ones are aborted."""


class ActionClockNode:
    """Proxy of a node with another clock, for its action server."""

    def __init__(self, node: MotionNode[Any]) -> None:
        """Create the proxy; the clock is set to the node's time."""
        self._node = node
        self._clock: Any = Clock(clock_type=ClockType.ROS_TIME)
        self.set_clock()

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the node."""
        return getattr(self._node, name)

    def get_clock(self) -> Any:
        """Return the clock of the server."""
        return self._clock

    def set_clock(self) -> None:
        """Set the clock to the node's time, which may expire old results."""
        simulated = self._node.get_clock().ros_time_is_active
        set_simulated(self._clock, simulated)
        if simulated:
            now = Time(nanoseconds=self._node.now_ns(), clock_type=ClockType.ROS_TIME)
            self._clock.set_ros_time_override(now)


class ActionOutcome(enum.Enum):
    """Final status of a goal."""

    SUCCEEDED = "succeeded"
    CANCELED = "canceled"
    """At the request of a client; aborted if there was none."""
    PREEMPTED = "preempted"
    """Canceled by the server."""
    ABORTED = "aborted"


class ActionGoal:
    """One accepted goal; thread-safe."""

    def __init__(self, server: GoalServer, handle: Any) -> None:
        self._server = server
        self.handle = handle
        """Of rclpy."""
        self._ended = threading.Event()
        self.kind = server.kind
        """Action type."""
        self.request = handle.request
        """The goal message."""
        self.result = server.kind.Result()
        """Result message, to be filled in by the execution."""
        self.feedback_type = server.kind.Feedback
        self.action_name = server.kind.__name__
        self.label = bytes(handle.goal_id.uuid).hex()[:8]
        """Short id of the goal, for logs."""

    @property
    def ended(self) -> bool:
        """Whether the result is set."""
        return self._ended.is_set()

    def feedback(self, message: Any) -> None:
        """Publish feedback; ignored after the result, as in :meth:`publish`."""
        if not self.ended:
            self._server.jobs.submit(lambda: self._server.send_feedback(self, message))

    def publish(self, message: Any) -> None:
        """Publish feedback; in the executor."""
        if not self.ended:
            self._server.send_feedback(self, message)

    def finish(self, outcome: ActionOutcome, result: Any) -> None:
        """Send the result; only the first call has an effect."""
        if not self._ended.is_set():
            self._ended.set()
            self._server.jobs.submit(lambda: self._server.answer(self, outcome, result))


class GoalServer:
    """One action of a node."""

    def __init__(
        self,
        node: MotionNode[Any],
        jobs: ExecutorQueue,
        kind: Any,
        name: str,
        begin: Callable[[ActionGoal], None],
        cancel: Callable[[ActionGoal], bool],
    ) -> None:
        """Create the action server.

        Args:
            node: the node; goals are rejected while it is inactive.
            jobs: queue of the node's executor.
            kind: action type.
            name: action name.
            begin: starts the execution of an accepted goal; must not block.
            cancel: requests cancellation of a goal, returns whether it is accepted; must not block
                for long. The goal still needs a result.
        """
        self.jobs = jobs
        self.kind = kind
        self._node = node
        self._begin = begin
        self._cancel = cancel
        self._goals: dict[bytes, tuple[ActionGoal, Any, Future]] = {}
        self._results: dict[bytes, Future] = {}
        self._clocked_node = ActionClockNode(node)
        self._server = RespondingActionServer(
            self._clocked_node,
            kind,
            name,
            execute_callback=self._execute,
            goal_callback=self._on_goal,
            handle_accepted_callback=self._accept,
            cancel_callback=self._on_cancel,
            result_timeout=RESULT_TIMEOUT,
            goal_service_qos_profile=qos.SERVICES,
            result_service_qos_profile=qos.SERVICES,
            cancel_service_qos_profile=qos.SERVICES,
        )
        self._name = name
        self.refusal: Callable[[Any], str] = lambda _request: ""
        """Returns why a goal is rejected when it is sent; empty: it is accepted."""
        self.fill_state: Callable[[Any], None] = lambda _result: None
        """Fills in what is measured in the result of a goal that is not executed."""
        node.goal_servers.append(self)

    @property
    def goals(self) -> list[ActionGoal]:
        """Goals without a result."""
        return [goal for goal, _, _ in list(self._goals.values()) if not goal.ended]

    def destroy(self) -> None:
        """Destroy the server; all goals must have ended."""
        if self in self._node.goal_servers:
            self._node.goal_servers.remove(self)
        self._server.destroy()

    # ---- in the executor

    def abort_all(self, text: str) -> None:
        """Abort all goals without a result, regardless of their execution.

        Args:
            text: the reason.
        """
        for goal in self.goals:
            self._abort(goal, text)

    def answer(self, goal: ActionGoal, outcome: ActionOutcome, result: Any) -> None:
        """Send a result."""
        entry = self._goals.pop(_key(goal.handle), None)
        if entry is None:
            return
        _, handle, future = entry
        if outcome is ActionOutcome.SUCCEEDED:
            handle.succeed()
        elif outcome is ActionOutcome.CANCELED and handle.is_cancel_requested:
            handle.canceled()
        elif outcome is ActionOutcome.PREEMPTED:
            if not handle.is_cancel_requested:
                begin_cancel(handle)
            handle.canceled()
        else:
            handle.abort()
        future.set_result(result)

    def send_feedback(self, goal: ActionGoal, message: Any) -> None:
        """Publish feedback."""
        if _key(goal.handle) in self._goals and goal.handle.is_active:
            goal.handle.publish_feedback(message)

    def _on_goal(self, request: Any) -> GoalResponse:
        refusal = self.refusal(request)
        if refusal:
            self._node.warn(f"refused {self._name}", f"goal of {self._name} rejected: {refusal}")
            return GoalResponse.REJECT
        if self._node.active:
            # rclpy stamps the accepted goal with this clock.
            self._clocked_node.set_clock()
            return GoalResponse.ACCEPT
        self._node.warn("inactive", f"goal of {self._name} rejected: the node is not active")
        return GoalResponse.REJECT

    def _accept(self, handle: Any) -> None:
        goal, future = ActionGoal(self, handle), Future()
        self._goals[_key(handle)] = (goal, handle, future)
        self._results[_key(handle)] = future
        handle.execute()
        fault = fault_of(goal.request)
        if len(self._goals) > MOST_GOALS:
            fault = f"{MOST_GOALS} goals have no result yet; send it again later"
        if fault:
            self._node.warn(f"refused {self._name}", f"goal of {self._name} refused: {fault}")
            self._abort(goal, fault, rejected=True)
            return
        try:
            self._begin(goal)
        except MemoryError:
            raise
        except Exception as error:
            self._node.fault_in(f"action {self._name}", error)
            goal.result = self.kind.Result()
            self._abort(goal, f"fault of the node: {error!r}")

    def _abort(self, goal: ActionGoal, text: str, *, rejected: bool = False) -> None:
        """Abort a goal that is not executed."""
        self.fill_state(goal.result)
        goal.finish(ActionOutcome.ABORTED, fill_failure(goal.result, text, rejected=rejected))

    def _on_cancel(self, handle: Any) -> CancelResponse:
        entry = self._goals.get(_key(handle))
        # The result is queued, so rclpy marks the goal as canceling first.
        if entry is None or entry[0].ended or not self._cancel(entry[0]):
            return CancelResponse.REJECT
        return CancelResponse.ACCEPT

    async def _execute(self, handle: Any) -> Any:
        return await self._results.pop(_key(handle))


def _key(handle: Any) -> bytes:
    return bytes(handle.goal_id.uuid)


class LoopGoal(Protocol):
    """Execution of one goal by the loop."""

    @property
    def goal(self) -> ActionGoal:
        """The goal."""

    @property
    def ended(self) -> bool:
        """Whether the execution has ended."""


W = TypeVar("W", bound=LoopGoal)


class LoopActionServer(ABC, Generic[W]):
    """Servers of one or more actions with the same kind of execution."""

    def __init__(
        self,
        node: MotionNode[Any],
        actions: Iterable[tuple[Any, str]],
        feedback_rate: float | None = None,
    ) -> None:
        """Create the action servers.

        Args:
            node: the node.
            actions: type and name of each action.
            feedback_rate: rate of feedback [Hz]; None for no feedback.
        """
        self._node = node
        self._works: list[W] = []
        self._finishing = False
        """Whether a job that sends results is pending in the executor."""
        self._jobs = ExecutorQueue(node)
        self._timer = None
        if feedback_rate is not None:
            # In wall time: in simulated time each /clock message would wake the executor.
            steady = Clock(clock_type=ClockType.STEADY_TIME)
            self._timer = node.create_timer(1.0 / feedback_rate, self._send_feedback, clock=steady)
            self._timer.cancel()
        self._servers = [
            GoalServer(node, self._jobs, kind, name, begin=self._begin, cancel=self._cancel)
            for kind, name in actions
        ]
        node.loop_servers.append(self)

    def refuse_by(self, refusal: Callable[[Any], str]) -> None:
        """Reject goals for which a function of the request returns a reason."""
        for server in self._servers:
            server.refusal = refusal

    def fill_state_by(self, fill_state: Callable[[Any], None]) -> None:
        """Fill in what is measured in results of goals that are not executed."""
        for server in self._servers:
            server.fill_state = fill_state

    # ---- overridden by servers

    @abstractmethod
    def start(self, goal: ActionGoal) -> W | None:
        """Start the execution of a goal; None if it was rejected with a result."""

    @abstractmethod
    def stop(self, work: W) -> None:
        """Cancel an execution; called in the loop."""

    @abstractmethod
    def answer(self, work: W) -> None:
        """Send the result of a goal: its execution has ended, or the servers are destroyed."""

    def feedback(self, work: W) -> Any:
        """Return a feedback message of an execution; None for none."""

    def is_over(self, work: W) -> bool:
        """Return whether an ended execution is to be answered; False if it goes on."""
        return work.ended

    # ---- called by the node

    def poll(self) -> None:
        """Wake the executor if an execution has ended; called after each cycle of the loop."""
        if self._works and not self._finishing and any(work.ended for work in self._works):
            self._finishing = True
            self._jobs.submit(self.finish)

    def finish(self) -> None:
        """Send the results of executions that have ended; in the executor."""
        self._finishing = False
        for work in list(self._works):
            if self.is_over(work):
                self._end(work)
        self._jobs.run()

    def destroy(self) -> None:
        """Send the results of all goals, and destroy the servers."""
        if self in self._node.loop_servers:
            self._node.loop_servers.remove(self)
        for work in list(self._works):
            self._end(work)
        self._jobs.destroy()
        for server in self._servers:
            server.destroy()
        if self._timer is not None:
            self._node.destroy_timer(self._timer)

    # ---- in the executor

    def _begin(self, goal: ActionGoal) -> None:
        work = self.start(goal)
        if work is None:
            return
        self._works.append(work)
        if self._timer is not None:
            self._timer.reset()
        # The loop may have ended it before it was in the list, and will not end it again.
        self.poll()

    def _cancel(self, goal: ActionGoal) -> bool:
        work = next((work for work in self._works if work.goal is goal), None)
        if work is None:
            return False
        try:
            self._node.in_loop(lambda: self.stop(work))
        except TimeoutError:
            return False
        except Exception as error:
            self._node.fault_in("canceling a goal", error)
            return False
        self._jobs.submit(self.finish)
        return True

    def _end(self, work: W) -> None:
        self._works.remove(work)
        try:
            self.answer(work)
        except Exception as error:
            self._node.fault_in("answering a goal", error)
            text = f"fault of the node: {error!r}"
            work.goal.finish(ActionOutcome.ABORTED, fill_failure(work.goal.result, text))
        if self._timer is not None and not self._works:
            self._timer.cancel()

    def _send_feedback(self) -> None:
        for work in self._works:
            try:
                message = None if work.ended else self.feedback(work)
            except Exception as error:
                self._node.fault_in("feedback of a goal", error)
                continue
            if message is not None:
                work.goal.publish(message)


LONGEST_WAIT = 0.5
"""[s] Time after which a thread without requests looks whether it is still needed."""
Handler = Callable[[Any, Any], Any]
"""Returns the response to a request, given the request and an empty response."""


class ServiceThreads:
    """Services of a node with the threads that answer them."""

    def __init__(self, node: Node, threads: int = 2) -> None:
        """Create the threads; add services by :meth:`serve`, then :meth:`start`.

        Args:
            node: the node.
            threads: max number of requests answered in parallel.
        """
        self._node = node
        self._services: list[tuple[Any, Handler]] = []
        self._requests = EntityWait(node)
        self._leading = threading.Lock()
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._work, name=f"{node.get_name()}-requests-{i}", daemon=True)
            for i in range(threads)
        ]

    def serve(self, kind: Any, name: str, handler: Handler, profile: QoSProfile) -> None:
        """Create a service.

        A request that exceeds its bounds, or whose handler raises, gets a failure response, as far
        as the service type has fields for it.

        Args:
            kind: service type.
            name: service name.
            handler: see :data:`Handler`; must be thread-safe.
            profile: quality of service.
        """
        service = self._node.create_service(
            kind, name, handler, qos_profile=profile, callback_group=PolledGroup()
        )
        self._services.append((service, handler))

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def destroy(self) -> None:
        """Finish the requests under way, and destroy the services."""
        self._stopping = True
        self._requests.wake()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        for service, _ in self._services:
            self._node.destroy_service(service)
        self._services.clear()

    def _work(self) -> None:
        while not self._stopping:
            try:
                with self._leading:
                    taken = None if self._stopping else self._next()
                if taken is not None:
                    self._answer(*taken)
            except Exception:
                self._node.get_logger().error(f"a request failed:\n{traceback.format_exc()}")
        # Wake the next thread, so that it ends too.
        self._requests.wake()

    def _next(self) -> tuple[Any, Handler, Any, Any] | None:
        """Wait for a request and take it; None if woken for another reason."""
        try:
            # The timeout ends the wait after a shutdown of the context.
            self._requests.wait(LONGEST_WAIT, services=[s for s, _ in self._services])
            for service, handler in self._services:
                request, header = self._take(service)
                if header is not None:
                    return service, handler, request, header
        except (InvalidHandle, RCLError) as error:
            # The context was shut down.
            self._node.get_logger().debug(f"service threads end: {error}")
            self._stopping = True
        return None

    def _take(self, service: Any) -> tuple[Any, Any]:
        """Take a request and its header; None for both if none can be read."""
        try:
            return take_request(service)
        except (InvalidHandle, RCLError, MemoryError):
            raise
        except Exception as error:  # rclpy's converters raise various types
            self._node.get_logger().error(
                f"a request of {service.srv_name} cannot be read or answered: {error!r}"
            )
            return None, None

    def _answer(self, service: Any, handler: Handler, request: Any, header: Any) -> None:
        response = service.srv_type.Response()
        fault = fault_of(request)
        try:
            if fault:
                text = f"request of {service.srv_name} refused: {fault}"
                warn = getattr(self._node, "warn", None)
                if warn is not None:
                    warn(f"refused {service.srv_name}", text)
                fill_failure(response, f"refused: {fault}", rejected=True)
            else:
                response = handler(request, response)
        except Exception as error:
            self._node.get_logger().error(
                f"service {service.srv_name} failed:\n{traceback.format_exc()}"
            )
            response = fill_failure(service.srv_type.Response(), f"fault of the node: {error!r}")
        try:
            send_response(service, response, header)
        except (InvalidHandle, RCLError) as error:
            # The client or the node was destroyed.
            self._node.get_logger().debug(f"a response of {service.srv_name} was lost: {error}")


def respond_from_loop(node: MotionNode[Any], response: Any, job: Callable[[], str]) -> Any:
    """Run a job in the loop and fill in the response.

    Args:
        node: with the loop.
        response: with the fields ``success`` and ``message``.
        job: returns the message of success; its MotionErrors are reported as failures.

    Returns:
        The response.
    """
    try:
        response.message = node.in_loop(job)
        response.success = True
    except (MotionError, TimeoutError) as error:
        response.success, response.message = False, str(error)
    return response
