# SPDX-License-Identifier: Apache-2.0
"""Occupancy grids: views of depth sensors, distance fields."""
