# SPDX-License-Identifier: Apache-2.0
"""A point robot in a plane with obstacles, for visualization of planners.

The robot is a regular one with two prismatic joints, and uses the same checker and planners as an
arm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.planning.planning_problem import JointGoal, PlanRequest
from motion_nodes.core.planning.tree_search import SearchTree
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.robot_builder import assemble
from motion_nodes.core.robot.robot_yaml import RobotDescription
from motion_nodes.core.robot.tree import Box, Cylinder
from motion_nodes.core.robot.urdf import read_urdf
from motion_nodes.core.robot.yaml_schema import decode
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import WorldObject, world_object
from motion_nodes.core.scene.world import World
from motion_nodes.errors import InvalidConfig
from motion_nodes.typing import Array

HEIGHT = 0.2
"""Height of the obstacles [m]; the robot moves at half of it."""


@dataclass(frozen=True)
class Wall:
    """A box in the plane."""

    centre: tuple[float, float]
    """Centre [m]."""
    size: tuple[float, float]
    """Along x and y [m]."""


@dataclass(frozen=True)
class Pillar:
    """A disc in the plane."""

    centre: tuple[float, float]
    """Centre [m]."""
    radius: float
    """Radius [m]."""


Obstacle = Wall | Pillar


class PlanarWorld:
    """A rectangle with obstacles, and a round robot in it."""

    def __init__(
        self,
        obstacles: Sequence[Obstacle] = (),
        *,
        low: tuple[float, float] = (0.0, 0.0),
        high: tuple[float, float] = (10.0, 10.0),
        radius: float = 0.05,
        resolution: float = 0.01,
    ) -> None:
        """Create the world.

        Args:
            obstacles: the obstacles.
            low: min x and y [m].
            high: max x and y [m].
            radius: of the robot [m].
            resolution: max step between two checked places of an edge [m].

        Raises:
            InvalidConfig: bounds that leave no room, or a radius not above 0.
        """
        if not (low[0] < high[0] and low[1] < high[1] and radius > 0.0):
            raise InvalidConfig(
                f"no room between {low} and {high} for a robot of radius {radius} m.",
                field="radius",
            )
        self.obstacles, self.radius = tuple(obstacles), radius
        self.low, self.high = np.array(low, float), np.array(high, float)
        self.robot = _point_robot(low, high, radius)
        world = World()
        world.add(*(_solid(i, item) for i, item in enumerate(obstacles)))
        self.checker = CollisionChecker(self.robot, scene=world.scene, resolution=[resolution] * 2)

    def request(self, start: ArrayLike, goal: ArrayLike, **options: object) -> PlanRequest:
        """Return a request between two places [m]; options are those of PlanRequest."""
        return PlanRequest(self.checker, start, (JointGoal(goal),), **options)  # type: ignore[arg-type]

    def occupied(self, edge: float) -> NDArray[np.bool_]:
        """Return which cells contain a part of an obstacle at their centre, (rows, columns).

        Args:
            edge: of a cell [m]; rows are along y, columns along x, from the corner ``low``.
        """
        columns, rows = np.ceil((self.high - self.low) / edge - 1e-9).astype(int).tolist()
        y, x = np.mgrid[:rows, :columns]
        x, y = self.low[0] + (x + 0.5) * edge, self.low[1] + (y + 0.5) * edge
        found = np.zeros((rows, columns), np.bool_)
        for item in self.obstacles:
            dx, dy = x - item.centre[0], y - item.centre[1]
            if isinstance(item, Pillar):
                found |= np.hypot(dx, dy) <= item.radius
            else:
                found |= (abs(dx) <= 0.5 * item.size[0]) & (abs(dy) <= 0.5 * item.size[1])
        return found

    def picture(
        self,
        path: Array | None = None,
        trees: Sequence[SearchTree] = (),
        width: int = 600,
        others: Sequence[Array] = (),
    ) -> str:
        """Return obstacles, trees and path as SVG text.

        Args:
            path: places [m], shape (k, 2).
            trees: search trees, each in its own colour.
            width: of the picture [pixels].
            others: further paths, each in its own colour, shape (k, 2) each.
        """
        extent = self.high - self.low
        unit = float(extent.max())
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
            f'height="{width * extent[1] / extent[0]:.0f}" '
            f'viewBox="{self.low[0]:g} {-self.high[1]:g} {extent[0]:g} {extent[1]:g}">',
            # y points up in the plane and down in pictures.
            '<g transform="scale(1,-1)">',
            f'<rect x="{self.low[0]:g}" y="{self.low[1]:g}" width="{extent[0]:g}" '
            f'height="{extent[1]:g}" fill="#ffffff" stroke="#404040" '
            f'stroke-width="{unit / 200:g}"/>',
        ]
        parts += [_shape(item) for item in self.obstacles]
        for tree, colour in zip(trees, _colours(len(trees)), strict=True):
            parts.append(_edges(tree, colour, unit / 600))
        for other, colour in zip(others, _colours(len(others)), strict=True):
            parts.append(_line(other, colour, unit / 160))
        if path is not None and len(path):
            parts.append(_line(path, "#d62728", unit / 120))
            for place, colour in ((path[0], "#2ca02c"), (path[-1], "#d62728")):
                parts.append(
                    f'<circle cx="{place[0]:.4g}" cy="{place[1]:.4g}" r="{unit / 60:g}" '
                    f'fill="{colour}"/>'
                )
        return "\n".join([*parts, "</g>", "</svg>", ""])


def maze() -> PlanarWorld:
    """Return a world with walls that leave gaps at alternating ends, and pillars in between."""
    walls = [
        Wall((2.5, 3.5), (0.2, 7.0)),
        Wall((5.0, 6.5), (0.2, 7.0)),
        Wall((7.5, 3.5), (0.2, 7.0)),
    ]
    pillars = [Pillar((1.2, 6.0), 0.6), Pillar((3.8, 4.5), 0.5), Pillar((6.3, 5.5), 0.6)]
    return PlanarWorld([*walls, *pillars])


def _solid(number: int, item: Obstacle) -> WorldObject:
    X_WO = np.eye(4)
    X_WO[:2, 3] = item.centre
    if isinstance(item, Wall):
        return world_object(f"wall_{number + 1}", Box((*item.size, HEIGHT)), X_WO)
    return world_object(f"pillar_{number + 1}", Cylinder(item.radius, HEIGHT), X_WO)


def _shape(item: Obstacle) -> str:
    x, y = item.centre
    if isinstance(item, Pillar):
        return f'<circle cx="{x:g}" cy="{y:g}" r="{item.radius:g}" fill="#808080"/>'
    w, h = item.size
    return (
        f'<rect x="{x - 0.5 * w:g}" y="{y - 0.5 * h:g}" width="{w:g}" height="{h:g}" '
        'fill="#808080"/>'
    )


def _line(path: Array, colour: str, width: float) -> str:
    points = " ".join(f"{x:.4g},{y:.4g}" for x, y in path)
    return (
        f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width:g}" '
        'stroke-linejoin="round"/>'
    )


def _edges(tree: SearchTree, colour: str, width: float) -> str:
    lines = []
    for node, parent in zip(tree.nodes, tree.parents, strict=True):
        if parent >= 0:
            a = tree.nodes[parent]
            lines.append(f"M{a[0]:.4g} {a[1]:.4g}L{node[0]:.4g} {node[1]:.4g}")
    return f'<path d="{"".join(lines)}" fill="none" stroke="{colour}" stroke-width="{width:g}"/>'


def _colours(count: int) -> list[str]:
    known = ("#1f77b4", "#ff7f0e", "#9467bd", "#17becf")
    return [known[i % len(known)] for i in range(count)]


def _point_robot(low: Sequence[float], high: Sequence[float], radius: float) -> Robot:
    joints = "".join(
        f'<joint name="{axis}" type="prismatic"><parent link="{parent}"/><child link="{child}"/>'
        f'<axis xyz="{direction}"/><limit lower="{lower}" upper="{upper}" velocity="1" '
        'effort="1"/></joint>'
        for axis, parent, child, direction, lower, upper in (
            ("x", "plane", "rail", "1 0 0", low[0], high[0]),
            ("y", "rail", "point", "0 1 0", low[1], high[1]),
        )
    )
    urdf = (
        '<robot name="point_robot"><link name="plane"/><link name="rail"/><link name="point"/>'
        f"{joints}</robot>"
    )
    where = "the planar world's robot"
    home = {"x": 0.5 * (low[0] + high[0]), "y": 0.5 * (low[1] + high[1])}
    data = {
        "format": 1,
        "name": "point_robot",
        "kind": "arm",
        "urdf": "point_robot.urdf",
        "frames": {"base": "plane", "tool": "point"},
        "groups": {"point": {"joints": ["x", "y"], "base": "plane", "tip": "point"}},
        "limits": {"acceleration": {"x": 2.0, "y": 2.0}, "jerk": {"x": 20.0, "y": 20.0}},
        "named_states": {"home": home},
        "drives": [{"joints": ["x", "y"], "mode": "position", "stiffness": 100.0, "damping": 20.0}],
        "sources": {"limits": "a demonstration", "drives": "a demonstration"},
    }
    description = decode(data, RobotDescription, where)
    spheres = {"point": ((0.0, 0.0, 0.0, float(radius)),)}
    return assemble(Path(where), description, read_urdf(urdf, where), urdf, spheres)
