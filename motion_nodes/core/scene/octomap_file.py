# SPDX-License-Identifier: Apache-2.0
"""Files of OctoMap with occupied voxels: the binary format (``.bt``)."""

from __future__ import annotations

import re

import numpy as np

from motion_nodes.core.scene.voxels import Voxels, decode, encode
from motion_nodes.errors import InvalidDescription

MAGIC = b"# Octomap OcTree binary file"
"""First line of a file."""
TREES = ("OcTree", "ColorOcTree")
"""Classes of trees that have this format."""


def octomap_bytes(solid: Voxels | None, resolution: float = 0.05) -> bytes:
    """Return the contents of a file.

    Args:
        solid: the occupied voxels; None: an empty map.
        resolution: edge of the smallest voxel of an empty map [m].

    Raises:
        InvalidCommand: a voxel is beyond the range of an octree.
    """
    data = b"" if solid is None else encode(solid)
    # The root, and each child that is not unknown: two bits each.
    pairs = np.unpackbits(np.frombuffer(data, np.uint8)).reshape(-1, 2)
    count = int(pairs.any(axis=1).sum()) + bool(data)
    size = resolution if solid is None else solid.resolution
    head = f"\n#\nid {TREES[0]}\nsize {count}\nres {size!r}\ndata\n"
    return MAGIC + head.encode() + data


def read_octomap(content: bytes, where: str) -> Voxels | None:
    """Return the occupied voxels of a file; None if there are none.

    Args:
        content: of the file.
        where: its name, for errors.

    Raises:
        InvalidDescription: it is no file of this format.
        InvalidCommand: invalid data, or too many nodes.
    """
    head, mark, data = content.partition(b"\ndata\n")
    if not head.startswith(MAGIC) or not mark:
        raise InvalidDescription(
            f"{where} is no binary file of OctoMap: its first line must be '{MAGIC.decode()}', and "
            "a line 'data' must precede the tree"
        )
    words = dict(
        (name, value)
        for name, value in re.findall(r"^(id|res|size)\s+(\S+)", head.decode("latin-1"), re.M)
    )
    try:
        resolution = float(words["res"])
    except (KeyError, ValueError):
        raise InvalidDescription(f"{where} has no line 'res' with a number") from None
    if words.get("id") not in TREES:
        raise InvalidDescription(
            f"{where} has a tree of class '{words.get('id', '')}'; allowed are {', '.join(TREES)}"
        )
    return decode(data, resolution)
