# SPDX-License-Identifier: Apache-2.0
"""Random valid joint goals through ``move_action``, judged by the contacts of MuJoCo.

Run: ``python benchmarks/bench_random_goals.py`` (``--goals N``, ``--robots franka ur10e``). For
each robot ``motion up ROBOT`` runs without page and with the shipped defaults. Goals are uniform
within the joint limits and valid by ``check_state_validity``; they are sent one after the other. A
goal that the floor separates from home is counted and not sent (see ``Separation``). Reported are
the action's results, unexpected contacts (``/diagnostics`` of the simulation), and peak joint
speeds (``joint_states``) relative to their limits. 500 goals take about 40 minutes for each robot.
Exit code 1 if a goal was not executed or there was a contact.
"""

from __future__ import annotations

import collections
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import rclpy
from harness import Cell, Report, arguments, isolate, motion_up, progress
from harness.clients import MOVE, Client, SuiteReports, plan_goal, validity_request
from harness.processes import START
from moveit_msgs.action import MoveGroup
from moveit_msgs.srv import GetStateValidity
from sensor_msgs.msg import JointState

from motion_nodes.model.loader import load_robot
from motion_nodes.model.robot import Group, Robot
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.scenery import floor_of

GOAL = 120.0  # [s] How long a goal may take
OTHERS, VALUES = 24, 181
"""Random values of the other joints, and values of the joint that is checked."""


@dataclass
class Findings:
    """What one robot's goals came to."""

    sent: int = 0
    unreachable: int = 0
    """Valid goals that were not sent, for the floor separates them from home."""
    executed: int = 0
    refused: collections.Counter[str] = field(default_factory=collections.Counter)
    """How often each reason was given."""
    peak_ratio: float = 0.0
    """Max measured joint speed as a multiple of its limit."""
    peak_joint: str = ""
    failed: list[str] = field(default_factory=list)
    """Goals that were not executed."""
    simulation: dict[str, str] = field(default_factory=dict)
    """The last values that the simulation reported on /diagnostics."""
    seconds: float = 0.0

    def figure(self, key: str) -> float:
        """Return what the simulation reported; NaN where it did not."""
        return float(self.simulation.get(key, "nan"))

    def row(self, robot: str) -> list[Cell]:
        """Return the table's row."""
        return [
            robot, self.sent, self.executed, self.sent - self.executed, self.unreachable,
            self.figure("contacts"), 1e3 * self.figure("contact depth max [m]"),
            self.figure("contact force max [N]"), self.peak_ratio, self.seconds,
        ]  # fmt: skip

    def notes(self, robot: str) -> list[str]:
        """Return what the table has no room for."""
        notes = [f"{count} x {reason}" for reason, count in self.refused.most_common()]
        notes += self.failed
        notes += [f"contacts: {self.simulation.get('contact pairs') or 'none'}"]
        return [f"{robot}: {note}" for note in (*notes, f"peak speed of {self.peak_joint}")]


class GoalCell:
    """Observes one robot, and sends its goals."""

    def __init__(self, robot: Robot) -> None:
        """Create the endpoints."""
        self.robot = robot
        self.group: Group = next(g for g in robot.groups.values() if g.tip is not None)
        self.findings = Findings()
        node = rclpy.create_node("bench_random_goals")
        self.client = Client(node, **{MOVE: MoveGroup})
        self.reports = SuiteReports(node)
        self.findings.simulation = self.reports.simulation
        self._indices: dict[tuple[str, ...], list[int]] = {}
        self._limits = robot.limits.select(self.group.joints).velocity
        self._validity = node.create_client(GetStateValidity, "check_state_validity")
        node.create_subscription(JointState, "joint_states", self._on_state, 100)

    def wait(self) -> None:
        """Wait until the planner plans and the simulation reports."""
        self.client.wait(lambda: self.reports.ready, "the planner", START)
        self.client.wait_for_servers()

    def valid(self, q: np.ndarray) -> bool:
        """Return whether the planner reports a configuration of the group as valid."""
        request = validity_request(self.group.name, self.group.joints, q)
        return bool(self.client.call(self._validity, request).valid)

    def send(self, q: np.ndarray) -> None:
        """Have the robot go to a configuration, and count what became of it."""
        found = self.findings
        found.sent += 1
        goal = plan_goal(self.group.name, self.group.joints, q)
        ended = self.client.finish(MOVE, goal, GOAL)
        if ended.result is None:
            found.refused["rejected by the action"] += 1
            return
        code = ended.result.result.error_code
        if code.val == code.SUCCESS:
            found.executed += 1
        else:
            found.refused[f"{code.val}: {code.message}"] += 1
            found.failed.append(f"goal {found.sent}: {np.round(q, 5).tolist()}")

    def _on_state(self, message: JointState) -> None:
        names = tuple(message.name)
        if names not in self._indices:
            self._indices[names] = [names.index(joint) for joint in self.group.joints]
        speeds = np.abs(np.array(message.velocity)[self._indices[names]]) / self._limits
        if speeds.max() > self.findings.peak_ratio:
            self.findings.peak_ratio = float(speeds.max())
            self.findings.peak_joint = self.group.joints[int(speeds.argmax())]


def _bounds(group: Group) -> tuple[np.ndarray, np.ndarray]:
    """Return the limits of a group's joints, half a turn where they are endless, shape (n,)."""
    lower, upper = group.limits.lower, group.limits.upper
    return np.where(np.isfinite(lower), lower, -np.pi), np.where(np.isfinite(upper), upper, np.pi)


class Separation:
    """Values of single joints at which the floor is in collision whatever the other joints do.

    A joint cannot pass such a value, so a goal on its other side is valid and cannot be reached:
    the shoulder of a UR10e turns by a turn to either side, and its upper arm never passes below.
    """

    def __init__(self, robot: Robot, group: Group) -> None:
        """Check each joint's range."""
        checker = CollisionChecker(robot, robot.joint_names, scene=floor_of(robot).scene())
        rng = np.random.default_rng(2)
        self._home, self._links = robot.home[group.indices], robot.tree.links
        others = np.tile(robot.home, (OTHERS, 1))
        low, high = _bounds(group)
        others[:, group.indices] = rng.uniform(low, high, (OTHERS, len(group.joints)))
        self._blocked = [
            np.array([v for v in np.linspace(low, high, VALUES)
                      if self._blocks(checker, others, index, v)])
            for index, low, high in zip(group.indices, low, high, strict=True)
        ]  # fmt: skip

    def separates(self, q: np.ndarray) -> bool:
        """Return whether the floor is between home and a configuration of the group."""
        return any(
            bool(((min(a, b) < blocked) & (blocked < max(a, b))).any())
            for a, b, blocked in zip(self._home, q, self._blocked, strict=True)
        )

    def _blocks(
        self, checker: CollisionChecker, others: np.ndarray, index: int, value: float
    ) -> bool:
        """Return whether one and the same link is in the floor whatever the other joints do."""
        always = set(self._links)
        for q in others.copy():
            q[index] = value
            always &= {c.pair[0] for c in checker.explain(q) if c.kind == "world"}
            if not always:
                return False
        return True


def measure(name: str, options: Any) -> Findings:
    """Return what the goals of one robot came to."""
    with motion_up(name, "--viewer", "none") as suite:
        cell = GoalCell(load_robot(name))
        cell.wait()
        rng, found = np.random.default_rng(options.seed), cell.findings
        separation = Separation(cell.robot, cell.group)
        begin = time.monotonic()
        while found.sent < options.goals:
            q = rng.uniform(*_bounds(cell.group))
            if not cell.valid(q):
                continue
            if separation.separates(q):
                found.unreachable += 1
                continue
            cell.send(q)
            suite.check()
            if found.sent % 10 == 0:
                progress(
                    f"{found.sent} sent, {found.executed} executed, {dict(found.refused)}, "
                    f"{found.figure('contacts'):g} contacts, peak speed {found.peak_ratio:.2f}"
                )
        found.seconds = time.monotonic() - begin
        cell.client.spin(2.2)  # two more reports of the simulation
        cell.client.close()
    return found


def main() -> int:
    """Send goals to each robot, and print what became of them."""
    parser = arguments(__doc__)
    parser.add_argument("--goals", type=int, default=60, help="for each robot")
    parser.add_argument("--robots", nargs="+", default=["franka", "ur10e"], metavar="ROBOT")
    parser.add_argument("--seed", type=int, default=1, help="of the goals")
    options = parser.parse_args()
    isolate()
    report = Report("Random valid goals through move_action")
    rclpy.init(args=[])
    found = {}
    for robot in options.robots:
        progress(f"{options.goals} goals of {robot}")
        found[robot] = measure(robot, options)
    rclpy.shutdown()
    report.table(
        f"{options.goals} goals each, seed {options.seed}",
        ["", "goals", "executed", "not", "unreachable, not sent", "contacts", "max depth [mm]",
         "max force [N]", "peak speed / limit", "s"],
        [f.row(robot) for robot, f in found.items()],
        "\n".join(note for robot, f in found.items() for note in f.notes(robot)),
    )  # fmt: skip
    report.write(options.json)
    return int(any(f.executed < f.sent or f.figure("contacts") != 0.0 for f in found.values()))


if __name__ == "__main__":
    sys.exit(main())
