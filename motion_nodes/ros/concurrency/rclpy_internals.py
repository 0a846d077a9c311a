# SPDX-License-Identifier: Apache-2.0
"""All that depends on private parts of rclpy, and on the wording of its warnings.

No other module uses them (``test/contracts/test_rclpy_internals.py``), so a new version of rclpy is
adapted to here; the tests of this module state what is relied upon. Jazzy and Kilted are the same.

- :class:`LeanExecutor`: rclpy's executor builds its wait set twice per callback. For the 80
  entities of a node of this suite that takes about a millisecond for each request, goal and
  feedback message. Here the wait set is built only when entities are created or destroyed.
- :class:`GuardedExecutor`: rclpy's executor raises the exceptions of callbacks from ``spin``, and
  one that is raised while a message is taken, such as for a text that is not UTF-8, leaves its
  callback group permanently busy: the node's services never respond again. Here they are logged.
- :func:`deliver`: the first request of a new client may arrive before its reader of responses is
  discovered. The middleware then waits for at most 100 ms, drops the response, and rclpy only
  warns. Such responses are sent again by a thread, without blocking the executor or other service
  threads.
- :class:`RespondingActionServer`: rclpy's action client sends a request, and only then notes its
  number. If another thread spins its node, that thread may take a fast response in between, and
  drops it as unexpected ("Ignoring unexpected goal response"); the client waits forever. Clients of
  services hold a lock meanwhile, those of actions do not. Responses to goals, cancellations and
  requests of results are therefore not sent earlier than :data:`HOLD_BACK` after their request; the
  goal itself begins at once.
- :class:`NodeLogger`, requests and messages waited for outside an executor, transitions, given
  parameters.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import traceback
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any

from action_msgs.msg import GoalInfo
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.action.server import GoalEvent, ServerGoalHandle
from rclpy.callback_groups import CallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.event_handler import EventHandler
from rclpy.exceptions import InvalidHandle
from rclpy.executors import (
    ConditionReachedException,
    ExternalShutdownException,
    ShutdownException,
    SingleThreadedExecutor,
    TimeoutException,
    TimeoutObject,
)
from rclpy.guard_condition import GuardCondition
from rclpy.impl import rcutils_logger
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.impl.logging_severity import LoggingSeverity
from rclpy.lifecycle import LifecycleNode
from rclpy.logging import get_logger
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.task import Future, Task
from rclpy.time import Time
from rclpy.waitable import NumberOfEntities, Waitable

RCLError: type[RuntimeError] = _rclpy.RCLError
"""Error of the ROS client library in C."""
KINDS = ("timer", "subscription", "guard_condition", "client", "service")
"""Kinds of entities in the order in which ready ones are executed."""
EVENT_PERIOD = 1.0
"""[s] Period in which a busy executor looks for events of quality of service, which are half of
all entities. An idle one waits for them too."""
HOLD_BACK = 0.02
"""[s] Time from a request to its response. A client needs microseconds, unless its thread loses
Python's lock meanwhile, for the interpreter's switch interval of 5 ms, or on a busy machine its
processor, for some time slices of the scheduler."""
RELEASE_PERIOD = 0.005
"""[s] Period at which responses that are due are sent."""
DISCOVERY_TIMEOUT = 1.0
"""[s] Timeout after which a repeated response counts as lost."""
FIRST_PAUSE = 0.02
"""[s] Pause before the first repetition; each one doubles it, because a send may block the GIL."""
MAX_LATE = 16
"""Max number of responses of a process that are repeated at the same time."""


# ---- executors


class PolledGroup(CallbackGroup):
    """A callback group whose entities no executor runs."""

    def can_execute(self, entity: Any) -> bool:
        """Return False: an executor leaves these entities out of its wait set."""
        return False

    def beginning_execution(self, entity: Any) -> bool:
        """Return False."""
        return False

    def ending_execution(self, entity: Any) -> None:
        """Do nothing."""


class KeptWaitSet:
    """Wait set of the entities of an executor's nodes, which it protects from destruction."""

    def __init__(self, nodes: Iterable[Any], own: tuple[Any, ...], context: Any) -> None:
        """Collect the entities.

        Args:
            nodes: nodes of the executor.
            own: guard conditions of the executor.
            context: the executor's context.
        """
        self._stack = contextlib.ExitStack()
        self._by_pointer: dict[str, dict[int, tuple[Any, Any]]] = {kind: {} for kind in KINDS}
        self._waitables: list[tuple[Any, Any]] = []
        # Also of an executor that is never shut down.
        weakref.finalize(self, self._stack.close).atexit = False
        try:
            self._collect(nodes, own, context)
        except BaseException:
            self._stack.close()
            raise

    def _collect(self, nodes: Iterable[Any], own: tuple[Any, ...], context: Any) -> None:
        self._stack.enter_context(context.handle)
        for node in nodes:
            lists = (node.timers, node.subscriptions, node.guards, node.clients, node.services)
            for kind, entities in zip(KINDS, lists, strict=True):
                for entity in entities:
                    if _is_executed(entity) and self._hold(entity.handle):
                        self._by_pointer[kind][entity.handle.pointer] = (entity, node)
            for waitable in node.waitables:
                if _is_executed(waitable) and self._hold(waitable):
                    self._waitables.append((waitable, node))
        # A shutdown in another thread destroys them.
        self._own = [guard for guard in own if guard is not None and self._hold(guard.handle)]
        count = NumberOfEntities(
            len(self._by_pointer["subscription"]),
            len(self._by_pointer["guard_condition"]) + len(self._own),
            *(len(self._by_pointer[kind]) for kind in ("timer", "client", "service")),
        )
        for waitable, _ in self._waitables:
            count += waitable.get_num_entities()
        self._wait_set = _rclpy.WaitSet(
            *(getattr(count, name) for name in NumberOfEntities.__slots__), context.handle
        )

    def release(self) -> None:
        """Allow the destruction of the entities."""
        self._stack.close()

    def wait(self, can_execute: Callable[[Any], bool], nanoseconds: int, *, events: bool) -> None:
        """Wait until an entity is ready, for a time [ns]; without limit if that is negative.

        Args:
            can_execute: returns whether the callback of an entity may run.
            nanoseconds: timeout.
            events: whether events of quality of service count.
        """
        wait_set = self._wait_set
        wait_set.clear_entities()
        for kind in KINDS:
            add = getattr(wait_set, f"add_{kind}")
            for entity, _ in self._by_pointer[kind].values():
                if can_execute(entity):
                    add(entity.handle)
                    # One that was ready, but not executed.
                    if kind == "guard_condition" and entity._executor_triggered:
                        entity.trigger()
        for guard in self._own:
            wait_set.add_guard_condition(guard.handle)
        self._waited = [
            (waitable, node) for waitable, node in self._waitables
            if (events or not isinstance(waitable, EventHandler)) and can_execute(waitable)
        ]  # fmt: skip
        for waitable, _ in self._waited:
            waitable.add_to_wait_set(wait_set)
        wait_set.wait(nanoseconds)

    def ready(self) -> list[tuple[str, Any, Any]]:
        """Return kind, entity and node of all that is ready."""
        found = [
            ("waitable", waitable, node) for waitable, node in self._waited
            if waitable.is_ready(self._wait_set)
        ]  # fmt: skip
        for kind in KINDS:
            known = self._by_pointer[kind]
            for pointer in self._wait_set.get_ready_entities(kind):
                if pointer in known:  # else one of the executor
                    entity, node = known[pointer]
                    if kind == "guard_condition":
                        entity._executor_triggered = True
                    found.append((kind, entity, node))
        return found

    def _hold(self, handle: Any) -> bool:
        """Protect from destruction; return whether it still exists."""
        try:
            self._stack.enter_context(handle)
        except InvalidHandle:
            return False
        return True


def _is_executed(entity: Any) -> bool:
    """Return whether an executor runs the callbacks of an entity."""
    return not isinstance(entity.callback_group, PolledGroup)


class LeanExecutor(SingleThreadedExecutor):
    """Executes callbacks in one thread."""

    _tasks: list[tuple[Any, Any, Any]]

    def __init__(self, *, context: Any = None) -> None:
        """Create the executor.

        Args:
            context: of rclpy; None: the default one.
        """
        self._entities: KeptWaitSet | None = None
        self._waiting = False
        self._lock = threading.RLock()
        """Of ``_entities``, which only the waiting thread may release while it waits."""
        self._stale = True
        """Whether entities were created or destroyed since they were collected."""
        self._checked_at = -float("inf")
        """When events were waited for, on ``time.monotonic()`` [s]."""
        super().__init__(context=context)
        self._known = hasattr(self, "_tasks") and hasattr(self, "_take_waitable")
        """Whether rclpy's executor has the parts that are replaced here, as in Jazzy."""

    def wake(self) -> None:
        """Collect the entities anew: some were created or destroyed."""
        self._forget()
        super().wake()

    def add_node(self, node: Any) -> bool:
        """Add a node; return whether it is new."""
        added = super().add_node(node)
        self.wake()
        return bool(added)

    def remove_node(self, node: Any) -> None:
        """Remove a node."""
        super().remove_node(node)
        self.wake()

    def shutdown(self, timeout_sec: float | None = None) -> bool:
        """End; see rclpy."""
        ended = super().shutdown(timeout_sec)
        self._forget()
        return bool(ended)

    def _forget(self) -> None:
        with self._lock:
            self._stale = True
            if not self._waiting:
                self._release()

    def _release(self) -> None:
        """Allow the destruction of the entities; within the lock."""
        entities, self._entities = self._entities, None
        if entities is not None:
            entities.release()

    def _make_handler(
        self, entity: Any, node: Any, take_from_wait_list: Callable[[Any], Any]
    ) -> Any:
        """Return a task that takes and executes what an entity has."""
        if not self._known:
            return super()._make_handler(entity, node, take_from_wait_list)  # type: ignore[misc]
        entity._executor_event = True

        async def handle() -> None:
            group = entity.callback_group
            if self._is_shutdown or not group.beginning_execution(entity):
                entity._executor_event = False
                return
            with self._work_tracker, contextlib.ExitStack() as stack:
                stack.callback(group.ending_execution, entity)
                try:
                    if isinstance(entity, Waitable | GuardCondition):
                        # Another callback may have destroyed it; the others are checked by rclpy.
                        stack.enter_context(getattr(entity, "handle", entity))
                    work = take_from_wait_list(entity)
                except InvalidHandle:
                    return
                finally:
                    entity._executor_event = False
                if work is not None:
                    await work()

        task = Task(handle, executor=self)
        with self._tasks_lock:
            self._tasks.append((task, entity, node))
        return task

    def _wait_for_ready_callbacks(
        self,
        timeout_sec: float | TimeoutObject | None = None,
        nodes: Any = None,
        condition: Callable[[], bool] = lambda: False,
    ) -> Generator[tuple[Any, Any, Any], None, None]:
        """Yield tasks with their entity and node; raises like rclpy's, which this replaces."""
        if not self._known:
            yield from super()._wait_for_ready_callbacks(timeout_sec, nodes, condition)  # type: ignore[misc]
            return
        takes = {kind: getattr(self, f"_take_{kind}") for kind in (*KINDS, "waitable")}
        deadline = _deadline(timeout_sec)
        while not self._is_shutdown and not condition():
            suspended = self._suspended()
            if suspended:
                yield from suspended
                # That was the work of other calls; this one has its own time.
                deadline = _deadline(timeout_sec)
                if any(task.done() for task, _, _ in suspended):
                    # What waits for their results may continue.
                    super().wake()
            found = self._wait(deadline)
            for kind, entity, node in found:
                due = kind != "timer" or _is_due(entity)
                if due and entity.callback_group.can_execute(entity):
                    yield self._make_handler(entity, node, takes[kind]), entity, node
            if found:
                return
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutException
        if self._is_shutdown:
            raise ShutdownException
        raise ConditionReachedException

    def _suspended(self) -> list[tuple[Any, Any, Any]]:
        """Return tasks that wait for a future, newest first, and forget those that ended."""
        with self._tasks_lock:
            self._tasks = [
                each for each in self._tasks if not each[0].done() and not each[0].cancelled()
            ]
            return [each for each in reversed(self._tasks) if not each[0].executing()]

    def _wait(self, deadline: float | None) -> list[tuple[str, Any, Any]]:
        """Wait until something is ready, or until a time on ``time.monotonic()`` [s]."""
        with self._lock:
            collect = self._stale or self._entities is None
            self._stale = False
        # Not within the lock: who adds a node holds the lock of the nodes, and wakes.
        nodes = self.get_nodes()
        with self._lock:
            if self._is_shutdown:
                raise ShutdownException
            if collect or self._entities is None:
                self._release()
                own = (self._guard, self._sigint_gc)
                self._entities = KeptWaitSet(nodes, own, self._context)
            if self._is_shutdown:  # meanwhile; its guard conditions may be missing
                self._release()
                raise ShutdownException
            entities, self._waiting = self._entities, True
        try:
            now = time.monotonic()
            due = now - self._checked_at >= EVENT_PERIOD
            end = (
                deadline if due else min(deadline or float("inf"), self._checked_at + EVENT_PERIOD)
            )
            if due:
                self._checked_at = now
            left = -1 if end is None else max(round(1e9 * (end - now)), 0)
            entities.wait(self.can_execute, left, events=due)
            if self._is_shutdown:
                raise ShutdownException
            if not self._context.ok():
                raise ExternalShutdownException
            return entities.ready()
        except InvalidHandle:  # destroyed in this moment
            self._stale = True
            return []
        finally:
            # Not within the lock: a shutdown of the context holds the context's lock, and wakes.
            ended = self._is_shutdown or not self._context.ok()
            with self._lock:
                self._waiting = False
                if self._stale or ended:
                    self._release()


def _is_due(timer: Any) -> bool:
    """Return whether a timer is due: another callback may have canceled or destroyed it."""
    try:
        with timer.handle:
            return bool(timer.handle.is_timer_ready())
    except InvalidHandle:
        return False


def _deadline(timeout: float | TimeoutObject | None) -> float | None:
    """Return when a timeout [s] from now expires, on ``time.monotonic()`` [s]; None for never."""
    seconds = timeout.timeout if isinstance(timeout, TimeoutObject) else timeout
    return None if seconds is None or seconds < 0.0 else time.monotonic() + seconds


class GuardedExecutor(LeanExecutor):
    """Logs exceptions of callbacks to their node's logger, and continues to spin.

    MemoryError, and exceptions that are not an Exception, are still raised.
    """

    def _make_handler(
        self, entity: Any, node: Any, take_from_wait_list: Callable[[Any], Any]
    ) -> Any:
        """Create a handler that does not raise; overrides rclpy's (same in Jazzy and Kilted)."""

        def take(taken: Any) -> Any:
            try:
                work = take_from_wait_list(taken)
            except (MemoryError, InvalidHandle):
                raise
            except Exception as error:
                _report(node, entity, "a message cannot be read", error)
                return None
            return None if work is None else guarded(work)

        def guarded(work: Callable[[], Any]) -> Callable[[], Any]:
            async def run() -> None:
                try:
                    await work()
                except (MemoryError, InvalidHandle):
                    raise
                except Exception as error:
                    _report(node, entity, "a callback failed", error)

            return run

        return super()._make_handler(entity, node, take)  # type: ignore[misc]


def _report(node: Any, entity: Any, what: str, error: Exception) -> None:
    logger = get_logger("motion_nodes") if node is None else node.get_logger()
    names = (getattr(entity, name, None) for name in ("srv_name", "topic_name", "topic", "name"))
    name = next((str(n) for n in names if n), type(entity).__name__)
    text = "".join(traceback.format_exception(error))
    logger.error(f"{what} ({name}):\n{text}")


# ---- responses


_late = threading.BoundedSemaphore(MAX_LATE)


class _SendTimeouts(threading.local):
    """Pattern of a warning filter: the warning by which rclpy reports an undelivered response.

    It matches only in a thread that is sending a response of ours.
    """

    sending = False

    def match(self, text: str) -> bool:
        return self.sending and text.startswith("failed to send response (timeout)")


_TIMEOUTS = _SendTimeouts()
_FILTER: Any = ("error", _TIMEOUTS, RuntimeWarning, None, 0)


class Undelivered(Exception):
    """A response was not sent, because its client is not discovered yet."""


@contextlib.contextmanager
def undelivered_raises() -> Iterator[None]:
    """Raise :class:`Undelivered` where rclpy would only warn, in this thread.

    Raises:
        Undelivered: the client of a response that was sent is not discovered.
    """
    # Code that saves and restores the filters, such as pytest, may have removed ours.
    if _FILTER not in warnings.filters:
        warnings.filters.insert(0, _FILTER)  # type: ignore[attr-defined]
        warnings._filters_mutated()  # type: ignore[attr-defined]
    before, _TIMEOUTS.sending = _TIMEOUTS.sending, True
    try:
        yield
    except (RuntimeWarning, SystemError) as error:
        # rclpy returns from C++ with the exception set, which Python turns into a SystemError.
        if isinstance(error.__cause__ or error, RuntimeWarning):
            raise Undelivered from error
        raise
    finally:
        _TIMEOUTS.sending = before


def deliver(send: Callable[[], None], lost: Callable[[], None]) -> None:
    """Send a response; if its client is not discovered yet, it is repeated by a thread.

    Args:
        send: sends the response by rclpy; may be called in another thread.
        lost: see :func:`repeat`.

    Raises:
        Exception: another error of ``send`` at the first attempt.
    """
    try:
        with undelivered_raises():
            send()
    except Undelivered:
        repeat(send, lost)


def repeat(send: Callable[[], None], lost: Callable[[], None]) -> None:
    """Repeat a response whose client was not discovered, in a thread.

    Args:
        send: sends the response by rclpy.
        lost: called if the client is not discovered within :data:`DISCOVERY_TIMEOUT`, or if too
            many responses are late; thread-safe.
    """
    if not _late.acquire(blocking=False):
        lost()
        return
    threading.Thread(target=_repeat, args=(send, lost), name="late response", daemon=True).start()


def deliver_late_responses(service: Any, lost: Callable[[], None]) -> None:
    """Make an rclpy service send its responses by :func:`deliver`, until it is destroyed.

    Args:
        service: the service.
        lost: see :func:`repeat`.
    """
    send = service.send_response

    def send_response(response: Any, header: Any) -> None:
        # A coroutine may respond after its service was destroyed.
        with contextlib.suppress(InvalidHandle):
            deliver(lambda: send(response, header), lost)

    service.send_response = send_response


def _repeat(send: Callable[[], None], lost: Callable[[], None]) -> None:
    """Repeat a response until it is delivered, its service has ended, or time is up."""
    end, pause = time.monotonic() + DISCOVERY_TIMEOUT, FIRST_PAUSE
    try:
        # The service or the context may be destroyed meanwhile.
        with contextlib.suppress(InvalidHandle, RCLError):
            while time.monotonic() < end:
                time.sleep(pause)
                pause *= 2
                with contextlib.suppress(Undelivered), undelivered_raises():
                    send()
                    return
            lost()
    finally:
        _late.release()


class RespondingActionServer(ActionServer):
    """Holds back and repeats responses; requests are handled as by rclpy (Jazzy and Kilted)."""

    def __init__(self, node: Any, *args: Any, **kwargs: Any) -> None:
        """Create the server; see rclpy."""
        self._held: deque[tuple[float, Callable[[], None]]] = deque()
        """Responses with the times at which they are due, on ``time.monotonic()`` [s]."""
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._release_timer = node.create_timer(RELEASE_PERIOD, self._release, clock=steady)
        self._release_timer.cancel()
        super().__init__(node, *args, **kwargs)

    def destroy(self) -> None:
        """Send what is held back, and destroy the server."""
        while self._held:
            self._held.popleft()[1]()
        self._node.destroy_timer(self._release_timer)
        super().destroy()

    async def _execute_goal_request(self, request_header_and_message: Any) -> None:
        """Accept a goal and begin it; its response follows."""
        header, request = request_header_and_message
        due = time.monotonic() + HOLD_BACK
        info = GoalInfo(goal_id=request.goal_id)
        with self._lock:
            known = self._handle.goal_exists(info)
        goal = None
        if not known and self._goal_callback(request.goal) is GoalResponse.ACCEPT:
            info.stamp = self._node.get_clock().now().to_msg()
            goal = self._new_goal(info, request.goal)
        response = self.action_type.Impl.SendGoalService.Response(
            accepted=goal is not None, stamp=info.stamp
        )

        def respond() -> None:
            self._handle.send_goal_response(header, response)

        self._respond(due, respond, announces=goal is not None)
        if goal is not None:
            self._handle.publish_status()
            self._handle_accepted_callback(goal)

    async def _execute_cancel_request(self, request_header_and_message: Any) -> None:
        """Cancel goals; a response names those that are being canceled."""
        header, request = request_header_and_message
        due = time.monotonic() + HOLD_BACK
        with self._lock:
            response = self._handle.process_cancel_request(
                request, self.action_type.Impl.CancelGoalService.Response
            )
        canceling = []
        for info in response.goals_canceling:
            goal = self._goal_handles.get(bytes(info.goal_id.uuid))
            if goal is None or self._cancel_callback(goal) is not CancelResponse.ACCEPT:
                continue
            try:
                begin_cancel(goal)
            except RCLError as error:
                self._logger.debug(f"a canceled goal has ended: {error}")
                continue
            canceling.append(info)
        if response.goals_canceling and not canceling:
            response.return_code = response.ERROR_REJECTED
        response.goals_canceling = canceling
        self._respond(due, lambda: self._handle.send_cancel_response(header, response))

    async def _execute_get_result_request(self, request_header_and_message: Any) -> None:
        """Respond with a result as soon as there is one."""
        header, request = request_header_and_message
        due = time.monotonic() + HOLD_BACK
        future = self._result_futures.get(bytes(request.goal_id.uuid))
        if future is None:
            unknown = Future()
            unknown.set_result(self.action_type.Impl.GetResultService.Response())
            self._send_result(header, due, unknown)
        else:
            future.add_done_callback(lambda done: self._send_result(header, due, done))

    def _new_goal(self, info: GoalInfo, request: Any) -> ServerGoalHandle | None:
        """Return the handle of an accepted goal; None if rcl refuses it."""
        try:
            with self._lock:
                goal = ServerGoalHandle(self, info, request)
        except RuntimeError as error:
            self._logger.error(f"a goal was not accepted: {error}")
            return None
        key = bytes(info.goal_id.uuid)
        self._goal_handles[key], self._result_futures[key] = goal, Future()
        self.add_future(self._result_futures[key])
        return goal

    def _send_result(self, header: Any, due: float, future: Future) -> None:
        response = future.result()
        self._respond(due, lambda: self._handle.send_result_response(header, response))

    def _respond(self, due: float, send: Callable[[], None], *, announces: bool = False) -> None:
        """Send a response when it is due.

        Args:
            due: on ``time.monotonic()`` [s].
            send: sends it by rclpy.
            announces: whether clients learn by it of a goal, whose status they ignored before.
        """

        def now() -> None:
            try:
                deliver(send, self._lost)
                if announces:
                    self._handle.publish_status()
            except (RCLError, InvalidHandle) as error:
                self._logger.debug(f"a response was lost, its client has gone: {error}")

        if time.monotonic() >= due:
            now()
            return
        self._held.append((due, now))
        if self._release_timer.is_canceled():
            self._release_timer.reset()

    def _release(self) -> None:
        """Send the responses that are due."""
        while self._held and self._held[0][0] <= time.monotonic():
            self._held.popleft()[1]()
        if not self._held:
            self._release_timer.cancel()

    def _lost(self) -> None:
        self._logger.warning("a client did not get a response: it was not discovered in time")


# ---- subscriptions and services outside an executor


def taker(subscription: Any) -> Callable[[Any, bool], Any]:
    """Return the function that takes a message of a subscription: of a type, serialized or not.

    It returns None if none is pending. It holds the GIL while it uses the subscription, which
    another thread can therefore not destroy meanwhile; so the handle is not entered, which would
    cost more than an empty take.
    """
    take: Callable[[Any, bool], Any] = subscription.handle.take_message
    return take


def clock_setter(callback: Callable[[Any], None]) -> Callable[[int], None]:
    """Return a function that sets the clocks of a time source to a time [ns].

    It does what the source's callback does with a message of /clock, at half the cost.

    Args:
        callback: the method of the source.
    """
    source = callback.__self__  # type: ignore[attr-defined]

    def set_clocks(nanoseconds: int) -> None:
        time = Time(nanoseconds=nanoseconds, clock_type=ClockType.ROS_TIME)
        source._last_time_set = time
        for clock in source._associated_clocks:
            clock.set_ros_time_override(time)

    return set_clocks


def check_exists(entity: Any) -> None:
    """Raise InvalidHandle if an entity was destroyed."""
    with entity.handle:
        return


def take_request(service: Any) -> tuple[Any, Any]:
    """Take a request of a service and its header; None for both if none is pending."""
    with service.handle:
        request, header = service.handle.service_take_request(service.srv_type.Request)
        return request, header


def send_response(service: Any, response: Any, header: Any) -> None:
    """Send a response; another thread cannot destroy the service meanwhile."""
    with service.handle:
        service.send_response(response, header)


class EntityWait:
    """Waits for requests and messages that no executor serves."""

    def __init__(self, node: Node) -> None:
        """Create the wait for services and subscriptions of a node."""
        self._context = node.context
        self._guard = _rclpy.GuardCondition(node.context.handle)

    def wake(self) -> None:
        """End a wait, or the next one."""
        self._guard.trigger_guard_condition()

    def wait(
        self, seconds: float, *, services: Sequence[Any] = (), subscriptions: Sequence[Any] = ()
    ) -> bool:
        """Wait until a request or message is pending, :meth:`wake` is called, or a time has passed.

        Args:
            seconds: max time [s].
            services: whose requests end the wait.
            subscriptions: whose messages end the wait.

        Returns:
            False once the time has passed.

        Raises:
            InvalidHandle: a service, a subscription, or the context was destroyed.
        """
        waiting = _rclpy.WaitSet(
            len(subscriptions), 1, 0, 0, len(services), 0, self._context.handle
        )
        with contextlib.ExitStack() as kept:  # none is destroyed meanwhile
            for entity in (*services, *subscriptions):
                kept.enter_context(entity.handle)
            waiting.clear_entities()
            for service in services:
                waiting.add_service(service.handle)
            for subscription in subscriptions:
                waiting.add_subscription(subscription.handle)
            waiting.add_guard_condition(self._guard)
            waiting.wait(round(1e9 * seconds))
            return any(
                waiting.get_ready_entities(kind)
                for kind in ("guard_condition", "subscription", "service")
            )


# ---- nodes


def replace_change_state(
    node: LifecycleNode, handler: Callable[[Any, Any], Any]
) -> Callable[[Any, Any], Any]:
    """Let a handler serve the ``change_state`` service of a node; return rclpy's."""
    service = node._service_change_state
    before: Callable[[Any, Any], Any] = service.callback
    service.callback = handler
    return before


def transitions(node: LifecycleNode) -> tuple[str, dict[str, int]]:
    """Return the state of a node, and the transitions that are possible: labels and ids."""
    machine = node._state_machine
    possible = {label: number for number, label, *_ in machine.available_transitions}
    return machine.current_state[1], possible


def given_parameters(node: Node) -> dict[str, Parameter]:
    """Return the parameters that were given to a node, for changes in place."""
    given: dict[str, Parameter] = node._parameter_overrides
    return given


def declared_parameters(node: Node) -> dict[str, Parameter]:
    """Return the parameters that a node has declared, for changes in place."""
    declared: dict[str, Parameter] = node._parameters
    return declared


def set_simulated(clock: Clock, simulated: bool) -> None:
    """Let a clock of ROS time follow simulated time, which its owner sets, or the system's."""
    if clock.ros_time_is_active != simulated:
        clock._set_ros_time_is_active(simulated)


def begin_cancel(goal: ServerGoalHandle) -> None:
    """Mark a goal as canceling, without a request of its client.

    Raises:
        RCLError: the goal has ended.
    """
    goal._update_state(GoalEvent.CANCEL_GOAL)


# ---- logs

# rclpy's own search of the caller, used with filters, leaves this file out.
rcutils_logger._internal_callers.append(os.path.realpath(__file__))


class NodeLogger(rcutils_logger.RcutilsLogger):  # type: ignore[misc]
    """Logger whose messages name the line that logs them, without a search by ``inspect``.

    rclpy reads the caller's source file and resolves the paths of all modules, which takes tens of
    milliseconds at the first messages of a process.
    """

    def log(self, message: str, severity: int, **filters: Any) -> bool:
        """Log a message; called by ``info``, ``warning`` and the like.

        Args:
            message: its text.
            severity: of rclpy.logging.LoggingSeverity.
            filters: of rclpy, for example ``throttle_duration_sec``.

        Returns:
            Whether it was logged.
        """
        if filters:
            return bool(super().log(message, severity, **filters))
        if not self.is_enabled_for(severity):
            return False
        caller = sys._getframe(2)
        _rclpy.rclpy_logging_rcutils_log(
            LoggingSeverity(severity), self.name, message,
            caller.f_code.co_name, caller.f_code.co_filename, caller.f_lineno,
        )  # fmt: skip
        return True
