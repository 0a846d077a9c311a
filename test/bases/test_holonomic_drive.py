# SPDX-License-Identifier: Apache-2.0
"""Gains, speed limits and wheel limits of a holonomic drive, and Isaac Sim's arrays."""

from __future__ import annotations

import math

import numpy as np
import pytest
from bases.holonomic_samples import (
    KAYA_ORIENTATIONS,
    KAYA_POSITIONS,
    KAYA_RADIUS,
    kaya,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from raised_errors import about

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.bases.holonomic import (
    HolonomicBase,
    HolonomicConfig,
    HolonomicDrive,
    HolonomicQpBase,
    HolonomicWheel,
    holonomic_base,
    wheels_from_arrays,
)
from motion_nodes.core.bases.twist_limiter import CommandShape
from motion_nodes.errors import InvalidCommand, InvalidConfig

fast = settings(derandomize=True, deadline=None, max_examples=60)
speed = st.floats(-5.0, 5.0)
limit = st.floats(0.05, 3.0)


def drive(max_wheel_speed: float = math.nan, solver: str = "qp", **shape: float) -> HolonomicDrive:
    return HolonomicDrive(holonomic_base(kaya(), solver), CommandShape(**shape), max_wheel_speed)


def test_the_seed_example_in_one_call():
    got = drive().wheels([1.0, 1.0, 0.1])
    np.testing.assert_allclose(got, (-25.105, 14.318, -14.542), rtol=0, atol=0.01)
    got = drive(solver="kinematic").wheels(np.array((1.0, 1.0, 0.1)))
    np.testing.assert_allclose(got, (-24.754892, 34.395089, -8.904059), rtol=0, atol=1e-6)


@pytest.mark.parametrize("solver", ["qp", "kinematic"])
def test_a_zero_command_is_zeros(solver):
    for command in ([0.0, 0.0, 0.0], [-0.0, -0.0, -0.0]):
        wheels = drive(solver=solver).wheels(command)
        assert wheels.tolist() == [0.0, 0.0, 0.0]
        assert not np.signbit(wheels).any()


@fast
@given(speed, speed, speed, limit, limit, st.floats(0.0, 4.0), st.floats(0.0, 4.0))
def test_limits_hold_and_keep_the_direction(vx, vy, wz, fastest, turn, linear, angular):
    shape = CommandShape(
        linear_gain=linear,
        angular_gain=angular,
        max_linear_speed=fastest,
        max_angular_speed=turn,
    )
    got = shape.shaped(Twist2(vx, vy, wz))
    asked = math.hypot(vx, vy) * linear
    assert math.hypot(got.vx, got.vy) == pytest.approx(min(asked, fastest), abs=1e-12)
    assert got.vx * vy == pytest.approx(got.vy * vx, abs=1e-9)
    assert got.vx * vx + got.vy * vy >= 0.0
    assert got.wz == pytest.approx(max(-turn, min(turn, wz * angular)), abs=1e-12)


@pytest.mark.parametrize("unset", [0.0, math.nan])
def test_limits_of_zero_and_nan_are_not_set(unset):
    shape = CommandShape(max_linear_speed=unset, max_angular_speed=unset)
    assert shape.shaped(Twist2(50.0, -60.0, 70.0)) == (50.0, -60.0, 70.0)


@pytest.mark.parametrize("solver", ["qp", "kinematic"])
def test_wheels_are_slowed_down_together(solver):
    free = drive(solver=solver).wheels([1.0, 1.0, 0.1])
    slow = drive(10.0, solver=solver).wheels([1.0, 1.0, 0.1])
    assert np.abs(slow).max() == pytest.approx(10.0, abs=1e-12)
    np.testing.assert_allclose(slow / free, 10.0 / np.abs(free).max(), rtol=1e-12)
    np.testing.assert_array_equal(drive(40.0, solver=solver).wheels([1.0, 1.0, 0.1]), free)


def test_gains_come_before_limits():
    got = drive(linear_gain=4.0, max_linear_speed=1.0, solver="kinematic").wheels([1.0, 0.0, 0.0])
    np.testing.assert_allclose(got, (0.0, 21.650953, -21.650953), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("settings_", "words"),
    [
        ({"linear_gain": -1.0}, "linear_gain"),
        ({"angular_gain": math.nan}, "angular_gain"),
        ({"max_linear_speed": math.inf}, "max_linear_speed"),
        ({"max_angular_speed": -math.inf}, "max_angular_speed"),
        ({"max_wheel_speed": math.inf}, "max_wheel_speed"),
    ],
)
def test_bad_settings(settings_, words):
    with pytest.raises(InvalidConfig, check=about(words)):
        drive(**settings_)


def test_an_unknown_solver():
    with pytest.raises(InvalidConfig):
        holonomic_base(kaya(), "osqp")


@pytest.mark.parametrize("command", [[1.0, 0.0], [1.0, 0.0, 0.0, 0.0], []])
def test_commands_of_another_length(command):
    with pytest.raises(InvalidCommand, check=about("command")):
        drive().wheels(command)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_bad_command_leaves_nothing_behind(bad):
    """A failed command does not return the result of an older one, unlike in Isaac Sim."""
    one = drive()
    one.wheels([1.0, 1.0, 0.1])
    with pytest.raises(InvalidCommand):
        one.wheels([1.0, bad, 0.1])
    assert one.wheels([0.0, 0.0, 0.0]).tolist() == [0.0, 0.0, 0.0]


def test_what_a_base_cannot_drive_is_left_out():
    wheels = tuple(
        HolonomicWheel(name=str(y), radius=0.1, x=0.0, y=y, axis_yaw=0.5 * math.pi)
        for y in (0.3, -0.3)
    )
    for base in (HolonomicBase, HolonomicQpBase):
        one = HolonomicDrive(base(HolonomicConfig(wheels=wheels)))
        got, without = one.wheels([0.5, 2.0, 0.2]), one.wheels([0.5, 0.0, 0.2])
        np.testing.assert_allclose(got, without, rtol=1e-12)


def test_one_value_serves_all_wheels():
    """Lists of one element too, which Isaac Sim rejects."""
    whole = wheels_from_arrays((0.04,) * 3, KAYA_POSITIONS, KAYA_ORIENTATIONS, (90.0,) * 3)
    for radius in (KAYA_RADIUS, [KAYA_RADIUS], np.array(KAYA_RADIUS)):
        for angle in (90, [90.0]):
            assert wheels_from_arrays(radius, KAYA_POSITIONS, KAYA_ORIENTATIONS, angle) == whole
    assert [wheel.name for wheel in whole] == ["wheel_0", "wheel_1", "wheel_2"]


def test_each_wheel_has_an_axis_of_its_own():
    turned = wheels_from_arrays(0.1, [[0, 0.2, 0], [0, -0.2, 0]], [[0, 0, 0, 1], [0, 0, 1, 0]])
    assert turned[0].axis_yaw == pytest.approx(0.0)
    assert abs(turned[1].axis_yaw) == pytest.approx(math.pi)


def test_another_axis_is_up():
    """The same robot, described with y up."""
    usual = wheels_from_arrays(KAYA_RADIUS, KAYA_POSITIONS, KAYA_ORIENTATIONS)
    # Rotation about x by -90 degrees: (x, y, z) -> (x, z, -y).
    h = math.sqrt(0.5)
    places = [(x, z, -y) for x, y, z in KAYA_POSITIONS]
    turns = []
    for x, y, z, w in KAYA_ORIENTATIONS:
        # Product of (-h, 0, 0, h) with the orientation.
        turns.append((h * x - h * w, h * y + h * z, h * z - h * y, h * w + h * x))
    tilted = wheels_from_arrays(KAYA_RADIUS, places, turns, up_axis=(0.0, 2.0, 0.0))
    for one, other in zip(tilted, usual, strict=True):
        assert (one.x, one.y) == pytest.approx((other.x, other.y), abs=1e-12)
        assert math.cos(one.axis_yaw - other.axis_yaw) == pytest.approx(1.0, abs=1e-12)


def test_up_may_point_down_in_the_given_frame():
    wheel = wheels_from_arrays(0.1, [[0.3, 0.2, 0.0]], [[0, 0, 0, 1]], up_axis=(0, 0, -1))[0]
    assert (wheel.x, wheel.y) == pytest.approx((0.3, -0.2))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"wheel_radius": [0.04, 0.04]}, "wheel_radius"),
        ({"mecanum_angles": [90.0] * 4}, "mecanum_angles"),
        ({"wheel_positions": [[0.0, 0.0]] * 3}, "wheel_positions"),
        ({"wheel_orientations": [[0, 0, 0, 1]]}, "wheel_orientations"),
        ({"wheel_orientations": [[0, 0, 0, 0]] * 3}, "wheel_orientations"),
        ({"wheel_radius": []}, "wheel_radius"),
        ({"wheel_axis": (0.0, 0.0, 1.0)}, "wheel_0"),
        ({"up_axis": (0.0, 0.0, 0.0)}, "up_axis"),
        ({"up_axis": (0.0, math.nan, 1.0)}, "up_axis"),
        ({"names": ("a",)}, "wheel_names"),
        ({"wheel_radius": 0.0}, "radius"),
    ],
)
def test_bad_arrays(changes, words):
    arrays = {
        "wheel_radius": 0.04,
        "wheel_positions": KAYA_POSITIONS,
        "wheel_orientations": KAYA_ORIENTATIONS,
    }
    with pytest.raises(InvalidConfig, check=about(words)):
        wheels_from_arrays(**(arrays | changes))
