# SPDX-License-Identifier: Apache-2.0
"""A copy of the planning scene that another node owns, kept in step over topics.

The whole scene comes once from ``get_planning_scene``, changes come from
``monitored_planning_scene``. Messages of a topic are counted by their publisher, and each owner has
a name for its scene, so a lost message or an owner that started anew shows: then the whole scene is
asked for again. MoveIt's move_group may be the owner as well.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any

from moveit_msgs.msg import MoveItErrorCodes, PlanningScene, RobotState
from moveit_msgs.srv import GetPlanningScene

from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Array
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.messages.moveit_messages import RequestRejected
from motion_nodes.ros.names import under
from motion_nodes.ros.node import MotionNode
from motion_nodes.ros.robot_frames import RobotFrames
from motion_nodes.ros.scene.scene_frames import SceneFrames
from motion_nodes.ros.scene.scene_messages import SceneMessages
from motion_nodes.scene.scene import Scene
from motion_nodes.scene.world import World

PATIENCE = 2.0
"""[s] An answer that takes longer is no longer waited for."""
PAUSE = 0.5
"""[s] Between two questions for the whole scene."""
LOOK_PERIOD = 0.05
"""[s] Between two looks whether the owner's service is there."""


class SceneFollower:
    """Keeps a world in step with its owner's; its methods may be called from several threads."""

    def __init__(
        self,
        node: MotionNode[Any],
        robot: Robot,
        kinematics: Kinematics,
        frames: RobotFrames,
        namespace: str = "",
    ) -> None:
        """Subscribe; call :meth:`update` in each tick.

        Args:
            node: whose endpoints these are.
            robot: what the scene is around.
            kinematics: of all its joints, relative to its base frame.
            frames: the robot's links and /tf.
            namespace: of the owner, below the node's own.
        """
        self._node = node
        # What the owner tells stands in the base or in the frame of the link that carries it. What
        # it says to be put down, it then places itself.
        self.messages = SceneMessages(robot, SceneFrames(kinematics, frames, lambda: robot.home))
        self.world = World()
        self.synchronised = False
        """Whether the scene is the owner's, as far as its messages have come."""
        self._changes = PolledSubscription(
            node, PlanningScene, under(namespace, "monitored_planning_scene"), qos.SCENES
        )
        self._client = node.create_client(
            GetPlanningScene,
            under(namespace, "get_planning_scene"),
            qos_profile=qos.ACTION_REQUESTS,
        )
        self._lock = threading.RLock()
        self._number: int | None = None
        self._name = ""
        """Of the owner's scene; each time it starts it is another, save with MoveIt."""
        self._lost = False
        """Whether changes may be missing that came after the last question."""
        self._looked_at, self._answered = -float("inf"), False
        self._question: Any = None
        self._asked_at = -float("inf")
        self._since: list[PlanningScene] = []
        """Changes that came after the question: the answer may be older than they are."""

    @property
    def owned(self) -> bool:
        """Whether somebody tells of a scene now."""
        return self._changes.publishers > 0

    @property
    def scene(self) -> Scene:
        """The scene now, with everything that has come."""
        self.update()
        return self.world.scene

    def scene_at(self, state: RobotState, positions: Array) -> Scene:
        """Return the scene with what a request's robot state attaches.

        Args:
            state: of the request.
            positions: where all joints are in it, shape (n,).

        Raises:
            RequestRejected: for what cannot be attached.
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
        """What a client should know of the scene; nothing if it is as its owner has it."""
        if self.synchronised:
            return ""
        if self.owned:
            return "the planning scene is not known yet: what is known of it was checked"
        if self.world.revision:
            return "nobody tells of the planning scene any more: its last state was checked"
        return "nobody tells of a planning scene: only the robot itself was checked"

    def update(self) -> None:
        """Take what has come, and ask for the whole scene where it is needed."""
        with self._lock:
            came = self._changes.numbered()
            for message, number in came:
                # One that follows none says that those before it may be missing.
                expected = None if self._number is None else self._number + 1
                self._lost |= number is not None and number != expected
                self._lost |= message.name != self._name
                self._number, self._name = number, message.name
                if self._question is not None:
                    self._since.append(message)
            if not self._somebody_answers():
                # Who answers next may be another.
                self._lost = True
            if self._lost:
                self.synchronised = False
            for text in self._apply(message for message, _ in came):
                self._node.warn("scene", f"monitored_planning_scene: {text}")
            self._take_answer()
            self._ask()

    def diagnose(self, report: Report) -> None:
        """Say how far the scene is known."""
        report.value("objects", len(self.world.scene.objects))
        report.value("attached objects", len(self.world.scene.attached))
        note = self.note
        if note:
            alone = not self.owned and not self.world.revision
            report.note("OK" if alone else "WARN", note)

    def destroy(self) -> None:
        """Unsubscribe."""
        self._changes.destroy()
        self._node.destroy_client(self._client)

    def _somebody_answers(self) -> bool:
        """Return whether the owner's service is there, as of a moment ago: asking is not cheap."""
        now = time.monotonic()
        if now - self._looked_at > LOOK_PERIOD:
            self._looked_at = now
            self._answered = self._client.service_is_ready()
        return self._answered

    def _ask(self) -> None:
        """Ask for the whole scene if it is needed and there is somebody to ask."""
        if self.synchronised or not self._somebody_answers():
            return
        waited = time.monotonic() - self._asked_at
        if waited < (PAUSE if self._question is None else PATIENCE):
            return
        if self._question is not None:
            self._client.remove_pending_request(self._question)
        # What is found missing from now on needs another question.
        self._lost, self._since, self._asked_at = False, [], time.monotonic()
        self._question = self._client.call_async(GetPlanningScene.Request())

    def _take_answer(self) -> None:
        if self._question is None or not self._question.done():
            return
        answer = self._question.result()
        self._question = None
        if answer is not None:
            answer.scene.is_diff = False
            # Some of what came since may be in it already; told once more it ends the same.
            self._apply([answer.scene, *self._since])
            self.synchronised = not self._lost
        self._since = []

    def _apply(self, messages: Iterable[PlanningScene]) -> list[str]:
        """Carry out messages; return what could not be."""
        before = self.world.scene
        after, findings = self.messages.apply(before, *messages)
        if after is not before:
            self.world.replace(after)
        return findings.refused
