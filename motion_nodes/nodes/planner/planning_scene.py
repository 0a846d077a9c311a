# SPDX-License-Identifier: Apache-2.0
"""The planning scene of a robot: the part of a node that owns it and tells others of it.

Clients change it by MoveIt's topics and services; other nodes and RViz follow it on
``monitored_planning_scene``. Frames are the robot's, /tf's and objects'; everything is kept in the
robot's base frame.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from moveit_msgs.msg import (
    AttachedCollisionObject,
    CollisionObject,
    MoveItErrorCodes,
    PlanningScene,
    PlanningSceneWorld,
    RobotState,
)
from moveit_msgs.srv import ApplyPlanningScene, GetPlanningScene
from std_msgs.msg import String
from std_srvs.srv import Empty

from motion_nodes.errors import MotionError
from motion_nodes.model.files.srdf_from_robot import srdf
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Array
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.concurrency.service_threads import ServiceThreads
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.messages.moveit_messages import RequestRejected
from motion_nodes.ros.node import MotionNode
from motion_nodes.ros.robot_frames import RobotFrames
from motion_nodes.ros.scene.message_order import Arrivals, EarlyAttachments
from motion_nodes.ros.scene.scene_frames import SceneFrames
from motion_nodes.ros.scene.scene_messages import SceneMessages, SceneWarnings
from motion_nodes.scene.scene import Scene, difference
from motion_nodes.scene.scenery import Scenery
from motion_nodes.scene.world import World

STILL = 1e-4
"""[rad or m] Joints that moved by less are not told anew."""
REMINDER = 1.0
"""[s] After so long a state is told even of a robot that stands, for those who came late."""


class PlanningSceneOwner:
    """Keeps a robot's scene; its methods may be called from several threads."""

    def __init__(
        self,
        node: MotionNode[Any],
        robot: Robot,
        kinematics: Kinematics,
        frames: RobotFrames,
        newest: Callable[[], tuple[Array, str]],
        state_rate: Callable[[], float],
        scenery: Scenery | None = None,
    ) -> None:
        """Subscribe and advertise; :meth:`serve` the services, :meth:`announce` when active.

        Args:
            node: whose endpoints these are.
            robot: what the scene is around.
            kinematics: of all its joints, relative to its base frame.
            frames: the robot's links and /tf.
            newest: returns where all joints are, shape (n,), and why that is not known or nothing.
            state_rate: how often the robot's state is told while it moves [Hz].
            scenery: what the scene holds from the start; only a removal by name removes it.
        """
        self._node = node
        self._robot = robot
        self._newest = newest
        self._state_rate = state_rate
        # A name of its own, by which those who follow know an owner that started anew.
        name = f"{robot.tree.name}_{secrets.token_hex(4)}"
        scene_frames = SceneFrames(kinematics, frames, self._positions)
        scenery = scenery or Scenery()
        self.messages = SceneMessages(robot, scene_frames, name, scenery)
        self.world = World(scenery.scene())
        """The scene, and ways to change it from this process."""
        self._lock = threading.RLock()
        # Not by node.poll: what came before the node was active counts here.
        self._topics = [
            PolledSubscription(node, kind, name, profile)
            for kind, name, profile in (
                (PlanningScene, "planning_scene", qos.SCENES),
                (PlanningSceneWorld, "planning_scene_world", qos.SCENES),
                (CollisionObject, "collision_object", qos.SCENE_OBJECTS),
                (AttachedCollisionObject, "attached_collision_object", qos.SCENE_OBJECTS),
            )
        ]
        self._arrivals, self._early = Arrivals(self._topics), EarlyAttachments()
        self._told = self.world.scene
        self._told_positions: Array = np.full(len(robot.joint_names), np.nan)
        self._told_at = -np.inf
        self._monitored = node.advertise(PlanningScene, "monitored_planning_scene", qos.SCENES)
        self._semantic = node.advertise(String, "robot_description_semantic", qos.LATCHED)

    @property
    def scene(self) -> Scene:
        """The scene now, with everything that has come."""
        self.update()
        return self.world.scene

    def serve(self, threads: ServiceThreads) -> None:
        """Offer the services."""
        profile = qos.ACTION_REQUESTS
        threads.serve(GetPlanningScene, "get_planning_scene", self._get, profile)
        threads.serve(ApplyPlanningScene, "apply_planning_scene", self._apply, profile)
        threads.serve(Empty, "clear_octomap", self._clear_octomap, profile)

    def announce(self) -> None:
        """Tell everything once; the node is active now."""
        self._semantic.publish(String(data=srdf(self._robot, self.messages.never_checked)))
        with self._lock:
            self._told = self.world.scene
            self._monitored.publish(self.messages.message(self._told, self._joints()))

    def tick(self) -> None:
        """Take what has come, and tell of it and of the robot's state; in the node's loop."""
        self.update()
        positions, trouble = self._newest()
        age = time.monotonic() - self._told_at
        moved = not np.abs(positions - self._told_positions).max(initial=0.0) < STILL
        if trouble or age < (1.0 / self._state_rate() if moved else REMINDER):
            return
        self._told_positions, self._told_at = positions, time.monotonic()
        message = self.messages.state_message(self._named(positions))
        message.robot_state.joint_state.header.stamp = self._node.get_clock().now().to_msg()
        with self._lock:
            self._monitored.publish(message)

    def update(self) -> None:
        """Take what the topics brought, in the order in which it came, and tell of changes."""
        with self._lock:
            came = self._arrivals.take()
            if came:
                self._change(*came)
            given_up = self._early.given_up()
            if given_up:
                self._change(*given_up, waiting=False)  # which refuses them in words
            self._tell()

    def scene_with(self, change: PlanningScene, state: RobotState | None = None) -> Scene:
        """Return the scene with what a request wants to be another for itself alone.

        Both are taken as changes, however they are marked: clients fill in joint positions and do
        not mean that what the robot carries is gone.

        Args:
            change: the request's scene.
            state: the request's start state, for what it attaches.

        Raises:
            RequestRejected: for what cannot be carried out.
        """
        change.is_diff = change.robot_state.is_diff = True
        carried = [] if state is None else state.attached_collision_objects
        scene, findings = self.messages.apply(self.scene, change, *carried)
        for text in findings.warnings:
            self._node.warn("scene of a request", f"scene of a request: {text}")
        if findings.refused:
            raise RequestRejected(
                MoveItErrorCodes.INVALID_GOAL_CONSTRAINTS,
                f"the request's planning scene: {'; '.join(findings.refused)}",
            )
        return scene

    def diagnose(self, report: Report) -> None:
        """Say how much there is."""
        scene = self.world.scene
        report.value("objects", len(scene.objects))
        report.value("attached objects", len(scene.attached))
        report.value("scene revision", scene.revision)

    def destroy(self) -> None:
        """Unsubscribe; publishers end with the node's configuration."""
        for topic in self._topics:
            topic.destroy()

    # ---- inside

    def _positions(self) -> Array:
        positions, trouble = self._newest()
        if trouble:
            raise MotionError(f"where the robot is, is not known: {trouble}")
        return positions

    def _named(self, positions: Array) -> dict[str, float]:
        return dict(zip(self._robot.joint_names, positions.tolist(), strict=True))

    def _joints(self) -> dict[str, float]:
        positions, trouble = self._newest()
        return {} if trouble else self._named(positions)

    def _change(self, *messages: Any, waiting: bool = True) -> SceneWarnings:
        """Carry out messages; with the lock held."""
        before = self.world.scene
        early = self._early if waiting else None
        after, findings = self.messages.apply(before, *messages, early=early)
        if after is not before:
            self.world.replace(after)
        for text in findings.refused:
            self._node.warn("scene", f"planning scene: refused: {text}")
        for text in findings.warnings:
            self._node.warn("scene", f"planning scene: {text}")
        return findings

    def _tell(self) -> None:
        """Publish what is another than what was told before; with the lock held."""
        scene = self.world.scene
        if scene is self._told:
            return
        diff = difference(self._told, scene)
        self._told = scene
        if not diff.empty and self._node.active:
            self._monitored.publish(self.messages.diff_message(scene, diff))

    def _get(self, request: Any, response: Any) -> Any:
        components = request.components.components
        response.scene = self.messages.message(self.scene, self._joints(), components)
        response.scene.robot_state.joint_state.header.stamp = self._node.get_clock().now().to_msg()
        return response

    def _apply(self, request: Any, response: Any) -> Any:
        with self._lock:
            self.update()
            response.success = self._change(request.scene).success
            self._tell()
        return response

    def _clear_octomap(self, request: Any, response: Any) -> Any:
        """Answer those who wait for it: there is no octomap."""
        return response
