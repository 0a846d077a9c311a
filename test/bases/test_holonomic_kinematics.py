# SPDX-License-Identifier: Apache-2.0
"""Holonomic kinematics: golden numbers, inverses, rolling without slip, singular layouts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from bases.holonomic_samples import KAYA_POSITIONS, kaya, mecanum, random_config
from hypothesis import given, settings
from hypothesis import strategies as st
from raised_errors import about

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.bases.holonomic import (
    HolonomicBase,
    HolonomicConfig,
    HolonomicWheel,
    axis_yaw_of,
    moved,
)
from motion_nodes.errors import InvalidCommand, InvalidConfig

fast = settings(derandomize=True, deadline=None, max_examples=60)
speed = st.floats(-5.0, 5.0)
UP = np.array((0.0, 0.0, 1.0))


def omni(name: str, x: float, y: float, yaw_deg: float, **changes: float) -> HolonomicWheel:
    """Return an omni wheel whose axis points along ``yaw_deg``."""
    values = {"radius": 0.1, "x": x, "y": y, "axis_yaw": math.radians(yaw_deg)}
    return HolonomicWheel(name=name, **(values | changes))


def base_of(*wheels: HolonomicWheel) -> HolonomicBase:
    return HolonomicBase(HolonomicConfig(wheels=wheels))


@pytest.mark.parametrize(
    ("twist", "wheels"),
    [
        ((1.0, 1.0, 0.1), (-24.754892, 34.395089, -8.904059)),
        ((1.0, 0.0, 0.0), (0.0, 21.650953, -21.650953)),
        ((0.0, 1.0, 0.0), (-25.0, 12.499450, 12.499450)),
        ((0.0, 0.0, 1.0), (2.451080, 2.446863, 2.474437)),
        ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
    ],
)
def test_golden_wheel_speeds_of_the_kaya(twist, wheels):
    left, right = HolonomicBase(kaya()), HolonomicBase(kaya(left_handed=False))
    np.testing.assert_allclose(left.wheels_from_twist(Twist2(*twist)), wheels, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(
        right.wheels_from_twist(Twist2(*twist)), -left.wheels_from_twist(Twist2(*twist))
    )


@pytest.mark.parametrize(
    ("twist", "wheels"),
    [
        ((0.5, 0.2, 0.3), (1.95, 8.05, 5.95, 4.05)),
        ((1.0, 0.0, 0.0), (10.0, 10.0, 10.0, 10.0)),
        ((0.0, 1.0, 0.0), (-10.0, 10.0, 10.0, -10.0)),
        ((0.0, 0.0, 1.0), (-3.5, 3.5, -3.5, 3.5)),
    ],
)
def test_golden_wheel_speeds_of_a_mecanum_base(twist, wheels):
    got = HolonomicBase(mecanum()).wheels_from_twist(Twist2(*twist))
    np.testing.assert_allclose(got, wheels, rtol=0, atol=1e-12)


@pytest.mark.long
def test_forward_after_inverse_on_two_thousand_random_bases():
    rng = np.random.default_rng(20)
    driven_everywhere = 0
    for _ in range(2_000):
        base = HolonomicBase(random_config(rng))
        twist = base.nearest_twist(Twist2(*rng.uniform(-3.0, 3.0, 3)))
        driven_everywhere += not base.impossible
        again = base.twist_from_wheels(base.wheels_from_twist(twist))
        np.testing.assert_allclose(again, twist, rtol=0, atol=1e-9)
    assert driven_everywhere > 1_980


def test_the_rim_moves_with_the_floor_along_each_roller():
    """The no-slip condition itself, by cross products in 3D."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        config = random_config(rng)
        vx, vy, wz = rng.uniform(-3.0, 3.0, 3)
        speeds = HolonomicBase(config).wheels_from_twist(Twist2(vx, vy, wz))
        hand = -1.0 if config.left_handed else 1.0
        for wheel, omega in zip(config.wheels, speeds, strict=True):
            axis = np.array((math.cos(wheel.axis_yaw), math.sin(wheel.axis_yaw), 0.0))
            angle = math.radians(wheel.roller_angle_deg)
            roller = math.cos(angle) * axis + math.sin(angle) * np.cross(UP, axis)
            hub = np.array((vx, vy, 0.0)) + np.cross(wz * UP, (wheel.x, wheel.y, 0.0))
            rim = hub + np.cross(hand * omega * axis, -wheel.radius * UP)
            assert rim @ roller == pytest.approx(0.0, abs=1e-11)


@fast
@given(speed, speed, speed, st.floats(-2.0, 2.0), st.floats(-2.0, 2.0), st.floats(-4.0, 4.0))
def test_the_same_base_seen_from_another_frame(vx, vy, wz, x, y, theta):
    config = mecanum()
    shifted = HolonomicBase(HolonomicConfig(wheels=moved(config.wheels, x, y, theta)))
    # The same motion: velocity of the other frame's origin, in that frame.
    at_x, at_y = vx - wz * y, vy + wz * x
    c, s = math.cos(theta), math.sin(theta)
    there = Twist2(c * at_x + s * at_y, c * at_y - s * at_x, wz)
    np.testing.assert_allclose(
        shifted.wheels_from_twist(there),
        HolonomicBase(config).wheels_from_twist(Twist2(vx, vy, wz)),
        rtol=0,
        atol=1e-9,
    )


def test_slip_of_redundant_wheels_is_what_no_twist_explains():
    base = HolonomicBase(mecanum())
    rolling = base.wheels_from_twist(Twist2(0.4, -0.3, 0.8))
    # The only pattern of four mecanum wheels without a motion.
    fight = np.array((1.0, 1.0, -1.0, -1.0))
    measured = rolling + 0.7 * fight
    np.testing.assert_allclose(base.twist_from_wheels(measured), (0.4, -0.3, 0.8), atol=1e-12)
    slip = measured - base.wheels_from_twist(base.twist_from_wheels(measured))
    np.testing.assert_allclose(slip, 0.7 * fight, atol=1e-12)


def test_forward_is_least_squares():
    rng = np.random.default_rng(7)
    for _ in range(50):
        base = HolonomicBase(random_config(rng))
        if base.impossible:
            continue
        rows = np.column_stack([base.wheels_from_twist(Twist2(*unit)) for unit in np.eye(3)])
        wheels = rng.uniform(-20.0, 20.0, len(rows))
        best = np.linalg.lstsq(rows, wheels, rcond=None)[0]
        np.testing.assert_allclose(base.twist_from_wheels(wheels), best, atol=1e-8)


def test_a_base_on_parallel_omni_wheels_cannot_move_sideways():
    corners = ((0.3, 0.2), (0.3, -0.2), (-0.3, 0.2), (-0.3, -0.2))
    # An angle as a URDF gives it: rounded, so the axes are not quite parallel.
    yaws = (90.0, 90.0002, 90.0, 89.9998)
    base = base_of(*(omni(str(i), *corners[i], yaws[i]) for i in range(4)))
    assert base.impossible == ("drive sideways",)
    assert base.nearest_twist(Twist2(0.5, 0.7, 0.3)) == pytest.approx((0.5, 0.0, 0.3), abs=1e-5)
    fine = base_of(*(omni(str(i), *corners[i], 90.0) for i in range(4)))
    assert fine.nearest_twist(Twist2(0.5, 0.7, 0.3)) == (0.5, 0.0, 0.3)
    drivable = Twist2(0.1, 0.0, -0.2)
    assert fine.nearest_twist(drivable) is drivable
    assert fine.twist_from_wheels(fine.wheels_from_twist(drivable)) == pytest.approx(drivable)


@pytest.mark.parametrize(
    ("wheels", "words"),
    [
        ((omni("a", 0.3, 0.1, 0.0), omni("b", -0.3, 0.1, 0.0)), ("drive forward",)),
        ((omni("a", 0.3, 0.3, 45.0), omni("b", 0.0, 0.0, 45.0)), ("drive along 45 degrees",)),
        (
            # The axes of all wheels that stand on a circle and push outward pass its centre.
            tuple(
                omni(n, 1.0 + math.cos(a), 2.0 + math.sin(a), math.degrees(a) - 90.0)
                for n, a in (("a", 0.1), ("b", 2.0), ("c", 4.0))
            ),
            ("turn about the point (1, 2) m",),
        ),
        ((omni("a", 0.5, 0.2, 90.0),), ("drive sideways", "turn about the point (0.5, 0.2) m")),
    ],
)
def test_what_a_layout_cannot_drive_is_said_in_words(wheels, words):
    base = base_of(*wheels)
    assert base.impossible == words
    rng = np.random.default_rng(1)
    for _ in range(20):
        wanted = Twist2(*rng.uniform(-2.0, 2.0, 3))
        near = base.nearest_twist(wanted)
        assert base.nearest_twist(near) == pytest.approx(near, abs=1e-12)
        # The omitted part does not change the wheel speeds.
        np.testing.assert_allclose(
            base.wheels_from_twist(near), base.wheels_from_twist(wanted), atol=1e-9
        )
        again = base.twist_from_wheels(base.wheels_from_twist(near))
        np.testing.assert_allclose(again, near, atol=1e-9)


def test_wheels_on_one_spot_are_refused():
    with pytest.raises(InvalidConfig):
        base_of(omni("a", 0.1, 0.0, 0.0), omni("b", 0.1, 0.0, 90.0))
    with pytest.raises(InvalidConfig):
        base_of(omni("a", 0.1, 0.0, 0.0), omni("a", 0.2, 0.0, 90.0))
    with pytest.raises(InvalidConfig):
        HolonomicConfig(wheels=())


@pytest.mark.parametrize("angle", [0.0, 180.0, -180.0, 0.01])
def test_rollers_along_the_axis_are_refused(angle):
    with pytest.raises(InvalidConfig):
        omni("a", 0.0, 0.0, 0.0, roller_angle_deg=angle)


@pytest.mark.parametrize("radius", [0.0, -0.04])
def test_a_radius_must_be_positive(radius):
    with pytest.raises(InvalidConfig):
        omni("a", 0.0, 0.0, 0.0, radius=radius)


@pytest.mark.parametrize("field", ["radius", "x", "y", "axis_yaw", "roller_angle_deg"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_must_be_finite(field, value):
    with pytest.raises(InvalidConfig, check=about(field)):
        omni("a", **({"x": 0.0, "y": 0.0, "yaw_deg": 0.0} | {field: value}))


def test_an_upright_axis_is_no_wheel():
    assert axis_yaw_of(np.array((0.0, 2.0, 0.1)), "a") == pytest.approx(0.5 * math.pi)
    for axis in ((0.0, 0.0, 1.0), (0.1, 0.1, -1.0), (0.0, 0.0, 0.0), (math.nan, 0.0, 1.0)):
        with pytest.raises(InvalidConfig):
            axis_yaw_of(np.array(axis), "a")


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_bad_twists_and_wheel_counts(bad):
    base = HolonomicBase(kaya())
    for call in (base.wheels_from_twist, base.nearest_twist):
        with pytest.raises(InvalidCommand):
            call(Twist2(0.1, bad, 0.0))
    with pytest.raises(InvalidCommand):
        base.twist_from_wheels([1.0, 2.0])


def test_what_others_see():
    base = HolonomicBase(kaya())
    assert base.wheel_names == ("wheel_0", "wheel_1", "wheel_2")
    np.testing.assert_array_equal(base.wheel_radii, (0.04,) * 3)
    assert base.steering_names == ()
    assert base.impossible == ()
    assert [(w.x, w.y) for w in base.config.wheels] == [p[:2] for p in KAYA_POSITIONS]
