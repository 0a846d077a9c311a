# SPDX-License-Identifier: Apache-2.0
"""Impedance control in MuJoCo."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.linalg
from control.compliant_arm import CompliantArm
from long_params import shortened

from motion_nodes.core.robot.poses import rotation_vector, turned

STIFF = {"stiffness": (1000.0, 1000.0, 500.0, 50.0, 50.0, 50.0), "frame": "base"}
SETTLING = 0.002
"""[s] Period where only the end of a slow motion counts."""


@pytest.mark.long
@pytest.mark.parametrize(("name", "bend"), [("franka", 0.0), ("ur10e", 0.8)])
def test_deflection_is_force_over_stiffness(name, bend):
    arm = CompliantArm(name, bend=bend, period=SETTLING, **STIFF)
    X = arm.pose
    for wrench in ((8.0, -6.0, 5.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 2.0, -1.0, 0.5)):
        arm.wrench = np.array(wrench)
        arm.run(3.5)
        expected = arm.wrench / np.array(STIFF["stiffness"])
        assert np.linalg.norm(arm.away(X) - expected) < 0.02 * np.linalg.norm(expected)
        np.testing.assert_allclose(arm.law.status.external_wrench, arm.wrench, atol=0.3)


@pytest.mark.long
def test_stiffness_acts_along_the_axes_of_the_tool():
    stiffness = (1000.0, 1000.0, 200.0, 50.0, 50.0, 50.0)
    arm = CompliantArm(stiffness=stiffness, frame="tool", period=SETTLING)
    X = arm.pose
    z = X[:3, 2]
    arm.wrench[:3] = 5.0 * z
    arm.run(2.5)
    np.testing.assert_allclose(arm.away(X)[:3], 0.025 * z, atol=5e-4)


@pytest.mark.long
def test_a_large_turn_takes_the_short_way():
    arm = CompliantArm(max_torque=20.0, period=SETTLING)
    X = arm.pose
    axis = X[:3, 2]
    goal = X.copy()
    goal[:3, :3] = turned(X[:3, :3], np.deg2rad(-120.0) * axis)
    arm.law.set_target(goal)
    turns = []
    for _ in range(40):
        arm.run(0.1)
        turns.append(rotation_vector(arm.pose[:3, :3] @ X[:3, :3].T) @ axis)
    assert np.rad2deg(turns[-1]) == pytest.approx(-120.0, abs=1.0)
    assert max(turns) < 0.01


def test_a_free_arm_holds_still():
    arm = CompliantArm(stiffness=(0.0, 0.0), nullspace_stiffness=0.0, period=SETTLING)
    arm.run(0.5)
    X = arm.pose
    arm.run(3.0)
    assert np.linalg.norm(arm.away(X)[:3]) < 2.5e-5, "0.5 mm a minute"


@pytest.mark.long
def test_the_tool_stays_where_it_is_when_the_elbow_moves():
    arm = CompliantArm(stiffness=(1000.0, 50.0), nullspace_stiffness=50.0, period=SETTLING)
    arm.run(0.5)
    X, q = arm.pose, arm.state[0]
    arm.law.set_posture(q + np.array([0.4, 0.0, -0.4, 0.0, 0.4, 0.0, -0.4]))
    most = 0.0
    for _ in range(20):
        arm.run(0.1)
        most = max(most, float(np.linalg.norm(arm.away(X)[:3])))
    assert np.abs(arm.state[0] - q).max() > 0.1, "the elbow moved"
    assert most < 1e-3


@pytest.mark.long
@pytest.mark.parametrize(("ratio", "mode"), shortened([(0.3, 0), (0.7, 3), (0.3, 5)], 2))
def test_damping_ratio_is_as_asked(ratio, mode):
    """From the overshoot of a mode: exp(-pi zeta / sqrt(1 - zeta^2))."""
    arm = CompliantArm(
        stiffness=(400.0, 30.0), damping_ratio=(ratio, ratio), nullspace_stiffness=0.0, frame="base"
    )
    X, inertia = arm.pose, arm.law.space.at(*arm.state[:2]).inertia
    k, shapes = scipy.linalg.eigh(np.diag(arm.law.settings.six("stiffness")), inertia)
    shape = shapes[:, mode] * 0.01 / np.abs(shapes[:, mode]).max()
    goal = X.copy()
    goal[:3, 3] += shape[:3]
    goal[:3, :3] = turned(X[:3, :3], shape[3:])
    arm.law.set_target(goal)
    arm.law._filter.pose = goal.copy()  # a step, not a ramp
    way = []
    for _ in range(round(6000.0 / np.sqrt(k[mode]))):
        arm.step()
        way.append(shape @ inertia @ arm.away(X) / (shape @ inertia @ shape))
    log = np.log(max(way) - 1.0)
    assert -log / np.hypot(np.pi, log) == pytest.approx(ratio, rel=0.1)


@pytest.mark.long
@pytest.mark.parametrize("period", shortened([0.004, 0.001]))
def test_pushed_anywhere_it_gives_back_no_more_than_it_got(period):
    rng = np.random.default_rng(5)
    arm = CompliantArm(period=period, nullspace_stiffness=0.0)
    arm.run(0.3)
    for _ in range(4):
        wrench = rng.normal(size=6) * (8.0, 8.0, 8.0, 1.0, 1.0, 1.0)
        given, left = arm.push(wrench, 0.4, 0.8)
        assert left <= given + 1e-3
        assert arm.law.status.energy > -1e-3


@pytest.mark.long
def test_forces_and_efforts_are_limited():
    arm = CompliantArm(max_force=20.0, max_velocity=10.0, max_acceleration=100.0)
    goal = arm.pose
    goal[0, 3] += 0.3
    arm.law.set_target(goal)
    before = arm.efforts[arm.arm].copy()
    for _ in range(200):
        arm.step()
        efforts = arm.efforts[arm.arm]
        if np.isfinite(before).all():
            assert np.abs(efforts - before).max() <= 1000.0 * arm.period + 1e-9
        assert (np.abs(efforts) <= arm.law.limits.effort).all()
        before = efforts.copy()
    arm.run(1.5)
    X = arm.pose
    arm.wrench[0] = -25.0
    arm.run(1.0)
    assert arm.away(X)[0] < -0.01, "stronger than the limit"


@pytest.mark.long
def test_a_payload_is_carried_where_it_is_known():
    arm = CompliantArm(**STIFF)
    X = arm.pose
    arm.wrench[2] = -1.5 * 9.80665
    arm.law.set_settings(dataclasses.replace(arm.law.settings, payload_mass=1.5))
    arm.run(2.0)
    assert np.abs(arm.away(X)[:3]).max() < 1e-3


@pytest.mark.long
def test_a_force_is_controlled_while_the_tool_slides_on_a_floor():
    """The floor is soft, and has friction; the force is that of MuJoCo's contacts."""
    arm = CompliantArm(
        frame="base", stiffness=(1500.0, 60.0), max_velocity=0.1, force_gain=2.0
    )  # fmt: skip
    arm.world.model.geom_friction[:, 0], arm.world.model.geom_solref[:, 0] = 0.3, 0.02
    arm.world.model.geom_solimp[:, :3] = (0.9, 0.95, 1e-3)
    low = arm.pose
    low[2, 3] = 0.012
    arm.law.set_target(low)
    arm.run(5.0)
    arm.law.set_settings(dataclasses.replace(arm.law.settings, force_axes=("z",)))
    arm.law.set_wrench((0.0, 0.0, -10.0, 0.0, 0.0, 0.0))
    arm.run(2.0)
    assert arm.floor_force() == pytest.approx(10.0, abs=0.5)
    slide = low.copy()
    slide[1, 3] += 0.15
    arm.law.set_target(slide)
    forces = []
    for _ in range(2000):
        arm.step()
        forces.append(arm.floor_force())
    # Both fingers chatter: average over 0.1 s.
    means = np.convolve(forces, np.full(100, 0.01), "valid")[200:]
    assert means.min() > 8.0
    assert means.max() < 12.0
    assert arm.away(low)[1] > 0.1


@pytest.mark.long
def test_a_tool_that_was_pushed_off_a_surface_returns():
    """The force correction has compensated the whole push by then."""
    damping = (np.nan, np.nan, 100.0, np.nan, np.nan, np.nan)
    arm = CompliantArm(frame="base", force_axes=("z",), damping=damping)
    arm.law.set_wrench((0.0, 0.0, -5.0, 0.0, 0.0, 0.0))
    arm.wrench[2] = 25.0
    arm.run(0.4)
    arm.wrench[2] = 0.0
    arm.run(0.8)
    assert arm.law.space.at(*arm.state[:2]).twist[2] < -0.03
