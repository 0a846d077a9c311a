# SPDX-License-Identifier: Apache-2.0
"""Drivers of real robots in a suite, with the fake controllers of the tests.

Run: ``python benchmarks/bench_drivers.py`` (``--drivers ur xarm``, ``--goals N``). For each driver
a fake controller runs in a separate process (franky-sim for Franka arms), and ``motion up ROBOT
--backend DRIVER`` with the shipped defaults. This process tests all types of motion (trajectory,
stream, plan around an obstacle, RMPflow, stop) and sends random goals to ``move_action``. Reported
are rate and lateness of the driver's loop (``/diagnostics``), its CPU load, and the latency from
the stamp of a reference to the bus. Exit code 1: a failure.
"""

from __future__ import annotations

import os
import random
import tempfile
import traceback
from contextlib import closing
from pathlib import Path

import numpy as np
from harness import CpuShare, Options, Report, Row, Spread, benchmark, motion_up, progress
from hardware.driver_journey import DriverJourney
from hardware.fake_controllers import ARMS, ROBOTS, ready_state, robot_folder
from hardware.fake_process import FakeProcess
from harness.processes import descendants, executable_of
from joint_client import smooth
from planner_client import Codes
from ros_client import RosClient, values_of

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.ros.joint_topics import stamp_ns

NEAR = {"feetech": 0.01, "dynamixel": 0.01, "franka": 0.02}
"""Position tolerance of arrival [rad], by driver; default: 5 mrad."""
SPEED = {"franka": 0.3}
"""Velocity scaling of planned motions, by driver; default: 1. With a suite on two cores franky-sim
runs at 0.3 to 1 of real time, and its arm cannot follow fast references."""
SPREAD = 0.4
"""Max distance of random goals from home, per joint [rad]."""


def latencies(journey: DriverJourney, fake: FakeProcess) -> np.ndarray:
    """Return the latencies from the stamps of references to the bus [s].

    The first joint moves monotonically, so positions identify references.
    """
    arm, first = journey.arm, journey.first
    journey.trajectory(0.05)
    fake.targets()
    arm.commands.clear()
    arm.follow(smooth(journey.home | {first: journey.home[first] + 0.6}, 2.0)).result()
    sent = np.array([(1e-9 * stamp_ns(m), m.position[list(m.name).index(first)])
                     for m in arm.commands.messages])  # fmt: skip
    journey.trajectory(0.05)
    taken = np.array(fake.targets()).reshape(-1, 2)
    taken = taken[: int(np.argmax(taken[:, 1])) + 1] if len(taken) else taken
    rows = sent if sent[-1, 1] > sent[0, 1] else sent[::-1]
    low, high = rows[:, 1].min(), rows[:, 1].max()
    margin = 0.2 * (high - low)  # Near its ends the motion is too slow for this.
    inside = taken[(taken[:, 1] > low + margin) & (taken[:, 1] < high - margin)]
    return np.asarray(inside[:, 0] - np.interp(inside[:, 1], rows[:, 1], rows[:, 0]))


def random_goals(journey: DriverJourney, count: int, rng: random.Random) -> list[str]:
    """Send valid random goals to move_action; return the failures."""
    wrong, sent = list[str](), 0
    limits = journey.robot.limits.select(tuple(journey.home))
    while sent < count:
        values = [q + rng.uniform(-SPREAD, SPREAD) for q in journey.home.values()]
        values = np.clip(values, limits.lower + 0.01, limits.upper - 0.01).tolist()
        goal = dict(zip(journey.home, values, strict=True))
        code = journey.planner.move(goal, **journey.scaling).result(within=120.0)[1].error_code
        if code.val == Codes.GOAL_IN_COLLISION:
            continue
        sent += 1
        if code.val != Codes.SUCCESS:
            wrong.append(f"goal {sent}: {code.val} {code.message}")
    return wrong


def run(driver: str, options: Options) -> tuple[Row, list[str]]:
    """Run a suite with a fake controller; return a row of the table, and the failures."""
    host = f"127.0.{os.getpid() >> 8 & 255}.{max(2, os.getpid() & 255)}"
    name, robot, speed = ROBOTS[driver], load_robot(ROBOTS[driver]), SPEED.get(driver, 1.0)
    row: Row = {"": f"{driver}, {name}", "speed": speed, "goals": options.goals}
    with (
        closing(FakeProcess(driver, host)) as fake, closing(RosClient("bench_drivers")) as client,
        tempfile.TemporaryDirectory() as folder,
    ):  # fmt: skip
        if fake.controller.settings:  # The fake uses other ports than the robot's description.
            name = str(robot_folder(driver, fake.controller, Path(folder)))
        words = (name, "--device", fake.controller.device, "--backend", driver, "--viewer", "none")
        with motion_up(*words) as suite:
            journey = DriverJourney(client, robot, ready_state(driver), speed)
            journey.arm.wait_for()
            journey.planner.wait()
            cpu = CpuShare([pid for pid, command in descendants(suite.pid).items()
                            if executable_of(command) == "robot_driver"])  # fmt: skip
            wrong = list[str]()
            for part, call in journey.parts(NEAR.get(driver, 5e-3)).items():
                progress(f"{driver}: {part}")
                try:
                    call()
                except AssertionError as error:
                    wrong.append(f"{part}: {str(error)[:300]}")
            late = Spread.of(1e3 * latencies(journey, fake))
            progress(f"{driver}: {options.goals} goals")
            wrong += random_goals(journey, options.goals, random.Random(options.seed))
            values = values_of(client.diagnostics("/robot_driver"))
            row |= {
                "failures": len(wrong), "rate, nominal [Hz]": float(values["nominal rate [Hz]"]),
                "rate [Hz]": float(values["rate [Hz]"]),
                "worst lateness [ms]": float(values["worst lateness [ms]"]),
                "reference to bus, p50 [ms]": late.p50, "p99 [ms]": late.p99,
                "CPU of the driver [%]": sum(cpu.end().values()),
            }  # fmt: skip
            journey.close()
    return row, wrong


def measure(driver: str, options: Options) -> tuple[Row, list[str]]:
    """Return a row of the table, and the failures, what ended the run among them."""
    try:
        return run(driver, options)
    except Exception:
        return {"": f"{driver}, {ROBOTS[driver]}", "failures": 1}, [traceback.format_exc()]


@benchmark("Drivers of real robots, against fake controllers", ros=True, seed=(1, "of the goals"),
           drivers=(list(ARMS), "", ARMS), goals=(30, "random goals for each driver"))  # fmt: skip
def main(report: Report, options: Options) -> bool:
    """Measure and print."""
    found = {driver: measure(driver, options) for driver in options.drivers}
    notes = [f"{driver}: {text}" for driver, (_, wrong) in found.items() for text in wrong]
    report.table("Shipped defaults, motion up", [row for row, _ in found.values()],
                 "\n".join(notes) or "all ways to move, the stop and all goals")  # fmt: skip
    return bool(notes)
