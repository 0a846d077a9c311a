# SPDX-License-Identifier: Apache-2.0
"""An executor that keeps its wait set.

rclpy's executor builds its wait set twice per callback. For the 80 entities of a node of this suite
that takes about a millisecond for each request, goal and feedback message. Here the wait set is
built only when entities are created or destroyed.

An executor that continues after exceptions of callbacks. rclpy's executor raises the exceptions of
callbacks from ``spin``. An exception while a message or request is taken, such as for a text that
is not UTF-8, leaves its callback group permanently busy: the node's services never respond again.

A wait set that is kept while the entities of an executor's nodes stay the same.
"""

from __future__ import annotations

import contextlib
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Generator, Iterable
from typing import Any

from rclpy._rclpy_pybind11 import InvalidHandle
from rclpy.event_handler import EventHandler
from rclpy.executors import (
    ConditionReachedException,
    ExternalShutdownException,
    ShutdownException,
    SingleThreadedExecutor,
    TimeoutException,
    TimeoutObject,
)
from rclpy.guard_condition import GuardCondition
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.logging import get_logger
from rclpy.task import Task
from rclpy.waitable import NumberOfEntities, Waitable

from motion_nodes.ros.concurrency.polled_subscription import PolledGroup

KINDS = ("timer", "subscription", "guard_condition", "client", "service")
"""Kinds of entities in the order in which ready ones are executed."""
EVENT_PERIOD = 1.0
"""[s] Period in which a busy executor looks for events of quality of service, which are half of
all entities. An idle one waits for them too."""


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
