# SPDX-License-Identifier: Apache-2.0
"""The world around a robot: shapes, objects, who may touch whom, and what collides."""
