# SPDX-License-Identifier: Apache-2.0
"""A car under its controller: limits, steering in motion, standstill, reversing, commands."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import strategies as st

from motion_nodes.core.bases.ackermann import (
    FREE_ERROR,
    AckermannBase,
    AckermannConfig,
    AckermannGeometry,
)
from motion_nodes.core.bases.ackermann_drive import CarCommand, DriveCommand
from motion_nodes.core.bases.base import BaseCommand, BaseLimits, BodyAxisLimits, Twist2
from motion_nodes.core.bases.controller import BaseController, BaseControllerConfig
from motion_nodes.errors import InvalidCommand

nan, inf = math.nan, math.inf
DT = 0.01
LIMITS = BaseLimits(
    x=BodyAxisLimits(max_velocity=2.0, max_acceleration=3.0, max_deceleration=6.0),
    yaw=BodyAxisLimits(max_velocity=2.5, max_acceleration=10.0),
    max_wheel_velocity=35.0,
    max_wheel_acceleration=150.0,
)


def car(steered: str = "front", **changes) -> AckermannBase:
    geometry = AckermannGeometry(
        wheelbase=0.32, front_track_width=0.24, rear_track_width=0.26,
        front_wheel_radius=0.05, rear_wheel_radius=0.06, steered_axle=steered,
    )  # fmt: skip
    config = {"max_wheel_angle": 0.6, "max_steering_velocity": 3.0, "fixed_axle_x": -0.1} | changes
    return AckermannBase(
        AckermannConfig(
            geometry=geometry,
            steering_joint_names=("sl", "sr"),
            front_wheel_names=("fl", "fr"),
            rear_wheel_names=("rl", "rr"),
            **config,
        )
    )


def controlled(base: AckermannBase, limits: BaseLimits = LIMITS) -> BaseController:
    return BaseController(base, BaseControllerConfig(limits=limits))


def run(controller: BaseController, twist: Twist2, steps: int) -> list[BaseCommand]:
    """Command a twist for ``steps`` steps; return the commands to the wheels."""
    commands = []
    for _ in range(steps):
        controller.command(twist, 0.0)
        commands.append(controller.step(0.0, DT))
    return commands


speeds = st.floats(-4.0, 4.0)


@pytest.mark.parametrize("steered", ["front", "rear"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_steady_command_is_reached(steered, sign):
    base = car(steered)
    twist = Twist2(sign * 1.0, 0.0, 0.8)
    last = run(controlled(base), twist, 200)[-1]
    assert last.twist == pytest.approx((sign, 0.08, 0.8))
    np.testing.assert_allclose(last.wheels, base.wheels_from_twist(last.twist), atol=1e-9)
    # tan(steering) = yaw rate * wheelbase / speed
    assert base.steering_angle(last.steering) == pytest.approx(sign * math.atan(0.8 * 0.32))


@pytest.mark.parametrize("steering_velocity", [nan, 50.0, 3.0])
@pytest.mark.parametrize("dt", [0.002, 0.01, 0.05])
@pytest.mark.parametrize("yaw_acceleration", [10.0, 0.8])
def test_a_curve_to_the_other_side_is_taken_while_driving(steering_velocity, dt, yaw_acceleration):
    """Also by steering that moves at once: its motion has to fit the limit of the yaw rate."""
    yaw = BodyAxisLimits(max_velocity=2.5, max_acceleration=yaw_acceleration)
    base = car(max_steering_velocity=steering_velocity)
    controller = controlled(base, dataclasses.replace(LIMITS, yaw=yaw))
    for turn in (0.8, -0.8, 0.0, 1.6):
        rates = []
        for _ in range(round((4.0 + 3.2 / yaw_acceleration) / dt)):
            controller.command(Twist2(1.0, 0.0, turn), 0.0)
            rates.append(controller.step(0.0, dt).twist.wz)
        assert controller.driven.twist == pytest.approx((1.0, 0.1 * turn, turn), abs=1e-6)
        assert np.abs(np.diff(rates)).max() <= yaw_acceleration * dt + 1e-9


def test_reversing_brakes_on_the_curve_and_never_swings_to_full_lock():
    base = car()
    controller = controlled(base)
    run(controller, Twist2(1.0, 0.0, 0.5), 200)
    straight = math.atan(0.5 * 0.32)
    back = run(controller, Twist2(-1.0, 0.0, -0.5), 200)
    angles = [base.steering_angle(c.steering) for c in back]
    np.testing.assert_allclose(angles, straight, atol=1e-9)  # the same curve, the other way
    assert back[-1].twist == pytest.approx((-1.0, -0.05, -0.5))
    mirrored = run(controller, Twist2(1.0, 0.0, -0.5), 300)
    angles = [base.steering_angle(c.steering) for c in mirrored]
    assert np.all(np.diff(angles) <= 1e-12)
    assert min(angles) == pytest.approx(-straight)


def test_stopping_keeps_the_steering_and_a_turn_on_the_spot_is_not_driven():
    base = car()
    controller = controlled(base)
    run(controller, Twist2(1.0, 0.0, 0.8), 200)
    before = controller.driven.steering
    stopped = run(controller, Twist2(), 100)
    for command in stopped:
        np.testing.assert_array_equal(command.steering, before)
    assert stopped[-1].twist == Twist2()
    turned = run(controller, Twist2(0.0, 0.0, 1.0), 50)[-1]
    assert controller.not_driven == "wz 1 as 0 rad/s"
    assert turned.twist == Twist2()
    np.testing.assert_array_equal(turned.steering, before)
    np.testing.assert_array_equal(controller.halt().steering, before)


def test_a_turn_that_is_too_tight_keeps_the_speed_and_is_told():
    base = car()
    controller = controlled(base)
    last = run(controller, Twist2(0.5, 0.0, 2.4), 300)[-1]
    assert last.twist.vx == pytest.approx(0.5)
    assert last.twist.wz == pytest.approx(0.5 * base.max_curvature)
    assert last.steering[0] == pytest.approx(0.6)
    assert controller.not_driven.startswith("wz 2.4 as 0.85")


def test_odometry_of_measured_wheels_and_steering_is_a_circle():
    base = car()
    controller = controlled(base)
    twist, steering = base.twist_at(0.5, 0.3), np.array(base.geometry.wheel_angles(
        base.geometry.curvature(0.3)))  # fmt: skip
    wheels = base.wheels_from_twist(twist)
    round_time = math.tau / twist.wz
    n = 400
    for i in range(n // 2 + 1):
        controller.measure(wheels * (i * round_time / n), round_time / n, steering)
    # Half a turn about the centre, which is R to the left of the axle 0.1 m behind the base.
    radius = 0.32 / math.tan(0.3)
    odometry = controller.odometry
    assert (odometry.x, odometry.y) == pytest.approx((-0.2, 2 * radius), abs=1e-9)
    assert abs(odometry.yaw) == pytest.approx(math.pi)
    assert odometry.twist == pytest.approx(twist)


def test_the_first_command_begins_at_the_measured_steering():
    base = car()
    controller = controlled(base)
    measured = np.array(base.geometry.wheel_angles(base.geometry.curvature(-0.4)))
    controller.measure(np.zeros(4), 0.0, measured)
    np.testing.assert_array_equal(controller.step(0.0, DT).steering, measured)
    controller.command(Twist2(1.0), 0.0)
    moved = controller.step(0.0, DT)
    assert base.steering_angle(moved.steering) == pytest.approx(-0.4 + 3.0 * DT)


# --- commands ---


def lead(car_command: CarCommand, controller: BaseController, steps: int) -> list[BaseCommand]:
    """Execute a command for ``steps`` steps; measured steering is the commanded one."""
    commands = []
    for _ in range(steps):
        twist = car_command.twist(DT, controller.driven.steering)
        if twist is not None:
            controller.command(twist, 0.0)
        commands.append(controller.step(0.0, DT))
    return commands


def asked(**changes) -> tuple[CarCommand, BaseController]:
    base = car()
    controller = controlled(base)
    return CarCommand(base, LIMITS, **changes), controller


def test_without_a_command_there_is_no_twist():
    command, _ = asked()
    assert command.twist(DT, np.zeros(2)) is None
    command.take_twist(Twist2(1.0))
    assert command.twist(DT, np.zeros(2)) == Twist2(1.0)
    command.forget()
    assert command.twist(DT, np.zeros(2)) is None


def test_a_steering_angle_is_taken_on_while_the_car_stands():
    command, controller = asked()
    command.take_drive(DriveCommand(steering_angle=0.3), controller.driven)
    standing = lead(command, controller, 50)
    assert all(c.twist == Twist2() for c in standing)
    assert command.base.steering_angle(standing[-1].steering) == pytest.approx(0.3)
    command.take_twist(Twist2())  # by yaw rate, zero speed leaves the steering
    np.testing.assert_array_equal(lead(command, controller, 5)[-1].steering, standing[-1].steering)


def test_a_steering_angle_means_the_same_curve_forward_and_backward():
    for speed in (1.0, -1.0):
        command, controller = asked()
        command.take_drive(DriveCommand(steering_angle=0.3, speed=speed), controller.driven)
        last = lead(command, controller, 200)[-1]
        assert command.base.steering_angle(last.steering) == pytest.approx(0.3)
        assert last.twist.vx == pytest.approx(speed)
        assert last.twist.wz == pytest.approx(speed * math.tan(0.3) / 0.32)


def test_ramps_of_a_drive_command():
    command, controller = asked()
    command.take_drive(
        DriveCommand(0.2, steering_angle_velocity=0.5, speed=0.4, acceleration=1.0),
        controller.driven,
    )
    driven = lead(command, controller, 60)
    speeds = np.array([c.twist.vx for c in driven])
    angles = np.array([command.base.steering_angle(c.steering) for c in driven])
    np.testing.assert_allclose(np.diff(speeds)[:38], 1.0 * DT, atol=1e-9)
    np.testing.assert_allclose(np.diff(angles)[:38], 0.5 * DT, atol=1e-9)
    assert speeds[-1] == pytest.approx(0.4)
    assert angles[-1] == pytest.approx(0.2)
    # The next ramp begins at the current state, not at the start of the last one.
    command.take_drive(DriveCommand(0.2, speed=0.0, acceleration=0.5), controller.driven)
    braked = lead(command, controller, 1)[-1]
    assert braked.twist.vx == pytest.approx(0.4 - 0.5 * DT)


@pytest.mark.parametrize(
    ("changes", "angle", "top"),
    [
        ({}, 0.0, 35.0 * 0.05),  # the front wheels, which are smaller
        ({"max_wheel_velocity": math.nan}, 0.0, 2.0),
        ({"max_wheel_velocity": math.nan}, 0.45, 2.5 * 0.32 / math.tan(0.45)),  # the yaw rate
    ],
)
def test_ramps_do_not_run_on_beyond_the_limits(changes, angle, top):
    limits = dataclasses.replace(LIMITS, **changes)
    controller = controlled(car(), limits)
    command = CarCommand(controller.base, limits)
    command.take_drive(DriveCommand(angle, speed=50.0, acceleration=3.0), controller.driven)
    assert lead(command, controller, 300)[-1].twist.vx == pytest.approx(top)
    command.take_drive(DriveCommand(angle, speed=0.0, acceleration=1.0), controller.driven)
    assert lead(command, controller, 1)[-1].twist.vx == pytest.approx(top - 1.0 * DT)


def accelerated(rise, measured, steps, speed=0.0):
    """Return the velocities of a car that accelerates, given a function that measures them."""
    controller = controlled(car())
    command = CarCommand(controller.base, LIMITS, accelerates=True)
    command.take_drive(DriveCommand(speed=9.0, acceleration=rise), controller.driven, speed)
    found = [speed]
    for _ in range(steps):
        steering = controller.driven.steering
        found.append(command.twist(DT, steering, measured(found)).vx)
    return np.array(found)


@pytest.mark.parametrize(("rise", "speed"), [(0.8, 0.0), (-0.8, 1.0), (0.0, 0.6)])
def test_an_acceleration_leads_from_the_measured_velocity(rise, speed):
    # Wheels that lag by 0.1 s do not change the acceleration.
    lag = round(0.1 / DT)
    speeds = accelerated(rise, lambda found: found[max(len(found) - 1 - lag, 0)], 60, speed)
    np.testing.assert_allclose(speeds, speed + rise * DT * np.arange(61), atol=1e-9)


def test_an_acceleration_of_a_car_that_is_held_does_not_wind_up():
    assert accelerated(0.8, lambda found: 0.0, 300)[-1] == pytest.approx(0.4)
    assert accelerated(2.0, lambda found: found[-1], 300)[-1] == pytest.approx(
        min(2.0, 35.0 * 0.05)
    )


def test_a_steering_angle_beyond_the_limit_is_told():
    command, controller = asked()
    command.take_drive(DriveCommand(steering_angle=1.2, speed=0.5), controller.driven)
    last = lead(command, controller, 100)[-1]
    assert abs(last.steering).max() == pytest.approx(0.6)
    assert last.twist.vx == pytest.approx(0.5)
    assert "steering angle 1.2 rad is beyond" in command.note
    command.take_twist(Twist2(0.5))
    assert command.note == ""


@pytest.mark.parametrize("by_angle", [True, False])
def test_the_car_waits_for_its_steering(by_angle):
    command, controller = asked(slow_until_steered=True)
    goal = 0.4
    if by_angle:
        command.take_drive(DriveCommand(steering_angle=goal, speed=1.0), controller.driven)
    else:
        command.take_twist(Twist2(1.0, 0.0, math.tan(goal) / 0.32))
    stuck = np.array(command.base.geometry.wheel_angles(-command.base.max_curvature))
    for _ in range(100):
        controller.command(command.twist(DT, stuck), 0.0)
        controller.step(0.0, DT)
    assert controller.driven.twist == Twist2()
    # The steering reaches its goal at standstill.
    assert command.base.steering_angle(controller.driven.steering) == pytest.approx(goal)
    moving = lead(command, controller, 100)[-1]
    assert moving.twist.vx == pytest.approx(1.0)


def test_slowing_down_is_gradual_and_small_errors_cost_nothing():
    base, twist = car(), Twist2(1.0, 0.1, 0.0)

    def slowed(error: float) -> float:
        angles = np.array(base.geometry.wheel_angles(base.geometry.curvature(error)))
        return base.slowed(twist, angles).vx

    assert slowed(0.0) == slowed(FREE_ERROR) == slowed(-FREE_ERROR) == pytest.approx(1.0)
    shares = [slowed(error) for error in np.linspace(FREE_ERROR, 0.5, 20)]
    assert np.all(np.diff(shares) < 0.0)
    assert shares[-1] == pytest.approx(0.0, abs=1e-12)
    assert base.slowed(Twist2(), np.ones(2)) == Twist2()


def test_new_geometry_takes_over_while_driving():
    command, controller = asked()
    command.take_drive(DriveCommand(0.3, speed=1.0, acceleration=1.0), controller.driven)
    lead(command, controller, 50)
    narrow = car(max_steering_angle=0.1)
    controller.reconfigure(narrow, controller.config)
    command.reconfigure(narrow, LIMITS, slow_until_steered=False)
    following = lead(command, controller, 60)
    assert following[0].twist.vx == pytest.approx(0.51)
    assert narrow.steering_angle(following[-1].steering) == pytest.approx(0.1)
    assert following[-1].twist.vx == pytest.approx(1.0)


@pytest.mark.parametrize("value", [nan, inf, -inf, 1.1e3])
def test_bad_commands_leave_the_last_one(value):
    command, controller = asked()
    command.take_drive(DriveCommand(0.1, speed=0.5), controller.driven)
    before = command.twist(DT, np.zeros(2))
    for place in range(4):
        numbers = [0.1, 0.0, 0.5, 0.0]
        numbers[place] = value
        with pytest.raises(InvalidCommand):
            command.take_drive(DriveCommand(*numbers), controller.driven)
    for place in range(3):
        twist = [0.0, 0.0, 0.0]
        twist[place] = value
        with pytest.raises(InvalidCommand):
            command.take_twist(Twist2(*twist))
    assert command.twist(DT, np.zeros(2)) == before


def test_axes_that_are_clipped_separately_leave_a_motion_of_a_car():
    """The lateral velocity of a base frame off the axle belongs to the yaw rate."""
    limits = dataclasses.replace(LIMITS, clip_axes=True, yaw=BodyAxisLimits(max_velocity=0.3))
    controller = controlled(car(), limits)
    twist = run(controller, Twist2(1.0, 0.0, 1.0), 300)[-1].twist
    assert twist == pytest.approx((1.0, 0.03, 0.3))


def test_a_new_place_of_the_axle_takes_over_while_turning():
    controller = controlled(car())
    run(controller, Twist2(1.0, 0.0, 1.0), 300)
    controller.reconfigure(car(fixed_axle_x=0.2), controller.config)
    assert controller.step(0.0, DT).twist == pytest.approx((1.0, -0.2, 1.0))
    assert run(controller, Twist2(1.0, 0.0, 1.0), 100)[-1].twist.vy == pytest.approx(-0.2)
