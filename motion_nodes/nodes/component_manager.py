# SPDX-License-Identifier: Apache-2.0
"""Loads nodes into a running container, by the services of composition_interfaces.

As rclcpp's component manager: LoadComposableNodes of launch_ros and ``ros2 component`` find it at
``~/_container/load_node``, ``unload_node`` and ``list_nodes``. A plugin is the name of an
executable (:mod:`motion_nodes.nodes.registry`).
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from rclpy.executors import Executor
from rclpy.logging import LoggingSeverity, set_logger_level
from rclpy.node import Node
from rclpy.parameter import parameter_value_to_python

from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.nodes.registry import node_class
from motion_nodes.ros.node import MotionNode
from motion_nodes.ros.parameter_words import parameter_word
from motion_nodes.ros.run import USER_ERRORS
from motion_nodes.ros.startup_memory import release_memory

PACKAGE = "motion_nodes"
NAME = "container"
"""Name of the container's own node, unless ROS arguments remap it."""


def interfaces() -> Any:
    """Return the services of composition_interfaces.

    Raises:
        InvalidConfig: the package is not installed.
    """
    try:
        from composition_interfaces import srv
    except ImportError:
        raise InvalidConfig(
            "a container without --nodes loads its nodes by the services of "
            "composition_interfaces, which is not installed. launch_ros of your ROS depends on it: "
            "sudo apt install ros-$ROS_DISTRO-composition-interfaces"
        ) from None
    return srv


def arguments_of(request: Any) -> list[str]:
    """Return the ROS arguments of a node for a request to load it.

    Args:
        request: LoadNode.Request.

    Raises:
        MotionError: a parameter without a value.
    """
    args = ["--ros-args"]
    for rule in request.remap_rules:
        args += ["-r", rule]
    for key, value in (("__node", request.node_name), ("__ns", request.node_namespace)):
        args += ["-r", f"{key}:={value}"] if value else []
    for parameter in request.parameters:
        value = parameter_value_to_python(parameter.value)
        if value is None:
            raise InvalidConfig(f"parameter '{parameter.name}' has no value")
        value = value if isinstance(value, bool | int | float | str) else list(value)
        args += ["-p", f"{parameter.name}:={parameter_word(value)}"]
    return args


class ComponentManager(Node):
    """Node of a container with its services, answered in its executor.

    A node is configured and activated there (``autostart``) before the request is answered; loops
    of the other nodes continue meanwhile, their services wait.
    """

    def __init__(
        self, executor: Executor, nodes: list[MotionNode[Any]], on_crash: Callable[[], None]
    ) -> None:
        """Create the node.

        Args:
            executor: spins the nodes.
            nodes: those of the process; loaded ones are added.
            on_crash: ends the process, for nodes that cannot go on.

        Raises:
            InvalidConfig: composition_interfaces is not installed.
        """
        srv = interfaces()
        super().__init__(NAME)
        self._spinning, self._of_process, self._on_crash = executor, nodes, on_crash
        self._loaded: dict[int, MotionNode[Any]] = {}
        self._last_id = 0
        for kind, name, answer in (
            (srv.LoadNode, "load_node", self._load),
            (srv.UnloadNode, "unload_node", self._unload),
            (srv.ListNodes, "list_nodes", self._list),
        ):
            self.create_service(kind, f"~/_container/{name}", answer)

    def _load(self, request: Any, response: Any) -> Any:
        node: MotionNode[Any] | None = None
        try:
            if request.package_name != PACKAGE:
                raise InvalidConfig(
                    f"this container loads nodes of {PACKAGE}, not of '{request.package_name}'"
                )
            node = node_class(request.plugin_name)(ros_args=arguments_of(request))
            set_logger_level(node.get_logger().name, LoggingSeverity(request.log_level))
            node.on_crash = self._on_crash
            self._start(node)
        except USER_ERRORS as error:
            return self._refused(response, node, " ".join(str(error).split()))
        except Exception as error:
            self.get_logger().error(traceback.format_exc())
            return self._refused(response, node, f"{type(error).__name__}: {error}")
        self._last_id += 1
        self._loaded[self._last_id] = node
        response.success = True
        response.full_node_name = node.get_fully_qualified_name()
        response.unique_id = self._last_id
        self.get_logger().info(f"loaded {response.full_node_name}")
        release_memory()
        return response

    def _start(self, node: MotionNode[Any]) -> None:
        """Add a node to the process, and configure and activate it unless a manager does."""
        self._of_process.append(node)
        self._spinning.add_node(node)
        for trigger in (node.trigger_configure, node.trigger_activate) if node.autostart else ():
            trigger()
            if node.failure is not None:
                raise MotionError(node.failure)

    def _refused(self, response: Any, node: MotionNode[Any] | None, why: str) -> Any:
        if node is not None:
            self._remove(node)
        self.get_logger().error(f"a node cannot be loaded: {why}")
        response.success, response.error_message = False, why
        return response

    def _remove(self, node: MotionNode[Any]) -> None:
        """Bring the robot of a node to rest, and the node out of the graph."""
        if node in self._of_process:
            self._of_process.remove(node)
        self._spinning.remove_node(node)
        node.destroy_node()

    def _unload(self, request: Any, response: Any) -> Any:
        node = self._loaded.pop(request.unique_id, None)
        if node is None:
            response.error_message = f"there is no node with unique_id {request.unique_id}"
            return response
        node.halt_and_answer()
        self._remove(node)
        response.success = True
        return response

    def _list(self, _request: Any, response: Any) -> Any:
        response.full_node_names = [n.get_fully_qualified_name() for n in self._loaded.values()]
        response.unique_ids = list(self._loaded)
        return response
