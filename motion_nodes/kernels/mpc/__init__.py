# SPDX-License-Identifier: Apache-2.0
"""Rollouts of the reactive MPC: sampled motions and their costs, as generated code."""
