# SPDX-License-Identifier: Apache-2.0
"""Frames of /tf in the page's world, in which only the robots are placed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from motion_nodes.model.poses import inverse
from motion_nodes.typing import Array

Transforms = Mapping[str, tuple[str, Array]]
"""Parent and pose X_PC in it, shape (4, 4), by child frame."""


@dataclass(frozen=True, eq=False)
class FrameTree:
    """Trees of frames whose roots have a pose in the world."""

    transforms: Transforms
    """Transforms of all frames except roots."""
    roots: Mapping[str, Array]
    """Pose of each root in the world X_WR, shape (4, 4)."""
    unplaced: tuple[str, ...] = ()
    """Frames without a transform chain to a robot, sorted."""

    @classmethod
    def of(cls, transforms: Transforms, anchors: Iterable[tuple[str, Array]]) -> FrameTree:
        """Create the trees from frames with known poses.

        Args:
            transforms: by child frame; frames in a cycle are not placed.
            anchors: frames and their poses in the world X_WA, shape (4, 4). If a tree
                contains several, the first one is used.
        """
        names = {*transforms, *(parent for parent, _ in transforms.values())}
        roots: dict[str, Array] = {}
        for frame, X_WA in anchors:
            root, X_RA = _to_root(transforms, frame)
            if root in names and root not in roots:
                roots[root] = X_WA @ inverse(X_RA)
        unplaced = sorted(name for name in names if _to_root(transforms, name)[0] not in roots)
        return cls(transforms, roots, tuple(unplaced))

    def pose(self, frame: str) -> Array | None:
        """Return the pose of a frame in the world X_WF, shape (4, 4); None: unknown."""
        root, X_RF = _to_root(self.transforms, frame)
        return self.roots[root] @ X_RF if root in self.roots else None

    def placed(self) -> list[tuple[str, str, Array]]:
        """Return the frames with a pose in the world, parents before children.

        Returns:
            Name, parent and pose in the parent, shape (4, 4). Roots have the parent "" and their
            pose in the world.
        """
        children: dict[str, list[str]] = {}
        for child, (parent, _) in self.transforms.items():
            children.setdefault(parent, []).append(child)
        found = [(root, "", X_WR) for root, X_WR in self.roots.items()]
        for name, _, _ in found:  # grows while it is read
            found += [(child, name, self.transforms[child][1]) for child in children.get(name, ())]
        return found


def _to_root(transforms: Transforms, frame: str) -> tuple[str, Array]:
    """Return the root above a frame, "" in a cycle, and the frame's pose in it, (4, 4)."""
    X, seen = np.eye(4), {frame}
    while frame in transforms:
        frame, X_PC = transforms[frame]
        if frame in seen:
            return "", X
        seen.add(frame)
        X = X_PC @ X
    return frame, X
