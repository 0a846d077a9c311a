# SPDX-License-Identifier: Apache-2.0
"""How a wheeled base gets to a pose or along a path: plans, laws, checks. No ROS."""
