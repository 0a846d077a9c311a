# SPDX-License-Identifier: Apache-2.0
"""Navigation of one base on the viewer's page: goals from clicks on the floor."""

from __future__ import annotations

from typing import Any

import numpy as np
from nav2_msgs.action import NavigateToPose

from motion_nodes.base_navigation.planar_pose import Pose2
from motion_nodes.model.poses import inverse
from motion_nodes.nodes.task.remote_work import RemoteAction, Work, require_success
from motion_nodes.ros.concurrency.executor_queue import ExecutorQueue
from motion_nodes.ros.messages.planar_messages import pose2_of, stamped_pose
from motion_nodes.ros.names import under
from motion_nodes.ros.node import MotionNode
from motion_nodes.tasks.task_runner import SkillFailed
from motion_nodes.typing import Array
from motion_nodes.view.browser import BrowserViewer


class WatchedNavigation:
    """Client of a base navigator; a new goal replaces the previous one."""

    def __init__(
        self,
        node: MotionNode[Any],
        jobs: ExecutorQueue,
        name: str,
        namespace: str,
        odom: str,
        X_WO: Array,
    ) -> None:
        """Create the client.

        Args:
            node: the viewer.
            jobs: queue of its executor.
            name: of the robot on the page.
            namespace: of the robot's topics.
            odom: its odometry frame, without the namespace.
            X_WO: pose of that frame in the world, shape (4, 4).
        """
        self._name, self._frame = name, under(namespace, odom)
        self._X_OW = inverse(np.asarray(X_WO))
        action = under(namespace, "navigate_to_pose")
        self._action = RemoteAction(node, jobs, NavigateToPose, action)
        self._work: Work | None = None

    def send(self, viewer: BrowserViewer, x: float, y: float, yaw: float) -> None:
        """Drive to a pose in the world [m, m, rad]."""
        # Otherwise the base would follow the previous goal on if the navigator refuses this one.
        self.cancel()
        goal = pose2_of(self._X_OW).compose(Pose2(x, y, yaw))
        self._work = self._drive(NavigateToPose.Goal(pose=stamped_pose(goal, self._frame, 0)))
        viewer.set_drive_message(self._name, f"driving to {x:.2f}, {y:.2f} m", driving=True)

    def cancel(self) -> None:
        """Cancel the active goal, if any."""
        if self._work is not None:
            self._action.cancel()

    def show(self, viewer: BrowserViewer) -> None:
        """Advance the goal, and show its result."""
        if self._work is None:
            return
        try:
            next(self._work)
            return
        except StopIteration:
            text = "arrived"
        except SkillFailed as failure:
            text = str(failure)
        self._work = None
        viewer.set_drive_message(self._name, text)

    def destroy(self) -> None:
        """Destroy the client."""
        self._action.destroy()

    def _drive(self, goal: NavigateToPose.Goal) -> Work:
        require_success((yield from self._action.execute(goal)), "goal not reached")
