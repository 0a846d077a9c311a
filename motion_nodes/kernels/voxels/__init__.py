# SPDX-License-Identifier: Apache-2.0
"""Occupancy grids: points and rays of sensors, distance fields."""
