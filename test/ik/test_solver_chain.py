# SPDX-License-Identifier: Apache-2.0
"""Iterative solvers: of some joints of a chain, and as fallback of the analytic solver."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest
from ik.ik_samples import RandomChain, draw
from raised_errors import about

from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.ik.problem import IkRequest, IkSettings, IkTolerance, pose_error
from motion_nodes.core.ik.solvers import FallbackIk, SubChainIk, make_solver
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.errors import InvalidCommand, InvalidConfig, UnknownJoint


@functools.cache
def arm(robot: str = "franka") -> IkChain:
    return IkChain.of_group(load_robot(robot), "arm")


def off(chain: IkChain, q: np.ndarray, X: np.ndarray) -> tuple[float, float]:
    e = pose_error(chain.kinematics.pose(q, chain.tip), X)
    return float(np.linalg.norm(e[:3])), float(np.linalg.norm(e[3:]))


def test_solutions_are_near_enough_and_within_the_limits():
    chain = arm()
    ik = SubChainIk(chain)
    found = 0
    for q in draw(chain, 30, 1):
        X = chain.kinematics.pose(q, chain.tip)
        for solution in itertools.islice(ik.solutions(X, chain.centre, max_attempts=30), 1):
            position, orientation = off(chain, solution, X)
            assert position <= 1e-3
            assert orientation <= 1e-3 * math.pi
            assert (solution >= chain.lower).all()
            assert (solution <= chain.upper).all()
            found += 1
    assert found == 30


def test_joints_that_are_held_never_move():
    chain = arm()
    ik = SubChainIk(chain, chain.joint_names[1:6])
    current = chain.centre + 0.2
    before = current.copy()
    goal = current.copy()
    goal[1:6] += 0.3
    X = chain.kinematics.pose(goal, chain.tip)
    X[:3, 3] = chain.kinematics.pose(goal, chain.tip)[:3, 3]
    found = list(ik.solutions(X, current, max_attempts=20))
    assert found
    for solution in found:
        assert solution[0] == current[0]
        assert solution[6] == current[6]
        assert off(chain, solution, X)[0] <= 1e-3
    np.testing.assert_array_equal(current, before)


def test_the_first_start_is_the_current_state_or_not():
    chain = arm()
    ik = SubChainIk(chain)
    current = chain.centre + 0.2
    X = chain.kinematics.pose(current, chain.tip)
    first = next(ik.solutions(X, current))
    np.testing.assert_array_equal(first, current)
    others = list(ik.solutions(X, current, max_attempts=20, first_close=False))
    assert all(np.abs(q - current).max() > 1e-6 for q in others)
    again = list(ik.solutions(X, current, max_attempts=20, first_close=False))
    np.testing.assert_array_equal(again, others)
    assert not list(ik.solutions(X, current, max_attempts=0))


def test_solutions_that_are_not_valid_are_left_out():
    chain = arm()
    ik = SubChainIk(chain)
    current = chain.centre + 0.2
    X = chain.kinematics.pose(current, chain.tip)
    found = list(ik.solutions(X, current, max_attempts=20, validity=lambda q: q[0] > 0.5))
    assert found
    assert all(q[0] > 0.5 for q in found)


def test_bad_input_of_sub_chains():
    chain = arm()
    with pytest.raises(UnknownJoint, check=about("panda_join1")):
        SubChainIk(chain, ["panda_join1"])
    with pytest.raises(InvalidConfig):
        SubChainIk(chain, [])
    with pytest.raises(InvalidConfig, check=about("max_iterations")):
        SubChainIk(chain, iterations=0)
    ik = SubChainIk(chain, chain.joint_names[:5])
    with pytest.raises(InvalidCommand):
        list(ik.solutions(np.eye(4), [np.nan] * 7))
    with pytest.raises(InvalidCommand):
        list(ik.solutions(np.eye(4), [0, 0, 0, -1, 0, 9, 0]))


def test_the_closed_form_answers_where_there_is_one():
    ik = make_solver(arm("ur10e"), "analytic_then_iterative")
    assert isinstance(ik, FallbackIk)
    assert ik.why_not == ""
    q = np.array([0.3, -1.2, 1.4, -0.9, 1.1, 0.4])
    X = arm("ur10e").kinematics.pose(q, "tool0")
    result = ik.solve(IkRequest(X, seed=q))
    assert result.success
    assert result.position_error < 1e-9
    assert result.iterations == 0


def test_what_only_a_tolerance_allows_is_left_to_iteration():
    ik = FallbackIk(arm("ur10e"))
    q = np.array([0.3, -1.2, 1.4, -0.9, 1.1, 0.4])
    X = arm("ur10e").kinematics.pose(q, "tool0")
    X[:3, :3] = from_xyz_rpy((0, 0, 0), (2.0, 1.0, 0.5))[:3, :3]
    X[:3, 3] *= 1.15
    settings = IkSettings(tolerance=IkTolerance.position_only(1e-4), timeout=1.0)
    request = IkRequest(X, seed=q, settings=settings)
    assert not make_solver(arm("ur10e"), "analytic").solve(request).success
    result = ik.solve(request)
    assert result.success
    np.testing.assert_allclose(
        arm("ur10e").kinematics.pose(result.q, "tool0")[:3, 3], X[:3, 3], atol=1e-4
    )


def test_chains_without_closed_form_iterate():
    sample = RandomChain(3, 7)
    ik = FallbackIk(sample.chain)
    assert ik.why_not
    goal = draw(sample.chain, 1, 4)[0]
    X = sample.chain.kinematics.pose(goal, sample.chain.tip)
    assert ik.solve(IkRequest(X, seed=goal)).success


def test_an_honest_no_of_both():
    ik = FallbackIk(arm("ur10e"), IkSettings(timeout=0.2))
    result = ik.solve(IkRequest(from_xyz_rpy((4, 0, 0))))
    assert not result.success
    assert "reaches 1.4" in result.reason
    with pytest.raises(InvalidCommand, check=about("target")):
        ik.solve(IkRequest(2 * np.eye(4)))
