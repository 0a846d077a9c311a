# SPDX-License-Identifier: Apache-2.0
"""Arms of Universal Robots against the published tables."""

from __future__ import annotations

import numpy as np
import pytest

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy, multiply

PI = np.pi
ALPHA = (PI / 2, 0.0, 0.0, PI / 2, -PI / 2, 0.0)
TABLES = {
    "ur3e": (-0.24355, -0.2132, 0.15185, 0.13105, 0.08535, 0.0921),
    "ur5e": (-0.425, -0.3922, 0.1625, 0.1333, 0.0997, 0.0996),
    "ur10e": (-0.6127, -0.57155, 0.1807, 0.17415, 0.11985, 0.11655),
    "ur16e": (-0.4784, -0.36, 0.1807, 0.17415, 0.11985, 0.11655),
}
"""a2, a3, d1, d4, d5, d6 [m]: Universal Robots, article 45257."""
MASSES = {"ur3e": 8.7985, "ur16e": 27.26}
"""Sum of the masses of the links [kg], from the same article."""


@pytest.mark.parametrize("name", TABLES)
def test_base_to_tool_follows_the_published_denavit_hartenberg_table(name: str) -> None:
    """The manufacturer's frames are `base` and `tool0`."""
    a2, a3, d1, d4, d5, d6 = TABLES[name]
    robot = load_robot(name)
    kinematics = Kinematics(robot.tree)
    rows = zip((0.0, a2, a3, 0.0, 0.0, 0.0), (d1, 0.0, 0.0, d4, d5, d6), ALPHA, strict=True)
    links = [
        (from_xyz_rpy((0, 0, d), (0, 0, 0)), from_xyz_rpy((a, 0, 0), (alpha, 0, 0)))
        for a, d, alpha in rows
    ]
    for q in np.random.default_rng(11).uniform(-PI, PI, (20, 6)):
        turns = [from_xyz_rpy((0, 0, 0), (0, 0, angle)) for angle in q]
        expected = multiply(
            *(
                multiply(turn, along, across)
                for turn, (along, across) in zip(turns, links, strict=True)
            )
        )
        ours = np.linalg.inv(kinematics.pose(q, "base")) @ kinematics.pose(q, "tool0")
        np.testing.assert_allclose(ours, expected, atol=1e-9)


@pytest.mark.parametrize("name", MASSES)
def test_masses_are_those_that_are_published(name: str) -> None:
    tree = load_robot(name).tree
    moving = [j.child for j in tree.joints.values() if j.movable]
    masses = [tree.links[link].inertial.mass for link in moving]
    assert sum(masses) == pytest.approx(MASSES[name], abs=1e-4)


@pytest.mark.parametrize("name", TABLES)
def test_the_tool_points_down_in_ready(name: str) -> None:
    robot = load_robot(name)
    pose = Kinematics(robot.tree).pose(robot.named_state("ready"), "tool0")
    assert pose[2, 2] < -0.999
