# SPDX-License-Identifier: Apache-2.0
"""Trajectories as actions of an articulation."""

import numpy as np
import pytest
from raised_errors import about
from trajectory.retime_limits import limits_of

from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.core.trajectory.time_parameterization import retime
from motion_nodes.errors import InvalidCommand, InvalidConfig, UnknownJoint
from motion_nodes.extras.compat.path_planner import ArticulationTrajectory

ROBOT = ("joint3", "joint2", "finger", "joint1")


def made():
    limits = limits_of([1.0, 1.0, 1.0], 5.0)
    return retime([[0.0, 0.0, 0.0], [0.3, -0.2, 0.1]], limits)


def test_interface_of_trajectories():
    trajectory = made()
    assert trajectory.active_joints == ("joint1", "joint2", "joint3")
    assert trajectory.get_active_joints() == ["joint1", "joint2", "joint3"]
    assert trajectory.duration == trajectory.end_time - trajectory.start_time
    for targets in (trajectory.joint_targets(0.1), trajectory.get_joint_targets(0.1)):
        np.testing.assert_array_equal(targets[0], trajectory.sample(0.1).position)
        np.testing.assert_array_equal(targets[1], trajectory.sample(0.1).velocity)
    points = JointTrajectory(("a",), [1.0, 3.0], [[0.0], [1.0]])
    assert points.duration == 2.0
    assert len(points.get_joint_targets(2.0)) == 2


def test_actions_name_the_joints_of_the_robot():
    trajectory = made()
    articulation = ArticulationTrajectory(ROBOT, trajectory)
    action = articulation.get_action_at_time(trajectory.end_time)
    robot = np.zeros(4)
    robot[action.joint_indices] = action.joint_positions
    np.testing.assert_allclose(robot, [0.1, -0.2, 0.0, 0.3], atol=1e-12)
    np.testing.assert_allclose(action.joint_velocities, 0.0, atol=1e-9)
    first = articulation.get_initial_action()
    np.testing.assert_array_equal(first.joint_positions, np.zeros(3))
    assert articulation.get_active_joints_subset() == ("joint1", "joint2", "joint3")
    assert articulation.get_robot_articulation() == ROBOT
    assert articulation.get_trajectory_duration() == trajectory.duration


@pytest.mark.parametrize("step", [None, 0.01, 1.0 / 60.0, 0.0301, 10.0])
def test_sequences_include_the_end(step):
    trajectory = made()
    articulation = ArticulationTrajectory(ROBOT, trajectory, physics_dt=0.02)
    actions = articulation.get_action_sequence(step)
    assert len(actions) == int(np.ceil(trajectory.duration / (step or 0.02) - 1e-9)) + 1
    np.testing.assert_allclose(actions[0].joint_positions, np.zeros(3))
    np.testing.assert_allclose(actions[-1].joint_positions, [0.3, -0.2, 0.1], atol=1e-12)


def test_what_makes_no_sense_is_refused():
    trajectory = made()
    articulation = ArticulationTrajectory(ROBOT, trajectory)
    for time in (-0.001, trajectory.end_time + 0.001, float("nan")):
        with pytest.raises(ValueError, check=about("time")):
            articulation.get_action_at_time(time)
    for step in (0.0, -1.0, float("nan")):
        with pytest.raises(InvalidCommand):
            articulation.get_action_sequence(step)
        with pytest.raises(InvalidConfig, check=about("physics_dt")):
            ArticulationTrajectory(ROBOT, trajectory, step)
    with pytest.raises(UnknownJoint, check=about("joint1")):
        ArticulationTrajectory(("joint2", "joint3"), trajectory)
