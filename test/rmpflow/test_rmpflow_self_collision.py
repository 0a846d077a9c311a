# SPDX-License-Identifier: Apache-2.0
"""Self-collision avoidance, and the braking guard."""

import dataclasses

import numpy as np
import pytest
from rmpflow import rmp_cases

from motion_nodes.core.reactive.compiled_policy import Evaluator
from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.reactive.policy_motion import BrakingGuard
from motion_nodes.core.reactive.policy_state import Phase, RobotMotion
from motion_nodes.core.reactive.target_follower import Follower
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.rmpflow_settings import RmpflowSettings, SelfCollision, read_rmpflow
from motion_nodes.core.scene.checker import CollisionChecker

ON = SelfCollision(metric_scalar=1e3, metric_modulation_radius=0.1)
ROBOTS = ("franka", "ur10e")
INSIDE = (-0.1613, -0.0029, 0.1003)  # near the foot of the Panda


def evaluator(name, leaf=ON):
    robot = load_robot(name)
    settings = dataclasses.replace(rmp_cases.case(name).settings, self_collision_rmp=leaf)
    return Evaluator(robot, robot.group("arm").joints, rmp_cases.TOOLS[name], settings)


@pytest.mark.parametrize("name", ROBOTS)
def test_generated_code_is_the_formulas(name):
    made, case, rng = evaluator(name), rmp_cases.case(name), np.random.default_rng(11)
    apart = evaluator(name, SelfCollision())
    felt = 0
    for _ in range(12):
        q, qd = rmp_cases.state(rng, case)
        made.set_goal(rmp_cases.goal(rng, case))
        apart.set_goal(made.goal)
        got, expected = made.acceleration(q, qd), made.report(q, qd)
        n, at = case.model.active, made._at
        M = made._memory[at["M"] : at["M"] + n * n].reshape(n, n)
        assert pytest.approx(expected.M, rel=1e-7, abs=1e-8 * np.abs(expected.M).max()) == M
        assert got == pytest.approx(expected.qdd, rel=1e-5, abs=1e-5)
        felt += not np.allclose(got, apart.acceleration(q, qd), atol=1e-3)
    assert felt >= 4


@pytest.mark.parametrize("name", ROBOTS)
def test_distances_are_those_of_the_collision_checker(name):
    made, case, rng = evaluator(name), rmp_cases.case(name), np.random.default_rng(5)
    checker = CollisionChecker(load_robot(name), made.active)
    for _ in range(10):
        q, _ = rmp_cases.state(rng, case)
        q[case.model.active :] = load_robot(name).home[case.model.active :]
        assert least_distance(made, q) == pytest.approx(
            checker.distance(q[: case.model.active]).value, abs=1e-9
        )


def least_distance(made, q):
    made._evaluate(q, 0.0 * q)
    return made._memory[made._at["nearest_links"]]


def test_off_in_files_without_it_on_in_ours():
    assert RmpflowSettings().self_collision_rmp.metric_scalar == 0.0
    for name in ROBOTS:
        assert read_rmpflow(load_robot(name).directory).self_collision_rmp.metric_scalar > 0.0


@pytest.mark.long
def test_targets_at_the_own_body_are_left_alone():
    """Without the RMP the hand moves into the arm; with it, it does not."""
    robot = load_robot("franka")
    checker = CollisionChecker(robot, "arm")
    least = {}
    for weight in (0.0, 1e3):
        policy = RmpflowPolicy(robot, ignore_robot_state_updates=True)
        policy.set_parameters({"self_collision_rmp.metric_scalar": weight})
        rest = np.zeros(7)
        policy.set_internal_robot_joint_states(policy.default_cspace_target, rest)
        policy.set_end_effector_target(INSIDE)
        least[weight] = np.inf
        for _ in range(150):
            q, _ = policy.compute_joint_targets(rest, rest, frame_duration=0.03)
            least[weight] = min(least[weight], checker.distance(q).value)
    assert least[0.0] < 0.0
    assert least[1e3] > 0.005


DT = 0.01
# Seeds of starts from which the policy alone moves a link 2 to 10 cm into another.
STARTS = (2, 7, 10, 12)


@pytest.fixture(scope="module")
def ur10e():
    policy = RmpflowPolicy(load_robot("ur10e"), ignore_robot_state_updates=True)
    return policy, CollisionChecker(policy.robot, policy.active_joints)


def drawn(checker, seed):
    """Return a free start and a pose of the tool, downwards near the base."""
    rng = np.random.default_rng(seed)
    low = np.maximum(checker.limits.lower, -np.pi)
    high = np.minimum(checker.limits.upper, np.pi)
    q = rng.uniform(low, high)
    while not checker.exact.is_free(q):
        q = rng.uniform(low, high)
    X_WT = np.diag([1.0, -1.0, -1.0, 1.0])
    X_WT[:3, 3] = rng.uniform((0.35, -0.35, 0.3), (0.6, 0.35, 0.6))
    return q, X_WT


def in_collision(checker):
    """Return a configuration in which links overlap."""
    rng = np.random.default_rng(3)
    while checker.exact.is_free(q := rng.uniform(-2.5, 2.5, 6)):
        pass
    return q


def followed(policy, q, X_WT, seconds=6.0):
    """Return the references sent from a start, shape (k, n), and the follower."""
    policy.reset()
    follower, qd, sent = Follower(policy), np.zeros(len(q)), [q]
    follower.follow_pose(X_WT, 0.0)
    none = np.zeros(len(policy.watched_joints))
    for k in range(int(seconds / DT)):
        step = follower.step(RobotMotion(q, qd, none, none), DT, (k + 1) * DT)
        q, qd = (q, np.zeros(len(q))) if step is None else step
        sent.append(q)
    return np.array(sent), follower


@pytest.mark.long
@pytest.mark.parametrize("seed", STARTS)
def test_links_do_not_touch_each_other(ur10e, seed, monkeypatch):
    policy, checker = ur10e
    sent, _ = followed(policy, *drawn(checker, seed))
    assert checker.exact.are_free(sent).all()
    monkeypatch.setattr(BrakingGuard, "admitted", lambda self, q, qd, dt: (q, qd))
    unguarded, _ = followed(policy, *drawn(checker, seed))
    assert not checker.exact.are_free(unguarded).all()


def test_braking_keeps_the_acceleration_limits(ur10e):
    policy, checker = ur10e
    limits = policy.robot.limits.select(policy.active_joints)
    for seed in STARTS:
        sent, _ = followed(policy, *drawn(checker, seed))
        acceleration = np.abs(np.diff(sent, 2, axis=0)) / DT**2
        assert (acceleration <= 1.05 * limits.acceleration).all()


def test_an_unreachable_target_is_stuck_and_ends_with_the_command(ur10e):
    policy, checker = ur10e
    q, X_WT = drawn(checker, 7)
    X_WT[:3, 3] = 0.0, 0.0, 0.3
    _, follower = followed(policy, q, X_WT, 12.0)
    assert follower.phase is Phase.STUCK
    assert follower.reason
    follower.clear()
    rest = np.zeros(len(q))
    for k in range(400):
        follower.step(RobotMotion(q, rest, rest[:0], rest[:0]), DT, 20.0 + k * DT)
    assert follower.phase is Phase.IDLE


def test_a_robot_in_collision_is_not_held_there(ur10e):
    policy, checker = ur10e
    limits, touching = checker.limits, in_collision(checker)
    policy.reset()
    policy.set_internal_robot_joint_states(touching, np.zeros(6))
    guard = BrakingGuard(policy)
    guard.begin(touching, np.zeros(6))
    wanted = limits.clip(touching + 1e-3), np.full(6, 0.1)
    q, qd = guard.admitted(*wanted, DT)
    assert (q == wanted[0]).all()
    assert (qd == wanted[1]).all()


def test_braking_ends_where_the_stopping_distance_says(ur10e):
    """Closed form: v^2 / 2a along a straight line; all joints stop at the same time."""
    policy, checker = ur10e
    q = policy.default_cspace_target
    policy.reset()
    policy.set_internal_robot_joint_states(q, np.zeros(6))
    guard = BrakingGuard(policy)
    qd = np.array([0.5, 0.0, 0.2, 0.0, 0.0, -0.4])
    guard.begin(q, qd)
    inside = in_collision(checker)
    at, v = guard.admitted(inside, qd, DT)
    steps = 0
    while np.abs(v).max() > 0.0 and steps < 1000:
        at, v = guard.admitted(inside, qd, DT)
        steps += 1
    a = policy.robot.limits.select(policy.active_joints).acceleration
    assert at - q == pytest.approx(0.5 * qd * (np.abs(qd) / a).max(), abs=1e-9)
    assert guard.braking


@pytest.mark.long
def test_joints_without_acceleration_limits_brake_evenly(ur10e):
    """A URDF has no acceleration limits; the velocity must not step to zero."""
    urdf = ur10e[0].robot
    unlimited = np.full(len(urdf.limits.names), np.inf)
    robot = dataclasses.replace(
        urdf, limits=dataclasses.replace(urdf.limits, acceleration=unlimited)
    )
    policy = RmpflowPolicy(robot, ignore_robot_state_updates=True)
    assert np.isfinite(policy.max_acceleration).all()
    q, X_WT = drawn(ur10e[1], STARTS[0])
    sent, _ = followed(policy, q, X_WT)
    assert ur10e[1].exact.are_free(sent).all()
    acceleration = np.abs(np.diff(sent, 2, axis=0)) / DT**2
    assert (acceleration <= 1.05 * policy.max_acceleration).all()


def test_braking_does_not_pass_position_limits(ur10e):
    """Joint 1 is close to its limit and slow; the others need longer to stop."""
    policy, checker = ur10e
    q = policy.default_cspace_target.copy()
    q[0] = checker.limits.upper[0] - 1e-3
    qd = np.array([0.05, 0.0, 0.0, 0.0, 0.0, 1.5])
    policy.reset()
    policy.set_internal_robot_joint_states(q, np.zeros(6))
    guard = BrakingGuard(policy)
    guard.begin(q, qd)
    inside = in_collision(checker)
    for _ in range(100):
        at, v = guard.admitted(inside, qd, DT)
        assert at[0] <= checker.limits.upper[0]
        if not v.any():
            break
    assert not v.any()
