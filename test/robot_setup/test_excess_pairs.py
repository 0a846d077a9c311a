# SPDX-License-Identifier: Apache-2.0
"""Pairs of links whose spheres collide, but whose shapes never do, are checked by their shapes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scene.slider_robot import sliding_robot

from motion_nodes.core.robot.robot import Robot
from motion_nodes.extras.robot_setup.link_shapes import SelfCollisions, add_excess_pairs
from motion_nodes.extras.robot_setup.notes import Notes

GAP = 0.01
"""Distance at which the block of the slider passes the wall [m]."""


def passing(folder: Path, height: float) -> Robot:
    """Return a block that slides along a wall, whose spheres are 15 mm larger than its shape.

    Args:
        folder: for its files.
        height: of a bump of the wall, in the middle of the way [m].
    """
    box = '<collision><origin xyz="{0}"/><geometry><box size="{1}"/></geometry></collision>'
    wall = box.format("0 -0.1 0", "4 0.1 0.1")
    bump = box.format(f"0 {-0.05 + 0.5 * height} 0", f"0.1 {height} 0.1") if height else ""
    beside = box.format("0 1 0", "0.1 0.1 0.1")  # neighbours are not checked
    urdf = (
        f'<robot name="passing"><link name="wall">{wall}{bump}</link>'
        f'<link name="mid">{beside}</link>'
        f'<link name="block">{box.format("0 0 0", f"0.1 {0.1 - 2 * GAP} 0.1")}</link>'
        '<joint name="x" type="prismatic"><parent link="wall"/><child link="mid"/>'
        '<axis xyz="1 0 0"/><limit lower="-2" upper="2" velocity="1" effort="1"/></joint>'
        '<joint name="z" type="prismatic"><parent link="mid"/><child link="block"/>'
        '<axis xyz="0 0 1"/><limit lower="0" upper="0.01" velocity="1" effort="1"/></joint></robot>'
    )
    robot = sliding_robot(folder, urdf, {"x": 1.9, "z": 0.0}, ("wall", "block"))
    radius = 0.04 + GAP + 0.005
    wall_spheres = tuple((x, -0.1, 0.0, 0.05) for x in np.arange(-2.0, 2.0, 0.05).tolist())
    return replace(robot, spheres={"wall": wall_spheres, "block": ((0.0, 0.0, 0.0, radius),)})


@pytest.mark.parametrize(("height", "pairs"), [(0.0, [("wall", "block")]), (0.05, [])])
def test_only_pairs_without_a_collision_of_their_shapes_are_found(
    height: float, pairs: list[tuple[str, str]], tmp_path: Path
) -> None:
    found, findings = SelfCollisions(checked=[("wall", "block")]), Notes()
    rng = np.random.default_rng(0)
    added = add_excess_pairs(passing(tmp_path, height), found, (), rng, findings)
    assert (added, found.exact_only) == (bool(pairs), pairs)
    assert len(list(findings)) == len(pairs)


def test_pairs_whose_spheres_rarely_collide_stay_as_they_are(tmp_path: Path) -> None:
    robot = passing(tmp_path, 0.0)
    robot = replace(robot, spheres={**robot.spheres, "block": ((0.0, 0.0, 0.0, 0.01),)})
    found = SelfCollisions(checked=[("wall", "block")])
    assert not add_excess_pairs(robot, found, (), np.random.default_rng(0), Notes())
