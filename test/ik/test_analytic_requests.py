# SPDX-License-Identifier: Apache-2.0
"""Requests to the analytic solver: seeds, locked joints, validity callbacks, errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ik.analytic_checks import check, draw, solver
from ik.analytic_samples import Z, iiwa, line_chain
from kernels.random_trees import random_tree
from raised_errors import about

from motion_nodes.core.ik.analytic_solver import AnalyticIk
from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.ik.problem import IkRequest, IkSettings, IkStatus
from motion_nodes.core.ik.solvers import make_solver, solver_names
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import KinematicTree
from motion_nodes.errors import InvalidCommand, InvalidConfig, UnknownJoint


@pytest.mark.parametrize("name", ["ur10e", "franka", "iiwa", "anyhow"])
def test_random_reachable_poses_without_a_seed(name):
    ik = solver(name)
    for q in draw(ik.chain, 100, 10):
        X = ik.chain.kinematics.pose(q, ik.chain.tip)
        result = ik.solve(IkRequest(X))
        assert result.success, result.reason
        assert result.position_error < 1.1e-9
        assert result.orientation_error < 1.5e-9
        check(ik, result.q[np.newaxis], X)


def test_the_seed_decides_and_equal_requests_get_equal_answers():
    ik = solver("franka")
    for q in draw(ik.chain, 20, 11):
        X = ik.chain.kinematics.pose(q, ik.chain.tip)
        result = ik.solve(IkRequest(X, seed=q))
        np.testing.assert_allclose(result.q, q, atol=1e-7)
        assert result.attempts == 1
        again = ik.solve(IkRequest(X, seed=q))
        np.testing.assert_array_equal(again.q, result.q)


def test_the_closest_of_all_is_no_further_than_the_first():
    ik = solver("franka")
    closest = IkSettings(prefer="closest")
    better = 0
    for q, seed in zip(draw(ik.chain, 20, 12), draw(ik.chain, 20, 13), strict=True):
        X = ik.chain.kinematics.pose(q, ik.chain.tip)
        first = ik.solve(IkRequest(X, seed=seed))
        best = ik.solve(IkRequest(X, seed=seed, settings=closest))
        gain = np.abs(first.q - seed).max() - np.abs(best.q - seed).max()
        assert gain >= -1e-9
        better += gain > 0.01
    assert better > 5


def test_the_base_may_stand_anywhere():
    ik = solver("ur10e")
    q = np.array([0.3, -1.2, 1.4, -0.9, 1.1, 0.4])
    X_WB = from_xyz_rpy((1, -2, 0.5), (0.1, 0.2, 2.0))
    X_WT = X_WB @ ik.chain.kinematics.pose(q, ik.chain.tip)
    result = ik.solve(IkRequest(X_WT, seed=q, base_pose=X_WB))
    np.testing.assert_allclose(result.q, q, atol=1e-9)


def test_locked_joints_stay():
    ik = solver("franka")
    q = ik.chain.centre + 0.1
    X = ik.chain.kinematics.pose(q, ik.chain.tip)
    result = ik.solve(IkRequest(X, locked={"panda_joint7": 0.4}))
    assert result.success
    assert result.q[6] == 0.4
    with pytest.raises(InvalidCommand):
        ik.solve(IkRequest(X, locked={"panda_joint7": 9.0}))
    with pytest.raises(UnknownJoint, check=about("panda_joint77")):
        ik.solve(IkRequest(X, locked={"panda_joint77": 0.0}))


def test_refused_solutions_are_counted_and_others_tried():
    ik = solver("ur10e")
    q = np.array([0.3, -1.2, 1.4, -0.9, 1.1, 0.4])
    X = ik.chain.kinematics.pose(q, ik.chain.tip)
    seen = []

    def elbow_down(candidate):
        seen.append(candidate)
        return True if candidate[2] < 0.0 else "elbow up"

    result = ik.solve(IkRequest(X, seed=q, validity=elbow_down))
    assert result.success
    assert result.q[2] < 0.0
    assert len(seen) > 1
    result = ik.solve(IkRequest(X, seed=q, validity=lambda q: "in the wall"))
    assert result.status is IkStatus.REFUSED
    assert result.reason == "All 8 solutions were refused: in the wall (8x)."


def test_objectives_choose_among_the_solutions():
    ik = solver("franka")
    q = ik.chain.centre + 0.1
    X = ik.chain.kinematics.pose(q, ik.chain.tip)

    class Elbow:
        def value(self, q):
            return float(-q[0])

        def gradient(self, q):
            return np.eye(7)[0]

    plain = ik.solve(IkRequest(X, seed=q))
    moved = ik.solve(IkRequest(X, seed=q, objectives=[Elbow()]))
    assert moved.success
    assert moved.q[0] > plain.q[0] + 0.5


def test_an_honest_no():
    ik = solver("ur10e")
    result = ik.solve(IkRequest(from_xyz_rpy((4, 0, 0))))
    assert result.status is IkStatus.OUT_OF_REACH
    assert "reaches 1.4" in result.reason
    assert (result.q >= ik.chain.lower).all()
    result = solver("franka").solve(IkRequest(from_xyz_rpy((0.8, 0, 0.8))))
    assert result.status is IkStatus.NOT_FOUND
    assert result.reason.startswith("No joint values reach the target for 100 values of the free")
    narrow = AnalyticIk(IkChain(_narrowed(), "base_link", "tool0"))
    q = np.array([0.3, -1.2, 1.4, -0.9, 1.1, 0.4])
    X = narrow.chain.kinematics.pose(q, "tool0")
    result = narrow.solve(IkRequest(X, seed=np.zeros(6)))
    assert result.status is IkStatus.NOT_FOUND
    assert "beyond the limits; the nearest needs" in result.reason
    assert "elbow_joint at" in result.reason
    assert "allowed -0.1 to 0.1" in result.reason


def _narrowed() -> KinematicTree:
    tree = load_robot("ur10e").tree
    joints = {
        name: replace(joint, lower=-0.1, upper=0.1) if name == "elbow_joint" else joint
        for name, joint in tree.joints.items()
    }
    return KinematicTree("narrow", tree.links, joints)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (np.full((4, 4), np.nan), "target"),
        (np.eye(3), "target"),
        (2 * np.eye(4), "target"),
        (np.diag([1.0, 1.0, -1.0, 1.0]), "target"),
        ("somewhere", "target"),
    ],
)
def test_bad_targets(target, message):
    with pytest.raises(InvalidCommand, check=about(message)):
        solver("ur10e").solutions(target)
    with pytest.raises(InvalidCommand, check=about(message)):
        solver("ur10e").solve(IkRequest(target))


def test_other_bad_input():
    ik = solver("franka")
    with pytest.raises(InvalidCommand):
        ik.solutions(np.eye(4), [0.0] * 6)
    with pytest.raises(InvalidCommand):
        ik.solve(IkRequest(np.eye(4), seed=[np.nan] * 7))
    with pytest.raises(InvalidCommand):
        ik.solutions(np.eye(4), free_values=[np.inf])
    with pytest.raises(InvalidConfig):
        ik.solutions(np.eye(4), norm=0.5)
    with pytest.raises(InvalidConfig):
        solver("ur10e").solutions(np.eye(4), free_values=[0.0])


# -- arms without a closed form -------------------------------------------------------------------


def test_chains_that_do_not_fit_are_refused_in_words():
    franka = load_robot("franka")
    with pytest.raises(InvalidConfig):
        AnalyticIk(IkChain(franka.tree, "panda_link0", "panda_link5"))
    with pytest.raises(InvalidConfig):
        solver("franka", "panda_joint1")
    with pytest.raises(UnknownJoint, check=about("panda_joint77")):
        solver("franka", "panda_joint77")
    with pytest.raises(InvalidConfig):
        solver("ur10e", "elbow_joint")
    with pytest.raises(InvalidConfig):
        solver("iiwa", "joint4")
    with pytest.raises(InvalidConfig):
        AnalyticIk(iiwa(), tolerance=-1.0)
    with pytest.raises(InvalidConfig, check=about("panda_finger_joint1")):
        AnalyticIk(IkChain(franka.tree, "panda_link0", "panda_leftfinger"))


def test_parallel_axes_alone_are_no_arm():
    h = [Z] * 6
    p = [np.array([0.2 * i, 0.0, 0.1]) for i in range(6)]
    with pytest.raises(InvalidConfig):
        AnalyticIk(line_chain("flat", h, p))


def test_random_arms_are_refused():
    rng = np.random.default_rng(14)
    for seed in range(5):
        h = rng.normal(size=(6, 3))
        with pytest.raises(InvalidConfig):
            AnalyticIk(line_chain(f"random{seed}", list(h), list(rng.uniform(-1, 1, (6, 3)))))


def test_mimicked_joints_are_refused():
    for seed in range(6):
        tree = random_tree(seed, 6)
        for tip in tree.frame_names:
            try:
                chain = IkChain(tree, tree.root, tip)
            except InvalidConfig:
                continue
            with pytest.raises(InvalidConfig):
                AnalyticIk(chain)


def test_it_is_chosen_by_name():
    assert "analytic" in solver_names()
    chain = IkChain.of_group(load_robot("ur10e"), "arm")
    ik = make_solver(chain, "analytic")
    assert isinstance(ik, AnalyticIk)
    assert make_solver(chain, "analytic", IkSettings(attempts=3)).settings.attempts == 3
