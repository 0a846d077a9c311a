# SPDX-License-Identifier: Apache-2.0
"""Dynamixel servos of the X series: OpenManipulator-X and home-made arms."""
