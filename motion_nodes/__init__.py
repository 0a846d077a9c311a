# SPDX-License-Identifier: Apache-2.0
"""motion_nodes: joint control, wheeled bases, kinematics and simulation for ROS 2."""

__version__ = "0.1.0"
