# SPDX-License-Identifier: Apache-2.0
"""The effort residual of an arm in MuJoCo: free motions, missing measurements, a contact."""

from __future__ import annotations

import numpy as np
import pytest
from control.guarded_arm import PERIOD, GuardedArm

from motion_nodes.core.control.contact_wrench import EffortResidual
from motion_nodes.core.control.joint_guard import CONFIRMED, NOT_DRIVEN, GuardSettings, JointGuard


@pytest.fixture(scope="module")
def motion():
    """A recorded fast free motion: times, positions, velocities, efforts; and its arm."""
    arm = GuardedArm("franka")
    run = arm.go(arm.robot.home + np.r_[0.8, 0.4, -0.8, 0.5, 0.6, 0.4, 0.9, 0.0, 0.0])
    while not run.follower.status.ended:
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
