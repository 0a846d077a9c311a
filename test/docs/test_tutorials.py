# SPDX-License-Identifier: Apache-2.0
"""The tutorials, executed in order, have the results that they state."""

import json

import numpy as np
import pytest
from tutorial_run import TUTORIALS, Reader

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def reader(module_suite, tmp_path_factory):
    person = Reader(module_suite, tmp_path_factory.mktemp("tutorials"))
    yield person
    person.close()


@pytest.mark.long
def test_drive_a_base(reader):
    reader.follow("drive_a_base")
    where = [reader.last("odometry.csv", f"pose.pose.position.{axis}") for axis in "xy"]
    assert np.allclose(where, [0.3, 0.0], atol=0.06)


def test_reach_a_pose(reader):
    reader.follow("reach_a_pose")
    robot = load_robot("franka")
    q = [reader.last("arm.csv", f"{joint}.position") for joint in robot.joint_names]
    hand = Kinematics(robot.tree).pose(q, "panda_hand_tcp")
    assert np.allclose(hand[:3, 3], [0.5, 0.1, 0.4], atol=3e-3)
    assert np.allclose(hand[:3, 2], [0, 0, -1], atol=0.02)


@pytest.mark.long
def test_follow_a_target(reader):
    reader.follow("follow_a_target")


@pytest.mark.long
def test_plan_around_a_shelf(reader):
    reader.follow("plan_around_a_shelf")
    motion = json.loads((reader.folder / "shelf.json").read_text())
    robot = load_robot("franka")
    q = robot.home.copy()
    q[:7] = motion["points"][-1]["positions"]
    hand = Kinematics(robot.tree).pose(q, "panda_hand_tcp")
    assert np.allclose(hand[:3, 3], [0.6, 0.2, 0.45], atol=2e-3)
    assert len(motion["points"]) > 50
    assert (reader.folder / "shelf.svg").read_text().startswith("<")


@pytest.mark.long
def test_bring_your_robot(reader):
    reader.follow("bring_your_robot")
    assert reader.last("move.csv", "turn.position") == pytest.approx(0.4, abs=0.02)
    assert reader.last("move.csv", "lift.position") == pytest.approx(0.3, abs=0.02)


@pytest.mark.long
def test_connect_a_real_arm(reader):
    reader.follow("connect_a_real_arm")
    assert reader.last("streamed.csv", "panda_joint1.position") == pytest.approx(0.1, abs=0.02)


def test_every_tutorial_is_followed_here():
    for page in TUTORIALS.glob("*.md"):
        assert f"test_{page.stem}" in globals()
