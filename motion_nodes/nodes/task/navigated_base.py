# SPDX-License-Identifier: Apache-2.0
"""The base of a mobile manipulator: its pose, its outlines, and drives by its navigator.

Known objects as obstacles of a mobile manipulator, at the heights of its base and arm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from action_msgs.srv import CancelGoal
from nav2_msgs.action import NavigateToPose

from motion_nodes.core.navigation.footprint import (
    Footprint,
    carrier_footprint,
    footprint_of,
    solid_outline,
)
from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.core.navigation.pose_motions import OutlineLayer, outline_points
from motion_nodes.core.robot.poses import inverse
from motion_nodes.core.robot.robot import Robot
from motion_nodes.errors import MotionError
from motion_nodes.extras.tasks.world_state import WorldState
from motion_nodes.nodes.task.remote_work import RemoteAction, RemoteService, Work, require_success
from motion_nodes.ros.concurrency.queues import ExecutorQueue
from motion_nodes.ros.messages.planar_messages import pose2_of, stamped_pose
from motion_nodes.ros.node import MotionNode
from motion_nodes.ros.robot_frames import Transforms
from motion_nodes.typing import Array

FLAT = 0.01
"""Max height of objects that wheels roll over [m]."""
MAX_AGE = 1.0
"""Max age of the transform from odometry to the base [s]."""


@dataclass(frozen=True)
class DriveOutlines:
    """Outlines of one robot on the floor."""

    carrier: Footprint
    """Outline of the body that carries the arm."""
    home: Footprint
    """Outline of the whole robot in the home state."""

    @classmethod
    def of(cls, robot: Robot) -> DriveOutlines:
        """Return the outlines of a robot."""
        return cls(carrier_footprint(robot), footprint_of(robot))

    def around(self, state: WorldState) -> tuple[OutlineLayer, OutlineLayer]:
        """Return both outlines with the objects in their height ranges, without the held one.

        Args:
            state: with the objects in the base frame.
        """
        lower = [np.empty((0, 2))]
        higher = [np.empty((0, 2))]
        for item in state.objects.values():
            if item.name == state.held:
                continue
            for solid in item.solids:
                points = outline_points(solid_outline(solid.shape, solid.X_WO))
                if solid.top > self.carrier.floor + FLAT and solid.bottom < self.carrier.top:
                    lower.append(points)
                if solid.top > self.carrier.top and solid.bottom < self.home.top:
                    higher.append(points)
        return (
            OutlineLayer(self.carrier, np.concatenate(lower)),
            OutlineLayer(self.home, np.concatenate(higher)),
        )


class NavigatedBase:
    """Client of the navigator of one robot."""

    def __init__(
        self,
        node: MotionNode[Any],
        jobs: ExecutorQueue,
        tree: Transforms,
        frames: tuple[str, str],
        X_WO: Array,
        outlines: DriveOutlines,
    ) -> None:
        """Create the client.

        Args:
            node: the node.
            jobs: queue of its executor.
            tree: transforms of /tf.
            frames: odometry frame and base frame, as they are on /tf.
            X_WO: pose of the odometry frame in the frame of the detector, shape (4, 4).
            outlines: of base and arm.
        """
        self.outlines = outlines
        self._node, self._tree, (self._odom, self._base) = node, tree, frames
        self._X_WO = np.asarray(X_WO)
        self._drive = RemoteAction(node, jobs, NavigateToPose, "navigate_to_pose")
        self._everyone = RemoteService(
            node, jobs, CancelGoal, "navigate_to_pose/_action/cancel_goal"
        )

    def pose(self) -> Array | None:
        """Return the pose of the base in the frame of the detector, (4, 4); None if unknown."""
        X_OB = self._pose_in_odom()
        return None if X_OB is None else np.asarray(self._X_WO @ X_OB)

    def in_odom(self, place: tuple[float, float, float]) -> Pose2:
        """Return a place in the frame of the detector as a pose in the odometry frame."""
        return pose2_of(inverse(self._X_WO)).compose(Pose2(*place))

    def in_odom_now(self) -> Pose2 | None:
        """Return the pose of the base in the odometry frame; None if unknown or old."""
        X_OB = self._pose_in_odom()
        return None if X_OB is None else pose2_of(X_OB)

    def _pose_in_odom(self) -> Array | None:
        self._tree.update()
        try:
            X_OB, stamp_ns = self._tree.pose(self._odom, self._base)
        except MotionError:
            return None
        old = stamp_ns is not None and 1e-9 * (self._node.now_ns() - stamp_ns) > MAX_AGE
        return None if old else np.asarray(X_OB)

    def drive(self, goal: Pose2) -> Work:
        """Drive to a pose in the odometry frame.

        Raises:
            SkillFailed: with the reason of the navigator.
        """
        request = NavigateToPose.Goal(pose=stamped_pose(goal, self._odom, 0))
        require_success((yield from self._drive.execute(request)), "drive")

    def cancel(self) -> None:
        """Cancel the active drive, if any."""
        self._drive.cancel()

    def cancel_all(self) -> None:
        """Cancel the drives of all clients."""
        self._everyone.send(CancelGoal.Request())  # without an id: all goals

    def destroy(self) -> None:
        """Destroy the client."""
        self._drive.destroy()
