# SPDX-License-Identifier: Apache-2.0
"""Requests to the planner and their plans, as messages, and the display of plans.

Plans and collision spheres are shown in RViz, Foxglove and similar tools.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from moveit_msgs.msg import (
    DisplayTrajectory,
    PlanningScene,
    RobotState,
    RobotTrajectory,
)
from visualization_msgs.msg import MarkerArray

from motion_nodes.core.planning.tree_search import SearchTree
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.robot import Group
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import Scene
from motion_nodes.ros import qos
from motion_nodes.ros.current_state_monitor import CurrentStateMonitor
from motion_nodes.ros.messages.markers import Markers
from motion_nodes.ros.messages.plan_messages import display_message
from motion_nodes.ros.node import RobotNode
from motion_nodes.typing import Array


@dataclass(frozen=True)
class PlanJob:
    """A request with its scene."""

    request: Any
    """moveit_msgs/MotionPlanRequest."""
    scene_diff: PlanningScene | None = None
    """Changes of the planning scene for this request only."""
    from_current: bool = False
    """Whether the plan must start at the current state, because it is to be executed."""
    notes: tuple[str, ...] = ()
    """Notes for the client."""


@dataclass(frozen=True)
class PlannedMotion:
    """A plan as messages."""

    job: PlanJob
    group: Group
    q: Array
    """Positions of all joints at the start [rad or m], shape (n,)."""
    start: RobotState
    trajectory: RobotTrajectory
    time: float
    """Planning time [s]."""
    note: str
    """Note for the client; may be empty."""
    recovery_points: int = 0
    """Number of leading points that recover from an invalid start state."""
    tree: SearchTree | None = None
    """Search tree, for display."""


MAX_NODES = 3000
"""Max number of nodes of a search tree in a message."""
SPHERE_PERIOD = 0.2
"""Publish period of the collision spheres [s]."""


class PlanDisplay:
    """Publishes ``display_planned_path`` and ``~/markers`` of each plan, and the spheres.

    ``~/collision_spheres`` are published while subscribed.
    """

    def __init__(
        self,
        node: RobotNode[Any],
        kinematics: Kinematics,
        state: CurrentStateMonitor,
        frame: str,
    ) -> None:
        """Create the publishers.

        Args:
            node: of the robot.
            kinematics: of all joints, relative to the base frame.
            state: current state of the robot.
            frame: name of the base frame on /tf.
        """
        self._node = node
        self._kinematics = kinematics
        self._state = state
        self._frame = frame
        self._checker = CollisionChecker(node.robot, node.robot.joint_names)
        self._to_show: deque[tuple[RobotState, RobotTrajectory, PlannedMotion | None]] = deque()
        self._display = node.advertise(DisplayTrajectory, "display_planned_path", qos.LATCHED)
        self._plans = node.advertise(MarkerArray, "~/markers", qos.LATCHED)
        self._spheres = node.advertise(MarkerArray, "~/collision_spheres")
        self._due = 0.0

    def show(self, planned: PlannedMotion) -> None:
        """Publish a plan in the loop: clients do not wait for it."""
        self._to_show.append((planned.start, planned.trajectory, planned))

    def show_path(self, start: RobotState, trajectory: RobotTrajectory) -> None:
        """Publish a path without markers, in the loop."""
        self._to_show.append((start, trajectory, None))

    def tick(self, scene: Scene) -> None:
        """Publish plans, and the collision spheres if due; in the loop.

        Args:
            scene: current planning scene.
        """
        self._publish_plans()
        self._publish_spheres(scene)

    def _publish_plans(self) -> None:
        """Publish plans for display; the newest one waits for the first subscriber.

        Publishing without subscribers would only delay requests.
        """
        watched = self._display.get_subscription_count() > 0 or self._marked
        while len(self._to_show) > (0 if watched else 1):
            start, trajectory, planned = self._to_show.popleft()
            if not watched:
                continue
            self._display.publish(display_message(self._node.robot.tree.name, start, [trajectory]))
            if planned is not None:
                self._mark(planned)

    @property
    def _marked(self) -> bool:
        """Whether the markers of plans have subscribers."""
        return bool(self._plans.get_subscription_count())

    def _mark(self, planned: PlannedMotion) -> None:
        """Publish the tip's path of a plan and of its search tree."""
        if planned.group.tip is None:
            return
        points = planned.trajectory.joint_trajectory.points
        positions = self._tip_positions(planned, np.array([point.positions for point in points]))
        markers = self._markers()
        markers.line("path", positions)
        markers.dots("ends", positions[[0, -1]])
        if planned.tree is not None and self._marked:
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

    def _publish_spheres(self, scene: Scene) -> None:
        """Publish the collision spheres of the robot and its attached objects, if due."""
        now = time.monotonic()
        if now < self._due or not self._spheres.get_subscription_count():
            return
        self._due = now + SPHERE_PERIOD
        q, fault = self._state.newest()
        if fault:
            return
        self._checker.set_scene(scene)
        spheres = self._checker.sphere_positions(q)
        markers = self._markers()
        markers.spheres("spheres", spheres[:, :3], spheres[:, 3])
        self._spheres.publish(markers.message)

    def _markers(self) -> Markers:
        return Markers(self._frame, self._node.get_clock().now().to_msg())
