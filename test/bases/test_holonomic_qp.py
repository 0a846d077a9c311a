# SPDX-License-Identifier: Apache-2.0
"""The quadratic program of Isaac Sim: published numbers, optimum, and its actual motion."""

from __future__ import annotations

import math

import numpy as np
import pytest
from bases.holonomic_samples import kaya, mecanum, random_config
from scipy.optimize import minimize

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.bases.holonomic import (
    HolonomicBase,
    HolonomicConfig,
    HolonomicQpBase,
    HolonomicWheel,
)
from motion_nodes.errors import InvalidCommand

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
