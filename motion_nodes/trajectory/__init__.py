# SPDX-License-Identifier: Apache-2.0
"""Trajectories: how joints get from one state to another in time. No ROS."""
