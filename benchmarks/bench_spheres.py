# SPDX-License-Identifier: Apache-2.0
"""Collision checks of imported robots compared with coal and the meshes of their files.

Each URDF is imported (``motion new``). Random configurations among random obstacles are checked
with the spheres (planner search), with the exact checks (``check_state_validity``, verification of
plans), and by coal with all triangles of the file, for self-collision and obstacles:

    python benchmarks/bench_spheres.py build/sweep [--only panda.urdf ur5_robot.urdf] [--count 2000]

Links without collision geometry have their visual geometry. Pairs excluded in the robot's folder
are not checked.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import coal
import numpy as np
from harness import Options, Report, Row, benchmark, progress
from bench_true_geometry import random_obstacles
from scene.checkers import configurations
from scene.coal_robot import CoalRobot, Shapes

from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.link_geometry import LinkGeometry
from motion_nodes.core.scene.robot_spheres import checked_pairs
from motion_nodes.core.scene.scene import Scene
from motion_nodes.extras.robot_setup.new_robot import new_robot

ARMS = [
    "panda.urdf", "ur3_robot.urdf", "ur5_robot.urdf", "ur10_robot.urdf", "xarm7.urdf",
    "kinova.urdf", "so100.urdf", "so101.urdf", "z1.urdf", "talos_left_arm.urdf", "ur5e/ur5e.urdf",
    "ur3e/ur3e.urdf",
]  # fmt: skip
_EACH = 20
"""Number of configurations per scene."""


def meshes(checker: CollisionChecker) -> dict[str, Shapes]:
    """Return the triangles of the checked links."""
    robot, found = checker.robot, dict[str, Shapes]()
    for body in checker.bodies:
        link, model = robot.tree.link(body.link), coal.BVHModelOBBRSS()
        geometry = LinkGeometry.of_shapes(link.collisions or link.visuals, robot.mesh_path)
        assert geometry is not None, f"{body.link} has spheres, but no geometry"
        model.beginModel(len(geometry.corners), 3 * len(geometry.corners))
        for a, b, c in geometry.corners:
            model.addTriangle(a, b, c)
        model.endModel()
        found[body.link] = [(model, np.eye(4))]
    return found


def judged(robot: Robot, count: int) -> tuple[Counter[str], int]:
    """Return the differing verdicts on random configurations, and the number of spheres."""
    rng = np.random.default_rng(1)
    checker = CollisionChecker(robot)
    pairs = checked_pairs(robot, checker.bodies, Scene().allowed, exact=True)
    truth, tally = CoalRobot(checker, meshes(checker), pairs), Counter[str]()
    reach = max(0.5, 0.5 * float(np.ptp(checker.sphere_positions(robot.home), axis=0).max()))
    while tally["all"] < count:
        checker.set_scene(random_obstacles(rng, 4, reach))
        for q in configurations(checker, _EACH, rng):
            free = not truth.touches(q)
            tally["all"] += 1
            tally["free"] += free
            for name, judge in (("spheres", checker), ("exact", checker.exact)):
                tally[f"{name}, free"] += judge.is_free(q) and not free
                tally[f"{name}, touching"] += free and not judge.is_free(q)
    return tally, sum(len(body.spheres) for body in checker.bodies)


@benchmark("Spheres and exact checks beside coal", folders=True,
           only=(ARMS, "ends of the URDFs' paths"), count=(2000, "configurations"))  # fmt: skip
def main(report: Report, options: Options) -> None:
    """Measure all arms in the folder with the packages of sweep_packages.txt."""
    rows, folder = list[Row](), options.folders[0]
    files = sorted(folder.rglob("*.urdf"))
    for end in options.only:
        file = next(file for file in files if str(file).endswith(f"/{end}"))
        with tempfile.TemporaryDirectory() as output:
            made = new_robot(
                file, name="judged", output=Path(output) / "judged", package_paths=[folder],
            )  # fmt: skip
            tally, spheres = judged(made.robot, options.count)
        share = Counter({key: 100.0 * value / tally["all"] for key, value in tally.items()})
        rows.append({
            "arm": end, "spheres": spheres, "free [%]": share["free"],
            "spheres: false free": tally["spheres, free"],
            "false touching [%]": share["spheres, touching"],
            "exact: false free": tally["exact, free"],
            "exact: false touching [%]": share["exact, touching"],
        })  # fmt: skip
        progress(" | ".join(map(str, rows[-1].values())))
    report.table(f"{options.count} random configurations of each, 4 obstacles", rows,
                 "False free: configurations; false touching: share of all.")  # fmt: skip
