# SPDX-License-Identifier: Apache-2.0
"""Planning to poses with arms of fewer than six joints: unreachable axes are left free."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import motion_nodes as mn
from motion_nodes.core.ik.problem import IkTolerance
from motion_nodes.core.planning.planning_problem import PlanStatus, PoseGoal
from motion_nodes.core.robot.poses import rotation_about


@pytest.fixture(scope="module")
def arm() -> mn.JointGroup:
    return mn.load_robot("so101")["arm"]


def turned(arm: mn.JointGroup, axis: list[float], angle: float) -> np.ndarray:
    """Return the tip's pose in ``ready``, turned about one of its axes."""
    X = arm.fk(arm.state("ready")).copy()
    X[:3, :3] = X[:3, :3] @ rotation_about(np.array(axis), np.array(angle))
    return X


def end_of_plan(arm: mn.JointGroup, X: np.ndarray, *, relaxed: bool) -> np.ndarray:
    """Check that a plan reaches the position and notes relaxation; return the tip's final pose."""
    plan = arm.plan("home", X)
    assert plan.result.success
    assert any("5 joints" in note for note in plan.notes) == relaxed
    end = arm.fk(plan.result.path[-1])
    np.testing.assert_allclose(end[:3, 3], X[:3, 3], atol=1e-3)
    return end


def test_a_pose_that_five_joints_reach_is_reached_exactly(arm: mn.JointGroup) -> None:
    X = arm.fk([0.4, -0.7, 0.6, 0.8, 0.9])
    np.testing.assert_allclose(end_of_plan(arm, X, relaxed=False), X, atol=0.012)


def test_an_orientation_is_nearly_reached(arm: mn.JointGroup) -> None:
    """The last joint's axis is 8 mm beside the tip, so that its roll tilts the tip's axis."""
    X = turned(arm, [0.0, 0.0, 1.0], 0.7)
    end = end_of_plan(arm, X, relaxed=True)
    np.testing.assert_allclose(end[:3, :3], X[:3, :3], atol=0.05)


def test_the_rotation_about_the_approach_axis_is_left_free(arm: mn.JointGroup) -> None:
    """A rotation by 3.05 rad is outside the range of the last joint."""
    X = turned(arm, [0.0, 0.0, 1.0], 3.05)
    end = end_of_plan(arm, X, relaxed=True)
    np.testing.assert_allclose(end[:3, 2], X[:3, 2], atol=0.012)


def test_tolerances_that_the_client_gave_per_axis_are_kept(arm: mn.JointGroup) -> None:
    X = turned(arm, [0.0, 0.0, 1.0], 3.05)
    goal = PoseGoal("gripper_frame_link", X, IkTolerance(1e-3, (0.02, 0.02, 0.01)))
    result = arm.plan("home", goal, options=mn.PlanOptions(preferred_clearance=0.0)).result
    assert result.status is PlanStatus.GOAL_UNREACHABLE
    wide = dataclasses.replace(goal, tolerance=IkTolerance(1e-3, (0.02, 0.02, np.inf)))
    assert arm.plan("home", wide).result.success
