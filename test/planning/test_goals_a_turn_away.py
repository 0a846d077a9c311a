# SPDX-License-Identifier: Apache-2.0
"""A goal whole turns away is where the robot stands, of continuous joints and of no others."""

from __future__ import annotations

import numpy as np
import pytest
from model.robot_samples import write_robot

import motion_nodes as mn
from motion_nodes.core.planning.industrial import SequenceItem, plan_sequence
from motion_nodes.core.planning.pipeline import plan
from motion_nodes.core.planning.planning_problem import PlanRequest
from motion_nodes.core.planning.tool_motions import ToolMotion
from motion_nodes.core.scene.checker import CollisionChecker

URDF = """<robot name="turner"><link name="post"/><link name="arm"/><link name="hand"/>
  <joint name="turn" type="continuous"><parent link="post"/><child link="arm"/>
    <axis xyz="0 0 1"/><limit velocity="1" effort="1"/></joint>
  <joint name="swing" type="revolute"><parent link="arm"/><child link="hand"/><origin xyz="1 0 0"/>
    <axis xyz="0 1 0"/><limit lower="-7" upper="7" velocity="1" effort="1"/></joint></robot>"""
ROBOT = {
    "format": 1,
    "name": "turner",
    "kind": "arm",
    "urdf": "tiny.urdf",
    "frames": {"base": "post", "tool": "hand"},
    "limits": {"acceleration": {"turn": 5.0, "swing": 5.0}},
    "named_states": {"home": {"turn": 0.0, "swing": 0.0}},
    "drives": [{"joints": ["turn", "swing"], "mode": "position", "stiffness": 10.0}],
    "sources": {"limits": "chosen", "drives": "chosen"},
}
TURN = 2.0 * np.pi


@pytest.fixture(scope="module")
def checker(tmp_path_factory: pytest.TempPathFactory) -> CollisionChecker:
    """The robot without obstacles."""
    file = write_robot(tmp_path_factory.mktemp("turner"), ROBOT, URDF)
    return CollisionChecker(mn.load_robot(file.parent).description, ("turn", "swing"))


@pytest.mark.parametrize("turns", [-3, 0, 1])
def test_a_continuous_joint_is_there(checker: CollisionChecker, turns: int) -> None:
    start = (3.0, -1.0)
    request = PlanRequest(checker, start, (mn.JointGoal((3.0 + turns * TURN, -1.0)),))
    found = plan(request)
    assert found.success, found.reason
    assert found.trajectory is not None
    np.testing.assert_allclose(found.trajectory.positions, [start], atol=1e-12)
    for motion in (ToolMotion.PTP, ToolMotion.LIN):
        sequence = plan_sequence([SequenceItem(request, motion, "hand")], effort_share=0.0)
        assert sequence.success, sequence.reason
        assert sequence.trajectory is not None
        assert np.ptp(sequence.trajectory.positions, axis=0).max() < 1e-9


def test_point_to_point_turns_continuous_joints_in_the_shorter_direction(
    checker: CollisionChecker,
) -> None:
    request = PlanRequest(checker, (3.0 + 2.0 * TURN, 0.5), (mn.JointGoal((-3.0, 0.5)),))
    found = plan_sequence([SequenceItem(request, ToolMotion.PTP, "hand")], effort_share=0.0)
    assert found.success, found.reason
    assert found.trajectory is not None
    assert found.trajectory.positions[-1, 0] == pytest.approx(3.0 * TURN - 3.0)


@pytest.mark.parametrize("turns", [-1, 1])
def test_a_joint_with_limits_makes_the_turn(checker: CollisionChecker, turns: int) -> None:
    start = (3.0, -0.5 * turns * TURN)
    goal = (3.0 + 2.0 * TURN, 0.5 * turns * TURN)
    found = plan(PlanRequest(checker, start, (mn.JointGoal(goal),)))
    assert found.success, found.reason
    assert found.trajectory is not None
    path = found.trajectory.positions
    np.testing.assert_allclose(path[-1] - path[0], (0.0, turns * TURN), atol=1e-9)
    assert np.ptp(path[:, 0]) < 0.1
