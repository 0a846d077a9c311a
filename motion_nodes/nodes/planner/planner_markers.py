# SPDX-License-Identifier: Apache-2.0
"""Markers of plans and collision spheres, for RViz, Foxglove and similar tools."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from visualization_msgs.msg import MarkerArray

from motion_nodes.model.kinematics import Kinematics
from motion_nodes.nodes.planner.plan_jobs import PlannedMotion
from motion_nodes.ros import qos
from motion_nodes.ros.current_state_monitor import CurrentStateMonitor
from motion_nodes.ros.messages.markers import Markers
from motion_nodes.ros.node import MotionNode
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.scene import Scene
from motion_nodes.typing import Array

MAX_NODES = 3000
"""Max number of nodes of a search tree in a message."""
SPHERE_PERIOD = 0.2
"""Publish period of the collision spheres [s]."""


class PlannerMarkers:
    """Publishes ``~/markers`` of each plan, and ``~/collision_spheres`` while subscribed."""

    def __init__(
        self,
        node: MotionNode[Any],
        kinematics: Kinematics,
        state: CurrentStateMonitor,
        frame: str,
    ) -> None:
        """Create the publishers.

        Args:
            node: the node of the topics.
            kinematics: of all joints, relative to the base frame.
            state: current state of the robot.
            frame: name of the base frame on /tf.
        """
        self._node = node
        self._kinematics = kinematics
        self._state = state
        self._frame = frame
        self._plans = node.advertise(MarkerArray, "~/markers", qos.LATCHED)
        self._spheres = node.advertise(MarkerArray, "~/collision_spheres")
        self._due = 0.0

    @property
    def watched(self) -> bool:
        """Whether the markers of plans have subscribers."""
        return bool(self._plans.get_subscription_count())

    def show(self, planned: PlannedMotion) -> None:
        """Publish the tip's path of a plan and of its search tree."""
        if planned.group.tip is None:
            return
        points = planned.trajectory.joint_trajectory.points
        positions = self._tip_positions(planned, np.array([point.positions for point in points]))
        markers = self._markers()
        markers.line("path", positions)
        markers.dots("ends", positions[[0, -1]])
        if planned.tree is not None and self.watched:
            # Parents precede their children, so any number of leading nodes is a tree.
            nodes = planned.tree.nodes[:MAX_NODES]
            parents = planned.tree.parents[: len(nodes)].tolist()
            markers.tree("tree", self._tip_positions(planned, nodes), parents)
        self._plans.publish(markers.message)

    def _tip_positions(self, planned: PlannedMotion, path: Array) -> Array:
        """Return positions of the tip [m], shape (m, 3), at the group's configurations (m, n)."""
        assert planned.group.tip is not None
        Q = np.tile(planned.q, (len(path), 1))
        Q[:, planned.group.indices] = path
        poses = self._kinematics.pose_batch(Q, planned.group.tip)
        return np.ascontiguousarray(poses[:, :3, 3])

    def tick(self, checker: CollisionChecker, scene: Scene) -> None:
        """Publish the collision spheres of the robot and its attached objects, if due.

        Args:
            checker: of all joints, for the exclusive use of this method.
            scene: current planning scene.
        """
        now = time.monotonic()
        if now < self._due or not self._spheres.get_subscription_count():
            return
        self._due = now + SPHERE_PERIOD
        q, fault = self._state.newest()
        if fault:
            return
        checker.set_scene(scene)
        spheres = checker.sphere_positions(q)
        markers = self._markers()
        markers.spheres("spheres", spheres[:, :3], spheres[:, 3])
        self._spheres.publish(markers.message)

    def _markers(self) -> Markers:
        return Markers(self._frame, self._node.get_clock().now().to_msg())
