# SPDX-License-Identifier: Apache-2.0
"""Effort limits of references, tracking under effort control, and the residual of contacts."""

import dataclasses
import math

import numpy as np
import pytest
from control.guarded_arm import PERIOD, GuardedArm

from motion_nodes.core.control.active_trajectories import FollowGoal, Tolerances
from motion_nodes.core.control.contact_wrench import EffortResidual
from motion_nodes.core.control.joint_arbiter import JointArbiter
from motion_nodes.core.control.joint_command import JointReference
from motion_nodes.core.control.joint_controller import ArticulationController
from motion_nodes.core.control.joint_drive import (
    DriveGains,
    DriveLaw,
    EffortLimiter,
    motion_load,
    one_step_back,
)
from motion_nodes.core.control.joint_guard import CONFIRMED, NOT_DRIVEN, GuardSettings, JointGuard
from motion_nodes.core.robot.inverse_dynamics import InverseDynamics
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.drive_targets import JointTargets
from motion_nodes.extras.sim.mujoco_world import MujocoWorld

NAN, INF = np.nan, np.inf
LIMITS = JointLimits(
    ("a", "b", "c"),
    lower=np.full(3, -1.0),
    upper=np.full(3, 1.0),
    velocity=np.full(3, 0.5),
    effort=np.full(3, INF),
    acceleration=np.full(3, INF),
    jerk=np.full(3, INF),
)
STIFFNESS = np.array([1000.0, 500.0, 0.0])
DT = 0.004


SOFT = dataclasses.replace(LIMITS, acceleration=np.full(3, 2.0))


def limiter(limits=LIMITS):
    return EffortLimiter(STIFFNESS, limits)


def settled(given, position, bounds):
    """Return the reference that is sent after 1 s."""
    effort_limiter = limiter()
    for _ in range(250):
        sent = effort_limiter.limit(given, position, bounds, DT)
    return sent


def reference(positions, velocities):
    blank = np.full(3, NAN)
    return JointReference(np.array(positions), np.array(velocities), blank, blank)


def test_the_push_is_the_bound():
    there = np.array([0.0, 0.1, 0.0])
    bounds = np.array([20.0, INF, 5.0])
    held = settled(reference([0.5, 0.9, 0.9], [0.1, 0.1, 0.1]), there, bounds)
    np.testing.assert_allclose(held.positions, [0.02, 0.9, 0.9])
    np.testing.assert_allclose(held.velocities, [0.0, 0.1, 0.1])
    assert STIFFNESS[0] * (held.positions[0] - there[0]) <= 20.0 + 1e-12
    back = settled(reference([-0.5, 0.9, 0.9], [-0.1, 0.0, 0.0]), there, bounds)
    np.testing.assert_allclose(back.positions[0], -0.02)


def test_a_reference_within_reach_stays_as_it_is():
    given = reference([0.01, 0.2, 0.0], [0.3, 0.0, 0.0])
    bounds = np.array([20.0, 100.0, INF])
    held = limiter().limit(given, np.array([0.0, 0.1, 0.0]), bounds, DT)
    np.testing.assert_array_equal(held.positions, given.positions)
    np.testing.assert_array_equal(held.velocities, given.velocities)
    assert limiter().limit(given, np.zeros(3), np.full(3, INF), DT) is given


def test_joints_without_a_position_have_nothing_to_hold_back():
    given = reference([NAN, 0.2, 0.0], [0.3, 0.0, 0.0])
    held = limiter().limit(given, np.zeros(3), np.array([1.0, INF, INF]), DT)
    np.testing.assert_array_equal(held.positions, given.positions)
    np.testing.assert_array_equal(held.velocities, given.velocities)


def test_a_false_state_moves_the_reference_no_faster_than_the_joint_may():
    effort_limiter, bounds = limiter(), np.array([5.0, INF, INF])
    given = reference([0.2, 0.0, 0.0], [0.0, 0.0, 0.0])
    last = effort_limiter.limit(given, np.zeros(3), bounds, DT).positions[0]
    rng = np.random.default_rng(4)
    for _ in range(200):
        lie = np.array([rng.choice([0.0, 0.5, -0.7, 1e9, -INF]), 0.0, 0.0])
        now = effort_limiter.limit(given, lie, bounds, DT).positions[0]
        assert abs(now - last) <= 0.5 * DT + 1e-12
        last = now


def test_accelerations_are_limited_whatever_is_measured():
    effort_limiter, rng = limiter(SOFT), np.random.default_rng(5)
    sent = []
    for k in range(1600):
        given = reference([0.2 - 0.2 * math.cos(2.0 * k * DT), 0.0, 0.0], [0.0, 0.0, 0.0])
        bounds = np.array([rng.choice([5.0, 20.0]) if 50 < k < 500 else INF, INF, INF])
        lie = np.array([rng.choice([0.0, 0.2, -0.7, 1e9, -INF]), 0.0, 0.0])
        sent.append(effort_limiter.limit(given, lie, bounds, DT).positions[0])
    assert np.abs(np.diff(sent)).max() <= 0.5 * DT * (1.0 + 1e-9) + 1e-12
    assert np.abs(np.diff(sent, 2)).max() <= 2.0 * DT**2 * (1.0 + 1e-6)
    assert np.abs(np.diff(sent, 2)).max() > 1.9 * DT**2
    assert sent[-1] == given.positions[0], "without a limit it follows again"


def test_with_accelerations_limited_the_push_is_the_bound_too():
    there, bounds = np.array([0.0, 0.1, 0.0]), np.array([20.0, INF, INF])
    effort_limiter, pushes = limiter(SOFT), []
    for k in range(500):
        given = reference([min(0.2 * k * DT, 0.5), 0.1, 0.0], [0.0, 0.0, 0.0])
        sent = effort_limiter.limit(given, there, bounds, DT).positions[0]
        pushes.append(STIFFNESS[0] * sent)
    assert max(pushes) < 20.0 + STIFFNESS[0] * 0.2**2 / (2 * 2.0)
    assert pushes[-1] == 20.0


def test_a_delayed_drive_is_never_pushed_harder_and_comes_to_rest():
    """A finger whose drive receives the reference 8 ms late, as behind a resampled stream."""
    mass, stiffness, damping, h = 0.1, 1000.0, 4.0, 0.001
    effort_limiter = limiter()
    q, v, sent, pushes = 0.04, 0.0, [0.04] * 9, []
    for k in range(3000):
        if k % 4 == 0:
            closing = max(0.04 - 0.05 * k * h, 0.0)
            given = reference([closing, 0.0, 0.0], [0.0, 0.0, 0.0])
            target = effort_limiter.limit(given, np.array([q, 0, 0]), np.array([4.0, INF, INF]), DT)
        sent.append(target.positions[0])
        push = stiffness * (sent[-9] - q) - damping * v
        pushes.append(push)
        v += h * push / mass
        if q + h * v < 0.02:
            v = 0.0
        q += h * v
    assert np.abs(pushes).max() < 4.4
    assert q < 0.0201
    assert abs(pushes[-1] + 4.0) < 0.1


def test_a_push_that_was_limited_comes_back_no_faster_than_the_joint_may_move():
    effort_limiter, there = limiter(), np.zeros(3)
    given = reference([0.3, 0.0, 0.0], [0.0, 0.0, 0.0])
    for _ in range(250):
        last = effort_limiter.limit(given, there, np.array([5.0, INF, INF]), DT).positions[0]
    assert abs(last - 0.005) < 1e-9
    steps = 0
    while last < 0.3:
        now = effort_limiter.limit(given, there, np.full(3, INF), DT)
        assert 0.0 < now.positions[0] - last <= 0.5 * DT + 1e-12
        last, steps = now.positions[0], steps + 1
    assert steps == math.ceil((0.3 - 0.005) / (0.5 * DT))
    assert effort_limiter.limit(given, there, np.full(3, INF), DT) is given


def test_a_reference_that_is_met_again_begins_with_the_speed_that_was_sent():
    """A grasp is released: the reference returns into the band from behind the surface."""
    effort_limiter, there = limiter(SOFT), np.zeros(3)
    bounds, last, velocities = np.array([20.0, INF, INF]), math.nan, []
    for k in range(500):
        given = reference([-0.05 + 0.0502 * DT * k, 0.0, 0.0], [0.0502, 0.0, 0.0])
        sent = effort_limiter.limit(given, there, bounds, DT)
        velocities.append(float(sent.velocities[0]))
        if velocities[-1] and not velocities[-2]:
            assert velocities[-1] <= (sent.positions[0] - last) / DT + 1e-9
        last = float(sent.positions[0])
    assert velocities[0] == 0.0
    assert velocities[300] == 0.0502


@pytest.fixture(scope="module")
def motion():
    """A recorded fast free motion: times, positions, velocities, efforts; and its arm."""
    arm = GuardedArm("franka")
    run = arm.go(arm.robot.home + np.r_[0.8, 0.4, -0.8, 0.5, 0.6, 0.4, 0.9, 0.0, 0.0])
    while not run.status.ended:
        arm.step()
    rows = np.arange(len(arm.positions))
    return rows * PERIOD, np.array(arm.positions), np.array(arm.speeds), np.array(arm.efforts), arm


def peak(motion, kept):
    """Return the max residual relative to the guard's thresholds, of the measurements ``kept``."""
    times, q, v, effort, arm = motion
    residual = EffortResidual(arm.dynamics, arm.residual._ripple)
    margin = arm.runner.guard.settings.effort_margin
    found = 0.0
    for i in np.flatnonzero(kept):
        value = residual.update(times[i], q[i], v[i], effort[i])
        found = max(found, float((np.abs(value) / margin).max()))
    return found


def test_a_free_motion_leaves_little(motion):
    assert peak(motion, np.ones(len(motion[0]), bool)) < 0.3


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
def test_missing_measurements_are_no_contact(motion, share):
    rng = np.random.default_rng(5)
    for _ in range(5):
        assert peak(motion, rng.random(len(motion[0])) > share) < 0.5


def test_an_effort_without_acceleration_is_found_within_a_few_measurements(motion):
    times, q, v, effort, arm = motion
    residual = EffortResidual(arm.dynamics, arm.residual._ripple)
    still = np.zeros_like(v[0])
    for i in range(50):
        residual.update(times[i], q[0], still, effort[0])
    push = np.zeros(9)
    push[1] = 80.0
    steps = 0
    while abs(residual.value[1]) < 40.0:
        residual.update(times[50 + steps], q[0], still, effort[0] + push)
        steps += 1
    assert steps <= 8


@pytest.mark.parametrize(("push", "patience"), [(0.0, NOT_DRIVEN), (5.0, CONFIRMED)])
def test_a_joint_that_does_not_push_may_be_late(push, patience):
    """A joint whose references reach its drive late lags behind, but without effort."""
    one = np.ones(1)
    guard = JointGuard(GuardSettings(0.05 * one, 10.0 * one, 0.02, -one, one), PERIOD)
    free, q = np.zeros(1, bool), np.zeros(1)
    steps, blocked = 0, None
    while blocked is None:
        guard.note(0.3 + 0.01 * steps * one, one, PERIOD)
        blocked = guard.check(q, guard.settings.tolerance, free, push * one)
        steps += 1
    assert steps == pytest.approx(patience / PERIOD, abs=2)


@pytest.mark.parametrize(("place", "blocked"), [(0.5, True), (0.994, True), (0.996, False)])
def test_the_end_stop_of_a_joint_is_no_contact(place, blocked):
    one = np.ones(1)
    guard = JointGuard(GuardSettings(0.05 * one, 10.0 * one, 0.02, -one, one), PERIOD)
    guard.note(place * one, one, PERIOD)
    found = guard.check(place * one, guard.settings.tolerance, np.zeros(1, bool), 50.0 * one)
    assert (found is not None) == blocked


def after_rest(preload, pushes):
    """Return whether each push blocks a moving joint that rested under ``preload``."""
    one, free = np.ones(1), np.zeros(1, bool)
    guard = JointGuard(GuardSettings(0.05 * one, 10.0 * one, 0.02, -one, one), PERIOD)
    guard.note_preload(preload * one)
    found = []
    for push in pushes:
        guard.note(0.0 * one, one, PERIOD)
        found.append(guard.check(0.0 * one, guard.settings.tolerance, free, push * one) is not None)
    return found


def test_a_joint_may_leave_what_pushes_it_at_rest():
    assert after_rest(0.0, [9.0, 11.0]) == [False, True]
    # The margin beyond the preload is that of a free joint, in its direction only.
    assert after_rest(15.0, [15.0, 24.0, 26.0]) == [False, False, True]
    assert after_rest(15.0, [-9.0, -11.0]) == [False, True]
    # A contact that ceased and returns is a new one.
    assert after_rest(15.0, [15.0, 2.0, 11.0, 13.0]) == [False, False, False, True]


def test_the_preload_is_taken_at_rest():
    one, free = np.ones(1), np.zeros(1, bool)
    guard = JointGuard(GuardSettings(0.05 * one, 10.0 * one, 0.02, -one, one), PERIOD)
    for _ in range(200):
        guard.note(0.0 * one, 0.0 * one, PERIOD)
    assert guard.check(0.0 * one, guard.settings.tolerance, free, 30.0 * one) is None
    guard.note(0.0 * one, one, PERIOD)
    assert guard.check(0.0 * one, guard.settings.tolerance, free, 30.0 * one) is None
    assert guard.check(0.0 * one, guard.settings.tolerance, free, 41.0 * one) is not None


FRANKA = load_robot("franka")
JOINTS = FRANKA.joint_names
PERIOD_EFFORT_TRACKING = 0.004
SECONDS = 4.0


def sine(t):
    """Return position and velocity of the arm's joints: from rest, 0.5 Hz, up to 1 rad/s."""
    w, ramp = np.pi, np.clip(t, 0.0, 1.0)
    grow, slope = ramp**2 * (3 - 2 * ramp), np.where(t < 1.0, 6 * ramp * (1 - ramp), 0.0)
    wave, rate = np.sin(w * t), w * np.cos(w * t)
    swing = 0.3 * np.array([1.0, 0.6, -1.0, 0.8, 1.0, -0.9, 1.0, 0.0, 0.0])
    q = FRANKA.home + np.multiply.outer(grow * wave, swing)
    return q, np.multiply.outer(slope * wave + grow * rate, swing)


def errors(*, gravity: bool, inertia: bool) -> np.ndarray:
    """Return measured minus reference positions of the arm [rad], a row per period, (k, 7)."""
    world = MujocoWorld([RobotPlacement(FRANKA, "arm")])
    controller = ArticulationController(FRANKA.limits)
    controller.reset(world.state("arm").position)
    runner = JointArbiter(controller)
    times = np.linspace(0.0, SECONDS, 401)
    n = len(JOINTS)
    none = Tolerances.uniform(n, 0.0)
    runner.start(
        FollowGoal(trajectory=JointTrajectory(JOINTS, times, *sine(times)), path=none, goal=none),
        "the test",
    )
    drives = FRANKA.drives
    gains = DriveGains(*([getattr(d, k) for d in drives] for k in ("kp", "kd", "ki")))
    law = DriveLaw(JOINTS, gains, FRANKA.limits.effort)
    dynamics = InverseDynamics(FRANKA.tree, JOINTS, armature=[d.armature for d in drives])
    found = []
    for k in range(round(SECONDS / PERIOD_EFFORT_TRACKING)):
        state = world.state("arm")
        found.append(state.position - sine(np.array([k * PERIOD_EFFORT_TRACKING]))[0][0])
        reference = one_step_back(
            runner.step(PERIOD_EFFORT_TRACKING, state.position, state.velocity),
            PERIOD_EFFORT_TRACKING,
        )
        load = motion_load(dynamics, reference, state.position, state.velocity,
                           gravity=gravity, inertia=inertia)  # fmt: skip
        tau = law.efforts(
            reference, state.position, state.velocity, PERIOD_EFFORT_TRACKING, load=load
        )
        world.command("arm", JointTargets(effort=tau))
        world.step(round(PERIOD_EFFORT_TRACKING / world.time_step))
    return np.array(found)[:, :7]


def rms(values: np.ndarray) -> float:
    return float(np.sqrt((values**2).mean()))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_inverse_dynamics_follow_closely(record_property):
    full, held = errors(gravity=True, inertia=True), errors(gravity=True, inertia=False)
    for name, found in (("inverse dynamics", full), ("gravity alone", held)):
        record_property(f"{name}: RMS [rad]", rms(found))
        record_property(f"{name}: max [rad]", float(np.abs(found).max()))
    assert rms(full) < 4e-4
    assert np.abs(full).max() < 1.5e-3
    assert rms(full) < 0.1 * rms(held)


def test_without_an_integral_a_joint_is_a_spring_of_its_gain():
    """Joint impedance: efforts of kp and kd on top of the inverse dynamics."""
    world = MujocoWorld([RobotPlacement(FRANKA, "arm")])
    kp = np.array([drive.kp for drive in FRANKA.drives])
    kd = np.array([drive.kd for drive in FRANKA.drives])
    law = DriveLaw(JOINTS, DriveGains(kp, kd, np.zeros(len(JOINTS))), FRANKA.limits.effort)
    dynamics = InverseDynamics(FRANKA.tree, JOINTS, armature=[d.armature for d in FRANKA.drives])
    controller = ArticulationController(FRANKA.limits)
    controller.reset(world.state("arm").position)
    push = np.array([9.0, -12.0, 6.0, 10.0, -3.0, 2.0, 0.5])
    at = [world.model.joint(f"arm/{joint}").dofadr[0] for joint in JOINTS[:7]]
    world.data.qfrc_applied[at] = push
    for _ in range(round(3.0 / PERIOD_EFFORT_TRACKING)):
        state = world.state("arm")
        reference = controller.step(PERIOD_EFFORT_TRACKING)
        load = motion_load(dynamics, reference, state.position, state.velocity,
                           gravity=True, inertia=True)  # fmt: skip
        tau = law.efforts(
            reference, state.position, state.velocity, PERIOD_EFFORT_TRACKING, load=load
        )
        world.command("arm", JointTargets(effort=tau))
        world.step(round(PERIOD_EFFORT_TRACKING / world.time_step))
    deflection = (world.state("arm").position - FRANKA.home)[:7]
    np.testing.assert_allclose(deflection, push / kp[:7], rtol=0.02)
