# SPDX-License-Identifier: Apache-2.0
"""Estimates the twists of obstacles from successive scenes, and predicts their poses in between.

Without twists, the retreat from a moving obstacle looks like increasing clearance, and the policy
stops again. Without prediction, it avoids the obstacle's pose at the last update, which is wrong by
speed times update period.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from motion_nodes.model.rotation_vectors import rotation_vector, turned
from motion_nodes.scene.scene import Scene, WorldObject
from motion_nodes.typing import Array

_FASTEST = 3.0  # [m/s, rad/s] faster changes are teleports, not motion
_LEAST_HOLD = 0.1  # [s] min time that a twist estimate is held
_MAX_HORIZON = 0.3  # [s] max time of prediction
_MAX_AGE = 0.5  # [s] max age of an observation; older stamps are those of another clock
_HALF_TURN = -0.99  # trace of a rotation matrix below which its axis is ill-defined
_STILL = np.zeros(6)


@dataclass(frozen=True, eq=False)
class _Seen:
    item: WorldObject
    at: float
    """Time at which the pose was observed."""
    received: float
    twist: Array
    interval: float

    @property
    def until(self) -> float:
        """Return the time after which the object is at rest: two intervals without an update."""
        return self.received + max(2.0 * self.interval, _LEAST_HOLD)

    def pose(self, now: float) -> Array:
        """Return the predicted pose, shape (4, 4); it stops moving when an update is overdue."""
        ahead = max(min(self.interval, _MAX_HORIZON), _LEAST_HOLD)
        duration = min(now, self.received + ahead) - self.at
        return _moved(self.item.X_WO, self.twist * duration)


class ObstacleMotion:
    """Twists of objects, estimated from scenes and their times."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._moving = False

    def update(self, scene: Scene, now: float, stamp: float | None = None) -> None:
        """Process a scene.

        Args:
            scene: the current world.
            now: time of an arbitrary clock [s].
            stamp: the same time on the clock of the objects' stamps [s]; None: they are ignored.
        """
        self._seen = {
            name: self._look(item, now, _age(item, stamp)) for name, item in scene.objects.items()
        }

    @property
    def moving(self) -> bool:
        """Whether an object moves according to the last :meth:`twists`."""
        return self._moving

    def _look(self, item: WorldObject, now: float, age: float) -> _Seen:
        known, at = self._seen.get(item.name), now - age
        if known is None:
            return _Seen(item, at, now, _STILL, 0.0)
        if known.item is item:
            return known
        if known.item.X_WO.tobytes() == item.X_WO.tobytes():
            return replace(known, item=item)
        interval = at - known.at
        if interval <= 0.0:
            return _Seen(item, at, now, known.twist, known.interval)
        return _Seen(item, at, now, _twist(known.item.X_WO, item.X_WO, interval), interval)

    def twists(self, now: float) -> Mapping[str, Array]:
        """Return the twists of moving objects in the world: linear [m/s], angular [rad/s], (6,)."""
        twists = {name: seen.twist for name, seen in self._seen.items() if _moves(seen, now)}
        self._moving = bool(twists)
        return twists

    def poses(self, now: float) -> Mapping[str, Array]:
        """Return the poses of moving objects in the world, predicted by constant twists, (4, 4)."""
        return {name: seen.pose(now) for name, seen in self._seen.items() if _moves(seen, now)}


def _moves(seen: _Seen, now: float) -> bool:
    return seen.twist is not _STILL and now <= seen.until


def _age(item: WorldObject, stamp: float | None) -> float:
    """Return the age of an object's pose [s]; stamps of another clock are ignored."""
    if stamp is None or item.observed_at is None:
        return 0.0
    age = stamp - item.observed_at
    return age if abs(age) <= _MAX_AGE else 0.0


def _twist(before: Array, after: Array, interval: float) -> Array:
    R = after[:3, :3] @ before[:3, :3].T
    if float(R.trace()) < _HALF_TURN:
        return _STILL
    turn = np.array(rotation_vector(R))
    twist = np.concatenate((after[:3, 3] - before[:3, 3], turn)) / interval
    return _STILL if float(np.abs(twist).max()) > _FASTEST else twist


def _moved(X: Array, displacement: Array) -> Array:
    """Return a pose after a translation [m] and a rotation vector [rad] in the world's axes."""
    moved = X.copy()
    moved[:3, 3] += displacement[:3]
    moved[:3, :3] = turned(X[:3, :3], displacement[3:])
    return moved
