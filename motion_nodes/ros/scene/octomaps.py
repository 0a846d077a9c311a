# SPDX-License-Identifier: Apache-2.0
"""Octomap messages from and to occupied voxels, alone and in planning scenes."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
from moveit_msgs.msg import PlanningSceneWorld
from octomap_msgs.msg import Octomap

from motion_nodes.core.robot.tree import frozen
from motion_nodes.core.scene.scene import Part, WorldObject
from motion_nodes.core.scene.voxels import OCTOMAP, Voxels, decode, encode
from motion_nodes.errors import InvalidCommand
from motion_nodes.ros.messages.moveit_messages import pose_message, pose_of
from motion_nodes.ros.scene.scene_update import SceneDraft, SceneFrames
from motion_nodes.typing import Array

TREE = "OcTree"
"""Class of trees that are read and written."""
COLOUR_TREE = "ColorOcTree"
"""Class of trees whose binary format is the same."""
RGBA = (0.35, 0.55, 0.75, 0.9)
_IDENTITY = frozen(np.eye(4))


def octomap_message(
    solid: Voxels | None, frame: str, stamp: Any, resolution: float, binary: bool = True
) -> Octomap:
    """Return occupied voxels as a message.

    Args:
        solid: the voxels; None for an empty map.
        frame: their frame.
        stamp: of the message.
        resolution: of an empty map [m].
        binary: which of OctoMap's formats.

    Raises:
        InvalidCommand: a voxel is beyond the range of an octree.
    """
    message = Octomap(binary=binary, id=TREE)
    message.header.frame_id, message.header.stamp = frame, stamp
    message.resolution = resolution if solid is None else solid.resolution
    if solid is not None:
        message.data = array.array("b", encode(solid, binary))
    return message


def voxels_of(message: Octomap) -> Voxels | None:
    """Return the occupied voxels of a message; None if there are none.

    Raises:
        InvalidCommand: a tree of another class, invalid data or resolution.
    """
    if message.id != TREE and not (message.binary and message.id == COLOUR_TREE):
        raise InvalidCommand(
            f"the octomap has the class '{message.id}'; {TREE} is supported, and {COLOUR_TREE} in "
            "the binary format"
        )
    return decode(bytes(message.data), float(message.resolution), bool(message.binary))


def fill_world(world: PlanningSceneWorld, item: WorldObject | None, frame: str) -> None:
    """Write the octomap of a scene to a message.

    Args:
        world: the message.
        item: the object of occupied voxels; None: an empty octomap, which removes it.
        frame: the planning frame.
    """
    out = world.octomap
    out.header.frame_id = frame
    if item is None:
        out.octomap = octomap_message(None, frame, out.header.stamp, 0.0)
        return
    solid = item.parts[0].solid
    assert isinstance(solid, Voxels)
    out.origin = pose_message(item.X_WO)
    out.octomap = octomap_message(solid, frame, out.header.stamp, solid.resolution)


def change_octomap(draft: SceneDraft, world: PlanningSceneWorld, frames: SceneFrames) -> None:
    """Apply the octomap of a message to a scene; one with a class and no data removes it.

    Raises:
        MotionError: invalid data, pose or frame; the octomap is unchanged.
    """
    given = world.octomap
    if not given.octomap.data and not given.octomap.id:
        return
    solid = voxels_of(given.octomap)
    if solid is None:
        draft.objects.pop(OCTOMAP, None)
        return
    frame = given.header.frame_id or given.octomap.header.frame_id
    X_FO: Array = pose_of(given.origin, "the origin of the octomap")[0]
    X_WO = frozen(frames.pose(frame, draft) @ X_FO)
    draft.put(WorldObject(OCTOMAP, X_WO, (Part(solid, _IDENTITY),), rgba=RGBA))
