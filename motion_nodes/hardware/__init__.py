# SPDX-License-Identifier: Apache-2.0
"""Drivers of real robots, and the rules that all of them obey; without ROS."""
