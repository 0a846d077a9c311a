# SPDX-License-Identifier: Apache-2.0
"""Path sections without a stop: no sharp corner, no change of direction."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from motion_nodes.base_navigation.planar_path import SPACING, PlanarPath
from motion_nodes.bases.odometry import wrap_angle

CORNER = 1.0
"""Min change of direction of a corner, where a base stops and turns on the spot [rad]."""


@dataclass(frozen=True, eq=False)
class Section:
    """One section of a path, densely sampled."""

    path: PlanarPath
    backward: bool
    """Whether the base drives in reverse."""


def facing(direction: float, backward: bool) -> float:
    """Return the heading [rad] of a base that travels in a direction, forward or in reverse."""
    return wrap_angle(direction + math.pi) if backward else wrap_angle(direction)


def sections_of(
    path: PlanarPath, *, corner: float = CORNER, reversing: bool = False
) -> tuple[Section, ...]:
    """Split a path where a base must stop.

    Args:
        path: any path.
        corner: min change of direction that ends a section [rad]; infinity: never.
        reversing: drive sections in reverse if their poses face against the direction of travel;
            otherwise headings are ignored.
    """
    n = len(path)
    backward = np.zeros(n - 1, dtype=bool)
    if reversing:
        segment = np.diff(path.xy, axis=0)
        heading = 0.5 * (path.yaw[:-1] + path.yaw[1:])
        backward = np.cos(heading) * segment[:, 0] + np.sin(heading) * segment[:, 1] < 0.0
    sharp = np.abs(path.turns) > corner
    ends = [*(np.flatnonzero(sharp | (backward[1:] != backward[:-1])) + 1).tolist(), n - 1]
    starts = [0, *ends[:-1]]
    return tuple(
        Section(path.slice(a, b).resampled(SPACING), bool(backward[a]))
        for a, b in zip(starts, ends, strict=True)
    )
