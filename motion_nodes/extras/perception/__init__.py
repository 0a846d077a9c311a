# SPDX-License-Identifier: Apache-2.0
"""Perception: occupancy maps from depth cameras and laser scanners, distance fields."""
