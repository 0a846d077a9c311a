# SPDX-License-Identifier: Apache-2.0
"""Trajectories: joint states as functions of time. No ROS."""
