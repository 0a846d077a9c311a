# SPDX-License-Identifier: Apache-2.0
"""Continuous joints: positions are equal modulo a turn, in every part of the core."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raised_errors import about

from motion_nodes.core.control.active_trajectories import FollowGoal, FollowStatus, Tolerances
from motion_nodes.core.control.joint_arbiter import JointArbiter
from motion_nodes.core.control.joint_command import JointCommand
from motion_nodes.core.control.joint_controller import ArticulationController
from motion_nodes.core.control.state_plausibility import WRAPPED_RANGE, encoder_turns
from motion_nodes.core.robot.limits import TURN, JointLimits, JointTurns
from motion_nodes.core.robot.urdf import read_urdf
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.errors import InvalidCommand
from motion_nodes.tolerances import LIMIT_ROUNDING

NAMES = ("pan", "tilt")
DT = 0.01

angles = st.floats(-50.0, 50.0)
turns_of_pan = st.integers(-4, 4)
quick = settings(max_examples=12, deadline=None, derandomize=True)


def limits() -> JointLimits:
    """Return a continuous joint and one with limits."""
    two = np.ones(2)
    return JointLimits(
        NAMES,
        np.array([-np.inf, -1.5]),
        np.array([np.inf, 1.5]),
        2.0 * two,
        50.0 * two,
        10.0 * two,
        200.0 * two,
        np.array([True, False]),
    )


def arbiter(pan: float = 0.0, tolerance: float = 0.1) -> JointArbiter:
    controller = ArticulationController(limits())
    controller.reset(np.array([pan, 0.0]))
    return JointArbiter(controller, tolerance)


def follow(runner: JointArbiter, times: list[float], pan: list[float], delay: float = 0.0) -> float:
    """Carry out a trajectory of pan; return how far it turned."""
    begin = float(runner.controller.reference_position[0])
    trajectory = JointTrajectory(("pan",), np.array(times), np.array(pan)[:, None])
    none = Tolerances.uniform(1, 0.0)
    tight = Tolerances.uniform(1, 1e-3)
    run = runner.start(FollowGoal(trajectory=trajectory, path=none, goal=tight), "test", delay)
    for _ in range(int(times[-1] / DT) + 100):
        q = runner.controller.reference_position.copy()
        runner.step(DT, q, runner.controller.reference_velocity.copy())
    assert run.status is FollowStatus.SUCCEEDED
    return float(runner.controller.reference_position[0]) - begin


# ---- differences


@given(a=angles, b=angles, k=turns_of_pan)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_differences_are_the_short_way_and_modulo_a_turn(a, b, k):
    turns = limits().turns
    there = turns.difference([a, a], [b + k * TURN, b])
    assert there[1] == b - a
    assert -math.pi - 1e-9 <= there[0] <= math.pi + 1e-9
    assert math.remainder(there[0] - (b - a), TURN) == pytest.approx(0.0, abs=1e-9)
    near = turns.nearest([b + k * TURN, b], [a, a])
    assert near[1] == b
    assert abs(near[0] - a) <= math.pi + 1e-9
    assert math.remainder(near[0] - b, TURN) == pytest.approx(0.0, abs=1e-9)


@given(low=angles, width=st.floats(0.0, 6.0), share=st.floats(-1.0, 2.0), k=turns_of_pan)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_the_excess_of_an_interval_is_that_of_the_nearest_copy(low, width, share, k):
    q = low + share * width
    copies = [max(low + m * TURN - q, q - low - width - m * TURN) for m in range(-3, 4)]
    found = limits().turns.excess([q + k * TURN, 0.0], [low, -1.0], [low + width, 1.0])
    assert max(found[0], 0.0) == pytest.approx(max(min(copies), 0.0), abs=1e-9)
    assert found[1] == -1.0


def test_only_the_offset_of_a_path_is_shifted():
    turns = limits().turns
    path = np.array([[10.0, 0.1], [10.0 + TURN, 0.2], [10.0 - TURN, 0.3]])
    moved = path + turns.offset(path[0], np.array([-2.0, 0.5]))
    assert np.allclose(np.diff(moved, axis=0), np.diff(path, axis=0))
    assert moved[0, 0] == pytest.approx(10.0 - 2 * TURN)
    assert (moved[:, 1] == path[:, 1]).all()


def test_nan_and_infinities_stay_and_half_a_turn_is_not_shifted():
    turns = JointTurns(np.ones(3, bool))
    near = turns.nearest([np.nan, np.inf, math.pi], [0.0, 0.0, 0.0])
    assert np.isnan(near[0])
    assert near[1] == np.inf
    assert near[2] == math.pi
    assert turns.nearest([-math.pi] * 3, [0.0] * 3).tolist() == [-math.pi] * 3


LINKS = "".join(f'<link name="{name}"/>' for name in ("base", "a", "b", "c"))


def joint(name: str, parent: str, child: str, kind: str, more: str = "") -> str:
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<axis xyz="0 0 1"/>{more}</joint>'
    )


@pytest.mark.parametrize(
    ("mimic", "continuous"), [("", True), ('multiplier="-2"', True), ('multiplier="0.5"', False)]
)
def test_a_full_turn_must_change_no_pose_of_a_mimic_joint(mimic, continuous):
    speed = '<limit velocity="1" effort="1"/>'
    follower = f'<mimic joint="pan" {mimic}/>' if mimic else '<limit velocity="1" effort="1"/>'
    tree = read_urdf(
        f'<robot name="r">{LINKS}{joint("pan", "base", "a", "continuous", speed)}'
        f"{joint('second', 'a', 'b', 'continuous', follower)}"
        f"{joint('fixed', 'b', 'c', 'fixed')}</robot>"
    )
    found = JointLimits.of_tree(tree)
    assert bool(found.continuous[found.names.index("pan")]) is continuous


def test_limits_in_a_description_of_a_continuous_joint_are_not_used_and_own_limits_bind():
    speed = '<limit lower="-1" upper="1" velocity="1" effort="1"/>'
    tree = read_urdf(
        f'<robot name="r">{LINKS}{joint("pan", "base", "a", "continuous", speed)}'
        f"{joint('x', 'a', 'b', 'fixed')}{joint('y', 'b', 'c', 'fixed')}</robot>"
    )
    found = JointLimits.of_tree(tree)
    assert found.continuous.tolist() == [True]
    held = replace(found, lower=np.array([-1.0]), upper=np.array([1.0]))
    assert not held.turns.any
    assert held.select(["pan"]).turns.difference([0.0], [4.0])[0] == 4.0


# ---- trajectories


@pytest.mark.long
@given(pan=angles, step=st.floats(-2.0, 2.0), k=turns_of_pan, begun=st.booleans())
@quick
def test_a_trajectory_turns_to_the_nearest_equal_place(pan, step, k, begun):
    runner = arbiter(pan)
    shifted = pan + k * TURN
    points = ([0.0, 4.0], [shifted, shifted + step]) if begun else ([4.0], [shifted + step])
    assert follow(runner, *points) == pytest.approx(step, abs=1e-6)


@pytest.mark.long
@given(pan=angles, own=st.sampled_from([-1, 1, 2]), k=turns_of_pan)
@quick
def test_a_trajectory_keeps_its_own_turns(pan, own, k):
    first = pan + k * TURN
    way = follow(arbiter(pan), [0.0, 8.0], [first, first + own * TURN])
    assert way == pytest.approx(own * TURN, abs=1e-6)


def test_a_trajectory_that_began_before_now_is_entered_in_the_turn_of_the_joint():
    runner = arbiter(1.0)
    assert follow(runner, [0.0, 2.0, 4.0], [0.0 + TURN, 1.0 + TURN, 2.0 + TURN], -2.0) == (
        pytest.approx(1.0, abs=1e-6)
    )


def test_a_start_that_is_elsewhere_modulo_a_turn_is_refused_and_nothing_changes():
    runner = arbiter(0.0)
    with pytest.raises(InvalidCommand, check=about("start")):
        follow(runner, [0.0, 2.0], [TURN + 0.3, TURN])
    assert not runner.runs


def test_a_joint_with_limits_is_not_equal_a_turn_away():
    runner = arbiter(0.0)
    trajectory = JointTrajectory(("tilt",), np.array([4.0]), np.array([[TURN]]))
    none = Tolerances.uniform(1, 0.0)
    with pytest.raises(InvalidCommand):
        runner.start(FollowGoal(trajectory=trajectory, path=none, goal=none), "test")


@given(pan=angles, step=st.floats(-3.0, 3.0), k=turns_of_pan)
@quick
def test_a_streamed_target_is_approached_the_short_way(pan, step, k):
    controller = ArticulationController(limits())
    controller.reset(np.array([pan, 0.0]))
    controller.apply(JointCommand(names=("pan",), positions=[pan + step + k * TURN]))
    for _ in range(400):
        controller.step(DT)
    assert controller.reference_position[0] - pan == pytest.approx(step, abs=1e-6)


def test_a_stream_that_leads_its_joints_by_more_than_half_a_turn_does_not_turn_back():
    controller = ArticulationController(limits())
    controller.reset(np.zeros(2))
    for target in np.arange(0.0, 12.0, 0.5):
        controller.apply(JointCommand(names=("pan",), positions=[math.remainder(target, TURN)]))
        controller.step(DT)
    for _ in range(1000):
        controller.step(DT)
    assert controller.reference_position[0] == pytest.approx(11.5, abs=1e-6)


# ---- limits by rounding


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("excess", [1e-12, 2.65e-6, 0.9 * LIMIT_ROUNDING])
def test_positions_at_a_limit_by_rounding_are_at_the_limit(sign, excess):
    own, given = limits(), np.array([9.0, sign * (1.5 + excess)])
    assert own.settled(given).tolist() == [9.0, sign * 1.5]
    controller = ArticulationController(own)
    controller.reset(np.zeros(2))
    controller.apply(JointCommand(names=("tilt",), positions=[float(given[1])]))
    for _ in range(300):
        controller.step(DT)
        assert abs(controller.reference_position[1]) <= 1.5
    runner = arbiter()
    trajectory = JointTrajectory(("tilt",), np.array([2.0]), given[1:, None])
    goal = FollowGoal(
        trajectory=trajectory, path=Tolerances.uniform(1, 0.0), goal=Tolerances.uniform(1, 1e-6)
    )
    run = runner.start(goal, "test")
    for _ in range(300):
        position = runner.controller.reference_position.copy()
        runner.step(DT, position, runner.controller.reference_velocity.copy())
        assert abs(runner.controller.reference_position[1]) <= 1.5
    assert run.status is FollowStatus.SUCCEEDED


@pytest.mark.parametrize("excess", [2.0 * LIMIT_ROUNDING, 1.0, 1e9])
def test_positions_beyond_rounding_are_refused(excess):
    controller = ArticulationController(limits())
    controller.reset(np.zeros(2))
    with pytest.raises(InvalidCommand):
        controller.apply(JointCommand(names=("tilt",), positions=[1.5 + excess]))


def test_an_error_shows_enough_digits_to_differ_from_the_limit():
    own = replace(limits(), lower=np.array([-np.inf, -3.14159]), upper=np.array([np.inf, 3.14159]))
    for value in (3.14159265, 3.1415900001, -3.14159265):
        (text,) = own.violations([0.0, value])
        shown = text.split()[2].rstrip(",")
        assert float(shown) != 3.14159
        assert abs(float(shown) - value) < 1e-9


# ---- encoders that wrap

WRAPS = {
    "pi": lambda q: (q + math.pi) % TURN - math.pi,
    "zero": lambda q: q % TURN,
    "two": lambda q: (q + TURN) % (2 * TURN) - TURN,
    "fmod": lambda q: math.fmod(q, TURN),
    "none": lambda q: q,
}
ALL = np.arange(2)


class Encoder:
    """A driver of two joints, and the positions that are read from it."""

    def __init__(self, kind: str, rate: float, *, speeds: bool = True, fastest: float = 20.0):
        own = replace(limits(), velocity=np.full(2, fastest))
        self.turns, self._wrap, self._dt = encoder_turns(NAMES, own), WRAPS[kind], 1.0 / rate
        self._speeds, self._at = speeds, 0

    def read(self, q: float, v: float = 0.0) -> float:
        self._at += int(self._dt * 1e9)
        raw = np.array([self._wrap(q), 0.0])
        velocity = np.array([v, 0.0]) if self._speeds else np.full(2, np.nan)
        since = np.full(2, self._dt)
        position, shift = self.turns.unwrap(ALL, self._at, raw, velocity, since)
        self.turns.keep(ALL, self._at, raw, velocity, shift)
        return float(position[0])


@pytest.mark.long
@pytest.mark.parametrize("speeds", [True, False])
@pytest.mark.parametrize("kind", WRAPS)
@given(seed=st.integers(0, 10_000), rate=st.sampled_from([30.0, 100.0]))
@settings(max_examples=10, deadline=None, derandomize=True)
def test_wrapped_encoders_give_the_unwrapped_motion(kind, speeds, seed, rate):
    """Steps of less than half a turn; velocities, if given, are those of the motion."""
    rng, dt = np.random.default_rng(seed), 1.0 / rate
    encoder = Encoder(kind, rate, speeds=speeds)
    most = min(20.0, 0.95 * math.pi / dt)
    q, v, first = float(rng.uniform(-3.0, 3.0)), 0.0, None
    for _ in range(400):
        new = float(np.clip(v + rng.normal(0.0, 40.0) * dt, -most, most))
        q, v = q + 0.5 * (v + new) * dt, new
        offset = encoder.read(q, v) - q
        first = offset if first is None else first
        assert offset == pytest.approx(first, abs=1e-9)
    assert math.remainder(first, TURN) == pytest.approx(0.0, abs=1e-9)


def test_velocities_decide_where_more_than_half_a_turn_is_possible():
    encoder = Encoder("pi", 5.0, fastest=40.0)
    read = [encoder.read(0.2 * 20.0 * k, 20.0) for k in range(20)]
    assert np.diff(read) == pytest.approx(4.0, abs=1e-9)


@pytest.mark.parametrize("velocity", [0.0, 1.0])
def test_a_reset_of_an_encoder_is_not_a_wrap(velocity):
    """Its velocities contradict the step that a wrap would leave."""
    encoder = Encoder("none", 100.0)
    for k in range(6):
        encoder.read(4.9 + 0.01 * k, 1.0)
    assert encoder.read(0.0, velocity) == 0.0


def test_an_encoder_that_was_beyond_one_turn_does_not_wrap():
    encoder = Encoder("none", 100.0)
    for k in range(100):
        encoder.read(0.1 * k, 10.0)
    assert encoder.read(WRAPPED_RANGE - 0.5, 0.0) == pytest.approx(WRAPPED_RANGE - 0.5)
    assert encoder.read(-3.0, 0.0) == -3.0


def test_a_joint_that_is_not_continuous_is_never_unwrapped():
    turns = encoder_turns(NAMES, limits())
    still = np.zeros(2)
    for at, raw in enumerate(([0.0, 3.1], [0.0, -3.1]), start=1):
        q, shift = turns.unwrap(ALL, at * 10**7, np.array(raw), still, np.full(2, 0.01))
        turns.keep(ALL, at * 10**7, np.array(raw), still, shift)
        assert q.tolist() == raw
