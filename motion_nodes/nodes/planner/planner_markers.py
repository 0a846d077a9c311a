# SPDX-License-Identifier: Apache-2.0
"""Plans and collision spheres as markers, for RViz, Foxglove and the like."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from visualization_msgs.msg import MarkerArray

from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.tree import Array
from motion_nodes.nodes.planner.planner_state import PlannerState
from motion_nodes.nodes.planner.planning_requests import PlannedMotion
from motion_nodes.ros import qos
from motion_nodes.ros.messages.markers import Markers
from motion_nodes.ros.node import MotionNode
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.scene import Scene

MOST_NODES = 3000
"""Of a search tree that are shown."""
SPHERE_PERIOD = 0.2
"""[s] Between two messages of spheres."""


class PlannerMarkers:
    """Publishes ``~/markers`` for each plan, and ``~/collision_spheres`` while somebody looks."""

    def __init__(
        self,
        node: MotionNode[Any],
        kinematics: Kinematics,
        state: PlannerState,
        frame: str,
    ) -> None:
        """Advertise.

        Args:
            node: that publishes.
            kinematics: of all joints of the robot, relative to its base.
            state: the robot as it is measured.
            frame: the base on /tf.
        """
        self._node = node
        self._kinematics = kinematics
        self._state = state
        self._frame = frame
        self._plans = node.advertise(MarkerArray, "~/markers", qos.LATCHED)
        self._spheres = node.advertise(MarkerArray, "~/collision_spheres")
        self._due = 0.0

    def show(self, planned: PlannedMotion) -> None:
        """Publish the way of the tip along a plan, and along the trees that were searched."""
        if planned.group.tip is None:
            return
        points = planned.trajectory.joint_trajectory.points
        places = self._places(planned, np.array([point.positions for point in points]))
        markers = self._markers()
        markers.line("path", places)
        markers.dots("ends", places[[0, -1]])
        if planned.tree is not None and self._plans.get_subscription_count():
            # A parent comes before its children, so that the first nodes are a tree, too.
            nodes = planned.tree.nodes[:MOST_NODES]
            parents = planned.tree.parents[: len(nodes)].tolist()
            markers.tree("tree", self._places(planned, nodes), parents)
        self._plans.publish(markers.message)

    def _places(self, planned: PlannedMotion, way: Array) -> Array:
        """Return where the tip is, for the joints of the group, shape (m, 3)."""
        assert planned.group.tip is not None
        Q = np.tile(planned.q, (len(way), 1))
        Q[:, planned.group.indices] = way
        poses = self._kinematics.pose_batch(Q, planned.group.tip)
        return np.ascontiguousarray(poses[:, :3, 3])

    def tick(self, checker: CollisionChecker, scene: Scene) -> None:
        """Publish the spheres that stand for the robot and what it carries, where it is now.

        Args:
            checker: of all joints; nobody else uses it.
            scene: the scene now.
        """
        now = time.monotonic()
        if now < self._due or not self._spheres.get_subscription_count():
            return
        self._due = now + SPHERE_PERIOD
        q, trouble = self._state.newest()
        if trouble:
            return
        checker.set_scene(scene)
        spheres = checker.sphere_positions(q)
        markers = self._markers()
        markers.spheres("spheres", spheres[:, :3], spheres[:, 3])
        self._spheres.publish(markers.message)

    def _markers(self) -> Markers:
        return Markers(self._frame, self._node.get_clock().now().to_msg())
