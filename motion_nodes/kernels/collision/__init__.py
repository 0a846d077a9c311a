# SPDX-License-Identifier: Apache-2.0
"""Collision checks and distances of a robot's spheres, as generated code."""
