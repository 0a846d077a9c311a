# SPDX-License-Identifier: Apache-2.0
"""Random valid joint goals through ``move_action``, checked by MuJoCo's contacts.

Run: ``python benchmarks/bench_random_goals.py`` (``--goals N``, ``--robots franka ur10e``). For
each robot ``motion up ROBOT`` runs without page and with the shipped defaults. Goals are uniform
within the joint limits, valid by ``check_state_validity``, and sent sequentially. Goals that the
floor separates from home are counted, but not sent (see ``Separation``). Reported are the action's
results, unexpected contacts (``/diagnostics`` of the simulation), and peak joint speeds
(``joint_states``) relative to their limits. 500 goals take about 40 minutes per robot. Exit code 1:
a goal was not executed, or a contact occurred.
"""

from __future__ import annotations

import collections
import time

import numpy as np
from harness import Options, Report, Row, benchmark, motion_up, progress
from joint_client import JointClient
from moveit_msgs.srv import GetStateValidity
from planner_client import Codes, Planner, state
from ros_client import RosClient, values_of

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.robot import Group, Robot
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scenery import floor_of

GOAL = 120.0  # Timeout of a goal [s]
OTHERS, VALUES = 24, 181
"""Number of random values of the other joints, and of values of the checked joint."""


class GoalCell:
    """Sends goals to one robot and counts the results."""

    def __init__(self, robot: Robot, group: Group) -> None:
        """Wait until the planner plans and the simulation reports."""
        self.robot, self.group, self.client = robot, group, RosClient("bench_random_goals")
        self.planner = Planner(JointClient(self.client))
        self.sent = self.unreachable = self.executed = 0
        self.refused: collections.Counter[str] = collections.Counter()
        self.failed: list[str] = []
        self.peak = 0.0
        """Max measured joint speed as a multiple of its limit."""
        self.planner.wait()
        self.client.wait(lambda: self.client.diagnostics("/mujoco_sim"), "the simulation")

    def reported(self, key: str) -> float:
        """Return the last value reported by the simulation; NaN: none."""
        return float(values_of(self.client.diagnostics("/mujoco_sim")).get(key, "nan"))

    def named(self, q: np.ndarray) -> dict[str, float]:
        """Return joint positions of the group by name."""
        return dict(zip(self.group.joints, q.tolist(), strict=True))

    def valid(self, q: np.ndarray) -> bool:
        """Return whether a configuration of the group is valid according to the planner."""
        values = state(self.named(q))
        request = GetStateValidity.Request(group_name=self.group.name, robot_state=values)
        return bool(self.client.call(GetStateValidity, "check_state_validity", request).valid)

    def send(self, q: np.ndarray) -> None:
        """Move to a configuration."""
        self.sent += 1
        call = self.planner.move(self.named(q), group_name=self.group.name)
        if not call.accepted():
            self.refused["rejected by the action"] += 1
            return
        code = call.result(GOAL)[1].error_code
        if code.val == Codes.SUCCESS:
            self.executed += 1
        else:
            self.refused[f"{code.val}: {code.message}"] += 1
            self.failed.append(f"goal {self.sent}: {np.round(q, 5).tolist()}")
        self.measure_speeds()

    def measure_speeds(self) -> None:
        """Process the joint states received since the last call."""
        limits = dict(zip(self.group.joints, self.group.limits.velocity, strict=True))
        for message in self.planner.arm.states.messages:
            speeds = zip(message.name, message.velocity, strict=True)
            self.peak = max(self.peak, *(abs(v) / limits.get(name, np.inf) for name, v in speeds))
        self.planner.arm.clear()

    def row(self, seconds: float) -> Row:
        """Return the table's row."""
        return {
            "": self.robot.name, "goals": self.sent, "executed": self.executed,
            "not": self.sent - self.executed, "unreachable, not sent": self.unreachable,
            "contacts": self.reported("contacts"),
            "max depth [mm]": 1e3 * self.reported("contact depth max [m]"),
            "max force [N]": self.reported("contact force max [N]"),
            "peak speed / limit": self.peak, "s": seconds,
        }  # fmt: skip

    def notes(self) -> str:
        """Return the notes below the table."""
        pairs = values_of(self.client.diagnostics("/mujoco_sim")).get("contact pairs")
        notes = [*(f"{count} x {reason}" for reason, count in self.refused.most_common()),
                 *self.failed, f"contacts: {pairs or 'none'}"]  # fmt: skip
        return "\n".join(f"{self.robot.name}: {note}" for note in notes)


def bounds(group: Group) -> tuple[np.ndarray, np.ndarray]:
    """Return the joint limits of a group [rad or m], shape (n,); +-pi for continuous joints."""
    lower, upper = group.limits.lower, group.limits.upper
    return np.where(np.isfinite(lower), lower, -np.pi), np.where(np.isfinite(upper), upper, np.pi)


class Separation:
    """Values of single joints that are in collision with the floor for all values of the others.

    A joint cannot pass such a value, so goals beyond it are valid but unreachable: the shoulder of
    a UR10e has a range of a turn to either side, and the upper arm cannot pass below the floor.
    """

    def __init__(self, robot: Robot, group: Group) -> None:
        """Check each joint's range."""
        checker = CollisionChecker(robot, robot.joint_names, scene=floor_of(robot).scene())
        low, high = bounds(group)
        others = np.tile(robot.home, (OTHERS, 1))
        others[:, group.indices] = np.random.default_rng(2).uniform(low, high, (OTHERS, len(low)))

        def is_blocked(index: int, value: float) -> bool:
            always = set(robot.tree.links)  # links in the floor for all values of the others
            for q in others.copy():
                q[index] = value
                always &= {c.pair[0] for c in checker.explain(q) if c.kind == "world"}
                if not always:
                    return False
            return True

        self._home = robot.home[group.indices]
        self._blocked = [
            np.array([value for value in np.linspace(a, b, VALUES) if is_blocked(index, value)])
            for index, a, b in zip(group.indices, low, high, strict=True)
        ]

    def separates(self, q: np.ndarray) -> bool:
        """Return whether the floor separates a configuration of the group from home."""
        return any(
            bool(((min(a, b) < blocked) & (blocked < max(a, b))).any())
            for a, b, blocked in zip(self._home, q, self._blocked, strict=True)
        )


def measure(name: str, options: Options) -> tuple[Row, str]:
    """Return a row of the table, and its notes."""
    robot, rng = load_robot(name), np.random.default_rng(options.seed)
    group = next(g for g in robot.groups.values() if g.tip is not None)
    with motion_up(name, "--viewer", "none"):
        cell, separation = GoalCell(robot, group), Separation(robot, group)
        begin = time.monotonic()
        while cell.sent < options.goals:
            q = rng.uniform(*bounds(group))
            if not cell.valid(q):
                continue
            if separation.separates(q):
                cell.unreachable += 1
                continue
            cell.send(q)
            if cell.sent % 10 == 0:
                progress(f"{name}: {cell.sent} sent, {cell.executed} done, {dict(cell.refused)}, "
                         f"{cell.reported('contacts'):g} contacts, peak {cell.peak:g}")  # fmt: skip
        seconds = time.monotonic() - begin
        cell.client.spin(2.2)  # receive two more reports of the simulation
        cell.planner.arm.close()
        cell.client.close()
    return cell.row(seconds), cell.notes()


@benchmark("Random valid goals through move_action", ros=True, goals=(60, "for each robot"),
           robots=["franka", "ur10e"], seed=(1, "of the goals"))  # fmt: skip
def main(report: Report, options: Options) -> bool:
    """Send goals to each robot and print the results."""
    found = [measure(robot, options) for robot in options.robots]
    rows, notes = ([*part] for part in zip(*found, strict=True))
    report.table(f"{options.goals} goals each, seed {options.seed}", rows, "\n".join(notes))
    return any(row["not"] or row["contacts"] != 0.0 for row in rows)
