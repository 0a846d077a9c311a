# SPDX-License-Identifier: Apache-2.0
"""Estimates the twists of obstacles from successive scenes.

Without them, a policy that retreats from a moving obstacle mistakes its own retreat for safety, and
stops again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from motion_nodes.model.rotation_vectors import rotation_vector
from motion_nodes.model.tree import Array
from motion_nodes.scene.scene import Scene, WorldObject

_FASTEST = 3.0  # [m/s, rad/s] faster changes are teleports, not motion
_LEAST_HOLD = 0.1  # [s] min time that a twist estimate is held
_HALF_TURN = -0.99  # trace of a rotation matrix below which its axis is ill-defined
_STILL = np.zeros(6)


@dataclass(frozen=True, eq=False)
class _Seen:
    item: WorldObject
    at: float
    twist: Array
    interval: float

    @property
    def until(self) -> float:
        """Return the time at which the object counts as at rest: after two intervals unseen."""
        return self.at + max(2.0 * self.interval, _LEAST_HOLD)


class ObstacleMotion:
    """Twists of objects, estimated from scenes and their times."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._until = math.inf

    def update(self, scene: Scene, now: float) -> None:
        """Process a scene.

        Args:
            scene: the current world.
            now: time of an arbitrary clock [s].
        """
        self._seen = {name: self._look(item, now) for name, item in scene.objects.items()}

    def someone_stops(self, now: float) -> bool:
        """Return whether an object in motion according to :meth:`twists` now counts as at rest."""
        return now > self._until

    def _look(self, item: WorldObject, now: float) -> _Seen:
        known = self._seen.get(item.name)
        if known is None:
            return _Seen(item, now, _STILL, 0.0)
        if known.item is item:
            return known
        if known.item.X_WO.tobytes() == item.X_WO.tobytes():
            return _Seen(item, known.at, known.twist, known.interval)
        interval = now - known.at
        if interval <= 0.0:
            return _Seen(item, now, known.twist, known.interval)
        return _Seen(item, now, _twist(known.item.X_WO, item.X_WO, interval), interval)

    def twists(self, now: float) -> Mapping[str, Array]:
        """Return the twists of moving objects in the world: linear [m/s], angular [rad/s], (6,)."""
        moving = {
            name: seen
            for name, seen in self._seen.items()
            if seen.twist is not _STILL and now <= seen.until
        }
        self._until = min((seen.until for seen in moving.values()), default=math.inf)
        return {name: seen.twist for name, seen in moving.items()}


def _twist(before: Array, after: Array, interval: float) -> Array:
    R = after[:3, :3] @ before[:3, :3].T
    if float(R.trace()) < _HALF_TURN:
        return _STILL
    turn = np.array(rotation_vector(R))
    twist = np.concatenate((after[:3, 3] - before[:3, 3], turn)) / interval
    return _STILL if float(np.abs(twist).max()) > _FASTEST else twist
