# SPDX-License-Identifier: Apache-2.0
"""The nodes: each joins a core object to ROS endpoints and contains no formula.

A file here is an executable, or what several of them share; a folder holds the parts of one.
"""
