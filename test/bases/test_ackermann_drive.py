# SPDX-License-Identifier: Apache-2.0
"""Driving by steering angle and speed: golden numbers, ramps, limits, degenerate geometry."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motion_nodes.core.bases.ackermann_drive import (
    DEAD_ZONE_ISAAC,
    AckermannDrive,
    AckermannDriveConfig,
    DriveCommand,
)
from motion_nodes.errors import InvalidCommand, InvalidConfig

nan, inf = math.nan, math.inf
fast = settings(derandomize=True, deadline=None, max_examples=60)
SINGULAR = math.atan(2 * 1.65 / 1.25)
"""[rad] Where the inner wheel stands on the turning centre: 69.25 degrees."""


def car(**changes) -> AckermannDrive:
    values = {"wheel_base": 1.65, "track_width": 1.25, "front_wheel_radius": 0.25}
    return AckermannDrive(AckermannDriveConfig.from_isaac(**(values | changes)))


def isaac(**changes) -> AckermannDrive:
    return car(dead_zone=DEAD_ZONE_ISAAC, **changes)


GOLDEN = [
    ((0.1, 0, 1.1, 0), (0.103922854, 0.096361647),
     (4.255735758, 4.588511439, 4.232775547, 4.567224453)),
    ((-0.1, 0, 1.1, 0), (-0.096361647, -0.103922854),
     (4.588511439, 4.255735758, 4.567224453, 4.232775547)),
    ((0.1, 0, -1.1, 0), (0.103922854, 0.096361647),
     (-4.255735758, -4.588511439, -4.232775547, -4.567224453)),
    ((0.0, 0, 1.1, 0), (0.0, 0.0), (4.4, 4.4, 4.4, 4.4)),
    ((0.0158, 0, 1.1, 0), (0.015895122, 0.015706010),
     (4.374217, 4.426882, 4.373664, 4.426336)),
    ((0.5, 0, 1.5, 0), (0.603201874, 0.425044737),
     (5.778102976, 7.948886188, 4.758403432, 7.241596568)),
]  # fmt: skip


@pytest.mark.parametrize(("command", "steering", "wheels"), GOLDEN)
@pytest.mark.parametrize("make", [car, isaac])
def test_golden_table(make, command, steering, wheels):
    state = make().step(DriveCommand(*command))
    np.testing.assert_allclose(state.steering, steering, rtol=0, atol=1e-9)
    np.testing.assert_allclose(state.wheels, wheels, rtol=0, atol=5e-7)
    assert state.notes == ()


@pytest.mark.parametrize(("command", "steering", "wheels"), GOLDEN)
def test_rear_steering_mirrors_angles_and_swaps_axles(command, steering, wheels):
    """The car turns to the same side, so the wheels turn to the other side."""
    state = car(invert_steering=True).step(DriveCommand(*command))
    np.testing.assert_allclose(state.steering, -np.array(steering), rtol=0, atol=1e-9)
    np.testing.assert_allclose(state.wheels, np.roll(wheels, 2), rtol=0, atol=5e-7)


@pytest.mark.parametrize(("command", "steering", "wheels"), GOLDEN)
def test_rear_steering_as_in_isaac_has_the_two_angles_exchanged(command, steering, wheels):
    state = car(invert_steering=True, rear_steering_angles="isaac").step(DriveCommand(*command))
    np.testing.assert_allclose(state.steering, -np.array(steering)[::-1], rtol=0, atol=1e-9)
    np.testing.assert_allclose(state.wheels, np.roll(wheels, 2), rtol=0, atol=5e-7)


def test_inverted_row_of_the_published_table():
    state = car(invert_steering=True, rear_steering_angles="isaac").step(DriveCommand(0.1, 0, 1.1))
    np.testing.assert_allclose(state.steering, (-0.096361647, -0.103922854), rtol=0, atol=1e-9)
    inverted = (4.232775547, 4.567224453, 4.255735758, 4.588511439)
    np.testing.assert_allclose(state.wheels, inverted, rtol=0, atol=1e-9)


def test_the_setting_for_rear_angles_leaves_front_steering_alone():
    for command, steering, _ in GOLDEN:
        state = car(rear_steering_angles="isaac").step(DriveCommand(*command))
        np.testing.assert_allclose(state.steering, steering, rtol=0, atol=1e-9)
    with pytest.raises(InvalidConfig):
        car(rear_steering_angles="mirrored")


def test_golden_numbers_of_a_yaw_rate():
    """Isaac Sim's own example: 0.4 rad/s at 1.5 m/s."""
    angle = math.atan(0.4 * 1.65 / 1.5)
    state = car().step(DriveCommand(angle, 0, 1.5))
    assert angle == pytest.approx(0.414507, abs=1e-6)
    np.testing.assert_allclose(state.steering, (0.485796, 0.360648), atol=1e-6)
    np.testing.assert_allclose(state.wheels, (5.654167, 7.481283, 5.0, 7.0), atol=1e-6)


def test_dead_zone_is_an_option():
    command = DriveCommand(0.0156, 0, 1.1)
    np.testing.assert_array_equal(isaac().step(command).steering, 0.0)
    np.testing.assert_allclose(isaac().step(command).wheels, 4.4)
    left, right = car().step(command).steering
    assert 0.0 < right < 0.0156 < left
    tiny = car().step(DriveCommand(1e-12, 0, 1.1))
    np.testing.assert_allclose(tiny.steering, 1e-12, rtol=1e-9)
    np.testing.assert_allclose(tiny.wheels, 4.4)


def test_golden_ramps():
    drive, command = isaac(), DriveCommand(0.1, 0.05, 1.1, 0.5)
    states = [drive.step(command, 0.1) for _ in range(4)]
    assert [state.speed for state in states] == pytest.approx([0.05, 0.10, 0.15, 0.20])
    for state in states[:3]:
        np.testing.assert_array_equal(state.steering, 0.0)
    np.testing.assert_allclose(states[3].steering, (0.0201527, 0.0198496), atol=1e-7)
    smooth = car()
    angles = [smooth.step(command, 0.1).steering_angle for _ in range(4)]
    assert angles == pytest.approx([0.005, 0.01, 0.015, 0.02])


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_ramps_end_at_the_goal_whatever_the_sign_of_the_rates(sign):
    drive = car()
    command = DriveCommand(sign * 0.1, -0.05, sign * 1.1, -0.5)
    states = [drive.step(command, 0.1) for _ in range(40)]
    speeds = np.array([state.speed for state in states]) * sign
    angles = np.array([state.steering_angle for state in states]) * sign
    np.testing.assert_allclose(np.diff(speeds, prepend=0.0)[:21], 0.05)
    assert speeds[22:].tolist() == [1.1] * 18
    assert angles[20:].tolist() == [0.1] * 20
    assert np.all(np.diff(angles) >= 0.0)


def test_limits_of_ramps():
    drive = car(max_acceleration=-0.5, max_steering_angle_velocity=0.05)
    for command in (DriveCommand(0.1, 9.0, 1.1, 9.0), DriveCommand(0.1, 0.0, 1.1, 0.0)):
        drive.start()
        state = drive.step(command, 0.1)
        assert (state.speed, state.steering_angle) == pytest.approx((0.05, 0.005))
    drive.start()
    state = drive.step(DriveCommand(0.1, 0.01, 1.1, 0.2), 0.1)
    assert (state.speed, state.steering_angle) == pytest.approx((0.02, 0.001))


@pytest.mark.parametrize("dt", [0.0, -0.1])
def test_without_time_ramps_stand_still_and_the_rest_is_there_at_once(dt):
    drive = car()
    state = drive.step(DriveCommand(0.1, 0.05, 1.1, 0.0), dt)
    assert (state.speed, state.steering_angle) == (1.1, 0.0)
    assert state.notes == (f"dt is {dt} s; it must be above 0 for ramps to move",)
    state = drive.step(DriveCommand(0.1, 0.0, 1.0, 0.5), dt)
    assert (state.speed, state.steering_angle) == (1.1, 0.1)
    assert drive.step(DriveCommand(0.1, 0.0, 1.0, 0.0), dt).notes == ()


def test_older_input_of_measured_speed_and_acceleration():
    drive = car()
    state = drive.step_accelerating(0.1, 1.0, 0.5, 0.2)
    np.testing.assert_allclose(state.steering, (0.103922854, 0.096361647), atol=1e-9)
    assert state.speed == pytest.approx(1.1)
    assert drive.wheel_speed(state) == pytest.approx(4.4)
    np.testing.assert_allclose(state.wheels, GOLDEN[0][2], atol=1e-8)
    assert drive.step_accelerating(0.1, 1.0, -0.5, 0.2).speed == pytest.approx(0.9)
    assert car(max_acceleration=0.1).step_accelerating(0, 1.0, -5, 0.2).speed == pytest.approx(0.98)
    for dt in (0.0, -0.2):
        state = drive.step_accelerating(0.1, 1.0, 0.5, dt)
        assert state.speed == 1.0
        assert state.notes == (f"dt is {dt} s; it must be above 0 to accelerate",)
    rear = car(back_wheel_radius=0.5, invert_steering=True)
    assert rear.wheel_speed(rear.step_accelerating(0.1, 1.0, 0.5, 0.2)) == pytest.approx(2.2)


def test_a_radius_of_zero_is_that_of_the_other_axle():
    command = DriveCommand(0.1, 0, 1.1)
    for radii in ((0.25, 0.0), (0.0, 0.25), (0.25, 0.25)):
        drive = car(front_wheel_radius=radii[0], back_wheel_radius=radii[1])
        np.testing.assert_allclose(drive.step(command).wheels, GOLDEN[0][2], atol=1e-8)
    front = car(back_wheel_radius=0.5).step(command).wheels
    np.testing.assert_allclose(front, np.array(GOLDEN[0][2]) / (1, 1, 2, 2), atol=1e-8)
    with pytest.raises(InvalidConfig):
        car(front_wheel_radius=0.0)


@pytest.mark.parametrize("angle", [SINGULAR, 1.4, math.pi / 2, 3.0, 1e6])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("inverted", [False, True])
def test_a_turn_about_a_wheel_is_widened_with_a_note(angle, sign, inverted):
    state = car(invert_steering=inverted).step(DriveCommand(sign * angle, 0, 1.0))
    (note,) = state.notes
    assert "the tightest turn of this car" in note
    assert abs(state.steering_angle) < SINGULAR
    # No wheel flips over, none rolls backward: the inner one nearly stands.
    assert np.all(np.sign(state.steering) == (-sign if inverted else sign))
    assert np.all(state.wheels > 0.0)
    assert state.wheels.min() < 0.01


def test_max_wheel_angle_binds_the_inner_wheel():
    state = car(max_wheel_rotation_angle=0.5).step(DriveCommand(0.6, 0, 1.0))
    assert state.steering[0] == pytest.approx(0.5)
    # The outer one follows: cot(outer) - cot(inner) = track / wheelbase.
    assert 1 / math.tan(state.steering[1]) - 1 / math.tan(0.5) == pytest.approx(1.25 / 1.65)
    assert len(state.notes) == 1
    right = car(max_wheel_rotation_angle=-0.5).step(DriveCommand(-0.6, 0, 1.0))
    np.testing.assert_allclose(right.steering, -state.steering[::-1])


def test_max_wheel_speed_slows_all_wheels():
    drive = car(max_wheel_velocity=4.0)
    state = drive.step(DriveCommand(0.1, 0, 1.1))
    assert state.wheels.max() == pytest.approx(4.0)
    np.testing.assert_allclose(state.wheels / 4.0, np.array(GOLDEN[0][2]) / GOLDEN[0][2][1])
    assert state.speed == pytest.approx(1.1 * 4.0 / GOLDEN[0][2][1])
    assert "above max_wheel_velocity 4 rad/s; all wheels are slowed" in state.notes[0]
    # The ramp does not wind up meanwhile.
    assert drive.step(DriveCommand(0.1, 0, 0.0, 1.0), 0.1).speed == pytest.approx(state.speed - 0.1)


number = st.floats(-3.0, 3.0)


@fast
@given(st.lists(st.tuples(number, number, number, number, st.floats(0.0, 0.2)), max_size=30))
def test_no_stream_of_commands_exceeds_a_limit(stream):
    drive = car(
        max_wheel_velocity=5.0,
        max_wheel_rotation_angle=0.6,
        max_acceleration=1.5,
        max_steering_angle_velocity=0.8,
    )
    speed = angle = 0.0
    for *command, dt in stream:
        state = drive.step(DriveCommand(*command), dt)
        assert abs(state.wheels).max() <= 5.0
        assert abs(state.steering).max() <= 0.6 + 1e-12
        assert abs(state.steering_angle - angle) <= 0.8 * dt + 1e-12
        # A tighter curve may need less speed than the ramp alone would give.
        assert abs(state.speed) <= abs(speed) + 1.5 * dt + 1e-12
        speed, angle = state.speed, state.steering_angle


@pytest.mark.parametrize("value", [nan, inf, -inf])
@pytest.mark.parametrize("place", range(5))
def test_bad_commands_change_nothing(value, place):
    drive = car()
    drive.step(DriveCommand(0.1, 0, 1.1))
    numbers = [0.2, 0.1, 0.5, 0.1, 0.1]
    numbers[place] = value
    with pytest.raises(InvalidCommand):
        drive.step(DriveCommand(*numbers[:4]), numbers[4])
    with pytest.raises(InvalidCommand):
        drive.step_accelerating(*np.roll(numbers, -place)[:4].tolist())
    assert (drive.speed, drive.steering_angle) == (1.1, 0.1)
