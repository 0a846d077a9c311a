# SPDX-License-Identifier: Apache-2.0
"""Inverse kinematics: the iterative solve as generated code, and closed forms."""
