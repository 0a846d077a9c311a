# SPDX-License-Identifier: Apache-2.0
"""Random requests in a row to a robot that is given as a file, without simulation.

``motion up FILE --backend mock`` runs with shipped defaults. A client in this process sends goals
of joints and of a pose to ``move_action``, straight paths to ``compute_cartesian_path`` and then
``execute_trajectory``, and poses to ``compute_ik``, in random order, and judges by kinematics and
by ``joint_states``. Poses are those of random configurations without collision, so that each can be
reached. A straight path may end early, at a limit or before a collision: then it must say so, and
must be straight up to there.

    python benchmarks/bench_random_requests.py [--goals 50] [--group NAME] [--kinds joints] FILE ...
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import rclpy
from suite_client import Array, Suite, failure, joint_goal, pose_goal

from motion_nodes import load_robot
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.robot import Group, Robot

KINDS = ("joints", "pose", "path", "ik")
REACHED, POSE_REACHED, TURN_REACHED = 2e-3, 2e-3, 1e-2
"""Max distance of a joint [rad or m] and of a tip [m, rad] from its goal."""
STRAIGHT = 2e-3
"""Max distance of a straight path from its line [m]."""
SOLVED, TURN_SOLVED = 1e-4, 1e-3
"""Max distance of a solution of IK from its pose [m, rad], the defaults of ``compute_ik``."""
STEP = 0.06
"""Length of a straight path [m]."""


@dataclass
class Outcome:
    """Counts of one robot."""

    name: str
    group: str
    asked: collections.Counter[str] = field(default_factory=collections.Counter)
    done: collections.Counter[str] = field(default_factory=collections.Counter)
    partial: int = 0
    """Straight paths that ended early, and said so."""
    seconds: dict[str, list[float]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return one line, and the faults."""
        counts = ", ".join(f"{kind} {self.done[kind]} of {n}" for kind, n in self.asked.items())
        slow = max((max(each) for each in self.seconds.values()), default=0.0)
        return (
            f"{self.name:12} {self.group:12} {counts}; {self.partial} paths ended early; "
            f"slowest {slow:.2f} s" + "".join(f"\n    {fault}" for fault in self.faults[:8])
        )


class Requests:
    """Sends random requests for one group of a robot."""

    def __init__(self, suite: Suite, robot: Robot, group: Group, seed: int) -> None:
        self._suite, self._robot, self._group = suite, robot, group
        self._rng = np.random.default_rng(seed)
        self._kinematics = Kinematics(robot.tree, robot.joint_names, base=robot.base_frame)
        self._turns = group.limits.turns
        self.outcome = Outcome(robot.name, group.name)

    def send(self, kind: str) -> None:
        """Send one request of a kind, and judge the response."""
        q = self._random_configuration()
        if q is None:
            self.outcome.faults.append("no configuration without collision was found")
            return
        self.outcome.asked[kind] += 1
        begin = time.monotonic()
        fault = getattr(self, f"_{kind}")(q)
        self.outcome.seconds.setdefault(kind, []).append(time.monotonic() - begin)
        if fault:
            self.outcome.faults.append(f"{kind} {np.round(q, 4).tolist()}: {fault}")
        else:
            self.outcome.done[kind] += 1

    def _random_configuration(self) -> Array | None:
        limits = self._group.limits
        low = np.where(np.isfinite(limits.lower), limits.lower, -np.pi)
        high = np.where(np.isfinite(limits.upper), limits.upper, np.pi)
        for _ in range(500):
            q = self._rng.uniform(low, high)
            if self._suite.valid(self._group.joints, q, self._group.name):
                return q
        return None

    def _tip_pose(self, q: Array | None = None) -> Array:
        """Return the pose of the tip, of the measured positions or others of the group."""
        whole = self._suite.positions(self._robot.joint_names)
        if q is not None:
            whole[self._group.indices] = q
        return self._kinematics.pose(whole, str(self._group.tip))

    def _joints(self, q: Array) -> str:
        fault = self._suite.move(
            self._group.name, joint_goal(dict(zip(self._group.joints, q, strict=True)))
        )
        self._suite.spin(0.2)
        off = self._turns.difference(q, self._suite.positions(self._group.joints))
        far = float(np.max(np.abs(off)))
        return fault or (f"off by {far:.3g}" if far > REACHED else "")

    def _pose(self, q: Array) -> str:
        X = self._tip_pose(q)
        tip, base = str(self._group.tip), self._robot.base_frame
        fault = self._suite.move(self._group.name, pose_goal(tip, base, X))
        self._suite.spin(0.2)
        away, turned = _apart(self._tip_pose(), X)
        if fault or (away <= POSE_REACHED and turned <= TURN_REACHED):
            return fault
        return f"off by {away:.3g} m and {turned:.3g} rad"

    def _ik(self, q: Array) -> str:
        X, tip, base = self._tip_pose(q), str(self._group.tip), self._robot.base_frame
        answer = self._suite.inverse_kinematics(self._group.name, tip, base, X)
        if answer is None:
            return "no response"
        fault = failure(answer.error_code)
        if fault:
            return fault
        state = answer.solution.joint_state
        found = dict(zip(state.name, state.position, strict=True))
        whole = np.array([found[name] for name in self._robot.joint_names])
        away, turned = _apart(self._kinematics.pose(whole, tip), X)
        limits = self._robot.limits
        if np.any(whole < limits.lower - 1e-9) or np.any(whole > limits.upper + 1e-9):
            return f"the solution {found} is outside of its limits"
        if away <= SOLVED and turned <= TURN_SOLVED:
            return ""
        return f"off by {away:.3g} m and {turned:.3g} rad"

    def _path(self, q: Array) -> str:
        del q
        tip, base = str(self._group.tip), self._robot.base_frame
        begin, way = self._tip_pose(), self._direction() * STEP
        end = begin.copy()
        end[:3, 3] += way
        answer = self._suite.cartesian_path(self._group.name, tip, base, [end])
        if answer is None:
            return "no response"
        fault = failure(answer.error_code)
        if answer.fraction < 1.0 - 1e-6:
            self.outcome.partial += 1
            if not answer.error_code.message:
                return f"fraction {answer.fraction} without a word"
            if not answer.fraction > 0.0:
                return ""
        elif fault:
            return f"whole, but {fault}"
        fault = self._straight(answer.solution.joint_trajectory, begin, way * answer.fraction)
        fault = fault or self._suite.execute(answer.solution)
        self._suite.spin(0.2)
        away = float(np.linalg.norm(self._tip_pose()[:3, 3] - begin[:3, 3] - way * answer.fraction))
        return fault or (f"off by {away:.3g} m" if away > POSE_REACHED else "")

    def _direction(self) -> Array:
        """Return a random direction in which the tip can move without turning, shape (3,)."""
        whole = self._suite.positions(self._robot.joint_names)
        J = self._kinematics.jacobian(whole, str(self._group.tip))[:, self._group.indices]
        _, values, rows = np.linalg.svd(J[3:])
        still = rows[int((values > 1e-6).sum()) :]  # joint motions without a turn of the tip
        moved = J[:3] @ still.T
        way = np.asarray(moved @ np.linalg.pinv(moved) @ self._rng.normal(size=3))
        return way / max(float(np.linalg.norm(way)), 1e-9)

    def _straight(self, trajectory: object, begin: Array, way: Array) -> str:
        """Return where a trajectory leaves its line; empty: nowhere."""
        names = trajectory.joint_names  # type: ignore[attr-defined]
        whole = self._suite.positions(self._robot.joint_names)
        columns = [self._robot.joint_names.index(name) for name in names]
        along, most = way / max(float(np.linalg.norm(way)), 1e-9), 0.0
        for point in trajectory.points:  # type: ignore[attr-defined]
            whole[columns] = point.positions
            now = self._kinematics.pose(whole, str(self._group.tip))[:3, 3] - begin[:3, 3]
            most = max(most, float(np.linalg.norm(now - along * (along @ now))))
        return f"{most:.3g} m beside its line" if most > STRAIGHT else ""


def _apart(X: Array, goal: Array) -> tuple[float, float]:
    """Return distance [m] and angle [rad] of two poses."""
    cos = 0.5 * (float(np.trace(X[:3, :3].T @ goal[:3, :3])) - 1.0)
    apart = float(np.linalg.norm(X[:3, :3] - goal[:3, :3])) / np.sqrt(2.0)
    turned = apart if cos > 0.9 else float(np.arccos(np.clip(cos, -1.0, 1.0)))
    return float(np.linalg.norm(X[:3, 3] - goal[:3, 3])), turned


def run(file: Path, given: argparse.Namespace, folder: Path) -> list[Outcome]:
    """Send the requests to one robot; return the counts of each group."""
    robot = load_robot(str(file)).description
    names = given.group or [name for name, group in robot.groups.items() if group.tip]
    groups = [robot.group(name) for name in names]
    suite = Suite(file, folder, ("--backend", "mock"))
    try:
        suite.spin(1.0)
        requests = [Requests(suite, robot, group, given.seed) for group in groups]
        until, rng = time.monotonic() + given.seconds, np.random.default_rng(given.seed)
        for number in range(given.goals):
            if time.monotonic() > until:
                break
            one = requests[number % len(requests)]
            kinds = given.kinds if groups[number % len(requests)].tip else ["joints"]
            try:
                one.send(str(rng.choice(kinds)))
            except KeyboardInterrupt:
                one.outcome.faults.append("interrupted during the last request")
                break
    finally:
        suite.close()
    return [each.outcome for each in requests]


def main() -> int:
    """Run the robots named on the command line; exit code 1 if a request failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--goals", type=int, default=50, help="requests to each robot")
    parser.add_argument("--group", action="append", help="default: each group with a tip in turn")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=np.inf, help="for each robot")
    parser.add_argument("--json", metavar="FILE", help="write the counts there too")
    given = parser.parse_args()
    rclpy.init()
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder:
        for file in given.files:
            found = run(file.resolve(), given, Path(folder))
            outcomes += found
            print("\n".join(each.text() for each in found), flush=True)
    if given.json:
        counts = [dataclasses.asdict(found) for found in outcomes]
        Path(given.json).write_text(json.dumps(counts, indent=1, default=str), encoding="utf-8")
    return int(any(each.faults for each in outcomes))


if __name__ == "__main__":
    sys.exit(main())
