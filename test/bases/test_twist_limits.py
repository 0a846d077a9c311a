# SPDX-License-Identifier: Apache-2.0
"""Limits of a twist: ramps, closed forms, Ruckig, random commands to each kind of base."""

import dataclasses
import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import ruckig
from bases.holonomic_samples import kaya, mecanum
from hypothesis import example, given, settings
from hypothesis import strategies as st
from raised_errors import about

from motion_nodes.core.bases.ackermann import AckermannBase, AckermannConfig, AckermannGeometry
from motion_nodes.core.bases.base import BaseLimits, BodyAxisLimits, Twist2, WheeledBase
from motion_nodes.core.bases.controller import BaseController, BaseControllerConfig
from motion_nodes.core.bases.differential import DifferentialBase, DifferentialConfig
from motion_nodes.core.bases.holonomic import HolonomicBase
from motion_nodes.core.bases.twist_limiter import TwistLimiter
from motion_nodes.errors import InvalidConfig

nan, inf = math.nan, math.inf
fast = settings(derandomize=True, deadline=None, max_examples=60)
speeds = st.floats(-20.0, 20.0)


def limiter(start: Twist2 | None = None, **limits) -> TwistLimiter:
    made = TwistLimiter(BaseLimits(**limits))
    made.start(start or Twist2())
    return made


def ramp(made: TwistLimiter, wanted: Twist2, dt: float, steps: int) -> np.ndarray:
    return np.array([made.step(wanted, dt) for _ in range(steps)])


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_each_velocity_limit_alone_binds_and_keeps_sign_and_curvature(sign):
    x = limiter(x=BodyAxisLimits(max_velocity=0.5))
    assert x.step(Twist2(sign * 2.0, 0.0, 4.0), 0.1) == pytest.approx((sign * 0.5, 0.0, 1.0))
    yaw = limiter(yaw=BodyAxisLimits(max_velocity=-1.0))
    assert yaw.step(Twist2(2.0, 0.0, sign * 4.0), 0.1) == pytest.approx((0.5, 0.0, sign * 1.0))


def test_the_other_way_may_have_its_own_velocity_limit():
    axis = BodyAxisLimits(max_velocity=2.0, min_velocity=-0.5)
    assert limiter(x=axis).step(Twist2(-4.0, 0.0, 4.0), 0.1) == (-0.5, 0.0, 0.5)
    assert limiter(x=axis).step(Twist2(4.0, 0.0, 4.0), 0.1) == (2.0, 0.0, 2.0)
    assert BodyAxisLimits(max_velocity=2.0, min_velocity=0.5).backward == 0.5  # signs do not matter
    assert BodyAxisLimits(max_velocity=2.0, min_velocity=math.nan).backward == 2.0
    assert BodyAxisLimits(max_velocity=2.0, min_velocity=0.0).backward == 0.0  # no reverse


def test_a_jerk_limit_needs_something_that_bounds_the_acceleration():
    with pytest.raises(InvalidConfig):
        BodyAxisLimits(max_jerk=1.0)
    # From one max velocity to the other at max jerk: peak acceleration sqrt(2 V J).
    assert BodyAxisLimits(max_jerk=4.0, max_velocity=2.0).steepest == 4.0


def test_acceleration_and_deceleration_have_their_own_slopes():
    made = limiter(x=BodyAxisLimits(max_acceleration=1.0, max_deceleration=4.0))
    up = [made.step(Twist2(1.0), 0.1).vx for _ in range(12)]
    assert up == pytest.approx([*np.arange(1, 11) * 0.1, 1.0, 1.0])
    down = [made.step(Twist2(0.3), 0.1).vx for _ in range(3)]
    assert down == pytest.approx([0.6, 0.3, 0.3])
    assert made.step(Twist2(-1.0), 0.1).vx == pytest.approx(-0.025)  # 75 ms to brake, 25 to rise
    assert made.step(Twist2(-1.0), 0.1).vx == pytest.approx(-0.125)


def test_the_other_way_has_its_own_slopes():
    axis = BodyAxisLimits(
        max_acceleration=1.0,
        max_deceleration=-4.0,
        max_acceleration_reverse=-2.0,
        max_deceleration_reverse=8.0,
    )
    made = limiter(x=axis)
    assert ramp(made, Twist2(-1.0), 0.1, 3)[:, 0] == pytest.approx([-0.2, -0.4, -0.6])
    assert made.step(Twist2(0.5), 0.1).vx == pytest.approx(0.025)  # 75 ms to brake, 25 to rise
    assert made.step(Twist2(0.5), 0.1).vx == pytest.approx(0.125)


def test_deceleration_defaults_to_acceleration():
    made = limiter(Twist2(0.0, 0.0, 1.0), yaw=BodyAxisLimits(max_acceleration=2.0))
    assert made.step(Twist2(), 0.1).wz == pytest.approx(0.8)


def test_sign_reversal_passes_through_zero():
    made = limiter(Twist2(1.0), x=BodyAxisLimits(max_acceleration=3.0, max_deceleration=2.0))
    seen = [1.0, *ramp(made, Twist2(-1.0), 0.01, 100)[:, 0]]
    assert np.all(np.diff(seen) <= 0.0)
    assert min(map(abs, seen)) < 0.02
    assert seen[-1] == -1.0


def test_braking_that_ends_with_the_step_is_finite_without_an_acceleration_limit():
    for before in (0.2, 0.6 * (1 + 1e-16), 0.1 + 0.2):
        made = limiter(Twist2(before), x=BodyAxisLimits(max_deceleration=2.0))
        assert made.step(Twist2(-1.0), before / 2.0).vx in (0.0, -1.0)


@pytest.mark.parametrize("dt", [0.0, -0.1, nan])
@pytest.mark.parametrize("jerk", [nan, 5.0])
def test_without_time_nothing_changes(dt, jerk):
    axis = BodyAxisLimits(max_acceleration=1.0, max_jerk=jerk)
    one, other = limiter(x=axis), limiter(x=axis)
    for wanted in (Twist2(1.0), Twist2(1.0), Twist2(-1.0), Twist2(-1.0)):
        before = other.step(wanted, 0.1)
        assert one.step(wanted, 0.1) == before
        assert one.step(Twist2(7.0), dt) == before == one.before


# ---- direction of travel


@pytest.mark.parametrize("jerk", [nan, 3.0])
def test_axes_start_and_stop_together(jerk):
    """From rest a diagonal is straight, and a curve has constant curvature."""
    limits = {
        "x": BodyAxisLimits(max_acceleration=1.0, max_deceleration=3.0, max_jerk=jerk),
        "y": BodyAxisLimits(max_acceleration=0.5),
        "yaw": BodyAxisLimits(max_acceleration=4.0, max_jerk=5 * jerk),
    }
    wanted = Twist2(0.6, 0.4, -1.2)
    made = limiter(**limits)
    seen = np.vstack([ramp(made, wanted, 0.013, 200), ramp(made, Twist2(), 0.013, 200)])
    assert tuple(seen[199]) == wanted
    assert tuple(seen[-1]) == Twist2()
    np.testing.assert_allclose(np.cross(seen, wanted), 0.0, atol=1e-12)
    apart = limiter(**limits, clip_axes=True)
    assert abs(np.cross(ramp(apart, wanted, 0.013, 60), wanted)).max() > 0.05


def test_one_straight_line_leads_from_one_twist_to_another():
    start, goal = Twist2(0.5, -0.2, 1.0), Twist2(-0.3, 0.4, 0.2)
    made = limiter(
        start,
        x=BodyAxisLimits(max_acceleration=1.0, max_deceleration=2.0),
        y=BodyAxisLimits(max_acceleration=0.5),
        yaw=BodyAxisLimits(max_acceleration=1.0),
    )
    seen = ramp(made, goal, 0.01, 200) - start
    assert tuple(seen[-1] + start) == pytest.approx(goal)
    np.testing.assert_allclose(np.cross(seen, np.subtract(goal, start)), 0.0, atol=1e-12)
    # 0.2 m/s to brake and 0.4 m/s to speed up sideways, at 0.5 m/s^2, take longest.
    assert np.argmax(np.all(seen == seen[-1], axis=1)) == 119


def test_axes_apart_are_each_as_fast_as_they_may():
    made = limiter(
        x=BodyAxisLimits(max_velocity=0.5, max_acceleration=1.0),
        yaw=BodyAxisLimits(max_velocity=1.0, max_acceleration=4.0),
        clip_axes=True,
    )
    assert made.step(Twist2(5.0, 0.0, 0.7), 0.1) == pytest.approx((0.1, 0.0, 0.4))
    assert tuple(ramp(made, Twist2(5.0, 0.0, 0.7), 0.1, 9)[-1]) == (0.5, 0.0, 0.7)


# ---- jerk


def by_ruckig(start, goal, acceleration, jerk, dt, steps, rate=0.0):
    """Return the time-optimal velocities [m/s], one per step, by an independent solver."""
    solver = ruckig.Ruckig(1, dt)
    given, out = ruckig.InputParameter(1), ruckig.OutputParameter(1)
    given.control_interface = ruckig.ControlInterface.Velocity
    given.current_velocity, given.current_acceleration = [start], [rate]
    given.target_velocity = [goal]
    given.max_velocity, given.max_acceleration, given.max_jerk = [1e3], [acceleration], [jerk]
    velocities = []
    for _ in range(steps):
        solver.update(given, out)
        out.pass_to_input(given)
        velocities.append(out.new_velocity[0])
    return velocities


@fast
@given(
    st.floats(-1.0, 1.0),
    st.floats(1.0, 3.0),
    st.sampled_from((1.0, -1.0)),
    st.floats(0.3, 3.0),
    st.floats(0.003, 0.05),
)
def test_a_large_change_is_the_time_optimal_one(start, change, sign, acceleration, dt):
    """Large: the acceleration reaches its limit."""
    jerk = 2.0 * acceleration**2 / change
    goal = start + sign * change
    made = limiter(Twist2(start), x=BodyAxisLimits(max_acceleration=acceleration, max_jerk=jerk))
    seen = ramp(made, Twist2(goal), dt, 100)[:, 0]
    best = by_ruckig(start, goal, acceleration, jerk, dt, 100)
    np.testing.assert_allclose(seen, best, rtol=0, atol=1e-9)


@pytest.mark.parametrize("change", [1e-6, 0.01, 0.1, 0.24, 0.25])
def test_a_small_change_ends_when_the_acceleration_could_have_come_and_gone(change):
    made = limiter(x=BodyAxisLimits(max_acceleration=1.0, max_jerk=4.0))
    end = change / 1.0 + 1.0 / 4.0
    seen = ramp(made, Twist2(change), 0.001, 600)[:, 0]
    assert np.all(np.diff(seen) >= -1e-15)
    assert seen[math.ceil(end * 1000)] == change
    assert seen[math.floor(end * 1000) - 3] < change


def test_stop_in_the_middle_of_a_start_is_time_optimal_too():
    """The acceleration goes from its limit directly to the opposite one."""
    made = limiter(x=BodyAxisLimits(max_acceleration=1.0, max_jerk=4.0))
    seen = ramp(made, Twist2(2.0), 0.01, 100)[:, 0]
    stop = ramp(made, Twist2(), 0.01, 300)[:, 0]
    solver_stop = by_ruckig(seen[-1], 0.0, 1.0, 4.0, 0.01, 300, rate=1.0)
    np.testing.assert_allclose(stop, solver_stop, rtol=0, atol=1e-9)
    assert stop.max() == pytest.approx(seen[-1] + 1.0 / 8.0)  # a^2 / (2 j) cannot be avoided


def test_the_smaller_jerk_limit_holds():
    assert BodyAxisLimits(max_acceleration=1.0, max_jerk=5.0, min_jerk=-2.0).jerk == 2.0
    assert BodyAxisLimits(max_acceleration=1.0, max_jerk=5.0).jerk == 5.0
    assert BodyAxisLimits(max_acceleration=1.0, min_jerk=-3.0).jerk == 3.0


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(BodyAxisLimits)])
def test_an_infinite_limit_is_refused_by_name(name):
    with pytest.raises(InvalidConfig, check=about(name)):
        BodyAxisLimits(**{name: inf})


def test_rest_is_exact_after_many_commands():
    made = limiter(x=BodyAxisLimits(max_acceleration=1.0, max_jerk=4.0))
    rng = np.random.default_rng(3)
    for wanted in rng.uniform(-2.0, 2.0, 20).tolist():
        for _ in range(int(rng.integers(1, 200))):
            made.step(Twist2(wanted), 0.02)
    assert tuple(ramp(made, Twist2(), 0.02, 200)[-1]) == (0.0, 0.0, 0.0)
    assert made.step(Twist2(0.25), 100.0).vx == pytest.approx(0.25)


# ---- random streams

axes = st.builds(
    BodyAxisLimits,
    max_velocity=st.sampled_from((0.4, 3.0)),
    min_velocity=st.sampled_from((nan, 0.2)),
    max_acceleration=st.sampled_from((nan, 0.0, 0.5, 20.0)),
    max_deceleration=st.sampled_from((nan, 0.7, 30.0)),
    max_acceleration_reverse=st.sampled_from((nan, -2.0)),
    max_deceleration_reverse=st.sampled_from((nan, 5.0)),
    max_jerk=st.sampled_from((nan, 3.0, 100.0)),
)
commands = st.lists(
    st.tuples(speeds, speeds, speeds, st.floats(1e-3, 0.1), st.integers(1, 12)),
    min_size=1,
    max_size=12,
)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(axes, axes, axes, st.booleans(), commands)
@example(
    BodyAxisLimits(max_velocity=0.4),
    BodyAxisLimits(max_velocity=0.4),
    BodyAxisLimits(max_velocity=0.4, max_acceleration_reverse=-2.0, max_jerk=100.0),
    False,
    [(0.0, 0.0, -1.0, 0.09375, 1), (0.0, 0.0, 0.0, 0.03125, 1), (0.0, 0.0, 1e-24, 0.0625, 1),
     (0.0, 0.0, 1.0, 0.0625, 1)],
)  # fmt: skip
def test_no_stream_of_commands_exceeds_a_limit(x, y, yaw, clip, stream):
    limits = BaseLimits(x=x, y=y, yaw=yaw, clip_axes=clip)
    made = TwistLimiter(limits)
    states = [(made.before, 0.0)]
    for vx, vy, wz, dt, repeat in stream:
        states += [(made.step(Twist2(vx, vy, wz), dt), dt) for _ in range(repeat)]
    for i, axis in enumerate(limits.axes):
        v = np.array([twist[i] for twist, _ in states])
        dt = np.array([step for _, step in states[1:]])
        assert np.all(np.isfinite(v))
        assert np.all((v <= axis.forward + 1e-12) & (v >= -axis.backward - 1e-12))
        reach = np.array(
            [axis.reach(old, step) for old, step in zip(v[:-1].tolist(), dt, strict=True)]
        )
        assert np.all((v[1:] >= reach[:, 0] - 1e-9) & (v[1:] <= reach[:, 1] + 1e-9))
        # Mean accelerations of adjacent steps are those at the middle of each step.
        if math.isfinite(axis.jerk):
            rate = np.concatenate([[0.0], np.diff(v) / dt])
            between = 0.5 * (dt + np.concatenate([[dt[0]], dt[:-1]]))
            assert np.all(abs(np.diff(rate)) <= axis.jerk * between * (1 + 1e-6) + 1e-9)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.floats(-3.0, 3.0))
def test_reach_is_what_a_ramp_can_reach(start):
    axis = BodyAxisLimits(
        max_acceleration=1.0,
        max_deceleration=4.0,
        max_acceleration_reverse=2.0,
        max_deceleration_reverse=0.5,
    )
    for dt, goal in itertools.product((0.01, 0.3, 5.0), (-inf, inf)):
        made = limiter(Twist2(start), x=axis)
        far = made.step(Twist2(math.copysign(1e3, goal)), dt).vx
        assert far == pytest.approx(axis.reach(start, dt)[goal > 0], abs=1e-12)


@fast
@given(speeds, speeds, speeds)
def test_velocity_limits_are_idempotent_and_keep_direction(vx, vy, wz):
    limits = BaseLimits(
        x=BodyAxisLimits(max_velocity=0.7),
        y=BodyAxisLimits(max_velocity=0.3, min_velocity=-0.2),
        yaw=BodyAxisLimits(max_velocity=1.1),
    )
    once = limits.within_velocity(Twist2(vx, vy, wz))
    assert limits.within_velocity(once) == once
    np.testing.assert_allclose(np.cross(once, (vx, vy, wz)), 0.0, atol=1e-9)
    assert np.dot(once, (vx, vy, wz)) >= 0.0


# ---- wheels' accelerations

BASE = DifferentialBase(
    DifferentialConfig(
        left_wheel_names=("l",), right_wheel_names=("r",), wheel_radius=0.1, wheel_separation=0.4
    )
)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(commands, st.booleans(), st.sampled_from((nan, 4.0)), st.sampled_from((nan, 5.0)))
def test_no_wheel_accelerates_faster_than_its_limit(stream, clip, jerk, braking):
    axis = BodyAxisLimits(
        max_velocity=2.0, max_acceleration=1.5, max_deceleration=braking, max_jerk=jerk
    )
    limits = BaseLimits(x=axis, yaw=axis, clip_axes=clip, max_wheel_acceleration=7.0)
    made = TwistLimiter(limits, BASE.wheels_from_twist)
    before = BASE.wheels_from_twist(Twist2())
    for vx, _, wz, dt, repeat in stream:
        for _ in range(repeat):
            now = BASE.wheels_from_twist(made.step(Twist2(vx, 0.0, wz), dt))
            assert np.all(abs(now - before) <= 7.0 * dt + 1e-9)
            before = now


def test_the_wheels_limit_keeps_the_curve_of_a_start():
    made = TwistLimiter(BaseLimits(max_wheel_acceleration=5.0), BASE.wheels_from_twist)
    wanted = Twist2(1.0, 0.0, 1.5)
    seen = ramp(made, wanted, 0.02, 150)
    np.testing.assert_allclose(np.cross(seen, wanted), 0.0, atol=1e-12)
    # The right wheel goes to 13 rad/s at 5 rad/s^2.
    assert np.argmax(np.all(seen == wanted, axis=1)) == pytest.approx(13.0 / 5.0 / 0.02, abs=1)


def differential() -> WheeledBase:
    names = {"left_wheel_names": ("a", "b"), "right_wheel_names": ("c", "d")}
    return DifferentialBase(
        DifferentialConfig(
            **names, wheel_radius=0.1, wheel_separation=0.4, right_wheel_radius_multiplier=1.1
        )
    )


def car(axle: str = "front", steering_velocity: float = 2.0) -> WheeledBase:
    geometry = AckermannGeometry(
        wheelbase=1.65,
        front_track_width=1.25,
        rear_track_width=1.1,
        front_wheel_radius=0.25,
        rear_wheel_radius=0.3,
        steered_axle=axle,
    )
    return AckermannBase(
        AckermannConfig(
            geometry=geometry,
            steering_joint_names=("sl", "sr"),
            front_wheel_names=("fl", "fr"),
            rear_wheel_names=("rl", "rr"),
            max_steering_angle=0.6,
            max_steering_velocity=steering_velocity,
        )
    )


BASES: dict[str, Callable[[], WheeledBase]] = {
    "differential": differential,
    "omni": lambda: HolonomicBase(kaya(left_handed=False)),
    "mecanum": lambda: HolonomicBase(mecanum()),
    "car": car,
    "car steered behind": lambda: car("rear", steering_velocity=math.nan),
}
WHEELS = {"max_wheel_velocity": 12.0, "max_wheel_acceleration": 9.0}
AXES = {
    "x": BodyAxisLimits(
        max_velocity=1.5, min_velocity=-0.8, max_acceleration=1.2, max_deceleration=3
    ),
    "y": BodyAxisLimits(max_velocity=0.6, max_acceleration=0.9),
    "yaw": BodyAxisLimits(max_velocity=1.3, max_acceleration=2.5, max_deceleration_reverse=4.0),
}
component = st.one_of(st.just(0.0), st.floats(-3.0, 3.0))
commands_of_all_bases = st.lists(
    st.tuples(component, component, component, st.floats(1e-3, 0.06), st.integers(1, 15)),
    min_size=1,
    max_size=8,
)


@pytest.mark.parametrize("kind", BASES)
@settings(derandomize=True, deadline=None, max_examples=12)
@given(commands_of_all_bases)
def test_no_limit_is_ever_exceeded(kind, stream):
    base, limits = BASES[kind](), BaseLimits(**AXES, **WHEELS)
    controller = BaseController(base, BaseControllerConfig(limits=limits))
    before, now = controller.driven, 0.0
    for vx, vy, wz, dt, repeat in stream:
        for _ in range(repeat):
            now += dt
            controller.command(Twist2(vx, vy, wz), now)
            step = controller.step(now, dt)
            for axis, name in ((limits.x, "vx"), (limits.yaw, "wz"), (limits.y, "vy")):
                if name == "vy" and base.steering_names:
                    continue  # of a car it follows from yaw
                old, new = getattr(before.twist, name), getattr(step.twist, name)
                low, high = axis.reach(old, dt)
                assert low - 1e-9 <= new <= high + 1e-9, name
                assert -axis.backward - 1e-9 <= new <= axis.forward + 1e-9, name
            assert abs(step.wheels).max() <= limits.max_wheel_velocity * (1 + 1e-12)
            change = abs(step.wheels - before.wheels).max()
            assert change <= limits.max_wheel_acceleration * dt * (1 + 1e-9) + 1e-9
            # Commands to wheels and steering match the reported twist.
            rolled = base.twist_from_wheels(step.wheels, step.steering)
            np.testing.assert_allclose(rolled, step.twist, atol=1e-9)
            before = step


@pytest.mark.parametrize("kind", ["differential", "omni", "mecanum"])
def test_what_a_wheel_cannot_do_slows_the_whole_base(kind):
    base = BASES[kind]()
    wanted = base.nearest_twist(Twist2(3.0, 1.0, 2.0))
    config = BaseControllerConfig(limits=BaseLimits(max_wheel_velocity=5.0))
    controller = BaseController(base, config)
    controller.command(wanted, 0.0)
    step = controller.step(0.0, 0.02)
    assert abs(step.wheels).max() == pytest.approx(5.0)
    np.testing.assert_allclose(np.cross(step.twist, wanted), 0.0, atol=1e-9)


def test_a_car_slows_down_for_a_curve_that_its_outer_wheel_is_too_slow_for():
    base = car()
    config = BaseControllerConfig(limits=BaseLimits(max_wheel_velocity=4.0), cmd_vel_timeout=9.0)
    controller = BaseController(base, config)
    controller.command(Twist2(1.0), 0.0)
    assert controller.step(0.0, 0.02).twist == (1.0, 0.0, 0.0)
    controller.command(Twist2(1.0, 0.0, 0.3), 0.0)
    steps = [controller.step(0.0, 0.02) for _ in range(50)]
    assert steps[-1].twist.vx < 0.95
    assert max(abs(step.wheels).max() for step in steps) <= 4.0 * (1 + 1e-12)
    assert steps[-1].twist.wz / steps[-1].twist.vx == pytest.approx(0.3)
