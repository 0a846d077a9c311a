# SPDX-License-Identifier: Apache-2.0
"""Endpoints that all nodes of a process share.

A message from another process costs its receiver time for each of its subscriptions. Topics that
every node needs, such as ``/clock``, are therefore received once per process, by a hidden node.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile

from motion_nodes.ros.diagnostics import Warnings

T = TypeVar("T")


class ProcessNode(Node):
    """The hidden node that owns shared endpoints."""

    def __init__(self, context: Any) -> None:
        """Create it without services, logs and remappings of its own.

        Args:
            context: context of the nodes that share it.
        """
        super().__init__(
            f"_shared_{os.getpid()}",
            context=context,
            use_global_arguments=False,
            enable_rosout=False,
            start_parameter_services=False,
            parameter_overrides=[Parameter("start_type_description_service", value=False)],
        )
        self.warn = Warnings(self)


class Shared(Generic[T]):
    """Objects that the nodes of a process share; each exists while a node uses it."""

    def __init__(self, make: Callable[[ProcessNode, str, QoSProfile], T]) -> None:
        """Begin without objects.

        Args:
            make: creates the object, with a subscription of the node to a topic.
        """
        self._make = make
        self._used: dict[tuple[Any, ...], tuple[T, ProcessNode, list[Node]]] = {}
        self._lock = threading.Lock()

    def of(self, node: Node, topic: str, profile: QoSProfile) -> T:
        """Return the object of a topic for a node, which must :meth:`release` it.

        Args:
            node: its context and its remappings apply.
            topic: name of the topic.
            profile: quality of service.
        """
        topic = node.resolve_topic_name(topic)
        key = (node.context, topic, profile.depth, profile.reliability, profile.durability)
        with self._lock:
            if key not in self._used:
                owner = ProcessNode(node.context)
                self._used[key] = self._make(owner, topic, profile), owner, []
            found, _, users = self._used[key]
            users.append(node)
            return found

    def release(self, node: Node) -> None:
        """End the use of all objects by a node."""
        with self._lock:
            for key, (_, owner, users) in list(self._used.items()):
                users[:] = [user for user in users if user is not node]
                if not users:
                    del self._used[key]
                    owner.destroy_node()
