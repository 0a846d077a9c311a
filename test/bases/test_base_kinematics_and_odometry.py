# SPDX-License-Identifier: Apache-2.0
"""Differential drive and planar odometry against golden numbers, closed forms and integration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raised_errors import about
from scipy.integrate import solve_ivp

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.bases.differential import (
    DifferentialBase,
    DifferentialConfig,
    skidding_separation,
)
from motion_nodes.core.bases.odometry import Odometry, arc_displacement, wrap_angle
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


@pytest.mark.parametrize("value", [0.0, -0.03, math.nan, math.inf])
@pytest.mark.parametrize(
    "name", ["wheel_radius", "wheel_separation", "left_wheel_radius_multiplier"]
)
def test_bad_geometry_is_named(name, value):
    with pytest.raises(InvalidConfig, check=about(name)):
        jetbot(**{name: value})


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


@pytest.mark.parametrize(("x", "y"), [(0.2, 0.18), (0.12, 0.2), (0.0, 0.3)])
def test_the_separation_of_four_skidding_wheels(x: float, y: float) -> None:
    found = skidding_separation([x, x, -x, -x], [y, -y, y, -y])
    assert found == pytest.approx(2.0 * y * (1.0 + (x / y) ** 2))


def test_wheels_in_the_middle_skid_less() -> None:
    """The moments cancel, and the separation is between those of no and of equal skids."""
    x, y = np.array([0.35, 0.0, -0.35] * 2), np.repeat((0.27, -0.27), 3)
    found = skidding_separation(x, y)
    along = 0.5 * found - np.abs(y)
    forces = np.column_stack((along, x)) / np.hypot(along, x)[:, np.newaxis]
    assert (np.abs(y) * forces[:, 0] - x * forces[:, 1]).sum() == pytest.approx(0.0, abs=1e-6)
    assert 0.54 < found < skidding_separation(x[[0, 2, 3, 5]], y[[0, 2, 3, 5]])
