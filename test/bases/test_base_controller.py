# SPDX-License-Identifier: Apache-2.0
"""A base's control: wheel limits, timeouts, bad commands, projection, odometry."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raised_errors import about

from motion_nodes.core.bases.base import BaseLimits, BodyAxisLimits, Twist2
from motion_nodes.core.bases.controller import (
    BaseController,
    BaseControllerConfig,
    max_wheel_velocity,
)
from motion_nodes.core.bases.differential import DifferentialBase, DifferentialConfig
from motion_nodes.errors import InvalidCommand, InvalidConfig

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
    o, measured = base.odometry, base._motion._wheels
    return (
        *(base.desired, base._desired_at, base.driven.twist, base.driven.wheels.tobytes()),
        *(o.x, o.y, o.yaw, o.twist, None if measured is None else measured.tobytes()),
    )


def test_golden_wheel_limit_scaled_and_clipped():
    assert driven(controller(), 0.3, 1.0) == pytest.approx([8.125, 11.875])
    scaled = driven(controller(max_wheel_velocity=9.0), 0.3, 1.0)
    assert scaled == pytest.approx([6.1579, 9.0], abs=5e-5)
    clipped = driven(controller(max_wheel_velocity=9.0, clip_wheels=True), 0.3, 1.0)
    assert clipped == pytest.approx([8.125, 9.0])
    assert driven(controller(max_wheel_velocity=-9.0), -0.3, 1.0)[0] == pytest.approx(-9.0)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_base_stands_within_its_dead_band_and_ramps_through_it(sign):
    axis = BodyAxisLimits(max_acceleration=1.0, max_deceleration=1.0)
    config = BaseControllerConfig(
        limits=BaseLimits(x=axis), cmd_vel_timeout=60.0, deadband_velocity=(0.2, 0.0, 0.5)
    )
    base = BaseController(DifferentialBase(CONFIG), config)
    base.command(Twist2(sign * 0.4, 0.0, 0.0), 0.0)
    speeds = [sign * base.step(0.01 * k, 0.01).twist.vx for k in range(1, 60)]
    assert speeds[:18] == [0.0] * 18
    moving = [speed for speed in speeds if speed]
    assert moving[0] == pytest.approx(0.2, abs=0.011)
    assert moving[-1] == pytest.approx(0.4)
    assert base.driven.wheels == pytest.approx([sign * 0.4 / 0.03] * 2)
    base.command(Twist2(sign * 0.1, 0.0, sign * 0.4), 0.6)
    for k in range(60, 160):
        base.step(0.01 * k, 0.01)
    assert base.driven.twist == Twist2()
    assert not base.driven.wheels.any()
    base.command(Twist2(sign * 0.1, 0.0, sign * 0.6), 1.6)
    assert base.step(1.6, 0.01).twist == Twist2(0.0, 0.0, sign * 0.6)
    assert base.driven.wheels[0] == pytest.approx(-base.driven.wheels[1])


@pytest.mark.parametrize("bands", [(0.1, 0.1), (0.1, -0.1, 0.0), (nan, 0.0, 0.0)])
def test_wrong_dead_bands_are_refused(bands):
    with pytest.raises(InvalidConfig, match="deadband_velocity"):
        BaseControllerConfig(limits=BaseLimits(), deadband_velocity=bands)


def test_unset_limits_do_not_bind():
    axis = BodyAxisLimits(max_velocity=nan, max_acceleration=nan, max_deceleration=nan)
    base = controller(x=axis, yaw=axis, max_wheel_velocity=nan)
    assert driven(base, 30.0, -50.0) == pytest.approx(
        base.base.wheels_from_twist(Twist2(30.0, 0.0, -50.0))
    )


@pytest.mark.parametrize("limit", ["max_velocity", "max_acceleration", "max_jerk"])
def test_a_limit_of_0_stops_its_axis_and_no_other(limit):
    """As in ros2_controllers; the other axis is not scaled down with it."""
    held, free = BodyAxisLimits(**{limit: 0.0}), BodyAxisLimits(max_velocity=2.0)
    base = controller(x=held, yaw=free)
    assert driven(base, 1.0, 1.0) == pytest.approx(base.base.wheels_from_twist(Twist2(0, 0, 1.0)))
    base = controller(x=free, yaw=held)
    assert driven(base, 1.0, 1.0) == pytest.approx(base.base.wheels_from_twist(Twist2(1.0)))


@pytest.mark.parametrize("limit", ["min_velocity", "max_acceleration_reverse"])
def test_a_limit_of_0_of_one_direction_leaves_the_other(limit):
    axis = BodyAxisLimits(max_velocity=2.0, **{limit: 0.0})
    assert driven(controller(x=axis), -1.0, 0.0) == pytest.approx([0.0, 0.0])
    assert (driven(controller(x=axis), 1.0, 0.0) > 0.0).all()


@pytest.mark.parametrize("limit", ["max_wheel_velocity", "max_wheel_acceleration"])
def test_a_limit_of_0_of_the_wheels_stops_them(limit):
    assert driven(controller(**{limit: 0.0}), 1.0, 1.0) == pytest.approx([0.0, 0.0])


def test_a_base_in_motion_stops_by_a_limit_of_0():
    base = controller(x=BodyAxisLimits(max_velocity=2.0, max_deceleration=1.0))
    assert (driven(base, 1.0, 0.0) > 0.0).all()
    stopped = BodyAxisLimits(max_velocity=0.0, max_deceleration=1.0)
    base.reconfigure(base.base, dataclasses.replace(base.config, limits=BaseLimits(x=stopped)))
    speeds = [base.step(0.001 * k, 0.1).twist.vx for k in range(12)]
    assert speeds == pytest.approx([max(0.9 - 0.1 * k, 0.0) for k in range(12)])


def test_without_a_timeout_a_command_is_valid_until_the_next():
    base = controller(0.0)
    base.command(Twist2(1.0), 0.0)
    assert base.step(1e6, 0.01).twist == Twist2(1.0)
    base.command(Twist2(), 1e6)
    assert base.step(2e6, 0.01).twist == Twist2()


@pytest.mark.parametrize("dt", [0.0, -0.1, nan])
def test_without_time_nothing_changes(dt):
    base = controller(x=BodyAxisLimits(max_acceleration=1.0))
    driven(base, 1.0, 0.0)
    before = base.driven
    base.command(Twist2(-1.0), 0.0)
    twist, wheels, _ = base.step(0.0, dt)
    assert twist == before.twist == base.driven.twist
    assert wheels == pytest.approx(base.base.wheels_from_twist(before.twist))


@fast
@given(speeds, speeds, st.floats(0.5, 50.0), st.booleans())
def test_wheel_limit_holds_and_scaling_keeps_the_curve(vx, wz, limit, clip):
    base = controller(max_wheel_velocity=limit, clip_wheels=clip)
    wheels = driven(base, vx, wz)
    assert np.all(np.abs(wheels) <= limit * (1 + 1e-15))
    twist = base.driven.twist
    np.testing.assert_allclose(base.base.wheels_from_twist(twist), wheels, atol=1e-9)
    if not clip:
        assert twist.vx * wz == pytest.approx(twist.wz * vx, abs=1e-9)
        assert twist.vx * vx >= 0.0
        assert twist.wz * wz >= 0.0


def test_ramps_do_not_wind_up_beyond_the_wheel_limit():
    # 9 rad/s are 0.27 m/s: braking at 1 m/s^2 from there takes 0.27 s, whatever the command was.
    base = controller(x=BodyAxisLimits(max_acceleration=1.0), max_wheel_velocity=9.0)
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


def test_a_longer_timeout_does_not_revive_an_expired_command():
    base = controller(timeout=0.5)
    base.command(Twist2(0.2), 1.0)
    base.step(1.6, 0.01)
    longer = BaseControllerConfig(limits=BaseLimits(), cmd_vel_timeout=60.0)
    base.reconfigure(base.base, longer)
    assert base.step(1.7, 0.01)[0] == Twist2()
    assert base.expired
    base.command(Twist2(0.3), 1.8)
    assert not base.expired
    assert base.step(1.9, 0.01)[0].vx == 0.3


@pytest.mark.parametrize(
    ("twist", "message"),
    [
        (Twist2(nan, 0, 0), "twist"),
        (Twist2(0, 0, inf), "twist"),
        (Twist2(0, -inf, 0), "twist"),
        (Twist2(1.1e3, 0, 0), "twist"),
        (Twist2(0, 0, -1e300), "twist"),
    ],
)
def test_bad_commands_change_nothing(twist, message):
    base = controller()
    driven(base, 0.3, 1.0)
    base.measure(np.array([1.0, 2.0]), 0.01)
    before = state(base)
    with pytest.raises(InvalidCommand, check=about(message)):
        base.command(twist, 0.1)
    assert state(base) == before
    assert base.step(0.1, 0.01).wheels == pytest.approx([8.125, 11.875])


def test_halt_stops_at_once_and_forgets_the_command():
    base = controller(x=BodyAxisLimits(max_acceleration=0.1, max_jerk=0.1))
    base.command(Twist2(1.0), 0.0)
    assert base.step(0.0, 5.0).twist.vx > 0.1
    np.testing.assert_array_equal(base.halt().wheels, [0.0, 0.0])
    assert base.step(0.0, 0.01)[0] == Twist2()


def test_new_limits_take_over_while_driving():
    base = controller()
    driven(base, 0.4, 0.0)
    base.measure(np.zeros(2), 0.0)
    base.measure(np.ones(2), 0.1)
    limits = BaseLimits(x=BodyAxisLimits(max_velocity=0.2, max_deceleration=1.0))
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


@pytest.mark.parametrize("by_angle", [True, False])
def test_wheels_that_jump_beyond_their_limits_move_no_odometry(by_angle):
    config = BaseControllerConfig(
        limits=BaseLimits(max_wheel_velocity=10.0), position_feedback=by_angle
    )
    base = BaseController(DifferentialBase(CONFIG), config)
    angle, dt = 500.0, 0.02

    def drive(steps):
        nonlocal angle
        for _ in range(steps):
            angle += 8.0 * dt
            base.measure(np.full(2, angle if by_angle else 8.0), dt)

    drive(10)
    before, x = base.wheel_jumps, base.odometry.x
    if by_angle:
        angle = 0.0  # counters restart
    else:
        base.measure(np.array([8.0, 1e6]), dt)
    drive(10)
    assert base.wheel_jumps - before == (1 if by_angle else 2)
    # The displacement of the jump, and of the glitch's mean velocities, is lost; nothing else.
    assert base.odometry.x - x == pytest.approx(9 * 8.0 * dt * 0.03)
    assert base.odometry.yaw == 0.0


def test_a_wheel_may_be_twice_as_fast_as_its_limit_but_no_faster():
    base = controller(max_wheel_velocity=10.0)
    base.measure(np.zeros(2), 0.0)
    base.measure(np.full(2, 0.05 + 20.0 * 0.15 - 1e-9), 0.1)
    assert base.wheel_jumps == 0
    base.measure(np.full(2, -0.01), 0.1)
    assert base.wheel_jumps == 1


def test_wheels_without_a_limit_are_bounded_by_the_body():
    x, yaw = BodyAxisLimits(max_velocity=0.3), BodyAxisLimits(max_velocity=1.0)
    base = controller(x=x, yaw=yaw)
    twists = [(0.3, 1.0), (0.3, -1.0), (-0.3, 1.0)]
    corners = [abs(base.base.wheels_from_twist(Twist2(v, 0.0, w))) for v, w in twists]
    assert max_wheel_velocity(base.base, base.config.limits) == pytest.approx(np.max(corners, 0))
    assert np.isinf(max_wheel_velocity(base.base, BaseLimits(x=x))).all()


def test_wrong_number_of_wheels_changes_nothing():
    base = controller()
    base.measure(np.array([1.0, 1.0]), 0.0)
    before = state(base)
    with pytest.raises(InvalidCommand):
        base.measure(np.zeros(3), 0.1)
    assert state(base) == before


def test_what_cannot_be_driven_is_left_out_and_said():
    base = controller()
    base.command(Twist2(0.3, 0.2, 1.0), 0.0)
    assert base.not_driven == "vy 0.2 as 0 m/s"
    assert base.step(0.0, 0.01).wheels == pytest.approx([8.125, 11.875])
    base.command(Twist2(0.3, 0.0, 1.0), 0.1)
    assert base.not_driven == ""
    base.command(Twist2(0.0, 0.2, 0.0), 0.2)
    assert not base.step(0.2, 0.01).wheels.any()
    base.halt()
    assert base.not_driven == ""


def test_the_newest_stamp_wins():
    base = controller()
    base.command(Twist2(0.3), 1.0)
    base.command(Twist2(-0.3), 0.9)
    assert base.step(1.0, 0.01).twist.vx == 0.3
    base.command(Twist2(0.1), 1.0)
    assert base.step(1.0, 0.01).twist.vx == 0.1
    base.halt()  # time may begin anew
    base.command(Twist2(0.2), 0.5)
    assert base.step(0.5, 0.01).twist.vx == 0.2


@pytest.mark.parametrize("clip", [True, False])
def test_wheel_accelerations_clipped_or_scaled(clip):
    base = controller(max_wheel_acceleration=100.0, clip_wheels=clip)
    base.command(Twist2(0.3, 0.0, 1.0), 0.0)
    seen = np.array([base.step(0.0, 0.01).wheels for _ in range(14)])
    rises = np.diff(np.vstack([[0.0, 0.0], seen]), axis=0)
    assert np.all(rises <= 1.0 + 1e-12)
    assert seen[-1] == pytest.approx([8.125, 11.875])
    if clip:
        assert seen[:8] == pytest.approx(np.outer(np.arange(1, 9), [1.0, 1.0]))
        assert seen[9] == pytest.approx([8.125, 10.0])
    else:
        np.testing.assert_allclose(seen[:, 0] * 11.875, seen[:, 1] * 8.125, atol=1e-9)


def test_other_parameters_do_not_disturb_a_ramp():
    """Only new limits reset the acceleration."""
    limits = BaseLimits(x=BodyAxisLimits(max_acceleration=1.0, max_jerk=5.0))
    one, other = (
        BaseController(DifferentialBase(CONFIG), BaseControllerConfig(limits=limits))
        for _ in range(2)
    )
    for i in range(40):
        for base in (one, other):
            base.command(Twist2(1.0), 0.02 * i)
        config = BaseControllerConfig(limits=limits, cmd_vel_timeout=0.5 + 0.01 * i)
        one.reconfigure(DifferentialBase(CONFIG), config)
        assert one.step(0.02 * i, 0.02).twist == other.step(0.02 * i, 0.02).twist
