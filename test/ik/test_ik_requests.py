# SPDX-License-Identifier: Apache-2.0
"""Requests of inverse kinematics: invalid ones, batches, chains, settings."""

import dataclasses
import math

import numpy as np
import pytest
from ik.ik_samples import TIGHT, RandomChain, draw, load, oracle_of, pose_of, solver_of
from raised_errors import about

from motion_nodes.core.control.joint_command import JointCommand
from motion_nodes.core.control.joint_controller import ArticulationController
from motion_nodes.core.ik import solvers
from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.ik.problem import IkRequest, IkSettings, IkStatus, IkTolerance
from motion_nodes.core.ik.solver import LeastSquaresIk
from motion_nodes.core.ik.solvers import make_solver, register, solver_names
from motion_nodes.core.ik.tool_goal import ArticulationIk
from motion_nodes.core.robot.poses import from_xyz_quat, from_xyz_rpy, inverse
from motion_nodes.core.robot.tree import Joint, JointKind, KinematicTree, Link, Mimic, frozen
from motion_nodes.errors import (
    InvalidCommand,
    InvalidConfig,
    UnknownFrame,
    UnknownGroup,
    UnknownJoint,
)


def matrix(**changes: float) -> np.ndarray:
    X = np.eye(4)
    X[0, 3] = 0.5
    for place, value in changes.items():
        X[int(place[1]), int(place[2])] = value
    return X


BAD_TARGETS = {
    "NaN": matrix(x03=np.nan),
    "infinite": matrix(x13=np.inf),
    "NaN in the rotation": matrix(x01=np.nan),
    "mirrored": matrix(x00=-1.0),
    "stretched": 2.0 * matrix(),
    "zero": np.zeros((4, 4)),
    "last row": matrix(x30=1.0),
    "three rows": np.eye(4)[:3],
    "a list of words": "pose",
    "nothing": None,
    "ragged": [[1.0, 2.0], [3.0]],
}


@pytest.mark.parametrize("name", BAD_TARGETS)
@pytest.mark.parametrize("field", ["target", "base_pose"])
def test_what_is_no_pose_is_refused_and_the_next_request_is_answered(name, field):
    solver = solver_of()
    value = BAD_TARGETS[name]
    good = pose_of("franka", solver.chain, draw(solver.chain, 1, 1)[0])
    request = {"target": good, field: value}
    if field == "base_pose" and value is None:
        assert solver.solve(IkRequest(**request)).success  # None means identity
        return
    with pytest.raises(InvalidCommand, check=about(field)):
        solver.solve(IkRequest(**request))
    assert solver.solve(IkRequest(good)).success


BAD_SEEDS = {
    "short": [0.0] * 6,
    "long": np.zeros(9),
    "NaN": [0.0] * 6 + [np.nan],
    "infinite": [np.inf] + [0.0] * 6,
    "words": ["a"] * 7,
    "one number": 1.0,
}


@pytest.mark.parametrize("name", BAD_SEEDS)
@pytest.mark.parametrize("field", ["seed", "initial_guesses"])
def test_bad_seeds_are_refused(name, field):
    solver = solver_of()
    value = BAD_SEEDS[name]
    with pytest.raises(InvalidCommand, check=about(field)):
        solver.solve(IkRequest(np.eye(4), **{field: value}))


def test_a_seed_outside_the_limits_starts_at_the_limit():
    solver = solver_of()
    q = draw(solver.chain, 1, 2)[0]
    q[1] = solver.chain.upper[1]
    beyond = q.copy()
    beyond[1] += 1e-8  # as encoders report it
    result = solver.solve(IkRequest(pose_of("franka", solver.chain, q), seed=beyond))
    assert result.success
    np.testing.assert_array_equal(result.q, q)


def test_requests_are_not_changed():
    solver = solver_of()
    q = draw(solver.chain, 3, 3)
    target = pose_of("franka", solver.chain, q[0])
    before = target.copy(), q.copy()
    result = solver.solve(IkRequest(target, seed=q[1], initial_guesses=q))
    np.testing.assert_array_equal(target, before[0])
    np.testing.assert_array_equal(q, before[1])
    kept = result.q.copy(), result.errors.copy()
    solver.solve(IkRequest(pose_of("franka", solver.chain, q[2])))
    np.testing.assert_array_equal(result.q, kept[0])
    np.testing.assert_array_equal(result.errors, kept[1])


@pytest.mark.parametrize(
    ("locked", "error", "words"),
    [
        ({"panda_joint8": 0.0}, UnknownJoint, "panda_joint8"),
        ({"panda_joint4": 0.0}, InvalidCommand, "panda_joint4"),
        ({"panda_joint4": np.nan}, InvalidCommand, "panda_joint4"),
    ],
)
def test_joints_that_cannot_be_locked_are_named(locked, error, words):
    solver = solver_of()
    target = pose_of("franka", solver.chain, draw(solver.chain, 1, 4)[0])
    want = solver.solve(IkRequest(target)).q
    with pytest.raises(error, check=about(words)):
        solver.solve(IkRequest(target, locked=locked))
    np.testing.assert_array_equal(solver.solve(IkRequest(target)).q, want)


@pytest.mark.parametrize(
    "tolerance",
    [0.0, -1.0, np.nan, (1e-3, 1e-3), (1e-3, 0.0, 1e-3), (1e-3, np.nan, 1e-3), (1.0,) * 4],
)
def test_tolerances_must_be_positive(tolerance):
    with pytest.raises(InvalidConfig):
        IkTolerance(position=tolerance)
    with pytest.raises(InvalidConfig):
        IkTolerance(orientation=tolerance)


def test_something_must_be_asked_for():
    with pytest.raises(InvalidConfig):
        IkTolerance(np.inf, np.inf)
    with pytest.raises(InvalidConfig):
        IkTolerance((np.inf,) * 3, np.inf)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("timeout", -1.0),
        ("timeout", 0.0),
        ("timeout", np.nan),
        ("attempts", 0),
        ("attempts", 2.5),
        ("attempts", True),
        ("max_iterations", 0),
        ("max_iterations", -3),
        ("random_seed", -1),
        ("prefer", "fastest"),
        ("tolerance", 1e-3),
    ],
)
def test_settings_check_themselves(field, value):
    with pytest.raises(InvalidConfig, check=about(field)):
        IkSettings(**{field: value})


def test_quaternions_of_any_length_but_zero_make_targets():
    solver = solver_of()
    target = from_xyz_quat([0.4, 0.1, 0.4], [2.0, 0.0, 0.0, 0.0])
    assert solver.solve(IkRequest(target)).success
    with pytest.raises(ValueError):
        from_xyz_quat([0.4, 0.1, 0.4], [0.0, 0.0, 0.0, 0.0])


def test_chains_are_checked():
    robot = load("franka")
    with pytest.raises(UnknownFrame, check=about("panda_hand_tpc")):
        IkChain(robot.tree, "panda_link0", "panda_hand_tpc")
    with pytest.raises(UnknownFrame):
        IkChain(robot.tree, "world", "panda_hand_tcp")
    with pytest.raises(UnknownJoint):
        IkChain(robot.tree, "panda_link0", "panda_hand_tcp", ["panda_finger_joint1"])
    with pytest.raises(InvalidConfig):
        IkChain(robot.tree, "panda_hand", "panda_hand_tcp")
    with pytest.raises(InvalidConfig):
        IkChain.of_group(robot, "gripper")
    with pytest.raises(UnknownGroup):
        IkChain.of_group(robot, "leg")
    assert IkChain.of_group(robot, "panda_arm").joint_names == robot.group("arm").joints


def test_a_chain_takes_the_joints_on_its_way():
    robot = load("franka")
    whole = IkChain(robot.tree, "panda_link0", "panda_hand_tcp")
    assert whole.joint_names == robot.group("arm").joints
    wrist = IkChain(robot.tree, "panda_link4", "panda_link7")
    assert wrist.joint_names == ("panda_joint5", "panda_joint6", "panda_joint7")
    backwards = IkChain(robot.tree, "panda_link7", "panda_link4")
    assert backwards.joint_names == ("panda_joint7", "panda_joint6", "panda_joint5")
    across = IkChain(robot.tree, "panda_leftfinger", "panda_rightfinger")
    assert across.joint_names == ("panda_finger_joint1", "panda_finger_joint2")


def small_tree(mimic: Mimic | None, upper: float = 1.0) -> KinematicTree:
    def joint(name, kind, parent, child, **more):
        return Joint(name, kind, parent, child, frozen(np.eye(4)), frozen([0.0, 0.0, 1.0]), **more)

    joints = [
        joint("turn", JointKind.CONTINUOUS, "a", "b"),
        joint("bend", JointKind.REVOLUTE, "b", "c", lower=-2.0, upper=2.0),
        joint("slide", JointKind.PRISMATIC, "c", "d", lower=0.0, upper=upper, mimic=mimic),
    ]
    return KinematicTree("small", {n: Link(n) for n in "abcd"}, {j.name: j for j in joints})


def test_joints_that_mimic_narrow_the_limits():
    chain = IkChain(small_tree(Mimic("bend", 0.5, 0.2)), "a", "d")
    assert chain.joint_names == ("turn", "bend")
    np.testing.assert_allclose(chain.lower, [-np.inf, -0.4])
    np.testing.assert_allclose(chain.upper, [np.inf, 1.6])
    falling = IkChain(small_tree(Mimic("bend", -0.5, 0.2)), "a", "d")
    np.testing.assert_allclose([falling.lower[1], falling.upper[1]], [-1.6, 0.4])
    with pytest.raises(InvalidConfig):
        IkChain(small_tree(Mimic("bend", 0.5, 5.0)), "a", "d")
    assert IkChain(small_tree(None), "a", "d").turning == (0,)
    # A full turn of a joint that a slide mimics would move the slide.
    assert IkChain(small_tree(Mimic("turn", 0.1, 0.0)), "a", "d").turning == ()


def test_continuous_joints_answer_near_to_the_seed_or_within_half_a_turn():
    case = RandomChain(5, 7)
    chain = IkChain(case.tree, case.tree.root, case.tip)
    endless = [k for k in chain.turning if np.isinf(chain.upper[k])]
    assert endless
    solver = LeastSquaresIk(chain, IkSettings(tolerance=TIGHT, timeout=5.0))
    for q in draw(chain, 20, 5):
        target = chain.kinematics.pose(q, chain.tip)
        assert (np.abs(solver.solve(IkRequest(target)).q[endless]) <= np.pi + 1e-12).all()
        seed = q + 0.01
        seed[endless] += 6.0 * np.pi
        near = solver.solve(IkRequest(target, seed=seed))
        assert near.success
        assert (np.abs(near.q[endless] - seed[endless]) <= np.pi + 1e-12).all()


def test_full_turns_are_taken_only_where_the_limits_let_them():
    chain = solver_of("ur10e").chain
    assert chain.turning == tuple(range(6))
    q = np.array([6.0, -6.0, 1.0, 3.2, -3.2, 0.0])
    np.testing.assert_allclose(
        chain.unwrap_near(q.copy(), np.zeros(6)),
        [6.0 - 2 * np.pi, 2 * np.pi - 6.0, 1.0, 3.2 - 2 * np.pi, 2 * np.pi - 3.2, 0.0],
    )
    far = chain.unwrap_near(np.full(6, 1.0), np.full(6, 100.0))
    np.testing.assert_allclose(far[:2], 1.0)  # 1 + 2 pi is beyond the limit of 2 pi
    assert (far <= chain.upper).all()
    rng = np.random.default_rng(7)
    Q, to = rng.uniform(chain.lower, chain.upper, (200, 6)), rng.uniform(-20.0, 20.0, (200, 6))
    singly = [chain.unwrap_near(row.copy(), near) for row, near in zip(Q, to, strict=True)]
    chain.unwrap_all_near(Q, to)
    np.testing.assert_array_equal(Q, singly)


def test_the_chain_is_as_long_as_it_can_be():
    chain = solver_of().chain
    Q = draw(chain, 2000, 6)
    p = chain.kinematics.pose_batch(Q, chain.tip)[:, :3, 3]
    reached = np.linalg.norm(p - chain.origin, axis=1).max()
    assert 0.75 * chain.length < reached <= chain.length


def test_solvers_are_chosen_by_name(monkeypatch):
    monkeypatch.setattr(solvers, "_MAKERS", dict(solvers._MAKERS))
    chain = solver_of().chain
    assert solver_names()[0] == "damped_least_squares"
    assert isinstance(make_solver(chain), LeastSquaresIk)
    with pytest.raises(InvalidConfig, check=about("damped_least_square")):
        make_solver(chain, "damped_least_square")
    made = []
    register("mine", lambda chain, settings: made.append((chain, settings)) or solver_of())
    settings = IkSettings()
    make_solver(chain, "mine", settings)
    assert made == [(chain, settings)]
    with pytest.raises(InvalidConfig, check=about("mine")):
        register("mine", LeastSquaresIk)


@pytest.mark.parametrize("start", [None, 0.0])
def test_a_locked_joint_is_not_shifted_by_full_turns(start):
    robot = load("xarm7")
    chain = IkChain.of_group(robot, "arm")
    locked = {chain.joint_names[2]: 4.0}  # more than half a turn from the seed and the centre
    target = pose_of("xarm7", chain, np.array([0.2, 0.3, 4.0, 0.9, 0.1, 0.7, -0.3]))
    seed = None if start is None else np.full(7, start)
    solver = LeastSquaresIk(chain, IkSettings(tolerance=TIGHT, timeout=5.0))
    for validity in (None, lambda q: True):
        result = solver.solve(IkRequest(target, seed=seed, locked=locked, validity=validity))
        assert result.success, result.reason
        assert result.q[2] == 4.0


def test_seeds_far_outside_the_limits_cost_no_time():
    chain = IkChain.of_group(load("ur5e"), "arm")
    solver = LeastSquaresIk(chain, IkSettings(tolerance=TIGHT, timeout=5.0))
    target = pose_of("ur5e", chain, draw(chain, 1, 1)[0])
    for far in (1e9, -1e9):
        q = solver.solve(IkRequest(target, seed=np.full(6, far / 6.0))).q
        assert np.all((q >= chain.lower) & (q <= chain.upper))
        # Each joint is as close to the seed as its limits permit.
        assert not np.any((chain.lower <= q + np.copysign(2 * np.pi, far))
                          & (q + np.copysign(2 * np.pi, far) <= chain.upper))  # fmt: skip
        batch = solver.solve_batch(target[None], np.full(6, far / 6.0))
        assert np.allclose(batch.q[0], q)


@pytest.mark.parametrize("value", [2e9, -1e300])
def test_impossible_seeds_are_refused(value):
    solver = solver_of()
    target = pose_of("franka", solver.chain, draw(solver.chain, 1, 1)[0])
    with pytest.raises(InvalidCommand, match="allowed is -1e\\+09 to 1e\\+09 rad or m"):
        solver.solve(IkRequest(target, seed=np.full(7, value)))
    with pytest.raises(InvalidCommand, match="seeds of panda_joint1"):
        solver.solve_batch(target[None], np.full(7, value))


@pytest.mark.parametrize("name", ["damped_least_squares", "jacobian_transpose"])
def test_validity_in_all_its_forms(name):
    chain = IkChain.of_group(load("franka"), "arm")
    solver = make_solver(chain, name, IkSettings(tolerance=TIGHT, attempts=3, timeout=5.0))
    q = draw(chain, 1, 1)[0]
    request = IkRequest(pose_of("franka", chain, q), seed=q)
    for accepted in (True, np.bool_(True)):
        assert solver.solve(request._replace(validity=lambda _, x=accepted: x)).success
    for rejected, reason in ((False, "rejected as invalid"), (np.bool_(False), "rejected as"),
                             ("", "rejected as invalid"), ("too hot", "too hot")):  # fmt: skip
        result = solver.solve(request._replace(validity=lambda _, x=rejected: x))
        assert not result.success
        assert reason in result.reason


@pytest.mark.parametrize("robot", ["franka", "ur10e"])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("seeded", [False, True])
def test_a_batch_answers_like_single_requests(robot, threads, seeded):
    solver = solver_of(robot)
    Q = draw(solver.chain, 150, 1)
    targets = solver.chain.kinematics.pose_batch(Q, solver.chain.tip)
    targets[7, :3, 3] += 5.0
    seeds = draw(solver.chain, 150, 2) if seeded else None
    batch = solver.solve_batch(targets, seeds, threads=threads)
    assert batch.solved.sum() == 149
    assert batch.status[7] is IkStatus.OUT_OF_REACH
    for i in range(0, 150, 7):
        alone = solver.solve(IkRequest(targets[i], seed=None if seeds is None else seeds[i]))
        assert batch.status[i] is alone.status
        np.testing.assert_array_equal(batch.q[i], alone.q)
        np.testing.assert_array_equal(batch.errors[i], alone.errors)
        assert batch.iterations[i] == alone.iterations
        if alone.success:
            np.testing.assert_allclose(
                pose_of(robot, solver.chain, batch.q[i]), targets[i], atol=3e-6
            )
    assert (batch.q >= solver.chain.lower).all()
    assert (batch.q <= solver.chain.upper).all()


def test_one_seed_serves_all():
    solver = solver_of()
    targets = solver.chain.kinematics.pose_batch(draw(solver.chain, 5, 3), solver.chain.tip)
    one = solver.solve_batch(targets, solver.chain.centre)
    many = solver.solve_batch(targets, np.tile(solver.chain.centre, (5, 1)))
    np.testing.assert_array_equal(one.q, many.q)


def test_limits_of_the_search_hold_in_a_batch():
    solver = solver_of()
    targets = solver.chain.kinematics.pose_batch(draw(solver.chain, 80, 4), solver.chain.tip)
    few = dataclasses.replace(solver.settings, max_iterations=16)
    batch = solver.solve_batch(targets, settings=few)
    assert batch.iterations.max() <= 16
    assert IkStatus.ITERATION_LIMIT in batch.status
    assert batch.solved.sum() < 80


def test_empty_and_bad_batches():
    solver = solver_of()
    empty = solver.solve_batch(np.empty((0, 4, 4)))
    assert empty.q.shape == (0, 7)
    assert empty.status == ()
    targets = np.tile(np.eye(4), (70, 1, 1))
    targets[:, 0, 3] = 0.5
    for bad, field in (
        (np.eye(4), "targets"),
        ("poses", "targets"),
        (np.zeros((3, 4, 4)), "target 0 of 3"),
    ):
        with pytest.raises(InvalidCommand, check=about(field)):
            solver.solve_batch(bad)
    with pytest.raises(InvalidCommand):
        solver.solve_batch(targets, np.zeros((2, 7)))
    with pytest.raises(InvalidConfig):
        solver.solve_batch(targets, threads=0)
    targets[69, 1, 1] = np.nan
    with pytest.raises(InvalidCommand):
        solver.solve_batch(targets)


FRANKA = load("franka")
X_WB = from_xyz_rpy((1.0, -2.0, 0.3), (0.0, 0.0, 2.0))


@pytest.fixture(scope="module")
def ik():
    return ArticulationIk(FRANKA, "panda_arm")


def apart(X: np.ndarray, Y: np.ndarray) -> tuple[float, float]:
    """Return distance [m] and angle [rad] between two poses."""
    D = inverse(X) @ Y
    return float(np.linalg.norm(D[:3, 3])), math.acos(min(1.0, (np.trace(D[:3, :3]) - 1.0) / 2.0))


def pinocchio(q: np.ndarray) -> np.ndarray:
    """Return the pose of the tool in the base by the oracle, shape (4, 4)."""
    return oracle_of("franka").pose(q, "panda_hand_tcp", "panda_link0")


def test_the_applied_command_brings_the_tool_there(ik):
    """Joints outside the group keep their positions."""
    controller = ArticulationController(FRANKA.limits)
    controller.reset(FRANKA.home)
    for q in draw(ik.chain, 5, seed=3):
        target = ik.chain.kinematics.pose(q, ik.chain.tip)
        present = dict(zip(FRANKA.joint_names, controller.targets.positions, strict=True))
        goal = ik.goal_for(target, present)
        assert goal.success, goal.result.reason
        assert goal.names == ik.joint_names
        controller.apply(JointCommand(names=goal.names, positions=goal.positions))
        reference = controller.step(0.01)
        for _ in range(2000):
            reference = controller.step(0.01)
            if not controller.moving:
                break
        position, angle = apart(pinocchio(reference.positions), target)
        assert position < 2e-6
        assert angle < 2e-6
        assert np.array_equal(reference.positions[7:], FRANKA.home[7:])


def test_it_begins_where_the_joints_are(ik):
    """Small steps of the tool along a path are small steps of the joints."""
    q = FRANKA.home[:7]
    X = ik.tool_pose(q)
    for k in range(1, 21):
        target = X.copy()
        target[:3, 3] += 0.01 * k * np.array([0.5, 0.5, -0.5])
        goal = ik.goal_for(target, q)
        assert goal.success
        assert np.abs(goal.positions - q).max() < 0.08
        q = goal.positions


def test_of_a_robot_that_stands_elsewhere():
    ik = ArticulationIk(FRANKA, "arm")
    home = ik.tool_pose(FRANKA.home[:7])
    ik.set_base_pose(X_WB)
    assert np.allclose(ik.tool_pose(FRANKA.home[:7]), X_WB @ home, atol=1e-12)
    target = X_WB @ home @ from_xyz_rpy((0.02, 0.03, -0.05), (0.1, 0.0, 0.2))
    goal = ik.goal_for(target, FRANKA.home[:7])
    assert goal.success
    q = np.concatenate([goal.positions, FRANKA.home[7:]])
    assert max(apart(X_WB @ pinocchio(q), target)) < 2e-6


def test_what_cannot_be_reached_moves_nothing_and_says_why(ik):
    present = FRANKA.home[:7] + 0.01
    goal = ik.goal_for(from_xyz_rpy((3.0, 0.0, 0.5)), present)
    assert not goal.success
    assert goal.result.status is IkStatus.OUT_OF_REACH
    assert goal.result.reason
    assert np.array_equal(goal.positions, present)


def test_position_alone(ik):
    """Tolerance of a single request: position only, where the orientation is out of reach."""
    target = from_xyz_rpy((0.75, 0.0, 0.3), (0.0, -1.2, 0.0))
    whole = ik.goal_for(target, FRANKA.home[:7])
    place = ik.goal_for(target, FRANKA.home[:7], tolerance=IkTolerance.position_only(1e-5))
    assert (whole.success, place.success) == (False, True)
    assert np.linalg.norm(ik.tool_pose(place.positions)[:3, 3] - target[:3, 3]) < 2e-5


def test_bad_input(ik):
    home = dict(zip(FRANKA.joint_names, FRANKA.home, strict=True))
    X = ik.tool_pose(home)
    with pytest.raises(InvalidCommand):
        ik.goal_for(X, {name: q for name, q in home.items() if name != "panda_joint3"})
    with pytest.raises(InvalidCommand):
        ik.goal_for(X, home | {"panda_joint1": math.nan})
    with pytest.raises(InvalidCommand):
        ik.goal_for(X, FRANKA.home)
    for bad in (np.zeros((4, 4)), np.full((4, 4), np.nan), np.eye(3)):
        with pytest.raises(InvalidCommand):
            ik.goal_for(bad, home)
        with pytest.raises(InvalidCommand):
            ik.set_base_pose(bad)
    assert np.array_equal(ik.tool_pose(home), X), "a refused base pose had an effect"
    with pytest.raises(UnknownGroup, check=about("am")):
        ArticulationIk(FRANKA, "am")


def test_joints_beyond_a_limit_are_led_back(ik):
    present = FRANKA.home[:7].copy()
    present[5] = 3.7525 + 0.002
    goal = ik.goal_for(ik.tool_pose(FRANKA.home[:7]), present)
    assert goal.success
    assert (goal.positions <= ik.chain.upper).all()


def test_settings_of_the_caller():
    loose = ArticulationIk(FRANKA, "arm", settings=IkSettings(tolerance=IkTolerance(1e-2, 0.1)))
    goal = loose.goal_for(from_xyz_rpy((0.4, 0.1, 0.5), (math.pi, 0.0, 0.0)), FRANKA.home[:7])
    assert goal.success
    assert goal.result.position_error <= 1e-2
