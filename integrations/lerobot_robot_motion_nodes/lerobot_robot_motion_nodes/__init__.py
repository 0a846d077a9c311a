# SPDX-License-Identifier: Apache-2.0
"""Arms of a running motion_nodes suite for LeRobot; importing it registers the robot's type."""

from .config_motion_nodes_arm import MotionNodesArmConfig
from .motion_nodes_arm import MotionNodesArm

__all__ = ["MotionNodesArm", "MotionNodesArmConfig"]
