# SPDX-License-Identifier: Apache-2.0
"""Start and goals: errors of invalid ones, configurations of valid ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from barrier_scene import GOAL, START, TARGET, at, barrier_checker, franka
from raised_errors import about

from motion_nodes.core.ik.problem import IkTolerance, pose_error
from motion_nodes.core.planning.goal_sampling import (
    GoalConfigurations,
    GoalOptions,
    goal_configurations,
)
from motion_nodes.core.planning.planning_problem import (
    Goal,
    JointGoal,
    PlanRequest,
    PlanStatus,
    PoseGoal,
)
from motion_nodes.core.planning.start_state import START_TOLERANCE, check_initial_end, check_start
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.errors import InvalidCommand, InvalidConfig, UnknownFrame
from motion_nodes.typing import Array

HAND = "panda_hand"


def found(
    *goals: Goal, checker: CollisionChecker | None = None, **options: object
) -> GoalConfigurations:
    request = PlanRequest(checker or barrier_checker(), START, goals, **options)  # type: ignore[arg-type]
    return goal_configurations(request, START)


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Compile the sampler's kernels, so that no timeout includes their compilation."""
    found(PoseGoal(HAND, TARGET, IkTolerance(1e-4, 1e-3)), timeout=100.0)


def hand_poses(Q: Array) -> Array:
    fingers = {"panda_finger_joint1": 0.04, "panda_finger_joint2": 0.04}
    kinematics = Kinematics(franka().tree, franka().group("arm").joints, fixed=fingers)
    return kinematics.pose_batch(Q, HAND)


def test_start_a_hair_outside_its_limits_is_taken_to_the_limit() -> None:
    checker = barrier_checker()
    start = START.copy()
    start[5] = checker.limits.upper[5] + 1e-8
    checked = check_start(checker, start)
    assert checked.status is None
    assert checked.q[5] == checker.limits.upper[5]
    assert checked.clipped == pytest.approx(1e-8)
    start[5] += 2 * START_TOLERANCE
    refused = check_start(checker, start)
    assert refused.status is PlanStatus.START_OUTSIDE_LIMITS
    assert "panda_joint6" in refused.reason
    assert f"{checker.limits.upper[5]:.6g}" in refused.reason


def test_start_in_collision_names_the_pair_and_how_deep() -> None:
    checker = barrier_checker()
    inside = START.copy()
    inside[0] = math.pi / 2
    inside[3] = -1.5
    checked = check_start(checker, inside)
    assert checked.status is PlanStatus.START_IN_COLLISION
    assert "left" in checked.reason
    assert "mm deep" in checked.reason


def test_start_that_is_not_known_is_told() -> None:
    start = START.copy()
    start[2] = np.nan
    checked = check_start(barrier_checker(), start)
    assert checked.status is PlanStatus.START_OUTSIDE_LIMITS
    assert "panda_joint3" in checked.reason
    with pytest.raises(InvalidCommand):
        check_start(barrier_checker(), START[:3])


def test_check_of_start_and_end_says_which_is_wrong() -> None:
    checker = barrier_checker()
    assert check_initial_end(checker, START, GOAL) == ()
    bad = GOAL.copy()
    bad[3] = 1.0
    (words,) = check_initial_end(checker, START, bad)
    assert words.startswith("the end is outside the limits: panda_joint4")


def test_joint_goal_is_kept_to_the_bit() -> None:
    result = found(JointGoal(GOAL))
    assert result.status is None
    assert (result.Q == GOAL).all()
    assert result.index == (0,)


def test_joint_goal_on_a_limit_by_rounding_is_taken_to_it() -> None:
    limit = barrier_checker().limits.upper
    goal = START.copy()
    goal[5] = limit[5] + 1e-7
    assert found(JointGoal(goal)).Q[0, 5] == limit[5]


def test_tolerances_of_joints_give_several_goals_within_them() -> None:
    below, above = np.full(7, 0.3), np.linspace(0.0, 0.6, 7)
    result = found(JointGoal(GOAL, below, above))
    assert len(result.Q) == GoalOptions().configurations
    assert (result.Q[0] == GOAL).all()
    assert (result.Q >= GOAL - below - 1e-12).all()
    assert (result.Q <= GOAL + above + 1e-12).all()
    again = found(JointGoal(GOAL, below, above))
    np.testing.assert_array_equal(result.Q, again.Q)


def test_tolerances_lead_out_of_a_collision() -> None:
    stuck = START.copy()
    stuck[0], stuck[3] = math.pi / 2, -1.5
    alone = found(JointGoal(stuck))
    assert alone.status is PlanStatus.GOAL_IN_COLLISION
    assert "left" in alone.reason
    wide = found(JointGoal(stuck, 1.2, 1.2))
    assert wide.status is None
    assert barrier_checker().are_free(wide.Q).all()


def test_pose_goal_gives_several_solutions_that_are_free_and_exact() -> None:
    checker = barrier_checker()
    tolerance = IkTolerance(1e-4, 1e-3)
    result = found(PoseGoal(HAND, TARGET, tolerance), timeout=20.0)
    assert result.status is None
    assert len(result.Q) >= 3
    again = found(PoseGoal(HAND, TARGET, tolerance), timeout=20.0)
    np.testing.assert_array_equal(result.Q, again.Q)
    assert checker.are_free(result.Q).all()
    assert checker.limits.within(result.Q)
    for X in hand_poses(result.Q):
        assert tolerance.accepts(pose_error(X, TARGET))
    apart = np.abs(result.Q[:, None] - result.Q[None]).max(axis=2) + np.eye(len(result.Q))
    assert apart.min() > 0.04


@pytest.mark.parametrize(
    "tolerance",
    [
        IkTolerance(0.05, math.inf),
        IkTolerance((0.1, 0.01, 0.05), math.inf),
        IkTolerance((0.1, 0.01, math.inf), 0.2),
        IkTolerance(1e-3, (0.1, 0.2, math.inf)),
        IkTolerance(math.inf, 0.05),
    ],
)
@pytest.mark.parametrize("offset", [None, (0.0, 0.05, 0.1)])
def test_regions_are_kept_to(
    tolerance: IkTolerance, offset: tuple[float, float, float] | None
) -> None:
    X_LT = None if offset is None else at(*offset)
    X_BT = from_xyz_rpy((0.45, 0.1, 0.4), (math.pi, 0.2, 0.3))
    checker = CollisionChecker(franka(), "arm")
    goal = PoseGoal(HAND, X_BT, tolerance, X_LT)
    result = found(goal, checker=checker, timeout=20.0)
    assert result.status is None, result.reason
    assert checker.are_free(result.Q).all()
    for X in hand_poses(result.Q):
        assert tolerance.accepts(pose_error(X if X_LT is None else X @ X_LT, X_BT))


def test_alternatives_are_all_tried_and_named() -> None:
    far = PoseGoal(HAND, at(3.0, 0.0, 0.0))
    result = found(far, JointGoal(GOAL), PoseGoal(HAND, TARGET), timeout=20.0)
    assert result.status is None
    assert set(result.index) == {1, 2}


def test_unreachable_in_collision_and_outside_are_told_apart() -> None:
    far = found(PoseGoal(HAND, at(3.0, 0.0, 0.0)))
    assert far.status is PlanStatus.GOAL_UNREACHABLE
    assert "panda_hand" in far.reason
    assert "reaches" in far.reason
    inside = found(PoseGoal(HAND, at(0.0, 0.45, 0.5)))
    assert inside.status is PlanStatus.GOAL_IN_COLLISION
    assert "left" in inside.reason
    bad = GOAL.copy()
    bad[3] = 2.0
    outside = found(JointGoal(bad))
    assert outside.status is PlanStatus.GOAL_OUTSIDE_LIMITS
    assert "panda_joint4" in outside.reason
    both = found(PoseGoal(HAND, at(3.0, 0.0, 0.0)), PoseGoal(HAND, at(0.0, 0.45, 0.5)))
    assert both.status is PlanStatus.GOAL_IN_COLLISION
    assert "cannot be reached" in both.reason


def test_no_goal_and_cancelled_are_told() -> None:
    assert found().status is PlanStatus.NO_GOAL
    assert found(JointGoal(GOAL), cancelled=lambda: True).status is PlanStatus.CANCELLED


def test_goals_that_are_none_are_refused() -> None:
    with pytest.raises(InvalidCommand, check=about("a joint goal")):
        found(JointGoal(GOAL[:3]))
    with pytest.raises(UnknownFrame, check=about("panda_hnd")):
        found(PoseGoal("panda_hnd", TARGET))
    with pytest.raises(InvalidConfig):
        found(PoseGoal("panda_link0", TARGET))
    broken = TARGET.copy()
    broken[0, 0] = np.nan
    with pytest.raises(InvalidCommand, check=about("panda_hand")):
        found(PoseGoal(HAND, broken))
    assert found(JointGoal(GOAL * np.nan)).status is PlanStatus.GOAL_OUTSIDE_LIMITS


def test_joints_that_do_not_move_the_link_stay() -> None:
    # All joints of the robot: fingers do not move the hand.
    checker = CollisionChecker(franka())
    start = np.concatenate([START, [0.03, 0.02]])
    request = PlanRequest(checker, start, (PoseGoal(HAND, TARGET),), timeout=20.0)
    result = goal_configurations(request, start)
    assert result.status is None
    assert (result.Q[:, 7:] == [0.03, 0.02]).all()


def test_no_time_for_a_reachable_pose_is_told() -> None:
    assert len(found(PoseGoal(HAND, TARGET), timeout=20.0).Q)
    short = found(PoseGoal(HAND, TARGET), timeout=1e-9)
    assert short.status is PlanStatus.TIMED_OUT
    assert short.Q.shape == (0, 7)
    assert short.index == ()
