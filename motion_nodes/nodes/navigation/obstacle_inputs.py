# SPDX-License-Identifier: Apache-2.0
"""Sensor inputs of the base navigator: laser scans and point clouds to an obstacle memory."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from sensor_msgs.msg import LaserScan, PointCloud2

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.navigation.footprint import Footprint
from motion_nodes.core.navigation.obstacle_avoidance import SeenObstacles
from motion_nodes.core.navigation.obstacle_memory import (
    LaserReadings,
    MemoryConfig,
    ObstacleMemory,
    PoseHistory,
    SensorView,
    view_of_cloud,
    view_of_scan,
)
from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.errors import InvalidCommand, InvalidConfig, MotionError
from motion_nodes.nodes.navigation.navigator_params import NavigatorParams
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.joint_topics import stamp_ns
from motion_nodes.ros.messages.camera_messages import points_of
from motion_nodes.ros.node import MotionNode
from motion_nodes.ros.parameters import settings_from
from motion_nodes.ros.transforms import TransformTree
from motion_nodes.typing import Array

MOST_POINTS = 20_000
"""Max number of points of a cloud; of larger ones every n-th is used."""
AHEAD = 0.3
"""Max time by which a stamp may be ahead of ROS time [s]."""
LATE_ODOMETRY = 0.04
"""Max time by which odometry may be older than a message [s]."""
TRANSFORM_AGE = 0.3
"""Max difference between the stamps of a message and of a moving transform [s]."""
PUBLISHER_CHECK = 0.2
"""Period at which the publishers of a sensor without messages are checked [s]."""
OVER_BODY = 0.02
"""Height above the base below which points are obstacles [m]."""


@dataclass(eq=False)
class _Sensor:
    subscription: Any
    laser: bool
    X_BS: Array | None
    present: bool = False
    """Whether it has ever had a publisher."""
    pending: Any = None
    received: float = 0.0
    seen_at: int | None = None
    """Stamp of the last valid message [ns]."""
    fault: str = ""
    """Why the last message was dropped; empty if it was used."""
    points: int = 0
    own: int = 0
    checked: float = -1.0


class ObstacleInputs:
    """Reads the sensors and stores obstacles in the odometry frame; in the loop."""

    def __init__(self, node: MotionNode[Any], tree: TransformTree, footprint: Footprint) -> None:
        """Subscribe to the topics of the parameters.

        Raises:
            InvalidConfig: the poses of the sensors do not match their number.
        """
        self._node, self._tree, self._footprint = node, tree, footprint
        params: NavigatorParams = node.params
        topics = [(topic, True) for topic in params.obstacles_scan_topics if topic]
        topics += [(topic, False) for topic in params.obstacles_cloud_topics if topic]
        poses = sensor_poses(params)
        self._sensors = [
            _Sensor(node.poll(LaserScan if laser else PointCloud2, topic), laser, X_BS)
            for (topic, laser), X_BS in zip(topics, poses, strict=True)
        ]
        self.history = PoseHistory()
        """Poses of the odometry."""
        self.memory = ObstacleMemory(footprint, settings_from(params, MemoryConfig, "obstacles_"))
        """Obstacle memory."""

    @property
    def present(self) -> bool:
        """Whether a sensor has ever had a publisher."""
        return any(sensor.present for sensor in self._sensors)

    def reconfigure(self, footprint: Footprint) -> None:
        """Apply new parameters; stored obstacles are kept."""
        self._footprint = footprint
        config = settings_from(self._node.params, MemoryConfig, "obstacles_")
        self.memory.reconfigure(footprint, config)

    def forget(self) -> None:
        """Clear obstacles and poses after a jump of time or odometry."""
        self.history.clear()
        self.memory.clear()
        for sensor in self._sensors:
            sensor.pending = sensor.seen_at = None

    def moved(self, time: float, pose: Pose2, twist: Twist2) -> None:
        """Add a pose of the odometry at a time [s]; a jump clears the memory."""
        if self.history.add(time, pose, twist):
            self.forget()
            self.history.add(time, pose, twist)

    def update(self, base_frame: str) -> None:
        """Read the newest messages."""
        params: NavigatorParams = self._node.params
        if params.obstacles_mode == "off":
            return
        now = time.monotonic()
        for number, sensor in enumerate(self._sensors):
            message = sensor.subscription.newest()
            if message is not None:
                sensor.pending, sensor.received, sensor.present = message, now, True
            elif now - max(sensor.checked, sensor.received) > PUBLISHER_CHECK:
                sensor.checked = now
                sensor.present = sensor.present or sensor.subscription.publishers > 0
                if not sensor.laser:
                    sensor.subscription.match_publishers()
            if sensor.pending is not None:
                self._read(number, sensor, base_frame)
        self.memory.age(1e-9 * self._node.now_ns())

    def surroundings(self, pose: Pose2, frame: str) -> SeenObstacles | None:
        """Return the known obstacles; None without sensors.

        Args:
            pose: of the base in the odometry frame.
            frame: name of the goal's frame, for messages.
        """
        params: NavigatorParams = self._node.params
        mode = params.obstacles_mode
        if mode == "off" or (mode == "auto" and not self.present):
            return None
        if not self._sensors:
            hold = "there are no obstacle sensors (obstacles.scan_topics), and they are required"
        else:
            faults = map(self._silent, self._sensors)
            hold = next(filter(None, faults), "")
        if params.obstacles_sensor_silent == "ignore" and mode != "required":
            hold = ""
        return SeenObstacles(self.memory.around(pose), hold, frame)

    def diagnose(self, report: Report) -> None:
        """Report the sensors and the obstacles."""
        params: NavigatorParams = self._node.params
        if params.obstacles_mode == "off":
            report.value("obstacles", "off")
            return
        present = [s for s in self._sensors if s.present or params.obstacles_mode == "required"]
        if not present:
            report.value("obstacles", "no sensor: drives on an empty plane")
            return
        report.value("obstacle points", len(self.memory))
        for sensor in present:
            topic = sensor.subscription.topic
            silent = self._silent(sensor)
            if silent:
                report.note("WARN", silent)
            own = f", {sensor.own} on the base itself" if sensor.own else ""
            report.value(topic, silent or f"{sensor.points} points{own}")

    # ---- inside

    def _silent(self, sensor: _Sensor) -> str:
        """Return why a sensor provides no current data; empty if it does."""
        params: NavigatorParams = self._node.params
        if not sensor.present and params.obstacles_mode != "required":
            return ""
        topic, why = sensor.subscription.topic, f": {sensor.fault}" if sensor.fault else ""
        if sensor.seen_at is None:
            return f"no valid message on {topic} yet{why}"
        age = 1e-9 * (self._node.now_ns() - sensor.seen_at)
        if age > params.obstacles_sensor_timeout:
            return f"no valid message on {topic} for {age:.1f} s{why}"
        return ""

    def _read(self, number: int, sensor: _Sensor, base_frame: str) -> None:
        message, waited = sensor.pending, time.monotonic() - sensor.received
        now = self._node.now_ns()
        stamp = stamp_ns(message) or now
        duration = self._duration(message) if sensor.laser else 0.0
        end = 1e-9 * stamp + duration
        if end - self.history.newest > LATE_ODOMETRY and waited < LATE_ODOMETRY:
            return
        sensor.pending = None
        try:
            self._check_stamp(1e-9 * (now - stamp))
            X_BS = sensor.X_BS
            if X_BS is None:
                X_BS = self._pose_of(message, stamp, base_frame)
            pose = Pose2(*self.history.at(end)[0].tolist())
            view = self._view(sensor, message, X_BS, 1e-9 * stamp, duration)
            view = self.memory.add(view, pose, end, number)
        except (MotionError, ValueError, OverflowError) as error:
            sensor.fault = str(error)
            topic = sensor.subscription.topic
            self._node.warn(f"sensor {topic}", f"message on {topic} dropped: {error}")
            return
        sensor.fault, sensor.seen_at = "", stamp
        sensor.points, sensor.own = len(view.points), view.own

    def _check_stamp(self, age: float) -> None:
        limit = self._node.params.obstacles_sensor_timeout
        if age > limit:
            raise InvalidCommand(
                f"it is {age:.1f} s old by its stamp; allowed is obstacles.sensor_timeout, "
                f"{limit:g} s (does its sender use another use_sim_time?)"
            )
        if age < -AHEAD:
            raise InvalidCommand(
                f"its stamp is {-age:.1f} s in the future (does its sender use another "
                "use_sim_time?)"
            )

    def _pose_of(self, message: Any, stamp: int, base_frame: str) -> Array:
        """Return the pose of a message's frame in the base frame."""
        frame = str(message.header.frame_id).lstrip("/")
        if not frame:
            raise InvalidCommand("it has no frame_id")
        if frame == base_frame:
            return np.eye(4)
        self._tree.update()
        X_BS, at = self._tree.pose(base_frame, frame)
        if at is not None and abs(1e-9 * (stamp - at)) > TRANSFORM_AGE:
            raise InvalidCommand(
                f"the transform from '{base_frame}' to '{frame}' differs by "
                f"{1e-9 * abs(stamp - at):.1f} s"
            )
        return X_BS

    def _duration(self, message: Any) -> float:
        """Return the time from the first to the last reading of a scan [s]."""
        each = float(message.time_increment)
        total = each * (len(message.ranges) - 1)
        return total if 0.0 < total <= 1.0 else 0.0

    def _view(
        self, sensor: _Sensor, message: Any, X_BS: Array, begin: float, duration: float
    ) -> SensorView:
        footprint, reach = self._footprint, self.memory.config.reach
        low = footprint.floor + self._node.params.obstacles_min_height
        high = footprint.top + OVER_BODY
        if not sensor.laser:
            points = points_of(message)
            step = -(-len(points) // MOST_POINTS) or 1
            return view_of_cloud(points[::step], X_BS, low, high, reach)
        readings = LaserReadings(
            ranges=np.asarray(message.ranges, np.float32),
            angle_min=float(message.angle_min),
            angle_increment=float(message.angle_increment),
            range_min=float(message.range_min),
            range_max=float(message.range_max),
        )
        if duration > 0.0:
            count = len(readings.ranges)
            X_BS = self.history.sensor_poses(X_BS, begin, duration, count)
        return view_of_scan(readings, X_BS, low, high, reach)


def sensor_poses(params: NavigatorParams) -> list[Array | None]:
    """Return the poses of the sensors in the base frame; None: from /tf.

    Raises:
        InvalidConfig: there are not six numbers for each sensor.
    """
    topics = [*params.obstacles_scan_topics, *params.obstacles_cloud_topics]
    count, numbers = len([topic for topic in topics if topic]), params.obstacles_sensor_poses
    if not numbers:
        return [None] * count
    if len(numbers) != 6 * count:
        raise InvalidConfig(
            f"obstacles.sensor_poses has {len(numbers)} numbers; {count} sensors need "
            f"{6 * count}: x, y, z, roll, pitch, yaw of each",
            field="obstacles.sensor_poses",
        )
    rows = np.array(numbers, np.float64).reshape(-1, 6)
    return [from_xyz_rpy(tuple(row[:3]), tuple(row[3:])) for row in rows.tolist()]
