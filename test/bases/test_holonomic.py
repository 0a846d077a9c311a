# SPDX-License-Identifier: Apache-2.0
"""Holonomic bases: kinematics, the quadratic program, gains and limits."""

import math

import numpy as np
import pytest
from bases.holonomic_samples import (
    KAYA_ORIENTATIONS,
    KAYA_POSITIONS,
    KAYA_RADIUS,
    kaya,
    mecanum,
    random_config,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from raised_errors import about
from scipy.optimize import minimize

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.bases.holonomic import (
    HolonomicBase,
    HolonomicConfig,
    HolonomicDrive,
    HolonomicQpBase,
    HolonomicWheel,
    axis_yaw_of,
    holonomic_base,
    moved,
    wheels_from_arrays,
)
from motion_nodes.core.bases.twist_limiter import CommandShape
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


KAYA = HolonomicQpBase(kaya())


def test_the_published_numbers_of_the_kaya():
    wheels = KAYA.wheels_from_twist(Twist2(1.0, 1.0, 0.1))
    np.testing.assert_allclose(wheels, (-25.105, 14.318, -14.542), rtol=0, atol=0.01)
    np.testing.assert_allclose(wheels, (-25.111903, 14.321637, -14.545453), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("twist", "wheels"),
    [
        ((1.0, 0.0, 0.0), (0.053981, 14.487529, -14.379561)),
        ((0.0, 1.0, 0.0), (-16.688546, 8.311820, 8.311820)),
        ((0.0, 0.0, 1.0), (-84.773388, -84.777118, -84.777118)),
        ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
    ],
)
def test_exact_optima_of_the_kaya(twist, wheels):
    got = KAYA.wheels_from_twist(Twist2(*twist))
    np.testing.assert_allclose(got, wheels, rtol=0, atol=1e-6)


def test_the_constraint_of_the_kaya():
    expected = (
        (0.0, 0.0346415, -0.0346415),
        (-0.04, 0.0199991, 0.0199991),
        (-0.0039217, -0.0039150, -0.0039591),
    )
    np.testing.assert_allclose(KAYA.constraint, expected, rtol=0, atol=5e-8)


def test_golden_numbers_of_a_mecanum_base():
    config = HolonomicConfig(wheels=mecanum().wheels, left_handed=True)
    wheels = HolonomicQpBase(config).wheels_from_twist(Twist2(0.5, 0.2, 0.3))
    np.testing.assert_allclose(wheels, (-4.09, 0.56, -5.51, 1.97), rtol=0, atol=0.005)
    # The right-hand rule reverses all wheels, for both solvers.
    right = HolonomicQpBase(mecanum()).wheels_from_twist(Twist2(0.5, 0.2, 0.3))
    np.testing.assert_array_equal(right, -wheels)


def test_constraints_hold_and_no_feasible_direction_is_cheaper():
    rng = np.random.default_rng(11)
    redundant = 0
    for _ in range(500):
        base = HolonomicQpBase(random_config(rng))
        twist = base.nearest_twist(Twist2(*rng.uniform(-3.0, 3.0, 3)))
        x = base.wheels_from_twist(twist)
        scale = max(1.0, float(np.abs(x).max()))
        np.testing.assert_allclose(base.constraint @ x, twist, rtol=0, atol=1e-10 * scale)
        # Optimal: the gradient P x has no component in the null space of the constraints.
        free = np.linalg.svd(base.constraint)[2][3:]
        np.testing.assert_allclose(free @ (base.cost * x), 0.0, atol=1e-10 * scale)
        redundant += len(free) > 0
    assert redundant > 300


def test_the_optimum_of_a_general_solver():
    rng = np.random.default_rng(12)
    for _ in range(5):
        base = HolonomicQpBase(random_config(rng))
        assert not base.impossible
        twist = rng.uniform(-1.0, 1.0, 3)
        found = minimize(
            lambda x, p=base.cost: 0.5 * x @ (p * x),
            np.zeros(len(base.wheel_names)),
            jac=lambda x, p=base.cost: p * x,
            constraints={
                "type": "eq",
                "fun": lambda x, a=base.constraint, b=twist: a @ x - b,
                "jac": lambda x, a=base.constraint: a,
            },
            method="SLSQP",
            options={"ftol": 1e-13, "maxiter": 300},
        )
        wheels = base.wheels_from_twist(Twist2(*twist))
        np.testing.assert_allclose(wheels, found.x, rtol=1e-6, atol=1e-6)


def test_it_is_no_inverse_kinematics_and_odometry_says_so():
    """Actual motion of Isaac Sim's wheel speeds; the default solver yields the commanded twist."""
    driven = KAYA.twist_from_wheels(KAYA.wheels_from_twist(Twist2(1.0, 1.0, 0.1)))
    assert driven == pytest.approx((0.664, 0.668, -3.436), abs=5e-4)
    turned = KAYA.twist_from_wheels(KAYA.wheels_from_twist(Twist2(0.0, 0.0, 1.0)))
    assert turned.wz == pytest.approx(-34.5, abs=0.1)
    rolling = HolonomicBase(kaya())
    right = rolling.twist_from_wheels(rolling.wheels_from_twist(Twist2(1.0, 1.0, 0.1)))
    assert right == pytest.approx((1.0, 1.0, 0.1), abs=1e-12)


def test_a_layout_that_cannot_move_sideways():
    wheels = tuple(
        HolonomicWheel(name=str(i), radius=0.1, x=0.1 * i, y=y, axis_yaw=0.5 * math.pi)
        for i, y in enumerate((0.3, -0.3, 0.2, -0.2))
    )
    base = HolonomicQpBase(HolonomicConfig(wheels=wheels))
    assert base.impossible == ("drive sideways",)
    near = base.nearest_twist(Twist2(0.5, 0.7, 0.3))
    assert near == pytest.approx((0.5, 0.0, 0.3), abs=1e-12)
    np.testing.assert_allclose(base.constraint @ base.wheels_from_twist(near), near, atol=1e-12)


def test_a_layout_that_cannot_turn_projects_to_what_the_constraints_reach():
    angles = (0.1, 2.0, 4.0)
    wheels = tuple(
        HolonomicWheel(
            name=str(a), radius=0.1, x=1.0 + math.cos(a), y=math.sin(a), axis_yaw=a - 0.5 * math.pi
        )
        for a in angles
    )
    base = HolonomicQpBase(HolonomicConfig(wheels=wheels))
    near = base.nearest_twist(Twist2(0.5, 0.7, 0.3))
    np.testing.assert_allclose(base.constraint @ base.wheels_from_twist(near), near, atol=1e-12)
    assert base.nearest_twist(near) == pytest.approx(near, abs=1e-12)


def test_bad_twists():
    for call in (KAYA.wheels_from_twist, KAYA.nearest_twist):
        with pytest.raises(InvalidCommand):
            call(Twist2(0.0, 0.0, math.nan))


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
        linear_gain=linear, angular_gain=angular, max_linear_speed=fastest, max_angular_speed=turn
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
