# SPDX-License-Identifier: Apache-2.0
"""References ahead of a joint by no more than its drive's effort limit allows."""

import dataclasses
import math

import numpy as np

from motion_nodes.core.control.joint_command import JointReference
from motion_nodes.core.control.joint_drive import EffortLimiter
from motion_nodes.core.robot.limits import JointLimits

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
