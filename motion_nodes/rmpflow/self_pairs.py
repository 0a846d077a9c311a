# SPDX-License-Identifier: Apache-2.0
"""Link pairs of self-collision avoidance, and the joints between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from motion_nodes.kernels.kinematic_arrays import PackedArrays
from motion_nodes.kernels.rmp.rmp_memory import RmpModel
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.robot import Robot
from motion_nodes.scene.allowed_collisions import AllowedCollisions
from motion_nodes.scene.robot_spheres import checked_pairs, link_bodies, rigid_links
from motion_nodes.typing import Array


@dataclass(frozen=True)
class LinkPair:
    """Two links: ranges of their spheres, and the joints between them."""

    a: tuple[int, int]
    b: tuple[int, int]
    path: tuple[tuple[int, int], ...]
    """Rows of the joints that move one relative to the other, each with a sign: 1 moves a, -1 b."""


@dataclass(frozen=True, eq=False)
class SelfSpheres:
    """Spheres of self-collision avoidance, those of moving links first."""

    rows: tuple[int, ...]
    """Row of each sphere."""
    spheres: Array
    """Centre in its row (fixed ones: in the base frame) and radius [m], shape (s, 4)."""
    pairs: tuple[LinkPair, ...]

    @property
    def moving(self) -> int:
        """Number of moving spheres."""
        return sum(row > 0 for row in self.rows)


def self_spheres(
    robot: Robot, model: RmpModel, links: tuple[str, ...], radii: Array
) -> SelfSpheres:
    """Return the spheres of all links, and the pairs of links that must not collide.

    Adjacent links, pairs ignored in the robot's file (as in collision checks), and pairs that only
    watched joints move relative to each other, are omitted.

    Args:
        robot: the robot.
        model: model of the generated code.
        links: link of each of the model's spheres.
        radii: their radii [m], shape (s,).
    """
    bodies = link_bodies(robot)
    rows = list(model.sphere_rows)
    spheres = [np.column_stack((model.sphere_centres, radii))]
    ranges = {name: (links.index(name), links.index(name) + links.count(name)) for name in links}
    rigid = rigid_links(robot.tree)
    kinematics = Kinematics(robot.tree, base=robot.base_frame)
    for body in bodies:
        if body.name not in ranges and rigid[body.link] == rigid[robot.base_frame]:
            X = kinematics.pose(robot.home, body.link)
            ranges[body.name] = (len(rows), len(rows) + len(body.spheres))
            rows += [0] * len(body.spheres)
            centres = body.spheres[:, :3] @ X[:3, :3].T + X[:3, 3]
            spheres.append(np.column_stack((centres, body.spheres[:, 3])))
    pairs = []
    for i, j in checked_pairs(robot, bodies, AllowedCollisions()):
        a, b = ranges.get(bodies[i].name), ranges.get(bodies[j].name)
        if a is not None and b is not None:
            path = _path(model, rows[a[0]], rows[b[0]])
            if path:
                pairs.append(LinkPair(a, b, path))
    return SelfSpheres(tuple(rows), np.concatenate(spheres), tuple(pairs))


def _path(model: RmpModel, a: int, b: int) -> tuple[tuple[int, int], ...]:
    """Return the moving rows above exactly one of two rows."""
    moving = set(model.moving_rows)
    above_a, above_b = _above(model.arrays, a), _above(model.arrays, b)
    return tuple(
        (row, sign)
        for side, other, sign in ((above_a, above_b, 1), (above_b, above_a, -1))
        for row in side
        if row in moving and row not in other
    )


def _above(arrays: PackedArrays, row: int) -> list[int]:
    rows = []
    while row > 0:
        rows.append(row)
        row = int(arrays.parent[row])
    return rows
