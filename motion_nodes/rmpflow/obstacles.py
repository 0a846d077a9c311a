# SPDX-License-Identifier: Apache-2.0
"""Obstacles of a scene in the robot's base frame, repacked incrementally."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from motion_nodes.kernels.rmp.rmp_memory import ObstacleArrays, empty_obstacles
from motion_nodes.rmpflow.rmp_inputs import pack_parts, placed
from motion_nodes.scene.allowed_collisions import AllowedCollisions
from motion_nodes.scene.scene import Scene, WorldObject
from motion_nodes.typing import Array

_STILL = np.zeros(6)


@dataclass(frozen=True, eq=False)
class _Packed:
    item: WorldObject
    X_WO: Array
    twist: Array
    own: ObstacleArrays
    """In the frame of the object, at rest."""
    rows: ObstacleArrays
    """In the base frame."""


class ObstaclePacker:
    """Packs scenes incrementally."""

    def __init__(self, links: Iterable[str] = ()) -> None:
        """Create the packer.

        Args:
            links: links that avoid obstacles; objects with which all of them may collide are
                skipped.
        """
        self._links = frozenset(links)
        self._X_BW = np.eye(4)
        self._known: dict[str, _Packed] = {}
        self._allowed: AllowedCollisions | None = None
        self._keeps_off: dict[str, bool] = {}

    def packed(
        self,
        scene: Scene,
        X_BW: Array,
        twists: Mapping[str, Array] | None = None,
        poses: Mapping[str, Array] | None = None,
    ) -> ObstacleArrays:
        """Return the enabled objects that must be avoided.

        Args:
            scene: the world.
            X_BW: pose of the world in the robot's base frame, shape (4, 4).
            twists: of objects in the world [m/s, rad/s], shape (6,) each; default: at rest.
            poses: of objects in the world, shape (4, 4) each; default: those of the scene.
        """
        moving, predicted = twists or {}, poses or {}
        if not np.array_equal(X_BW, self._X_BW):
            self._X_BW, self._known = X_BW.copy(), {}
        if scene.allowed is not self._allowed:
            self._allowed, self._keeps_off = scene.allowed, {}
        before = self._keeps_off
        self._keeps_off = {
            name: before[name] if name in before else self._must_keep_off(scene, name)
            for name in scene.objects
        }
        chosen = [o for o in scene.objects.values() if o.enabled and self._keeps_off[o.name]]
        desired = [(o, predicted.get(o.name, o.X_WO), moving.get(o.name, _STILL)) for o in chosen]
        fresh = self._placed([found for found in desired if not self._is_known(*found)])
        self._known = {o.name: fresh.get(o.name) or self._known[o.name] for o in chosen}
        known = [found.rows.rows for found in self._known.values()]
        if not known:
            return empty_obstacles()
        return ObstacleArrays(
            {name: np.concatenate([rows[name] for rows in known]) for name in known[0]}
        )

    def _must_keep_off(self, scene: Scene, name: str) -> bool:
        """Return whether any link must avoid an object."""
        allows = scene.allowed.allows
        return not self._links or not all(allows(link, name) for link in self._links)

    def _is_known(self, item: WorldObject, X_WO: Array, twist: Array) -> bool:
        known = self._known.get(item.name)
        if known is None or known.item is not item or known.X_WO is not X_WO:
            return False
        return known.twist is twist or np.array_equal(known.twist, twist)

    def _placed(self, desired: list[tuple[WorldObject, Array, Array]]) -> dict[str, _Packed]:
        """Return objects with poses and twists, packed in one batch, which is much faster."""
        if not desired:
            return {}
        items, poses, twists = zip(*desired, strict=True)
        own = [self._in_own_frame(item) for item in items]
        X_BO = self._X_BW @ np.stack(poses)
        R = self._X_BW[:3, :3]
        turned = (np.stack(twists).reshape(-1, 2, 3) @ R.T).reshape(-1, 6)
        moved = {
            name: _split_placed([o.rows[name] for o in own], X_BO, turned) for name in own[0].rows
        }
        return {
            item.name: _Packed(
                item, X_WO, twist, own[k], ObstacleArrays({name: moved[name][k] for name in moved})
            )
            for k, (item, X_WO, twist) in enumerate(desired)
        }

    def _in_own_frame(self, item: WorldObject) -> ObstacleArrays:
        known = self._known.get(item.name)
        same = known is not None and known.item.parts is item.parts
        return known.own if known is not None and same else pack_parts(item.parts)


def _split_placed(tables: list[Array], X_BO: Array, twists: Array) -> list[Array]:
    """Return the rows of each object in the base frame."""
    counts = [len(table) for table in tables]
    if not any(counts):
        return tables
    owner = np.repeat(np.arange(len(tables)), counts)
    rows = placed(np.concatenate(tables), X_BO[owner], twists[owner])
    return np.split(rows, np.cumsum(counts)[:-1])
