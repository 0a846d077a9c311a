# SPDX-License-Identifier: Apache-2.0
"""Iterative solvers: by the transposed Jacobian, and as fallback."""

import functools
import math
from pathlib import Path

import numpy as np
import pytest
from ik.ik_samples import RandomChain, draw
from raised_errors import about

from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.ik.problem import IkRequest, IkSettings, IkStatus, IkTolerance, pose_error
from motion_nodes.core.ik.solver import LeastSquaresIk
from motion_nodes.core.ik.solvers import (
    FallbackIk,
    JacobianTransposeIk,
    conjugate_step,
    make_solver,
    screw_twist,
)
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy, inverse
from motion_nodes.errors import InvalidCommand, UnknownJoint
from motion_nodes.extras.compat import dual_quaternion as dq
from motion_nodes.extras.compat.dual_quaternion import DualQuaternionKinematics
from motion_nodes.extras.formats.kinematic_file import read_kinematic_file

SAMPLE = Path(__file__).parents[1] / "compat" / "data" / "desk_arm.kinematic.json"
PATIENT = IkSettings(timeout=30.0)


@functools.cache
def solver(robot: str) -> JacobianTransposeIk:
    return JacobianTransposeIk(IkChain.of_group(load_robot(robot), "arm"), PATIENT)


def pose(ik, q):
    return ik.chain.kinematics.pose(q, ik.chain.tip)


def test_the_error_is_the_logarithm_of_the_dual_quaternion():
    rng = np.random.default_rng(1)
    for scale in (1.0, 1e-2, 1e-4, 1e-7, 0.0):
        for _ in range(20):
            X_BE = from_xyz_rpy(rng.uniform(-1, 1, 3), rng.uniform(-3, 3, 3))
            X_BT = X_BE @ from_xyz_rpy(rng.uniform(-1, 1, 3), scale * rng.uniform(-3, 3, 3))
            D = dq.from_pose(inverse(X_BE) @ X_BT)
            np.testing.assert_allclose(screw_twist(X_BE, X_BT), dq.log(D), atol=1e-12)


@pytest.mark.parametrize("robot", ["franka", "ur10e"])
def test_near_goals_are_reached_and_the_joints_stay_near(robot):
    """Goals near seeds over the whole range; a third of the seeds have a joint at its limit."""
    ik = solver(robot)
    lower, upper = ik.chain.lower, ik.chain.upper
    rng = np.random.default_rng(2)
    solved, count = 0, 150
    for number, q in enumerate(draw(ik.chain, count, 3)):
        if number % 3 == 0:
            some = rng.random(q.size) < 0.4
            q = np.where(some, np.where(rng.random(q.size) < 0.5, lower, upper), q)
        goal = np.clip(q + rng.uniform(-0.3, 0.3, q.size), lower, upper)
        result = ik.solve(IkRequest(pose(ik, goal), seed=q))
        assert (result.q >= lower).all()
        assert (result.q <= upper).all()
        if result.success:
            solved += 1
            assert result.position_error <= 1e-3
            assert result.orientation_error <= 0.01
            assert np.linalg.norm(result.q - q) < 1.5 * np.linalg.norm(goal - q) + 0.05
        else:
            assert result.reason.startswith("Stalled after")
    assert solved >= 0.98 * count


def test_the_first_direction_and_its_length_are_those_of_the_plain_method():
    rng = np.random.default_rng(4)
    for n in (3, 6, 7):
        J, e = rng.normal(size=(6, n)), rng.normal(size=6)
        g = J.T @ e
        alpha = (e @ J @ g) / np.linalg.norm(J @ g) ** 2
        one = conjugate_step(np.outer(J @ g, g) / (g @ g), e, 1e9)  # J with one direction alone
        np.testing.assert_allclose(one, alpha * g, rtol=1e-9)
        short = 1e-3 * np.linalg.norm(alpha * g)
        np.testing.assert_allclose(
            conjugate_step(J, e, short), short * g / np.linalg.norm(g), rtol=1e-9
        )


@pytest.mark.parametrize("n", [3, 6, 7, 9])
def test_all_directions_together_are_the_least_squares_step_of_least_length(n):
    rng = np.random.default_rng(5)
    for _ in range(50):
        U, _, V = np.linalg.svd(rng.normal(size=(6, n)), full_matrices=False)
        J = U * rng.uniform(0.5, 1.5, min(6, n)) @ V
        e = rng.normal(size=6)
        step = conjugate_step(J, e, 1e9)
        np.testing.assert_allclose(step, np.linalg.pinv(J) @ e, atol=0.01 * np.linalg.norm(e))
        radius = 0.5 * float(np.linalg.norm(step))
        shorter = conjugate_step(J, e, radius)
        assert np.linalg.norm(shorter) == pytest.approx(radius)
        assert np.linalg.norm(e - J @ shorter) < np.linalg.norm(e)


def test_singular_starts_are_left():
    """The tip of a stretched UR10e cannot move along the arm to first order."""
    ik = solver("ur10e")
    for goal in (np.array([0.1, -0.2, 0.3, -0.1, 0.1, 0.2]), np.array([0.0, 0.0, 0.3, 0, 0, 0])):
        result = ik.solve(IkRequest(pose(ik, goal), seed=np.full(6, 1e-4)))
        assert result.success, result.reason


def test_tight_tolerances_can_be_asked_for():
    ik = solver("franka")
    q = ik.chain.centre + 0.1
    settings = IkSettings(tolerance=IkTolerance(1e-6, 1e-6), timeout=30.0)
    result = ik.solve(IkRequest(pose(ik, q + 0.1), seed=q, settings=settings))
    assert result.success
    np.testing.assert_allclose(pose(ik, result.q), pose(ik, q + 0.1), atol=2e-6)


def test_a_target_that_is_there_already_takes_no_step():
    ik = solver("franka")
    q = ik.chain.centre + 0.1
    result = ik.solve(IkRequest(pose(ik, q), seed=q))
    assert result.iterations == 0
    np.testing.assert_array_equal(result.q, q)


def test_a_path_is_followed_step_by_step():
    ik = solver("ur10e")
    q = np.array([0.3, -1.2, 1.4, -0.9, 1.1, 0.4])
    start = pose(ik, q)
    for z in np.linspace(0.0, -0.1, 11):
        X = start.copy()
        X[2, 3] += z
        result = ik.solve(IkRequest(X, seed=q))
        assert result.success
        assert np.abs(result.q - q).max() < 0.1
        q = result.q


def test_on_a_tree_from_a_kinematic_file():
    tree = read_kinematic_file(SAMPLE)
    ik = make_solver(IkChain(tree, "table", "gripper"), "jacobian_transpose", PATIENT)
    forward = DualQuaternionKinematics(tree)
    q, goal = np.array([0.1, 0.2, 0.3, 0.1]), np.array([0.25, 0.1, 0.5, 0.15])
    result = ik.solve(IkRequest(dq.to_pose(forward.frame(goal, "gripper")), seed=q))
    assert result.success
    missing = dq.multiply(
        dq.inverse(forward.frame(result.q, "gripper")), forward.frame(goal, "gripper")
    )
    twist = dq.log(missing)
    assert np.linalg.norm(twist[:3]) < 2e-3
    assert np.linalg.norm(twist[3:]) < 0.011
    assert ik.chain.lower[3] <= result.q[3] <= ik.chain.upper[3]


def test_position_only():
    ik = solver("franka")
    q = ik.chain.centre + 0.1
    X = pose(ik, q)
    X[:3, :3] = np.eye(3)
    X[:3, 3] += 0.05, -0.08, 0.04
    settings = IkSettings(tolerance=IkTolerance.position_only(1e-4), timeout=30.0)
    result = ik.solve(IkRequest(X, seed=q, settings=settings))
    assert result.success
    np.testing.assert_allclose(pose(ik, result.q)[:3, 3], X[:3, 3], atol=1e-4)
    assert result.orientation_error == 0.0


def test_a_stall_is_reported_and_what_came_nearest_returned():
    ik = solver("franka")
    q = ik.chain.centre + 0.1
    X = pose(ik, q)
    X[:3, 3] *= 5
    result = ik.solve(IkRequest(X, seed=q))
    assert result.status is IkStatus.OUT_OF_REACH
    assert "stalled after" in result.reason
    assert "the closest configuration found is" in result.reason
    assert result.position_error < np.linalg.norm(X[:3, 3] - pose(ik, q)[:3, 3])


def test_bounds_are_kept():
    ik = solver("franka")
    q = ik.chain.centre + 0.1
    far = pose(ik, ik.chain.lower + 0.2)
    result = ik.solve(IkRequest(far, seed=q, settings=IkSettings(max_iterations=7)))
    assert result.status is IkStatus.ITERATION_LIMIT
    assert result.iterations == 7
    result = ik.solve(IkRequest(far, seed=q, settings=IkSettings(timeout=1e-9)))
    assert result.status is IkStatus.TIMED_OUT


def test_more_starts_are_tried_in_turn():
    ik = solver("ur10e")
    goal = np.array([0.3, -1.2, 1.4, -0.9, 1.1, 0.4])
    bad = np.zeros(6)
    alone = ik.solve(IkRequest(pose(ik, goal), seed=bad))
    both = ik.solve(IkRequest(pose(ik, goal), seed=bad, initial_guesses=[goal + 0.05]))
    assert both.success
    assert both.attempts == (1 if alone.success else 2)


def test_locked_joints_and_validity():
    ik = solver("franka")
    q = ik.chain.centre + 0.1
    X = pose(ik, q + 0.05)
    result = ik.solve(IkRequest(X, seed=q, locked={"panda_joint1": 0.15}))
    assert result.q[0] == 0.15
    result = ik.solve(IkRequest(X, seed=q, validity=lambda q: "too near to the wall"))
    assert result.status is IkStatus.REFUSED
    assert result.reason == "The solution was refused: too near to the wall."
    with pytest.raises(UnknownJoint):
        ik.solve(IkRequest(X, locked={"joint1": 0.15}))


def test_bad_input():
    ik = solver("franka")
    with pytest.raises(InvalidCommand, check=about("target")):
        ik.solve(IkRequest(2 * np.eye(4)))
    with pytest.raises(InvalidCommand):
        ik.solve(IkRequest(np.eye(4), objectives=[object()]))
    with pytest.raises(InvalidCommand):
        ik.solve(IkRequest(np.eye(4), seed=[np.nan] * 7))


@functools.cache
def arm(robot: str = "franka") -> IkChain:
    return IkChain.of_group(load_robot(robot), "arm")


def off(chain: IkChain, q: np.ndarray, X: np.ndarray) -> tuple[float, float]:
    e = pose_error(chain.kinematics.pose(q, chain.tip), X)
    return float(np.linalg.norm(e[:3])), float(np.linalg.norm(e[3:]))


def test_rough_solutions_of_some_joints_take_few_iterations():
    chain = arm()
    rough = IkSettings(IkTolerance(1e-3, 1e-3 * math.pi), attempts=1, max_iterations=200)
    ik, locked = LeastSquaresIk(chain, rough), (0, 6)
    for q in draw(chain, 30, 1):
        seed = np.clip(q + 0.2, chain.lower, chain.upper)
        seed[[*locked]] = q[[*locked]]
        before, X = seed.copy(), chain.kinematics.pose(q, chain.tip)
        held = {chain.joint_names[k]: float(q[k]) for k in locked}
        result = ik.solve(IkRequest(X, seed=seed, locked=held))
        assert result.success, result.reason
        assert result.iterations <= 200
        position, orientation = off(chain, result.q, X)
        assert position <= 1e-3
        assert orientation <= 1e-3 * math.pi
        np.testing.assert_array_equal(result.q[[*locked]], q[[*locked]])
        np.testing.assert_array_equal(seed, before)


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
