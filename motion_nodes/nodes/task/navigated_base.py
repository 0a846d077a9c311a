# SPDX-License-Identifier: Apache-2.0
"""The base of a mobile manipulator: its pose, its outlines, and drives by its navigator."""

from __future__ import annotations

from typing import Any

import numpy as np
from action_msgs.srv import CancelGoal
from nav2_msgs.action import NavigateToPose

from motion_nodes.base_navigation.planar_pose import Pose2
from motion_nodes.errors import MotionError
from motion_nodes.model.poses import inverse
from motion_nodes.nodes.task.drive_outlines import DriveOutlines
from motion_nodes.nodes.task.remote_work import RemoteAction, RemoteService, Work, require_success
from motion_nodes.ros.concurrency.executor_queue import ExecutorQueue
from motion_nodes.ros.messages.planar_messages import pose2_of, stamped_pose
from motion_nodes.ros.node import MotionNode
from motion_nodes.ros.transform_tree import TransformTree
from motion_nodes.typing import Array

MAX_AGE = 1.0
"""Max age of the transform from odometry to the base [s]."""


class NavigatedBase:
    """Client of the navigator of one robot."""

    def __init__(
        self,
        node: MotionNode[Any],
        jobs: ExecutorQueue,
        tree: TransformTree,
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
