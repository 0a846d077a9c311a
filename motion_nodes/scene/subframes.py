# SPDX-License-Identifier: Apache-2.0
"""Frames of a scene: objects, attached bodies, and their subframes ``object/subframe``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from motion_nodes.model.tree import frozen
from motion_nodes.typing import Array

if TYPE_CHECKING:
    from motion_nodes.scene.scene import AttachedBody, Subframe, WorldObject


class SceneFrame(NamedTuple):
    """A frame of a scene."""

    link: str | None
    """The link that carries it; None: it is fixed in the world."""
    X: Array
    """Its pose in the link or in the world, shape (4, 4)."""


def find_frame(
    objects: Mapping[str, WorldObject], attached: Mapping[str, AttachedBody], name: str
) -> SceneFrame | None:
    """Return a frame of a scene; None if there is no such frame.

    Args:
        objects: objects of the world.
        attached: bodies attached to the robot.
        name: name of an object or attached body, or ``object/subframe``.
    """
    owner, _, subframe = name.rpartition("/")
    for whole, part in ((name, None), (owner, subframe)):
        if whole in attached:
            body = attached[whole]
            found = _within(body.X_LO, body.subframes, part)
            if found is not None:
                return SceneFrame(body.link, found)
        elif whole in objects:
            item = objects[whole]
            found = _within(item.X_WO, item.subframes, part)
            if found is not None:
                return SceneFrame(None, found)
    return None


def _within(X: Array, subframes: tuple[Subframe, ...], name: str | None) -> Array | None:
    """Return the pose of a subframe of an object at ``X``; ``X`` for an empty name."""
    if name is None:
        return X
    return next((frozen(X @ frame.X_OF) for frame in subframes if frame.name == name), None)
