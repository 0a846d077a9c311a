# SPDX-License-Identifier: Apache-2.0
"""Inverse kinematics: the iterative solver as generated code, and closed-form solutions."""
