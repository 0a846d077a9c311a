# SPDX-License-Identifier: Apache-2.0
"""Verdicts of new robots' collision checks beside coal with the meshes of their files.

Each URDF becomes a robot (``motion new``). Random configurations among random obstacles are judged
by its spheres, which the planner searches with, by the exact checks, which answer
``check_state_validity`` and verify plans, and by coal with all triangles of the file, links against
each other and against obstacles:

    python benchmarks/bench_spheres.py build/sweep [--only panda.urdf ur5_robot.urdf] [--count 2000]

A link without collision geometry is what is seen of it. Left out are pairs of links that the
robot's folder leaves out.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import coal
import numpy as np
from bench_true_geometry import random_scene
from harness import Cell, Report, arguments, progress
from true_geometry import obstacle

from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.robot import Robot
from motion_nodes.robot_setup.link_geometry import LinkGeometry
from motion_nodes.robot_setup.new_robot import new_robot
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.robot_spheres import checked_pairs
from motion_nodes.scene.scene import Scene

ARMS = (
    "panda.urdf", "ur3_robot.urdf", "ur5_robot.urdf", "ur10_robot.urdf", "xarm7.urdf",
    "kinova.urdf", "so100.urdf", "so101.urdf", "z1.urdf", "talos_left_arm.urdf", "ur5e/ur5e.urdf",
    "ur3e/ur3e.urdf",
)  # fmt: skip
_EACH = 20
"""Configurations in one scene."""


class Meshes:
    """A robot as the triangles of its collision geometry."""

    def __init__(self, checker: CollisionChecker) -> None:
        """Read the meshes of the links that are checked."""
        robot = checker.robot
        self._columns = robot.indices(checker.joint_names)
        self._kinematics = Kinematics(robot.tree, base=robot.base_frame)
        rows = {name: k for k, name in enumerate(self._kinematics.frame_names)}
        self._rows = [rows[body.link] for body in checker.bodies]
        self._home = checker.positions.copy()
        self._shapes, balls = [], []
        for body in checker.bodies:
            link = robot.tree.link(body.link)
            shapes = link.collisions or link.visuals
            geometry = LinkGeometry.of_shapes(shapes, robot.mesh_path)
            assert geometry is not None, f"{body.link} has spheres, but no geometry"
            self._shapes.append(triangles(geometry.corners))
            low, high = geometry.bounds
            balls.append([*(0.5 * (low + high)), 0.5 * np.linalg.norm(high - low)])
        self._balls = np.array(balls)
        pairs = checked_pairs(robot, checker.bodies, Scene().allowed, exact=True)
        self._pairs = np.array(pairs, int).reshape(-1, 2)

    def touches(self, q: np.ndarray, scene: Scene) -> bool:
        """Return whether links touch each other or an object, by their surfaces."""
        full = self._home.copy()
        full[self._columns] = q
        X = self._kinematics.frames(full)[self._rows]
        at = np.einsum("kij,kj->ki", X[:, :3, :3], self._balls[:, :3]) + X[:, :3, 3]
        placed = [coal.Transform3s(R, t) for R, t in zip(X[:, :3, :3], X[:, :3, 3], strict=True)]
        for item in scene.objects.values():
            X_WP = item.X_WO @ item.parts[0].X_OS
            pose = coal.Transform3s(X_WP[:3, :3], X_WP[:3, 3])
            shape = obstacle(item.parts[0].solid)
            reach = shape.computeLocalAABB() or shape.aabb_radius
            near = np.linalg.norm(at - X_WP[:3, 3], axis=1) < self._balls[:, 3] + reach
            if any(_collide(self._shapes[k], placed[k], shape, pose) for k in np.flatnonzero(near)):
                return True
        i, j = self._pairs.T
        apart = np.linalg.norm(at[i] - at[j], axis=1) - self._balls[i, 3] - self._balls[j, 3]
        return any(
            _collide(self._shapes[a], placed[a], self._shapes[b], placed[b])
            for a, b in self._pairs[apart < 0.0]
        )


def triangles(corners: np.ndarray) -> coal.BVHModelOBBRSS:
    """Return triangles, shape (t, 3, 3), as coal has them."""
    model = coal.BVHModelOBBRSS()
    model.beginModel(len(corners), 3 * len(corners))
    for a, b, c in corners:
        model.addTriangle(a, b, c)
    model.endModel()
    return model


def _collide(
    a: coal.CollisionGeometry,
    X_A: coal.Transform3s,
    b: coal.CollisionGeometry,
    X_B: coal.Transform3s,
) -> bool:
    request, result = coal.CollisionRequest(), coal.CollisionResult()
    return bool(coal.collide(a, X_A, b, X_B, request, result))


def judged(robot: Robot, count: int, seed: int) -> tuple[Counter[str], int]:
    """Return how verdicts differ on random configurations, and the number of spheres."""
    rng = np.random.default_rng(seed)
    checker = CollisionChecker(robot)
    meshes, tally = Meshes(checker), Counter[str]()
    reach = max(0.5, 0.5 * float(np.ptp(checker.sphere_positions(robot.home), axis=0).max()))
    lower = np.maximum(checker.limits.lower, -np.pi)
    upper = np.minimum(checker.limits.upper, np.pi)
    while tally["all"] < count:
        scene = random_scene(rng, 4, reach)
        checker.set_scene(scene)
        for q in rng.uniform(lower, upper, (_EACH, len(lower))):
            free = not meshes.touches(q, scene)
            tally["all"] += 1
            tally["free"] += free
            verdicts = {"spheres": checker.is_free(q), "exact": checker.exact.is_free(q)}
            for name, verdict in verdicts.items():
                if verdict != free:
                    tally[f"{name}, {'free' if verdict else 'touching'}"] += 1
    return tally, sum(len(body.spheres) for body in checker.bodies)


def main() -> None:
    """Judge all arms."""
    parser = arguments(__doc__)
    parser.add_argument("folder", type=Path, help="with the packages of sweep_packages.txt")
    parser.add_argument("--only", nargs="+", default=ARMS, help="ends of the URDFs' paths")
    parser.add_argument("--count", type=int, default=2000, help="configurations")
    parser.add_argument("--accuracy", type=float, help="of spheres [m]")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    report, rows = Report("Spheres and exact checks beside coal"), list[list[Cell]]()
    files = sorted(options.folder.rglob("*.urdf"))
    for end in options.only:
        file = next(file for file in files if str(file).endswith(f"/{end}"))
        with tempfile.TemporaryDirectory() as folder:
            made = new_robot(
                file, name="judged", output=Path(folder) / "judged",
                package_paths=[options.folder], spheres_accuracy=options.accuracy,
            )  # fmt: skip
            tally, spheres = judged(made.robot, options.count, options.seed)
        share = {key: 100.0 * value / tally["all"] for key, value in tally.items()}
        row: list[Cell] = [end, spheres, share.get("free", 0.0)]
        for name in ("spheres", "exact"):
            row += [tally[f"{name}, free"], share.get(f"{name}, touching", 0.0)]
        rows.append(row)
        progress(" | ".join(map(str, row)))
    report.table(
        f"{options.count} random configurations of each, 4 obstacles",
        ("arm", "spheres", "free [%]", "spheres: false free", "false touching [%]",
         "exact: false free", "false touching [%]"),
        rows,
        "False free: configurations; false touching: share of all.",
    )  # fmt: skip
    report.write(options.json)


if __name__ == "__main__":
    main()
