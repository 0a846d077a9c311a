# SPDX-License-Identifier: Apache-2.0
"""Computes a robot's collision spheres from its convex collision shapes, and writes the file.

::

    python tools/fit_collision_spheres.py franka --reach 0.016 --of panda_hand=0.01

Planners search with these spheres; paths are verified with the shapes. Therefore spheres need not
contain the shapes: a shape may stick out of them by ``--stick-out``, and they may reach ``--reach``
beyond it. Of the largest allowed spheres about the points of a grid, the fewest that cover the
samples of the surface are chosen: a set cover, solved as an integer program by HiGHS within a gap
of 5 % and a limited number of nodes. Several shapes of a link count as their convex hull. Links
named by ``--keep`` keep their spheres.

Source of the program: V. Chvatal, A greedy heuristic for the set-covering problem, Math. of
Operations Research 4, 1979.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_matrix
from scipy.spatial import ConvexHull, cKDTree
from scipy.spatial.distance import cdist

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from motion_nodes.core.robot.loader import load_robot  # noqa: E402
from motion_nodes.core.scene.link_geometry import dense_points, triangles_of  # noqa: E402

SPACING = 0.006
"""Max distance of surface points to the closest sample [m]."""
GRID = 0.01
"""Grid spacing of candidates [m]; at least a 45th of the link's extent."""
SLACK = 0.0015
"""Margin of samples for the surface between them [m]."""
NODES = 400
"""Max number of nodes of the solver; a time limit would make results irreproducible."""


def main() -> None:
    """Choose, check, print and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("robot", help="a shipped robot's name or a robot's folder")
    parser.add_argument("--reach", type=float, default=0.016, help="[m], default 0.016")
    parser.add_argument("--of", action="append", default=[], help="LINK=REACH for one link")
    parser.add_argument("--stick-out", type=float, default=0.003, help="[m], default 0.003")
    parser.add_argument("--keep", action="append", default=[], help="link that is not changed")
    parser.add_argument("--dry-run", action="store_true", help="write nothing")
    options = parser.parse_args()
    robot = load_robot(options.robot)
    reaches = {link: float(reach) for link, _, reach in (o.partition("=") for o in options.of)}
    found = {link: np.array(spheres) for link, spheres in robot.spheres.items()}
    print("| link | spheres | reach beyond [mm] | shape sticks out [mm] |\n|---|---|---|---|")
    for name, link in robot.tree.links.items():
        if not link.collisions:
            continue
        corners = np.concatenate([triangles_of(s, robot.mesh_path) for s in link.collisions])
        if name not in options.keep:
            reach = reaches.get(name, options.reach)
            found[name] = fitted(corners, reach, options.stick_out)
        spheres = found[name]
        beyond, outside = reach_beyond(corners, spheres), sticks_out(corners, spheres)
        row = f"| {name} | {len(spheres)} | {1e3 * beyond:.1f} | {1e3 * outside:.1f} |"
        print(row, flush=True)
    if not options.dry_run:
        file = robot.directory / str(robot.description.collision.spheres)
        file.write_text(text_of(file.read_text(), found))


def fitted(corners: np.ndarray, reach: float, stick_out: float) -> np.ndarray:
    """Return few spheres for a convex shape, largest first.

    Args:
        corners: triangles of the surface [m], shape (t, 3, 3).
        reach: max distance by which spheres reach beyond the shape [m].
        stick_out: max distance by which the shape sticks out of the spheres [m].

    Returns:
        Centre and radius [m], rounded to 0.1 mm, shape (n, 4).
    """
    points = surface_points(corners)
    spheres = candidates(corners, reach)
    held = cdist(points, spheres[:, :3]) <= spheres[:, 3] + (stick_out - SLACK)
    if not held.any(axis=1).all():
        sys.exit("no spheres with this reach cover the shape; increase --reach.")
    count = len(spheres)
    solved = milp(
        np.ones(count),
        constraints=LinearConstraint(csr_matrix(held.astype(np.float64)), 1, np.inf),
        integrality=np.ones(count),
        bounds=Bounds(0, 1),
        options={"mip_rel_gap": 0.05, "node_limit": NODES},
    )
    if solved.x is None:
        sys.exit(f"no set of spheres was found: {solved.message}")
    chosen = spheres[solved.x > 0.5]
    return np.asarray(chosen[np.lexsort((*chosen[:, :3].T, -chosen[:, 3]))].round(4) + 0.0)


def candidates(corners: np.ndarray, reach: float) -> np.ndarray:
    """Return the spheres about grid points in a convex shape that reach ``reach`` [m] beyond it.

    In direction u a sphere reaches ``u c + r - h(u)`` beyond the shape with support function h.
    """
    vertices = np.unique(corners.reshape(-1, 3).round(7), axis=0)
    planes = ConvexHull(vertices).equations
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    grid = max(GRID, float((high - low).max()) / 45.0)
    axes = [
        np.linspace(a, b, max(2, int(np.ceil((b - a) / grid))) + 1)
        for a, b in zip(low, high, strict=True)
    ]
    centres = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    centres = centres[(centres @ planes[:, :3].T + planes[:, 3]).max(axis=1) < 0.0]
    directions = np.vstack((lattice(600), planes[:, :3]))
    height = (vertices @ directions.T).max(axis=0)
    return np.column_stack((centres, (height - centres @ directions.T).min(axis=1) + reach))


def surface_points(corners: np.ndarray) -> np.ndarray:
    """Return samples of a surface, shape (m, 3), at most ``SPACING`` [m] from any surface point."""
    dense = dense_points(corners, SPACING / 3.0)
    tree, kept = cKDTree(dense), []
    gone = np.zeros(len(dense), bool)
    for k, point in enumerate(dense):
        if not gone[k]:
            kept.append(k)
            gone[tree.query_ball_point(point, 0.75 * SPACING)] = True
    return np.concatenate((dense[kept], np.unique(corners.reshape(-1, 3).round(6), axis=0)))


def reach_beyond(corners: np.ndarray, spheres: np.ndarray) -> float:
    """Return how far spheres reach beyond the convex hull of a shape [m]."""
    vertices = corners.reshape(-1, 3)
    directions = np.vstack((lattice(600), ConvexHull(vertices).equations[:, :3]))
    height = (vertices @ directions.T).max(axis=0)
    return float((spheres[:, :3] @ directions.T + spheres[:, 3:] - height).max())


def sticks_out(corners: np.ndarray, spheres: np.ndarray) -> float:
    """Return how far a surface sticks out of spheres [m], sampled every 1.5 mm."""
    points = dense_points(corners, 0.0015)
    least = np.full(len(points), np.inf)
    for x, y, z, radius in spheres:
        np.minimum(least, np.linalg.norm(points - (x, y, z), axis=1) - radius, out=least)
    return max(0.0, float(least.max()))


def lattice(count: int) -> np.ndarray:
    """Return unit vectors spread evenly over the sphere (a Fibonacci lattice), shape (d, 3)."""
    z = 1.0 - (2.0 * np.arange(count) + 1.0) / count
    angle = np.pi * (3.0 - np.sqrt(5.0)) * np.arange(count)
    width = np.sqrt(1.0 - z**2)
    return np.column_stack((width * np.cos(angle), width * np.sin(angle), z))


def text_of(before: str, spheres: dict[str, np.ndarray]) -> str:
    """Return the text of a sphere file, with the head comment of the previous text."""
    head = "".join(line for line in before.splitlines(keepends=True) if line.startswith("#"))
    rows = []
    for link, values in spheres.items():
        rows.append(f"{link}:")
        rows += [f"  - [{', '.join(f'{v:.6g}' for v in sphere + 0.0)}]" for sphere in values]
    return head + "\n".join(rows) + "\n"


if __name__ == "__main__":
    main()
