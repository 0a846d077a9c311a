# SPDX-License-Identifier: Apache-2.0
"""What a robot is: its tree, limits, groups, drives and kinematics, read from URDF and YAML."""
