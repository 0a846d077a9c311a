# SPDX-License-Identifier: Apache-2.0
"""Kinematics of a car against rigid-body motion, and the motion of its steering."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from raised_errors import about
from sample_car import (
    FRONT,
    FRONT_RADIUS,
    FRONT_TRACK,
    REAR,
    REAR_RADIUS,
    REAR_TRACK,
    STEERING,
    WHEELBASE,
    write_car,
    write_tricycle,
)

from motion_nodes.core.bases.ackermann import AckermannBase, AckermannConfig, AckermannGeometry
from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.bases.from_robot import base_of, left_first
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.robot_yaml import controller_name
from motion_nodes.errors import InvalidCommand, InvalidConfig, InvalidDescription

nan, inf = math.nan, math.inf
fast = settings(derandomize=True, deadline=None, max_examples=100)
speed = st.floats(-5.0, 5.0)
length = st.floats(0.05, 3.0)
geometries = st.builds(
    AckermannGeometry,
    wheelbase=length,
    front_track_width=length,
    rear_track_width=length,
    front_wheel_radius=length,
    rear_wheel_radius=length,
    steered_axle=st.sampled_from(("front", "rear", "both")),
)
exchanged = st.builds(
    AckermannGeometry,
    wheelbase=length,
    front_track_width=length,
    rear_track_width=length,
    front_wheel_radius=length,
    rear_wheel_radius=length,
    steered_axle=st.just("rear"),
    rear_steering_angles=st.just("isaac"),
)
ALL_STEERING = (*STEERING, "steer_rear_left", "steer_rear_right")
drives = st.sampled_from(((FRONT, REAR), (FRONT, ()), ((), REAR)))


def base(geometry=None, driven=(FRONT, REAR), **changes) -> AckermannBase:
    if geometry is None:
        geometry = AckermannGeometry(
            wheelbase=0.32, front_track_width=0.24, rear_track_width=0.26,
            front_wheel_radius=0.05, rear_wheel_radius=0.06,
        )  # fmt: skip
    return AckermannBase(
        AckermannConfig(
            geometry=geometry,
            steering_joint_names=STEERING if geometry.steered_axle != "both" else ALL_STEERING,
            front_wheel_names=driven[0],
            rear_wheel_names=driven[1],
            **changes,
        )
    )


def places(car: AckermannBase) -> dict[str, tuple[float, float, float, bool]]:
    """Return (x, y, radius, steered) of each wheel in the base frame."""
    g, back = car.geometry, car.config.fixed_axle_x
    front_steers, rear_steers = g.steered_axle != "rear", g.steered_axle != "front"
    share = {"front": 1.0, "rear": 0.0, "both": 0.5}[g.steered_axle]
    x_front = back + share * g.wheelbase
    x_rear = x_front - g.wheelbase
    f, r = 0.5 * g.front_track_width, 0.5 * g.rear_track_width
    return {
        "front_left": (x_front, f, g.front_wheel_radius, front_steers),
        "front_right": (x_front, -f, g.front_wheel_radius, front_steers),
        "rear_left": (x_rear, r, g.rear_wheel_radius, rear_steers),
        "rear_right": (x_rear, -r, g.rear_wheel_radius, rear_steers),
    }


def steered(car: AckermannBase, twist: Twist2) -> np.ndarray:
    """Return the steering angles of a twist, reached at once."""
    return car.steer(twist, np.zeros(len(car.steering_names)), 1e9)


@fast
@given(geometries, drives, st.floats(-2.0, 2.0), speed, speed)
def test_twist_survives_the_way_over_the_wheels(geometry, driven, x, vx, wz):
    car = base(geometry, driven, fixed_axle_x=x)
    twist = car.nearest_twist(Twist2(vx, 0.0, wz))
    wheels = car.wheels_from_twist(twist)
    back = car.twist_from_wheels(wheels, steered(car, twist))
    np.testing.assert_allclose(back, twist, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(car.twist_along(twist, steered(car, twist)), twist, atol=1e-9)


@fast
@given(exchanged, drives, speed, speed)
def test_twist_survives_with_exchanged_rear_angles(geometry, driven, vx, wz):
    car = base(geometry, driven)
    rolling = base(dataclasses.replace(geometry, rear_steering_angles="rolling"), driven)
    twist = car.nearest_twist(Twist2(vx, 0.0, wz))
    assert twist == rolling.nearest_twist(Twist2(vx, 0.0, wz))
    np.testing.assert_array_equal(steered(car, twist), steered(rolling, twist)[::-1])
    back = car.twist_from_wheels(car.wheels_from_twist(twist), steered(car, twist))
    np.testing.assert_allclose(back, twist, rtol=1e-9, atol=1e-9)


@fast
@given(geometries, st.floats(-2.0, 2.0), speed, speed)
def test_every_wheel_rolls_along_the_motion_of_its_place(geometry, x, vx, wz):
    car = base(geometry, fixed_axle_x=x)
    twist = car.nearest_twist(Twist2(vx, 0.0, wz))
    assume(twist.vx != 0.0)
    angles, wheels = steered(car, twist), car.wheels_from_twist(twist)
    joints = iter(angles)
    for (px, py, radius, turns), rolling in zip(places(car).values(), wheels, strict=True):
        angle = next(joints) if turns else 0.0
        velocity = np.array((twist.vx - twist.wz * py, twist.vy + twist.wz * px))
        heading = np.array((math.cos(angle), math.sin(angle)))
        np.testing.assert_allclose(velocity, rolling * radius * heading, atol=1e-9)


@fast
@given(geometries, drives, speed, speed)
def test_left_and_right_are_mirror_images(geometry, driven, vx, wz):
    car = base(geometry, driven)
    left = car.nearest_twist(Twist2(vx, 0.0, wz))
    right = Twist2(left.vx, -left.vy, -left.wz)
    assert car.nearest_twist(Twist2(vx, 0.0, -wz)) == pytest.approx(right)
    mirrored = -steered(car, right).reshape(-1, 2)[:, ::-1].ravel()
    np.testing.assert_allclose(steered(car, left), mirrored, atol=1e-12)
    swapped = car.wheels_from_twist(right).reshape(-1, 2)[:, ::-1].ravel()
    np.testing.assert_allclose(car.wheels_from_twist(left), swapped, atol=1e-12)


@fast
@given(geometries, drives, st.lists(speed, min_size=4, max_size=4),
       st.lists(st.floats(-1.2, 1.2), min_size=4, max_size=4))  # fmt: skip
def test_measured_twist_is_the_least_squares_one(geometry, driven, rolling, angles):
    """For any wheel speeds and angles, against NumPy's solution of the same constraints."""
    car = base(geometry, driven, fixed_axle_x=0.3)
    wheels = np.array(rolling[: len(car.wheel_names)])
    angles = angles[: len(car.steering_names)]
    joints, rows, values = iter(angles), [], []
    measured = dict(zip(car.wheel_names, wheels, strict=True))
    for name, (px, py, radius, turns) in places(car).items():
        angle, x = next(joints) if turns else 0.0, px - 0.3
        c, s = math.cos(angle), math.sin(angle)
        if name in measured:
            rows.append((c, x * s - py * c))
            values.append(measured[name] * radius)
        if turns:
            rows.append((-s, x * c + py * s))
            values.append(0.0)
    v, w = np.linalg.lstsq(np.array(rows), np.array(values), rcond=None)[0]
    got = car.twist_from_wheels(wheels, angles)
    np.testing.assert_allclose(got, (v, -0.3 * w, w), rtol=1e-6, atol=1e-9)
    # Linear in the wheels: angles give paths as speeds give velocities.
    np.testing.assert_allclose(
        car.twist_from_wheels(0.01 * wheels, angles), np.multiply(0.01, got), atol=1e-12
    )


def test_golden_wheels_and_steering():
    geometry = AckermannGeometry(
        wheelbase=1.65, front_track_width=1.25, rear_track_width=1.25,
        front_wheel_radius=0.25, rear_wheel_radius=0.25,
    )  # fmt: skip
    car = base(geometry)
    twist = Twist2(1.1, 0.0, 1.1 * math.tan(0.1) / 1.65)
    np.testing.assert_allclose(steered(car, twist), (0.103922854, 0.096361647), atol=1e-9)
    wheels = (4.255735758, 4.588511439, 4.232775547, 4.567224453)
    np.testing.assert_allclose(car.wheels_from_twist(twist), wheels, atol=1e-9)
    rear = base(geometry, ((), REAR))
    assert rear.wheel_names == REAR
    np.testing.assert_allclose(rear.wheels_from_twist(twist), wheels[2:], atol=1e-9)


def test_two_steered_axles_are_two_cars_back_to_back():
    """Each half turns as a car of half the wheelbase, with front and with rear steering."""
    sizes = {"front_track_width": 0.24, "rear_track_width": 0.24, "front_wheel_radius": 0.05,
             "rear_wheel_radius": 0.05}  # fmt: skip
    both = AckermannGeometry(wheelbase=0.64, steered_axle="both", **sizes)
    front = AckermannGeometry(wheelbase=0.32, steered_axle="front", **sizes)
    rear = AckermannGeometry(wheelbase=0.32, steered_axle="rear", **sizes)
    assert both.wheel_angles(0.9) == (*front.wheel_angles(0.9), *rear.wheel_angles(0.9))
    assert both.wheel_speeds(1.0, 0.9)[:2] == front.wheel_speeds(1.0, 0.9)[:2]
    assert both.wheel_speeds(1.0, 0.9)[2:] == rear.wheel_speeds(1.0, 0.9)[2:]
    assert both.max_curvature(0.4, 0.5) == front.max_curvature(0.4, 0.5)
    for name, wrong in (("steering_joint_names", STEERING), ("front_wheel_names", FRONT[:1])):
        good = {"steering_joint_names": ALL_STEERING, "front_wheel_names": FRONT}
        with pytest.raises(InvalidConfig, check=about(name)):
            AckermannConfig(geometry=both, **good | {name: wrong})


def test_tight_turns_are_widened_and_turning_on_the_spot_is_standing():
    car = base(max_steering_angle=0.5)
    most = math.tan(0.5) / 0.32
    assert car.max_curvature == pytest.approx(most)
    assert car.nearest_twist(Twist2(0.4, 0.0, 9.0)) == pytest.approx((0.4, 0.0, 0.4 * most))
    assert car.nearest_twist(Twist2(-0.4, 0.0, 9.0)) == pytest.approx((-0.4, 0.0, 0.4 * most))
    assert car.nearest_twist(Twist2(0.4, 0.0, -9.0)) == pytest.approx((0.4, 0.0, -0.4 * most))
    assert car.nearest_twist(Twist2(0.4, 7.0, 0.1)) == (0.4, 0.0, 0.1)
    assert car.nearest_twist(Twist2(0.0, 0.0, 1.0)) == Twist2()
    assert base(fixed_axle_x=-0.2).nearest_twist(Twist2(1, 0, 0.5)) == (1, 0.1, 0.5)


def test_the_tightest_of_all_limits_binds():
    wheel = math.tan(0.6) / (0.32 + 0.12 * math.tan(0.6))
    assert base(max_wheel_angle=0.6).max_curvature == pytest.approx(wheel)
    assert base(max_wheel_angle=0.6, max_steering_angle=0.7).max_curvature == pytest.approx(wheel)
    narrow = base(max_wheel_angle=0.6, max_steering_angle=0.1)
    assert narrow.max_curvature == pytest.approx(math.tan(0.1) / 0.32)
    for unset in (0.0, nan):
        free = base(max_wheel_angle=unset, max_steering_angle=unset)
        assert free.max_curvature == pytest.approx(2 / 0.26, rel=2e-3)
        assert free.max_curvature < 2 / 0.26


@fast
@given(geometries, st.floats(0.05, 1.5), st.floats(0.05, 1.5), speed, speed)
def test_no_steering_angle_exceeds_its_limit(geometry, middle, wheel, vx, wz):
    car = base(geometry, max_steering_angle=middle, max_wheel_angle=wheel)
    assume(vx != 0.0)
    angles = steered(car, Twist2(vx, 0.0, wz))
    assert abs(angles).max() <= wheel + 1e-9
    assert abs(car.steering_angle(angles)) <= middle + 1e-9


def test_steering_moves_at_its_speed_and_both_wheels_stay_on_one_centre():
    car, angles = base(max_steering_velocity=0.5), np.zeros(2)
    twist, goal = Twist2(1.0, 0.0, 1.2), math.atan(1.2 * 0.32)
    seen = []
    for _ in range(100):
        angles = car.steer(twist, angles, 0.01)
        seen.append(car.steering_angle(angles))
        assert car.geometry.wheel_angles(math.tan(seen[-1]) / 0.32) == pytest.approx(angles)
    np.testing.assert_allclose(np.diff(seen[:70]), 0.005, atol=1e-12)
    assert seen[-1] == pytest.approx(goal)
    # Driving backward with the same yaw rate needs the mirrored angle.
    assert car.steering_angle(car.steer(Twist2(-1.0, 0.0, 1.2), angles, 10.0)) == (
        pytest.approx(-goal)
    )


@pytest.mark.parametrize("dt", [0.0, -1.0, nan])
def test_steering_stays_without_speed_or_time(dt):
    angles = np.array((0.3, 0.25))
    np.testing.assert_array_equal(base().steer(Twist2(), angles, 0.01), angles)
    np.testing.assert_array_equal(base().steer(Twist2(0.0, 0.0, 2.0), angles, 0.01), angles)
    np.testing.assert_array_equal(base().steer(Twist2(1.0, 0.0, 1.0), angles, dt), angles)


def test_the_curve_is_that_of_the_steering_not_of_the_wish():
    car = base(fixed_axle_x=0.1)
    angles = steered(car, Twist2(1.0, 0.0, 0.8))
    assert car.twist_along(Twist2(0.5, 0.0, -3.0), angles) == pytest.approx((0.5, -0.04, 0.4))
    assert car.twist_along(Twist2(0.0, 0.0, -3.0), angles) == Twist2()


def test_bad_input():
    car = base(fixed_axle_x=0.2)
    for bad in (Twist2(nan, 0, 0), Twist2(0, 0, inf)):
        with pytest.raises(InvalidCommand):
            car.nearest_twist(bad)
        with pytest.raises(InvalidCommand):
            car.wheels_from_twist(bad)
    with pytest.raises(InvalidCommand):
        car.wheels_from_twist(Twist2(1.0, 0.1, 0.5))
    with pytest.raises(InvalidCommand):
        car.twist_from_wheels((1.0, 2.0, 3.0), (0.0, 0.0))
    with pytest.raises(InvalidCommand):
        car.twist_from_wheels((1.0, 2.0, 3.0, 4.0))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"driven": ((), ())}, "wheels"),
        ({"driven": (FRONT[:1], REAR)}, "front_wheel_names"),
        ({"driven": (FRONT, FRONT)}, "front_left"),
        ({"fixed_axle_x": nan}, "fixed_axle_x"),
        ({"max_steering_angle": -0.1}, "max_steering_angle"),
        ({"max_steering_velocity": inf}, "max_steering_velocity"),
    ],
)
def test_bad_configurations_are_named(changes, message):
    with pytest.raises(InvalidConfig, check=about(message)):
        base(**changes)


def test_a_described_car_is_where_its_urdf_says(tmp_path):
    car = base_of(load_robot(str(write_car(tmp_path / "a", rear_axle_x=-0.1))))
    assert isinstance(car, AckermannBase)
    assert car.config.fixed_axle_x == pytest.approx(-0.1)
    assert car.steering_names == STEERING
    assert car.wheel_names == FRONT + REAR
    np.testing.assert_array_equal(car.wheel_radii, (0.05, 0.05, 0.06, 0.06))
    tan = math.tan(0.6)
    assert car.max_curvature == pytest.approx(tan / (WHEELBASE + 0.5 * FRONT_TRACK * tan))
    rear = base_of(
        load_robot(
            str(
                write_car(
                    tmp_path / "b", steered="rear", driven=FRONT, rear_axle_x=-0.16,
                    max_steering_angle=0.4, max_steering_velocity=2.0,
                )
            )
        )
    )  # fmt: skip
    assert rear.config.fixed_axle_x == pytest.approx(0.16)
    assert rear.wheel_names == FRONT
    assert rear.max_curvature == pytest.approx(math.tan(0.4) / WHEELBASE)
    assert rear.config.max_steering_velocity == 2.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steering_axis": "0 0 -1"}, "steer_left"),
        ({"wheel_axis": "0 -1 0"}, "front_left"),
        ({"steering_joint_names": list(STEERING[::-1])}, "steering_joint_names"),
    ],
)
def test_a_described_car_that_would_drive_wrong(tmp_path, changes, message):
    robot = load_robot(str(write_car(tmp_path / "car", **changes)))
    with pytest.raises(InvalidConfig, check=about(message)):
        base_of(robot)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"front_wheel_names": [], "rear_wheel_names": []}, "base"),
        ({"rear_wheel_names": ["rear_left"]}, "base.rear_wheel_names"),
        ({"wheelbase": -1.0}, "base.wheelbase"),
        ({"max_steering_angle": 1.6}, "base.max_steering_angle"),
        ({"steering_joint_names": ["steer_left", "rear_left"]}, "base"),
    ],
)
def test_a_description_that_is_no_car(tmp_path, changes, message):
    with pytest.raises(InvalidDescription, check=about(message)):
        load_robot(str(write_car(tmp_path / "car", **changes)))


@pytest.mark.parametrize(
    ("rear", "driven", "name"),
    [
        (2, "rear", "tricycle_steering_controller"),
        (1, "rear", "bicycle_steering_controller"),
        (2, "front", "bicycle_steering_controller"),
    ],
)
def test_one_steered_wheel_is_that_in_the_middle_of_a_car(tmp_path, rear, driven, name):
    """Oracle: v = r w of the fixed axle's middle, tan(angle) = wheelbase wz / v."""
    robot = load_robot(str(write_tricycle(tmp_path / "tri", rear=rear, driven=driven)))
    made = base_of(robot)
    assert controller_name(robot.kind, robot.base) == name
    twist, angle = Twist2(0.5, 0.0, 0.4), math.atan(WHEELBASE * 0.4 / 0.5)
    steering = made.steer(twist, np.zeros(1), 10.0)
    assert steering == pytest.approx([angle])
    wheels = made.wheels_from_twist(twist)
    if driven == "front":
        expected = [0.5 / math.cos(angle) / FRONT_RADIUS]
    elif rear == 2:
        expected = [(0.5 - 0.4 * y) / REAR_RADIUS for y in (0.5 * REAR_TRACK, -0.5 * REAR_TRACK)]
    else:
        expected = [0.5 / REAR_RADIUS]
    assert wheels == pytest.approx(expected)
    assert made.twist_from_wheels(wheels, steering) == pytest.approx(twist, abs=1e-9)
    with pytest.raises(InvalidCommand):
        made.twist_from_wheels(wheels, np.zeros(2))


def test_the_left_joint_of_an_axle_is_found_by_the_urdf(tmp_path):
    robot = load_robot(str(write_car(tmp_path / "car")))
    assert left_first(robot, STEERING[::-1]) == left_first(robot, STEERING) == STEERING
    assert left_first(robot, ("a", "b")) == ("a", "b")


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"rear_track_width": None}, "base.rear_track_width"),
        ({"driven": "front", "front_track_width": 0.2}, "base.front_wheel_names"),
        ({"controller": "diff_drive_controller"}, "base.controller"),
    ],
)
def test_bad_axles_are_refused(tmp_path, changes, path):
    folder = write_tricycle(tmp_path / "tri", **changes)
    with pytest.raises(InvalidDescription, match=path):
        load_robot(str(folder))
