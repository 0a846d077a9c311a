# SPDX-License-Identifier: Apache-2.0
"""The motion itself, without ROS: robots, scenes, inverse kinematics, planning, control."""
