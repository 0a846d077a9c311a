# SPDX-License-Identifier: Apache-2.0
"""Spheres of a robot against shapes and each other: distances and gradients as generated code."""
