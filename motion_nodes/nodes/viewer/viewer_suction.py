# SPDX-License-Identifier: Apache-2.0
"""Surface gripper of one robot on the viewer's page."""

from __future__ import annotations

from typing import Any

from diagnostic_msgs.msg import DiagnosticStatus
from std_srvs.srv import SetBool

from motion_nodes.ros import qos
from motion_nodes.ros.names import SURFACE_GRIPPER, under
from motion_nodes.ros.node import MotionNode
from motion_nodes.view.browser import BrowserViewer


class WatchedSuction:
    """Status and service of a surface gripper, which the robot may not have."""

    def __init__(self, node: MotionNode[Any], name: str, namespace: str) -> None:
        """Create the endpoints.

        Args:
            node: the viewer.
            name: of the robot on the page.
            namespace: of the robot's topics.
        """
        self._name = name
        self._statuses = node.poll(
            DiagnosticStatus, under(namespace, f"{SURFACE_GRIPPER}/status"), qos.STATUS
        )
        self._activate = node.create_client(
            SetBool,
            under(namespace, f"{SURFACE_GRIPPER}/activate"),
            qos_profile=qos.SERVICES,
        )

    def show(self, viewer: BrowserViewer) -> None:
        """Update the page."""
        message = self._statuses.newest()
        if message is not None:
            values = {item.key: item.value for item in message.values}
            viewer.set_suction(self._name, message.message, values.get("gripped objects", ""))

    def send(self, viewer: BrowserViewer, closing: bool) -> None:
        """Close or open the gripper."""
        if not self._activate.service_is_ready():
            text = f"no service {self._activate.srv_name}: is the robot running?"
            viewer.set_suction(self._name, text, "")
            return
        self._activate.call_async(SetBool.Request(data=closing))
