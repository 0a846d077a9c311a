# SPDX-License-Identifier: Apache-2.0
"""Drivers of real robots, and the rules common to all of them; without ROS."""
