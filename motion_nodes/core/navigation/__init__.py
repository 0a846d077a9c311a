# SPDX-License-Identifier: Apache-2.0
"""Navigation of wheeled bases to a pose or along a path: planners, controllers, checks. No ROS."""
