# SPDX-License-Identifier: Apache-2.0
"""RMPflow: arrivals from random starts, and clearance to moving obstacles.

Run: ``python benchmarks/bench_rmpflow_runs.py`` (ten minutes for ``--starts 200 --scenes 200`` on
an idle machine). Only results of planning depend on the load of the machine.

A run starts at a collision-free configuration, 1 rad around the default posture or anywhere in the
joint range (at most half a turn). Its goal is the pose of a collision-free configuration within 0.6
rad of the posture, or a downward tool pose beside the base, reachable or not; from home, that of
any collision-free configuration (``--kinds 3``). The seed is the run's number. Arrived: within 5 mm
and 1 degree, nearly at rest. Runs that do not arrive are repeated with the options of the node's
``escape``: back to the posture once, or a planner, whose path is not simulated. A scene contains a
table, resting boxes, and balls that fly through the workspace. The node's target follower commands
a robot in MuJoCo, which reports contacts (see ``test/rmpflow/judged_arm.py``). Scenes with contacts
of a resting robot are counted for comparison.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from harness import Options, Report, Row, Spread, benchmark, progress
from harness.timing import mean
from rmpflow.judged_arm import FRAME, JudgedArm, Verdict, judged
from scene.checkers import configurations

from motion_nodes.core.planning.pipeline import plan
from motion_nodes.core.planning.planning_problem import PlanRequest, PoseGoal
from motion_nodes.core.planning.warm_up import warm_up
from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.reactive.policy_state import FollowerSettings, Phase
from motion_nodes.core.reactive.target_follower import Follower
from motion_nodes.core.robot.loader import load_description
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box, Sphere
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import Scene, WorldObject, world_object
from motion_nodes.typing import Array

KINDS = ("1 rad around the posture", "whole range of the joints", "whole range, beside the base",
         "home, to the whole range")  # fmt: skip
BESIDE = ((0.35, -0.35, 0.3), (0.6, 0.35, 0.6))
"""Bounds of positions beside the base [m]."""
WAYS = ("alone", "posture", "planner")
LONGEST, ESCAPING = 15.0, 45.0  # Timeout of a run [s]: alone, with an escape
STANDING = 1.0  # A run ends after being stuck and at rest for this time [s]
PLANNING = 5.0  # Planning timeout [s]
DURATION = 8.0  # Duration of a scene [s]
BALLS, BOXES = 2, 2
_COLUMN, _COLUMN_TOP = 0.3, 0.6  # column without balls at the base [m]


class Run(NamedTuple):
    """Result of one run."""

    seconds: float | None
    """Time of arrival [s]; None: not arrived."""
    stuck: bool
    """Whether the policy reports that it is stuck."""
    verdict: Verdict


@dataclass
class MovingScene:
    """Start, target and obstacles of one run."""

    start: np.ndarray
    target: np.ndarray
    standing: dict[str, WorldObject]
    flights: list[tuple[WorldObject, np.ndarray, np.ndarray]]
    """Balls with start positions [m] and velocities [m/s]."""

    def at(self, t: float) -> Scene:
        """Return the scene at a time [s]."""
        balls = {b.name: replace(b, X_WO=from_xyz_rpy(p + t * v)) for b, p, v in self.flights}
        return Scene(objects={**self.standing, **balls})


def _around(rng: np.random.Generator, reach: float) -> np.ndarray:
    while True:
        p = rng.uniform((-reach, -reach, 0.0), (reach, reach, 1.2 * reach))
        if np.hypot(p[0], p[1]) > _COLUMN:
            return p


def _flight(
    rng: np.random.Generator, k: int, reach: float
) -> tuple[WorldObject, np.ndarray, np.ndarray]:
    """Return a ball that passes through the workspace outside the base's column."""
    radius = float(rng.uniform(0.04, 0.08))
    while True:
        middle, direction = _around(rng, reach), rng.normal(size=3)
        direction *= rng.uniform(0.1, 0.3) / np.linalg.norm(direction)
        start = middle - 0.5 * DURATION * direction
        path = start + np.linspace(0.0, DURATION, 200)[:, None] * direction
        near = (np.hypot(path[:, 0], path[:, 1]) < _COLUMN + radius) & (path[:, 2] < _COLUMN_TOP)
        if not near.any():
            return world_object(f"ball{k}", Sphere(radius), np.eye(4)), start, direction


class Outcome(NamedTuple):
    """Result of a scene."""

    verdict: Verdict
    error: float
    """Distance of the measured tool from its target at the end [m]."""
    passive: float
    """Min distance of a robot at rest at its start [m]."""


def _in_front(X: np.ndarray) -> bool:
    """Return whether a pose of the tool is neither at the base nor low."""
    return bool(np.hypot(*X[:2, 3]) > 0.35 and X[2, 3] > 0.15)


class Runs:
    """Runs of one robot's policy."""

    def __init__(self, name: str, kind: type[RmpflowPolicy] = RmpflowPolicy) -> None:
        self.name = name
        self.policy = kind(load_description(name), ignore_robot_state_updates=True)
        self.checker = CollisionChecker(self.policy.robot, self.policy.active_joints)
        self.arm, self._home = JudgedArm(self.policy), self.policy.default_cspace_target
        warm_up(self.checker)
        self._alone: dict[tuple[int, str], Run] = {}

    def arrival(self, seed: int, kind: str, way: str) -> Run:
        """Return one run; with an escape it differs only if the policy alone did not arrive."""
        alone = self._alone.get((seed, kind))
        if alone is not None and alone.seconds is not None:
            return alone
        self.checker.set_scene(Scene())
        found = self.run(*self._start(seed, kind), way=way)
        self._alone.setdefault((seed, kind), found)
        return found

    def scene(self, seed: int) -> Outcome:
        """Run the policy in a scene; obstacles are updated at 100 Hz."""
        scene, policy = self._scene(np.random.default_rng(seed)), self.policy
        policy.reset()
        follower = Follower(policy)
        follower.follow_pose(scene.target, 0.0)
        arm, q = self.arm, scene.start
        arm.start(q, scene.at(0.0))
        moments = np.arange(0.0, DURATION, 5 * FRAME)
        passive = min(arm.clearance_at_rest(scene.at(t)) for t in moments)
        arm.place(q, scene.at(0.0))
        for k in range(round(DURATION / FRAME)):
            q, _ = arm.follow(follower, scene.at(k * FRAME), k * FRAME)
        error = np.linalg.norm(policy.tool_pose(q)[:3, 3] - scene.target[:3, 3])
        return Outcome(arm.verdict, float(error), passive)

    def _scene(self, rng: np.random.Generator) -> MovingScene:
        """Return a scene whose start and target are collision-free; balls pass beside the base."""
        reach = float(np.linalg.norm(self.policy.tool_pose(self._home)[:3, 3]))
        table = world_object("table", Box((1.6, 1.6, 0.1)), from_xyz_rpy((0.0, 0.0, -0.25)))
        while True:
            ends = [self.near_home(rng, 0.6) for _ in range(2)]
            X = self.policy.tool_pose(ends[1])
            if not _in_front(X):
                continue
            standing = {"table": table}
            for k in range(BOXES):
                p, size = _around(rng, reach), rng.uniform(0.05, 0.2, 3).tolist()
                pose = from_xyz_rpy(p, (0.0, 0.0, rng.uniform(-3.0, 3.0)))
                standing[f"box{k}"] = world_object(f"box{k}", Box(tuple(size)), pose)
            flights = [_flight(rng, k, reach) for k in range(BALLS)]
            scene = MovingScene(ends[0], X, standing, flights)
            self.checker.set_scene(Scene(objects=standing))
            if all(map(self._is_clear, ends)):
                self.checker.set_scene(scene.at(0.0))
                if self._is_clear(ends[0]):
                    return scene

    def _start(self, seed: int, kind: str) -> tuple[Array, Array]:
        """Return a collision-free start, and a target pose of the tool."""
        rng, is_free = np.random.default_rng(seed), self.checker.is_free
        while True:
            goal = self.near_home(rng, 0.6)
            if kind == KINDS[0]:
                q = self.near_home(rng, 1.0)
            else:
                q = configurations(self.checker, 1, rng)[0]
            if kind == KINDS[3] and self.checker.exact.is_free(q):
                return self.arm.robot.home[self.arm.active], self.policy.tool_pose(q)
            if kind == KINDS[2] and is_free(q):
                return q, from_xyz_rpy(rng.uniform(*BESIDE), (np.pi, 0.0, 0.0))
            X = self.policy.tool_pose(goal)
            if kind in KINDS[:2] and _in_front(X) and is_free(q) and is_free(goal):
                return q, X

    def near_home(self, rng: np.random.Generator, most: float) -> Array:
        """Return a random configuration near the default posture."""
        home = self._home
        return self.checker.limits.clip(home + rng.uniform(-most, most, len(home)))

    def _is_clear(self, q: Array) -> bool:
        distances = self.checker.sphere_distances(q).distance
        return self.checker.is_free(q) and bool(distances.min() > 0.03)

    def run(
        self, q: Array, X_WT: Array, scene: Scene | None = None, *, way: str = WAYS[0],
        oriented: bool = True,
    ) -> Run:  # fmt: skip
        """Follow a pose, or its position only, from rest at a configuration."""
        policy, scene = self.policy, scene or Scene()
        policy.reset()
        settings = FollowerSettings(retreat=way == "posture", escape=way == "planner")
        follower = Follower(policy, settings)
        follower.follow_pose(X_WT, 0.0, oriented=oriented)
        self.arm.start(q, scene)
        now, quiet, arrived = 0.0, 0.0, None
        while now < (LONGEST if way == WAYS[0] else ESCAPING):
            q, qd = self.arm.follow(follower, scene, now)
            now += FRAME
            if follower.escape_target is not None:
                q, took = self._escape(q, X_WT)
                now += took
                self.arm.place(q, scene)
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
        """Return the end of a plan and its duration [s]; 0: no plan."""
        goal = PoseGoal(self.policy.tool, X_WT)
        found = plan(PlanRequest(self.checker, q, (goal,), PLANNING, 1))
        if found.trajectory is None:
            return q, 0.0
        return np.array(found.trajectory.positions[-1]), float(found.trajectory.times[-1])


def arrival_row(what: str, found: list[Run]) -> Row:
    """Return the table's row of runs."""
    took = Spread.of(run.seconds for run in found if run.seconds is not None)
    return {
        "": what, "runs": len(found), "arrived [%]": 100.0 * took.number / len(found),
        "in 10 s [%]": 100.0 * mean(run.seconds is not None and run.seconds < 10 for run in found),
        "reported stuck": sum(run.stuck for run in found), "median [s]": took.p50,
        "longest [s]": took.maximum, **judged([run.verdict for run in found]),
    }  # fmt: skip


def scene_row(name: str, found: list[Outcome]) -> Row:
    """Return the table's row of scenes."""
    clearances = [1e3 * run.verdict.clearance for run in found]
    return {
        "": name, "scenes": len(found), "arrived [%]": 100.0 * mean(x.error < 0.01 for x in found),
        "touched if still": sum(run.passive < 0.0 for run in found),
        "5 % [mm]": float(np.percentile(clearances, 5)), **judged([run.verdict for run in found]),
    }  # fmt: skip


@benchmark("RMPflow: arrivals and clearances", starts=200, scenes=200, robots=["franka", "ur10e"],
           kinds=[0, 1, 2])  # fmt: skip
def main(report: Report, options: Options) -> None:
    """Measure and print."""
    robots, rows = [Runs(name) for name in options.robots], list[Row]()
    kinds = [KINDS[k] for k in options.kinds] if options.starts else []
    for robot in robots:
        for kind, way in itertools.product(kinds, WAYS):
            progress(what := f"{robot.name}, {kind}, {way}")
            found = [robot.arrival(seed, kind, way) for seed in range(options.starts)]
            rows.append(arrival_row(what, found))
    report.table(
        "From random starts to random poses", rows,
        "Posture, planner: as alone, but where that is stuck it goes back to its posture "
        "once, or along a planner's path.",
    )  # fmt: skip
    rows = []
    for robot in robots if options.scenes else ():
        progress(f"{robot.name}, scenes")
        rows.append(scene_row(robot.name, [robot.scene(k) for k in range(options.scenes)]))
    report.table("Two flying balls, two boxes, a table; 8 s each", rows)
