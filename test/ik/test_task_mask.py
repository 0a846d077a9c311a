# SPDX-License-Identifier: Apache-2.0
"""Arms with fewer than six joints: reachable poses, and relaxed targets for others."""

from __future__ import annotations

import numpy as np
import pytest
from robot_setup.urdf_samples import LIMIT, joint, link, robot

from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.ik.problem import IkRequest, IkSettings, IkStatus, IkTolerance, pose_error
from motion_nodes.core.ik.solver import LeastSquaresIk
from motion_nodes.core.ik.task_mask import approach_axis, relaxed_tolerances, solve_reachable
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.urdf import read_urdf

AXES = ("0 0 1", "0 1 0", "0 1 0", "0 1 0", "0 0 1", "0 1 0", "0 0 1")
SETTINGS = IkSettings(timeout=1.0)


def chain(count: int) -> IkChain:
    """Return an arm that pans, bends three times, then rolls."""
    parts = [link(f"l{k}") for k in range(count + 1)]
    parts += [
        joint(f"j{k}", f"l{k - 1}", f"l{k}", axis=AXES[k - 1], inside=LIMIT)
        for k in range(1, count + 1)
    ]
    tip = '<link name="tcp"/>' + joint("jt", f"l{count}", "tcp", kind="fixed", inside="")
    return IkChain(read_urdf(robot(*parts, tip)), "l0", "tcp")


@pytest.mark.parametrize(("count", "weaker"), [(3, 4), (4, 4), (5, 3), (6, 0), (7, 0)])
def test_how_much_of_a_pose_may_be_given_up(count: int, weaker: int) -> None:
    found = relaxed_tolerances(chain(count), IkTolerance())
    assert len(found) == weaker
    assert [int(t.free.sum()) for t in found] == [0, 0, 1, 3][:weaker]
    assert relaxed_tolerances(chain(count), IkTolerance.position_only()) == ()


def test_the_approach_axis_is_that_of_the_roll() -> None:
    assert approach_axis(chain(5)) == 2


def test_a_thousand_reachable_poses_of_five_joints_are_solved_whatever_their_roll() -> None:
    arm = chain(5)
    solver, rng = LeastSquaresIk(arm, SETTINGS), np.random.default_rng(5)
    solved = 0
    for q in rng.uniform(arm.lower, arm.upper, (1000, 5)):
        X = arm.kinematics.pose(q, "tcp") @ from_xyz_rpy(rpy=(0.0, 0.0, rng.uniform(-3.0, 3.0)))
        result = solve_reachable(solver, IkRequest(X, settings=SETTINGS), arm)
        reached = arm.kinematics.pose(result.q, "tcp")
        near = np.linalg.norm(reached[:3, 3] - X[:3, 3]) < 1.1e-3
        solved += bool(result.success and near and reached[:3, 2] @ X[:3, 2] > np.cos(0.015))
    assert solved >= 999


def test_four_joints_keep_the_position_and_say_so() -> None:
    arm = chain(4)
    X = arm.kinematics.pose(np.array([0.3, 0.8, 0.5, 0.4]), "tcp")
    X = X @ from_xyz_rpy(rpy=(0.7, 0.0, 0.0))
    result = solve_reachable(LeastSquaresIk(arm, SETTINGS), IkRequest(X, settings=SETTINGS), arm)
    assert result.success
    assert np.linalg.norm(arm.kinematics.pose(result.q, "tcp")[:3, 3] - X[:3, 3]) < 1.1e-3
    assert result.reason


def test_six_joints_keep_the_whole_pose() -> None:
    """A roll beyond the last joint's limit is refused, although all else of the pose is reached."""
    arm = chain(6)
    solver, rng = LeastSquaresIk(arm, SETTINGS), np.random.default_rng(6)
    any_roll = IkTolerance(1e-3, (0.01, np.inf, 0.01))
    assert approach_axis(arm) == 1
    for q in rng.uniform(-1.0, 1.0, (5, 6)):
        q[5] = arm.upper[5] - 0.1
        X = arm.kinematics.pose(q, "tcp")
        reached = solve_reachable(solver, IkRequest(X, settings=SETTINGS), arm)
        assert reached.success
        assert IkTolerance().accepts(pose_error(arm.kinematics.pose(reached.q, "tcp"), X))
        rolled = IkRequest(X @ from_xyz_rpy(rpy=(0.0, 0.74, 0.0)), settings=SETTINGS)
        relaxed = IkSettings(tolerance=any_roll, timeout=1.0)
        assert solver.solve(rolled._replace(settings=relaxed)).success
        result = solve_reachable(solver, rolled, arm)
        assert result.status is IkStatus.NOT_FOUND
        assert result.orientation_error > 0.01 or result.position_error > 1e-3
