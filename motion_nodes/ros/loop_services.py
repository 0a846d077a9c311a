# SPDX-License-Identifier: Apache-2.0
"""Services of type Trigger or SetBool whose work is done in the node's loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from motion_nodes.errors import MotionError
from motion_nodes.ros.node import MotionNode


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
