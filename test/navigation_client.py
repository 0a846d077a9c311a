# SPDX-License-Identifier: Apache-2.0
"""A client of the base navigator: goals, paths, results."""

import math
from collections.abc import Sequence
from typing import Any

from action_calls import ActionCalls
from action_msgs.msg import GoalStatus
from geometry_msgs.msg import PoseStamped
from joint_client import Call
from nav2_msgs.action import FollowPath, FollowWaypoints, NavigateThroughPoses, NavigateToPose
from nav_msgs.msg import Path
from ros_client import LATCHED, RosClient, values_of

from motion_nodes.core.navigation.planar_geometry import Pose2

SUCCEEDED = GoalStatus.STATUS_SUCCEEDED
ABORTED = GoalStatus.STATUS_ABORTED
CANCELED = GoalStatus.STATUS_CANCELED
Codes = FollowPath.Result


def stamped(pose: Sequence[float], frame: str = "odom", stamp: float = 0.0) -> PoseStamped:
    """Return (x, y, yaw) as a message."""
    message = PoseStamped()
    message.header.frame_id = frame
    message.header.stamp.sec = int(stamp)
    message.header.stamp.nanosec = int((stamp - int(stamp)) * 1e9)
    x, y, yaw = pose
    message.pose.position.x, message.pose.position.y = float(x), float(y)
    message.pose.orientation.z = math.sin(0.5 * yaw)
    message.pose.orientation.w = math.cos(0.5 * yaw)
    return message


def path(poses: Sequence[Sequence[float]], frame: str = "odom") -> Path:
    """Return a path of (x, y, yaw)."""
    message = Path(poses=[stamped(pose, frame) for pose in poses])
    message.header.frame_id = frame
    return message


def pose_of(message: Any) -> Pose2:
    """Return the pose of a message that has a pose."""
    while not hasattr(message, "position"):
        message = message.pose
    p, q = message.position, message.orientation
    return Pose2(p.x, p.y, 2.0 * math.atan2(q.z, q.w))


class NavigationClient:
    """A client of one robot's navigator."""

    def __init__(self, client: RosClient, namespace: str = "") -> None:
        self.client = client
        self.root = f"/{namespace}" if namespace else ""
        self.node = f"{self.root}/base_navigator"
        self.plans = client.listen(Path, f"{self.root}/plan", LATCHED)
        self._actions = ActionCalls(client, self.root)

    def close(self) -> None:
        """Destroy the action clients."""
        self._actions.close()

    def wait_for(self, diagnosis: str = "no goal", *, news: bool = False) -> None:
        """Wait until it accepts goals; ``news``: by a report from now on."""
        old = self.client.diagnostics(self.node) if news else None
        self.client.wait(
            lambda: self.client.diagnostics(self.node) is not old or not news, "a report"
        )
        self.client.wait_for_diagnosis(self.node, diagnosis)

    def send(self, kind: Any, name: str, goal: Any) -> Call:
        """Send a goal."""
        return self._actions.send(kind, name, goal)

    def go(self, pose: Sequence[float], frame: str = "odom", **more: Any) -> Call:
        """Send a goal pose (x, y, yaw) [m, rad]."""
        goal = NavigateToPose.Goal(pose=stamped(pose, frame), **more)
        return self.send(NavigateToPose, "navigate_to_pose", goal)

    def go_through(self, *poses: Sequence[float], frame: str = "odom", **more: Any) -> Call:
        """Send several goal poses (x, y, yaw) [m, rad]."""
        goal = NavigateThroughPoses.Goal(poses=[stamped(pose, frame) for pose in poses], **more)
        return self.send(NavigateThroughPoses, "navigate_through_poses", goal)

    def visit(self, *poses: Sequence[float] | PoseStamped, **more: Any) -> Call:
        """Send waypoints (x, y, yaw) [m, rad], or messages."""
        messages = [p if isinstance(p, PoseStamped) else stamped(p) for p in poses]
        goal = FollowWaypoints.Goal(poses=messages, **more)
        return self.send(FollowWaypoints, "follow_waypoints", goal)

    def go_to(self, message: PoseStamped) -> Call:
        """Send a goal pose message."""
        goal = NavigateToPose.Goal(pose=message)
        return self.send(NavigateToPose, "navigate_to_pose", goal)

    def follow(self, message: Path, **more: Any) -> Call:
        """Send a path to follow."""
        return self.send(FollowPath, "follow_path", FollowPath.Goal(path=message, **more))

    def wait_for_warning(self, text: str) -> None:
        """Wait until the diagnostics show a warning."""

        def found() -> bool:
            status = self.client.diagnostics(self.node)
            return status is not None and text in values_of(status).get("last warning", "")

        self.client.wait(found, f"the warning '{text}'")
