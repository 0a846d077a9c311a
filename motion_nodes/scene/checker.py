# SPDX-License-Identifier: Apache-2.0
"""Whether a robot collides: with itself, with what stands around it, with what it carries."""

from __future__ import annotations


class CollisionChecker:
    """Placeholder of the seam; see the brief."""
