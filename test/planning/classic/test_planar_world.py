# SPDX-License-Identifier: Apache-2.0
"""Pictures of the planar world with the trees and paths of the planners."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest
from raised_errors import about

from motion_nodes.core.planning.planar_world import PlanarWorld, maze
from motion_nodes.core.planning.rrt import Rrt, RrtSettings, RrtStar, RrtStarSettings
from motion_nodes.core.planning.rrt_connect import RrtConnect
from motion_nodes.errors import InvalidConfig

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(
    "planner",
    [
        Rrt(RrtSettings(step_size=0.5)),
        RrtStar(RrtStarSettings(step_size=0.5, max_iterations=1500)),
        RrtConnect(),
    ],
)
def test_tree_and_path_stand_in_the_picture(planner: Rrt | RrtStar | RrtConnect) -> None:
    world = maze()
    result = planner.plan(world.request((0.5, 0.5), (9.5, 0.5), timeout=60.0))
    tree = planner.tree()
    assert result.path is not None
    assert tree is not None
    root = ElementTree.fromstring(world.picture(result.path, [tree]))
    edges = root.find(f".//{SVG}path")
    line = root.find(f".//{SVG}polyline")
    assert edges is not None
    assert line is not None
    assert edges.attrib["d"].count("M") == int((tree.parents >= 0).sum())
    assert len(line.attrib["points"].split()) == len(result.path)
    obstacles = [e for e in root.iter() if e.attrib.get("fill") == "#808080"]
    assert len(obstacles) == len(world.obstacles)


def test_world_without_room_is_refused() -> None:
    with pytest.raises(InvalidConfig):
        PlanarWorld(low=(1.0, 1.0), high=(1.0, 2.0))
    with pytest.raises(InvalidConfig, check=about("radius")):
        PlanarWorld(radius=0.0)
