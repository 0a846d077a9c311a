# SPDX-License-Identifier: Apache-2.0
"""Analytic inverse kinematics: every form, every solution, requests, errors."""

import math
from dataclasses import replace

import numpy as np
import pytest
from ik.analytic_checks import check, draw, solver, with_the_free_joint_known
from ik.analytic_samples import Z, anyhow, iiwa, line_chain, line_tree, wrist_arm
from kernels.random_trees import Oracle, random_tree
from raised_errors import about

from motion_nodes.core.ik.analytic_solver import AnalyticIk, SearchBounds
from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.ik.joint_sampling import distance
from motion_nodes.core.ik.problem import IkRequest, IkSettings, IkStatus
from motion_nodes.core.ik.solvers import make_solver, solver_names
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import KinematicTree, frozen
from motion_nodes.errors import InvalidCommand, InvalidConfig, UnknownJoint

HALF = np.pi / 2
FORMS = {
    "ur10e": "three parallel axes",
    "ur5": "three parallel axes",
    "puma560": "spherical wrist, axes 2 and 3 parallel",
    "shoulder_ahead": "spherical wrist, axes 2 and 3 parallel",
    "meeting": "spherical wrist, axes 1 and 2 meeting",
    "parallel_12": "spherical wrist, axes 1 and 2 parallel",
    "parallel_23": "spherical wrist, axes 2 and 3 parallel",
    "anyhow": "spherical wrist",
    "three_parallel": "three parallel axes",
    "meeting_back": "spherical wrist, axes 1 and 2 meeting, from the tip",
    "parallel_12_back": "spherical wrist, axes 1 and 2 parallel, from the tip",
    "parallel_23_back": "spherical wrist, axes 2 and 3 parallel, from the tip",
    "anyhow_back": "spherical wrist, from the tip",
    "three_parallel_back": "three parallel axes, from the tip",
    "franka": "spherical wrist, axes 1 and 2 meeting, from the tip",
    "iiwa": "spherical wrist, axes 1 and 2 meeting",
}


@pytest.mark.parametrize("name", FORMS)
def test_every_configuration_is_among_the_solutions_for_its_pose(name):
    ik = solver(name)
    assert ik.form == FORMS[name]
    counts = []
    for q in draw(ik.chain, 60, 1):
        X = ik.chain.kinematics.pose(q, ik.chain.tip)
        Q = ik.solutions(X, q, turns="nearest", **with_the_free_joint_known(ik, q))
        check(ik, Q, X)
        np.testing.assert_allclose(Q[0], q, atol=1e-7)
        counts.append(len(Q))
    assert max(counts) >= 4


@pytest.mark.parametrize("name", ["ur10e", "franka"])
def test_pinocchio_agrees(name):
    ik, tree = solver(name), load_robot(name).tree
    oracle, chain = Oracle(tree), ik.chain
    for q in draw(chain, 10, 2):
        full = dict.fromkeys(tree.joint_names, 0.0) | dict(zip(chain.joint_names, q, strict=True))
        X = oracle.pose(np.array(list(full.values())), chain.tip, chain.base)
        for solution in ik.solutions(X, q, turns="nearest"):
            full |= dict(zip(chain.joint_names, solution, strict=True))
            Y = oracle.pose(np.array(list(full.values())), chain.tip, chain.base)
            np.testing.assert_allclose(Y, X, rtol=0, atol=2e-9)


@pytest.mark.parametrize("name", FORMS)
def test_singular_configurations_are_found_too(name):
    """Wrists stretched, elbows stretched, wrists above the column, and joints on their limits."""
    ik = solver(name)
    chain, rng, itself = ik.chain, np.random.default_rng(3), 0
    special = np.array([0.0, 0.0, HALF, -HALF, np.pi])
    for q in draw(chain, 60, 4):
        q = np.where(rng.uniform(size=q.size) < 0.6, rng.choice(special, q.size), q)
        q = np.clip(q, chain.lower, chain.upper)
        X = chain.kinematics.pose(q, chain.tip)
        Q = ik.solutions(X, q, turns="nearest", **with_the_free_joint_known(ik, q))
        assert len(Q) > 0
        check(ik, Q, X)
        itself += np.abs(Q[0] - q).max() < 1e-5
    # Where one joint is free, it keeps the seed's value, so that the configuration itself is found;
    # in a few configurations other joints are free.
    assert itself >= 57


@pytest.mark.parametrize("name", ["home", "up"])
def test_the_stretched_ur10e(name):
    robot = load_robot("ur10e")
    ik = solver("ur10e")
    q = np.array([robot.states[name][joint] for joint in ik.joint_names])
    X = ik.chain.kinematics.pose(q, ik.chain.tip)
    np.testing.assert_allclose(ik.solutions(X, q)[0], q, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "joint"),
    [("iiwa", f"joint{i}") for i in (1, 2, 3, 5, 6, 7)]
    + [("franka", f"panda_joint{i}") for i in (4, 5, 6, 7)],
)
def test_any_joint_may_be_the_free_one_if_the_others_fit(name, joint):
    ik = solver(name, joint)
    assert ik.free_joint == joint
    for q in draw(ik.chain, 25, 5):
        X = ik.chain.kinematics.pose(q, ik.chain.tip)
        Q = ik.solutions(X, q, turns="nearest", **with_the_free_joint_known(ik, q))
        check(ik, Q, X)
        np.testing.assert_allclose(Q[0], q, atol=1e-6)


def test_the_panda_is_solved_over_its_last_joint():
    ik = solver("franka")
    assert ik.free_joint == "panda_joint7"
    q = ik.chain.centre
    X = ik.chain.kinematics.pose(q, ik.chain.tip)
    values = np.linspace(-2.8, 2.8, 57)
    Q = ik.solutions(X, q, free_values=values)
    assert set(np.round(Q[:, 6], 9)) <= set(np.round(values, 9))
    assert len(set(np.round(Q[:, 6], 9))) > 10
    check(ik, Q, X)


@pytest.mark.parametrize("norm", [2.0, math.inf])
def test_solutions_are_sorted_by_their_distance(norm):
    ik = solver("ur10e")
    weights = np.array([3, 1, 1, 1, 0.2, 0.1])
    for q in draw(ik.chain, 10, 6):
        X = ik.chain.kinematics.pose(q, ik.chain.tip)
        seed = draw(ik.chain, 1, 7)[0]
        Q = ik.solutions(X, seed, norm=norm, weights=weights)
        away = distance(Q, seed, weights, norm)
        assert (np.diff(away) >= 0.0).all()


def test_full_turns_within_the_limits_count_each_for_itself():
    ik = solver("ur10e")
    chain = ik.chain
    q = np.array([0.3, -1.2, 1.4, -0.9, 1.1, 0.4])
    X = chain.kinematics.pose(q, chain.tip)
    Q = ik.solutions(X, q)
    check(ik, Q, X)
    one_turn = ik.solutions(X, q, turns="nearest")
    # Five joints have two turns of room, the elbow has one.
    assert len(one_turn) == 8
    assert len(Q) == 8 * 2**5
    first = np.round(np.mod(Q, 2 * np.pi), 6)
    assert len(np.unique(first, axis=0)) == 8
    far = q + 2 * np.pi * np.array([-1, 1, 0, 1, -1, -1])
    far = np.clip(far, chain.lower, chain.upper)
    away = distance(ik.solutions(X, far, turns="nearest")[0], far, norm=math.inf)
    assert away == pytest.approx(distance(ik.solutions(X, far)[0], far, norm=math.inf))


def test_joints_without_limits_turn_to_the_seed():
    tree = line_tree("endless", *wrist_arm(4, anyhow), -np.inf, np.inf)
    chain = IkChain(tree, "link0", "tool")
    q = np.array([9.0, -20.0, 0.3, 50.0, -4.0, 1.0])
    Q = AnalyticIk(chain).solutions(chain.kinematics.pose(q, chain.tip), q)
    np.testing.assert_allclose(Q[0], q, atol=1e-6)
    assert (np.abs(Q - q) <= np.pi + 1e-9).all()


def test_a_calibrated_arm_is_solved_exactly():
    """Calibration moves every axis a little; the tolerance of the geometry must allow it."""
    rng, tree = np.random.default_rng(8), load_robot("ur10e").tree
    joints = {}
    for name, joint in tree.joints.items():
        moved = from_xyz_rpy(rng.normal(0, 3e-4, 3), rng.normal(0, 1e-3, 3))
        joints[name] = replace(joint, X_PJ=frozen(joint.X_PJ @ moved))
    chain = IkChain(KinematicTree("calibrated", tree.links, joints), "base_link", "tool0")
    with pytest.raises(InvalidConfig):
        AnalyticIk(chain)
    ik = AnalyticIk(chain, tolerance=0.01)
    found = 0
    for q in draw(chain, 100, 9):
        X = chain.kinematics.pose(q, chain.tip)
        Q = ik.solutions(X, q, turns="nearest")
        check(ik, Q, X)
        found += len(Q) > 0 and np.abs(Q[0] - q).max() < 1e-6
    assert found == 100


def test_what_cannot_be_reached_has_no_solution():
    ik = solver("ur10e")
    assert ik.solutions(from_xyz_rpy((5, 0, 0))).shape == (0, 6)
    assert solver("franka").solutions(from_xyz_rpy((0.8, 0, 0.8))).shape == (0, 7)


def test_targets_are_taken_as_the_rotation_they_nearly_are():
    ik = solver("puma560")
    q = np.array([0.2, -0.7, 1.0, 0.3, 0.5, -0.2])
    X = ik.chain.kinematics.pose(q, ik.chain.tip)
    rough = np.array(X, np.float32).astype(float)
    rough[3] = 0, 0, 0, 1
    Q = ik.solutions(rough, q)
    np.testing.assert_allclose(Q[0], q, atol=1e-5)


# -- the search over free joints ------------------------------------------------------------------


def test_the_current_value_of_the_free_joint_comes_first():
    ik = solver("franka")
    q = ik.chain.centre + 0.1
    X = ik.chain.kinematics.pose(q, ik.chain.tip)
    found = list(ik.search(X, q, SearchBounds(max_attempts=1)))
    assert found
    assert all(solution[6] == q[6] for solution in found)
    np.testing.assert_allclose(found[0], q, atol=1e-9)
    several = np.array(list(ik.search(X, q, SearchBounds(max_attempts=60))))
    np.testing.assert_array_equal(several[: len(found)], found)
    assert len(np.unique(several[:, 6])) > 8
    check(ik, several, X)


def test_a_fixed_joint_never_moves():
    ik = solver("franka")
    q = ik.chain.centre + 0.1
    X = ik.chain.kinematics.pose(q, ik.chain.tip)
    found = np.array(list(ik.search(X, q, SearchBounds(fixed=["panda_joint7"], max_attempts=20))))
    assert (found[:, 6] == q[6]).all()
    found = np.array(list(ik.search(X, q, SearchBounds(fixed=["panda_joint4"], max_attempts=20))))
    np.testing.assert_allclose(found[:, 3], q[3], atol=1e-8)


def test_the_distance_bounds_free_joint_and_solutions():
    ik = solver("franka")
    q = ik.chain.centre + 0.1
    X = ik.chain.kinematics.pose(q, ik.chain.tip)
    found = np.array(list(ik.search(X, q, SearchBounds(max_distance=0.5, max_attempts=40))))
    assert len(np.unique(found[:, 6])) >= 3
    assert (np.abs(found - q) <= 0.5).all()
    again = np.array(list(ik.search(X, q, SearchBounds(max_distance=0.5, max_attempts=40))))
    np.testing.assert_array_equal(again, found)


def test_a_search_without_end_is_refused():
    ik = solver("franka")
    with pytest.raises(InvalidConfig):
        SearchBounds()
    far = from_xyz_rpy((9, 0, 0))
    assert not list(ik.search(far, ik.chain.centre, SearchBounds(max_time=0.02)))


# -- behind the interface of all solvers ----------------------------------------------------------


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
