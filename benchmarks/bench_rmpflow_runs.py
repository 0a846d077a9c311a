# SPDX-License-Identifier: Apache-2.0
"""RMPflow: arrival from random starts, and clearance while obstacles move.

Run: ``python benchmarks/bench_rmpflow_runs.py`` (ten minutes for ``--starts 200 --scenes 200`` on a
quiet machine). ``--time-limit SECONDS`` ends it sooner, with figures of what was run by then; with
``--keep FILE`` results are kept, and the next call goes on (another FILE after a change of code or
settings). Figures do not depend on how busy the machine is, but for planning.

A run begins at a free configuration, 1 rad around the default posture or anywhere in the joints'
range (at most half a turn), and goes to a pose that a free configuration within 0.6 rad of the
posture has; seeded, each by its number. Arrived: 5 mm, 1 degree, nearly at rest. Runs that the
policy alone does not end are repeated with what ``escape`` of the node offers: back to the posture
once, or a planner. Distances of links are those of their spheres. How scenes are drawn stands in
``rmpflow_scenes.py``; clearance there is that of the robot's geometry by coal. A robot that would
have been hit had it stood still is counted, so that it is seen how often there was something to do.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from pathlib import Path

import numpy as np
from kept_runs import KeptRuns, Result
from report import Cell, Report, arguments, progress
from rmpflow_arrivals import WAYS, Runs, draw_start
from rmpflow_scenes import draw_scene, run_scene
from rmpflow_truth import Truth

from motion_nodes.model.loader import load_robot
from motion_nodes.rmpflow.policy import RmpflowPolicy
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.scene import Scene

ROBOTS = ("franka", "ur10e")
KINDS = ("1 rad around the posture", "whole range of the joints")


class Robot:
    """What the runs of a robot need."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.policy = RmpflowPolicy(load_robot(name), ignore_robot_state_updates=True)
        self.checker = CollisionChecker(self.policy.robot, self.policy.active_joints)
        self.truth = Truth(self.policy.robot, self.policy.active_joints)
        self.runs = Runs(self.policy, self.checker)

    def arrival(self, kept: KeptRuns, seed: int, wide: bool, way: str) -> Result | None:
        """Return one run; with a way out it differs only where the policy alone did not arrive."""
        if way != WAYS[0]:
            alone = self.arrival(kept, seed, wide, WAYS[0])
            if alone is None or alone["seconds"] is not None:
                return alone

        def run() -> Result:
            self.checker.set_scene(Scene())
            return self.runs.run(draw_start(self.policy, self.checker, seed, wide), way)

        return kept.get(f"{self.name}/{KINDS[wide]}/{way}/{seed}", run)

    def scene(self, kept: KeptRuns, seed: int) -> Result | None:
        """Return what came of one scene."""

        def run() -> Result:
            scene = draw_scene(self.policy, self.checker, np.random.default_rng(seed))
            return dataclasses.asdict(run_scene(self.policy, self.checker, self.truth, scene))

        return kept.get(f"{self.name}/scene/{seed}", run)


def arrival_row(what: str, found: list[Result]) -> list[Cell]:
    """Return the table's row about some runs."""
    there = [run for run in found if run["seconds"] is not None]
    took = [run["seconds"] for run in there]
    return [
        what, len(found), 100.0 * len(there) / max(1, len(found)),
        sum(run["stuck"] for run in found),
        statistics.median(took) if took else None, max(took, default=None),
        1e3 * max((run["position"] for run in there), default=math.nan),
        math.degrees(max((run["orientation"] for run in there), default=math.nan)),
    ]  # fmt: skip


def scene_row(name: str, found: list[Result]) -> list[Cell]:
    """Return the table's row about scenes."""
    least = [run["clearance"] for run in found]
    return [
        name, len(found), sum(x < 0.0 for x in least), sum(run["passive"] < 0.0 for run in found),
        1e3 * min(least, default=math.nan), 1e3 * float(np.percentile(least or [math.nan], 5)),
        1e3 * min((run["apart"] for run in found), default=math.nan),
        100.0 * sum(run["error"] < 0.01 for run in found) / max(1, len(found)),
    ]  # fmt: skip


def some(results: list[Result | None]) -> list[Result]:
    """Return those that were run."""
    return [result for result in results if result is not None]


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--starts", type=int, default=200)
    parser.add_argument("--scenes", type=int, default=200)
    parser.add_argument("--robots", nargs="+", default=ROBOTS, metavar="NAME")
    parser.add_argument("--time-limit", type=float, default=math.inf, metavar="SECONDS")
    parser.add_argument("--keep", type=Path, metavar="FILE")
    options = parser.parse_args()
    report = Report("RMPflow: arrivals and clearances")
    kept = KeptRuns(options.keep, options.time_limit)
    robots = [Robot(name) for name in options.robots]
    starts, scenes = range(options.starts), range(options.scenes)
    progress("runs")
    cases = [(robot, wide, way) for robot in robots for wide in (False, True) for way in WAYS]
    for seed in range(max(len(starts), len(scenes))):
        # Seed by seed, so that a time limit leaves figures about everything.
        for robot in robots:
            if seed in starts:
                for _, wide, way in (case for case in cases if case[0] is robot):
                    robot.arrival(kept, seed, wide, way)
            if seed in scenes:
                robot.scene(kept, seed)
    report.table(
        "From random starts to random poses",
        ["", "runs", "arrived [%]", "told stuck", "median [s]", "longest [s]",
         "2 s later: most [mm]", "[deg]"],
        [arrival_row(f"{robot.name}, {KINDS[wide]}, {way}",
                     some([robot.arrival(kept, seed, wide, way) for seed in starts]))
         for robot, wide, way in cases],
        "Posture, planner: as alone, but where that is stuck it goes back to its posture once, or "
        "a planner's way.",
    )  # fmt: skip
    report.table(
        "Two flying balls, two boxes, a table; 8 s each",
        ["", "scenes", "touched", "touched if still", "least [mm]", "5 % [mm]", "links [mm]",
         "arrived [%]"],
        [scene_row(robot.name, some([robot.scene(kept, seed) for seed in scenes]))
         for robot in robots],
    )  # fmt: skip
    report.write(options.json)


if __name__ == "__main__":
    main()
