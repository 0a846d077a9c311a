# SPDX-License-Identifier: Apache-2.0
"""Configuration of the robot; LeRobot's commands take each field as ``--robot.FIELD``."""

from __future__ import annotations

from dataclasses import dataclass, field

from lerobot.cameras import CameraConfig
from lerobot.robots import RobotConfig


@RobotConfig.register_subclass("motion_nodes_arm")
@dataclass(kw_only=True)
class MotionNodesArmConfig(RobotConfig):
    """An arm of a running suite."""

    robot: str
    """Name of a shipped robot, or its folder."""
    namespace: str = ""
    """Namespace of the robot in the suite."""
    group: str = "arm"
    """Joint group that is moved."""
    fingers: bool = True
    """Also read and move the joints of the group ``gripper``, if there is one."""
    degrees: bool = False
    """Angles in degrees, as policies of LeRobot's own arms may have them; else in rad."""
    fps: float = 30.0
    """Rate of the actions [Hz]; at least 10."""
    speed: float = 1.0
    """Fraction of the velocity limits that may be used; lower it for first runs."""
    check_collisions: bool = True
    """Ask the suite whether the way of each action is free of collisions; else only limits hold."""
    check_timeout: float = 0.1
    """Max time for these answers [s]; without them the arm holds."""
    connect_timeout: float = 30.0
    """Max time to wait for the suite [s]."""
    cameras: dict[str, CameraConfig] = field(default_factory=dict)
    """LeRobot's cameras, by name."""
