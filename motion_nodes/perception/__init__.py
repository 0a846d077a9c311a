# SPDX-License-Identifier: Apache-2.0
"""What sensors see: occupancy maps from depth cameras and laser scanners, distance fields."""
