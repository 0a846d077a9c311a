# SPDX-License-Identifier: Apache-2.0
"""Immutable snapshot of a policy's inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from motion_nodes.model.rmpflow_settings import RmpflowSettings
from motion_nodes.rmpflow.numpy_policy import Goal
from motion_nodes.scene.scene import Scene
from motion_nodes.typing import Array


@dataclass(frozen=True, eq=False)
class PolicyView:
    """All inputs of a policy's next step."""

    q: Array
    """Positions of all joints, the active ones first [rad or m], shape (m,)."""
    qd: Array
    """Velocities of all joints [rad/s or m/s], shape (m,)."""
    goal: Goal
    """Goal of the policy, in the base frame."""
    scene: Scene
    """Obstacles and attached bodies, in the world."""
    twists: Mapping[str, Array]
    """Twists of its objects in the world, shape (6,) each."""
    X_WB: Array
    """Pose of the robot's base in the world, shape (4, 4)."""
    settings: RmpflowSettings
    """Parameters."""
