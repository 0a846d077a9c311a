# SPDX-License-Identifier: Apache-2.0
"""Planners beside the default one: RRT, RRT*, and the RRT in task space."""
