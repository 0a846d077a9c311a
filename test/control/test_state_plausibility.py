# SPDX-License-Identifier: Apache-2.0
"""Frozen measurements, competing publishers, and joints that are blocked."""

import numpy as np
import pytest

from motion_nodes.core.control.joint_guard import EXTRAPOLATED, GuardSettings, JointGuard
from motion_nodes.core.control.state_plausibility import (
    CHANGES,
    CONFIRMED,
    REPEATS,
    SPAN,
    STANDS,
    STAYED,
    FrozenStates,
    SourceWatch,
    StandingJoints,
)
from motion_nodes.tolerances import MEASURED_NOISE

LAG, DT = 0.25, 0.01
N = 3
NONE = np.full(N, np.nan)


class Arm:
    """References that move at a velocity, and measurements that follow or not."""

    def __init__(self, exempt=(False,) * N) -> None:
        self.check = FrozenStates(LAG, np.array(exempt))
        self.reference = np.zeros(N)
        self.measured = np.zeros(N)

    def run(self, velocity, seconds, *, follows=(), reported=None, noise=0.0, seed=1):
        """Return the time until joints are detected as frozen [s]; None if they are not."""
        rng = np.random.default_rng(seed)
        velocity = np.asarray(velocity, float)
        reported = np.zeros(N) if reported is None else np.asarray(reported, float)
        for k in range(round(seconds / DT)):
            for i in follows:
                self.measured[i] = self.reference[i]
            self.check.measure(self.measured + noise * rng.standard_normal(N), reported, NONE)
            self.reference = self.reference + velocity * DT
            self.check.command(self.reference, velocity, DT)
            if len(self.check.joints):
                return (k + 1) * DT
        return None


@pytest.mark.parametrize("speed", [0.05, 0.3, 2.0])
def test_a_frozen_arm_is_detected_after_the_lag_and_the_slack(speed):
    arm = Arm()
    found = arm.run([speed, -speed, 0.0], 5.0)
    assert found == pytest.approx(max(LAG + CONFIRMED, MEASURED_NOISE / speed), abs=2 * DT)
    assert arm.check.joints.tolist() == [0, 1]


def test_noise_in_the_last_bits_is_not_frozen():
    assert Arm().run([1.0, 1.0, 1.0], 3.0, noise=1e-9) is None


def test_joints_that_follow_are_not_frozen():
    assert Arm().run([1.0, 1.0, 0.5], 3.0, follows=(0, 1, 2)) is None


def test_joints_at_rest_may_repeat_their_measurement():
    assert Arm().run([0.0, 0.0, 0.0], 10.0) is None


def test_one_joint_alone_may_be_blocked():
    """A coarse encoder of a blocked joint repeats its value too; others move or rest."""
    assert Arm().run([1.0, 0.0, 0.0], 2.0) is None
    assert Arm().run([1.0, 1.0, 0.0], 2.0, follows=(1,)) is None


def test_one_joint_alone_with_a_velocity_is_frozen():
    arm = Arm()
    assert arm.run([0.5, 0.0, 0.0], 2.0, reported=[0.4, 0.0, 0.0]) is not None
    assert arm.check.joints.tolist() == [0]


def test_exempt_joints():
    assert Arm(exempt=(True, True, False)).run([1.0, 1.0, 0.0], 2.0) is None


def test_a_change_ends_it_and_equal_measurements_do_not():
    arm = Arm()
    assert arm.run([1.0, 1.0, 0.0], 1.0) is not None
    arm.check.measure(arm.measured, np.zeros(N), NONE)
    assert len(arm.check.joints) == 2
    arm.check.measure(arm.measured + 1e-6 * np.array([0, 0, 1]), np.zeros(N), NONE)
    assert len(arm.check.joints) == 2, "the third joint was not frozen"
    arm.check.measure(arm.measured + 1e-6 * np.array([1, 0, 0]), np.zeros(N), NONE)
    assert not len(arm.check.joints)


def test_velocity_references_count_by_their_time():
    check = FrozenStates(LAG, np.zeros(N, bool))
    for _ in range(60):
        check.measure(np.zeros(N), np.zeros(N), NONE)
        check.command(NONE, np.array([0.5, 0.5, np.nan]), DT)
    assert check.joints.tolist() == [0, 1]


def test_lost_measurements_are_not_repeated_ones():
    """Without measurements the state times out, which is detected elsewhere."""
    check = FrozenStates(LAG, np.zeros(N, bool))
    check.command(np.zeros(N), np.zeros(N), DT)
    for _ in range(3 * REPEATS):  # at rest, where they may be equal
        check.measure(np.zeros(N), np.zeros(N), NONE)
    for k in range(200):
        check.command(np.full(N, k * DT), np.ones(N), DT)
    assert not len(check.joints)


def test_joints_that_are_reported_late_are_not_frozen():
    """Beside others that another publisher reports in time."""
    check, some = FrozenStates(LAG, np.zeros(N, bool)), np.array([True, False, False])
    for k in range(200):
        q = k * DT
        check.measure(np.array([q, 0.0, 0.0]), np.zeros(N), NONE, some if k else None)
        check.command(np.full(N, q), np.ones(N), DT)
    assert not len(check.joints)


@pytest.mark.parametrize("rate", [100.0, 20.0, 10.0])
def test_slow_measurements_are_found_frozen_after_a_few(rate):
    check, due = FrozenStates(LAG, np.zeros(N, bool)), 0.0
    for k in range(300):
        if k * DT >= due - 1e-9:
            check.measure(np.zeros(N), np.zeros(N), NONE)
            due += 1.0 / rate
        check.command(np.full(N, k * DT), np.ones(N), DT)
        if len(check.joints):
            break
    assert k * DT <= max(LAG + CONFIRMED, REPEATS / rate) + 3 * DT


EVERY = np.arange(N)


def interleaved(watch, numbers, dt=0.1, joints=None):
    now = 10.0
    for k, number in enumerate(numbers):
        now = 10.0 + dt * k
        watch.note(EVERY if joints is None else joints[k], number, now)
    return watch.rival(now)


def test_one_publisher_has_no_rival():
    assert interleaved(SourceWatch(N), range(5, 200)) is None


def test_a_publisher_that_starts_again_has_no_rival():
    assert interleaved(SourceWatch(N), [900, 901, 1, 2, 3, 4, 1, 2, 3]) is None


@pytest.mark.parametrize("offset", [0, 1, 7, 10_000])
def test_two_publishers_of_the_same_joints(offset):
    numbers = [n for k in range(1, 10) for n in (k, k + offset)]
    assert interleaved(SourceWatch(N), numbers) == 0


def test_two_publishers_each_with_its_own_joints():
    joints = [np.array([0, 1]), np.array([2])] * 20
    numbers = [n for k in range(1, 21) for n in (k, 1000 + k)]
    assert interleaved(SourceWatch(N), numbers, joints=joints) is None


def test_a_rival_of_one_joint():
    joints = [EVERY, np.array([2])] * 20
    numbers = [n for k in range(1, 21) for n in (1000 + k, k)]
    assert interleaved(SourceWatch(N), numbers, joints=joints) == 2


def test_rivals_of_the_past_are_forgotten():
    watch = SourceWatch(N)
    assert interleaved(watch, [9, 1, 10, 2, 11, 3, 12]) is not None
    assert watch.rival(10.0 + SPAN + 1.0) is None


def test_without_numbers_there_are_no_rivals():
    assert interleaved(SourceWatch(N), [None] * (10 * CHANGES)) is None


LAG_JOINT_GUARD, SPEED = 0.25, 2.6
TOLERANCE = np.array([0.05])
FREE = np.zeros(1, np.bool_)


def times_blocked(period, measured):
    """Move a joint back and forth from rest, and return when it counts as blocked [s].

    Args:
        period: of references and measurements [s].
        measured: returns the measured position from the reference as a function and the time.
    """
    wide = np.full(1, np.inf)
    guard = JointGuard(GuardSettings(TOLERANCE, wide, LAG_JOINT_GUARD, -wide, wide), period)

    def reference(time):
        return np.array([SPEED * np.sin(max(time, 0.0))])

    found = []
    for k in range(round(-0.5 / period), round(4.0 / period)):
        time = k * period
        if guard.check(np.asarray(measured(reference, time)), TOLERANCE, FREE) is not None:
            found.append(time)
        guard.note(reference(time), np.array([SPEED * np.cos(time) * (time > 0.0)]), period)
    return found


@pytest.mark.parametrize("period", [0.02, 0.004])
@pytest.mark.parametrize("delay", [0.2, 0.04, -EXTRAPOLATED])
def test_a_joint_that_lags_or_is_extrapolated_is_not_blocked(period, delay):
    """Extrapolated references precede the newest one, that of the last cycle."""
    assert not times_blocked(period, lambda reference, time: reference(time - period - delay))


@pytest.mark.parametrize("late", [0.3, 1.0, 2.5])
@pytest.mark.parametrize(("begins", "held", "blocked"), [(0.0, 0.1, True), (0.0, np.inf, False),
                                                         (-9.0, 0.1, False)])  # fmt: skip
def test_a_joint_is_checked_after_measurements_that_were_late(late, begins, held, blocked):
    """A short motion, none of which is measured in time; at rest, a load is no contact."""
    period, wide = 0.004, np.full(1, np.inf)
    guard = JointGuard(GuardSettings(TOLERANCE, wide, LAG_JOINT_GUARD, -wide, wide), period)
    found = False
    for k in range(round(-10.0 / period), round(5.0 / period)):
        time = k * period
        speed = np.array([1.0 * (begins <= time < begins + 0.6)])
        position = np.clip(np.array([time - begins]), 0.0, 0.6)
        if not 0.05 < time < 0.05 + late:
            at = position if time < 0.0 else np.minimum(position, held)
            found = found or guard.check(at, TOLERANCE, FREE) is not None
        guard.note(position, speed, period)
    assert found == blocked


@pytest.mark.parametrize("period", [0.02, 0.004])
@pytest.mark.parametrize("begin", [0.1, 1.0, 2.5])
def test_a_joint_that_stands_is_blocked(period, begin):
    found = times_blocked(period, lambda reference, time: reference(min(time, begin)))
    assert found
    # All references of the last LAG seconds are more than the tolerance away.
    assert begin + LAG_JOINT_GUARD < found[0] < begin + LAG_JOINT_GUARD + 0.4


@pytest.mark.parametrize("period", [0.02, 0.004])
def test_a_joint_that_runs_away_is_blocked(period):
    """Further ahead than any extrapolation."""
    found = times_blocked(period, lambda reference, time: reference(time + 0.1))
    assert found
    assert found[0] < 1.0


def test_joints_stand_where_they_stay_by_positions_alone():
    rng, joints = np.random.default_rng(4), StandingJoints()
    assert not joints.waiting
    for k in range(100):
        assert not joints.update(np.array([0.3, 1e-3 * k, 0.0]) * STAYED / 1e-3, 0.01 * k)
    times = [
        t
        for t in np.arange(1.0, 1.0 + 2.0 * STANDS, 0.01)
        if joints.update(np.ones(N) + 0.4 * STAYED * rng.uniform(-1.0, 1.0, N), float(t))
    ]
    assert times[0] == pytest.approx(1.0 + STANDS, abs=0.011)
    assert joints.waiting
    joints.forget()
    assert not joints.update(np.ones(N), 9.0)
