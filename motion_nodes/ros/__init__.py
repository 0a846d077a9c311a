# SPDX-License-Identifier: Apache-2.0
"""Adapters between ROS 2 and the core: the only package below ``nodes`` that imports rclpy."""
