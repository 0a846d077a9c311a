# SPDX-License-Identifier: Apache-2.0
"""Names of nodes and topics, as clients of ros2_controllers and MoveIt expect them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from motion_nodes.core.robot.robot_yaml import controller_name

if TYPE_CHECKING:
    from motion_nodes.core.robot.robot import Robot

JOINT_CONTROLLER = "joint_trajectory_controller"
"""Controller of joints: trajectories, streams, commands."""

IMPEDANCE_CONTROLLER = "cartesian_impedance_controller"
"""Impedance control of an arm's tool, a mode of the controller of joints."""

IMPEDANCE_GROUP = "arm"
"""Default group of that arm."""

BASE_CONTROLLERS = {
    "differential": "diff_drive_controller",
    "holonomic": "mecanum_drive_controller",
    "ackermann": "ackermann_steering_controller",
}
"""Controller of wheeled bases, by kind of robot, unless its description names another one."""


BASE_CONTROLLER_DOC = "Name of the controller of the base; empty: that of the robot's description."
"""Description of the parameter ``base_controller``."""


def base_controller(robot: Robot) -> str:
    """Return the name of the controller of a robot's base.

    Args:
        robot: a robot with a wheeled base.
    """
    assert robot.base is not None
    return controller_name(robot.kind, robot.base)


BASE_NAVIGATOR = "base_navigator"
"""Drives a wheeled base to poses and along paths."""

PLANNER = "move_group"
"""Plans and executes motions, and owns the planning scene."""

REACTIVE_POLICY = "rmpflow_policy"
"""Moves an arm to targets around moving obstacles."""

OCCUPANCY_MAPPER = "occupancy_mapper"
"""Builds the octomap of a robot's planning scene from its cameras."""

OBJECT_DETECTOR = "object_detector"
"""Detects objects in the images of a robot's cameras, for its tasks."""

OCTOMAP_CLEARED = "octomap_cleared"
"""Published when a client clears the octomap of a planning scene."""

TASK_SERVER = "task_server"
"""Plans and executes tasks of an arm."""

POLICY_CONTROLLER = "policy_controller"
"""Runs a learned policy on all joints of a robot."""

CONTROLLER_MANAGER = "controller_manager"
"""Lists and switches a robot's controllers."""

STATE_BROADCASTER = "joint_state_broadcaster"
"""Controller that the controller manager lists for ``joint_states``; it has no node."""

CONTROLLER_TYPES = {
    JOINT_CONTROLLER: "joint_trajectory_controller/JointTrajectoryController",
    IMPEDANCE_CONTROLLER: "cartesian_impedance_controller/CartesianImpedanceController",
    "diff_drive_controller": "diff_drive_controller/DiffDriveController",
    "mecanum_drive_controller": "mecanum_drive_controller/MecanumDriveController",
    "omni_wheel_drive_controller": "omni_wheel_drive_controller/OmniWheelDriveController",
    "ackermann_steering_controller": "ackermann_steering_controller/AckermannSteeringController",
    "bicycle_steering_controller": "bicycle_steering_controller/BicycleSteeringController",
    "tricycle_steering_controller": "tricycle_steering_controller/TricycleSteeringController",
    "tricycle_controller": "tricycle_controller/TricycleController",
    STATE_BROADCASTER: "joint_state_broadcaster/JointStateBroadcaster",
}
"""Type of ros2_controllers that each controller replaces."""

SURFACE_GRIPPER = "surface_gripper"
"""Surface (suction) gripper of an arm in simulation."""

STOP_TOPIC = "/stop"
"""A message stops all robots of the suite until a resume."""

STOP_STATE_TOPIC = "/stop_state"
"""Each node's copy of the stop."""

PREEMPTED = "preempted "
"""Prefix of keys in ~/status of a joint controller, followed by the preempted sender; the value is
the new command."""
CONTACT = "stopped by contact"
"""Key in ~/status of a joint controller while a contact has stopped the joints; the value is its
description."""
BLOCKED = "blocked"
"""Contained in that value if a contact stopped the joints."""


def under(namespace: str, name: str) -> str:
    """Return a relative name under a namespace, which may be empty."""
    return f"{namespace}/{name}" if namespace else name
