# SPDX-License-Identifier: Apache-2.0
"""Robot model: tree, limits, groups, drives and kinematics, read from URDF and YAML."""
