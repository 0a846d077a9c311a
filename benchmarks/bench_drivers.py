# SPDX-License-Identifier: Apache-2.0
"""Drivers of real robots in a suite, against the fake controllers of the tests.

Run: ``python benchmarks/bench_drivers.py`` (``--drivers ur xarm``, ``--goals N``). For each driver
a fake controller runs as a process of its own (franky-sim for Franka arms), beside it ``motion up
ROBOT --backend DRIVER`` with the shipped defaults. From this process the arm is moved in all its
ways (trajectory, stream, plan around an obstacle, RMPflow, stop) and sent to random goals of
``move_action``. Reported are the loop of the driver's node (``/diagnostics``), its CPU, and the
latency from the stamp of a reference to the bus. Exit code 1 if something failed.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from harness import TEST, Cell, Report, arguments, isolate, motion_up, progress
from harness.processes import CpuShare, descendants, executable_of

sys.path.append(TEST)
from hardware.driver_journey import DriverJourney
from hardware.fake_controllers import ARMS, ROBOTS, ready_state, robot_folder
from hardware.fake_process import FakeProcess
from joint_client import smooth
from planner_client import Codes
from ros_client import RosClient, values_of

from motion_nodes.model.loader import load_robot

NEAR = {"feetech": 0.01, "dynamixel": 0.01, "franka": 0.02}
"""[rad] Distance at which joints have arrived; others 5 mrad."""
SPEED = {"franka": 0.3}
"""Fraction of the limits of planned motions; others 1. Beside a suite on two cores franky-sim runs
at 0.3 to 1 of real time, in which its arm cannot follow fast references."""
EXECUTABLE = "robot_driver"
SPREAD = 0.4
"""[rad] Distance of random goals from home, in each joint."""


def latencies(sent: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """Return the times from the stamp of a position to its arrival at the bus [s].

    Args:
        sent: stamps and positions of a monotonic motion, shape (n, 2).
        taken: times and positions on the bus, shape (m, 2).
    """
    rows = sent if sent[-1, 1] > sent[0, 1] else sent[::-1]
    low, high = rows[:, 1].min(), rows[:, 1].max()
    margin = 0.2 * (high - low)  # Near its ends a motion is too slow to tell times by positions.
    inside = taken[(taken[:, 1] > low + margin) & (taken[:, 1] < high - margin)]
    return np.asarray(inside[:, 0] - np.interp(inside[:, 1], rows[:, 1], rows[:, 0]))


def measured_latencies(journey: DriverJourney, fake: FakeProcess) -> np.ndarray:
    """Return them for one motion of the first joint."""
    arm, first = journey.arm, journey.first
    journey.trajectory(0.05)
    fake.targets()
    arm.commands.clear()
    arm.follow(smooth(journey.home | {first: journey.home[first] + 0.6}, 2.0)).result()
    sent = [
        (m.header.stamp.sec + 1e-9 * m.header.stamp.nanosec, m.position[list(m.name).index(first)])
        for m in arm.commands.messages
    ]
    journey.trajectory(0.05)
    taken = np.array(fake.targets()).reshape(-1, 2)
    rising = taken[: int(np.argmax(taken[:, 1])) + 1] if len(taken) else taken
    return latencies(np.array(sent), rising) if len(rising) else np.empty(0)


def random_goals(journey: DriverJourney, count: int, rng: random.Random) -> list[str]:
    """Send valid random goals to move_action; return what went wrong."""
    wrong: list[str] = []
    sent = 0
    while sent < count:
        goal = {name: q + rng.uniform(-SPREAD, SPREAD) for name, q in journey.home.items()}
        _, result = journey.planner.move(_within(journey, goal), **journey.scaling).result(
            within=120.0
        )
        if result.error_code.val == Codes.GOAL_IN_COLLISION:
            continue
        sent += 1
        if result.error_code.val != Codes.SUCCESS:
            wrong.append(f"goal {sent}: {result.error_code.val} {result.error_code.message}")
    return wrong


def _within(journey: DriverJourney, goal: dict[str, float]) -> dict[str, float]:
    limits = journey.robot.limits.select(tuple(goal))
    values = np.clip(list(goal.values()), limits.lower + 0.01, limits.upper - 0.01)
    return dict(zip(goal, values.tolist(), strict=True))


def measure(driver: str, options: Any) -> tuple[list[Cell], list[str]]:
    """Return a row of the table, and what went wrong."""
    host = f"127.0.{os.getpid() >> 8 & 255}.{max(2, os.getpid() & 255)}"
    wrong, near = [], NEAR.get(driver, 5e-3)
    fake = FakeProcess(driver, host)
    with tempfile.TemporaryDirectory() as folder:
        words = (_robot(driver, fake, Path(folder)), "--device", fake.controller.device)
        client = None
        try:
            with motion_up(*words, "--backend", driver, "--viewer", "none") as suite:
                client = RosClient("bench_drivers")
                robot, speed = load_robot(ROBOTS[driver]), SPEED.get(driver, 1.0)
                journey = DriverJourney(client, robot, ready_state(driver), speed)
                journey.arm.wait_for()
                journey.planner.wait()
                processes = descendants(suite.pid).items()
                cpu = CpuShare(
                    [p for p, command in processes if executable_of(command) == EXECUTABLE]
                )
                for part, call in journey.parts(near).items():
                    progress(f"{driver}: {part}")
                    try:
                        call()
                    except AssertionError as error:
                        wrong.append(f"{part}: {str(error)[:300]}")
                times = measured_latencies(journey, fake)
                progress(f"{driver}: {options.goals} goals")
                wrong += random_goals(journey, options.goals, random.Random(options.seed))
                share = sum(cpu.end().values())
                values = values_of(client.diagnostics("/robot_driver"))
                suite.check()
                journey.close()
        except Exception:
            return [driver, *[None] * 9], [*wrong, traceback.format_exc()]
        finally:
            fake.close()
            if client is not None:
                client.close()
    ms = 1e3 * np.percentile(times, (50, 99)) if len(times) else (None, None)
    row: list[Cell] = [
        f"{driver}, {ROBOTS[driver]}", SPEED.get(driver, 1.0), options.goals, len(wrong),
        *(float(values[key]) for key in ("nominal rate [Hz]", "rate [Hz]", "worst lateness [ms]")),
        *ms, share,
    ]  # fmt: skip
    return row, wrong


def _robot(driver: str, fake: FakeProcess, folder: Path) -> str:
    """Return the robot, a copy of its folder where the fake has ports of its own."""
    if not fake.controller.settings:
        return ROBOTS[driver]
    return str(robot_folder(driver, fake.controller, folder))


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--drivers", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--goals", type=int, default=30, help="random goals for each driver")
    parser.add_argument("--seed", type=int, default=1, help="of the goals")
    options = parser.parse_args()
    isolate()
    report = Report("Drivers of real robots, against fake controllers")
    rclpy.init(args=[])
    found: dict[str, tuple[list[Cell], Sequence[str]]] = {}
    for driver in options.drivers:
        found[driver] = measure(driver, options)
    rclpy.shutdown()
    notes = [f"{driver}: {text}" for driver, (_, wrong) in found.items() for text in wrong]
    report.table(
        "Shipped defaults, motion up",
        ["", "speed", "goals", "failures", "rate, nominal [Hz]", "rate [Hz]", "worst lateness [ms]",
         "reference to bus, p50 [ms]", "p99 [ms]", "CPU of the driver [%]"],
        [row for row, _ in found.values()],
        "\n".join(notes) or "all ways to move, the stop and all goals",
    )  # fmt: skip
    report.write(options.json)
    return int(bool(notes))


if __name__ == "__main__":
    sys.exit(main())
