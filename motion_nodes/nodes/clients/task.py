# SPDX-License-Identifier: Apache-2.0
"""Client of ``motion task``: sends a task to a running suite and waits for its end."""

from __future__ import annotations

from collections.abc import Callable

from motion_nodes.ros.clients.client_node import client_node
from motion_nodes.ros.clients.task_client import TaskClient, TaskNotDone
from motion_nodes.tasks.task_order import TaskOrder


def run_task(prefix: str, order: TaskOrder, timeout: float, report: Callable[[str], None]) -> str:
    """Execute or plan a task; Ctrl-C cancels it.

    Args:
        prefix: namespace of the robot, empty or beginning with a slash.
        order: the task.
        timeout: max time to wait for the task server [s].
        report: receives lines about the progress.

    Returns:
        Why it failed; empty on success.
    """
    with client_node("motion_task") as node:
        client = TaskClient(node, f"{prefix}/task_server", report)
        try:
            client.find(timeout)
            client.run(order)
        except TaskNotDone as failure:
            return str(failure)
    return ""
