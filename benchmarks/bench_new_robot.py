# SPDX-License-Identifier: Apache-2.0
"""Seconds from a foreign URDF to its first plan and its first RMPflow step, and how spheres fit.

The URDFs are those of PyPI packages that describe robots nobody here modelled; install them beside
(``pip install --no-deps --target DIR example-robot-data pybullet``) and name that folder:

    python benchmarks/bench_new_robot.py --packages DIR [--robots panda,ur5] [--spheres FILE]

The first run compiles the robots' code, and that is counted; later runs find it. The planner's
kernels, which are the same for all robots, are taken as compiled (``motion warm-up``).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

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


def measure(file: Path, name: str) -> dict[str, Any]:
    """Make a robot, plan and step once; return seconds since the start of each."""
    begin = time.monotonic()
    from motion_nodes.robot_setup.new_robot import new_robot

    with tempfile.TemporaryDirectory() as folder:
        made = new_robot(file, name=f"bench_{name}", output=Path(folder) / name)
        row: dict[str, Any] = {
            "kind": made.robot.kind,
            "joints": len(made.robot.joint_names),
            "spheres": sum(c.count for c in made.coverage.values()),
            "surface": min((c.surface for c in made.coverage.values()), default=None),
            "reach": max((c.reach for c in made.coverage.values()), default=None),
            "free": made.free_share,
            "made": time.monotonic() - begin,
        }
        if made.robot.tool_frame and (made.directory / "rmpflow.yaml").exists():
            row |= first_motion(made.robot, begin)
    return row


def first_motion(robot: Any, begin: float) -> dict[str, Any]:
    """Return when the first plan and the first step of RMPflow were there [s]."""
    import numpy as np

    from motion_nodes.planning.pipeline import plan
    from motion_nodes.planning.planning_problem import JointGoal, PlanRequest
    from motion_nodes.rmpflow.policy import RmpflowPolicy
    from motion_nodes.scene.checker import CollisionChecker

    start, goal = (robot.named_state(state, "arm") for state in ("home", "ready"))
    checker = CollisionChecker(robot, "arm")
    found = plan(PlanRequest(checker, start, (JointGoal(goal),), timeout=300.0))
    row: dict[str, Any] = {
        "planned": time.monotonic() - begin if found.success else None,
        "reason": found.reason,
    }
    policy = RmpflowPolicy(robot)
    policy.set_cspace_target(start)
    policy.compute_joint_targets(goal, np.zeros(len(goal)))
    row["stepped"] = time.monotonic() - begin
    return row


def compare_spheres(file: Path, published: Path) -> None:
    """Print how a published sphere set and ours hold the Panda's collision meshes.

    Ours have the accuracy that `motion new` chooses; then the number of the published ones; then,
    of those, radii that are smaller all over, while as much of the surface is held as there.
    """
    import numpy as np

    from motion_nodes.robot_setup.link_geometry import LinkGeometry
    from motion_nodes.robot_setup.new_robot import new_robot
    from motion_nodes.robot_setup.sphere_fit import fit_count
    from motion_nodes.robot_setup.sphere_measure import measure as measured

    theirs = json.loads(published.read_text())["spheres"]
    rows: dict[str, list[tuple[Any, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        made = new_robot(file, name="bench_spheres", output=Path(folder) / "robot")
        print("| link | published: spheres, surface, excess, reach | fitted | as many | smaller |")
        print("|---|---|---|---|---|")
        for link, ours in made.coverage.items():
            geometry = LinkGeometry.of_link(made.robot, link)
            if link not in theirs or geometry is None:
                continue
            other = measured(np.array(theirs[link]), geometry)
            same = fit_count(geometry, other.count)
            smaller, step = same, np.array([0.0, 0.0, 0.0, 0.001])
            while measured(smaller - step, geometry).surface >= other.surface:
                smaller = smaller - step
            found = [other, ours, measured(same, geometry), measured(smaller, geometry)]
            print(f"| {link} | {' | '.join(map(_cell, found))} |", flush=True)
            for title, one in zip(
                ("published", "fitted", "as many", "smaller"), found, strict=True
            ):
                rows.setdefault(title, []).append((one, geometry.volume))
    for title, items in rows.items():
        volume = sum(v for _, v in items)
        share = [sum(getattr(c, key) * v for c, v in items) / volume for key in _SHARES]
        reach, gap = (1e3 * max(getattr(c, key) for c, _ in items) for key in ("reach", "gap"))
        print(
            f"{title}: {sum(c.count for c, _ in items)} spheres, surface {share[0]:.0%}, volume "
            f"{share[1]:.0%}, excess {share[2]:.0%}, reach {reach:.0f} mm, gap {gap:.0f} mm "
            "(weighed by volume)"
        )


_TITLES = ("published", "fitted", "as many", "smaller")
_SHARES = ("surface", "volume", "excess_volume")


def _cell(c: Any) -> str:
    return f"{c.count}, {c.surface:.1%}, {c.excess_volume:.0%}, {1e3 * c.reach:.0f} mm"


def main() -> int:
    """Measure each robot in a process of its own, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--packages", type=Path, required=True, help="where the packages are")
    parser.add_argument("--robots", default=",".join(ROBOTS), help="some of these")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--spheres", type=Path, help="a published sphere set of the Panda, JSON")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.packages / ROBOTS[options.one], options.one)))
        return 0
    if options.spheres:
        compare_spheres(options.packages / ROBOTS["panda"], options.spheres)
        return 0
    print("| robot | kind, joints | spheres | reach | free | folder | plan | RMPflow step |")
    print("|---|---|---|---|---|---|---|---|")
    for name in options.robots.split(","):
        command = [sys.executable, __file__, "--packages", str(options.packages), "--one", name]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            print(f"| {name} | failed: {done.stderr.strip().splitlines()[-1]} |", flush=True)
            continue
        row = json.loads(done.stdout.splitlines()[-1])
        seconds = [
            f"{row[key]:.1f} s" if row.get(key) else row.get("reason") or "-"
            for key in ("made", "planned", "stepped")
        ]
        reach = "-" if row["reach"] is None else f"{1e3 * row['reach']:.0f} mm"
        print(
            f"| {name} | {row['kind']}, {row['joints']} | {row['spheres']} | {reach} | "
            f"{row['free']:.0%} | {' | '.join(seconds)} |",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
