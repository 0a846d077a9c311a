# SPDX-License-Identifier: Apache-2.0
"""Collisions at the joint positions that the page commands, which the joint controller ignores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from moveit_msgs.srv import GetStateValidity

from motion_nodes.model.robot import Robot
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.executor_queue import ExecutorQueue
from motion_nodes.ros.names import under
from motion_nodes.ros.node import MotionNode
from motion_nodes.typing import Array
from motion_nodes.view.browser import BrowserViewer

SERVICE = "check_state_validity"
COMMANDED = (
    "At the commanded positions, {bodies} are in collision. The sliders and named states of this "
    "tab move the joints without avoiding obstacles."
)
"""Notification of a collision at commanded positions."""


class WatchedValidity:
    """Client of the kinematics service of one arm; one request at a time, the newest."""

    def __init__(
        self, node: MotionNode[Any], robot: Robot, name: str, namespace: str, jobs: ExecutorQueue
    ) -> None:
        """Create the client.

        Args:
            node: the viewer.
            robot: whose positions are checked.
            name: of the robot on the page.
            namespace: of the robot's topics.
            jobs: queue of the executor.
        """
        self._node, self._robot, self._name, self._jobs = node, robot, name, jobs
        self._client = node.create_client(
            GetStateValidity, under(namespace, SERVICE), qos_profile=qos.SERVICES
        )
        self._pending: tuple[GetStateValidity.Request, str] | None = None
        self._requested = False
        self._reported = ""

    def check(
        self,
        viewer: BrowserViewer,
        positions: Mapping[str, float],
        q: Array,
        finding: str = COMMANDED,
    ) -> None:
        """Notify the page if positions are in collision, once for each pair of bodies.

        Args:
            viewer: the page.
            positions: commanded positions by joint [rad or m].
            q: measured positions of all joints, shape (n,); NaN: unknown.
            finding: text of the notification, with ``{bodies}``.
        """
        names = self._robot.joint_names
        values = np.array(
            [positions.get(name, value) for name, value in zip(names, q, strict=True)]
        )
        if not np.isfinite(values).all():
            return
        # Measured positions may exceed a limit slightly, which is no collision.
        values = self._robot.limits.clip(values)
        request = GetStateValidity.Request()
        request.robot_state.joint_state.name = list(names)
        request.robot_state.joint_state.position = values.tolist()
        self._jobs.submit(lambda: self._request(viewer, request, finding))

    def check_carried(self, viewer: BrowserViewer, name: str, q: Array) -> None:
        """Notify the page if the robot is in collision with an object that it carries from now on.

        Args:
            viewer: the page.
            name: of the attached object.
            q: measured positions of all joints, shape (n,); NaN: unknown.
        """
        self._jobs.submit(lambda: setattr(self, "_reported", ""))
        self.check(viewer, {}, q, f"With '{name}' attached, {{bodies}} are in collision.")

    def destroy(self) -> None:
        """Destroy the client."""
        self._node.destroy_client(self._client)

    def _request(
        self, viewer: BrowserViewer, request: GetStateValidity.Request, finding: str
    ) -> None:
        if self._requested:
            self._pending = request, finding
            return
        if not self._client.service_is_ready():
            return
        self._requested = True

        def answered(future: Any) -> None:
            self._requested = False
            if future.result() is not None:
                self._report(viewer, future.result(), finding)
            following, self._pending = self._pending, None
            if following is not None:
                self._request(viewer, *following)

        self._client.call_async(request).add_done_callback(answered)

    def _report(
        self, viewer: BrowserViewer, response: GetStateValidity.Response, finding: str
    ) -> None:
        bodies = [f"{c.contact_body_1} and {c.contact_body_2}" for c in response.contacts[:1]]
        text = "" if response.valid else "".join(bodies)
        if text and text != self._reported:
            viewer.notify(f"{self._name}: collision", finding.format(bodies=text))
        self._reported = text
