# SPDX-License-Identifier: Apache-2.0
"""Time-optimal path parameterization, and jerk-limited motion."""
