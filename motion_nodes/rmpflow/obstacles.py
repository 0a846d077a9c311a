# SPDX-License-Identifier: Apache-2.0
"""Obstacles of a scene in the robot's base frame, packed anew only where something changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from motion_nodes.kernels.rmp_memory import Obstacles, empty_obstacles
from motion_nodes.model.tree import Array
from motion_nodes.rmpflow.packing import pack_parts, placed
from motion_nodes.scene.allowed import AllowedCollisions
from motion_nodes.scene.scene import Scene, WorldObject

_STILL = np.zeros(6)


@dataclass(frozen=True, eq=False)
class _Packed:
    item: WorldObject
    twist: Array
    own: Obstacles
    """In the frame of the object, at rest."""
    rows: Obstacles


class ObstaclePacker:
    """Packs scenes that mostly stay as they are."""

    def __init__(self, links: Iterable[str] = ()) -> None:
        """Prepare.

        Args:
            links: those that keep away; an object that all of them may touch is none.
        """
        self._links = frozenset(links)
        self._X_BW = np.eye(4)
        self._known: dict[str, _Packed] = {}
        self._allowed: AllowedCollisions | None = None
        self._keeps_off: dict[str, bool] = {}

    def packed(
        self, scene: Scene, X_BW: Array, twists: Mapping[str, Array] | None = None
    ) -> Obstacles:
        """Return what is enabled and must not be touched.

        Args:
            scene: the world.
            X_BW: pose of the world in the robot's base frame, shape (4, 4).
            twists: how objects move in the world, shape (6,) each; the others stand still.
        """
        moving = twists or {}
        if not np.array_equal(X_BW, self._X_BW):
            self._X_BW, self._known = X_BW.copy(), {}
        if scene.allowed is not self._allowed:
            self._allowed, self._keeps_off = scene.allowed, {}
        self._keeps_off = {
            name: self._keeps_off.get(name) or self._must_keep_off(scene, name)
            for name in scene.objects
        }
        self._known = {
            item.name: self._packed(item, moving.get(item.name, _STILL))
            for item in scene.objects.values()
            if item.enabled and self._keeps_off[item.name]
        }
        rows = [found.rows for found in self._known.values()]
        if not rows:
            return empty_obstacles()
        return Obstacles(
            np.concatenate([r.boxes for r in rows]), np.concatenate([r.rounds for r in rows])
        )

    def _must_keep_off(self, scene: Scene, name: str) -> bool:
        """Return whether any link must not touch an object."""
        allows = scene.allowed.allows
        return not self._links or not all(allows(link, name) for link in self._links)

    def _packed(self, item: WorldObject, twist: Array) -> _Packed:
        known = self._known.get(item.name)
        if known is None or known.item.parts is not item.parts:
            own = pack_parts(item.parts)
        elif known.item is item and (known.twist is twist or np.array_equal(known.twist, twist)):
            return known
        else:
            own = known.own
        X_BW = self._X_BW
        velocity, turn = X_BW[:3, :3] @ twist[:3], X_BW[:3, :3] @ twist[3:]
        return _Packed(item, twist, own, placed(own, X_BW @ item.X_WO, velocity, turn))
