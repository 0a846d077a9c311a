# SPDX-License-Identifier: Apache-2.0
"""Limits of a base, and its control: ramps, wheel limits, timeouts, bad commands, odometry."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motion_nodes.bases.base import Twist2
from motion_nodes.bases.controller import BaseController, BaseControllerConfig
from motion_nodes.bases.differential import DifferentialBase, DifferentialConfig
from motion_nodes.bases.limits import AxisLimits, BaseLimits, TwistLimiter
from motion_nodes.errors import BadCommand, BadConfig

nan, inf = math.nan, math.inf
fast = settings(derandomize=True, deadline=None, max_examples=60)
speeds = st.floats(-20.0, 20.0)
CONFIG = DifferentialConfig(
    left_wheel_names=("l",), right_wheel_names=("r",), wheel_radius=0.03, wheel_separation=0.1125
)


def controller(timeout: float = 0.5, **limits) -> BaseController:
    config = BaseControllerConfig(limits=BaseLimits(**limits), cmd_vel_timeout=timeout)
    return BaseController(DifferentialBase(CONFIG), config)


def driven(base: BaseController, vx: float, wz: float) -> np.ndarray:
    base.command(Twist2(vx, 0.0, wz), 0.0)
    return base.step(0.0, 0.01).wheels


def state(base: BaseController) -> tuple:
    o = base.odometry
    return (base.wanted, base._wanted_at, base.limiter.before, o.x, o.y, o.yaw, o.twist,
            None if base._wheels is None else base._wheels.tobytes())  # fmt: skip


def test_golden_wheel_limit_scaled_and_clipped():
    assert driven(controller(), 0.3, 1.0) == pytest.approx([8.125, 11.875])
    scaled = driven(controller(max_wheel_velocity=9.0), 0.3, 1.0)
    assert scaled == pytest.approx([6.1579, 9.0], abs=5e-5)
    clipped = driven(controller(max_wheel_velocity=9.0, clip_wheels=True), 0.3, 1.0)
    assert clipped == pytest.approx([8.125, 9.0])
    assert driven(controller(max_wheel_velocity=-9.0), -0.3, 1.0)[0] == pytest.approx(-9.0)


@pytest.mark.parametrize("unset", [0.0, nan])
def test_unset_limits_do_not_bind(unset):
    axis = AxisLimits(max_velocity=unset, max_acceleration=unset, max_deceleration=unset)
    base = controller(x=axis, yaw=axis, max_wheel_velocity=unset)
    assert driven(base, 30.0, -50.0) == pytest.approx(
        base.base.wheels_from_twist(Twist2(30.0, 0.0, -50.0))
    )


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_each_velocity_limit_alone_binds_and_keeps_sign_and_curvature(sign):
    x = TwistLimiter(BaseLimits(x=AxisLimits(max_velocity=0.5)))
    assert x.step(Twist2(sign * 2.0, 0.0, 4.0), 0.1) == pytest.approx((sign * 0.5, 0.0, 1.0))
    yaw = TwistLimiter(BaseLimits(yaw=AxisLimits(max_velocity=-1.0)))
    assert yaw.step(Twist2(2.0, 0.0, sign * 4.0), 0.1) == pytest.approx((0.5, 0.0, sign * 1.0))


@pytest.mark.parametrize("name", ["max_velocity", "max_acceleration", "max_deceleration"])
def test_infinite_limits_are_refused(name):
    with pytest.raises(BadConfig, match=f"{name} is inf; give a finite number, or 0"):
        AxisLimits(**{name: inf})
    with pytest.raises(BadConfig, match="max_wheel_velocity is -inf"):
        BaseLimits(max_wheel_velocity=-inf)


@pytest.mark.parametrize("timeout", [0.0, -1.0, nan, inf])
def test_bad_timeouts_are_refused(timeout):
    with pytest.raises(BadConfig, match="cmd_vel_timeout is .* finite and above 0"):
        controller(timeout)


def test_acceleration_and_deceleration_have_their_own_slopes():
    limiter = TwistLimiter(BaseLimits(x=AxisLimits(max_acceleration=1.0, max_deceleration=4.0)))
    up = [limiter.step(Twist2(1.0), 0.1).vx for _ in range(12)]
    assert up == pytest.approx([*np.arange(1, 11) * 0.1, 1.0, 1.0])
    down = [limiter.step(Twist2(0.3), 0.1).vx for _ in range(3)]
    assert down == pytest.approx([0.6, 0.3, 0.3])
    assert limiter.step(Twist2(-1.0), 0.1).vx == pytest.approx(-0.025)  # 75 ms to brake, 25 to rise
    assert limiter.step(Twist2(-1.0), 0.1).vx == pytest.approx(-0.125)


def test_deceleration_defaults_to_acceleration():
    limiter = TwistLimiter(BaseLimits(yaw=AxisLimits(max_acceleration=2.0)))
    limiter.before = Twist2(0.0, 0.0, 1.0)
    assert limiter.step(Twist2(), 0.1).wz == pytest.approx(0.8)


def test_sign_reversal_passes_through_zero():
    limiter = TwistLimiter(BaseLimits(x=AxisLimits(max_acceleration=3.0, max_deceleration=2.0)))
    limiter.before = Twist2(1.0)
    seen = [1.0] + [limiter.step(Twist2(-1.0), 0.01).vx for _ in range(100)]
    assert np.all(np.diff(seen) <= 0.0)
    assert min(map(abs, seen)) < 0.02
    assert seen[-1] == -1.0


def test_braking_that_ends_with_the_step_is_finite_without_an_acceleration_limit():
    limiter = TwistLimiter(BaseLimits(x=AxisLimits(max_deceleration=2.0)))
    for before in (0.2, 0.6 * (1 + 1e-16), 0.1 + 0.2):
        limiter.before = Twist2(before)
        assert limiter.step(Twist2(-1.0), before / 2.0).vx in (0.0, -1.0)


@pytest.mark.parametrize("dt", [0.0, -0.1, nan])
def test_without_time_nothing_changes(dt):
    base = controller(x=AxisLimits(max_acceleration=1.0))
    driven(base, 1.0, 0.0)
    before = base.limiter.before
    base.command(Twist2(-1.0), 0.0)
    twist, wheels, _ = base.step(0.0, dt)
    assert twist == before == base.limiter.before
    assert wheels == pytest.approx(base.base.wheels_from_twist(before))


axes = st.builds(
    AxisLimits,
    max_velocity=st.sampled_from((nan, 0.0, 0.4, 3.0)),
    max_acceleration=st.sampled_from((nan, 0.0, 0.5, 20.0)),
    max_deceleration=st.sampled_from((nan, 0.7, 30.0)),
)


def bound(limit: float) -> float:
    return inf if math.isnan(limit) or limit == 0.0 else limit


@fast
@given(
    axes, axes, st.lists(st.tuples(speeds, speeds, st.floats(1e-3, 0.2)), min_size=1, max_size=30)
)
def test_no_step_exceeds_a_limit(x, yaw, commands):
    limiter = TwistLimiter(BaseLimits(x=x, yaw=yaw))
    before = limiter.before
    for vx, wz, dt in commands:
        now = limiter.step(Twist2(vx, 0.0, wz), dt)
        assert now.finite
        for axis, old, new in ((x, before.vx, now.vx), (yaw, before.wz, now.wz)):
            assert abs(new) <= bound(axis.max_velocity)
            rise = bound(axis.max_acceleration)
            fall = rise if math.isnan(axis.max_deceleration) else axis.max_deceleration
            assert abs(new) - abs(old) <= rise * dt + 1e-12
            assert abs(new - old) <= max(rise, fall) * dt + 1e-12
            if abs(new) < abs(old) and new * old >= 0.0:
                assert abs(new - old) <= fall * dt + 1e-12
        before = now


@fast
@given(speeds, speeds, speeds)
def test_velocity_limits_are_idempotent_and_keep_direction(vx, vy, wz):
    limits = BaseLimits(
        x=AxisLimits(max_velocity=0.7),
        y=AxisLimits(max_velocity=0.3),
        yaw=AxisLimits(max_velocity=1.1),
    )
    once = TwistLimiter(limits).within_velocity(Twist2(vx, vy, wz))
    assert TwistLimiter(limits).within_velocity(once) == once
    np.testing.assert_allclose(np.cross(once, (vx, vy, wz)), 0.0, atol=1e-9)
    assert np.dot(once, (vx, vy, wz)) >= 0.0


@fast
@given(speeds, speeds, st.floats(0.5, 50.0), st.booleans())
def test_wheel_limit_holds_and_scaling_keeps_the_curve(vx, wz, limit, clip):
    base = controller(max_wheel_velocity=limit, clip_wheels=clip)
    wheels = driven(base, vx, wz)
    assert np.all(np.abs(wheels) <= limit * (1 + 1e-15))
    twist = base.limiter.before
    np.testing.assert_allclose(base.base.wheels_from_twist(twist), wheels, atol=1e-9)
    if not clip:
        assert twist.vx * wz == pytest.approx(twist.wz * vx, abs=1e-9)
        assert twist.vx * vx >= 0.0
        assert twist.wz * wz >= 0.0


def test_ramps_do_not_wind_up_beyond_the_wheel_limit():
    # 9 rad/s are 0.27 m/s: braking at 1 m/s^2 from there takes 0.27 s, whatever was asked for.
    base = controller(x=AxisLimits(max_acceleration=1.0), max_wheel_velocity=9.0)
    for i in range(1000):
        base.command(Twist2(10.0), i * 0.01)
        twist, wheels, _ = base.step(i * 0.01, 0.01)
    assert twist.vx == pytest.approx(0.27)
    assert wheels == pytest.approx([9.0, 9.0])
    base.command(Twist2(), 10.0)
    for i in range(28):
        twist, wheels, _ = base.step(10.0 + i * 0.01, 0.01)
    assert twist == Twist2()
    np.testing.assert_array_equal(wheels, 0.0)


def test_a_command_lasts_until_its_timeout():
    base = controller(timeout=0.5)
    assert base.command_age(3.0) == inf
    assert base.step(0.0, 0.01)[0] == Twist2()
    base.command(Twist2(0.2), 1.0)
    assert base.step(1.5, 0.01)[0].vx == 0.2
    assert base.command_age(1.25) == 0.25
    np.testing.assert_array_equal(base.step(1.5000001, 0.01).wheels, 0.0)
    assert base.step(0.9, 0.01)[0] == Twist2()  # the clock went back


@pytest.mark.parametrize(
    ("twist", "message"),
    [
        (Twist2(nan, 0, 0), "not finite; ignored"),
        (Twist2(0, 0, inf), "not finite; ignored"),
        (Twist2(0, -inf, 0), "not finite; ignored"),
        (Twist2(1.1e3, 0, 0), "beyond 1000 m/s or rad/s; ignored"),
        (Twist2(0, 0, -1e300), "beyond 1000"),
        (Twist2(0.1, 0.1, 0), "cannot move sideways"),
    ],
)
def test_bad_commands_change_nothing(twist, message):
    base = controller()
    driven(base, 0.3, 1.0)
    base.measure(np.array([1.0, 2.0]), 0.01)
    before = state(base)
    with pytest.raises(BadCommand, match=message):
        base.command(twist, 0.1)
    assert state(base) == before
    assert base.step(0.1, 0.01).wheels == pytest.approx([8.125, 11.875])


def test_halt_stops_at_once_and_forgets_the_command():
    base = controller(x=AxisLimits(max_acceleration=0.1))
    base.limiter.before = Twist2(1.0)
    base.command(Twist2(1.0), 0.0)
    np.testing.assert_array_equal(base.halt().wheels, [0.0, 0.0])
    assert base.step(0.0, 0.01)[0] == Twist2()


def test_new_limits_take_over_while_driving():
    base = controller()
    driven(base, 0.4, 0.0)
    base.measure(np.zeros(2), 0.0)
    base.measure(np.ones(2), 0.1)
    limits = BaseLimits(x=AxisLimits(max_velocity=0.2, max_deceleration=1.0))
    base.reconfigure(base.base, BaseControllerConfig(limits=limits))
    assert base.step(0.0, 0.1)[0].vx == pytest.approx(0.3)
    assert base.step(0.0, 0.1)[0].vx == pytest.approx(0.2)
    assert base.odometry.x == pytest.approx(0.03)


def test_odometry_of_measured_wheels():
    base = controller()
    base.measure(np.array([100.0, -50.0]), 0.0)
    assert (base.odometry.x, base.odometry.yaw) == (0.0, 0.0)
    base.measure(np.array([101.0, -49.0]), 0.1)
    assert base.odometry.x == pytest.approx(0.03)
    assert base.odometry.twist == pytest.approx((0.3, 0.0, 0.0))
    base.measure(np.array([nan, -48.0]), 0.1)
    assert base.odometry.x == pytest.approx(0.03)
    base.measure(np.array([103.0, -47.0]), 0.1)  # two radians in the two steps
    assert base.odometry.x == pytest.approx(0.09)
    assert base.odometry.twist == pytest.approx((0.3, 0.0, 0.0))
    base.forget_wheels()
    assert base.odometry.twist == Twist2()
    base.measure(np.array([0.0, 0.0]), 0.1)
    assert base.odometry.x == pytest.approx(0.09)


def test_wrong_number_of_wheels_changes_nothing():
    base = controller()
    base.measure(np.array([1.0, 1.0]), 0.0)
    before = state(base)
    with pytest.raises(BadCommand, match="3 wheel angles given; the base has 2"):
        base.measure(np.zeros(3), 0.1)
    assert state(base) == before
