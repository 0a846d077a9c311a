# SPDX-License-Identifier: Apache-2.0
"""How far the wheel odometry of each base is off after a square, a circle and a figure of eight.

Run: ``python benchmarks/bench_base_odometry.py`` (a minute). No ROS: base controller, path
follower and MuJoCo are called directly, at 100 Hz of simulated time, so every run gives the same
figures on any machine.

The base follows its path by its own odometry (closed loop), as it would without any other sensor.
What its wheels turned is integrated, and compared with where MuJoCo says it is. Beside it stands
what integrating the commands alone would give (open loop).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from report import Cell, Report, arguments, progress

from motion_nodes.base_navigation.base_motion import MotionOutcome
from motion_nodes.base_navigation.follow_path import FollowConfig, FollowPath
from motion_nodes.base_navigation.goal_check import GoalTolerance
from motion_nodes.base_navigation.motion_limits import MotionLimits
from motion_nodes.base_navigation.planar_path import PlanarPath
from motion_nodes.base_navigation.planar_pose import Pose2
from motion_nodes.base_navigation.stanley import SteeringConfig
from motion_nodes.bases.ackermann import AckermannBase
from motion_nodes.bases.base_limits import BaseLimits, BodyAxisLimits
from motion_nodes.bases.controller import BaseController, BaseControllerConfig
from motion_nodes.bases.from_robot import base_of
from motion_nodes.bases.odometry import Odometry, wrap_angle
from motion_nodes.model.loader import load_robot
from motion_nodes.model.robot import Robot
from motion_nodes.sim.drive_targets import JointTargets
from motion_nodes.sim.mujoco_world import MujocoWorld
from motion_nodes.sim.placement import RobotPlacement

Array = np.ndarray

ROBOTS = {"jetbot": 0.4, "nova_carter": 1.2, "kaya": 0.5, "leatherback": 0.9}
"""Robots, and the radius of their shapes [m]."""
SPEED = 0.7
"""Share of the greatest speed."""
PERIOD = 0.01
"""[s] of the controller."""
POINTS = 200


def square(radius: float, kind: str) -> Array:
    """Return poses along a square; a car's has round corners, a holonomic base slides along it."""
    side = 2.0 * radius
    corner = 0.6 * radius if kind == "ackermann" else 0.0
    poses: list[tuple[float, float, float]] = []
    x, y, yaw = 0.0, 0.0, 0.0
    for _ in range(4):
        for s in np.linspace(0.0, side - 2.0 * corner, 40):
            poses.append((x + s * math.cos(yaw), y + s * math.sin(yaw), yaw))
        x, y, _ = poses[-1]
        for a in np.linspace(0.0, 0.5 * math.pi, 20)[1:] if corner else ():
            forward, left = corner * math.sin(a), corner * (1.0 - math.cos(a))
            c, s = math.cos(yaw), math.sin(yaw)
            poses.append((x + c * forward - s * left, y + s * forward + c * left, yaw + a))
        x, y, _ = poses[-1]
        yaw += 0.5 * math.pi
    rows = np.array(poses)
    if kind == "holonomic":
        rows[:, 2] = 0.0
    return rows


def circle(radius: float, kind: str) -> Array:
    """Return poses once round, to the left."""
    a = np.linspace(0.0, 2.0 * math.pi, POINTS)
    return np.column_stack((radius * np.sin(a), radius * (1.0 - np.cos(a)), a))


def eight(radius: float, kind: str) -> Array:
    """Return poses along an eight from its middle; a holonomic base looks ahead all the time.

    Its tightest bends have two thirds of the radius given. Source: lemniscate of Bernoulli.
    """
    a = np.linspace(0.5 * math.pi, 2.5 * math.pi, 2 * POINTS)
    z = 2.0 * radius * np.cos(a) * (1.0 + 1j * np.sin(a)) / (1.0 + np.sin(a) ** 2)
    travel = np.unwrap(np.angle(np.gradient(z)))
    z *= np.exp(-1j * travel[0])
    looks = np.zeros_like(a) if kind == "holonomic" else travel - travel[0]
    return np.column_stack((z.real, z.imag, looks))


SHAPES = {"square": square, "circle": circle, "figure of eight": eight}


@dataclass(frozen=True)
class Drive:
    """What came of following one path."""

    distance: float
    """Way that the robot really went [m]."""
    turned: float
    """Angle that it really turned, in both directions together [rad]."""
    end_error: float
    """Odometry against the truth at the end [m]."""
    worst_error: float
    """The same at its greatest on the way [m]."""
    yaw_error: float
    """[rad], at the end."""
    open_error: float
    """The same as ``end_error`` for the commands integrated [m]."""
    off_path: float
    """Greatest distance of the robot from its path [m]."""
    seconds: float
    """Simulated time."""


def controller_of(robot: Robot) -> BaseController:
    """Return the base's controller with the limits of its description."""
    spec = robot.base
    assert spec is not None

    def axis(limits: object) -> BodyAxisLimits:
        names = ("max_velocity", "max_acceleration", "max_deceleration")
        return BodyAxisLimits(**{name: getattr(limits, name) or math.nan for name in names})

    limits = BaseLimits(
        x=axis(spec.linear.x), y=axis(spec.linear.y or spec.linear.x), yaw=axis(spec.angular.z)
    )
    return BaseController(base_of(robot), BaseControllerConfig(limits=limits))


def follower(robot: Robot, path: PlanarPath) -> FollowPath:
    """Return what leads the base along a path."""
    spec, base = robot.base, base_of(robot)
    assert spec is not None
    x, yaw = spec.linear.x, spec.angular.z
    limits = MotionLimits(
        max_velocity=SPEED * x.max_velocity,
        max_acceleration=x.max_acceleration,
        max_deceleration=x.max_acceleration,
        max_yaw_velocity=SPEED * yaw.max_velocity,
        max_yaw_acceleration=yaw.max_acceleration,
        max_yaw_deceleration=yaw.max_acceleration,
        max_lateral_acceleration=1.0,
    )
    ahead, steering = 0.15, {}
    if isinstance(base, AckermannBase):
        ahead, steering = spec.wheelbase, {"max_steering_angle": 0.6}  # type: ignore[union-attr]
    config = FollowConfig(
        limits=limits,
        steering=SteeringConfig(wheelbase=ahead, **steering),
        # A car cannot set right at the end what it is off by.
        tolerance=GoalTolerance(xy=0.15, yaw=0.3) if steering else GoalTolerance(),
    )
    return FollowPath(robot.kind, path, config)  # type: ignore[arg-type]


def planar(X: Array) -> Pose2:
    """Return a pose of the plane from one of space."""
    return Pose2(float(X[0, 3]), float(X[1, 3]), math.atan2(X[1, 0], X[0, 0]))


def follow(robot: Robot, poses: Array, limit: float = 300.0) -> Drive:
    """Drive a robot along a path in MuJoCo.

    Raises:
        RuntimeError: when it does not get there.
    """
    world = MujocoWorld([RobotPlacement(robot, "robot")])
    steps = round(PERIOD / world.time_step)
    controller, path = controller_of(robot), PlanarPath(poses)
    motion, base, open_loop = follower(robot, path), controller.base, Odometry()
    wheels = [robot.joint_names.index(name) for name in base.wheel_names]
    steering = [robot.joint_names.index(name) for name in base.steering_names]
    start = before = planar(world.base_pose("robot"))
    distance = turned = worst = off_path = 0.0
    targets = np.full((2, len(robot.joint_names)), np.nan)
    while motion.outcome is MotionOutcome.MOVING:
        sample, now = world.state("robot"), world.time
        controller.measure(sample.position[wheels], PERIOD, sample.position[steering])
        odometry = controller.odometry
        believed = Pose2(odometry.x, odometry.y, odometry.yaw)
        controller.command(motion.step(believed, odometry.twist, PERIOD), now)
        command = controller.step(now, PERIOD)
        open_loop.advance(command.twist.scaled(PERIOD), PERIOD)
        targets[1, wheels], targets[0, steering] = command.wheels, command.steering
        world.command("robot", JointTargets(*targets))
        world.step(steps)
        true = planar(world.base_pose("robot"))
        distance += before.distance(true)
        turned += abs(wrap_angle(true.yaw - before.yaw))
        before = true
        seen = start.inverse().compose(true)
        worst = max(worst, believed.distance(seen))
        off_path = max(off_path, float(np.hypot(*(path.resampled().xy - seen[:2]).T).min()))
        if motion.outcome is MotionOutcome.FAILED or now > limit:
            raise RuntimeError(f"{robot.name} at {believed} after {now:.1f} s: {motion.text}")
    odometry = controller.odometry
    believed = Pose2(odometry.x, odometry.y, odometry.yaw)
    return Drive(
        distance=distance,
        turned=turned,
        end_error=believed.distance(seen),
        worst_error=worst,
        yaw_error=wrap_angle(believed.yaw - seen.yaw),
        open_error=Pose2(open_loop.x, open_loop.y, open_loop.yaw).distance(seen),
        off_path=off_path,
        seconds=world.time,
    )


def row(name: str, shape: str, drive: Drive) -> list[Cell]:
    """Return a line of the table."""
    percent = 100.0 / drive.distance
    return [
        f"{name}, {shape}", drive.distance, math.degrees(drive.turned), drive.seconds,
        1e3 * drive.end_error, percent * drive.end_error, percent * drive.worst_error,
        math.degrees(drive.yaw_error), percent * drive.open_error, 1e3 * drive.off_path,
    ]  # fmt: skip


def main() -> None:
    """Drive all robots along all shapes."""
    parser = arguments(__doc__)
    parser.add_argument("--robots", nargs="+", default=list(ROBOTS), choices=list(ROBOTS))
    options = parser.parse_args()
    report = Report("Odometry of the wheeled bases against the truth, MuJoCo")
    rows = []
    for name in options.robots:
        robot = load_robot(name)
        for shape, make in SHAPES.items():
            progress(f"{name}, {shape}")
            rows.append(row(name, shape, follow(robot, make(ROBOTS[name], robot.kind))))
    report.table(
        "Odometry against ground truth",
        ("robot, shape", "way [m]", "turned [deg]", "time [s]", "off at the end [mm]",
         "of the way [%]", "greatest [%]", "heading [deg]", "open loop [%]", "off path [mm]"),
        rows,
        "Off path: the robot's true distance from the path that it followed by its odometry. Open "
        "loop: what adding up the commands would have given.",
    )  # fmt: skip
    report.write(options.json)


if __name__ == "__main__":
    main()
