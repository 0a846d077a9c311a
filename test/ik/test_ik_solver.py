# SPDX-License-Identifier: Apache-2.0
"""The default solver: accuracy, limits, determinism, reasons; samples of joint space."""

import dataclasses
import itertools
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ik.ik_samples import TIGHT, RandomChain, draw, pose_of, solver_of
from raised_errors import about
from robot_setup.urdf_samples import LIMIT, joint, link, robot
from scipy.spatial.transform import Rotation
from scipy.stats import qmc

import motion_nodes as mn
from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.ik.joint_sampling import (
    difference,
    distance,
    free_joint_samples,
    halton,
    interval_samples,
)
from motion_nodes.core.ik.problem import IkRequest, IkSettings, IkStatus, IkTolerance, pose_error
from motion_nodes.core.ik.relaxed_poses import approach_axis, relaxed_tolerances, solve_reachable
from motion_nodes.core.ik.solver import LeastSquaresIk
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy, inverse
from motion_nodes.core.robot.urdf import read_urdf
from motion_nodes.errors import InvalidConfig

ROBOTS = ["franka", "ur10e"]
VARIETY = Path(__file__).parent.parent / "variety"


def with_settings(solver: LeastSquaresIk, **changes) -> IkSettings:
    return dataclasses.replace(solver.settings, **changes)


def inside(chain: IkChain, q: np.ndarray) -> bool:
    return bool((chain.lower <= q).all() and (q <= chain.upper).all())


@pytest.mark.parametrize("robot", ROBOTS)
def test_every_reachable_pose_is_solved_as_pinocchio_confirms(robot):
    solver = solver_of(robot)
    chain = solver.chain
    for q_there in draw(chain, 200, 1):
        target = pose_of(robot, chain, q_there)
        result = solver.solve(IkRequest(target))
        assert result.success, result.reason
        assert inside(chain, result.q)
        errors = pose_error(pose_of(robot, chain, result.q), target)
        np.testing.assert_allclose(errors, result.errors, atol=1e-10)
        assert np.linalg.norm(errors[:3]) <= 1e-6
        assert np.linalg.norm(errors[3:]) <= 1e-6
        assert result.position_error == pytest.approx(np.linalg.norm(result.errors[:3]))
        assert result.orientation_error == pytest.approx(np.linalg.norm(result.errors[3:]))
        assert result.reason == ""


@pytest.mark.parametrize("robot", ROBOTS)
def test_configurations_at_their_limits_are_solved_without_leaving_them(robot):
    solver = solver_of(robot)
    chain = solver.chain
    Q = draw(chain, 40, 2)
    rng = np.random.default_rng(3)
    for q in Q:
        k = rng.choice(len(q), 3, replace=False)
        q[k] = np.where(rng.uniform(size=3) < 0.5, chain.lower[k], chain.upper[k])
        result = solver.solve(IkRequest(pose_of(robot, chain, q)))
        assert result.success, result.reason
        assert inside(chain, result.q)


def test_most_joints_may_be_at_their_limits():
    """Poses of a corner of the joint ranges, from which few other configurations lead back."""
    arm, rng = mn.load_robot("so101")["arm"], np.random.default_rng(4)
    low, high = arm.limits.lower, arm.limits.upper
    Q = rng.uniform(low, high, (1000, len(low)))
    ends = np.where(rng.random(Q.shape) < 0.5, low, high)
    Q = np.where(rng.random(Q.shape) < 0.6, ends, Q)
    solved = [arm.ik(X).success for X in arm.fk(Q)]
    assert np.mean(solved) >= 0.999


def test_equal_requests_get_equal_answers_and_other_seeds_others():
    solver, targets = solver_of(), []
    for q in draw(solver.chain, 20, 4):
        targets.append(pose_of("franka", solver.chain, q))
    first = [solver.solve(IkRequest(X)) for X in targets]
    again = [solver.solve(IkRequest(X)) for X in reversed(targets)][::-1]
    anew = LeastSquaresIk(solver.chain, solver.settings)
    for X, a, b in zip(targets, first, again, strict=True):
        np.testing.assert_array_equal(a.q, b.q)
        np.testing.assert_array_equal(a.q, anew.solve(IkRequest(X)).q)
        assert (a.iterations, a.attempts) == (b.iterations, b.attempts)
    other = with_settings(solver, random_seed=5)
    differ = [solver.solve(IkRequest(X, settings=other)) for X in targets]
    assert all(r.success for r in differ)
    assert sum(not np.array_equal(a.q, b.q) for a, b in zip(first, differ, strict=True)) > 15


def test_threads_do_not_disturb_each_other():
    solver = solver_of()
    targets = [pose_of("franka", solver.chain, q) for q in draw(solver.chain, 50, 5)]
    alone = [solver.solve(IkRequest(X)).q for X in targets]
    together = threading.Barrier(4, timeout=60.0)

    def work() -> list[np.ndarray]:
        together.wait()
        return [solver.solve(IkRequest(X)).q for _ in range(4) for X in targets]

    with ThreadPoolExecutor(4) as threads:
        answers = [threads.submit(work) for _ in range(4)]
    for answer in answers:
        np.testing.assert_array_equal(answer.result(), alone * 4)


@pytest.mark.parametrize("robot", ROBOTS)
def test_a_near_seed_is_answered_nearby(robot):
    solver = solver_of(robot)
    chain = solver.chain
    rng = np.random.default_rng(6)
    for q in draw(chain, 50, 6):
        seed = np.clip(q + rng.uniform(-0.05, 0.05, len(q)), chain.lower, chain.upper)
        X, J = chain.kinematics.pose_and_jacobian(q, chain.tip)
        if np.linalg.svd(J, compute_uv=False)[5] < 0.1:
            continue  # near singularities small motions of the tip need large ones of the joints
        result = solver.solve(IkRequest(X, seed=seed))
        assert result.success
        assert np.abs(result.q - seed).max() < 0.3


def test_a_seed_that_is_the_answer_is_returned_as_it_is():
    solver = solver_of()
    for q in draw(solver.chain, 10, 7):
        result = solver.solve(IkRequest(pose_of("franka", solver.chain, q), seed=q))
        np.testing.assert_array_equal(result.q, q)


def test_user_starts_are_tried_before_random_ones():
    solver = solver_of()
    q = draw(solver.chain, 3, 8)
    only = with_settings(solver, attempts=2)
    target = pose_of("franka", solver.chain, q[1])
    result = solver.solve(
        IkRequest(target, seed=solver.chain.centre, initial_guesses=q[1:2], settings=only)
    )
    assert result.success
    assert result.attempts == 2


def test_the_closest_solution_is_the_closest_of_all_found():
    solver = solver_of("ur10e")
    chain = solver.chain
    closest = with_settings(solver, prefer="closest")
    for q in draw(chain, 10, 9):
        target = pose_of("ur10e", chain, q)
        seed = draw(chain, 1, 10)[0]
        best = solver.solve(IkRequest(target, seed=seed, settings=closest))
        assert best.success
        others = []

        def note(candidate, others=others):
            others.append(candidate)
            return False

        solver.solve(IkRequest(target, seed=seed, validity=note))
        assert len(others) > 3  # an arm with six joints has up to eight, and full turns
        distances = [np.linalg.norm(other - seed) for other in others]
        assert np.linalg.norm(best.q - seed) <= min(distances) + 1e-4


@pytest.mark.parametrize("robot", ROBOTS)
def test_base_and_target_moved_together_change_nothing(robot):
    solver = solver_of(robot)
    X_WB = from_xyz_rpy([1.5, -2.0, 0.4], [0.3, -0.7, 2.0])
    for q in draw(solver.chain, 20, 11):
        X_BT = pose_of(robot, solver.chain, q)
        alone = solver.solve(IkRequest(X_BT, seed=solver.chain.centre))
        moved = solver.solve(IkRequest(X_WB @ X_BT, seed=solver.chain.centre, base_pose=X_WB))
        np.testing.assert_allclose(moved.q, alone.q, atol=1e-7)
        there = X_WB @ pose_of(robot, solver.chain, moved.q)
        np.testing.assert_allclose(there, X_WB @ X_BT, atol=3e-6)


def test_position_only_accepts_any_orientation():
    solver = solver_of()
    free = with_settings(solver, tolerance=IkTolerance.position_only(1e-6))
    for q in draw(solver.chain, 50, 12):
        target = np.eye(4)
        target[:3, 3] = pose_of("franka", solver.chain, q)[:3, 3]
        result = solver.solve(IkRequest(target, settings=free))
        assert result.success, result.reason
        tip = pose_of("franka", solver.chain, result.q)[:3, 3]
        assert np.linalg.norm(tip - target[:3, 3]) <= 1e-6
        assert result.orientation_error == 0.0  # it does not count
        assert np.linalg.norm(result.errors[3:]) > 1e-3  # but it is reported


def test_axes_have_tolerances_of_their_own_along_the_target_frame():
    solver = solver_of()
    # The tool may turn about its own z, tilt by 0.1 rad and slide 5 cm along its x.
    own = IkTolerance((0.05, 1e-5, 1e-5), (0.1, 0.1, np.inf))
    used = np.zeros(6)
    for q in draw(solver.chain, 60, 13):
        X = pose_of("franka", solver.chain, q)
        X_TE = np.eye(4)
        X_TE[:3, :3] = Rotation.from_rotvec([0.08, -0.05, 2.0]).as_matrix()
        X_TE[0, 3] = 0.04
        target = X @ inverse(X_TE)
        result = solver.solve(IkRequest(target, settings=with_settings(solver, tolerance=own)))
        assert result.success, result.reason
        errors = pose_error(pose_of("franka", solver.chain, result.q), target)
        np.testing.assert_allclose(errors, result.errors, atol=1e-7)
        assert (np.abs(errors) <= [0.05, 1e-5, 1e-5, 0.1, 0.1, np.pi]).all()
        used = np.maximum(used, np.abs(errors))
    assert used[5] > 1.0
    assert used[0] > 0.005


def test_a_loose_axis_reaches_what_a_tight_one_does_not():
    solver = solver_of()
    X = from_xyz_rpy([1.0, 0.0, 0.4], [np.pi, 0.0, 0.0])  # too far out by some centimetres
    assert not solver.solve(IkRequest(X)).success
    loose = with_settings(solver, tolerance=IkTolerance((0.5, 1e-6, 1e-6), 1e-6))
    result = solver.solve(IkRequest(X, settings=loose))
    assert result.success, result.reason
    assert abs(result.errors[0]) > 0.05
    assert np.abs(result.errors[1:]).max() <= 1e-6


@pytest.mark.parametrize("angle", [np.pi - 1e-3, np.pi - 1e-9, np.pi])
def test_half_a_turn_away_is_no_trap(angle):
    solver = solver_of()
    lone = with_settings(solver, attempts=1)
    solved = 0
    Q = draw(solver.chain, 40, 14)
    for q in Q:
        X = pose_of("franka", solver.chain, q)
        X[:3, :3] = Rotation.from_rotvec(angle * np.eye(3)[solved % 3]).as_matrix() @ X[:3, :3]
        everything = solver.solve(IkRequest(X))
        alone = solver.solve(IkRequest(X, seed=q, settings=lone))
        for result in (everything, alone):
            if result.success:
                np.testing.assert_allclose(pose_of("franka", solver.chain, result.q), X, atol=3e-6)
        # The position matches: a solver that takes half a turn for none succeeds at once.
        assert alone.iterations > 1
        solved += alone.success
    assert solved >= 5


def test_singular_targets_are_solved():
    solver = solver_of("ur10e")
    for k in range(20):
        q = draw(solver.chain, 20, 15)[k]
        q[4] = 0.0  # axes of the wrist in line
        if k % 2:
            q[2] = 0.0  # and the elbow stretched
        result = solver.solve(IkRequest(pose_of("ur10e", solver.chain, q)))
        assert result.success, result.reason


def test_the_step_stays_small_near_a_singularity():
    solver = solver_of()
    stretched = np.array([0.0, 0.0, 0.0, -0.0698, 0.0, 1.6, 0.0])
    beyond = pose_of("franka", solver.chain, stretched)
    beyond[:3, 3] *= 1.05
    result = solver.solve(IkRequest(beyond, seed=stretched))
    assert not result.success
    assert inside(solver.chain, result.q)
    assert result.position_error < 0.08


def test_out_of_reach_is_said_with_numbers():
    solver = solver_of()
    X = from_xyz_rpy([3.0, 0.0, 0.333], [np.pi, 0.0, 0.0])
    result = solver.solve(IkRequest(X))
    assert result.status is IkStatus.OUT_OF_REACH
    assert not result.success
    assert "3.000 m from panda_joint1" in result.reason
    assert inside(solver.chain, result.q)
    there = pose_of("franka", solver.chain, result.q)
    assert result.position_error == pytest.approx(np.linalg.norm(there[:3, 3] - X[:3, 3]), abs=1e-9)
    assert result.position_error < 2.6
    huge = X.copy()
    huge[0, 3] = 1e12
    assert solver.solve(IkRequest(huge)).status is IkStatus.OUT_OF_REACH


def test_a_failure_names_the_joints_at_their_limits():
    solver = solver_of()
    chain = solver.chain
    # Reachable but for the limit of the last joint.
    X = pose_of("franka", chain, np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.5, 0.0]))
    locked = {name: 0.0 for name in ("panda_joint1", "panda_joint3", "panda_joint5")}
    X = X @ from_xyz_rpy([0.0, 0.0, 0.0], [0.0, 0.0, np.pi])
    result = solver.solve(IkRequest(X, locked=locked))
    assert result.status is IkStatus.NOT_FOUND
    assert "panda_joint7 at its" in result.reason
    assert result.attempts == 100
    assert "100 initial guesses" in result.reason


def test_iterations_are_capped_exactly():
    solver = solver_of()
    far = from_xyz_rpy([0.9, 0.0, 1.0], [1.0, 0.0, 0.0])
    for cap in (1, 3, 7, 8, 9, 50, 203):
        capped = with_settings(solver, max_iterations=cap, attempts=1000)
        result = solver.solve(IkRequest(far, settings=capped))
        assert result.status is IkStatus.ITERATION_LIMIT
        assert result.iterations == cap
        assert f"{cap} iterations" in result.reason
    generous = with_settings(solver, max_iterations=10**6)
    assert solver.solve(IkRequest(far, settings=generous)).status is IkStatus.OUT_OF_REACH


def test_attempts_are_obeyed_beyond_one_table():
    solver = solver_of()
    far = from_xyz_rpy([0.9, 0.0, 1.0], [1.0, 0.0, 0.0])
    for attempts in (1, 5, 100, 101, 350):
        result = solver.solve(IkRequest(far, settings=with_settings(solver, attempts=attempts)))
        assert result.attempts == attempts
        seeded = IkRequest(far, seed=np.zeros(7), settings=with_settings(solver, attempts=attempts))
        assert solver.solve(seeded).attempts == attempts


def test_time_runs_out():
    solver = solver_of()
    far = from_xyz_rpy([0.9, 0.0, 1.0], [1.0, 0.0, 0.0])
    endless = with_settings(solver, attempts=10**7, timeout=0.02)
    result = solver.solve(IkRequest(far, settings=endless))
    assert result.status is IkStatus.TIMED_OUT
    assert 0.02 <= result.time < 1.0
    assert "0.02 s" in result.reason
    assert result.position_error < 0.5


def test_other_judges_are_asked():
    solver = solver_of()
    target = pose_of("franka", solver.chain, draw(solver.chain, 1, 16)[0])
    seen = []

    def elbow_up(q):
        seen.append(q.copy())
        q[:] = np.nan  # writing to the argument has no effect
        return True if seen[-1][0] > 0.5 else "the shoulder looks the wrong way"

    result = solver.solve(IkRequest(target, validity=elbow_up))
    assert result.success
    assert result.q[0] > 0.5
    np.testing.assert_array_equal(result.q, seen[-1])
    assert all(q[0] <= 0.5 for q in seen[:-1])

    refused = solver.solve(IkRequest(target, validity=lambda q: "it hits the table"))
    assert refused.status is IkStatus.REFUSED
    assert not refused.success
    assert "it hits the table" in refused.reason
    assert refused.position_error <= 1e-6
    plain = solver.solve(IkRequest(target, validity=lambda q: np.False_))
    assert plain.status is IkStatus.REFUSED
    with pytest.raises(ZeroDivisionError):
        solver.solve(IkRequest(target, validity=lambda q: 1 / 0))
    assert solver.solve(IkRequest(target)).success


def test_a_judge_may_ask_the_same_solver():
    solver = solver_of()
    q = draw(solver.chain, 2, 20)
    targets = [pose_of("franka", solver.chain, row) for row in q]
    plain = [solver.solve(IkRequest(X)).q for X in targets]
    asked = []

    def judge(candidate):
        asked.append(solver.solve(IkRequest(targets[1])).q)
        return len(asked) > 3

    result = solver.solve(IkRequest(targets[0], validity=judge))
    assert result.success
    np.testing.assert_allclose(pose_of("franka", solver.chain, result.q), targets[0], atol=3e-6)
    assert all(np.array_equal(answer, plain[1]) for answer in asked)
    np.testing.assert_array_equal(solver.solve(IkRequest(targets[0])).q, plain[0])


def test_locked_joints_do_not_move():
    solver = solver_of()
    for q in draw(solver.chain, 20, 17):
        locked = {"panda_joint3": float(q[2])}
        target = pose_of("franka", solver.chain, q)
        result = solver.solve(IkRequest(target, seed=solver.chain.centre, locked=locked))
        assert result.success, result.reason
        assert result.q[2] == q[2]
    freed = solver.solve(IkRequest(target, seed=solver.chain.centre))
    assert freed.q[2] != q[2]


def test_joints_may_be_fewer_and_in_any_order():
    robot = load_robot("franka")
    names = robot.group("arm").joints
    order = [names[k] for k in (6, 2, 0, 1, 3, 5, 4)]
    chain = IkChain(robot.tree, "panda_link0", "panda_hand_tcp", order, limits=robot.limits)
    solver = LeastSquaresIk(chain, IkSettings(tolerance=TIGHT))
    straight = solver_of().chain
    for q in draw(straight, 20, 18):
        target = pose_of("franka", straight, q)
        result = solver.solve(IkRequest(target))
        assert result.success
        back = [result.q[order.index(name)] for name in names]
        np.testing.assert_allclose(pose_of("franka", straight, np.array(back)), target, atol=3e-6)
    fewer = IkChain(robot.tree, "panda_link0", "panda_hand_tcp", names[:6], limits=robot.limits)
    assert fewer.joint_names == names[:6]
    target = fewer.kinematics.pose(draw(fewer, 1, 19)[0], fewer.tip)
    assert LeastSquaresIk(fewer, IkSettings(tolerance=TIGHT)).solve(IkRequest(target)).success


CHAINS = [(1, 1), (2, 2), (3, 4), (4, 6), (5, 7), (6, 8), (9, 12)]


@pytest.mark.parametrize(("seed", "joints"), CHAINS)
def test_any_chain_revolute_prismatic_continuous_mimic(seed, joints):
    case = RandomChain(seed, joints)
    chain = case.chain
    settings = IkSettings(tolerance=TIGHT, timeout=20.0)
    solver = LeastSquaresIk(chain, settings)
    for q in draw(chain, 40, seed):
        target = case.pose(q)
        result = solver.solve(IkRequest(target))
        assert result.success, result.reason
        assert inside(chain, result.q)
        np.testing.assert_allclose(case.pose(result.q), target, atol=1e-5)


def test_a_base_anywhere_in_the_tree():
    case = RandomChain(4, 6)
    inner = case.tree.path(case.tree.root, case.tip)[-2].child
    for base, tip in ((case.tip, case.tree.root), (inner, case.tree.root)):
        chain = IkChain(case.tree, base, tip)
        solver = LeastSquaresIk(chain, IkSettings(tolerance=TIGHT))
        for q in draw(chain, 5, 3):
            everything = np.zeros(6)
            for name, value in zip(chain.joint_names, q, strict=True):
                everything[case.tree.joint_names.index(name)] = value
            X_RB, X_RT = (case.oracle.pose(everything, frame) for frame in (base, tip))
            result = solver.solve(IkRequest(inverse(X_RB) @ X_RT))
            assert result.success, result.reason


ANGLE = st.floats(-50.0, 50.0)


@settings(derandomize=True)
@given(ANGLE, ANGLE)
def test_continuous_joints_differ_by_half_a_turn_at_most(a, b):
    d = difference([a, a], [b, b], continuous=[True, False])
    assert abs(d[0]) <= math.pi + 1e-12
    assert math.remainder(d[0] - (a - b), 2.0 * math.pi) == pytest.approx(0.0, abs=1e-9)
    assert d[1] == a - b


def test_distances():
    q1, q2 = np.zeros(3), np.array([3.0, 4.0, 0.0])
    assert distance(q2, q1) == 5.0
    assert distance(q2, q1, norm=math.inf) == 4.0
    assert distance(q2, q1, norm=1.0) == 7.0
    assert distance(q2, q1, weights=[1.0, 0.5, 9.0]) == pytest.approx(math.sqrt(13.0))
    assert distance([6.2], [0.0], continuous=[True]) == pytest.approx(2 * math.pi - 6.2)
    np.testing.assert_allclose(distance(np.array([q1, q2]), q2), [5.0, 0.0])
    with pytest.raises(InvalidConfig):
        distance(q2, q1, norm=0.5)
    with pytest.raises(InvalidConfig, check=about("weights")):
        distance(q2, q1, weights=-1.0)


def test_halton_is_the_known_sequence():
    np.testing.assert_allclose(
        halton(6, 2)[:, 0], [1 / 2, 1 / 4, 3 / 4, 1 / 8, 5 / 8, 3 / 8], atol=1e-15
    )
    np.testing.assert_allclose(halton(5, 2)[:, 1], [1 / 3, 2 / 3, 1 / 9, 4 / 9, 7 / 9], atol=1e-15)
    oracle = qmc.Halton(7, scramble=False).random(300)
    np.testing.assert_allclose(halton(300, 7, first=0), oracle, atol=1e-12)
    np.testing.assert_allclose(halton(100, 3, first=50), halton(149, 3)[49:], atol=1e-15)
    with pytest.raises(InvalidConfig):
        halton(3, 17)


def test_samples_fill_the_interval():
    low, high = np.array([-1.0, 2.0, 5.0]), np.array([1.0, 2.5, 5.0])
    stream = interval_samples(low, high, seed=3)
    Q = np.array(list(itertools.islice(stream, 500)))
    assert (Q >= low).all()
    assert (Q <= high).all()
    assert (Q[:, 2] == 5.0).all()
    for k in (0, 1):
        counts, _ = np.histogram(Q[:, k], 10, (low[k], high[k]))
        assert counts.min() >= 25
    again = interval_samples(low, high, seed=3)
    np.testing.assert_array_equal(Q, list(itertools.islice(again, 500)))


def test_equal_bounds_give_one_value():
    assert [q.tolist() for q in interval_samples([1.0, 2.0], [1.0, 2.0])] == [[1.0, 2.0]]
    for low, high in (
        ([1.0], [0.0]),
        ([0.0], [math.inf]),
        ([0.0, 1.0], [1.0]),
        ([math.nan], [1.0]),
    ):
        with pytest.raises(InvalidConfig, check=about("bounds")):
            interval_samples(low, high)


def test_free_joints_begin_with_their_current_values():
    now = [0.5, -0.2]
    stream = free_joint_samples(now, [-1.0, -1.0], [1.0, 1.0], max_distance=0.1, max_attempts=50)
    values = np.array(list(stream))
    assert len(values) == 50
    np.testing.assert_array_equal(values[0], now)
    assert (np.abs(values - now) <= 0.1 + 1e-15).all()
    assert len(np.unique(values[:, 0])) == 50
    edge = list(free_joint_samples([0.95], [-1.0], [1.0], max_distance=0.2, max_attempts=40))
    assert np.max(edge) <= 1.0


def test_joints_without_a_range_never_move():
    stream = free_joint_samples([0.5, 0.1], [-1.0, 0.1], [1.0, 0.1], max_attempts=30)
    values = np.array(list(stream))
    assert (values[:, 1] == 0.1).all()
    assert np.ptp(values[:, 0]) > 0.5
    assert len(list(free_joint_samples([0.5], [0.5], [0.5]))) == 1


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


@pytest.mark.parametrize(
    ("count", "free"), [(3, [0, 0, 1, 3]), (4, [0, 0, 1, 2, 3]), (5, [0, 0, 1]), (6, []), (7, [])]
)
def test_how_much_of_a_pose_may_be_given_up(count, free):
    found = relaxed_tolerances(chain(count), IkTolerance())
    assert [int(t.free.sum()) for t in found] == free
    assert relaxed_tolerances(chain(count), IkTolerance.position_only()) == ()


def test_the_approach_axis_is_that_of_the_roll():
    assert approach_axis(chain(5)) == 2


def test_a_thousand_reachable_poses_of_five_joints_are_solved_whatever_their_roll():
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


def test_four_joints_keep_the_position_and_say_so():
    arm = chain(4)
    X = arm.kinematics.pose(np.array([0.3, 0.8, 0.5, 0.4]), "tcp")
    X = X @ from_xyz_rpy(rpy=(0.7, 0.0, 0.0))
    result = solve_reachable(LeastSquaresIk(arm, SETTINGS), IkRequest(X, settings=SETTINGS), arm)
    assert result.success
    assert np.linalg.norm(arm.kinematics.pose(result.q, "tcp")[:3, 3] - X[:3, 3]) < 1.1e-3
    assert result.reason


@pytest.mark.parametrize(("name", "tip"), [("scara", "flange"), ("palletizer", "tool0")])
def test_tools_that_only_yaw_keep_the_yaw_of_poses_that_are_tilted(name, tip):
    """By construction the yaw is reachable: no solution is farther off than the tilt."""
    arm = IkChain(read_urdf((VARIETY / f"{name}.urdf").read_text()), "base_link", tip)
    solver, rng, tilt = LeastSquaresIk(arm, SETTINGS), np.random.default_rng(4), 0.3
    bounds = np.maximum(arm.lower, -3.0), np.minimum(arm.upper, 3.0)
    for q in rng.uniform(*bounds, (50, len(arm.lower))):
        there = arm.kinematics.pose(q, tip)
        X = there.copy()
        X[:3, :3] = from_xyz_rpy(rpy=(tilt, 0.0, 0.0))[:3, :3] @ there[:3, :3]
        result = solve_reachable(solver, IkRequest(X, settings=SETTINGS), arm)
        assert result.success
        assert "except about" in result.reason
        error = pose_error(arm.kinematics.pose(result.q, tip), X)
        assert np.linalg.norm(error[:3]) < 1.1e-3
        assert np.linalg.norm(error[3:]) < tilt + 0.015


def test_six_joints_keep_the_whole_pose():
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
