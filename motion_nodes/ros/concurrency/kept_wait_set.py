# SPDX-License-Identifier: Apache-2.0
"""A wait set that is kept while the entities of an executor's nodes stay the same."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from rclpy._rclpy_pybind11 import InvalidHandle
from rclpy.event_handler import EventHandler
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.waitable import NumberOfEntities

from motion_nodes.ros.concurrency.polled_subscription import PolledGroup

KINDS = ("timer", "subscription", "guard_condition", "client", "service")
"""Kinds of entities in the order in which ready ones are executed."""


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
