# SPDX-License-Identifier: Apache-2.0
"""Tracking errors of an effort-controlled Franka, with core and physics in lockstep.

Without processes and clocks, so the results are the same on every machine.
"""

from __future__ import annotations

import numpy as np
import pytest

from motion_nodes.core.control.joint_arbiter import JointArbiter
from motion_nodes.core.control.joint_controller import ArticulationController
from motion_nodes.core.control.joint_drive import DriveGains, DriveLaw, motion_load, one_step_back
from motion_nodes.core.control.trajectory_follower import FollowGoal, Tolerances
from motion_nodes.core.robot.inverse_dynamics import InverseDynamics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.drive_targets import JointTargets
from motion_nodes.extras.sim.mujoco_world import MujocoWorld

FRANKA = load_robot("franka")
JOINTS = FRANKA.joint_names
PERIOD = 0.004
SECONDS = 4.0


def sine(t):
    """Return position and velocity of the arm's joints: from rest, 0.5 Hz, up to 1 rad/s."""
    w, ramp = np.pi, np.clip(t, 0.0, 1.0)
    grow, slope = ramp**2 * (3 - 2 * ramp), np.where(t < 1.0, 6 * ramp * (1 - ramp), 0.0)
    wave, rate = np.sin(w * t), w * np.cos(w * t)
    swing = 0.3 * np.array([1.0, 0.6, -1.0, 0.8, 1.0, -0.9, 1.0, 0.0, 0.0])
    q = FRANKA.home + np.multiply.outer(grow * wave, swing)
    return q, np.multiply.outer(slope * wave + grow * rate, swing)


def errors(*, gravity: bool, inertia: bool) -> np.ndarray:
    """Return measured minus reference positions of the arm [rad], a row per period, (k, 7)."""
    world = MujocoWorld([RobotPlacement(FRANKA, "arm")])
    controller = ArticulationController(FRANKA.limits)
    controller.reset(world.state("arm").position)
    runner = JointArbiter(controller)
    times = np.linspace(0.0, SECONDS, 401)
    n = len(JOINTS)
    none = Tolerances.uniform(n, 0.0)
    runner.start(
        FollowGoal(trajectory=JointTrajectory(JOINTS, times, *sine(times)), path=none, goal=none),
        "the test",
    )
    drives = FRANKA.drives
    gains = DriveGains(*([getattr(d, k) for d in drives] for k in ("kp", "kd", "ki")))
    law = DriveLaw(JOINTS, gains, FRANKA.limits.effort)
    dynamics = InverseDynamics(FRANKA.tree, JOINTS, armature=[d.armature for d in drives])
    found = []
    for k in range(round(SECONDS / PERIOD)):
        state = world.state("arm")
        found.append(state.position - sine(np.array([k * PERIOD]))[0][0])
        reference = one_step_back(runner.step(PERIOD, state.position, state.velocity), PERIOD)
        load = motion_load(dynamics, reference, state.position, state.velocity,
                           gravity=gravity, inertia=inertia)  # fmt: skip
        tau = law.efforts(reference, state.position, state.velocity, PERIOD, load=load)
        world.command("arm", JointTargets(effort=tau))
        world.step(round(PERIOD / world.time_step))
    return np.array(found)[:, :7]


def rms(values: np.ndarray) -> float:
    return float(np.sqrt((values**2).mean()))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_inverse_dynamics_follow_closely(record_property):
    full, held = errors(gravity=True, inertia=True), errors(gravity=True, inertia=False)
    for name, found in (("inverse dynamics", full), ("gravity alone", held)):
        record_property(f"{name}: RMS [rad]", rms(found))
        record_property(f"{name}: max [rad]", float(np.abs(found).max()))
    assert rms(full) < 4e-4
    assert np.abs(full).max() < 1.5e-3
    assert rms(full) < 0.1 * rms(held)


def test_without_an_integral_a_joint_is_a_spring_of_its_gain():
    """Joint impedance: efforts of kp and kd on top of the inverse dynamics."""
    world = MujocoWorld([RobotPlacement(FRANKA, "arm")])
    kp = np.array([drive.kp for drive in FRANKA.drives])
    kd = np.array([drive.kd for drive in FRANKA.drives])
    law = DriveLaw(JOINTS, DriveGains(kp, kd, np.zeros(len(JOINTS))), FRANKA.limits.effort)
    dynamics = InverseDynamics(FRANKA.tree, JOINTS, armature=[d.armature for d in FRANKA.drives])
    controller = ArticulationController(FRANKA.limits)
    controller.reset(world.state("arm").position)
    push = np.array([9.0, -12.0, 6.0, 10.0, -3.0, 2.0, 0.5])
    at = [world.model.joint(f"arm/{joint}").dofadr[0] for joint in JOINTS[:7]]
    world.data.qfrc_applied[at] = push
    for _ in range(round(3.0 / PERIOD)):
        state = world.state("arm")
        reference = controller.step(PERIOD)
        load = motion_load(dynamics, reference, state.position, state.velocity,
                           gravity=True, inertia=True)  # fmt: skip
        tau = law.efforts(reference, state.position, state.velocity, PERIOD, load=load)
        world.command("arm", JointTargets(effort=tau))
        world.step(round(PERIOD / world.time_step))
    deflection = (world.state("arm").position - FRANKA.home)[:7]
    np.testing.assert_allclose(deflection, push / kp[:7], rtol=0.02)
