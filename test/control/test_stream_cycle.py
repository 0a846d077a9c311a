# SPDX-License-Identifier: Apache-2.0
"""The compiled step of streams does what the arbiter does."""

import numpy as np
import pytest

from motion_nodes.core.control.joint_arbiter import JointArbiter
from motion_nodes.core.control.joint_command import ControlMode, JointCommand
from motion_nodes.core.control.joint_controller import ArticulationController
from motion_nodes.core.control.joint_guard import GuardSettings, JointGuard
from motion_nodes.core.robot.limits import JointLimits

N, DT = 3, 0.004


def arbiter():
    one = np.ones(N)
    limits = JointLimits(
        names=("a", "b", "c"), lower=np.array([-2.0, -np.inf, -1.0]),
        upper=np.array([2.0, np.inf, 1.0]), velocity=2.0 * one, acceleration=10.0 * one,
        jerk=np.array([200.0, 200.0, np.inf]), effort=20.0 * one,
        continuous=np.array([False, True, False]),
    )  # fmt: skip
    made = JointArbiter(ArticulationController(limits))
    settings = GuardSettings(0.1 * one, 5.0 * one, 0.02, limits.lower, limits.upper)
    made.guard = JointGuard(settings, DT)
    made.controller.reset(np.zeros(N))
    return made


@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_step_of_the_arbiter(seed, monkeypatch):
    rng, fast, plain, used = np.random.default_rng(seed), arbiter(), arbiter(), 0
    monkeypatch.setattr(plain, "_stream_cycle", lambda dt: None)
    streams = [each.begin_stream("stream") for each in (fast, plain)]
    goal, actual, blocked = np.zeros(N), np.zeros(N), False
    for k in range(1200):
        if rng.random() < 0.3:
            goal = np.clip(goal + rng.normal(0.0, 0.02, N), -0.99, 0.99)
            for each, stream in zip((fast, plain), streams, strict=True):
                each.follow_stream(JointCommand(positions=goal), stream)
        if rng.random() < 0.004:
            event = int(rng.integers(5))
            blocked = event == 0
            speeds, joint = rng.normal(0.0, 0.5, N), int(rng.integers(N))
            for i, each in enumerate((fast, plain)):
                if event == 1:
                    each.stop_all("a stop")
                    streams[i] = each.begin_stream("stream")
                elif event == 2:
                    each.command(JointCommand(positions=goal, velocities=speeds), "moving targets")
                    streams[i] = each.begin_stream("stream")
                elif event == 3:
                    mode = each.controller.joint_modes.by_name()[each.controller.joint_names[joint]]
                    other = ControlMode.VELOCITY if mode is ControlMode.POSITION else mode.POSITION
                    each.controller.switch_mode(other, [each.controller.joint_names[joint]])
                    each.controller.switch_mode(ControlMode.POSITION)
                elif event == 4:
                    each.effort_bounds[joint] = (
                        5.0 if np.isinf(each.effort_bounds[joint]) else np.inf
                    )
                    each.controller.set_limits(each.controller.limits)
        fresh = bool(rng.random() < 0.8)
        if fresh and not blocked:
            turns = 2.0 * np.pi * np.array([0, rng.integers(-1, 2), 0])
            actual = plain.controller.reference_position + rng.normal(0.0, 1e-3, N) + turns
        residual = rng.normal(0.0, 1.0, N) if k % 3 else None
        velocity = rng.normal(0.0, 0.02, N)
        used += fast._stream_cycle(DT) is not None
        found, expected = (
            each.step(DT, actual.copy(), velocity, fresh=fresh, residual=residual)
            for each in (fast, plain)
        )
        for a, b in zip(found.channels, expected.channels, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-9)
        assert fast.fault == plain.fault
    assert used > 200


def test_positions_of_a_stream_are_taken_or_left_as_they_are():
    made, rng = arbiter(), np.random.default_rng(3)
    stream = made.begin_stream("stream")
    everything = np.arange(N)
    assert not made.follow_positions(np.zeros(N), everything, stream)  # it owns no joint yet
    made.follow_stream(JointCommand(positions=np.zeros(N)), stream)
    other = arbiter()
    stream_of_other = other.begin_stream("stream")
    for _ in range(500):
        joints = rng.permutation(N)[: rng.integers(1, N + 1)]
        values = rng.choice(
            [0.1, 0.9, 1.0 + 5e-5, 3.0, 40.0, -2.0, np.nan, np.inf, 1e12], len(joints)
        )
        before = made.controller.targets.positions
        names = [made.controller.joint_names[i] for i in joints]
        try:
            other.follow_stream(JointCommand(positions=values, names=names), stream_of_other)
            fits = True
        except Exception:
            fits = False
        assert made.follow_positions(values, joints, stream) == fits
        if not fits:
            np.testing.assert_array_equal(made.controller.targets.positions, before)
        np.testing.assert_array_equal(
            made.controller.targets.positions, other.controller.targets.positions
        )
