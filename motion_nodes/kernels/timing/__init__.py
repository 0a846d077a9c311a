# SPDX-License-Identifier: Apache-2.0
"""Time-optimal timing of paths, and jerk-limited motion."""
