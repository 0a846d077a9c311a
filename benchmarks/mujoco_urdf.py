# SPDX-License-Identifier: Apache-2.0
"""URDFs for MuJoCo's importer, which looks for mesh files in one folder."""

from __future__ import annotations

import re


def without_shapes(urdf: str) -> str:
    """Return a URDF without collision elements: kinematics and dynamics need none."""
    return re.sub(r"<collision>.*?</collision>", "", urdf, flags=re.DOTALL)
