# SPDX-License-Identifier: Apache-2.0
"""Geometry of wheeled bases: settings of robot.yaml, of the core and of the nodes."""

from __future__ import annotations

from motion_nodes.model.setting import Setting

WHEEL_RADIUS = Setting(
    doc="Wheel radius; affects the speed and the odometry distance.", unit="m", gt=0.0, le=10.0
)
WHEEL_SEPARATION = Setting(
    doc="Distance between the left and right wheels; affects the yaw rate and the odometry "
    "heading.",
    unit="m",
    gt=0.0,
    le=100.0,
)
WHEELBASE = Setting(
    doc="Distance between front and rear axle; affects the curvature and the odometry heading.",
    unit="m",
    gt=0.0,
    le=100.0,
)
TRACK_WIDTH = Setting(
    doc="Track width of an axle, between the tyre centres.", unit="m", gt=0.0, le=100.0
)
ROLLER_WHEEL_RADIUS = Setting(
    doc="Wheel radius to the outside of the rollers; affects the speed and the odometry distance.",
    unit="m",
    gt=0.0,
    le=10.0,
)
ROLLER_ANGLE = Setting(
    doc="Angle from the wheel axis to the axis of the roller in contact with the floor, "
    "counter-clockwise seen from above: 90 for omni wheels, 45 or 135 for common mecanum wheels.",
    unit="deg",
    ge=-180.0,
    le=180.0,
)
