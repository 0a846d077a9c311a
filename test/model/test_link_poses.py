# SPDX-License-Identifier: Apache-2.0
"""Poses of links, against generated kinematics."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from view.toy_robot import hand_made

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.link_poses import LinkPoses
from motion_nodes.core.robot.loader import available_robots, load_robot
from motion_nodes.core.robot.poses import to_quat_wxyz


@pytest.fixture
def toy():
    return hand_made()


def random_positions(model, count, seed=7):
    rng = np.random.default_rng(seed)
    lower = [max(model.tree.joint(name).lower, -3.0) for name in model.joint_names]
    upper = [min(model.tree.joint(name).upper, 3.0) for name in model.joint_names]
    return rng.uniform(lower, upper, (count, len(lower)))


def test_root_poses_equal_generic_kinematics(toy):
    oracle = Kinematics(toy.tree, generic=True)
    for q in random_positions(toy, 20):
        np.testing.assert_allclose(LinkPoses(toy.tree).in_root(q), oracle.frames(q), atol=1e-12)


@pytest.mark.parametrize("name", sorted(available_robots()))
def test_root_poses_of_shipped_robots(name):
    robot = load_robot(name)
    oracle = Kinematics(robot.tree, generic=True)
    for q in random_positions(robot, 5):
        np.testing.assert_allclose(LinkPoses(robot.tree).in_root(q), oracle.frames(q), atol=1e-12)


def test_mimic_follows_its_joint(toy):
    poses = LinkPoses(toy.tree)
    row = toy.tree.frame_names.index("twin")
    q = toy.home.copy()
    q[2] = 0.03
    # multiplier -2, offset 0.01, along z from 0.3 m
    assert poses.in_parent(q)[row, 2, 3] == pytest.approx(0.3 - 0.06 + 0.01)


def test_fixed_links_never_move(toy):
    poses = LinkPoses(toy.tree)
    moving = {toy.tree.frame_names[row] for row in poses.moving}
    assert moving == {"upper", "lower", "finger", "twin", "wheel"}
    first, second = (poses.in_parent(q) for q in random_positions(toy, 2))
    still = [row for row in range(len(first)) if row not in poses.moving]
    np.testing.assert_array_equal(first[still], second[still])


def test_quaternions_are_scalar_first_and_mean_the_same_rotation():
    rotations = Rotation.random(50, random_state=3)
    wxyz = to_quat_wxyz(rotations.as_matrix())
    assert to_quat_wxyz(np.eye(3)).tolist() == [1, 0, 0, 0]
    assert (wxyz[:, 0] >= 0).all()
    back = Rotation.from_quat(wxyz[:, [1, 2, 3, 0]])
    np.testing.assert_allclose(back.as_matrix(), rotations.as_matrix(), atol=1e-12)
