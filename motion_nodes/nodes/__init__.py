# SPDX-License-Identifier: Apache-2.0
"""Nodes: each connects objects of the core to ROS endpoints and contains no formula.

Files in this folder are the executables and their common bases; each folder has the parts of one.
"""
