# SPDX-License-Identifier: Apache-2.0
"""A copy of the planning scene of another node, synchronized over topics.

The complete scene is requested from ``get_planning_scene``, diffs come from
``monitored_planning_scene``. Publishers number their messages and each owner names its scene, so
lost messages and restarts of the owner are detected; the complete scene is then requested again.
The owner may also be MoveIt's move_group.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any

from moveit_msgs.msg import MoveItErrorCodes, PlanningScene, RobotState
from moveit_msgs.srv import GetPlanningScene

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.scene import Scene
from motion_nodes.core.scene.world import World
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.current_state import RobotFrames
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.messages.moveit_messages import RequestRejected
from motion_nodes.ros.names import under
from motion_nodes.ros.node import MotionNode
from motion_nodes.ros.scene.scene_messages import SceneMessages
from motion_nodes.ros.scene.scene_update import SceneFrames
from motion_nodes.typing import Array

REPLY_TIMEOUT = 2.0
"""[s] Timeout of a request for the complete scene."""
REQUEST_PERIOD = 0.5
"""[s] Min time between two requests."""
SERVICE_CHECK_PERIOD, SYNCHRONISED_CHECK_PERIOD = 0.05, 0.25
"""[s] Min time between two checks for the owner's service: until the scene is synchronized, and
then, since a new owner is also recognized by its messages."""
MAX_UNREAD = 3
"""Max number of unreadable parts of a scene that its note names."""


class SceneFollower:
    """Synchronizes a world with its owner's; thread-safe."""

    def __init__(
        self,
        node: MotionNode[Any],
        robot: Robot,
        kinematics: Kinematics,
        frames: RobotFrames,
        namespace: str = "",
    ) -> None:
        """Create the endpoints; call :meth:`update` in each cycle.

        Args:
            node: the node.
            robot: the robot in the scene.
            kinematics: forward kinematics of all its joints in its base frame.
            frames: the robot's links and /tf.
            namespace: namespace of the owner, relative to the node's.
        """
        self._node = node
        # Joint positions are not needed: the owner's messages are in the base frame or in the frame
        # of the link that an object is attached to, and give the poses of detached objects.
        self.messages = SceneMessages(robot, SceneFrames(kinematics, frames, lambda: robot.home))
        self.world = World()
        self.synchronised = False
        """Whether the scene is the owner's, up to messages in transit and what cannot be read."""
        self._changes = PolledSubscription(
            node, PlanningScene, under(namespace, "monitored_planning_scene"), qos.SCENES
        )
        self._client = node.create_client(
            GetPlanningScene, under(namespace, "get_planning_scene"), qos_profile=qos.SERVICES
        )
        self._lock = threading.RLock()
        self._number: int | None = None
        self._name = ""
        """Name of the owner's scene; differs after each start of the owner, except for MoveIt."""
        self._lost = False
        """Whether diffs may have been lost since the last request."""
        self._checked_at, self._available = -float("inf"), False
        self._request: Any = None
        self._requested_at = -float("inf")
        self._since: list[PlanningScene] = []
        """Diffs received since the request; the response may be older."""
        self._unread: list[str] = []
        """Parts of the owner's scene that are not in the copy, and why."""

    @property
    def owned(self) -> bool:
        """Whether the scene has an owner now."""
        return self._changes.publishers > 0

    @property
    def changes(self) -> PolledSubscription[PlanningScene]:
        """Subscription of the owner's changes, which :meth:`update` reads."""
        return self._changes

    @property
    def scene(self) -> Scene:
        """The current scene, after an update."""
        self.update()
        return self.world.scene

    def scene_at(self, state: RobotState, positions: Array) -> Scene:
        """Return the scene with the objects that a request's robot state attaches.

        Args:
            state: robot state of the request.
            positions: positions of all joints in it [rad or m], shape (n,).

        Raises:
            RequestRejected: an object cannot be attached.
        """
        bodies = state.attached_collision_objects
        if not bodies:
            return self.scene
        scene, findings = self.messages.standing(positions).apply(self.scene, *bodies)
        if findings.refused:
            raise RequestRejected(
                MoveItErrorCodes.INVALID_ROBOT_STATE,
                f"attached to the robot state: {'; '.join(findings.refused)}",
            )
        return scene

    @property
    def note(self) -> str:
        """Why the scene may differ from its owner's, for clients; empty if it does not."""
        if self.synchronised:
            return "; ".join(f"not checked: {text}" for text in self._unread[:MAX_UNREAD])
        if self.owned:
            return "the planning scene is not synchronized yet: its known part was checked"
        if self.world.revision:
            return "the planning scene has no publisher any more: its last state was checked"
        return "there is no planning scene: only the robot itself was checked"

    def update(self) -> None:
        """Apply received diffs, and request the complete scene if needed."""
        with self._lock:
            received = self._changes.numbered()
            for message, number in received:
                # Before the first message, earlier ones may have been lost.
                expected = None if self._number is None else self._number + 1
                self._lost |= number is not None and number != expected
                self._lost |= message.name != self._name
                self._lost |= bool(self._unread and message.world.collision_objects)
                self._number, self._name = number, message.name
                if self._request is not None:
                    self._since.append(message)
            if not self._service_available():
                # The next service may belong to another owner.
                self._lost = True
                self._drop_request()
            if received:
                diffs = [message for message, _ in received]
                self._lost |= bool(self._apply(diffs, "monitored_planning_scene"))
            if self._lost:
                self.synchronised = False
            self._read_response()
            self._send_request()

    def diagnose(self, report: Report) -> None:
        """Add the state of synchronization to a report."""
        report.value("objects", len(self.world.scene.objects))
        report.value("attached objects", len(self.world.scene.attached))
        note = self.note
        if note:
            alone = not self.owned and not self.world.revision
            report.note("OK" if alone else "WARN", note)

    def destroy(self) -> None:
        """Destroy the endpoints."""
        self._changes.destroy()
        self._node.destroy_client(self._client)

    def _service_available(self) -> bool:
        """Return whether the owner's service is available; cached, since the check is slow."""
        now = time.monotonic()
        period = SYNCHRONISED_CHECK_PERIOD if self.synchronised else SERVICE_CHECK_PERIOD
        if now - self._checked_at > period:
            self._checked_at = now
            self._available = self._client.service_is_ready()
        return self._available

    def _send_request(self) -> None:
        """Request the complete scene if it is needed and available."""
        if self.synchronised or not self._service_available():
            return
        waited = time.monotonic() - self._requested_at
        if waited < (REQUEST_PERIOD if self._request is None else REPLY_TIMEOUT):
            return
        self._drop_request()
        # Diffs lost from now on require another request.
        self._lost, self._requested_at = False, time.monotonic()
        self._request = self._client.call_async(GetPlanningScene.Request())

    def _drop_request(self) -> None:
        if self._request is not None:
            self._client.remove_pending_request(self._request)
        self._request, self._since = None, []

    def _read_response(self) -> None:
        if self._request is None or not self._request.done():
            return
        response = self._request.result()
        self._request = None
        if response is not None:
            # Of a complete scene one invalid object would refuse all; of MoveIt's, some are unknown
            # here. The response may contain some of the diffs already; applying them again is
            # harmless.
            response.scene.is_diff = True
            scenes = [PlanningScene(), response.scene, *self._since]
            self._unread = self._apply(scenes, "get_planning_scene")
            self.synchronised = not self._lost
        self._since = []

    def _apply(self, messages: Iterable[PlanningScene], source: str) -> list[str]:
        """Apply messages; log and return the refused changes."""
        before = self.world.scene
        after, findings = self.messages.apply(before, *messages)
        if after is not before:
            self.world.replace(after)
        for text in findings.refused:
            self._node.warn("scene", f"{source}: {text}")
        return findings.refused
