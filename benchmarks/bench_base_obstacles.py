# SPDX-License-Identifier: Apache-2.0
"""Bases among random obstacles in MuJoCo, which judges contacts: arrivals, touches, clearances.

A base sees by one planar scanner with noise of 1 cm, knows its pose by wheel odometry, and goes to
a pose or along a path through boxes and cylinders. Cars only stop. All times are simulated.
"""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np
from harness.report import Report, arguments, progress

from motion_nodes.base_navigation.base_motion import BaseMotion
from motion_nodes.base_navigation.detour_search import DetourConfig
from motion_nodes.base_navigation.follow_path import FollowConfig, FollowPath
from motion_nodes.base_navigation.footprint import Footprint
from motion_nodes.base_navigation.free_motion import into_base
from motion_nodes.base_navigation.go_to_pose import GoToPose
from motion_nodes.base_navigation.motion_limits import BaseKind, MotionLimits
from motion_nodes.base_navigation.navigator import MotionResult, Navigator
from motion_nodes.base_navigation.obstacle_avoidance import (
    AvoidanceConfig,
    ObstacleAvoidance,
    SeenObstacles,
)
from motion_nodes.base_navigation.obstacle_memory import MemoryConfig, ObstacleMemory, PoseHistory
from motion_nodes.base_navigation.obstacle_points import LaserReadings, view_of_scan
from motion_nodes.base_navigation.planar_path import PlanarPath
from motion_nodes.base_navigation.planar_pose import Pose2
from motion_nodes.base_navigation.robot_footprint import footprint_of
from motion_nodes.base_navigation.stanley import SteeringConfig
from motion_nodes.bases.ackermann_robot import max_steering_angle
from motion_nodes.bases.base import Twist2
from motion_nodes.bases.base_limits import BaseLimits, BodyAxisLimits
from motion_nodes.bases.controller import BaseController, BaseControllerConfig
from motion_nodes.bases.from_robot import base_of
from motion_nodes.model.base_description import AckermannSpec, AxisLimits, HolonomicSpec
from motion_nodes.model.loader import load_robot
from motion_nodes.model.poses import from_xyz_rpy, inverse
from motion_nodes.model.robot import Robot
from motion_nodes.model.robot_yaml import LaserScannerDescription
from motion_nodes.model.tree import Array, Box, Cylinder
from motion_nodes.sim.drive_targets import JointTargets
from motion_nodes.sim.free_bodies import FreeBody
from motion_nodes.sim.laser_scanner import SimulatedLaser
from motion_nodes.sim.mjcf import WorldConfig
from motion_nodes.sim.mujoco_world import MujocoWorld
from motion_nodes.sim.placement import RobotPlacement

ROBOTS = ("turtlebot3_burger", "jetbot", "nova_carter", "kaya", "leatherback")
PERIOD = 0.02
"""Of navigator and controller [s]."""
SCAN_PERIOD = 0.1
OBSTACLES = 7
MOST = 180.0
"""Max simulated time of a scene [s]."""
CLEARANCE = 0.1


@dataclass
class Setup:
    """A robot and what its navigator needs."""

    robot: Robot
    kind: BaseKind
    footprint: Footprint
    limits: MotionLimits
    steering: SteeringConfig

    @classmethod
    def of(cls, name: str) -> Setup:
        """Return the same as the navigator's defaults."""
        robot = load_robot(name)
        spec = robot.base
        assert spec is not None
        axes = [axis for axis in (spec.linear.x, spec.linear.y) if axis is not None]
        acceleration, z = min(axis.max_acceleration for axis in axes), spec.angular.z
        limits = MotionLimits(
            max_velocity=min(axis.max_velocity for axis in axes),
            max_acceleration=acceleration, max_deceleration=acceleration,
            max_yaw_velocity=z.max_velocity, max_yaw_acceleration=z.max_acceleration,
            max_yaw_deceleration=z.max_acceleration,
        )  # fmt: skip
        steering = SteeringConfig(wheelbase=0.3)
        kind: BaseKind = "holonomic" if isinstance(spec, HolonomicSpec) else "differential"
        if isinstance(spec, AckermannSpec):
            kind = "ackermann"
            steering = SteeringConfig(
                wheelbase=spec.wheelbase, max_steering_angle=max_steering_angle(robot, spec)
            )
        return cls(robot, kind, footprint_of(robot), limits, steering)

    @property
    def course(self) -> float:
        """Length of a scene [m]."""
        return max(2.4, 10.0 * self.footprint.radius)

    def controller(self) -> BaseController:
        """Return the controller with the robot's limits."""
        spec = self.robot.base
        assert spec is not None
        x = _axis(spec.linear.x)
        limits = BaseLimits(x=x, y=x, yaw=_axis(spec.angular.z))
        return BaseController(base_of(self.robot), BaseControllerConfig(limits=limits))

    def motion(self, seed: int) -> BaseMotion:
        """Return a motion to the end of the course: to a pose, or along a path by both laws."""
        length = self.course
        if seed % 3 == 0 and self.kind != "ackermann":
            return GoToPose(self.kind, Pose2(length, 0.0, 0.5), self.limits)
        x = np.linspace(0.0, length, 80)
        bend = 0.05 * length * np.sin(math.tau * x / length)
        slope = 0.05 * math.tau * np.cos(math.tau * x / length)
        rows = np.column_stack((x, bend, np.arctan(slope)))
        law = ("stanley", "rear_axle")[seed % 2]
        config = FollowConfig(limits=self.limits, steering=self.steering, law=law)
        return FollowPath(self.kind, PlanarPath(rows), config)


@dataclass
class Outcome:
    """What happened in a scene."""

    result: MotionResult
    text: str
    touches: int
    clearance: float
    detours: int
    seconds: float
    pushed: float = field(default=0.0)


def _axis(limits: AxisLimits) -> BodyAxisLimits:
    fall = limits.max_deceleration or limits.max_acceleration
    return BodyAxisLimits(
        max_velocity=limits.max_velocity, max_acceleration=limits.max_acceleration,
        max_deceleration=fall,
    )  # fmt: skip


def obstacles(setup: Setup, rng: np.random.Generator) -> tuple[list[FreeBody], Array]:
    """Return heavy bodies on the course, and points on their outlines, shape (n, 2)."""
    radius, length = setup.footprint.radius, setup.course
    bodies, outlines = [], [np.empty((0, 2))]
    height = setup.footprint.top + 0.2
    placed: list[tuple[float, float, float]] = []
    while len(bodies) < OBSTACLES:
        x, y = rng.uniform(0.1, 0.9) * length, rng.uniform(-0.25, 0.25) * length
        size = rng.uniform(0.03, 0.1) + rng.uniform(0.0, 0.4) * radius
        apart = 1.1 * radius + size * math.sqrt(2.0) + 0.15
        near = any(math.hypot(x - u, y - v) < 1.5 * (size + r) for u, v, r in placed)
        if near or math.hypot(x, y) < apart or math.hypot(x - length, y) < apart:
            continue
        placed.append((x, y, size))
        yaw = float(rng.uniform(-math.pi, math.pi))
        number = len(bodies)
        X = from_xyz_rpy((x, y, 0.5 * height), (0.0, 0.0, yaw))
        if number % 2:
            a = np.linspace(0.0, math.tau, 80)
            local = size * np.column_stack((np.cos(a), np.sin(a)))
            bodies.append(FreeBody(f"obstacle{number}", Cylinder(size, height), 100.0, X))
        else:
            side = np.linspace(-1.0, 1.0, 40)
            one = np.ones(40)
            square = [(side, one), (side, -one), (one, side), (-one, side)]
            local = np.concatenate([np.column_stack((size * u, 0.6 * size * v)) for u, v in square])
            bodies.append(
                FreeBody(f"obstacle{number}", Box(2.0 * size, 1.2 * size, height), 100.0, X)
            )
        c, s = math.cos(yaw), math.sin(yaw)
        outlines.append(local @ np.array(((c, s), (-s, c))) + (x, y))
    return bodies, np.concatenate(outlines)


def run(setup: Setup, seed: int) -> Outcome:
    """Drive one scene."""
    rng = np.random.default_rng(seed)
    bodies, outline = obstacles(setup, rng)
    robot, footprint = setup.robot, setup.footprint
    world = MujocoWorld([RobotPlacement(robot, "r")], WorldConfig(objects=tuple(bodies)))
    given = robot.description.laser_scanners
    height = footprint.top + 0.01
    scanner = LaserScannerDescription(robot.base_frame, range_min=0.02, range_max=8.0)
    X_BS = from_xyz_rpy((0.0, 0.0, height), (0.0, 0.0, 0.0))
    scanner = replace(given[0] if given else scanner, noise=0.01)
    mount = None if given else X_BS
    laser = SimulatedLaser(world, "r", scanner, mount)
    if given:
        link, base = (world.data.body(f"r/{name}") for name in (scanner.link, robot.base_frame))
        X_BS = inverse(_pose(base)) @ _pose(link)
    avoidance = ObstacleAvoidance(
        setup.kind, footprint, setup.limits,
        AvoidanceConfig(
            detour=DetourConfig(max_detour=max(2.0, 6.0 * footprint.radius)), blocked_timeout=1.0,
            obstacle_timeout=8.0,
        ),
    )  # fmt: skip
    navigator = Navigator(setup.limits, kind=setup.kind, avoidance=avoidance)
    task = navigator.start(setup.motion(seed), "bench", Twist2())
    memory = ObstacleMemory(footprint, MemoryConfig(reach=max(4.0, 6.0 * footprint.radius)))
    history = PoseHistory()
    controller = setup.controller()
    wheels = [robot.joint_names.index(name) for name in controller.base.wheel_names]
    steering = [robot.joint_names.index(name) for name in controller.base.steering_names]
    targets = np.full((2, len(robot.joint_names)), np.nan)
    touched: set[str] = set()
    clearance, due = math.inf, 0.0
    step = np.linspace(scanner.angle_min, scanner.angle_max, scanner.rays)
    while task.time < MOST:
        sample = world.state("r")
        controller.measure(sample.position[wheels], PERIOD, sample.position[steering])
        odometry = controller.odometry
        pose = Pose2(odometry.x, odometry.y, odometry.yaw)
        history.add(world.time, pose)
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
        twist = navigator.step(pose, odometry.twist, PERIOD, seen)
        if twist is None:
            break
        controller.command(twist, world.time)
        command = controller.step(world.time, PERIOD)
        targets[1, wheels], targets[0, steering] = command.wheels, command.steering
        world.command("r", JointTargets(*targets))
        for _ in range(2):
            world.step(round(0.5 * PERIOD / world.time_step))
            touched |= {c.pair[1] for c in world.contacts() if any("obstacle" in n for n in c.pair)}
        X = world.base_pose("r")
        true = Pose2(X[0, 3], X[1, 3], math.atan2(X[1, 0], X[0, 0]))
        near = into_base(outline, true)
        clearance = min(clearance, float(footprint.distances(near).min()))
    moved = [world.object_pose(b.name)[:2, 3] - b.X_WO[:2, 3] for b in bodies]
    pushed = max(float(np.hypot(*m)) for m in moved)
    return Outcome(task.ending, task.text, len(touched), clearance, task.detours, task.time, pushed)


def _pose(body: object) -> Array:
    X = np.eye(4)
    X[:3, :3], X[:3, 3] = body.xmat.reshape(3, 3), body.xpos  # type: ignore[attr-defined]
    return X


def main() -> None:
    """Run all scenes of all robots."""
    parser = arguments(__doc__)
    parser.add_argument("--scenes", type=int, default=40, help="of each robot")
    parser.add_argument("--robots", nargs="+", default=ROBOTS, choices=ROBOTS)
    args = parser.parse_args()
    report = Report("Bases among obstacles")
    rows = []
    for name in args.robots:
        setup, begin = Setup.of(name), time.perf_counter()
        found = []
        for seed in range(args.scenes):
            outcome = run(setup, seed)
            found.append(outcome)
            if outcome.touches or outcome.result is not MotionResult.SUCCEEDED:
                print(f"{name} {seed}: {outcome}", file=sys.stderr)
        count = Counter(outcome.result for outcome in found)
        progress(f"{name}: {time.perf_counter() - begin:.0f} s")
        arrived = [o for o in found if o.result is MotionResult.SUCCEEDED]
        rows.append([
            name, len(found), count[MotionResult.SUCCEEDED], count[MotionResult.BLOCKED],
            len(found) - count[MotionResult.SUCCEEDED] - count[MotionResult.BLOCKED],
            sum(o.touches > 0 for o in found), 1e3 * min(o.clearance for o in found),
            1e3 * float(np.median([o.clearance for o in found])), sum(o.detours for o in found),
            float(np.median([o.seconds for o in arrived])) if arrived else None,
        ])  # fmt: skip
    report.table(
        f"{OBSTACLES} obstacles a scene, clearance {CLEARANCE:g} m, scanner with 1 cm of noise",
        ("robot", "scenes", "arrived", "blocked", "failed", "touches", "min clearance [mm]",
         "median [mm]", "detours", "time to arrive, median [s]"),
        rows,
    )  # fmt: skip
    report.write(args.json)


if __name__ == "__main__":
    main()
