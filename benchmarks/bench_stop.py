# SPDX-License-Identifier: Apache-2.0
"""Stopping time and distance of each shipped robot at full speed.

Run: ``python benchmarks/bench_stop.py``.

Simulated time in MuJoCo, with the limits of the robots' descriptions and the stop functions of the
nodes: ``JointArbiter.stop_all`` for the joints of an arm, ``BaseController.brake`` for a base. Arms
move all joints away from home simultaneously and are stopped at 20 times during this motion; bases
are stopped at full speed, straight and turning. The stopping time ends at rest, as reported by the
nodes; the latency of the command (a period of the node's loop, and DDS) is not included.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from harness import Options, Report, Row, benchmark, progress
from control.guarded_arm import PERIOD, GuardedArm
from sim.lockstep_robot import NAME, WheeledRobot

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.control.joint_command import JointCommand
from motion_nodes.core.control.joint_guard import REST_SPEED
from motion_nodes.core.control.stop_state import RestTimer
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.robot import Robot
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.mujoco_world import MujocoWorld

REACH = 1.0  # Distance of the goal from home per joint, within limits [rad]
MOMENTS = 20
LONGEST = 10.0  # Timeout of the stop [s]
ARM = ("fastest joint, of its top speed [%]", "reference at rest after [s]",
       "joints at rest after [s]", "displacement of a joint after the stop [rad]")  # fmt: skip
BASE = ("true speed at the stop [per s]", "wheel commands at rest after [s]",
        "base at rest after [s]", "travel after the stop")  # fmt: skip


def stopped_arm(name: str, moment: float) -> tuple[float, ...]:
    """Stop an arm at a time after the start of its motion [s]; return the values of ``ARM``."""
    arm = GuardedArm(name, by_effort=False, feed_forward=False)
    limits, home = arm.controller.limits, arm.position
    middle = 0.5 * (limits.lower + limits.upper)
    goal = home + REACH * np.where(home > middle, -1.0, 1.0)
    goal = goal.clip(limits.lower, limits.upper)
    arm.runner.command(JointCommand(positions=goal), "benchmark")

    def step() -> tuple[bool, bool]:
        arm.step()
        still = not arm.controller.moving
        return still, still and bool((np.abs(arm.speeds[-1]) < REST_SPEED).all())

    while arm.world.time < moment:
        step()
    velocity = arm.controller.reference(np.arange(len(home))).velocity
    before = arm.position
    arm.runner.stop_all("the stop of the benchmark")
    times = rest_times(arm.world, step)
    displacement = np.abs(arm.position - before).max()
    return 100.0 * float((np.abs(velocity) / limits.velocity).max()), *times, float(displacement)


def stopped_base(robot: Robot, twist: Twist2) -> tuple[float, ...]:
    """Stop a base that drives a twist; return the values of ``BASE``."""
    world, travel = MujocoWorld([RobotPlacement(robot, NAME)]), 0.0
    cell = WheeledRobot(robot, world)
    controller = cell.controller

    def speed() -> float:
        moved = world.base_twist(NAME)
        return float(np.linalg.norm(moved[:2]) if twist.vx or twist.vy else abs(moved[5]))

    def step() -> tuple[bool, bool]:
        nonlocal travel
        cell.measure(PERIOD)
        command = cell.drive(PERIOD)
        cell.step(PERIOD)
        travel += PERIOD * speed()
        still = bool((np.abs(command.wheels) < 0.01).all())
        return still, still and all(abs(part) < 0.01 for part in controller.odometry.twist)

    while cell.world.time < 4.0:
        controller.command(twist, cell.world.time)
        step()
    full, travel = speed(), 0.0
    controller.brake()
    times = rest_times(world, step)
    return full, *times, travel


def rest_times(world: MujocoWorld, step: Callable[[], tuple[bool, bool]]) -> tuple[float, float]:
    """Return the times until commands and robot are at rest [s]; NaN: beyond ``LONGEST``."""
    timers = RestTimer(), RestTimer()
    for timer in timers:
        timer.start(world.time)
    end = world.time + LONGEST
    while world.time < end and any(timer.waiting for timer in timers):
        for timer, still in zip(timers, step(), strict=True):
            timer.update(world.time, still=still)
    first, second = (float("nan") if t.seconds is None else t.seconds for t in timers)
    return first, second


@benchmark("The stop at full speed", moments=(MOMENTS, "of the motion of an arm"))
def main(report: Report, options: Options) -> None:
    """Measure and print."""
    progress("arms")
    moments, arms, bases = np.linspace(0.05, 0.8, options.moments), list[Row](), list[Row]()
    for name in ("franka", "ur10e"):
        worst = np.max([stopped_arm(name, t) for t in moments], axis=0).tolist()
        arms.append({"": name, **dict(zip(ARM, worst, strict=True))})
    report.table(f"Arms, the worst of {options.moments} moments of a motion", arms)
    progress("bases")
    for name in ("jetbot", "kaya", "nova_carter", "leatherback"):
        robot = load_robot(name)
        assert robot.base is not None
        x, z = robot.base.linear.x.max_velocity, robot.base.angular.z.max_velocity
        twists = {"straight on [m]": Twist2(x, 0.0, 0.0), "turning [rad]": Twist2(0.0, 0.0, z)}
        for way, twist in list(twists.items())[: 1 if robot.kind == "ackermann" else 2]:
            figures = zip(BASE, stopped_base(robot, twist), strict=True)
            bases.append({"": f"{name}, {way}", **dict(figures)})
    report.table("Bases, at the top speed of their descriptions", bases)
