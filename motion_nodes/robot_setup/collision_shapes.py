# SPDX-License-Identifier: Apache-2.0
"""Convex pieces as the collision geometry of a URDF's links."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from motion_nodes.errors import InvalidDescription
from motion_nodes.robot_setup.convex_cover import ConvexPiece, write_obj

MESHES = "meshes"
"""Folder of a robot's mesh files, beside its URDF."""


def write_pieces(
    folder: Path, link: str, pieces: Sequence[ConvexPiece], heading: str = ""
) -> list[str]:
    """Write the pieces of a link, one OBJ file each.

    Args:
        folder: folder of the robot.
        link: prefix of the file names.
        pieces: convex pieces in the link's frame.
        heading: header of each file, comment lines with ``#``.

    Returns:
        The mesh file names for a URDF in that folder.
    """
    names = [link] if len(pieces) == 1 else [f"{link}_{k}" for k in range(len(pieces))]
    for name, piece in zip(names, pieces, strict=True):
        write_obj(folder / MESHES / f"{name}.obj", piece, heading)
    return [f"{MESHES}/{name}.obj" for name in names]


def with_collision_meshes(urdf: str, link: str, files: Sequence[str]) -> str:
    """Return a URDF's text with the collision geometry of a link replaced by meshes.

    Everything else is unchanged, including comments and whitespace.

    Args:
        urdf: the text.
        link: link whose collision elements are replaced.
        files: mesh file names for the URDF.

    Raises:
        InvalidDescription: there is no such link, or it is empty.
    """
    found = re.search(rf'<link\s+name="{re.escape(link)}"\s*>.*?</link>', urdf, re.DOTALL)
    if found is None:
        raise InvalidDescription(f"the URDF has no link '{link}' with elements in it.")
    body = re.sub(r"\s*<collision\b.*?</collision>", "", found.group(), flags=re.DOTALL)
    lines = "".join(
        f'    <collision><geometry><mesh filename="{file}"/></geometry></collision>\n'
        for file in files
    )
    head, _, _ = body.rpartition("</link>")
    head = head.rstrip() + "\n"
    return urdf[: found.start()] + head + lines + "  </link>" + urdf[found.end() :]
