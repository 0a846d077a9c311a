# SPDX-License-Identifier: Apache-2.0
"""Differential drive and odometry with its options: golden numbers, closed forms, integration."""

import math

import numpy as np
import pytest
from bases.holonomic_samples import kaya, mecanum
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from motion_nodes.core.bases.ackermann import AckermannBase, AckermannConfig, AckermannGeometry
from motion_nodes.core.bases.base import BaseLimits, BodyAxisLimits, Twist2
from motion_nodes.core.bases.controller import BaseController, BaseControllerConfig, SlipWatch
from motion_nodes.core.bases.differential import (
    DifferentialBase,
    DifferentialConfig,
    skidding_separation,
)
from motion_nodes.core.bases.holonomic import HolonomicBase
from motion_nodes.core.bases.odometry import Odometry, OdometryConfig, arc_displacement, wrap_angle
from motion_nodes.errors import InvalidCommand, InvalidConfig

fast = settings(derandomize=True, deadline=None, max_examples=60)
speed = st.floats(-5.0, 5.0)


def jetbot(**changes) -> DifferentialBase:
    values = {
        "left_wheel_names": ("left",),
        "right_wheel_names": ("right",),
        "wheel_radius": 0.03,
        "wheel_separation": 0.1125,
    }
    return DifferentialBase(DifferentialConfig(**(values | changes)))


@pytest.mark.parametrize(
    ("twist", "wheels"),
    [
        ((0.3, 1.0), (8.125, 11.875)),
        ((0.3, 0.0), (10.0, 10.0)),
        ((0.0, 1.0), (-1.875, 1.875)),
        ((-0.3, -1.0), (-8.125, -11.875)),
        ((0.0, 0.0), (0.0, 0.0)),
    ],
)
def test_golden_wheel_speeds(twist, wheels):
    got = jetbot().wheels_from_twist(Twist2(twist[0], 0.0, twist[1]))
    np.testing.assert_allclose(got, wheels, rtol=0, atol=1e-12)


@fast
@given(speed, speed, st.floats(0.01, 1.0), st.floats(0.05, 2.0), st.floats(0.5, 2.0))
def test_twist_survives_the_way_over_the_wheels(vx, wz, radius, separation, multiplier):
    base = jetbot(
        wheel_radius=radius,
        wheel_separation=separation,
        wheel_separation_multiplier=multiplier,
        left_wheel_radius_multiplier=multiplier,
        right_wheel_radius_multiplier=1.0 / multiplier,
        left_wheel_names=("a", "b"),
        right_wheel_names=("c", "d", "e"),
    )
    wheels = base.wheels_from_twist(Twist2(vx, 0.0, wz))
    assert wheels.shape == (5,)
    assert wheels[0] == wheels[1]
    assert wheels[2] == wheels[3] == wheels[4]
    np.testing.assert_allclose(base.twist_from_wheels(wheels), (vx, 0.0, wz), atol=1e-11)


def test_multipliers_act_on_their_own_side():
    base = jetbot(left_wheel_radius_multiplier=2.0, wheel_separation_multiplier=2.0)
    np.testing.assert_allclose(base.wheels_from_twist(Twist2(0.3, 0, 0)), (5.0, 10.0))
    np.testing.assert_allclose(base.wheels_from_twist(Twist2(0, 0, 1.0)), (-1.875, 3.75))


def test_wheels_of_a_side_are_averaged():
    base = jetbot(left_wheel_names=("a", "b"), right_wheel_names=("c",))
    assert base.twist_from_wheels([9.0, 11.0, 10.0]) == pytest.approx((0.3, 0.0, 0.0))


def test_bad_wheel_names():
    with pytest.raises(InvalidConfig):
        jetbot(left_wheel_names=())
    with pytest.raises(InvalidConfig):
        jetbot(left_wheel_names=("right",))


def test_bad_twists_and_wheel_counts():
    with pytest.raises(InvalidCommand):
        jetbot().wheels_from_twist(Twist2(math.nan, 0.0, 0.0))
    with pytest.raises(InvalidCommand):
        jetbot().wheels_from_twist(Twist2(0.1, 0.2, 0.0))
    with pytest.raises(InvalidCommand):
        jetbot().twist_from_wheels([1.0, 2.0, 3.0])


@fast
@given(speed, speed, speed, st.integers(1, 50))
def test_many_small_steps_are_one_big_step(vx, vy, wz, n):
    one, many = Odometry(), Odometry()
    for odometry in (one, many):
        odometry.set_pose(1.0, -2.0, 0.7)
    path = Twist2(vx, vy, wz)
    one.advance(path, 1.0)
    for _ in range(n):
        many.advance(path.scaled(1.0 / n), 1.0 / n)
    assert (many.x, many.y) == pytest.approx((one.x, one.y), abs=1e-11)
    assert wrap_angle(many.yaw - one.yaw) == pytest.approx(0.0, abs=1e-11)
    np.testing.assert_allclose(many.twist, path, atol=1e-12)


@fast
@given(speed, st.floats(0.01, 6.0), st.sampled_from((-1.0, 1.0)))
def test_arc_is_a_circle(vx, angle, sign):
    radius = vx / angle
    expected = (radius * math.sin(angle), sign * radius * (1.0 - math.cos(angle)))
    assert arc_displacement(Twist2(vx, 0.0, sign * angle)) == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("twist", [(0.7, 0.0, 1.3), (0.5, -0.4, 2.9), (0.2, 0.3, -0.001)])
def test_arc_against_numerical_integration(twist):
    vx, vy, wz = twist

    def rate(_, pose):
        c, s = math.cos(pose[2]), math.sin(pose[2])
        return c * vx - s * vy, s * vx + c * vy, wz

    end = solve_ivp(rate, (0.0, 1.0), (0.3, 0.1, -1.0), rtol=1e-11, atol=1e-12).y[:, -1]
    odometry = Odometry()
    odometry.set_pose(0.3, 0.1, -1.0)
    odometry.advance(Twist2(*twist), 1.0)
    assert (odometry.x, odometry.y, odometry.yaw) == pytest.approx(end, abs=1e-9)


def test_no_digits_are_lost_near_zero_turn_rate():
    # The Taylor series to fourth order is exact to rounding for all of these.
    for a in (0.0, 5e-324, *10.0 ** np.arange(-12.0, -2.9, 0.25)):
        for sign in (1.0, -1.0):
            x, y = arc_displacement(Twist2(1.0, 0.0, sign * a))
            assert x == pytest.approx(1 - a**2 / 6 + a**4 / 120, rel=1e-15)
            assert y == pytest.approx(sign * (a / 2 - a**3 / 24 + a**5 / 720), rel=1e-14)


def test_turn_on_the_spot_changes_yaw_alone():
    odometry = Odometry()
    for _ in range(100):
        odometry.advance(jetbot().twist_from_wheels([-1.875 * 0.01, 1.875 * 0.01]), 0.01)
    assert (odometry.x, odometry.y) == (0.0, 0.0)
    assert odometry.yaw == pytest.approx(1.0)
    assert odometry.twist == pytest.approx((0.0, 0.0, 1.0))


def test_yaw_stays_in_its_interval():
    assert wrap_angle(math.pi) == wrap_angle(-math.pi) == math.pi
    assert wrap_angle(3 * math.pi) == pytest.approx(math.pi)
    odometry = Odometry()
    for _ in range(1000):
        odometry.advance(Twist2(0.0, 0.0, 0.37), 0.1)
        assert -math.pi < odometry.yaw <= math.pi
    assert math.cos(odometry.yaw) == pytest.approx(math.cos(370.0))


@pytest.mark.parametrize("pose", [(math.nan, 0, 0), (0, math.inf, 0), (0, 0, -math.inf)])
def test_set_pose_refuses_what_is_not_finite(pose):
    odometry = Odometry()
    odometry.set_pose(1.0, 2.0, 7.0)
    before = (odometry.x, odometry.y, odometry.yaw)
    assert before == (1.0, 2.0, pytest.approx(7.0 - math.tau))
    with pytest.raises(InvalidCommand):
        odometry.set_pose(*pose)
    assert (odometry.x, odometry.y, odometry.yaw) == before


def test_odometry_passes_over_bad_paths_and_times():
    odometry = Odometry()
    odometry.advance(Twist2(1.0, 0.0, 0.0), 0.5)
    odometry.advance(Twist2(math.nan, 0.0, 0.0), 0.5)
    assert (odometry.x, odometry.twist.vx) == (1.0, 2.0)
    odometry.advance(Twist2(1.0, 0.0, 0.0), 0.0)
    assert (odometry.x, odometry.twist.vx) == (2.0, 2.0)


@pytest.mark.parametrize(
    ("x", "y"), [*np.random.default_rng(3).uniform(0.01, 2.0, (60, 2)).round(2), (0.0, 0.3)]
)
def test_the_separation_of_four_skidding_wheels(x, y):
    found = skidding_separation([x, x, -x, -x], [y, -y, y, -y])
    assert found == pytest.approx(2.0 * y * (1.0 + (x / y) ** 2))


def test_wheels_in_the_middle_skid_less():
    """The moments cancel, and the separation is between those of no and of equal skids."""
    x, y = np.array([0.35, 0.0, -0.35] * 2), np.repeat((0.27, -0.27), 3)
    found = skidding_separation(x, y)
    along = 0.5 * found - np.abs(y)
    forces = np.column_stack((along, x)) / np.hypot(along, x)[:, np.newaxis]
    assert (np.abs(y) * forces[:, 0] - x * forces[:, 1]).sum() == pytest.approx(0.0, abs=1e-6)
    assert 0.54 < found < skidding_separation(x[[0, 2, 3, 5]], y[[0, 2, 3, 5]])


nan, inf = math.nan, math.inf
FOUR_WHEELS = DifferentialBase(
    DifferentialConfig(
        left_wheel_names=("fl", "rl"),
        right_wheel_names=("fr", "rr"),
        wheel_radius=0.1,
        wheel_separation=0.5,
    )
)
CAR = AckermannBase(
    AckermannConfig(
        geometry=AckermannGeometry(
            wheelbase=0.3,
            front_track_width=0.2,
            rear_track_width=0.2,
            front_wheel_radius=0.05,
            rear_wheel_radius=0.05,
        ),
        steering_joint_names=("sl", "sr"),
        rear_wheel_names=("rl", "rr"),
    )
)


def controller(base=FOUR_WHEELS, **config) -> BaseController:
    config = {"limits": BaseLimits(), "cmd_vel_timeout": 60.0} | config
    return BaseController(base, BaseControllerConfig(**config))


# ---- velocity


def test_velocity_is_the_mean_over_the_window():
    odometry = Odometry(OdometryConfig(velocity_rolling_window_size=3))
    seen = []
    for path, dt in ((0.1, 0.1), (0.3, 0.1), (0.5, 0.3), (0.0, 0.1), (0.0, 0.1), (0.0, 0.1)):
        odometry.advance(Twist2(path), dt)
        seen.append(odometry.twist.vx)
    assert seen == pytest.approx([1.0, 2.0, 0.9 / 0.5, 0.8 / 0.5, 0.5 / 0.5, 0.0])
    assert odometry.twist == Twist2()
    odometry.advance(Twist2(1.0), 0.1)
    odometry.rest()
    odometry.advance(Twist2(0.2), 0.1)
    assert odometry.twist.vx == pytest.approx(2.0)


# ---- errors


def test_errors_do_not_grow_unless_they_are_given():
    odometry = Odometry()
    odometry.advance(Twist2(1.0, 2.0, 3.0), 1.0)
    assert not odometry.covariance.any()


@pytest.mark.parametrize("steps", [1, 7, 300])
def test_errors_after_a_way_do_not_depend_on_its_steps(steps):
    config = OdometryConfig(
        position_error_per_metre=0.02, position_error_per_radian=0.01, yaw_error_per_radian=0.03
    )
    odometry = Odometry(config)
    for _ in range(steps):
        odometry.advance(Twist2(9.0 / steps), 0.1)
    np.testing.assert_allclose(odometry.covariance, np.diag((0.0036, 0.0036, 0.0)), atol=1e-12)
    for _ in range(steps):
        odometry.advance(Twist2(0.0, 0.0, -4.0 / steps), 0.1)
    np.testing.assert_allclose(odometry.covariance, np.diag((0.004, 0.004, 0.0036)), atol=1e-12)
    odometry.set_pose(0.0, 0.0, 0.0)
    assert not odometry.covariance.any()


def test_covariance_against_many_noisy_drives():
    """Against Monte Carlo sampling, with independent noise in each step of each drive."""
    config = OdometryConfig(
        position_error_per_metre=0.02,
        position_error_per_radian=0.01,
        yaw_error_per_metre=0.04,
        yaw_error_per_radian=0.03,
    )
    rng, drives, steps = np.random.default_rng(5), 20_000, 60
    path = Twist2(0.05, 0.01, 0.04)
    odometry = Odometry(config)
    pose = np.zeros((drives, 3))
    way, turn = math.hypot(path.vx, path.vy), path.wz
    position = math.sqrt(0.02**2 * way + 0.01**2 * turn)
    yaw = math.sqrt(0.04**2 * way + 0.03**2 * turn)
    for _ in range(steps):
        odometry.advance(path, 0.1)
        c, s = np.cos(pose[:, 2] + 0.5 * turn), np.sin(pose[:, 2] + 0.5 * turn)
        pose[:, 0] += c * path.vx - s * path.vy + rng.normal(0.0, position, drives)
        pose[:, 1] += s * path.vx + c * path.vy + rng.normal(0.0, position, drives)
        pose[:, 2] += turn + rng.normal(0.0, yaw, drives)
    sampled = np.cov(pose.T)
    largest = np.sqrt(np.outer(np.diag(sampled), np.diag(sampled)))
    np.testing.assert_allclose(odometry.covariance / largest, sampled / largest, atol=0.05)


@fast
@given(st.lists(st.tuples(*[st.floats(-2.0, 2.0)] * 3), min_size=1, max_size=20))
def test_covariance_stays_one(paths):
    odometry = Odometry(
        OdometryConfig(
            position_error_per_metre=0.1, yaw_error_per_metre=0.2, yaw_error_per_radian=0.1
        )
    )
    least = 0.0
    for path in paths:
        odometry.advance(Twist2(*path), 0.1)
        np.testing.assert_allclose(odometry.covariance, odometry.covariance.T, atol=1e-12)
        assert np.linalg.eigvalsh(odometry.covariance)[0] >= -1e-12
        assert odometry.covariance[2, 2] >= least
        least = odometry.covariance[2, 2]


# ---- open loop


def test_open_loop_adds_up_what_was_commanded_after_the_limits():
    base = controller(
        open_loop=True, limits=BaseLimits(x=BodyAxisLimits(max_velocity=0.5, max_acceleration=1.0))
    )
    base.command(Twist2(2.0), 0.0)
    driven = 0.0
    for i in range(100):
        base.measure(np.full(4, 7.0 * i), 0.02)  # ignored
        twist = base.step(0.02 * i, 0.02).twist
        driven += 0.02 * twist.vx
    base.step(2.0, 0.02)
    assert base.odometry.x == pytest.approx(driven, abs=1e-12)
    # 0.5 s of ramp, the rest of the two seconds at the limit; each command holds for its step.
    assert base.odometry.x == pytest.approx(0.125 + 0.75, abs=0.5 * 0.02)
    assert base.odometry.twist.vx == pytest.approx(0.5)


def test_open_loop_follows_a_curve_and_real_time():
    base = controller(open_loop=True)
    base.command(Twist2(0.5, 0.0, 0.8), 0.0)
    for now in (0.0, 0.02, 0.3, 0.31, 2.0):  # dt is cut after a delay; the time is not
        base.step(now, 0.02)
    assert base.odometry.yaw == pytest.approx(1.6)
    assert (base.odometry.x, base.odometry.y) == pytest.approx(
        (0.625 * math.sin(1.6), 0.625 * (1.0 - math.cos(1.6)))
    )
    base.step(1.0, 0.02)  # time went back
    assert base.odometry.yaw == pytest.approx(1.6)
    base.forget_wheels()
    base.step(7.0, 0.02)
    assert base.odometry.yaw == pytest.approx(1.6)


# ---- wheel speeds


def test_odometry_of_measured_speeds():
    base = controller(position_feedback=False)
    base.measure(np.zeros(4), 0.0)
    for speed in (1.0, 2.0, 3.0):
        base.measure(np.full(4, speed), 0.1)
    assert base.odometry.x == pytest.approx(0.1 * (0.05 + 0.15 + 0.25))
    base.measure(np.full(4, nan), 0.1)
    base.measure(np.full(4, 3.0), 0.1)
    assert base.odometry.x == pytest.approx(0.1 * (0.05 + 0.15 + 0.25 + 0.6))
    assert base.odometry.twist.vx == pytest.approx(0.3)


@pytest.mark.parametrize("by_angle", [True, False])
def test_a_car_that_steers_while_it_drives(by_angle):
    """Between two measurements the mean steering is used: second-order errors."""
    errors = []
    for steps in (50, 100):
        base = controller(CAR, position_feedback=by_angle)
        dt, wheels, x, y, yaw = 1.0 / steps, np.zeros(2), 0.0, 0.0, 0.0
        fine = 200
        for k in range(steps * fine + 1):
            t = k * dt / fine
            twist = Twist2(0.5, 0.0, 0.5 * 2.0 * t)
            speeds = CAR.wheels_from_twist(twist)
            if k % fine == 0:
                steering = CAR.steer(twist, np.zeros(2), 1e9)
                base.measure(wheels if by_angle else speeds, dt if k else 0.0, steering)
            if k == steps * fine:
                break
            middle = t + 0.5 * dt / fine
            twist = Twist2(0.5, 0.0, middle)
            wheels = wheels + CAR.wheels_from_twist(twist) * dt / fine
            x += 0.5 * math.cos(0.5 * middle**2) * dt / fine
            y += 0.5 * math.sin(0.5 * middle**2) * dt / fine
            yaw += middle * dt / fine
        o = base.odometry
        errors.append(np.linalg.norm((o.x - x, o.y - y, o.yaw - yaw)))
    assert errors[0] < 1e-3
    assert errors[1] < errors[0] / 3.5


# ---- slip


def test_wheels_that_agree_do_not_slip():
    rng = np.random.default_rng(0)
    for base in (FOUR_WHEELS, HolonomicBase(mecanum()), HolonomicBase(kaya()), CAR):
        watch = SlipWatch(base)
        for _ in range(20):
            twist = base.nearest_twist(Twist2(*rng.uniform(-1.0, 1.0, 3).tolist()))
            steering = base.steer(twist, np.zeros(len(base.steering_names)), 1e9)
            watch.update(base.wheels_from_twist(twist) * 0.02, steering, 0.02)
        assert watch.worst < 1e-12


def test_a_spinning_wheel_is_named_with_its_speed():
    watch = SlipWatch(FOUR_WHEELS)
    rolled = FOUR_WHEELS.wheels_from_twist(Twist2(0.4, 0.0, 0.3)) * 0.1
    watch.update(rolled + np.array([0.0, 0.6, 0.0, 0.0]), np.zeros(0), 0.1)
    # 6 rad/s too fast at radius 0.1 m, half of it attributed to the other wheel of the side.
    assert (watch.wheel, watch.speed) in (("fl", pytest.approx(0.3)), ("rl", pytest.approx(0.3)))
    watch.update(rolled, np.zeros(0), 0.1)
    assert watch.speed == pytest.approx(0.0, abs=1e-12)
    assert watch.take_worst() == pytest.approx(0.3)
    assert watch.take_worst() == 0.0


def test_a_blocked_mecanum_wheel_shows():
    base = HolonomicBase(mecanum())
    watch = SlipWatch(base)
    rolled = base.wheels_from_twist(Twist2(0.5)) * 0.02
    rolled[2] = 0.0
    watch.update(rolled, np.zeros(0), 0.02)
    # Three wheels suffice; the fourth's 0.5 m/s are distributed over all of them.
    assert watch.speed == pytest.approx(0.125)


def test_without_a_wheel_too_many_slip_is_not_seen():
    two = DifferentialBase(
        DifferentialConfig(
            left_wheel_names=("l",),
            right_wheel_names=("r",),
            wheel_radius=0.1,
            wheel_separation=0.5,
        )
    )
    watch = SlipWatch(two)
    watch.update(np.array([1.0, -7.0]), np.zeros(0), 0.1)
    assert watch.worst == pytest.approx(0.0, abs=1e-12)
