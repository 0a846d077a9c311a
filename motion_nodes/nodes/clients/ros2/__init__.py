# SPDX-License-Identifier: Apache-2.0
"""``motion ros``: the verbs of ros2cli as a client of rclpy, for environments without ros2cli."""
