# SPDX-License-Identifier: Apache-2.0
"""Transitions between motions: continuous, within all limits, early, around obstacles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from raised_errors import about
from trajectory.retime_limits import JERK, arm_limits, limits_of

from motion_nodes.core.trajectory.joint_trajectory import Infeasible
from motion_nodes.core.trajectory.splice import point_to_point, replacement, splice
from motion_nodes.core.trajectory.time_parameterization import retime
from motion_nodes.errors import InvalidCommand

LIMITS = arm_limits(JERK * 0.05)
N = len(LIMITS.names)


def motions(seed):
    """Return a running motion, the time of the splice [s], and a motion to another goal."""
    rng = np.random.default_rng(seed)
    low, high = 0.6 * np.maximum(LIMITS.lower, -2.0), 0.6 * np.minimum(LIMITS.upper, 2.0)
    waypoints = rng.uniform(low, high, (3, N))
    running = retime(waypoints, LIMITS)
    time = float(rng.uniform(0.15, 0.7)) * running.end_time
    here, goal = running.sample(time).position, waypoints[-1] + rng.uniform(-0.3, 0.3, N)
    goal = np.clip(goal, LIMITS.lower, LIMITS.upper)
    return running, time, retime([here, goal], LIMITS), goal


@pytest.mark.parametrize("seed", range(12))
def test_it_is_continuous_and_within_all_limits(seed):
    running, time, following, goal = motions(seed)
    motion = splice(running, time, following, LIMITS)
    for before, after in (
        (running.sample(time), motion.sample(0.0)),
        (motion.bridge.sample(motion.bridge.end_time), following.sample(motion.join)),
    ):
        assert np.allclose(before.position, after.position, atol=1e-8)
        assert np.allclose(before.velocity, after.velocity, atol=2e-3 * LIMITS.velocity.max())
        assert np.allclose(before.acceleration, after.acceleration, atol=1e-3 * 20.0)
    step = 1e-3
    q, v, a = map(np.array, zip(*(s for _, s in motion.sequence(step)), strict=True))
    assert np.allclose(q[-1], goal, atol=1e-9)
    assert max(np.abs(v[-1]).max(), np.abs(a[-1]).max()) < 1e-9
    assert (np.abs(v) <= 1.001 * LIMITS.velocity).all()
    assert (np.abs(a) <= 1.001 * LIMITS.acceleration).all()
    assert (np.abs(np.diff(a[:-1], axis=0)) <= 1.01 * step * LIMITS.jerk).all()
    # Velocities are the derivatives of positions.
    assert np.abs(np.diff(q, axis=0) / step - 0.5 * (v[1:] + v[:-1])).max() < 1e-3
    assert (q >= LIMITS.lower - 1e-6).all() and (q <= LIMITS.upper + 1e-6).all()  # noqa: PT018


@pytest.mark.parametrize("seed", range(6))
def test_it_arrives_earlier_than_after_a_stop(seed):
    running, time, following, _ = motions(seed)
    motion = splice(running, time, following, LIMITS)
    state = running.sample(time)
    # Lower bound of a stopping time: velocity by acceleration limit, per joint.
    stop = float(np.max(np.abs(state.velocity) / LIMITS.acceleration))
    assert motion.end_time < stop + following.end_time
    speeds = [np.abs(s.velocity).max() for t, s in motion.sequence(0.01) if t < motion.end_time / 2]
    assert min(speeds) > 0.02


@pytest.mark.parametrize("seed", range(4))
def test_its_points_are_the_motion_for_a_controller_that_interpolates(seed):
    running, time, following, _ = motions(seed)
    motion = splice(running, time, following, LIMITS)
    points = motion.points(0.01)
    assert points.start_time == 0.0
    assert np.allclose(points.velocities[0], running.sample(time).velocity, atol=5e-3)
    for t in np.linspace(0.0, motion.bridge.end_time, 41)[:-1]:
        assert np.allclose(points.sample(t).position, motion.sample(t).position, atol=1e-6)
    for t in np.linspace(0.0, motion.end_time, 101)[:-1]:
        assert np.allclose(points.sample(t).position, motion.sample(t).position, atol=2e-5)


def test_a_motion_that_turns_round_and_one_to_the_position_reached():
    limits = limits_of(1.0, 2.0, 50.0)
    running = point_to_point([0.0], [1.0], limits)
    back = point_to_point([0.5], [0.0], limits)
    motion = splice(running, running.end_time / 2, back, limits)
    assert motion.sample(motion.end_time).position[0] == pytest.approx(0.0)
    positions = [s.position[0] for _, s in motion.sequence(0.01)]
    assert max(positions) > 0.55, "it turned back at once"


def test_bridges_in_collision_are_not_used():
    running, time, following, _ = motions(1)
    best = splice(running, time, following, LIMITS)
    seen = []

    def only_late(path):
        seen.append(len(path))
        return len(seen) > 2

    other = splice(running, time, following, LIMITS, is_free=only_late)
    assert len(seen) == 3
    assert other.join != best.join
    assert other.end_time >= best.end_time
    with pytest.raises(Infeasible, check=about("collision")):
        splice(running, time, following, LIMITS, is_free=lambda path: False)


class Efforts:
    """Stand-in for a robot's efforts: proportional to accelerations."""

    def __init__(self, most):
        self.most, self.used = most, []

    def usage(self, q, v, a):
        self.used.append(float(np.abs(a).max() / self.most))
        return self.used[-1]


def test_bridges_respect_efforts():
    running, time, following, _ = motions(5)
    fast = splice(running, time, following, LIMITS)
    accelerations = [np.abs(s.acceleration).max() for _, s in fast.bridge.sequence(0.01)]
    efforts = Efforts(0.7 * max(accelerations))
    slow = splice(running, time, following, LIMITS, efforts=efforts)
    assert min(efforts.used) <= 1.05 < max(efforts.used)
    assert slow.end_time > fast.end_time
    with pytest.raises(Infeasible, check=about("efforts")):
        splice(running, time, following, LIMITS, efforts=Efforts(1e-3))


@pytest.mark.parametrize("seed", range(4))
def test_a_replacement_is_the_running_motion_and_then_the_spliced_one(seed):
    running, time, following, goal = motions(seed)
    points = running.points(0.01)
    motion = splice(points, time, following, LIMITS)
    now = time - 0.12
    changed = replacement(points, now, time, motion, 0.01)
    assert np.allclose(changed.positions[-1], goal, atol=1e-9)
    assert changed.end_time == pytest.approx(time - now + motion.end_time)
    for t in np.linspace(0.0, time - now, 30):
        for a, b in zip(changed.sample(t), points.sample(now + t), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-7)
    for t in np.linspace(time - now, changed.end_time, 60)[:-1]:
        wanted = motion.sample(t - (time - now)).position
        np.testing.assert_allclose(changed.sample(t).position, wanted, atol=2e-5)
    for bad in ((time, now), (-0.1, time), (now, points.end_time + 1.0)):
        with pytest.raises(InvalidCommand):
            replacement(points, *bad, motion, 0.01)


def test_invalid_input_is_refused():
    running, time, following, _ = motions(0)
    for bad in (np.nan, -0.1, running.end_time + 0.1):
        with pytest.raises(InvalidCommand):
            splice(running, bad, following, LIMITS)
    other = limits_of(1.0, 2.0, 50.0)
    with pytest.raises(InvalidCommand):
        splice(running, time, point_to_point([0.0], [1.0], other), LIMITS)
    # A position limit that is too close to brake.
    tight = point_to_point([0.0], [0.9], limits_of(1.0, 2.0, 50.0))
    walls = replace(other, lower=np.array([-1.0]), upper=np.array([0.5]))
    with pytest.raises(Infeasible):
        splice(tight, tight.end_time / 2, point_to_point([0.45], [0.4], other), walls)
