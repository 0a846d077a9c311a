# SPDX-License-Identifier: Apache-2.0
"""The shipped bases in MuJoCo with their controller: wheel odometry against ground truth."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from sim.lockstep_robot import NAME, WheeledRobot

from motion_nodes.core.bases.base import BaseLimits, BodyAxisLimits, Twist2
from motion_nodes.core.bases.controller import BaseControllerConfig
from motion_nodes.core.bases.from_robot import base_of
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy, inverse
from motion_nodes.core.robot.robot import Robot
from motion_nodes.extras.sim.backend import MockWorld, RobotBackend, RobotPlacement
from motion_nodes.extras.sim.drive_targets import JointTargets
from motion_nodes.extras.sim.mujoco_world import MujocoWorld

BASES = ("jetbot", "nova_carter", "kaya", "leatherback")
PERIOD = 0.01
X_WR = from_xyz_rpy((1.0, -2.0, 0.0), (0.0, 0.0, 0.7))


_RAMP = BodyAxisLimits(max_acceleration=1.0)
CONFIG = BaseControllerConfig(
    limits=BaseLimits(x=_RAMP, y=_RAMP, yaw=BodyAxisLimits(max_acceleration=2.0))
)
"""Low acceleration limits."""


def drive(
    world: RobotBackend, robot: Robot, program: Callable[[float], Twist2], seconds: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """Drive a base by a program of twists over time.

    Returns:
        Poses by odometry and in the world, (x, y, yaw) from the start, and the travelled
        distance [m].
    """
    cell = WheeledRobot(robot, world, CONFIG)
    start = world.base_pose(NAME)
    way, last = 0.0, start[:2, 3]
    for k in range(round(seconds / PERIOD)):
        cell.measure(PERIOD)
        cell.controller.command(program(k * PERIOD), world.time)
        cell.drive(PERIOD)
        cell.step(PERIOD)
        here = world.base_pose(NAME)[:2, 3]
        way, last = way + math.dist(here, last), here
    cell.measure(PERIOD)
    X = inverse(start) @ world.base_pose(NAME)
    odometry = cell.odometry
    return (
        np.array((odometry.x, odometry.y, odometry.yaw)),
        np.array((X[0, 3], X[1, 3], math.atan2(X[1, 0], X[0, 0]))),
        way,
    )


def program_of(robot: Robot) -> Callable[[float], Twist2]:
    """Return turns to both sides, forward and backward, and sideways if the base can."""
    base = robot.base
    assert base is not None
    v, w = 0.5 * base.linear.x.max_velocity, 0.4 * base.angular.z.max_velocity
    side = 0.5 * v if robot.kind == "holonomic" else 0.0

    def program(t: float) -> Twist2:
        if t < 2.0:
            return Twist2(v, side, w)
        if t < 4.0:
            return Twist2(v, -side, -w)
        return Twist2(-v, side, 0.5 * w) if t < 6.0 else Twist2()

    return program


@pytest.mark.parametrize("name", BASES)
def test_wheel_odometry_is_within_a_percent_of_the_truth(name: str) -> None:
    robot = load_robot(name)
    world = MujocoWorld([RobotPlacement(robot, NAME, X_WR)])
    believed, true, way = drive(world, robot, program_of(robot), 7.5)
    assert way > 0.8
    assert math.dist(believed[:2], true[:2]) < 0.01 * way
    assert abs(math.remainder(believed[2] - true[2], math.tau)) < 0.02
    # It is at rest and upright.
    assert np.abs(world.base_twist(NAME)).max() < 0.01
    assert world.base_pose(NAME)[2, 2] > 0.9999


@pytest.mark.long
@pytest.mark.parametrize("name", BASES)
def test_without_physics_odometry_and_truth_are_the_same(name: str) -> None:
    robot = load_robot(name)
    world = MockWorld([RobotPlacement(robot, NAME, X_WR)])
    believed, true, way = drive(world, robot, program_of(robot), 7.5)
    assert way > 0.8
    np.testing.assert_allclose(believed, true, atol=2e-3)


def test_the_wheels_of_a_car_take_their_angles() -> None:
    robot = load_robot("leatherback")
    world = MujocoWorld([RobotPlacement(robot, NAME)])
    drive(world, robot, lambda t: Twist2(0.8, 0.0, 1.0), 3.0)
    q = dict(zip(robot.joint_names, world.state(NAME).position, strict=True))
    R, L, T = 0.8, 0.32, 0.24
    left, right = q["Knuckle__Upright__Front_Left"], q["Knuckle__Upright__Front_Right"]
    assert left == pytest.approx(math.atan(L / (R - T / 2)), abs=0.01)
    assert right == pytest.approx(math.atan(L / (R + T / 2)), abs=0.01)
    # The turning circle of the rear axle's middle.
    twist = world.base_twist(NAME)
    assert twist[0] / twist[5] == pytest.approx(R, rel=0.02)


def test_a_holonomic_base_slides_without_turning() -> None:
    robot = load_robot("kaya")
    world = MujocoWorld([RobotPlacement(robot, NAME)])
    _, true, _ = drive(world, robot, lambda t: Twist2(0.0, 0.3, 0.0), 4.0)
    assert true[1] > 1.0
    assert abs(true[0]) < 0.02
    assert abs(true[2]) < 0.02


def test_bases_of_every_kind_share_a_world() -> None:
    placements = [
        RobotPlacement(load_robot(name), name, from_xyz_rpy((0.0, 1.5 * i, 0.0)))
        for i, name in enumerate(BASES)
    ]
    world = MujocoWorld(placements)
    for placement in placements:
        robot = placement.robot
        base = base_of(robot)
        speeds = np.full(len(robot.joint_names), np.nan)
        wheels = [robot.joint_names.index(name) for name in base.wheel_names]
        speeds[wheels] = base.wheels_from_twist(Twist2(0.2))
        world.command(placement.name, JointTargets(velocity=speeds))
    world.step(1500)
    for placement in placements:
        X = inverse(placement.X_WR) @ world.base_pose(placement.name)
        assert X[0, 3] == pytest.approx(0.6, abs=0.03), placement.name
        assert abs(X[1, 3]) < 0.02
