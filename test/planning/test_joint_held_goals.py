# SPDX-License-Identifier: Apache-2.0
"""Goals of a pose together with ranges of some joints."""

from __future__ import annotations

import numpy as np
import pytest
from barrier_scene import GOAL, START, TARGET, barrier_checker, franka

from motion_nodes.core.ik.problem import IkTolerance, pose_error
from motion_nodes.core.planning.goal_sampling import (
    GoalConfigurations,
    GoalOptions,
    goal_configurations,
)
from motion_nodes.core.planning.pipeline import plan
from motion_nodes.core.planning.planning_problem import JointGoal, PlanRequest, PlanStatus, PoseGoal
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.typing import Array

HAND = "panda_hand"
EXACTLY = IkTolerance(1e-4, 1e-3)
SPACE = CollisionChecker(franka(), "arm")


def hold(**ranges: tuple[float, float]) -> JointGoal:
    """Return a goal with ranges of some joints; all others are free."""
    low, high = SPACE.limits.lower.copy(), SPACE.limits.upper.copy()
    for name, (least, most) in ranges.items():
        low[SPACE.joint_names.index(name)] = least
        high[SPACE.joint_names.index(name)] = most
    q = np.clip(START, low, high)
    return JointGoal(q, below=q - low, above=high - q)


def found(goal: PoseGoal, checker: CollisionChecker = SPACE) -> GoalConfigurations:
    return goal_configurations(PlanRequest(checker, START, (goal,), timeout=60.0), START)


def hand(q: Array) -> Array:
    fingers = dict.fromkeys(("panda_finger_joint1", "panda_finger_joint2"), 0.04)
    return Kinematics(franka().tree, SPACE.joint_names, fixed=fingers).pose(q, HAND)


@pytest.mark.parametrize("seed", range(12))
def test_the_pose_is_found_with_the_joint_where_it_is_to_be(seed: int) -> None:
    """By construction a configuration with that joint value exists."""
    rng = np.random.default_rng(seed)
    while True:
        q = rng.uniform(SPACE.limits.lower, SPACE.limits.upper)
        if SPACE.is_free(q):
            break
    held = int(rng.integers(7))
    room = float(rng.choice([0.0, 0.02]))
    name = SPACE.joint_names[held]
    goal = PoseGoal(HAND, hand(q), EXACTLY, joints=hold(**{name: (q[held] - room, q[held] + room)}))
    result = found(goal)
    assert result.status is None, result.reason
    assert SPACE.are_free(result.Q).all()
    assert np.abs(result.Q[:, held] - q[held]).max() <= room + 1e-9
    for each in result.Q:
        assert EXACTLY.accepts(pose_error(hand(each), goal.X_BT))


def test_a_plan_ends_with_both() -> None:
    checker = barrier_checker()
    asked = PoseGoal(HAND, TARGET, EXACTLY, joints=hold(panda_joint3=(-0.4, 0.4)))
    planned = plan(PlanRequest(checker, START, (asked,), timeout=60.0))
    assert planned.trajectory is not None, planned.reason
    end = planned.trajectory.positions[-1]
    assert abs(end[2]) <= 0.4 + 1e-9
    assert EXACTLY.accepts(pose_error(hand(end), TARGET))


def test_a_contradiction_is_named() -> None:
    # With a straight elbow the hand reaches beyond the pose.
    asked = PoseGoal(HAND, TARGET, EXACTLY, joints=hold(panda_joint4=(-0.15, -0.1)))
    result = found(asked)
    assert result.status is PlanStatus.GOAL_UNREACHABLE
    assert "contradict each other" in result.reason
    assert "panda_joint4 in [-0.15, -0.1]" in result.reason
    assert "panda_joint2" not in result.reason


def test_what_is_out_of_reach_anyway_is_not_called_a_contradiction() -> None:
    far = TARGET.copy()
    far[:3, 3] = (3.0, 0.0, 0.0)
    result = found(PoseGoal(HAND, far, joints=hold(panda_joint1=(0.0, 0.1))))
    assert result.status is PlanStatus.GOAL_UNREACHABLE
    assert "reaches" in result.reason
    assert "contradict" not in result.reason


def test_joints_beyond_their_limits_or_not_finite_are_told() -> None:
    bad = GOAL.copy()
    bad[3] = 2.0
    result = found(PoseGoal(HAND, TARGET, joints=JointGoal(bad, 0.1, 0.1)))
    assert result.status is PlanStatus.GOAL_OUTSIDE_LIMITS
    assert "panda_joint4 is 2" in result.reason
    result = found(PoseGoal(HAND, TARGET, joints=JointGoal(bad * np.nan)))
    assert result.status is PlanStatus.GOAL_OUTSIDE_LIMITS


def test_joints_that_do_not_move_the_link_go_where_they_are_to_be() -> None:
    checker = CollisionChecker(franka())
    start = np.concatenate([START, [0.03, 0.02]])
    low, high = checker.limits.lower.copy(), checker.limits.upper.copy()
    low[7:], high[7:] = 0.005, 0.01
    q = np.clip(start, low, high)
    asked = PoseGoal(HAND, TARGET, EXACTLY, joints=JointGoal(q, q - low, high - q))
    # The first look at this chain compiles, on a busy machine for more than the usual second.
    options = GoalOptions(patience=30.0)
    request = PlanRequest(checker, start, (asked,), timeout=60.0)
    result = goal_configurations(request, start, options)
    assert result.status is None, result.reason
    assert (result.Q[:, 7:] == 0.01).all()
