# SPDX-License-Identifier: Apache-2.0
"""How obstacles move, from where they were seen.

Without it a policy that gives way to a moving obstacle takes its own retreat for safety, and stands
still again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from motion_nodes.model.tree import Array
from motion_nodes.rmpflow.servo import rotation_vector
from motion_nodes.scene.scene import Scene, WorldObject

_FASTEST = 3.0  # [m/s, rad/s] whatever seems faster was put elsewhere, not moved
_LEAST_HOLD = 0.1  # [s]
_HALF_TURN = -0.99  # trace of a rotation's matrix below which its axis is not known well
_STILL = np.zeros(6)


@dataclass(frozen=True, eq=False)
class _Seen:
    item: WorldObject
    at: float
    twist: Array
    interval: float

    @property
    def until(self) -> float:
        """Return when it stands still unless it is seen elsewhere before: two of its intervals."""
        return self.at + max(2.0 * self.interval, _LEAST_HOLD)


class ObstacleMotion:
    """Twists of objects, from scenes and when they were given."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._until = math.inf

    def update(self, scene: Scene, now: float) -> None:
        """Look at a scene.

        Args:
            scene: the world now.
            now: time, from any beginning [s].
        """
        self._seen = {name: self._look(item, now) for name, item in scene.objects.items()}

    def someone_stops(self, now: float) -> bool:
        """Return whether something that :meth:`twists` called moving no longer counts as such."""
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
        """Return the twists of what moves: linear [m/s] and angular [rad/s] in the world, (6,)."""
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
    turn = rotation_vector(R)
    twist = np.concatenate((after[:3, 3] - before[:3, 3], turn)) / interval
    return _STILL if float(np.abs(twist).max()) > _FASTEST else twist
