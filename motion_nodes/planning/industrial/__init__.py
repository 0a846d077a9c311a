# SPDX-License-Identifier: Apache-2.0
"""Motions of industrial robots: point to point, straight lines, arcs, and blended sequences."""
