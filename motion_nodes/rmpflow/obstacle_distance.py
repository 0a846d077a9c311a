# SPDX-License-Identifier: Apache-2.0
"""Distance of one moving point from all obstacles, in plain NumPy.

Distances and directions are those of :mod:`motion_nodes.scene.signed_distance`; the curvature is
taken from directions nearby, so nothing here shares a formula with the generated code.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from motion_nodes.kernels.rmp_memory import Obstacles
from motion_nodes.model.tree import Array, Box, Cylinder
from motion_nodes.scene.shapes import Cone
from motion_nodes.scene.signed_distance import signed_distance

_STEP = 1e-5  # [m]


@dataclass(frozen=True, eq=False)
class Distances:
    """Of a point to k obstacles."""

    value: Array
    """Signed distance [m], shape (k,)."""
    direction: Array
    """Unit vectors away from them, shape (k, 3)."""
    rate: Array
    """Derivative of the distance by time [m/s], shape (k,)."""
    curvature: Array
    """v^T H v with H the second derivative of the distance; 0 inside [m/s^2], shape (k,)."""


def distances(obstacles: Obstacles, p: Array, v: Array) -> Distances:
    """Return distances of a point at p [m] that moves with v [m/s] from all obstacles."""
    boxes = [_one(row, p, v, _box(row), row[16:22], row[15]) for row in obstacles.boxes]
    rounds = [_one(row, p, v, _round(row), row[20:26], 0.0) for row in obstacles.rounds]
    found = boxes + rounds
    return Distances(
        np.array([f[0] for f in found]),
        np.array([f[1] for f in found]).reshape(-1, 3),
        np.array([f[2] for f in found]),
        np.array([f[3] for f in found]),
    )


def _box(row: Array) -> Box:
    x, y, z = 2.0 * row[12:15]
    return Box((x, y, z))


def _round(row: Array) -> Cylinder | Cone:
    half, below, above = row[12:15]
    return Cylinder(below, 2.0 * half) if above > 0.0 else Cone(below, 2.0 * half)


def _one(
    row: Array, p: Array, v: Array, solid: Box | Cylinder | Cone, twist: Array, rounding: float
) -> tuple[float, Array, float, float]:
    R, offset = row[:9].reshape(3, 3), p - row[9:12]
    relative = v - (twist[:3] + np.cross(twist[3:], offset))
    local, u = R.T @ offset, R.T @ relative
    speed = float(np.linalg.norm(u))
    step = _STEP * u / speed if speed > 0.0 else np.zeros(3)
    value, direction = signed_distance(solid, np.array([local, local - step, local + step]))
    bend = float((direction[2] - direction[1]) @ u) * speed / (2.0 * _STEP) if speed > 0.0 else 0.0
    rate = float(direction[0] @ u)
    curvature = bend if value[0] > 0.0 else 0.0
    return float(value[0]) - rounding, R @ direction[0], rate, curvature
