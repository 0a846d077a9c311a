# SPDX-License-Identifier: Apache-2.0
"""The simulation on the viewer's page: pause, continue and reset."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from diagnostic_msgs.msg import DiagnosticStatus
from std_srvs.srv import SetBool, Trigger

from motion_nodes.ros import qos
from motion_nodes.ros.node import MotionNode
from motion_nodes.view.browser import BrowserViewer

PAUSED = "paused"
"""Message of the simulation on /diagnostics while it is paused."""


class WatchedSimulation:
    """Services and state of the simulation."""

    def __init__(self, node: MotionNode[Any], simulation: str) -> None:
        """Create the clients.

        Args:
            node: the viewer.
            simulation: full name of the node of the simulation.
        """
        self._name = simulation.strip("/")
        self._pause = node.create_client(SetBool, f"/{self._name}/pause", qos_profile=qos.SERVICES)
        self._reset = node.create_client(Trigger, f"/{self._name}/reset", qos_profile=qos.SERVICES)
        self._paused = False

    def pause(self, viewer: BrowserViewer, paused: bool) -> None:
        """Pause the simulation, or continue it."""

        def done(response: Any) -> None:
            self._paused = paused if response.success else self._paused
            viewer.set_simulation(self._paused, "" if response.success else response.message)

        self._call(viewer, self._pause, SetBool.Request(data=paused), done)

    def reset(self, viewer: BrowserViewer) -> None:
        """Reset the simulation."""
        self._call(
            viewer, self._reset, Trigger.Request(),
            lambda response: viewer.set_simulation(self._paused, response.message),
        )  # fmt: skip

    def show(self, viewer: BrowserViewer, statuses: Iterable[DiagnosticStatus]) -> None:
        """Update the page by reports of /diagnostics: others may pause the simulation, too."""
        for status in statuses:
            if status.name.strip("/") == self._name:
                self._paused = PAUSED in status.message.split("; ")
                viewer.set_simulation(self._paused)

    def _call(self, viewer: BrowserViewer, client: Any, request: Any, done: Any) -> None:
        if not client.service_is_ready():
            viewer.set_simulation(self._paused, f"no service {client.srv_name}: is it running?")
            return

        def received(future: Any) -> None:
            response = future.result()
            if response is not None:
                done(response)

        client.call_async(request).add_done_callback(received)
