# SPDX-License-Identifier: Apache-2.0
"""Inputs of the articulation graph: priorities, selection, all or nothing."""

import numpy as np
import pytest
from raised_errors import about

from motion_nodes.core.control.graph_inputs import GraphInputs
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.errors import InvalidCommand, UnknownJoint

ONES = np.ones(3)
LIMITS = JointLimits(
    ("a", "b", "c"), -3 * ONES, 3 * ONES, 2 * ONES, 50 * ONES, 8 * ONES, 1000 * ONES
)
NAN = float("nan")


def positions(**inputs):
    command = GraphInputs(**inputs).command(LIMITS)
    return None if command is None else command.positions.tolist()


def test_the_path_wins_over_the_prim():
    robots = {"left": 1, "right": 2}
    assert GraphInputs(robot_path="/left", target_prim="/right").target(robots) == 1
    assert GraphInputs(target_prim="right").target(robots) == 2
    assert GraphInputs(robot_path="/left/").target(robots) == 1
    with pytest.raises(InvalidCommand):
        GraphInputs(robot_path="/lift", target_prim="/right").target(robots)
    with pytest.raises(InvalidCommand):
        GraphInputs().target(robots)


def test_one_robot_needs_no_name_but_a_wrong_one_is_told():
    assert GraphInputs().target({"": 7}) == 7
    assert GraphInputs(robot_path="/").target({"": 7}) == 7
    with pytest.raises(InvalidCommand):
        GraphInputs(target_prim="arm").target({"": 7})


def test_names_win_over_indices_and_neither_means_all():
    given = {"position_command": (0.5,)}
    both = positions(joint_names=("b",), joint_indices=(2,), **given)
    np.testing.assert_array_equal(both, [NAN, 0.5, NAN])
    np.testing.assert_array_equal(positions(joint_indices=(2,), **given), [NAN, NAN, 0.5])
    assert positions(position_command=(0.1, 0.2, 0.3)) == [0.1, 0.2, 0.3]


def test_index_zero_alone_is_joint_zero():
    found = positions(joint_indices=(0,), position_command=(0.5,))
    np.testing.assert_array_equal(found, [0.5, NAN, NAN])


def test_nan_is_skipped_and_nothing_is_nothing():
    np.testing.assert_array_equal(positions(position_command=(0.1, NAN, 0.3)), [0.1, NAN, 0.3])
    assert positions(position_command=(NAN, NAN, NAN)) is None
    assert positions() is None
    assert positions(joint_names=("a",)) is None


@pytest.mark.parametrize(
    ("inputs", "error", "text"),
    [
        ({"position_command": (0.1, 0.2)}, InvalidCommand, "positions"),
        ({"position_command": (0.1, 0.2, 0.3), "velocity_command": (0.0,)}, InvalidCommand,
         "velocities"),
        ({"joint_names": ("d",), "position_command": (0.1,)}, UnknownJoint, "d"),
        ({"joint_indices": (3,), "position_command": (0.1,)}, InvalidCommand, "indices"),
        ({"joint_indices": (0, 0), "position_command": (0.1, 0.1)}, InvalidCommand, "a"),
        ({"joint_indices": (0,), "position_command": (0.1,), "effort_command": (1.0,)},
         InvalidCommand, "efforts"),
        ({"position_command": (9.0, 0.0, 0.0)}, InvalidCommand, "a"),
        ({"velocity_command": (float("inf"), 0.0, 0.0)}, InvalidCommand, "a"),
    ],
)  # fmt: skip
def test_one_wrong_input_and_there_is_no_command(inputs, error, text):
    with pytest.raises(error, check=about(text)):
        GraphInputs(**inputs).command(LIMITS)


def test_position_and_velocity_go_together():
    command = GraphInputs(joint_names=("c",), position_command=(0.1,), velocity_command=(0.2,))
    checked = command.command(LIMITS)
    assert (checked.positions[2], checked.velocities[2]) == (0.1, 0.2)
