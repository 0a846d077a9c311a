# SPDX-License-Identifier: Apache-2.0
"""Task server of one robot on the viewer's page."""

from __future__ import annotations

from typing import Any

from std_msgs.msg import String
from std_srvs.srv import Trigger

from motion_nodes.errors import MotionError
from motion_nodes.ros import qos
from motion_nodes.ros.names import TASK_SERVER, under
from motion_nodes.ros.node import MotionNode
from motion_nodes.tasks.task_order import TaskOrder
from motion_nodes.tasks.task_progress import TaskProgress
from motion_nodes.view.browser import BrowserViewer
from motion_nodes.view.ui_commands import TaskCommand


class WatchedTask:
    """Status, commands and services of a task server."""

    def __init__(self, node: MotionNode[Any], name: str, namespace: str) -> None:
        """Create the endpoints.

        Args:
            node: the viewer.
            name: of the robot on the page.
            namespace: of the robot's topics.
        """
        self._node, self._name = node, name
        server = self._server = under(namespace, TASK_SERVER)
        self._statuses = node.poll(String, f"{server}/status", qos.STATUS)
        self._commands = node.advertise(String, f"{server}/command", qos.COMMANDS)
        self._services = {
            verb: node.create_client(Trigger, f"{server}/{service}", qos_profile=qos.SERVICES)
            for verb, service in (("stop", "cancel"), ("confirm", "confirm"))
        }

    def show(self, viewer: BrowserViewer) -> None:
        """Update the page."""
        message = self._statuses.newest()
        if message is None:
            return
        try:
            viewer.update_task(self._name, TaskProgress.of(message.data))
        except MotionError as error:
            self._node.warn("task status", f"{self._name}: status of {self._server}: {error}")

    def send(self, viewer: BrowserViewer, command: TaskCommand) -> None:
        """Send a task, or call the service of a button."""
        service = self._services.get(command.verb)
        there = self._commands.get_subscription_count() if service is None else (
            service.service_is_ready()
        )  # fmt: skip
        if not there:
            text = f"{self._server} is not running; start it by `motion up ROBOT --tasks`"
            viewer.set_task_message(self._name, text)
        elif service is not None:
            service.call_async(Trigger.Request())
        else:
            order = TaskOrder(command.task, plan_only=command.verb == "plan")
            self._commands.publish(String(data=order.as_text()))
