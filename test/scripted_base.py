# SPDX-License-Identifier: Apache-2.0
"""A base that follows its commands and publishes odometry, with faults on request."""

import math
import threading
import time
from typing import Any

from geometry_msgs.msg import TransformStamped, TwistStamped
from nav_msgs.msg import Odometry
from rclpy.duration import Duration
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from ros_client import LATCHED, RELIABLE, RosClient
from tf2_msgs.msg import TFMessage

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.bases.odometry import Odometry as Dead
from motion_nodes.core.navigation.planar_geometry import Pose2


class ScriptedBase:
    """Runs in wall time at 50 Hz in its own thread, until ``close``.

    During pauses of its thread it does not move, so old commands have no long effect.
    """

    def __init__(self, controller: str = "/diff_drive_controller") -> None:
        self.odometry = Dead()
        self.silent = False
        """Publish no odometry."""
        self.broken = False
        """Publish odometry that is not finite."""
        self.ahead = 0.0
        """Time by which the stamps of its odometry are ahead [s]."""
        self.stuck = False
        """Do not follow commands."""
        self.map_to_odom: Pose2 | None = None
        """Pose of the odometry frame in the map, by a localization; None: no localization."""
        self.told: list[tuple[float, Twist2]] = []
        """Commands with their times of arrival [s]."""
        self._published = 0
        self._node = Node("test_scripted_base", use_global_arguments=False)
        self._out = self._node.create_publisher(Odometry, f"{controller}/odom", RELIABLE)
        self._tf = self._node.create_publisher(TFMessage, "/tf", RELIABLE)
        self._fixed = self._node.create_publisher(TFMessage, "/tf_static", LATCHED)
        self._node.create_subscription(TwistStamped, f"{controller}/cmd_vel", self._hear, RELIABLE)
        self._fixed.publish(
            self._transforms(("base_link", "camera", Pose2(0.2, 0.0, 0.5 * math.pi)))
        )
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self._node)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scripted base")
        self._thread.start()

    @property
    def pose(self) -> Pose2:
        return Pose2(self.odometry.x, self.odometry.y, self.odometry.yaw)

    @property
    def stands(self) -> bool:
        """Whether the last command is zero."""
        return not self.told or self.told[-1][1] == Twist2()

    def put(self, client: RosClient, x: float, y: float, yaw: float) -> None:
        """Set its pose [m, rad], and wait until it has been published several times."""
        self.odometry.set_pose(x, y, yaw)
        self._told_others(client)

    def localize(self, client: RosClient, map_to_odom: Pose2) -> None:
        """Begin a localization, and wait until it has been published several times."""
        self.map_to_odom = map_to_odom
        self._told_others(client)

    def close(self) -> None:
        """Leave the graph."""
        self._stop.set()
        self._thread.join()
        self._executor.shutdown()
        self._node.destroy_node()

    def _told_others(self, client: RosClient) -> None:
        end = self._published + 5
        client.wait(lambda: self._published >= end, "the base to publish")

    def _hear(self, message: TwistStamped) -> None:
        t = message.twist
        self.told.append((time.monotonic(), Twist2(t.linear.x, t.linear.y, t.angular.z)))

    def _run(self) -> None:
        before = due = time.monotonic()
        while not self._stop.is_set():
            self._executor.spin_once(timeout_sec=max(due - time.monotonic(), 0.0))
            now = time.monotonic()
            if now >= due:
                self._move(now, min(now - before, 0.03))
                before, due = now, max(due + 0.02, now)

    def _move(self, now: float, dt: float) -> None:
        fresh = self.told and now - self.told[-1][0] < 0.5 and not self.stuck
        twist = self.told[-1][1] if fresh else Twist2()
        self.odometry.advance(twist.scaled(dt), dt)
        if not self.silent:
            self._publish()
        if self.map_to_odom is not None:
            self._tf.publish(
                self._transforms(
                    ("map", "odom", self.map_to_odom), ("odom", "base_link", self.pose)
                )
            )
        self._published += 1

    def _publish(self) -> None:
        message, odometry = Odometry(), self.odometry
        now = self._node.get_clock().now() + Duration(seconds=self.ahead)
        message.header.stamp = now.to_msg()
        message.header.frame_id, message.child_frame_id = "odom", "base_link"
        pose, twist = message.pose.pose, message.twist.twist
        pose.position.x = math.nan if self.broken else odometry.x
        pose.position.y = odometry.y
        pose.orientation.z, pose.orientation.w = (
            math.sin(0.5 * odometry.yaw), math.cos(0.5 * odometry.yaw),
        )  # fmt: skip
        twist.linear.x, twist.linear.y, twist.angular.z = odometry.twist
        self._out.publish(message)

    def _transforms(self, *entries: tuple[str, str, Pose2]) -> TFMessage:
        message = TFMessage()
        for parent, child, pose in entries:
            transform = TransformStamped(child_frame_id=child)
            transform.header.frame_id = parent
            transform.header.stamp = self._node.get_clock().now().to_msg()
            value: Any = transform.transform
            value.translation.x, value.translation.y = pose.x, pose.y
            value.rotation.z, value.rotation.w = math.sin(0.5 * pose.yaw), math.cos(0.5 * pose.yaw)
            message.transforms.append(transform)
        return message
