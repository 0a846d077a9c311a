# SPDX-License-Identifier: Apache-2.0
"""What a policy is about to do, as it hands it out to others: it never changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from motion_nodes.model.rmpflow_settings import RmpflowSettings
from motion_nodes.model.tree import Array
from motion_nodes.rmpflow.numpy_policy import Goal
from motion_nodes.scene.scene import Scene


@dataclass(frozen=True, eq=False)
class PolicyView:
    """All that a policy's next step depends on."""

    q: Array
    """Positions of all joints, the active ones first, shape (m,)."""
    qd: Array
    """Their velocities, shape (m,)."""
    goal: Goal
    """In the base frame."""
    scene: Scene
    """In the world."""
    twists: Mapping[str, Array]
    """How its objects move in the world."""
    X_WB: Array
    """The robot's base in the world, shape (4, 4)."""
    settings: RmpflowSettings
    """Parameters."""
