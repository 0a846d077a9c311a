# SPDX-License-Identifier: Apache-2.0
"""Random motions among random obstacles, checked by coal against the manufacturers' meshes.

Each motion is planned between two random configurations that are collision-free for the suite's
exact checks (a client asks for no others: they are refused) with the shipped defaults
(``planning.pipeline.plan``, nothing added), and its trajectory is checked at steps in which nothing
of the robot moves by more than 2 mm: against the obstacles, and links against each other.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from harness import Report, arguments, progress
from true_geometry import Touch, TrueGeometry, published_parts

from motion_nodes.model.loader import load_robot
from motion_nodes.model.poses import from_xyz_quat
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Box, Cylinder, Geometry, Sphere
from motion_nodes.planning.pipeline import MotionPlan, plan
from motion_nodes.planning.planning_problem import JointGoal, PlanRequest
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.scene import Scene, world_object

STEP = 0.002
"""No part of the robot moves farther between two configurations that are checked [m]."""
_GROUPS = {"franka": "arm", "ur10e": "ur_manipulator"}
_REACH = {"franka": 0.85, "ur10e": 1.25}  # [m]
_TRIES = 400  # configurations that are tried for a collision-free one
_TIMEOUT = 5.0  # [s]


@dataclass
class Tally:
    """What was seen of one robot."""

    planned: int = 0
    refused: int = 0
    """Motions that were not found, or not within the time."""
    configurations: int = 0
    world: list[Touch] = field(default_factory=list)
    """Deepest contact with an obstacle, of each motion that touches one."""
    own: list[Touch] = field(default_factory=list)
    """The same between links."""


def main() -> None:
    """Measure both robots and print the tables."""
    parser = arguments(__doc__)
    parser.add_argument("--motions", type=int, default=100, help="for each robot (default 100)")
    parser.add_argument("--obstacles", type=int, default=12, help="in each scene (default 12)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--panda", type=Path, help="folder of the Panda's collision meshes")
    parser.add_argument("--ur10e", type=Path, help="folder of the UR10e's collision meshes")
    options = parser.parse_args()
    folders = {"franka": options.panda, "ur10e": options.ur10e}
    chosen = {name: folder for name, folder in folders.items() if folder is not None}
    if not chosen:
        sys.exit("give --panda or --ur10e: folders of collision meshes (tools/published_meshes.py)")
    report = Report("True geometry: planned motions against the manufacturers' meshes")
    rows, details = [], []
    for name, folder in chosen.items():
        tally = run(name, folder, options.motions, options.obstacles, options.seed)
        rows.append(_row(name, tally))
        details += _by_link(name, tally)
    report.table(
        f"Motions among {options.obstacles} random obstacles, steps of {1e3 * STEP:g} mm",
        ("robot", "planned", "refused", "touch", "deepest [mm]", "self", "deepest [mm]", "checked"),
        rows,
        "touch, self: motions that touch an obstacle, or have two links touching.",
    )
    if details:
        report.table("Which link touches", ("robot, link", "motions", "deepest [mm]"), details)
    report.write(options.json)


def run(name: str, folder: Path, motions: int, obstacles: int, seed: int) -> Tally:
    """Plan random motions of a robot and check each."""
    rng = np.random.default_rng(seed)
    robot, tally = load_robot(name), Tally()
    parts = published_parts(name, folder)
    checker = CollisionChecker(robot, _GROUPS[name])
    while tally.planned + tally.refused < motions:
        scene = random_scene(rng, obstacles, _REACH[name])
        checker.set_scene(scene)
        ends = [free_configuration(checker, rng) for _ in range(2)]
        if ends[0] is None or ends[1] is None:
            continue
        goal = (JointGoal(ends[1]),)
        made = plan(PlanRequest(checker, ends[0], goal, _TIMEOUT, random_seed=len(tally.world)))
        if made.motion is None:
            tally.refused += 1
            progress(f"{name}: {made.status.value}: {made.reason}")
            continue
        tally.planned += 1
        _check(made, checker, TrueGeometry(robot, parts, scene), robot, tally)
        if tally.planned % 20 == 0:
            progress(f"{name}: {tally.planned} motions, {len(tally.world)} touch")
    return tally


def random_scene(rng: np.random.Generator, count: int, reach: float) -> Scene:
    """Return boxes, spheres and cylinders in the reach of an arm, none at its base."""
    objects = {}
    for k in range(count):
        a, b, c = (float(x) for x in rng.uniform(0.03, 0.15, 3))
        solids: tuple[Geometry, ...] = (Box((2 * a, 2 * b, 2 * c)), Sphere(a), Cylinder(a, 2 * b))
        turn, height = rng.uniform(-np.pi, np.pi), rng.uniform(0.0, reach)
        distance = rng.uniform(0.35, reach)
        position = (distance * np.cos(turn), distance * np.sin(turn), height)
        pose = from_xyz_quat(position, rng.normal(size=4))
        objects[f"obstacle_{k}"] = world_object(f"obstacle_{k}", solids[k % 3], pose)
    return Scene(objects)


def free_configuration(checker: CollisionChecker, rng: np.random.Generator) -> np.ndarray | None:
    """Return a random collision-free configuration; None if many tries find none."""
    lower = np.maximum(checker.limits.lower, -np.pi)
    upper = np.minimum(checker.limits.upper, np.pi)
    Q = rng.uniform(lower, upper, (_TRIES, len(lower)))
    return next((q for q in Q if checker.exact.is_free(q)), None)


def _check(
    made: MotionPlan, checker: CollisionChecker, truth: TrueGeometry, robot: Robot, tally: Tally
) -> None:
    """Add what the meshes say of a motion."""
    worst: dict[bool, Touch] = {}
    for q in samples(made, checker):
        tally.configurations += 1
        if not truth.touches(q):
            continue
        touch = truth.deepest(q)
        own = touch.second in robot.tree.links
        if own not in worst or touch.depth > worst[own].depth:
            worst[own] = touch
    for own, touch in worst.items():
        (tally.own if own else tally.world).append(touch)


def samples(made: MotionPlan, checker: CollisionChecker) -> np.ndarray:
    """Return configurations of a motion between which nothing moves by more than ``STEP``."""
    assert made.motion is not None
    steps = checker.resolution * (STEP / 0.02)  # the checker's are for 2 cm of travel
    duration = made.motion.end_time - made.motion.start_time
    count = 64
    while True:
        q = made.motion.states(made.motion.start_time + np.linspace(0.0, duration, count))[0]
        widest = np.linalg.norm(np.diff(q, axis=0) / steps, axis=1).max()
        if widest <= 1.0:
            return np.asarray(q)
        count = int(np.ceil(1.05 * count * widest)) + 1


def _row(name: str, tally: Tally) -> list[str | float | int | None]:
    row: list[str | float | int | None] = [name, tally.planned, tally.refused]
    for touches in (tally.world, tally.own):
        row += [len(touches), 1e3 * max((t.depth for t in touches), default=0.0)]
    return [*row, tally.configurations]


def _by_link(name: str, tally: Tally) -> list[list[str | float | int | None]]:
    counts = Counter(touch.first for touch in tally.world)
    pairs = Counter(f"{touch.first} and {touch.second}" for touch in tally.own)
    rows: list[list[str | float | int | None]] = []
    for link, count in counts.most_common():
        depth = max(touch.depth for touch in tally.world if touch.first == link)
        rows.append([f"{name}, {link}", count, 1e3 * depth])
    for pair, count in pairs.most_common():
        depth = max(t.depth for t in tally.own if f"{t.first} and {t.second}" == pair)
        rows.append([f"{name}, {pair}", count, 1e3 * depth])
    return rows


if __name__ == "__main__":
    main()
