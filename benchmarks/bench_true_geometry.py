# SPDX-License-Identifier: Apache-2.0
"""Random motions among random obstacles, checked by coal with the manufacturers' meshes.

Each motion is planned between two random configurations that are collision-free by the suite's
exact checks (others would be rejected), with the shipped defaults (``planning.pipeline.plan``). Its
trajectory is checked for collisions with obstacles and self-collisions, in steps in which no part
of the robot moves by more than 2 mm. The meshes are those of ``tools/published_meshes.py``, for
``--panda``, ``--ur10e`` or both.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import coal
import numpy as np
from harness import Report, Row, benchmark, progress
from scene.checkers import configurations
from scene.coal_robot import CoalRobot, Shapes, Touch
from scene.random_scenes import coal_shape

from motion_nodes.model.loader import load_robot
from motion_nodes.model.poses import from_xyz_quat
from motion_nodes.model.tree import Box, Cylinder, Geometry, Sphere
from motion_nodes.planning.pipeline import MotionPlan, PlanOptions, plan
from motion_nodes.planning.planning_problem import JointGoal, PlanRequest
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.scene import Scene, world_object
from motion_nodes.scene.shapes import triangle_mesh

sys.path.append(str(Path(__file__).parents[1] / "tools"))
from published_meshes import finger_boxes, link_vertices

STEP = 0.002
"""Max motion of any part of the robot between two checked configurations [m]."""
GROUPS = {"franka": ("arm", 0.85), "ur10e": ("ur_manipulator", 1.25)}
"""Group, and max distance of obstacles [m]."""
_TRIES = 400  # max random configurations to find a collision-free one
_TIMEOUT = 5.0  # Planning timeout [s]


def published_shapes(robot: str, folder: Path) -> dict[str, Shapes]:
    """Return the published meshes by link as hulls of their vertices; all are convex."""
    shapes: dict[str, Shapes] = {
        link: [(coal_shape(triangle_mesh(vertices, [[0, 1, 2]], convex=True)), np.eye(4))]
        for link, vertices in link_vertices(robot, folder).items()
    }
    if robot == "franka":
        for link, boxes in finger_boxes().items():
            shapes[link] = [(coal.Box(*box.size), X) for box, X in boxes]
    return shapes


def random_obstacles(rng: np.random.Generator, count: int, reach: float) -> Scene:
    """Return boxes, spheres and cylinders within an arm's reach [m], none at its base."""
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


class Tally:
    """Results of one robot."""

    def __init__(self, name: str) -> None:
        """Create without results."""
        self.name, self.planned, self.refused, self.configurations = name, 0, 0, 0
        self.touches: dict[bool, list[Touch]] = {False: [], True: []}
        """Deepest contact of each motion with contacts: with obstacles (False), of links (True)."""

    def check(self, made: MotionPlan, checker: CollisionChecker, truth: CoalRobot) -> None:
        """Add the results of a motion."""
        worst: dict[bool, Touch] = {}
        for q in samples(made, checker):
            self.configurations += 1
            touch = truth.deepest(q)
            if np.isfinite(touch.depth):
                own = touch.second in checker.robot.tree.links
                worst[own] = max(worst.get(own, touch), touch, key=lambda t: t.depth)
        for own, touch in worst.items():
            self.touches[own].append(touch)
            progress(f"{self.name}: {touch}")

    def row(self) -> Row:
        """Return the table's row."""
        others, own = ([1e3 * t.depth for t in self.touches[own]] for own in (False, True))
        return {
            "robot": self.name, "planned": self.planned, "refused": self.refused,
            "touch": len(others), "deepest [mm]": max(others, default=0.0), "self": len(own),
            "its depth [mm]": max(own, default=0.0), "checked": self.configurations,
        }  # fmt: skip


def run(name: str, folder: Path, options: Any) -> Tally:
    """Plan and check random motions of a robot."""
    rng, tally = np.random.default_rng(options.seed), Tally(name)
    group, reach = GROUPS[name]
    checker = CollisionChecker(load_robot(name), group)
    truth = CoalRobot(checker, published_shapes(name, folder))
    while tally.planned + tally.refused < options.motions:
        checker.set_scene(random_obstacles(rng, options.obstacles, reach))
        start, goal = (
            next(filter(checker.exact.is_free, Q), None)
            for Q in configurations(checker, 2 * _TRIES, rng).reshape(2, _TRIES, -1)
        )
        if start is None or goal is None:
            continue
        touching = len(tally.touches[False])
        request = PlanRequest(checker, start, (JointGoal(goal),), _TIMEOUT, random_seed=touching)
        made = plan(request, PlanOptions(planner=options.planner))
        if made.motion is None:
            tally.refused += 1
            progress(f"{name}: {made.status.value}: {made.reason}")
            continue
        tally.planned += 1
        tally.check(made, checker, truth)
        if tally.planned % 20 == 0:
            progress(f"{name}: {tally.planned} motions, {len(tally.touches[False])} touch")
    return tally


def samples(made: MotionPlan, checker: CollisionChecker) -> np.ndarray:
    """Return configurations of a motion, between which no part moves by more than ``STEP``."""
    assert made.motion is not None
    steps = checker.resolution * (STEP / 0.02)  # the checker's steps are for 2 cm of travel
    duration = made.motion.end_time - made.motion.start_time
    count = 64
    while True:
        q = made.motion.states(made.motion.start_time + np.linspace(0.0, duration, count))[0]
        widest = np.linalg.norm(np.diff(q, axis=0) / steps, axis=1).max()
        if widest <= 1.0:
            return np.asarray(q)
        count = int(np.ceil(1.05 * count * widest)) + 1


@benchmark("True geometry: planned motions against the manufacturers' meshes",
           motions=(100, "for each robot"), obstacles=(12, "in each scene"), seed=1,
           planner=("", "planner id; empty: the default"),
           panda=(Path, "folder of the Panda's collision meshes"),
           ur10e=(Path, "folder of the UR10e's collision meshes"))  # fmt: skip
def main(report: Report, options: Any) -> None:
    """Measure both robots and print the tables."""
    folders = {"franka": options.panda, "ur10e": options.ur10e}
    tallies = [run(name, folder, options)
               for name, folder in folders.items() if folder is not None]  # fmt: skip
    report.table(
        f"Motions among {options.obstacles} random obstacles, steps of {1e3 * STEP:g} mm",
        [tally.row() for tally in tallies],
        "touch, self: motions that touch an obstacle, or have two links touching.",
    )
