# SPDX-License-Identifier: Apache-2.0
"""The stop at full speed: how long each shipped robot takes to rest, and how far it goes meanwhile.

Run: ``python benchmarks/bench_stop.py``.

Simulated time, in MuJoCo, with the limits of the robots' descriptions and what nodes do at a stop:
``JointArbiter.stop_all`` for the joints of an arm, ``BaseController.brake`` for a base. Arms move
all their joints away from home at once and are stopped at 20 moments of that motion; bases are
stopped at full speed straight on, and turning. The time is that from the stop to the begin of the
rest, as nodes report it; the latency of a message (a period of the node's loop, and DDS) comes on
top.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from harness import Cell, Report, arguments, progress

from motion_nodes.bases.base import Twist2
from motion_nodes.bases.base_limits import BaseLimits, BodyAxisLimits
from motion_nodes.bases.controller import BaseController, BaseControllerConfig
from motion_nodes.bases.from_robot import base_of
from motion_nodes.control.joint_arbiter import JointArbiter
from motion_nodes.control.joint_command import JointCommand
from motion_nodes.control.joint_controller import ArticulationController
from motion_nodes.control.resync import REST_SPEED
from motion_nodes.control.stop_state import RestTimer
from motion_nodes.model.loader import load_robot
from motion_nodes.model.robot import Robot
from motion_nodes.sim.drive_targets import JointTargets
from motion_nodes.sim.mujoco_world import MujocoWorld
from motion_nodes.sim.placement import RobotPlacement

PERIOD = 0.004  # [s] Of the controllers
REACH = 1.0  # [rad] How far from home the joints of arms are sent, where their limits allow it
MOMENTS = 20
LONGEST = 10.0  # [s] A robot that moves for longer after the stop does not come to rest


class OneRobot:
    """One robot in MuJoCo."""

    def __init__(self, robot: Robot) -> None:
        self.world = MujocoWorld([RobotPlacement(robot, "robot")])
        self.names = self.world.joint_names("robot")

    def state(self, places: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """Return positions and velocities of some joints."""
        state = self.world.state("robot")
        return np.asarray(state.position)[places], np.asarray(state.velocity)[places]

    def step(self, positions: dict[int, float], velocities: dict[int, float]) -> None:
        """Command joints, and advance by a period."""
        targets = np.full((3, len(self.names)), np.nan)
        for row, values in zip(targets, (positions, velocities), strict=False):
            row[list(values)] = list(values.values())
        self.world.command("robot", JointTargets(*targets))
        self.world.step(round(PERIOD / self.world.time_step))


def stopped_arm(robot: Robot, moment: float) -> tuple[float, float, float, float]:
    """Stop an arm at a given time after the start of its motion [s].

    Returns:
        Max joint speed by its limit [%], time until the reference is at rest, and until the joints
        are too [s], max joint displacement after the stop [rad or m].
    """
    cell = OneRobot(robot)
    places = [cell.names.index(joint) for joint in robot.arm_joints]
    limits = robot.limits.select(robot.arm_joints)
    controller = ArticulationController(limits)
    arbiter = JointArbiter(controller)
    home = cell.state(places)[0]
    controller.reset(home)
    middle = 0.5 * (limits.lower + limits.upper)
    goal = home + REACH * np.where(home > middle, -1.0, 1.0)
    arbiter.command(JointCommand(positions=goal.clip(limits.lower, limits.upper)), "benchmark")

    def step() -> tuple[bool, bool]:
        q, v = cell.state(places)
        reference = arbiter.step(PERIOD, q, v)
        cell.step(dict(zip(places, reference.positions, strict=True)),
                  dict(zip(places, reference.velocities, strict=True)))  # fmt: skip
        still = not controller.moving
        return still, still and bool((np.abs(v) < REST_SPEED).all())

    while cell.world.time < moment:
        step()
    speeds = np.abs(controller.reference(np.arange(len(places))).velocity) / limits.velocity * 100
    before = cell.state(places)[0]
    arbiter.stop_all("the stop of the benchmark")
    times = rest_times(cell.world, step)
    return float(speeds.max()), *times, float(np.abs(cell.state(places)[0] - before).max())


def controller_of(robot: Robot) -> BaseController:
    """Return the base's controller with the limits of its description."""
    spec = robot.base
    assert spec is not None
    names = ("max_velocity", "max_acceleration", "max_deceleration")
    x, y, yaw = (
        BodyAxisLimits(**{name: getattr(limits, name) or np.nan for name in names})
        for limits in (spec.linear.x, spec.linear.y or spec.linear.x, spec.angular.z)
    )
    limits = BaseLimits(x=x, y=y, yaw=yaw)
    return BaseController(base_of(robot), BaseControllerConfig(limits=limits))


def stopped_base(robot: Robot, twist: Twist2) -> tuple[float, float, float, float]:
    """Stop a base that drives a twist.

    Returns:
        Speed at the stop [m/s or rad/s], time until the commands are at rest, and until wheels and
        base are too [s], travel after the stop [m or rad].
    """
    cell, controller = OneRobot(robot), controller_of(robot)
    wheels = [cell.names.index(name) for name in controller.base.wheel_names]
    steering = [cell.names.index(name) for name in controller.base.steering_names]
    before, travel = 0.0, 0.0

    def speed() -> float:
        moved = cell.world.base_twist("robot")
        return float(np.linalg.norm(moved[:2]) if twist.vx or twist.vy else abs(moved[5]))

    def step() -> tuple[bool, bool]:
        nonlocal before, travel
        now = cell.world.time
        controller.measure(cell.state(wheels)[0], now - before, cell.state(steering)[0])
        before = now
        command = controller.step(now, PERIOD)
        angles = dict(zip(steering, command.steering, strict=True)) if steering else {}
        cell.step(angles, dict(zip(wheels, command.wheels, strict=True)))
        travel += PERIOD * speed()
        still = bool((np.abs(command.wheels) < 0.01).all())
        return still, still and all(abs(part) < 0.01 for part in controller.odometry.twist)

    while cell.world.time < 4.0:
        controller.command(twist, cell.world.time)
        step()
    full, travel = speed(), 0.0
    controller.brake()
    times = rest_times(cell.world, step)
    return full, *times, travel


def rest_times(world: MujocoWorld, step: Callable[[], tuple[bool, bool]]) -> tuple[float, float]:
    """Return how long commands and robot take to rest [s]; NaN: longer than LONGEST."""
    timers = RestTimer(), RestTimer()
    for timer in timers:
        timer.start(world.time)
    end = world.time + LONGEST
    while world.time < end and any(timer.waiting for timer in timers):
        for timer, still in zip(timers, step(), strict=True):
            timer.look(world.time, still=still)
    first, second = (float("nan") if t.seconds is None else t.seconds for t in timers)
    return first, second


def arm_row(name: str) -> list[Cell]:
    """Return the row of an arm: the worst of some moments."""
    moments = np.linspace(0.05, 0.8, MOMENTS)
    return [name, *np.max([stopped_arm(load_robot(name), t) for t in moments], axis=0).tolist()]


def base_rows(name: str) -> list[list[Cell]]:
    """Return the rows of a base."""
    robot = load_robot(name)
    assert robot.base is not None
    straight = Twist2(robot.base.linear.x.max_velocity, 0.0, 0.0)
    rows: list[list[Cell]] = [[f"{name}, straight on [m]", *stopped_base(robot, straight)]]
    if robot.kind != "ackermann":
        turning = Twist2(0.0, 0.0, robot.base.angular.z.max_velocity)
        rows.append([f"{name}, turning [rad]", *stopped_base(robot, turning)])
    return rows


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__).parse_args()
    report = Report("The stop at full speed")
    progress("arms")
    report.table(
        f"Arms, the worst of {MOMENTS} moments of a motion",
        ["", "fastest joint, of its top speed [%]", "reference at rest after [s]",
         "joints at rest after [s]", "displacement of a joint after the stop [rad]"],
        [arm_row(name) for name in ("franka", "ur10e")],
    )  # fmt: skip
    progress("bases")
    names = ("jetbot", "kaya", "nova_carter", "leatherback")
    report.table(
        "Bases, at the top speed of their descriptions",
        ["", "true speed at the stop [per s]", "wheel commands at rest after [s]",
         "base at rest after [s]", "travel after the stop"],
        [row for name in names for row in base_rows(name)],
    )  # fmt: skip
    report.write(options.json)


if __name__ == "__main__":
    main()
