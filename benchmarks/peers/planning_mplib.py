# SPDX-License-Identifier: Apache-2.0
"""The problems of bench_planning.py by mplib (OMPL's RRT-Connect with FCL), in a Python of its own.

Run by it as ``PYTHON planning_mplib.py PROBLEMS STEP ROUNDS MODEL``; MODEL is a folder with the
robot as ``robot.urdf``, its spheres as collision geometry, and ``robot.srdf``, as
:func:`planning_problems.write_model` writes them. Prints one JSON object per problem. It needs
``mplib`` and NumPy, nothing of this package.

mplib checks edges in steps of a hundredth of the space's extent (OMPL's own), coarser than the
other planners do, and start and goals in that time, too. It is CPU time: searches take long.
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

LIMIT = 10.0  # More than the others get: within a second it solves few of the problems [s]


def shape(item: dict[str, Any], family: str) -> Any:
    """Return a shape as the other planners take it: capsules for cylinders, boxes in ``box``."""
    if "half_extents" in item:
        return fcl.Box(*(2.0 * x for x in item["half_extents"]))
    if "length" not in item:
        return fcl.Sphere(item["radius"])
    radius, length = item["radius"], item["length"]
    return (
        fcl.Box(2 * radius, 2 * radius, length) if family == "box" else fcl.Capsule(radius, length)
    )


def fill(world: mplib.PlanningWorld, family: str, row: dict[str, Any]) -> None:
    """Put a problem's objects in place of those of the one before."""
    for name in world.get_object_names():
        world.remove_object(name)
    for number, item in enumerate(row["box"] + row["cylinder"] + row["sphere"]):
        x, y, z, w = item.get("orientation_quat_xyzw", (0.0, 0.0, 0.0, 1.0))
        pose = mplib.Pose(item["position"], [w, x, y, z])
        thing = fcl.CollisionObject(shape(item, family), mplib.Pose())
        world.add_object(fcl.FCLObject(f"object{number}", pose, [thing], [mplib.Pose()]))


def main() -> None:
    """Plan each STEP-th problem twice, without and with shortening."""
    with open(sys.argv[1]) as file:
        families = json.load(file)["problems"]
    step, model = int(sys.argv[2]), Path(sys.argv[4])
    robot = mplib.Planner(model / "robot.urdf", "panda_hand", srdf=model / "robot.srdf")
    valid = [(family, row) for family, rows in families.items() for row in rows if row["valid"]]
    for number, (family, row) in enumerate(valid[::step]):
        fill(robot.planning_world, family, row)
        start, goals = np.array(row["start"]), [np.array(goal) for goal in row["goals"]]
        taken, lengths = [], []
        for simplify in (False, True):
            robot.robot.set_qpos(start, True)
            begin = time.process_time()
            status, path = robot.planner.plan(start, goals, time=LIMIT, simplify=simplify)
            taken.append(time.process_time() - begin)
            if status == "Exact solution":
                lengths.append(float(np.linalg.norm(np.diff(path, axis=0), axis=1).sum()))
        answer = {"family": family, "problem": number, "solved": len(lengths) == 2}
        if answer["solved"]:
            answer |= dict(zip(("search", "wall", "first", "length"), taken + lengths, strict=True))
        print(json.dumps(answer))


if __name__ == "__main__":
    main()
