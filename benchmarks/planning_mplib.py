# SPDX-License-Identifier: Apache-2.0
"""The same problems by mplib (OMPL's RRT-Connect with FCL), in a Python of its own.

Run by ``bench_planning.py`` as ``PYTHON planning_mplib.py PROBLEMS MODEL STEP``; MODEL is a folder
with the robot of :mod:`planning_problems` as ``robot.urdf``, its spheres as collision geometry, and
``robot.srdf``, as :func:`planning_problems.write_model` leaves them. Prints one JSON object per
problem. It needs ``mplib`` and NumPy, nothing of this package.

mplib checks edges in steps of a hundredth of the space's extent (OMPL's own), which is coarser than
the other planners do. Start and goals are checked in that time, too. It is CPU time: searches take
tenths of a second, in which others may have the processor.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import mplib
import numpy as np
from mplib.collision_detection import fcl

LIMIT = 10.0
"""More than the others get: within a second it solves few of the problems [s]."""


def shape(item: dict[str, Any], family: str) -> Any:
    """Return a shape as the other planners take it: capsules for cylinders, boxes in ``box``."""
    if "half_extents" in item:
        return fcl.Box(*(2.0 * x for x in item["half_extents"]))
    if "length" not in item:
        return fcl.Sphere(item["radius"])
    radius, length = item["radius"], item["length"]
    if family == "box":
        return fcl.Box(2.0 * radius, 2.0 * radius, length)
    return fcl.Capsule(radius, length)


def pose(item: dict[str, Any]) -> mplib.Pose:
    """Return the pose of an object; mplib says w first."""
    x, y, z, w = item.get("orientation_quat_xyzw", (0.0, 0.0, 0.0, 1.0))
    return mplib.Pose(item["position"], [w, x, y, z])


def fill(world: mplib.PlanningWorld, family: str, row: dict[str, Any]) -> None:
    """Put a problem's objects in place of those of the one before."""
    for name in world.get_object_names():
        world.remove_object(name)
    for number, item in enumerate(row["box"] + row["cylinder"] + row["sphere"]):
        thing = fcl.CollisionObject(shape(item, family), mplib.Pose())
        made = fcl.FCLObject(f"object{number}", pose(item), [thing], [mplib.Pose()])
        world.add_object(made)


def length(path: np.ndarray) -> float:
    """Return a path's length [rad]."""
    return float(np.linalg.norm(np.diff(path, axis=0), axis=1).sum())


def main() -> None:
    """Plan each STEP-th problem twice, without and with shortening."""
    with open(sys.argv[1]) as file:
        families = json.load(file)["problems"]
    model, step = Path(sys.argv[2]), int(sys.argv[3])
    robot = mplib.Planner(model / "robot.urdf", "panda_hand", srdf=model / "robot.srdf")
    world, planner = robot.planning_world, robot.planner
    valid = [(family, row) for family, rows in families.items() for row in rows if row["valid"]]
    for family, row in valid[::step]:
        fill(world, family, row)
        start, goals = np.array(row["start"]), [np.array(goal) for goal in row["goals"]]
        robot.robot.set_qpos(start, True)
        touching = len(world.check_collision())
        taken, paths = [], []
        for simplify in (False, True):
            robot.robot.set_qpos(start, True)
            begin = time.process_time()
            status, path = planner.plan(start, goals, time=LIMIT, simplify=simplify)
            taken.append(time.process_time() - begin)
            paths.append(path if status == "Exact solution" else None)
        answer = {"family": family, "solved": paths[0] is not None and paths[1] is not None}
        if answer["solved"]:
            answer |= {
                "search": taken[0],
                "wall": taken[1],
                "first": length(paths[0]),
                "length": length(paths[1]),
            }
        elif touching:
            print(f"{family}: the start touches something for FCL", file=sys.stderr)
        print(json.dumps(answer))


if __name__ == "__main__":
    main()
