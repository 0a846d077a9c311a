# SPDX-License-Identifier: Apache-2.0
"""Reachability maps, and motion reach."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

import motion_nodes as mn
from motion_nodes.errors import InvalidCommand, InvalidConfig

FRANKA = mn.load_robot("franka")
ARM = FRANKA["arm"]
DOWN = np.diag([1.0, -1.0, -1.0])


def test_a_map_agrees_with_the_reach_of_the_arm():
    """By the data sheet: nothing beyond 0.855 m from the shoulder plus the length of the hand."""
    found = mn.reachability_map(ARM, "xz", step=0.2, directions=12)
    assert found.share.shape == (len(found.second), len(found.first))
    x, z = np.meshgrid(found.first, found.second)
    distance = np.hypot(x, z - 0.333)
    assert not found.share[distance > 0.855 + 0.22].any()
    assert found.share[(distance > 0.4) & (distance < 0.6) & (z > 0.2)].min() > 0.5
    blocked = mn.World()
    blocked.add("shelf", mn.Box(3.0, 3.0, 0.1), mn.pose(xyz=(0.0, 0.0, 1.3)))
    fewer = mn.reachability_map(ARM, "xz", step=0.2, directions=12, world=blocked)
    assert (fewer.share <= found.share + 1e-9).all()
    assert fewer.share.sum() < found.share.sum()


def test_one_orientation_is_that_of_inverse_kinematics():
    found = mn.reachability_map(ARM, "xy", 0.3, step=0.25, orientation=DOWN)
    assert set(np.unique(found.share)) == {0.0, 1.0}
    for row, y in zip(found.share, found.second, strict=True):
        for share, x in zip(row, found.first, strict=True):
            X = np.eye(4)
            X[:3, :3], X[:3, 3] = DOWN, (x, y, 0.3)
            if np.hypot(x, y) < 0.6:
                assert bool(share) == ARM.ik(X).success, (x, y)


def test_what_cannot_be_mapped():
    for error, fields in (
        (InvalidCommand, {"plane": "zx"}),
        (InvalidCommand, {"step": 0.0}),
        (InvalidCommand, {"step": 1e-4}),
        (InvalidCommand, {"offset": np.nan}),
        (InvalidCommand, {"directions": 0}),
        (InvalidCommand, {"orientation": 2.0 * DOWN}),
    ):
        with pytest.raises(error):
            mn.reachability_map(ARM, **fields)
    with pytest.raises(InvalidConfig):
        mn.reachability_map(FRANKA["gripper"])


def test_the_picture_shows_a_cell_for_each_point_that_is_reached(motion, tmp_path):
    picture = tmp_path / "reach.svg"
    done = motion("reach", "franka", "--step", "0.3", "--directions", "4", "-o", str(picture))
    assert done.code == 0, done.text
    drawn = ElementTree.parse(picture).getroot().iter()
    cells = [e for e in drawn if {"x", "fill"} <= set(e.keys()) and "stroke" not in e.keys()]
    cells = [e for e in cells if e.tag.endswith("rect")]
    assert f"{len(cells)} of " in done.text
    assert motion("reach", "franka", "-o", "reach.gif").code != 0
    assert "Did you mean 'xz'" in motion("reach", "franka", "--plane", "xzz").text
