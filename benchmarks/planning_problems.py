# SPDX-License-Identifier: Apache-2.0
"""MotionBenchMaker problems of the Franka Panda, and the robot with the reference's spheres.

The files are not part of this repository: ``panda_problems.json`` contains the problems of
``resources/panda/problems.tar.bz2`` in https://github.com/KavrakiLab/vamp (C. Chamzas et al.,
"MotionBenchMaker", 2022) as ``{"problems": {family: [{"box": [...], "cylinder": [...],
"sphere": [...], "start": [...], "goals": [[...]], "valid": true}]}}``; ``panda_spheres.json``, next
to it, the spheres of ``resources/panda/panda_spherized.urdf`` as ``{"spheres": {link: [[x, y, z,
radius]]}, "never_colliding_or_adjacent": [[link, link]]}``.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scene.motion_bench_maker import FINGERS, scene_of

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import AllowedCollisions, Scene
from motion_nodes.core.scene.shapes import Capsule, Solid

ELBOW = 0.0873
"""The reference's upper limit of joint 4 [rad], above the data sheet's; for three problems."""
STEPS = 32.0  # Configurations per radian that the reference checks on an edge


def _box_around(radius: float, length: float) -> Solid:
    return Box((2.0 * radius, 2.0 * radius, length))


class Problem(NamedTuple):
    """One problem."""

    family: str
    data: dict[str, Any]
    """The problem as in the file."""
    start: np.ndarray
    goals: np.ndarray

    def scene(self, allowed: AllowedCollisions) -> Scene:
        """Return the obstacles as in the reference.

        Cylinders are capsules; in the family ``box``, whose goals are inside one, they are boxes.
        """
        cylinder = _box_around if self.family == "box" else Capsule
        return scene_of(self.data, allowed, cylinder)


class ProblemSet:
    """Problems, robot, and collision checkers."""

    def __init__(self, folder: Path) -> None:
        """Read both files."""
        spheres = json.loads((folder / "panda_spheres.json").read_text())
        self.file = folder / "panda_problems.json"
        content = json.loads(self.file.read_text())
        self.problems = [
            Problem(family, data, np.array(data["start"], float), np.array(data["goals"], float))
            for family, rows in content["problems"].items()
            for data in rows
            if data["valid"]
        ]
        franka = load_robot("franka")
        upper = franka.limits.upper.copy()
        upper[franka.limits.names.index("panda_joint4")] = ELBOW
        rows = spheres["spheres"].items()
        own = {link: tuple((x, y, z, r) for x, y, z, r in each) for link, each in rows}
        limits = replace(franka.limits, upper=upper)
        self.robot: Robot = replace(franka, limits=limits, spheres=own)
        self.shipped_robot: Robot = replace(self.robot, spheres=franka.spheres)
        never = [(a, b) for a, b in spheres["never_colliding_or_adjacent"]]
        self.allowed = AllowedCollisions().with_pairs(never)

    def checker(self, problem: Problem) -> CollisionChecker:
        """Return the checker of a problem, with the reference's resolution of edges."""
        checker = CollisionChecker(
            self.robot, "arm", scene=problem.scene(self.allowed),
            resolution=np.full(7, 1.0 / STEPS),
        )  # fmt: skip
        checker.set_positions(FINGERS)
        return checker

    def shipped_checker(self, problem: Problem) -> CollisionChecker:
        """Return the checker of a problem with the shipped robot's spheres, shapes and pairs."""
        checker = CollisionChecker(self.shipped_robot, "arm", scene=scene_of(problem.data))
        checker.set_positions(FINGERS)
        return checker
