# SPDX-License-Identifier: Apache-2.0
"""URDF to trees of links and joints, and back."""
