# SPDX-License-Identifier: Apache-2.0
"""How soon an arm rests that meets an obstacle which its client does not know.

Run: ``python benchmarks/bench_blocked.py`` (``--pushes N``, ``--robots franka ur10e``, ``--speed
SHARE``; a few minutes).

``motion up ROBOT`` runs in MuJoCo with the shipped defaults. A client sends trajectories
to the controller, from home to random configurations below the floor, at a share of the limits;
between them the planner leads the arm back home. Joint states are recorded by another process.
Contact is the first recorded state that touches the floor by the exact shapes of links. The arm
stands at the first state after it in which no joint is faster than 0.02 rad/s; then it gives way
until it pushes little, and rests after the last state in which one is. All are simulated times, to
within the period of the joint states. Exit code 1 where a push ended neither as blocked nor with
success (the floor was grazed), or where the planner did not lead the arm home.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import rclpy
from control_msgs.action import FollowJointTrajectory
from harness import Cell, Record, Recorder, Report, arguments, isolate, motion_up, progress
from harness.clients import MOVE, TRAJECTORY, Client, SuiteReports, move_goal, plan_goal
from harness.processes import START
from moveit_msgs.action import MoveGroup

from motion_nodes.control.resync import REST_SPEED
from motion_nodes.model.loader import load_robot
from motion_nodes.model.robot import Group, Robot
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.scenery import floor_of
from motion_nodes.trajectory.joint_trajectory import rest_to_rest_duration

GOAL = 120.0  # [s] How long a goal may take
ON_THE_WAY = 200  # States that are checked between home and a goal
MARGIN = 1.05  # Of a trajectory's duration beyond the shortest within the limits
AFTER = 1.5  # [s] Recorded after a result


@dataclass
class Push:
    """One motion into the floor."""

    begin: int
    """[ns of time.monotonic_ns]"""
    end: int
    text: str
    """What the result says."""


@dataclass
class Figures:
    """What the pushes of one robot came to."""

    stands: list[float] = field(default_factory=list)
    """From contact to the first standstill [s]."""
    rest: list[float] = field(default_factory=list)
    """From contact to the end of all motion [s]."""
    speeds: list[float] = field(default_factory=list)
    """Peak joint speed at contact as a multiple of its limit."""
    untouched: int = 0
    """Pushes that ended before the recorded states touch the floor."""
    returned: list[bool] = field(default_factory=list)
    """Whether the planner led the arm home after each push."""
    texts: list[str] = field(default_factory=list)
    simulation: dict[str, str] = field(default_factory=dict)
    """The last values that the simulation reported on /diagnostics."""


class PushingCell:
    """One robot, and the client that pushes it into the floor."""

    def __init__(self, robot: Robot, seed: int, speed: float) -> None:
        """Create the endpoints; trajectories use a share ``speed`` of the limits."""
        self.group: Group = next(g for g in robot.groups.values() if g.tip is not None)
        self.checker = CollisionChecker(robot, self.group.joints, scene=floor_of(robot).scene())
        self.home = robot.home[self.group.indices]
        self.returned: list[bool] = []
        self._speed = speed
        self._rng = np.random.default_rng(seed)
        node = rclpy.create_node("bench_blocked")
        self.client = Client(node, **{MOVE: MoveGroup, TRAJECTORY: FollowJointTrajectory})
        self.reports = SuiteReports(node)

    def wait(self) -> None:
        """Wait until the planner plans."""
        self.client.wait(lambda: self.reports.ready, "the planner", START)
        self.client.wait_for_servers()

    def go_home(self) -> None:
        """Have the planner bring the arm home."""
        goal = plan_goal(self.group.name, self.group.joints, self.home)
        ended = self.client.finish(MOVE, goal, GOAL)
        self.returned.append(ended.succeeded)
        if not ended.succeeded and ended.result is not None:
            progress(f"not home: {ended.result.result.error_code.message}")

    def push(self) -> Push:
        """Send a trajectory that ends below the floor."""
        q = self._goal()
        limits, distance = self.group.limits, np.abs(q - self.home)
        shortest = rest_to_rest_duration(
            distance, self._speed * limits.velocity, self._speed * limits.acceleration
        )
        goal = move_goal(self.group.joints, q, MARGIN * shortest)
        begin = time.monotonic_ns()
        ended = self.client.finish(TRAJECTORY, goal, GOAL)
        text = "rejected" if ended.result is None else ended.result.result.error_string
        self.client.spin(AFTER)
        return Push(begin, time.monotonic_ns(), text)

    def _goal(self) -> np.ndarray:
        """Return a configuration; the floor is the first thing on the straight way to it."""
        limits = self.group.limits
        while True:
            q = self._rng.uniform(limits.lower, limits.upper)
            shares = np.linspace(0.0, 1.0, ON_THE_WAY)[:, None]
            way = self.home + shares * (q - self.home)
            free = self.checker.exact.are_free(way)
            first = int(np.argmin(free))
            if free.all() or first > 0.8 * ON_THE_WAY:
                continue
            if {contact.kind for contact in self.checker.explain(way[first + 2])} == {"world"}:
                return q


def judge(cell: PushingCell, record: Record, pushes: list[Push]) -> Figures:
    """Return what the recorded states say of the pushes."""
    found = Figures(
        texts=[push.text for push in pushes],
        returned=cell.returned[1:],
        simulation=cell.reports.simulation,
    )
    columns = [record.names.index(joint) for joint in cell.group.joints]
    for push in pushes:
        part = record.between(push.begin, push.end)
        q, v = part.q[:, columns], np.abs(part.v[:, columns])
        touching = ~cell.checker.exact.are_free(q)
        if not touching.any():
            found.untouched += 1
            continue
        first = int(np.argmax(touching))
        moving = v.max(axis=1) > REST_SPEED
        # A record that ends in motion counts as standing at its end.
        stands = first + int(np.argmin(np.append(moving[first:-1], False)))
        last = max(int(np.flatnonzero(moving)[-1]), first)
        for times, index in ((found.stands, stands), (found.rest, last)):
            times.append(1e-9 * float(part.stamps[index] - part.stamps[first]))
        found.speeds.append(float((v[first] / cell.group.limits.velocity).max()))
    return found


def measure(name: str, options: Any) -> Figures:
    """Return what the pushes of one robot came to."""
    with motion_up(name, "--viewer", "none") as suite, Recorder("joint_states") as recorder:
        cell = PushingCell(load_robot(name), options.seed, options.speed)
        cell.wait()
        pushes: list[Push] = []
        while len(pushes) < options.pushes:
            cell.go_home()
            pushes.append(cell.push())
            suite.check()
            progress(f"{len(pushes)}: {pushes[-1].text or 'succeeded'}")
        cell.go_home()
        cell.client.spin(2.2)  # two more reports of the simulation
        found = judge(cell, recorder.stop()["joint_states"], pushes)
        cell.client.close()
    return found


def row(robot: str, found: Figures) -> list[Cell]:
    """Return the table's row."""
    stands, rest = found.stands or [float("nan")], found.rest or [float("nan")]
    return [
        robot, len(found.texts), sum("blocked" in text for text in found.texts),
        found.texts.count(""), found.untouched, sum(found.returned),
        float(np.max(found.speeds, initial=0.0)), float(np.median(stands)), float(np.max(stands)),
        float(np.median(rest)), float(np.max(rest)),
        1e3 * float(found.simulation.get("contact depth max [m]", "nan")),
        float(found.simulation.get("contact force max [N]", "nan")),
    ]  # fmt: skip


def main() -> int:
    """Push each robot into the floor, and print how soon it rested."""
    parser = arguments(__doc__)
    parser.add_argument("--pushes", type=int, default=20, help="for each robot")
    parser.add_argument("--robots", nargs="+", default=["franka", "ur10e"], metavar="ROBOT")
    parser.add_argument("--speed", type=float, default=1.0, help="share of the limits")
    parser.add_argument("--seed", type=int, default=1, help="of the goals")
    options = parser.parse_args()
    isolate()
    report = Report("Arms that meet an obstacle unknown to their client")
    rclpy.init(args=[])
    found = {robot: measure(robot, options) for robot in options.robots}
    rclpy.shutdown()
    report.table(
        f"{options.pushes} pushes into the floor each, {options.speed:g} of the limits, "
        f"seed {options.seed}",
        ["", "pushes", "blocked", "succeeded", "without a touch", "led home after",
         "max speed at contact / limit", "contact to standstill, median [s]", "max [s]",
         "to rest, median [s]", "max [s]", "max depth [mm]", "max force [N]"],
        [row(robot, figures) for robot, figures in found.items()],
    )  # fmt: skip
    report.write(options.json)
    ended = [not text or "blocked" in text for f in found.values() for text in f.texts]
    return int(not all((*ended, *(home for f in found.values() for home in f.returned))))


if __name__ == "__main__":
    sys.exit(main())
