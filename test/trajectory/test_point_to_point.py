# SPDX-License-Identifier: Apache-2.0
"""Jerk-limited motions: state to state, with a limited speed of a point, by the online limiter."""

import math
from pathlib import Path

import numpy as np
import pytest
import ruckig
from hypothesis import given, settings
from hypothesis import strategies as st
from raised_errors import about
from trajectory.retime_limits import JERK, arm_limits, limits_of

import motion_nodes
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.trajectory import online_trajectory
from motion_nodes.core.trajectory.joint_path import JointPath
from motion_nodes.core.trajectory.joint_trajectory import Infeasible, TrajectorySample
from motion_nodes.core.trajectory.online_trajectory import (
    OnlineLimiter,
    peak_velocity,
    stopping_speed,
)
from motion_nodes.core.trajectory.splice import point_to_point
from motion_nodes.core.trajectory.time_parameterization import PointSpeeds, time_optimal
from motion_nodes.errors import InvalidCommand, InvalidConfig, MotionError


def test_ruckig_is_never_given_waypoints():
    # With waypoints the community version calls a server on the network.
    for source in Path(motion_nodes.__file__).parent.rglob("*.py"):
        text = source.read_text()
        assert "intermediate_positions" not in text, source
        assert "cloud" not in text.lower() or "ruckig" not in text, source


def test_rest_to_rest_takes_the_closed_form():
    # Max velocity and acceleration are reached: T = D/v + v/a + a/j.
    trajectory = point_to_point([0.0], [1.0], limits_of(2.175, 15.0, 7500.0))
    assert trajectory.duration == pytest.approx(1 / 2.175 + 2.175 / 15 + 15 / 7500, abs=1e-9)
    short = point_to_point([0.0], [1e-3], limits_of(2.0, 15.0, 100.0))
    assert short.duration == pytest.approx(4.0 * np.cbrt(1e-3 / (2.0 * 100.0)), rel=1e-9)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.integers(0, 10_000), st.booleans())
def test_any_state_to_any_state_within_limits(seed, jerk_limited):
    rng = np.random.default_rng(seed)
    limits = arm_limits(JERK * 0.01 if jerk_limited else np.inf)
    states = [
        TrajectorySample(
            rng.uniform(-2.5, 2.5, 7),
            rng.uniform(-0.5, 0.5, 7) * limits.velocity,
            rng.uniform(-0.1, 0.1, 7) * limits.acceleration,
        )
        for _ in range(2)
    ]
    trajectory = point_to_point(*states, limits)
    for time, state in zip((0.0, trajectory.end_time), states, strict=True):
        # Without jerk limits accelerations jump, so those of start and goal have no effect.
        parts = 3 if jerk_limited else 2
        for got, wanted in list(zip(trajectory.sample(time), state, strict=True))[:parts]:
            np.testing.assert_allclose(got, wanted, atol=1e-6)
    h = 1e-3
    samples = [trajectory.sample(t) for t in np.arange(0.0, trajectory.end_time, h)]
    v, a = np.array([s.velocity for s in samples]), np.array([s.acceleration for s in samples])
    assert np.all(np.abs(v) <= limits.velocity + 1e-6)
    assert np.all(np.abs(a) <= limits.acceleration + 1e-6)
    assert np.all(np.abs(np.diff(a, axis=0)) <= limits.jerk * h + 1e-6)
    assert np.all(np.abs(np.diff(v, axis=0)) <= limits.acceleration * h + 1e-9)


def test_all_joints_arrive_together_and_scaling_slows_down():
    limits = limits_of([1.0, 1.0], 5.0, 50.0)
    trajectory = point_to_point([0.0, 0.0], [1.0, 0.1], limits)
    before = trajectory.sample(trajectory.end_time - 1e-2)
    assert np.all(np.abs(before.velocity) > 0.0)
    slow = point_to_point([0.0, 0.0], [1.0, 0.1], limits, velocity_scaling=0.5)
    assert slow.duration > trajectory.duration
    for time in (-1.0, trajectory.end_time + 1.0):
        np.testing.assert_array_equal(trajectory.sample(time).velocity, 0.0)


@pytest.mark.parametrize(
    ("start", "goal", "error", "words"),
    [
        ([0.0], [0.0], Infeasible, "goal"),
        ([0.0], [11.0], Infeasible, "goal"),
        ([np.nan], [1.0], InvalidCommand, "joint1"),
        ([0.0, 0.0], [1.0], InvalidCommand, "position"),
        (TrajectorySample(np.zeros(1), np.ones(1) * 9, np.zeros(1)), [1.0], Infeasible, "joint1"),
        (TrajectorySample(np.ones(1) * 9.99, np.ones(1), np.zeros(1)), [1.0], Infeasible, "joint1"),
    ],
)
def test_states_of_no_use_are_refused(start, goal, error, words):
    with pytest.raises(error, check=about(words)):
        point_to_point(start, goal, limits_of(1.0, 5.0, 50.0))


def test_limits_are_needed():
    with pytest.raises(InvalidConfig):
        point_to_point([0.0], [1.0], limits_of(1.0, np.inf, 50.0))


AXES = np.vstack([np.eye(2), np.zeros((1, 2))])
"""Jacobian of a gantry: its joints are the coordinates of the tool."""
LENGTH = 1.5
WAY = LENGTH * np.array([0.6, 0.8])
V, A, J = 4.0, 2.0, 40.0
"""Limits of both joints."""


def gantry(limit: float) -> PointSpeeds:
    return PointSpeeds((lambda Q: np.tile(AXES, (len(Q), 1, 1)),), (limit,))


def line(pieces: int = 1) -> JointPath:
    """Return a line of the gantry, in one piece or in several equal ones."""
    breaks = np.linspace(0.0, LENGTH, pieces + 1)
    starts = breaks[:-1, None] / LENGTH * WAY
    coefficients = np.stack([starts, np.tile(WAY / LENGTH, (pieces, 1))], axis=1)
    return JointPath(limits_of([V, V], [A, A]).names, breaks, coefficients, np.empty(0))


@pytest.mark.parametrize("pieces", [1, 7])
@pytest.mark.parametrize("jerk", [np.inf, J])
@pytest.mark.parametrize("speed", [0.05, 0.2, 0.8])
def test_a_line_takes_the_time_of_a_trapezoid(speed, jerk, pieces):
    """Ramps at the acceleration of the joints, and between them the speed limit."""
    limits = limits_of([V, V], [A, A], jerk=[jerk, jerk])
    motion = time_optimal(line(pieces), limits, speeds=gantry(speed))
    a, j = A / 0.8, jerk / 0.8
    if not np.isfinite(jerk):
        ramp = speed / a
    elif speed * j < a**2:
        ramp = 2.0 * np.sqrt(speed / j)
    else:
        ramp = speed / a + a / j
    expected = LENGTH / speed + ramp
    assert motion.duration == pytest.approx(expected, rel=0.01)
    assert motion.duration >= expected * (1.0 - 1e-4)
    q, v, _, _ = motion.states(np.linspace(0.0, motion.duration, 4001))
    speeds = np.linalg.norm(v, axis=1)
    assert speeds.max() <= speed * (1.0 + 1e-3)
    share = float((speeds > 0.98 * speed).mean())
    assert share == pytest.approx(1.0 - 2.0 * ramp / expected, abs=0.05)
    np.testing.assert_allclose(q[-1], WAY, atol=1e-9)
    assert motion.limit_use(limits).stretch <= 1.0 + 1e-6


@pytest.mark.parametrize("jerk", [np.inf, J])
def test_a_limit_that_is_not_reached_changes_nothing(jerk):
    limits = limits_of([V, V], [A, A], jerk=[jerk, jerk])
    free = time_optimal(line(), limits)
    assert time_optimal(line(), limits, speeds=gantry(50.0)).duration == free.duration


@pytest.mark.parametrize("speed", [0.0, -1.0, np.nan])
def test_speeds_that_are_no_limits_are_refused(speed):
    with pytest.raises(InvalidConfig, check=about("max_speed")):
        gantry(speed)


inf = math.inf
BY_POSITION, BY_VELOCITY = np.array([False]), np.array([True])


def limits(acceleration=10.0, jerk=200.0, velocity=2.0, bound=1.0) -> JointLimits:
    one = np.ones(1)
    return JointLimits(("j",), -bound * one, bound * one, velocity * one, one,
                       acceleration * one, jerk * one)  # fmt: skip


def at(position: float, **values: float) -> OnlineLimiter:
    limiter = OnlineLimiter(limits(**values))
    limiter.reset(np.array([position]))
    return limiter


def lead(limiter, goal=0.0, speed=0.0, dt=0.01, by=BY_POSITION) -> float:
    limiter.step(by, np.array([goal]), np.array([speed]), dt)
    return float(limiter.position[0])


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.floats(1e-6, 10.0), st.floats(0.1, 100.0), st.floats(0.1, 1e5))
def test_stopping_speed_brakes_in_just_the_room(room, acceleration, jerk):
    speed = stopping_speed(room, acceleration, jerk)
    way = ruckig.InputParameter(1)
    way.control_interface = ruckig.ControlInterface.Velocity
    way.current_velocity, way.target_velocity = [speed], [0.0]
    way.max_velocity, way.max_acceleration, way.max_jerk = [1e9], [acceleration], [jerk]
    path = ruckig.Trajectory(1)
    ruckig.Ruckig(1).calculate(way, path)
    assert path.at_time(path.duration)[0][0] == pytest.approx(room, rel=1e-6)


def test_stopping_speed_at_the_edges():
    assert stopping_speed(0.0, 1.0, 1.0) == stopping_speed(-1.0, 1.0, 1.0) == 0.0
    assert stopping_speed(0.5, 4.0, inf) == pytest.approx(2.0)
    assert stopping_speed(2.0, inf, 2.0) == pytest.approx(2.0)
    assert stopping_speed(1.0, inf, inf) == stopping_speed(inf, 1.0, 1.0) == inf


@pytest.mark.parametrize(
    ("acceleration", "jerk", "duration"),
    [
        (inf, inf, 0.8 / 2.0),
        (10.0, inf, 0.8 / 2.0 + 2.0 / 10.0),
        (10.0, 200.0, 0.8 / 2.0 + 2.0 / 10.0 + 10.0 / 200.0),
        (inf, 200.0, 0.8 / 2.0 + 2.0 * math.sqrt(2.0 / 200.0)),
    ],
)
def test_duration_with_and_without_limits(acceleration, jerk, duration):
    limiter = at(0.0, acceleration=acceleration, jerk=jerk)
    for _ in range(round(duration / 0.001) - 2):
        assert lead(limiter, 0.8, dt=0.001) < 0.8
    for _ in range(4):
        lead(limiter, 0.8, dt=0.001)
    assert limiter.position[0] == 0.8
    assert limiter.velocity[0] == 0.0


@pytest.mark.parametrize("jerk", [inf, 200.0])
@pytest.mark.parametrize("acceleration", [inf, 10.0])
def test_velocity_drives_with_and_without_limits(acceleration, jerk):
    limiter = at(0.0, acceleration=acceleration, jerk=jerk, bound=inf)
    for speed in (1.5, -5.0, 0.0, 0.3):
        for _ in range(200):
            lead(limiter, speed=speed, by=BY_VELOCITY)
        assert limiter.velocity[0] == pytest.approx(np.clip(speed, -2.0, 2.0), abs=1e-9)


def test_the_way_does_not_depend_on_the_steps():
    rng = np.random.default_rng(5)
    even, uneven = at(-0.9), at(-0.9)
    for _ in range(60):
        lead(even, 0.7)
    cuts = np.sort(rng.uniform(0.0, 0.6, 40))
    for dt in np.diff([0.0, *cuts, 0.6]):
        lead(uneven, 0.7, dt=float(dt))
    assert uneven.position == pytest.approx(even.position, abs=1e-9)
    assert uneven.velocity == pytest.approx(even.velocity, abs=1e-8)


def test_from_outside_the_position_limits_and_goals_beyond_them():
    limiter = at(-1.5)
    for _ in range(300):
        lead(limiter, -3.0)
    assert limiter.position[0] == -1.0
    limiter = at(1.5)
    for goal in (1.5, 1.2):  # it stays, or moves in as far as its goal
        for _ in range(300):
            lead(limiter, goal)
        assert limiter.position[0] == goal
    limiter = at(1.5)
    for _ in range(100):
        lead(limiter, speed=1.0, by=BY_VELOCITY)
    assert limiter.position[0] == 1.5  # not further out
    for _ in range(100):
        lead(limiter, speed=-1.0, by=BY_VELOCITY)
    assert limiter.position[0] < 1.0


def test_a_steadily_moving_goal_is_caught_and_kept():
    limiter = at(0.0, bound=inf)
    for i in range(1, 300):
        goal = 0.3 + 0.5 * i * 0.01
        position = lead(limiter, goal, 0.5)
    assert position == pytest.approx(goal, abs=1e-9)
    assert limiter.velocity[0] == pytest.approx(0.5, abs=1e-9)


def test_far_goals_and_slow_speeds_have_a_way():
    far = at(0.0, bound=inf, velocity=0.01)
    for _ in range(300):
        lead(far, 9e5)
    assert far.velocity[0] == pytest.approx(0.01)
    slow = at(0.0)
    for _ in range(300):
        lead(slow, speed=1e-5, by=BY_VELOCITY)
    assert slow.velocity[0] == pytest.approx(1e-5)


@pytest.mark.parametrize("dt", [0.0, -1.0, math.nan, inf])
def test_no_time_no_motion(dt):
    limiter = at(0.0)
    lead(limiter, 1.0)
    before = limiter.position.copy()
    assert lead(limiter, 1.0, dt=dt) == before


def test_an_impossible_target_is_said_and_leaves_the_state():
    limiter = at(0.0)
    before = lead(limiter, 0.5)
    limiter._input.max_jerk = [math.nan]
    with pytest.raises(MotionError):
        lead(limiter, 0.6)
    assert limiter.position[0] == before
    limiter._input.max_jerk = [200.0]
    for _ in range(200):
        lead(limiter, 0.6)
    assert limiter.position[0] == 0.6


def test_ruckig_is_never_given_waypoints_of_online_limiter(monkeypatch):
    # With waypoints Ruckig's community version would send the motion to a server.
    asked = []

    class Watched(ruckig.Ruckig):
        def update(self, given, output):
            asked.append(list(given.intermediate_positions))
            return super().update(given, output)

    monkeypatch.setattr(online_trajectory.ruckig, "Ruckig", Watched)
    limiter = at(0.0)
    for goal in (0.5, -0.5):
        for _ in range(20):
            lead(limiter, goal, 0.2)
            lead(limiter, goal, by=BY_VELOCITY)
    assert len(asked) >= 40
    assert not any(asked)


def test_a_goal_with_an_acceleration_is_met_and_followed_without_lag():
    robot = load_robot("so101")
    limits = robot.limits.select(("shoulder_pan",))
    most, frequency, dt = float(limits.acceleration[0]), 8.0, 0.01
    amplitude = 0.8 * most / frequency**2
    limiter = OnlineLimiter(limits)
    limiter.reset(np.array([0.1]))
    no, apart = np.array([False]), []
    for k in range(1, 300):
        phase = frequency * k * dt
        goal, speed = amplitude * math.sin(phase), amplitude * frequency * math.cos(phase)
        pull = np.array([-goal * frequency**2])
        limiter.step(no, np.array([goal]), np.array([speed]), dt, pull)
        apart.append(abs(float(limiter.position[0]) - goal))
        assert abs(limiter.acceleration[0]) <= most * 1.001
        assert abs(limiter.velocity[0]) <= limits.velocity[0] * 1.001
    assert apart[0] > 0.05
    assert max(apart[80:]) < 1e-9


def test_it_comes_to_rest_from_any_state_near_its_goal():
    """Ruckig is off by about 1e-9 rad there; a creeping reference would count as motion."""
    limits = load_robot("xarm6").limits
    n, rng = len(limits.names), np.random.default_rng(0)
    none, rest = np.zeros(n, dtype=bool), np.zeros(n)
    for _ in range(300):
        limiter = OnlineLimiter(limits)
        limiter.reset(rng.uniform(-0.2, 0.1, n).clip(limits.lower, limits.upper))
        velocity = rng.normal(0.0, 1.0, n) * 10.0 ** rng.uniform(-10.0, -1.0, n)
        state = TrajectorySample(limiter.position.copy(), velocity, rest)
        limiter.set_state(~none, state)
        goal = state.position + rng.normal(0.0, 1.0, n) * 10.0 ** rng.uniform(-12.0, -1.0, n)
        goal = goal.clip(limits.lower, limits.upper)
        for _ in range(500):
            limiter.step(none, goal, rest, 0.004)
        assert not limiter.velocity.any()
        np.testing.assert_array_equal(limiter.position, goal)


def test_peak_velocity_is_where_the_acceleration_has_ended():
    found = peak_velocity(np.array([1.0, 1.0, -1.0]), np.array([2.0, -2.0, -2.0]), np.array(
        [4.0, 4.0, inf]))  # fmt: skip
    assert found.tolist() == [1.5, 0.5, -1.0]


@pytest.mark.parametrize("seed", range(8))
def test_a_goal_that_accelerates_does_not_lead_beyond_the_velocity_limit(seed):
    """The reference catches up at the limit while the goal still accelerates towards it."""
    rng = np.random.default_rng(seed)
    velocity, acceleration, jerk = 1.0, 10.0 ** rng.uniform(0.0, 1.5), 10.0 ** rng.uniform(1.0, 3.0)
    limiter = at(0.0, acceleration=acceleration, jerk=jerk, velocity=velocity, bound=100.0)
    dt, goal, speed = 0.01, np.array([0.2]), np.zeros(1)
    fastest = 0.0
    for k in range(500):
        before = speed
        speed = np.array([velocity * np.sin(k * dt * acceleration / velocity)])
        speed += rng.normal() * 0.02
        goal = goal + speed * dt
        limiter.step(BY_POSITION, goal, speed, dt, (speed - before) / dt)
        fastest = max(fastest, abs(float(limiter.velocity[0])))
        assert abs(float(limiter.acceleration[0])) <= acceleration * (1.0 + 1e-6)
    assert 0.9 * velocity < fastest <= velocity * (1.0 + 1e-9)
