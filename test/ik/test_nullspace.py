# SPDX-License-Identifier: Apache-2.0
"""Null-space objectives of redundant arms, and self motions with a fixed tip."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from ik.ik_samples import RandomChain, draw, pose_of, solver_of
from raised_errors import about

from motion_nodes.core.ik.problem import IkRequest, IkTolerance, pose_error
from motion_nodes.core.ik.redundancy import (
    LimitCentring,
    Manipulability,
    Posture,
    TipKeeper,
    motion_to_posture,
    self_motion,
)
from motion_nodes.core.robot.poses import rate_of_rotation_vector, rotation_about, rotation_vector
from motion_nodes.errors import InvalidCommand, InvalidConfig


def objectives(chain, reference):
    return {
        "posture": Posture(chain, reference, np.linspace(0.5, 2.0, len(reference))),
        "centring": LimitCentring(chain),
        "manipulability": Manipulability(chain),
    }


@pytest.mark.parametrize("name", ["posture", "centring", "manipulability"])
@pytest.mark.parametrize("robot", ["franka", "ur10e"])
def test_slopes_are_those_of_the_values(name, robot):
    chain = solver_of(robot).chain
    objective = objectives(chain, chain.centre + 0.3)[name]
    for q in draw(chain, 10, 1):
        slope = [
            (objective.value(q + d) - objective.value(q - d)) / 2e-5 for d in 1e-5 * np.eye(len(q))
        ]
        np.testing.assert_allclose(objective.gradient(q), slope, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["posture", "centring", "manipulability"])
def test_a_solution_serves_its_objective_and_is_one_all_the_same(name):
    solver = solver_of()
    chain = solver.chain
    objective = objectives(chain, chain.centre + 0.2)[name]
    gains = []
    for q in draw(chain, 15, 2):
        target = pose_of("franka", chain, q)
        plain = solver.solve(IkRequest(target))
        result = solver.solve(IkRequest(target, objectives=[objective]))
        assert result.success
        assert (chain.lower <= result.q).all()
        assert (result.q <= chain.upper).all()
        errors = pose_error(pose_of("franka", chain, result.q), target)
        assert np.linalg.norm(errors[:3]) <= 1e-6
        assert np.linalg.norm(errors[3:]) <= 1e-6
        gains.append(objective.value(plain.q) - objective.value(result.q))
        # No small motion along the null space improves the objective.
        if np.minimum(result.q - chain.lower, chain.upper - result.q).min() > 1e-3:
            J = chain.kinematics.jacobian(result.q, chain.tip)
            along = np.linalg.svd(J)[2][6]
            slope = objective.gradient(result.q)
            assert abs(slope @ along) < 0.02 * max(1.0, float(np.linalg.norm(slope)))
    assert min(gains) > -1e-9
    assert np.median(gains) > 0.01


def test_objectives_without_freedom_change_nothing():
    solver = solver_of("ur10e")
    q = draw(solver.chain, 1, 3)[0]
    target = pose_of("ur10e", solver.chain, q)
    plain = solver.solve(IkRequest(target))
    served = solver.solve(IkRequest(target, objectives=[Posture(solver.chain, q)]))
    np.testing.assert_allclose(served.q, plain.q, atol=1e-5)


def test_a_free_axis_is_freedom_for_an_objective():
    solver = solver_of("ur10e")
    chain = solver.chain
    about_z = dataclasses.replace(
        solver.settings, tolerance=IkTolerance(1e-5, (1e-5, 1e-5, np.inf))
    )
    for q in draw(chain, 5, 4):
        target = pose_of("ur10e", chain, q)
        posture = Posture(chain, np.zeros(6), [0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
        result = solver.solve(IkRequest(target, objectives=[posture], settings=about_z))
        assert result.success
        assert abs(result.q[5]) < 1e-2  # the last joint of this arm turns the tool about its z
        assert np.abs(result.errors[:5]).max() <= 1e-5


def test_weights_and_postures_are_checked():
    chain = solver_of().chain
    with pytest.raises(InvalidCommand):
        Posture(chain, np.zeros(6))
    with pytest.raises(InvalidCommand):
        Posture(chain, np.zeros(7), -1.0)


def test_null_space_motion_leaves_the_tip_and_no_limit():
    solver = solver_of()
    chain = solver.chain
    rng = np.random.default_rng(5)
    for q in draw(chain, 20, 5):
        q[2] = chain.upper[2]
        X, J = chain.kinematics.pose_and_jacobian(q, chain.tip)
        keeper = TipKeeper(chain, X, IkTolerance(1e-6, 1e-6))
        motion = keeper.within_null_space(q, rng.normal(size=7))
        np.testing.assert_allclose(J @ motion, 0.0, atol=1e-9)
        assert motion[2] <= 1e-12
        again = keeper.within_null_space(q, motion)
        np.testing.assert_allclose(again, motion, atol=1e-9)


def test_the_elbow_moves_to_a_posture_while_the_hand_stays():
    chain = solver_of().chain
    q = np.array([0.3, -0.5, 0.4, -2.0, 0.2, 1.8, 0.5])
    X = pose_of("franka", chain, q)
    other = q.copy()
    other[2] = -0.6
    motion = motion_to_posture(chain, q, other, step=0.04)
    np.testing.assert_array_equal(motion[0], q)
    assert len(motion) > 5
    assert np.abs(np.diff(motion, axis=0)).max() <= 0.04 + 1e-9
    for row in motion:
        errors = pose_error(pose_of("franka", chain, row), X)
        assert np.linalg.norm(errors[:3]) <= 1e-6
        assert np.linalg.norm(errors[3:]) <= 1e-6
    distances = np.linalg.norm(motion - other, axis=1)
    assert (np.diff(distances) < 0.0).all()
    elbow = [chain.kinematics.pose(row, "panda_link4")[:3, 3] for row in (motion[0], motion[-1])]
    assert np.linalg.norm(elbow[1] - elbow[0]) > 0.05


def test_self_motion_sweeps_until_a_limit():
    chain = solver_of().chain
    q = np.array([0.3, -0.5, 0.4, -2.0, 0.2, 1.8, 0.5])
    X = pose_of("franka", chain, q)
    there, back = self_motion(chain, q), self_motion(chain, q, step=-0.05)
    for motion in (there, back):
        assert len(motion) > 5
        steps = np.diff(motion, axis=0)
        assert np.abs(steps).max() <= 0.1
        assert (np.einsum("ij,ij->i", steps[1:], steps[:-1]) > 0.0).all()  # never turns round
        for row in motion:
            assert (chain.lower <= row).all()
            assert (row <= chain.upper).all()
            np.testing.assert_allclose(pose_of("franka", chain, row), X, atol=3e-6)
    assert (there[1] - q) @ (back[1] - q) < 0.0
    assert len(self_motion(chain, q, count=3)) == 4


def test_motions_say_what_is_wrong():
    chain, stiff = solver_of().chain, solver_of("ur10e").chain
    with pytest.raises(InvalidCommand):
        motion_to_posture(chain, np.zeros(7), chain.centre)
    with pytest.raises(InvalidCommand, check=about("posture")):
        motion_to_posture(chain, chain.centre, np.zeros(3))
    with pytest.raises(InvalidConfig):
        motion_to_posture(chain, chain.centre, chain.centre, step=0.0)
    with pytest.raises(InvalidConfig):
        self_motion(stiff, np.array([0.3, -1.0, 1.2, -0.5, 1.0, 0.4]))


def test_the_motion_of_more_than_one_free_direction():
    case = RandomChain(9, 12)
    q = np.clip(case.chain.centre, case.chain.lower, case.chain.upper)
    motion = self_motion(case.chain, q, count=20)
    assert len(motion) > 3
    for row in motion:
        np.testing.assert_allclose(case.pose(row), case.pose(q), atol=1e-5)


def test_the_rate_of_the_rotation_vector_is_its_derivative():
    rng = np.random.default_rng(6)
    for angle in (1e-6, 1e-3, 0.1, 1.0, 2.5, 3.1):
        axis = rng.normal(size=3)
        phi = angle * axis / np.linalg.norm(axis)
        R = rotation_about(phi / angle, np.array(angle))
        for omega in np.eye(3):
            turn = rotation_about(omega, np.array([1e-6, -1e-6]))
            ahead, behind = (np.array(rotation_vector(turn[k] @ R)) for k in (0, 1))
            got = rate_of_rotation_vector(phi) @ omega
            np.testing.assert_allclose(got, (ahead - behind) / 2e-6, atol=1e-7, rtol=1e-5)
