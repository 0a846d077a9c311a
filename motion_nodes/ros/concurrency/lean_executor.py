# SPDX-License-Identifier: Apache-2.0
"""An executor that keeps its wait set.

rclpy's executor builds its wait set twice per callback. For the 80 entities of a node of this suite
that takes about a millisecond for each request, goal and feedback message. Here the wait set is
built only when entities are created or destroyed.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator
from typing import Any

from rclpy._rclpy_pybind11 import InvalidHandle
from rclpy.executors import (
    ConditionReachedException,
    ExternalShutdownException,
    ShutdownException,
    SingleThreadedExecutor,
    TimeoutException,
    TimeoutObject,
)
from rclpy.guard_condition import GuardCondition
from rclpy.task import Task
from rclpy.waitable import Waitable

from motion_nodes.ros.concurrency.kept_wait_set import KINDS, KeptWaitSet

EVENT_PERIOD = 1.0
"""[s] Period in which a busy executor looks for events of quality of service, which are half of
all entities. An idle one waits for them too."""


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
