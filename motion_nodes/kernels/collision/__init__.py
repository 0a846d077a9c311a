# SPDX-License-Identifier: Apache-2.0
"""Collision checks and distances: of spheres as generated code, of convex pieces with Numba."""
