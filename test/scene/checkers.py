# SPDX-License-Identifier: Apache-2.0
"""Checkers and configurations for the tests of collision checks."""

import numpy as np
from scene.numpy_checker import NumpyChecker

from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.typing import Array

NEAR = 1e-5
"""Distances below this one may be judged either way in float32 [m]."""


def pair(robot: Robot, joints: str | None = "arm", **settings: object) -> list[CollisionChecker]:
    """Return a checker with generated code and one without."""
    return [kind(robot, joints, **settings) for kind in (CollisionChecker, NumpyChecker)]  # type: ignore[arg-type]


def configurations(
    checker: CollisionChecker, count: int, seed: int | np.random.Generator = 0
) -> Array:
    """Return random configurations within limits and (-pi, pi), shape (count, n)."""
    rng = np.random.default_rng(seed)
    low = np.maximum(checker.limits.lower, -np.pi)
    high = np.minimum(checker.limits.upper, np.pi)
    return rng.uniform(low, high, (count, len(low)))
