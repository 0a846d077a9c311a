# SPDX-License-Identifier: Apache-2.0
"""Computes convex collision shapes of a robot's links from meshes, and writes them to its folder.

Shipped arms, from the published meshes of the manufacturers (not part of this repository; sources:
``published_meshes.py``)::

    python tools/fit_collision_shapes.py franka --meshes FOLDER

Other robots, from the collision geometry of their URDF::

    python tools/fit_collision_shapes.py ~/my_robot --pieces 4

Each link gets convex pieces that contain its mesh
(``convex_cover.py``). The tool writes ``meshes/<link>.obj`` and the
URDF's ``<collision>`` elements, and prints how far the pieces reach beyond the mesh and how far the
mesh sticks out of them. ``--dry-run`` only prints. ``--extremes FILE`` adds the extreme points of
each mesh in some directions to a JSON file, to check shapes without the meshes.

The Panda's fingers are boxes, written by hand in ``franka.urdf``, 0.05 mm larger than published.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from convex_cover import (  # type: ignore[import-not-found]  # noqa: E402
    convex_pieces,
    reach_beyond,
    sticks_out,
    with_collision_meshes,
    write_pieces,
)
from fit_collision_spheres import lattice  # type: ignore[import-not-found]  # noqa: E402
from published_meshes import MESHES, link_triangles  # type: ignore[import-not-found]  # noqa: E402

from motion_nodes.core.robot.loader import load_robot  # noqa: E402
from motion_nodes.core.robot.robot import Robot  # noqa: E402
from motion_nodes.core.robot.tree import Mesh  # noqa: E402
from motion_nodes.core.scene.link_geometry import triangles_of  # noqa: E402
from motion_nodes.core.scene.shapes import triangle_mesh  # noqa: E402

SOURCES = {
    "franka": "franka_description/meshes/collision of github.com/frankaemika/franka_ros "
    "(Apache-2.0)",
    "ur10e": "meshes/ur10e/collision of "
    "github.com/UniversalRobots/Universal_Robots_ROS2_Description (BSD-3-Clause)",
}
DIRECTIONS = 48
"""Number of directions of the extreme points for ``--extremes``."""
HEADING = """# SPDX-License-Identifier: Apache-2.0
# Collision shape of {link}: a convex polytope that contains the link's mesh; see README.md#shapes.
# Written by tools/fit_collision_shapes.py. Vertices [m] in the link's frame.
"""


def main() -> None:
    """Compute, check, print and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("robot", help="a shipped robot's name or a robot's folder")
    parser.add_argument("--meshes", type=Path, help="folder of the published collision meshes")
    parser.add_argument("--tolerance", type=float, default=0.002, help="[m], default 0.002")
    parser.add_argument("--pieces", type=int, default=1, help="max pieces per link, default 1")
    parser.add_argument("--extremes", type=Path, help="JSON file of extreme points to add to")
    parser.add_argument("--dry-run", action="store_true", help="write nothing")
    options = parser.parse_args()
    robot = load_robot(options.robot)
    text = (robot.directory / robot.description.urdf).read_text()
    extremes: dict[str, list[list[float]]] = {}
    print("| link | pieces | faces | vertices | excess [mm] | sticks out [mm] |")
    print("|---|---|---|---|---|---|")
    for link, corners in triangles(robot, options.meshes):
        pieces = convex_pieces(corners, options.tolerance, options.pieces)
        mesh = triangle_mesh(corners.reshape(-1, 3), np.arange(3 * len(corners)).reshape(-1, 3))
        faces = sum(len(piece.planes) for piece in pieces)
        vertices = sum(len(piece.vertices) for piece in pieces)
        excess = reach_beyond(pieces, mesh) if len(pieces) > 1 else pieces[0].excess
        outside = sticks_out(pieces, corners.reshape(-1, 3))
        print(
            f"| {link} | {len(pieces)} | {faces} | {vertices} | {1e3 * excess:.2f} "
            f"| {1e3 * outside:.3g} |",
            flush=True,
        )
        extremes[link] = extreme_points(corners.reshape(-1, 3))
        if not options.dry_run:
            files = write_pieces(robot.directory, link, pieces, HEADING.format(link=link))
            text = with_collision_meshes(text, link, files)
    if not options.dry_run:
        (robot.directory / robot.description.urdf).write_text(text)
    if options.extremes is not None:
        source = SOURCES.get(robot.name, "") if options.meshes else robot.description.urdf
        write_extremes(options.extremes, robot.name, source, extremes)


def extreme_points(points: np.ndarray) -> list[list[float]]:
    """Return the farthest point in each direction [m], rounded to 0.01 mm."""
    farthest = points[(points @ lattice(DIRECTIONS).T).argmax(axis=0)]
    rows: list[list[float]] = (farthest.round(5) + 0.0).tolist()
    return rows


def write_extremes(
    file: Path, robot: str, source: str, extremes: dict[str, list[list[float]]]
) -> None:
    """Add a robot's extreme points to a JSON file; keep those of other robots."""
    known = json.loads(file.read_text()) if file.is_file() else {}
    known[robot] = {"source": source, "unit": "m, in the link's frame", "links": extremes}
    rows = []
    for name, entry in sorted(known.items()):
        head = {key: entry[key] for key in ("source", "unit")}
        lines = [f"   {json.dumps(k)}: {json.dumps(v)}" for k, v in entry["links"].items()]
        links = ",\n".join(lines)
        start = json.dumps(head)[1:-1]
        rows.append(f' {json.dumps(name)}: {{{start},\n  "links": {{\n{links}\n  }}}}')
    file.write_text("{\n" + ",\n".join(rows) + "\n}\n")


def triangles(robot: Robot, folder: Path | None) -> Iterator[tuple[str, np.ndarray]]:
    """Yield links and their triangles in the link's frame [m], shape (t, 3, 3)."""
    if folder is not None:
        if robot.name not in MESHES:
            sys.exit(f"published meshes are known of {', '.join(MESHES)}, not of {robot.name}.")
        yield from link_triangles(robot.name, folder).items()
        return
    for name, link in robot.tree.links.items():
        shapes = [shape for shape in link.collisions if isinstance(shape.geometry, Mesh)]
        if shapes:
            yield name, np.concatenate([triangles_of(s, robot.mesh_path) for s in link.collisions])


if __name__ == "__main__":
    main()
