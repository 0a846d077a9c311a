# SPDX-License-Identifier: Apache-2.0
"""The world around a robot: shapes, objects, allowed collisions, and collision checks."""
