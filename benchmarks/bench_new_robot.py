# SPDX-License-Identifier: Apache-2.0
"""Seconds from a foreign URDF to its first plan and its first RMPflow step, and how spheres fit.

The URDFs are those of PyPI packages that describe robots nobody here modelled; install them beside
(``pip install --no-deps --target DIR example-robot-data pybullet``) and name that folder:

    python benchmarks/bench_new_robot.py --packages DIR [--robots panda,ur5] [--spheres FILE]

The first run compiles the robots' code, and that is counted; later runs find it. The planner's
kernels, which are the same for all robots, are taken as compiled (``motion warm-up``). With
``--spheres`` a published sphere set of the Panda is compared with fitted ones instead: with the
accuracy that ``motion new`` chooses, with as many as published, and with smaller radii until as
much of the surface is covered as there.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from harness import Cell, Report, arguments, progress

from motion_nodes.errors import MotionError
from motion_nodes.planning.pipeline import plan
from motion_nodes.planning.planning_problem import JointGoal, PlanRequest
from motion_nodes.rmpflow.policy import RmpflowPolicy
from motion_nodes.robot_setup.link_geometry import LinkGeometry
from motion_nodes.robot_setup.new_robot import new_robot
from motion_nodes.robot_setup.sphere_fit import fit_count
from motion_nodes.robot_setup.sphere_measure import measure as coverage
from motion_nodes.scene.checker import CollisionChecker

_EXAMPLES = "cmeel.prefix/share/example-robot-data/robots"
ROBOTS = {
    "panda": f"{_EXAMPLES}/panda_description/urdf/panda.urdf",
    "ur5": f"{_EXAMPLES}/ur_description/urdf/ur5_robot.urdf",
    "xarm7": f"{_EXAMPLES}/xarm_description/urdf/xarm7.urdf",
    "kinova": f"{_EXAMPLES}/kinova_description/robots/kinova.urdf",
    "so101": f"{_EXAMPLES}/so_arm_description/urdf/so101.urdf",
    "talos_arm": f"{_EXAMPLES}/talos_data/robots/talos_left_arm.urdf",
    "iiwa": "pybullet_data/kuka_iiwa/model.urdf",
    "tiago": f"{_EXAMPLES}/tiago_description/robots/tiago_no_hand.urdf",
    "husky": "pybullet_data/husky/husky.urdf",
    "racecar": "pybullet_data/racecar/racecar.urdf",
    "r2d2": "pybullet_data/r2d2.urdf",
    "ur10": f"{_EXAMPLES}/ur_description/urdf/ur10_robot.urdf",
    "z1": f"{_EXAMPLES}/z1_description/urdf/z1.urdf",
    "laikago": "pybullet_data/laikago/laikago_toes_zup.urdf",
}
SETS = ("published", "fitted, accuracy by width", "fitted, as many on each link",
        "these, smaller all over")  # fmt: skip
SHARES = ("surface", "volume", "excess_volume")


def measure(file: Path, name: str) -> dict[str, Any]:
    """Make a robot, plan and step once; return seconds since the start of each."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        made = new_robot(file, name=f"bench_{name}", output=Path(folder) / name)
        robot = made.robot
        row: dict[str, Any] = {
            "what": f"{robot.kind}, {len(robot.joint_names)} joints",
            "spheres": sum(c.count for c in made.coverage.values()),
            "reach": max((1e3 * c.reach for c in made.coverage.values()), default=None),
            "free": made.free_share, "made": time.monotonic() - begin,
        }  # fmt: skip
        if not (robot.tool_frame and (made.directory / "rmpflow.yaml").exists()):
            return row
        start, goal = (robot.named_state(state, "arm") for state in ("home", "ready"))
        request = PlanRequest(CollisionChecker(robot, "arm"), start, (JointGoal(goal),), 300.0)
        if plan(request).success:
            row["planned"] = time.monotonic() - begin
        policy = RmpflowPolicy(robot)
        policy.set_cspace_target(start)
        policy.compute_joint_targets(goal, np.zeros(len(goal)))
        row["stepped"] = time.monotonic() - begin
    return row


def compare_spheres(report: Report, file: Path, published: Path) -> None:
    """Show how a published sphere set and fitted ones cover the Panda's collision meshes."""
    theirs = json.loads(published.read_text())["spheres"]
    sets: dict[str, list[tuple[Any, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        made = new_robot(file, name="bench_spheres", output=Path(folder) / "robot")
        for link, ours in made.coverage.items():
            geometry = LinkGeometry.of_link(made.robot, link)
            if link not in theirs or geometry is None:
                continue
            progress(link)
            other = coverage(np.array(theirs[link]), geometry)
            same = fit_count(geometry, other.count)
            smaller, step = same, np.array([0.0, 0.0, 0.0, 0.001])
            while coverage(smaller - step, geometry).surface >= other.surface:
                smaller = smaller - step
            found = (other, ours, coverage(same, geometry), coverage(smaller, geometry))
            for title, one in zip(SETS, found, strict=True):
                sets.setdefault(title, []).append((one, geometry.volume))
    rows: list[list[Cell]] = []
    for title, items in sets.items():
        volume = sum(v for _, v in items)
        shares = [100.0 * sum(getattr(c, key) * v for c, v in items) / volume for key in SHARES]
        far = [1e3 * max(getattr(c, key) for c, _ in items) for key in ("reach", "gap")]
        rows.append([title, sum(c.count for c, _ in items), *shares, *far])
    report.table(
        "Spheres on the Panda's collision meshes, weighted by volume",
        ["", "spheres", "surface covered [%]", "volume covered [%]", "excess [%]",
         "reach beyond [mm]", "mesh beyond spheres [mm]"],
        rows,
    )  # fmt: skip


def main() -> None:
    """Measure each robot, print a table."""
    parser = arguments(__doc__)
    parser.add_argument("--packages", type=Path, required=True, help="where the packages are")
    parser.add_argument("--robots", default=",".join(ROBOTS), help="some of these")
    parser.add_argument("--spheres", type=Path, help="a published sphere set of the Panda, JSON")
    options = parser.parse_args()
    report = Report("Robots of other packages")
    if options.spheres:
        compare_spheres(report, options.packages / ROBOTS["panda"], options.spheres)
        report.write(options.json)
        return
    rows: list[list[Cell]] = []
    for name in options.robots.split(","):
        progress(name)
        try:
            row = measure(options.packages / ROBOTS[name], name)
        except MotionError as error:
            row = {"what": str(error)}
        keys = ("what", "spheres", "reach", "free", "made", "planned", "stepped")
        rows.append([name, *(row.get(key) for key in keys)])
    report.table(
        "Seconds from the URDF",
        ["robot", "found", "spheres", "reach beyond [mm]", "free share", "folder", "first plan",
         "first RMPflow step"],
        rows,
    )  # fmt: skip
    report.write(options.json)


if __name__ == "__main__":
    main()
