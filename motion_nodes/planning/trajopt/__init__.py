# SPDX-License-Identifier: Apache-2.0
"""Trajectory optimization: a first path becomes a short-time, smooth, collision-free curve."""
