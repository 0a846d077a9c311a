# SPDX-License-Identifier: Apache-2.0
"""Motions of the demo's arm, without a node: the tool keeps its pose or follows its path."""

from __future__ import annotations

import re

import numpy as np
import pytest

from motion_nodes.core.ik.tool_goal import ArticulationIk
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.nodes.demo.arm import deviation, eased, elbow_round, retraction
from motion_nodes.nodes.demo.shows import SHOWS, show_of

FRANKA = load_robot("franka")
HOME = FRANKA.home[:7]


@pytest.fixture(scope="module")
def ik() -> ArticulationIk:
    return ArticulationIk(FRANKA, "arm")


def between(motion, parts: int = 20) -> np.ndarray:
    """Joint positions on the cubic segments by which a controller interpolates rows."""
    rows = []
    for i in range(len(motion.times) - 1):
        h = motion.times[i + 1] - motion.times[i]
        for s in np.linspace(0.0, 1.0, parts):
            rows.append(
                (1 + 2 * s) * (1 - s) ** 2 * motion.positions[i]
                + s * (1 - s) ** 2 * h * motion.velocities[i]
                + s**2 * (3 - 2 * s) * motion.positions[i + 1]
                + s**2 * (s - 1) * h * motion.velocities[i + 1]
            )
    return np.array(rows)


def test_the_elbow_moves_and_the_tool_stays(ik):
    kinematics, tip = ik.chain.kinematics, ik.chain.tip
    legs = elbow_round(ik.chain, HOME)
    assert len(legs) == 4
    elbow = [kinematics.pose(leg[-1], "panda_link4")[:3, 3] for leg in (legs[0], legs[2])]
    assert np.linalg.norm(elbow[0] - elbow[1]) > 0.25, "to either side"
    assert np.array_equal(legs[1][-1], HOME)
    for leg in legs:
        motion = eased(leg, 0.3)
        distance, angle = deviation(ik.tool_pose(HOME), kinematics.pose_batch(between(motion), tip))
        assert distance < 1e-4
        assert angle < 1e-4


def test_eased_motions_begin_and_end_at_rest_within_their_speed(ik):
    leg = elbow_round(ik.chain, HOME)[0]
    motion = eased(leg, 0.3)
    assert motion.times[0] == 0.0
    assert (np.diff(motion.times) > 0.0).all()
    assert np.abs(motion.velocities[[0, -1]]).max() < 1e-12
    fastest = np.abs(np.diff(leg, axis=0)).max(axis=1) / np.diff(motion.times)
    assert 0.27 < fastest.max() < 0.301
    slopes = np.gradient(leg, motion.times, axis=0)[1:-1]
    assert np.abs(motion.velocities[1:-1] - slopes).max() < 0.02


def test_the_tool_is_drawn_back_in_even_steps(ik):
    rows = retraction(ik, HOME, step=0.02, count=8)
    poses = ik.chain.kinematics.pose_batch(rows, ik.chain.tip)
    steps = np.diff(poses[:, :3, 3], axis=0)
    assert np.allclose(steps, -0.02 * poses[0, :3, 2], atol=5e-6)
    assert np.abs(poses[:, :3, :3] - poses[0, :3, :3]).max() < 5e-6
    assert np.abs(np.diff(rows, axis=0)).max() < 0.1, "no jumps"
    motion = between(eased(rows[:2], 0.3))
    on_the_way = ik.chain.kinematics.pose_batch(motion, ik.chain.tip)[:, :3, 3] - poses[0, :3, 3]
    beside = on_the_way - np.outer(on_the_way @ poses[0, :3, 2], poses[0, :3, 2])
    assert np.linalg.norm(beside, axis=1).max() < 1e-3


def test_a_retraction_out_of_reach_says_at_which_step(ik):
    with pytest.raises(MotionError, match=r"step \d+") as caught:
        retraction(ik, HOME, step=0.1, count=12)
    k = int(re.findall(r"\d+", str(caught.value))[0])
    assert len(retraction(ik, HOME, step=0.1, count=k - 1)) == k, "the steps before it"


def test_an_arm_without_a_spare_joint_has_no_such_elbow():
    ur = ArticulationIk(load_robot("ur10e"), "arm")
    with pytest.raises(InvalidConfig):
        elbow_round(ur.chain, np.array([0.3, -1.2, 1.4, -0.9, 1.1, 0.4]))


def test_shows_by_name():
    one, several = {"elbow", "retract", "surprise", "walk"}, {"bring", "drawer", "party", "factory"}
    assert set(SHOWS) == {"follow", "journey"} | one | several
    with pytest.raises(MotionError, match="'elbow'"):
        show_of("elbw")
