# SPDX-License-Identifier: Apache-2.0
"""Impedance and force control of arms, and estimation of external wrenches. No ROS."""
