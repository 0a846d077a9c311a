# SPDX-License-Identifier: Apache-2.0
"""Base poses of a mobile manipulator, and its named places."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from motion_nodes.errors import InvalidConfig
from motion_nodes.typing import Array

AROUND = tuple(sign * math.radians(angle) for angle in range(0, 181, 15) for sign in (1.0, -1.0))
"""Directions from which a point is faced, relative to the closest one [rad]."""
_PLACE = re.compile(r"(?P<name>[^:=]+):=(?P<at>[^:=]+)")


def stand_pose(target: Array, distance: float) -> tuple[float, float, float]:
    """Return a pose that faces a point from a distance, without a detour around it.

    Args:
        target: position of the point in the base frame [m], shape (3,).
        distance: of the base frame from the point; a base that is closer only turns [m].

    Returns:
        x, y [m], yaw [rad] in the base frame.
    """
    x, y = float(target[0]), float(target[1])
    away = math.hypot(x, y)
    yaw = math.atan2(y, x) if away > 0.0 else 0.0
    forward = max(0.0, away - distance)
    return forward * math.cos(yaw), forward * math.sin(yaw), yaw


def stand_poses(target: Array, distance: float) -> Iterator[tuple[float, float, float]]:
    """Return poses that face a point from a distance: the closest one first, then around it.

    Args:
        target: position of the point in the base frame [m], shape (3,).
        distance: of the base frame from the point [m].

    Returns:
        x, y [m], yaw [rad] in the base frame, each.
    """
    yield stand_pose(target, distance)
    x, y = float(target[0]), float(target[1])
    for turn in AROUND:
        yaw = math.atan2(y, x) + turn
        yield x - distance * math.cos(yaw), y - distance * math.sin(yaw), yaw


def parse_places(words: Sequence[str]) -> dict[str, tuple[float, float, float]]:
    """Return named places of ``NAME:=X,Y[,YAW]`` in m and rad.

    Raises:
        InvalidConfig: names the invalid word.
    """
    places: dict[str, tuple[float, float, float]] = {}
    for word in filter(None, words):
        found = _PLACE.fullmatch(word.strip())
        try:
            numbers = [float(x) for x in found["at"].split(",")] if found else []
        except ValueError:
            numbers = []
        if found is None or len(numbers) not in (2, 3) or not all(map(math.isfinite, numbers)):
            raise InvalidConfig(
                f"'{word}' is not a place; write NAME:=X,Y[,YAW], such as kitchen:=2.0,1.5,1.57",
                field="places",
            )
        name = found["name"].strip()
        if name in places:
            raise InvalidConfig(f"two places are named '{name}'", field="places")
        places[name] = (numbers[0], numbers[1], numbers[2] if len(numbers) == 3 else 0.0)
    return places
