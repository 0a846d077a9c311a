# SPDX-License-Identifier: Apache-2.0
"""RMPflow: arrival from random starts, and clearance while obstacles move.

Run: ``python benchmarks/bench_rmpflow_runs.py`` (ten minutes for ``--starts 200 --scenes 200`` on a
quiet machine). Figures do not depend on how busy the machine is, but for planning.

A run begins at a collision-free configuration, 1 rad around the default posture or anywhere in the
joints' range (at most half a turn), and goes to a pose that a collision-free configuration within
0.6 rad of the posture has, or with the tool downwards to a place beside the base, reachable or not;
seeded, each by its number. Arrived: 5 mm, 1 degree, nearly at rest.
Runs that the policy alone does not end are repeated with what ``escape`` of the node offers: back
to the posture once, or a planner, whose path is not simulated. How scenes are drawn is documented
in ``rmpflow_scenes.py``. The follower of the node leads a robot in MuJoCo, whose contacts are the
judge: see ``judged_arm.py``. A robot that would have been hit had it stood still is counted, to see
how often there was something to do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from harness import Cell, Report, Spread, arguments, progress
from judged_arm import FRAME, JUDGED, JudgedArm, Verdict, judged
from rmpflow_scenes import Outcome, draw_scene, run_scene

from motion_nodes.model.loader import load_robot
from motion_nodes.model.poses import from_xyz_rpy
from motion_nodes.model.tree import Array
from motion_nodes.planning.pipeline import plan
from motion_nodes.planning.planning_problem import PlanRequest, PoseGoal
from motion_nodes.planning.warm_up import warm_up
from motion_nodes.rmpflow.follower_settings import FollowerSettings, Phase
from motion_nodes.rmpflow.policy import RmpflowPolicy
from motion_nodes.rmpflow.target_follower import Follower
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.scene import Scene

KINDS = ("1 rad around the posture", "whole range of the joints", "whole range, beside the base")
BESIDE = ((0.35, -0.35, 0.3), (0.6, 0.35, 0.6))
"""Bounds of places beside the base [m]."""
WAYS = ("alone", "posture", "planner")
LONGEST, ESCAPING = 15.0, 45.0  # [s] alone, and with an escape
STANDING = 1.0  # [s] stuck and at rest, after which a run ends
PLANNING = 5.0  # [s]


class Run(NamedTuple):
    """How one run ended."""

    seconds: float | None = None
    """Time of arrival [s]; None where it did not arrive."""
    stuck: bool = False
    """Whether the policy reports it stuck."""
    verdict: Verdict | None = None


class Runs:
    """One robot's policy, run from start after start."""

    def __init__(self, name: str, kind: type[RmpflowPolicy] = RmpflowPolicy) -> None:
        """Load the robot."""
        self.name = name
        self.policy = kind(load_robot(name), ignore_robot_state_updates=True)
        self.checker = CollisionChecker(self.policy.robot, self.policy.active_joints)
        self.arm = JudgedArm(self.policy)
        warm_up(self.checker)
        self._alone: dict[tuple[int, str], Run] = {}

    def arrival(self, seed: int, kind: str, way: str) -> Run:
        """Return one run; with an escape it differs only where the policy alone did not arrive."""
        alone = self._alone.get((seed, kind), Run())
        if alone.seconds is not None:
            return alone
        self.checker.set_scene(Scene())
        found = self._run(*self._start(seed, kind), way)
        self._alone.setdefault((seed, kind), found)
        return found

    def scene(self, seed: int) -> Outcome:
        """Return what came of one scene."""
        scene = draw_scene(self.policy, self.checker, np.random.default_rng(seed))
        return run_scene(self.arm, scene)

    def _start(self, seed: int, kind: str) -> tuple[Array, Array]:
        """Return a free start, and a pose of the tool."""
        rng, limits = np.random.default_rng(seed), self.checker.limits
        home = self.policy.default_cspace_target
        low, high = np.maximum(limits.lower, -np.pi), np.minimum(limits.upper, np.pi)
        while True:
            goal = limits.clip(home + rng.uniform(-0.6, 0.6, len(home)))
            near = kind == KINDS[0]
            spread = home + rng.uniform(-1.0, 1.0, len(home)) if near else rng.uniform(low, high)
            q, X = limits.clip(spread), self.policy.tool_pose(goal)
            if kind == KINDS[2]:
                if self.checker.is_free(q):
                    return q, from_xyz_rpy(rng.uniform(*BESIDE), (np.pi, 0.0, 0.0))
                continue
            in_reach = np.hypot(*X[:2, 3]) > 0.35 and X[2, 3] > 0.15
            if in_reach and self.checker.is_free(q) and self.checker.is_free(goal):
                return q, X

    def _run(self, q: Array, X_WT: Array, way: str) -> Run:
        policy = self.policy
        policy.reset()
        settings = FollowerSettings(retreat=way == "posture", escape=way == "planner")
        follower = Follower(policy, settings)
        follower.follow_pose(X_WT, 0.0)
        self.arm.start(q, policy.scene)
        now, quiet, arrived = 0.0, 0.0, None
        while now < (LONGEST if way == WAYS[0] else ESCAPING):
            q, qd = self.arm.follow(follower, policy.scene, now)
            now += FRAME
            if follower.escape_target is not None:
                q, took = self._escape(q, X_WT)
                now += took
                self.arm.place(q, policy.scene)
                follower.hand_back(now, "" if took else "no path was found")
            if follower.phase is Phase.ARRIVED:
                arrived = now
                break
            stands = follower.phase is Phase.STUCK and float(np.abs(qd).max()) < 5e-3
            quiet = quiet + FRAME if stands else 0.0
            if quiet > STANDING:
                break
        return Run(arrived, arrived is None and policy.stuck, self.arm.verdict)

    def _escape(self, q: Array, X_WT: Array) -> tuple[Array, float]:
        """Return where a plan ends, and its duration [s]; 0 where there is none."""
        goal = PoseGoal(self.policy.tool, X_WT)
        found = plan(PlanRequest(self.checker, q, (goal,), PLANNING, 1))
        if found.trajectory is None:
            return q, 0.0
        return np.array(found.trajectory.positions[-1]), float(found.trajectory.times[-1])


ARRIVALS = ["", "runs", "arrived [%]", "reported stuck", "median [s]", "longest [s]", *JUDGED]
SCENES = ["", "scenes", "arrived [%]", "touched if still", "5 % [mm]", *JUDGED]


def arrival_row(what: str, found: list[Run]) -> list[Cell]:
    """Return the table's row about some runs."""
    took = Spread.of(run.seconds for run in found if run.seconds is not None)
    verdicts = [run.verdict for run in found if run.verdict is not None]
    return [what, len(found), 100.0 * took.count / len(found), sum(run.stuck for run in found),
            took.p50, took.maximum, *judged(verdicts)]  # fmt: skip


def scene_row(name: str, found: list[Outcome]) -> list[Cell]:
    """Return the table's row about scenes."""
    clearance, passive, error = np.array(
        [(run.verdict.clearance, run.passive, run.error) for run in found]
    ).T
    return [
        name, len(found), 100.0 * float((error < 0.01).mean()), int((passive < 0.0).sum()),
        1e3 * float(np.percentile(clearance, 5)), *judged([run.verdict for run in found]),
    ]  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--starts", type=int, default=200)
    parser.add_argument("--scenes", type=int, default=200)
    parser.add_argument("--robots", nargs="+", default=("franka", "ur10e"), metavar="NAME")
    options = parser.parse_args()
    report = Report("RMPflow: arrivals and clearances")
    robots = [Runs(name) for name in options.robots]
    rows = []
    for robot in robots:
        for kind in KINDS:
            for way in WAYS:
                what = f"{robot.name}, {kind}, {way}"
                progress(what)
                found = [robot.arrival(seed, kind, way) for seed in range(options.starts)]
                rows += [arrival_row(what, found)] if found else []
    if rows:
        report.table(
            "From random starts to random poses",
            ARRIVALS,
            rows,
            "Posture, planner: as alone, but where that is stuck it goes back to its posture "
            "once, or along a planner's path.",
        )
    if options.scenes:
        rows = []
        for robot in robots:
            progress(f"{robot.name}, scenes")
            rows.append(scene_row(robot.name, [robot.scene(k) for k in range(options.scenes)]))
        report.table("Two flying balls, two boxes, a table; 8 s each", SCENES, rows)
    report.write(options.json)


if __name__ == "__main__":
    main()
