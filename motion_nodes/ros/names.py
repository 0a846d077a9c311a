# SPDX-License-Identifier: Apache-2.0
"""Node names that clients of ros2_controllers and MoveIt expect, each in one place."""

from __future__ import annotations

JOINT_CONTROLLER = "joint_trajectory_controller"
"""The articulation controller."""

BASE_CONTROLLERS = {
    "differential": "diff_drive_controller",
    "holonomic": "mecanum_drive_controller",
    "ackermann": "ackermann_steering_controller",
}
"""The base controller of each kind of robot."""

BASE_NAVIGATOR = "base_navigator"
"""Moves a wheeled robot to poses and along paths."""

PLANNER = "move_group"
"""Plans motions, keeps the scene, and carries plans out."""

REACTIVE_POLICY = "rmpflow_policy"
"""Leads an arm to targets, around what moves."""

CONTROLLER_MANAGER = "controller_manager"
"""The node that lists and switches a robot's controllers."""

CONTROLLER_TYPES = {
    JOINT_CONTROLLER: "joint_trajectory_controller/JointTrajectoryController",
    "diff_drive_controller": "diff_drive_controller/DiffDriveController",
    "mecanum_drive_controller": "mecanum_drive_controller/MecanumDriveController",
    "ackermann_steering_controller": "ackermann_steering_controller/AckermannSteeringController",
}
"""The type of ros2_controllers that each controller stands in for."""


STOP_TOPIC = "/stop"
"""A message on it stops all robots of the suite, until a resume."""

STOP_STATE_TOPIC = "/stop_state"
"""What each node knows of the stop."""


def under(namespace: str, name: str) -> str:
    """Return a relative name under a namespace, which may be empty."""
    return f"{namespace}/{name}" if namespace else name
