# SPDX-License-Identifier: Apache-2.0
"""The stop at full speed: how long each shipped robot takes to rest, and how far it goes meanwhile.

Run: ``python benchmarks/bench_stop.py``.

Simulated time, in MuJoCo, with the limits of the robots' descriptions and what nodes do at a stop:
``JointArbiter.stop_all`` for the joints of an arm, ``BaseController.brake`` for a base. Arms move
all their joints away from home at once and are stopped at 20 moments of that motion; bases are
stopped at full speed straight on, and turning. The time is that from the stop to the begin of the
rest, as nodes report it; the way of a message (a period of the node's loop, and DDS) comes on top.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from bench_base_odometry import controller_of
from report import Cell, Report, arguments, progress

from motion_nodes.bases.base import Twist2
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

PERIOD = 0.004
"""[s] Of the controllers."""
REACH = 1.0
"""[rad] How far from home the joints of arms are sent, where their limits allow it."""
MOMENTS = 20
LONGEST = 10.0
"""[s] A robot that moves for longer after the stop does not come to rest."""


def stopped_arm(robot: Robot, moment: float) -> tuple[float, float, float, float]:
    """Stop an arm at a given time after the start of its motion [s].

    Returns:
        Max joint speed as a share of its limit, time until reference and joints are at rest [s],
        time until the reference is at rest [s], max joint displacement after the stop [rad or m].
    """
    world = MujocoWorld([RobotPlacement(robot, "robot")])
    places = [world.joint_names("robot").index(joint) for joint in robot.arm_joints]
    limits = robot.limits.select(robot.arm_joints)
    controller = ArticulationController(limits)
    arbiter = JointArbiter(controller)
    home = np.asarray(world.state("robot").position)[places]
    controller.reset(home)
    middle = 0.5 * (limits.lower + limits.upper)
    goal = home + REACH * np.where(home > middle, -1.0, 1.0)
    arbiter.command(JointCommand(positions=goal.clip(limits.lower, limits.upper)), "benchmark")

    def step() -> tuple[bool, bool]:
        state = world.state("robot")
        q, v = np.asarray(state.position)[places], np.asarray(state.velocity)[places]
        reference = arbiter.step(PERIOD, q, v)
        targets = np.full((3, len(state.position)), np.nan)
        targets[0, places], targets[1, places] = reference.positions, reference.velocities
        world.command("robot", JointTargets(*targets))
        world.step(round(PERIOD / world.time_step))
        led = not controller.moving
        return led, led and bool((np.abs(v) < REST_SPEED).all())

    while world.time < moment:
        step()
    share = float((np.abs(controller.reference(np.arange(len(places))).velocity)
                   / limits.velocity).max())  # fmt: skip
    before = np.asarray(world.state("robot").position)[places]
    arbiter.stop_all("the stop of the benchmark")
    led, rest = timed(lambda: world.time, step)
    after = np.asarray(world.state("robot").position)[places]
    return share, rest, led, float(np.abs(after - before).max())


def stopped_base(robot: Robot, twist: Twist2) -> tuple[float, float, float, float]:
    """Stop a base that drives a twist.

    Returns:
        Speed at the stop [m/s or rad/s], time until wheels and base rest [s], that of the
        commands alone [s], way after the stop [m or rad].
    """
    world = MujocoWorld([RobotPlacement(robot, "robot")])
    controller = controller_of(robot)
    base = controller.base
    names = world.joint_names("robot")
    wheels = [names.index(name) for name in base.wheel_names]
    steering = [names.index(name) for name in base.steering_names]
    last = [0.0, 0.0]

    def step() -> tuple[bool, bool]:
        state = world.state("robot")
        q = np.asarray(state.position)
        controller.measure(q[wheels], world.time - last[0], q[steering])
        last[0] = world.time
        command = controller.step(world.time, PERIOD)
        targets = np.full((3, len(q)), np.nan)
        targets[1, wheels] = command.wheels
        if steering:
            targets[0, steering] = command.steering
        world.command("robot", JointTargets(*targets))
        world.step(round(PERIOD / world.time_step))
        last[1] += PERIOD * speed()
        led = bool((np.abs(command.wheels) < 0.01).all())
        return led, led and all(abs(part) < 0.01 for part in controller.odometry.twist)

    def speed() -> float:
        moved = world.base_twist("robot")
        return float(np.linalg.norm(moved[:2]) if twist.vx or twist.vy else abs(moved[5]))

    while world.time < 4.0:
        controller.command(twist, world.time)
        step()
    full, last[1] = speed(), 0.0
    controller.brake()
    led, rest = timed(lambda: world.time, step)
    return full, rest, led, last[1]


def timed(now: Callable[[], float], step: Callable[[], tuple[bool, bool]]) -> tuple[float, float]:
    """Return how long commands and robot take to rest [s]; NaN: longer than LONGEST."""
    timers = RestTimer(), RestTimer()
    for timer in timers:
        timer.start(now())
    end = now() + LONGEST
    while now() < end and any(timer.waiting for timer in timers):
        for timer, still in zip(timers, step(), strict=True):
            timer.look(now(), still=still)
    led, rest = (float("nan") if t.seconds is None else t.seconds for t in timers)
    return led, rest


def arm_row(name: str) -> list[Cell]:
    """Return the row of an arm: the worst of some moments."""
    robot = load_robot(name)
    rows = [stopped_arm(robot, moment) for moment in np.linspace(0.05, 0.8, MOMENTS)]
    share, rest, led, way = np.array(rows).max(axis=0)
    return [name, 100.0 * share, led, rest, way]


def base_rows(name: str) -> list[list[Cell]]:
    """Return the rows of a base."""
    robot = load_robot(name)
    spec = robot.base
    assert spec is not None
    forward, turn = spec.linear.x.max_velocity, spec.angular.z.max_velocity
    ways = {f"{name}, straight on [m]": Twist2(forward, 0.0, 0.0)}
    if not robot.kind == "ackermann":
        ways[f"{name}, turning [rad]"] = Twist2(0.0, 0.0, turn)
    rows: list[list[Cell]] = []
    for label, twist in ways.items():
        full, rest, led, way = stopped_base(robot, twist)
        rows.append([label, full, led, rest, way])
    return rows


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__).parse_args()
    report = Report("The stop at full speed")
    rows = []
    for name in ("franka", "ur10e"):
        progress(name)
        rows.append(arm_row(name))
    report.table(
        "Arms, the worst of 20 moments of a motion",
        ["", "fastest joint, of its top speed [%]", "reference at rest after [s]",
         "joints at rest after [s]", "way of a joint after the stop [rad]"],
        rows,
    )  # fmt: skip
    rows = []
    for name in ("jetbot", "kaya", "nova_carter", "leatherback"):
        progress(name)
        rows += base_rows(name)
    report.table(
        "Bases, at the top speed of their descriptions",
        ["", "true speed at the stop [per s]", "wheels told to rest after [s]",
         "base at rest after [s]", "way after the stop"],
        rows,
    )  # fmt: skip
    report.write(options.json)


if __name__ == "__main__":
    main()
