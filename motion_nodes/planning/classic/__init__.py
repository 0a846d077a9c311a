# SPDX-License-Identifier: Apache-2.0
"""Alternatives to the default planner: RRT, RRT*, and RRT in task space."""
