# SPDX-License-Identifier: Apache-2.0
"""Parameters of the base navigator about obstacles."""

from __future__ import annotations

import dataclasses

from motion_nodes.base_navigation.clearance_guard import GuardConfig
from motion_nodes.base_navigation.detour_search import DetourConfig
from motion_nodes.base_navigation.obstacle_avoidance import AvoidanceConfig
from motion_nodes.base_navigation.obstacle_memory import MemoryConfig
from motion_nodes.ros.parameters import core_param, core_params, param
from motion_nodes.ros.robot_node import RobotParams

MODES = ("auto", "required", "off")
POLICIES = ("hold", "ignore")


@dataclasses.dataclass(frozen=True, kw_only=True)
@core_params(GuardConfig, "obstacles")
@core_params(AvoidanceConfig, "obstacles")
@core_params(DetourConfig, "obstacles")
@core_params(MemoryConfig, "obstacles")
class ObstacleParams(RobotParams):
    """Sensors, and the reaction to obstacles."""

    obstacles_mode: str = param(
        "auto", name="obstacles.mode",
        doc="Obstacles stop the base: auto (as soon as a sensor has a publisher), required (the "
        "base does not move without sensors), off (they are not considered).",
        one_of=MODES,
    )  # fmt: skip
    obstacles_scan_topics: tuple[str, ...] = param(
        ("scan",), name="obstacles.scan_topics",
        doc="Topics of laser scans (sensor_msgs/LaserScan).", read_only=True,
    )  # fmt: skip
    obstacles_cloud_topics: tuple[str, ...] = param(
        (), name="obstacles.cloud_topics",
        doc="Topics of point clouds (sensor_msgs/PointCloud2).", read_only=True,
    )  # fmt: skip
    obstacles_sensor_poses: tuple[float, ...] = param(
        (), name="obstacles.sensor_poses",
        doc="Poses of the sensors in the base frame, x, y, z, roll, pitch, yaw of each, scans "
        "first; empty: from /tf, by the frames of the messages.",
        unit="m, rad", ge=-100.0, le=100.0, read_only=True,
    )  # fmt: skip
    obstacles_obstacle_timeout: float = core_param(
        AvoidanceConfig, "obstacle_timeout", name="obstacles.timeout"
    )
    obstacles_reach: float = core_param(MemoryConfig, "reach", name="obstacles.range")
    obstacles_min_height: float = param(
        0.03, name="obstacles.min_height",
        doc="Height above the floor from which points are obstacles, up to the height of the base; "
        "a horizontal scanner outside this range detects obstacles at its own height.",
        unit="m", ge=-10.0, le=10.0,
    )  # fmt: skip
    obstacles_sensor_timeout: float = param(
        1.0, name="obstacles.sensor_timeout",
        doc="Time without a valid message after which a sensor counts as silent; older messages "
        "are dropped.", unit="s", gt=0.0, le=60.0,
    )  # fmt: skip
    obstacles_sensor_silent: str = param(
        "hold", name="obstacles.sensor_silent",
        doc="If a sensor is silent: hold (the base stops and waits), or ignore (it continues with "
        "the stored obstacles).",
        one_of=POLICIES,
    )  # fmt: skip
    footprint: tuple[float, ...] = param(
        (), doc="Corners of the base's outline on the floor in the base frame, x and y of each; "
        "empty: base.footprint of robot.yaml, or the outline of the collision geometry.",
        unit="m", ge=-100.0, le=100.0,
    )  # fmt: skip
