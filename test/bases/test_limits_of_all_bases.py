# SPDX-License-Identifier: Apache-2.0
"""Random command streams to each kind of base: no limit is exceeded, and the direction is kept."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from bases.holonomic_samples import kaya, mecanum
from hypothesis import given, settings
from hypothesis import strategies as st
from raised_errors import about

from motion_nodes.core.bases.ackermann import AckermannBase, AckermannConfig, AckermannGeometry
from motion_nodes.core.bases.base import BaseLimits, BodyAxisLimits, Twist2, WheeledBase
from motion_nodes.core.bases.controller import BaseController, BaseControllerConfig
from motion_nodes.core.bases.differential import DifferentialBase, DifferentialConfig
from motion_nodes.core.bases.holonomic import HolonomicBase


def differential() -> WheeledBase:
    names = {"left_wheel_names": ("a", "b"), "right_wheel_names": ("c", "d")}
    return DifferentialBase(
        DifferentialConfig(
            **names, wheel_radius=0.1, wheel_separation=0.4, right_wheel_radius_multiplier=1.1
        )
    )


def car(axle: str = "front", steering_velocity: float = 2.0) -> WheeledBase:
    geometry = AckermannGeometry(
        wheelbase=1.65,
        front_track_width=1.25,
        rear_track_width=1.1,
        front_wheel_radius=0.25,
        rear_wheel_radius=0.3,
        steered_axle=axle,
    )
    return AckermannBase(
        AckermannConfig(
            geometry=geometry,
            steering_joint_names=("sl", "sr"),
            front_wheel_names=("fl", "fr"),
            rear_wheel_names=("rl", "rr"),
            max_steering_angle=0.6,
            max_steering_velocity=steering_velocity,
        )
    )


BASES: dict[str, Callable[[], WheeledBase]] = {
    "differential": differential,
    "omni": lambda: HolonomicBase(kaya(left_handed=False)),
    "mecanum": lambda: HolonomicBase(mecanum()),
    "car": car,
    "car steered behind": lambda: car("rear", steering_velocity=math.nan),
}
WHEELS = {"max_wheel_velocity": 12.0, "max_wheel_acceleration": 9.0}
AXES = {
    "x": BodyAxisLimits(
        max_velocity=1.5, min_velocity=-0.8, max_acceleration=1.2, max_deceleration=3
    ),
    "y": BodyAxisLimits(max_velocity=0.6, max_acceleration=0.9),
    "yaw": BodyAxisLimits(max_velocity=1.3, max_acceleration=2.5, max_deceleration_reverse=4.0),
}
component = st.one_of(st.just(0.0), st.floats(-3.0, 3.0))
commands = st.lists(
    st.tuples(component, component, component, st.floats(1e-3, 0.06), st.integers(1, 15)),
    min_size=1,
    max_size=8,
)


@pytest.mark.parametrize("kind", BASES)
@settings(derandomize=True, deadline=None, max_examples=12)
@given(commands)
def test_no_limit_is_ever_exceeded(kind, stream):
    base, limits = BASES[kind](), BaseLimits(**AXES, **WHEELS)
    controller = BaseController(base, BaseControllerConfig(limits=limits))
    before, now = controller.driven, 0.0
    for vx, vy, wz, dt, repeat in stream:
        for _ in range(repeat):
            now += dt
            controller.command(Twist2(vx, vy, wz), now)
            step = controller.step(now, dt)
            for axis, name in ((limits.x, "vx"), (limits.yaw, "wz"), (limits.y, "vy")):
                if name == "vy" and base.steering_names:
                    continue  # of a car it follows from yaw
                old, new = getattr(before.twist, name), getattr(step.twist, name)
                low, high = axis.reach(old, dt)
                assert low - 1e-9 <= new <= high + 1e-9, name
                assert -axis.backward - 1e-9 <= new <= axis.forward + 1e-9, name
            assert abs(step.wheels).max() <= limits.max_wheel_velocity * (1 + 1e-12)
            change = abs(step.wheels - before.wheels).max()
            assert change <= limits.max_wheel_acceleration * dt * (1 + 1e-9) + 1e-9
            # Commands to wheels and steering match the reported twist.
            rolled = base.twist_from_wheels(step.wheels, step.steering)
            np.testing.assert_allclose(rolled, step.twist, atol=1e-9)
            before = step


@pytest.mark.long
@pytest.mark.parametrize("kind", BASES)
@settings(derandomize=True, deadline=None, max_examples=12)
@given(component, component, component, st.sampled_from((math.nan, 2.0)))
def test_starts_and_stops_keep_the_direction(kind, vx, vy, wz, jerk):
    base = BASES[kind]()
    limits = BaseLimits(
        **(AXES | {"x": BodyAxisLimits(max_velocity=1.5, max_acceleration=1.2, max_jerk=jerk)}),
        **WHEELS,
    )
    controller = BaseController(base, BaseControllerConfig(limits=limits, cmd_vel_timeout=6.0))
    if base.steering_names:
        # The steering determines a car's curve, so it begins at that of the command.
        angles = base.steer(base.nearest_twist(Twist2(vx, vy, wz)), np.zeros(2), 1e9)
        controller.measure(np.zeros(4), 0.0, angles)
    controller.command(Twist2(vx, vy, wz), 0.0)
    seen = np.array([controller.step(0.02 * i, 0.02).twist for i in range(700)])
    assert not seen[-1].any()
    wanted = limits.within_velocity(base.nearest_twist(Twist2(vx, vy, wz)))
    scale = np.linalg.norm(wanted) * np.linalg.norm(seen, axis=1)
    assert np.all(np.linalg.norm(np.cross(seen, wanted), axis=1) <= 1e-9 * scale + 1e-12)
    assert np.all(seen @ wanted >= -1e-12)
    fastest = np.linalg.norm(seen, axis=1).max()
    if base.wheel_names and abs(base.wheels_from_twist(wanted)).max() <= 12.0:
        assert fastest == pytest.approx(np.linalg.norm(wanted), abs=1e-9)


@pytest.mark.parametrize("kind", ["differential", "omni", "mecanum"])
def test_what_a_wheel_cannot_do_slows_the_whole_base(kind):
    base = BASES[kind]()
    wanted = base.nearest_twist(Twist2(3.0, 1.0, 2.0))
    config = BaseControllerConfig(limits=BaseLimits(max_wheel_velocity=5.0))
    controller = BaseController(base, config)
    controller.command(wanted, 0.0)
    step = controller.step(0.0, 0.02)
    assert abs(step.wheels).max() == pytest.approx(5.0)
    np.testing.assert_allclose(np.cross(step.twist, wanted), 0.0, atol=1e-9)


def test_a_car_slows_down_for_a_curve_that_its_outer_wheel_is_too_slow_for():
    base = car()
    config = BaseControllerConfig(limits=BaseLimits(max_wheel_velocity=4.0), cmd_vel_timeout=9.0)
    controller = BaseController(base, config)
    controller.command(Twist2(1.0), 0.0)
    assert controller.step(0.0, 0.02).twist == (1.0, 0.0, 0.0)
    controller.command(Twist2(1.0, 0.0, 0.3), 0.0)
    steps = [controller.step(0.0, 0.02) for _ in range(50)]
    assert steps[-1].twist.vx < 0.95
    assert max(abs(step.wheels).max() for step in steps) <= 4.0 * (1 + 1e-12)
    assert steps[-1].twist.wz / steps[-1].twist.vx == pytest.approx(0.3)


def test_a_car_turns_round_on_its_curve():
    """From forward left to backward left: it never yaws to the other side."""
    base = car()
    controller = BaseController(
        base, BaseControllerConfig(limits=BaseLimits(x=BodyAxisLimits(max_acceleration=1.0)))
    )
    now, seen = 0.0, []
    for wanted in (Twist2(0.5, 0.0, 0.15), Twist2(-0.5, 0.0, 0.15)):
        for _ in range(150):
            now += 0.02
            controller.command(wanted, now)
            seen.append(controller.step(now, 0.02).twist)
    assert seen[149] == pytest.approx((0.5, 0.0, 0.15))
    assert seen[-1] == pytest.approx((-0.5, 0.0, 0.15))
    wz = np.array([twist.wz for twist in seen])
    vx = np.array([twist.vx for twist in seen])
    turning_round = (np.arange(300) >= 150) & (vx >= 0.0)
    assert np.all(wz[turning_round] >= 0.0)
    np.testing.assert_allclose(wz[turning_round], 0.3 * vx[turning_round], atol=1e-9)


def test_a_stop_leaves_the_steering_where_it_is():
    controller = BaseController(car(), BaseControllerConfig(limits=BaseLimits()))
    controller.command(Twist2(0.5, 0.0, 0.15), 0.0)
    for _ in range(50):
        turned = controller.step(0.0, 0.02).steering
    assert turned[0] > turned[1] > 0.3
    np.testing.assert_array_equal(controller.halt().steering, turned)
    np.testing.assert_array_equal(controller.step(9.0, 0.02).steering, turned)
    assert controller.driven.twist == Twist2()


def test_the_steering_begins_where_it_is_measured():
    base = car()
    controller = BaseController(base, BaseControllerConfig(limits=BaseLimits()))
    measured = base.steer(Twist2(1.0, 0.0, 0.2), np.zeros(2), 1e9)
    controller.measure(np.zeros(4), 0.0, measured)
    np.testing.assert_array_equal(controller.step(0.0, 0.02).steering, measured)
    with pytest.raises(ValueError, check=about("steering angles")):
        controller.measure(np.zeros(4), 0.0, np.zeros(1))
