# SPDX-License-Identifier: Apache-2.0
"""Wheeled bases: body twist to wheel speeds and back, limits, odometry. No ROS."""
