# SPDX-License-Identifier: Apache-2.0
"""Mobile bases among random obstacles in MuJoCo: arrivals, contacts, clearances.

A base has a planar scanner with noise of 1 cm and wheel odometry, and drives to a pose or along a
path through boxes and cylinders. Ackermann bases drive arcs around them. Navigator and controller
are configured as by their nodes. MuJoCo reports the contacts. All times are simulated.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from harness import Options, Report, Row, Spread, benchmark, median, progress
from sim.lockstep_robot import NAME, WheeledRobot

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.navigation.base_motion import BaseMotion
from motion_nodes.core.navigation.follow_path import FollowPath
from motion_nodes.core.navigation.footprint import Footprint, into_base
from motion_nodes.core.navigation.navigator import MotionResult, NavigationTask, Navigator
from motion_nodes.core.navigation.obstacle_avoidance import SeenObstacles
from motion_nodes.core.navigation.obstacle_memory import (
    LaserReadings,
    MemoryConfig,
    ObstacleMemory,
    view_of_scan,
)
from motion_nodes.core.navigation.planar_geometry import PlanarPath, Pose2
from motion_nodes.core.navigation.pose_motions import GoToPose
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.robot_yaml import LaserScannerDescription
from motion_nodes.core.robot.tree import Box, Cylinder
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.cell_words import FreeBody
from motion_nodes.extras.sim.mjcf import WorldConfig
from motion_nodes.extras.sim.mujoco_world import MujocoWorld
from motion_nodes.extras.sim.sensors import SimulatedLaser
from motion_nodes.nodes.navigation import navigator_params as nodes
from motion_nodes.nodes.navigation.navigator_params import NavigatorParams
from motion_nodes.typing import Array

ROBOTS = ["turtlebot3_burger", "jetbot", "nova_carter", "kaya", "leatherback"]
PERIOD = 0.02
"""Period of navigator and controller [s]."""
SCAN_PERIOD = 0.1
OBSTACLES = 7
MOST = 180.0
"""Max simulated duration of a scene [s]."""
_TURN = np.linspace(0.0, math.tau, 161)
CIRCLE = np.column_stack((np.cos(_TURN), np.sin(_TURN)))
"""Points of the unit circle, also on the diagonals."""


class Outcome(NamedTuple):
    """Result of a scene."""

    task: NavigationTask
    touches: int
    clearance: float


def params_of(robot: Robot, radius: float) -> NavigatorParams:
    """Return the navigator's default parameters, with detours up to the course's length."""
    return NavigatorParams(
        robot=robot.name, obstacles_blocked_timeout=1.0, obstacles_obstacle_timeout=8.0,
        obstacles_max_detour=max(2.0, 6.0 * radius), **nodes.navigator_defaults(robot),
    )  # fmt: skip


def motion_of(robot: Robot, params: NavigatorParams, length: float, seed: int) -> BaseMotion:
    """Return a motion to the end of the course: to a pose, or along a path by either law."""
    kind = nodes.kind_of(robot)
    if seed % 3 == 0 and kind != "ackermann":
        return GoToPose(kind, Pose2(length, 0.0, 0.5), nodes.limits_of(params))
    x = np.linspace(0.0, length, 80)
    bend = 0.05 * length * np.sin(math.tau * x / length)
    slope = 0.05 * math.tau * np.cos(math.tau * x / length)
    rows = np.column_stack((x, bend, np.arctan(slope)))
    law = ("stanley", "rear_axle")[seed % 2]
    config = replace(nodes.config_of(params, kind).follow, law=law)
    return FollowPath(kind, PlanarPath(rows), config)


def obstacles(
    footprint: Footprint, length: float, rng: np.random.Generator
) -> tuple[list[FreeBody], Array]:
    """Return heavy bodies on the course, and points on their outlines [m], shape (n, 2)."""
    radius, height = footprint.radius, footprint.top + 0.2
    bodies, outlines = [], [np.empty((0, 2))]
    placed: list[tuple[float, float, float]] = []
    while len(bodies) < OBSTACLES:
        x, y = rng.uniform(0.1, 0.9) * length, rng.uniform(-0.25, 0.25) * length
        size = rng.uniform(0.03, 0.1) + rng.uniform(0.0, 0.4) * radius
        apart = 1.1 * radius + size * math.sqrt(2.0) + 0.15
        near = any(math.hypot(x - u, y - v) < 1.5 * (size + r) for u, v, r in placed)
        if near or math.hypot(x, y) < apart or math.hypot(x - length, y) < apart:
            continue
        placed.append((x, y, size))
        yaw, number = float(rng.uniform(-math.pi, math.pi)), len(bodies)
        X = from_xyz_rpy((x, y, 0.5 * height), (0.0, 0.0, yaw))
        if number % 2:
            shape, local = Cylinder(size, height), size * CIRCLE
        else:
            shape = Box(2.0 * size, 1.2 * size, height)
            local = (size, 0.6 * size) * CIRCLE / np.abs(CIRCLE).max(axis=1, keepdims=True)
        bodies.append(FreeBody(f"obstacle{number}", shape, 100.0, X))
        c, s = math.cos(yaw), math.sin(yaw)
        outlines.append(local @ np.array(((c, s), (-s, c))) + (x, y))
    return bodies, np.concatenate(outlines)


def run(robot: Robot, seed: int) -> Outcome:
    """Run one scene."""
    footprint = nodes.footprint_of(robot)
    length, params = max(2.4, 10.0 * footprint.radius), params_of(robot, footprint.radius)
    bodies, outline = obstacles(footprint, length, np.random.default_rng(seed))
    world = MujocoWorld([RobotPlacement(robot, NAME)], WorldConfig(objects=tuple(bodies)))
    cell = WheeledRobot(robot, world)
    given, height = robot.description.laser_scanners, footprint.top + 0.01
    scanner = LaserScannerDescription(robot.base_frame, range_min=0.02, range_max=8.0)
    scanner = replace(given[0] if given else scanner, noise=0.01)
    X_BS = from_xyz_rpy((0.0, 0.0, height), (0.0, 0.0, 0.0))
    laser = SimulatedLaser(world, NAME, scanner, None if given else X_BS)
    if given:
        X_BS = Kinematics(robot.tree, base=robot.base_frame).pose(robot.home, scanner.link)
    avoidance, kind = nodes.avoidance_of(params, robot), nodes.kind_of(robot)
    navigator = Navigator(nodes.limits_of(params), kind=kind, avoidance=avoidance)
    task = navigator.start(motion_of(robot, params, length, seed), "bench", Twist2())
    memory = ObstacleMemory(footprint, MemoryConfig(reach=max(4.0, 6.0 * footprint.radius)))
    touched, clearance, due = set[str](), math.inf, 0.0
    step = np.linspace(scanner.angle_min, scanner.angle_max, scanner.rays)
    while task.time < MOST:
        cell.measure(PERIOD)
        pose = cell.odometry
        if world.time >= due:
            due = world.time + SCAN_PERIOD
            readings = LaserReadings(
                ranges=laser.scan(), angle_min=scanner.angle_min,
                angle_increment=float(step[1] - step[0]), range_min=scanner.range_min,
                range_max=scanner.range_max,
            )  # fmt: skip
            view = view_of_scan(readings, X_BS, footprint.floor + 0.03, height, 6.0)
            memory.add(view, pose, world.time)
        seen = SeenObstacles(memory.around(pose))
        twist = navigator.step(pose, cell.controller.odometry.twist, PERIOD, seen)
        if twist is None:
            break
        cell.controller.command(twist, world.time)
        cell.drive(PERIOD)
        for _ in range(2):
            cell.step(0.5 * PERIOD)
            touched |= {c.pair[1] for c in world.contacts() if any("obstacle" in n for n in c.pair)}
        distances = footprint.distances(into_base(outline, cell.pose))
        clearance = min(clearance, float(distances.min()))
    return Outcome(task, len(touched), clearance)


@benchmark("Bases among obstacles", scenes=(40, "of each robot"), robots=(ROBOTS, "", ROBOTS))
def main(report: Report, options: Options) -> None:
    """Run all scenes of all robots."""
    rows: list[Row] = []
    for name in options.robots:
        robot, found = load_robot(name), list[Outcome]()
        for seed in range(options.scenes):
            found.append(run(robot, seed))
            task, touches, least = found[-1]
            if touches or task.ending is not MotionResult.SUCCEEDED:
                progress(f"{name} {seed}: {touches} touches, {least:.3f} m, {task.text}")
        count = Counter(outcome.task.ending for outcome in found)
        arrived, blocked = count[MotionResult.SUCCEEDED], count[MotionResult.BLOCKED]
        clearance = Spread.of(1e3 * o.clearance for o in found)
        rows.append({
            "robot": name, "scenes": len(found), "arrived": arrived, "blocked": blocked,
            "failed": len(found) - arrived - blocked, "touches": sum(o.touches > 0 for o in found),
            "min clearance [mm]": clearance.least, "median [mm]": clearance.p50,
            "detours": sum(o.task.detours for o in found), "time to arrive, median [s]":
            median(o.task.time for o in found if o.task.ending is MotionResult.SUCCEEDED),
        })  # fmt: skip
    kept = params_of(robot, 0.0).obstacles_clearance
    report.table(f"{OBSTACLES} obstacles a scene, clearance {kept:g} m, scanner with 1 cm of noise",
                 rows)  # fmt: skip
