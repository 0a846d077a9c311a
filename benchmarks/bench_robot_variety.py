# SPDX-License-Identifier: Apache-2.0
"""Random goals of robots that are given as a file: lift column, palletizer, SCARA, and others.

Each file is started by ``motion up FILE`` in MuJoCo, without a robot.yaml. A client in this process
sends random joint goals, and pose goals for every second of them, to the planner, and judges by the
simulation: its joint states reach the goal, the mimic joints follow their leaders, and the
simulation reports no unexpected contact.

    python benchmarks/bench_robot_variety.py [--goals 50] [NAME ...]
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import rclpy
from suite_client import Suite, joint_goal, pose_goal

from motion_nodes import load_robot
from motion_nodes.core.robot.configurations import Followers
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.robot import Group, Robot

FILES = Path(__file__).parent.parent / "test" / "variety"
ARMS = ("lift_column", "palletizer", "scara", "two_turns", "pan_tilt")
REACHED, FOLLOWS = 0.02, 0.01
"""Max distance of a joint from its goal, and of a mimic joint from its leader's [rad or m]."""
POSE_REACHED = 0.01
"""Max distance of the simulated tip from its goal [m]."""


@dataclass
class Outcome:
    """Counts of one robot."""

    name: str
    goals: int = 0
    carried_out: int = 0
    off: float = 0.0
    """Max distance of a joint from its goal."""
    loose: float = 0.0
    """Max distance of a mimic joint from its leader's position."""
    contacts: int = 0
    faults: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return one line."""
        return (
            f"{self.name:12} {self.carried_out:3} of {self.goals:3} goals, joints within "
            f"{self.off:.2g}, mimic joints within {self.loose:.2g}, {self.contacts} contacts"
            + "".join(f"\n    {fault}" for fault in self.faults[:5])
        )


def run(file: Path, goals: int, seed: int, folder: Path, seconds: float = np.inf) -> Outcome:
    """Send random goals to one robot.

    Args:
        file: URDF or MJCF.
        goals: number of goals.
        seed: of the random numbers.
        folder: for logs.
        seconds: time after which no goal is sent.
    """
    robot: Robot = load_robot(str(file)).description
    outcome, rng = Outcome(file.stem), np.random.default_rng(seed)
    groups = [group for group in robot.groups.values() if group.tip is not None]
    suite, until = Suite(file, folder), time.monotonic() + seconds
    kinematics = Kinematics(robot.tree, robot.joint_names, base=robot.base_frame)
    try:
        suite.spin(1.0)
        for number in range(goals):
            if time.monotonic() > until:
                break
            group = groups[number % len(groups)]
            _goal(suite, robot, kinematics, group, rng, outcome)
        suite.spin(1.5)  # the last report
        outcome.contacts = suite.contacts
    finally:
        suite.close()
    return outcome


def _goal(
    suite: Suite,
    robot: Robot,
    kinematics: Kinematics,
    group: Group,
    rng: np.random.Generator,
    outcome: Outcome,
) -> None:
    limits = group.limits
    low = np.where(np.isfinite(limits.lower), limits.lower, -np.pi)
    high = np.where(np.isfinite(limits.upper), limits.upper, np.pi)
    for _ in range(200):
        q = rng.uniform(low, high)
        if suite.valid(group.joints, q):
            break
    else:
        outcome.faults.append(f"{group.name}: no valid goal was found")
        return
    outcome.goals += 1
    whole = np.array([suite.q[name] for name in robot.joint_names])
    whole[group.indices] = q
    X = kinematics.pose(whole, str(group.tip))
    by_pose = outcome.goals % 2 == 0 and len(group.joints) > 3
    constraints = joint_goal(dict(zip(group.joints, q, strict=True)))
    if by_pose:
        constraints = pose_goal(str(group.tip), robot.base_frame, X)
    fault = suite.move(group.name, constraints)
    suite.spin(0.4)
    now = np.array([suite.q[name] for name in robot.joint_names])
    followers = Followers(robot.tree)
    there = np.array([suite.q[name] for name in followers.names])
    loose = float(np.max(np.abs(there - followers.positions(now)), initial=0.0))
    outcome.loose = max(outcome.loose, loose)
    if by_pose:
        reached = kinematics.pose(now, str(group.tip))
        off, allowed = float(np.linalg.norm(reached[:3, 3] - X[:3, 3])), POSE_REACHED
    else:
        way = now[group.indices] - q
        turning = ~np.isfinite(limits.upper - limits.lower)
        way = np.where(turning, (way + np.pi) % (2.0 * np.pi) - np.pi, way)
        off, allowed = float(np.max(np.abs(way))), REACHED
        outcome.off = max(outcome.off, off if not fault else 0.0)
    if fault or off > allowed or loose > FOLLOWS:
        kind = "pose" if by_pose else "joints"
        outcome.faults.append(f"{kind} {np.round(q, 3).tolist()}: {fault or f'off by {off:.3g}'}")
    else:
        outcome.carried_out += 1


def main() -> int:
    """Run the robots named on the command line; exit code 1 if a goal was not carried out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(ARMS))
    parser.add_argument("--goals", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=np.inf, help="for each robot")
    parser.add_argument("--json", metavar="FILE", help="write the counts there too")
    given = parser.parse_args()
    rclpy.init()
    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        for name in given.names:
            file = next(iter(sorted(FILES.glob(f"{name}.*"))), Path(name))
            outcomes.append(run(file, given.goals, given.seed, Path(folder), given.seconds))
            print(outcomes[-1].text(), flush=True)
    if given.json:
        counts = [dataclasses.asdict(found) for found in outcomes]
        Path(given.json).write_text(json.dumps(counts, indent=1, default=str), encoding="utf-8")
    return int(any(found.carried_out < found.goals for found in outcomes))


if __name__ == "__main__":
    sys.exit(main())
