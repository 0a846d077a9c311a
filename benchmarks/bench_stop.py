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
from sim.lockstep_robot import NAME, LockstepRobot, WheeledRobot

from motion_nodes.bases.base import Twist2
from motion_nodes.control.joint_arbiter import JointArbiter
from motion_nodes.control.joint_command import JointCommand
from motion_nodes.control.joint_controller import ArticulationController
from motion_nodes.control.resync import REST_SPEED
from motion_nodes.control.stop_state import RestTimer
from motion_nodes.model.loader import load_robot
from motion_nodes.model.robot import Robot
from motion_nodes.sim.mujoco_world import MujocoWorld
from motion_nodes.sim.placement import RobotPlacement

PERIOD = 0.004  # Period of the controllers [s]
REACH = 1.0  # Distance of the goal from home per joint, within limits [rad]
MOMENTS = 20
LONGEST = 10.0  # Timeout of the stop [s]
ARM = ("fastest joint, of its top speed [%]", "reference at rest after [s]",
       "joints at rest after [s]", "displacement of a joint after the stop [rad]")  # fmt: skip
BASE = ("true speed at the stop [per s]", "wheel commands at rest after [s]",
        "base at rest after [s]", "travel after the stop")  # fmt: skip


def stopped_arm(robot: Robot, moment: float) -> tuple[float, ...]:
    """Stop an arm at a time after the start of its motion [s]; return the values of ``ARM``."""
    cell = LockstepRobot(robot, MujocoWorld([RobotPlacement(robot, NAME)]))
    joints = robot.indices(robot.arm_joints)
    limits = robot.limits.select(robot.arm_joints)
    controller = ArticulationController(limits)
    arbiter = JointArbiter(controller)
    home = cell.state(joints)[0]
    controller.reset(home)
    middle = 0.5 * (limits.lower + limits.upper)
    goal = home + REACH * np.where(home > middle, -1.0, 1.0)
    arbiter.command(JointCommand(positions=goal.clip(limits.lower, limits.upper)), "benchmark")

    def step() -> tuple[bool, bool]:
        q, v = cell.state(joints)
        reference = arbiter.step(PERIOD, q, v)
        cell.command(dict(zip(joints, reference.positions, strict=True)),
                     dict(zip(joints, reference.velocities, strict=True)))  # fmt: skip
        cell.step(PERIOD)
        still = not controller.moving
        return still, still and bool((np.abs(v) < REST_SPEED).all())

    while cell.world.time < moment:
        step()
    speeds = np.abs(controller.reference(np.arange(len(joints))).velocity) / limits.velocity * 100
    before = cell.state(joints)[0]
    arbiter.stop_all("the stop of the benchmark")
    times = rest_times(cell, step)
    return float(speeds.max()), *times, float(np.abs(cell.state(joints)[0] - before).max())


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
    times = rest_times(cell, step)
    return full, *times, travel


def rest_times(cell: LockstepRobot, step: Callable[[], tuple[bool, bool]]) -> tuple[float, float]:
    """Return the times until commands and robot are at rest [s]; NaN: beyond ``LONGEST``."""
    world, timers = cell.world, (RestTimer(), RestTimer())
    for timer in timers:
        timer.start(world.time)
    end = world.time + LONGEST
    while world.time < end and any(timer.waiting for timer in timers):
        for timer, still in zip(timers, step(), strict=True):
            timer.look(world.time, still=still)
    first, second = (float("nan") if t.seconds is None else t.seconds for t in timers)
    return first, second


@benchmark("The stop at full speed", moments=(MOMENTS, "of the motion of an arm"))
def main(report: Report, options: Options) -> None:
    """Measure and print."""
    progress("arms")
    moments, arms, bases = np.linspace(0.05, 0.8, options.moments), list[Row](), list[Row]()
    for name in ("franka", "ur10e"):
        worst = np.max([stopped_arm(load_robot(name), t) for t in moments], axis=0).tolist()
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
