# SPDX-License-Identifier: Apache-2.0
"""URDF: reading, validation and parts for groups."""
