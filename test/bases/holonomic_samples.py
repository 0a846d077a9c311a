# SPDX-License-Identifier: Apache-2.0
"""Holonomic bases for tests: the Kaya of Isaac Sim's example, a mecanum base, random ones."""

import math

import numpy as np

from motion_nodes.core.bases.holonomic import HolonomicConfig, HolonomicWheel, wheels_from_arrays

KAYA_RADIUS = 0.04
KAYA_POSITIONS = (
    (-0.0980432, 0.000636773, -0.050501),
    (0.0493475, -0.084525, -0.050501),
    (0.0495291, 0.0856937, -0.050501),
)
KAYA_ORIENTATIONS = ((0.0, 0.0, 1.0, 0.0), (0.0, 0.0, -0.5, 0.866), (0.0, 0.0, 0.5, 0.866))
"""Scalar last."""


def kaya(*, left_handed: bool = True) -> HolonomicConfig:
    """Return the Kaya; its golden numbers are those of the left-handed one."""
    wheels = wheels_from_arrays(KAYA_RADIUS, KAYA_POSITIONS, KAYA_ORIENTATIONS)
    return HolonomicConfig(wheels=wheels, left_handed=left_handed)


def mecanum() -> HolonomicConfig:
    """Return four mecanum wheels: front left, front right, rear left, rear right."""
    corners = ((0.2, 0.15, 45.0), (0.2, -0.15, 135.0), (-0.2, 0.15, 135.0), (-0.2, -0.15, 45.0))
    return HolonomicConfig(
        wheels=tuple(
            HolonomicWheel(
                name=name, radius=0.1, x=x, y=y, axis_yaw=0.5 * math.pi, roller_angle_deg=angle
            )
            for name, (x, y, angle) in zip(("fl", "fr", "rl", "rr"), corners, strict=True)
        )
    )


def random_config(rng: np.random.Generator) -> HolonomicConfig:
    """Return three to eight wheels with any places, axes, radii and roller angles."""
    n = int(rng.integers(3, 9))
    return HolonomicConfig(
        wheels=tuple(
            HolonomicWheel(
                name=f"wheel_{i}",
                radius=float(rng.uniform(0.02, 0.5)),
                x=float(rng.uniform(-2.0, 2.0)),
                y=float(rng.uniform(-2.0, 2.0)),
                axis_yaw=float(rng.uniform(-math.pi, math.pi)),
                roller_angle_deg=float(rng.choice((-1.0, 1.0)) * rng.uniform(10.0, 170.0)),
            )
            for i in range(n)
        ),
        left_handed=bool(rng.integers(2)),
    )
