# SPDX-License-Identifier: Apache-2.0
"""Client of ``motion recover``: calls the planner's ``~/recover`` and waits for the response."""

from __future__ import annotations

import time
from collections.abc import Callable

import rclpy
from std_srvs.srv import Trigger

from motion_nodes.ros import qos, signals
from motion_nodes.ros.clients.client_node import client_node
from motion_nodes.ros.names import PLANNER

NOTICE_AFTER = 2.0
"""Waiting time after which the user is informed [s]."""
RECOVERY_TIMEOUT = 120.0
"""Max duration of a recovery, which is slow [s]."""


def recover(prefix: str, timeout: float, report: Callable[[str], None]) -> tuple[bool, str]:
    """Recover an arm from a collision.

    Args:
        prefix: namespace of the robot, empty or beginning with a slash.
        timeout: max time to wait for the service [s].
        report: receives lines about the progress.

    Returns:
        Whether it succeeded, and the planner's message.
    """
    name = f"{prefix}/{PLANNER}/recover"
    with client_node("motion_recover") as node:
        client = node.create_client(Trigger, name, qos_profile=qos.SERVICES)
        began, noticed = time.monotonic(), False
        while not client.service_is_ready():
            waited = time.monotonic() - began
            if signals.STOP.is_set():
                return False, "stopped"
            if waited > timeout:
                return False, f"there is no service {name}"
            if waited > NOTICE_AFTER and not noticed:
                noticed = True
                report(f"waiting for {name}; is `motion up` running, with the same ROS_DOMAIN_ID?")
            rclpy.spin_once(node, timeout_sec=0.05)
        answer = client.call_async(Trigger.Request())
        end = time.monotonic() + timeout + RECOVERY_TIMEOUT
        while not answer.done():
            if signals.STOP.is_set():
                return False, "stopped waiting; the recovery continues"
            if time.monotonic() > end:
                return False, f"{name} did not respond"
            rclpy.spin_once(node, timeout_sec=0.05)
        response = answer.result()
        return bool(response.success), str(response.message)
