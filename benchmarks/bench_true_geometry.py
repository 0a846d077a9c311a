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
from collections.abc import Collection
from pathlib import Path

import coal
import numpy as np
from harness import Options, Report, Row, benchmark, progress
from scene.checkers import configurations
from scene.coal_robot import CoalRobot, Shapes, Touch
from scene.random_scenes import coal_shape

from motion_nodes.core.planning.pipeline import MotionPlan, PlanOptions, plan
from motion_nodes.core.planning.planning_problem import JointGoal, PlanRequest
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_quat
from motion_nodes.core.robot.tree import Box, Cylinder, Geometry, Sphere
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import Scene, world_object
from motion_nodes.core.scene.shapes import triangle_mesh

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


def deepest(Q: np.ndarray, truth: CoalRobot, links: Collection[str]) -> dict[bool, Touch]:
    """Return the deepest contacts of a motion: with an obstacle (False), of two links (True)."""
    worst: dict[bool, Touch] = {}
    for touch in map(truth.deepest, Q):
        if np.isfinite(touch.depth):
            own = touch.second in links
            worst[own] = max(worst.get(own, touch), touch, key=lambda t: t.depth)
    return worst


def run(name: str, folder: Path, options: Options) -> Row:
    """Plan and check random motions of a robot; return the table's row."""
    rng, (group, reach) = np.random.default_rng(options.seed), GROUPS[name]
    checker = CollisionChecker(load_robot(name), group)
    truth = CoalRobot(checker, published_shapes(name, folder))
    depths: dict[bool, list[float]] = {False: [], True: []}
    planned, refused, checked = 0, 0, 0
    while planned + refused < options.motions:
        checker.set_scene(random_obstacles(rng, options.obstacles, reach))
        start, goal = (
            next(filter(checker.exact.is_free, Q), None)
            for Q in configurations(checker, 2 * _TRIES, rng).reshape(2, _TRIES, -1)
        )
        if start is None or goal is None:
            continue
        seed = len(depths[False])
        request = PlanRequest(checker, start, (JointGoal(goal),), _TIMEOUT, random_seed=seed)
        made = plan(request, PlanOptions(planner=options.planner))
        if made.motion is None:
            refused += 1
            progress(f"{name}: {made.status.value}: {made.reason}")
            continue
        planned, Q = planned + 1, samples(made, checker)
        checked += len(Q)
        for own, touch in deepest(Q, truth, checker.robot.tree.links).items():
            depths[own].append(1e3 * touch.depth)
            progress(f"{name}: {touch}")
    return {
        "robot": name, "planned": planned, "refused": refused, "touch": len(depths[False]),
        "deepest [mm]": max(depths[False], default=0.0), "self": len(depths[True]),
        "its depth [mm]": max(depths[True], default=0.0), "checked": checked,
    }  # fmt: skip


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
def main(report: Report, options: Options) -> None:
    """Measure both robots and print the tables."""
    folders = {"franka": options.panda, "ur10e": options.ur10e}
    report.table(
        f"Motions among {options.obstacles} random obstacles, steps of {1e3 * STEP:g} mm",
        [run(name, folder, options) for name, folder in folders.items() if folder is not None],
        "touch, self: motions that touch an obstacle, or have two links touching.",
    )
