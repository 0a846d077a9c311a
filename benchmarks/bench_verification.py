# SPDX-License-Identifier: Apache-2.0
"""Planning stage by stage among 0, 40 and 1000 boxes: search to verification.

Run: ``python benchmarks/bench_verification.py`` (half a minute). It uses nothing but ``plan``, so
that an older version can be measured by the same file:
``PYTHONPATH=OLDER python benchmarks/bench_verification.py``.

Each problem is planned several times and the least time of a stage counts; the table holds the
medians over the problems, and of verification the greatest as well. Boxes are turned at random,
0.45 to 1.2 m from the base: edges of 8 cm for 40 of them, of 2 cm for 1000.
"""

from __future__ import annotations

import numpy as np
from harness import Report, arguments

from motion_nodes.model.loader import load_robot
from motion_nodes.model.poses import from_xyz_quat
from motion_nodes.model.tree import Box
from motion_nodes.planning.pipeline import PlanOptions, plan
from motion_nodes.planning.planning_problem import JointGoal, PlanRequest
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.scene import Scene, world_object

STAGES = ("path", "shorten", "retime", "sample", "verify")
WORLDS = ((0, 0.04), (40, 0.04), (1000, 0.01))  # How many boxes, and half their edges [m]


def scattered(count: int, half: float) -> Scene:
    """Return a world of turned boxes around the robot, 0.45 to 1.2 m away; half their edges [m]."""
    rng, objects = np.random.default_rng(1), {}
    for name in map(str, range(count)):
        direction = rng.normal(size=3)
        position = direction / np.linalg.norm(direction) * rng.uniform(0.45, 1.2)
        X_WB = from_xyz_quat(position, rng.normal(size=4))
        objects[name] = world_object(name, Box((2.0 * half,) * 3), X_WB)
    return Scene(objects)


def problems(checker: CollisionChecker, count: int, options: PlanOptions) -> list[PlanRequest]:
    """Return problems that are solved: random starts and goals that are collision-free."""
    rng, found = np.random.default_rng(7), []
    low, high = checker.limits.lower, checker.limits.upper
    Q = rng.uniform(low, high, (20_000, len(low)))
    Q = Q[checker.are_free(Q)]
    for start, goal in zip(Q[::2], Q[1::2], strict=False):
        request = PlanRequest(checker, start, (JointGoal(goal),), timeout=1.0)
        if plan(request, options).success:
            found.append(request)
        if len(found) == count:
            break
    return found


def measured(request: PlanRequest, options: PlanOptions, rounds: int) -> tuple[list[float], bool]:
    """Return the least time of each stage [ms], and whether a path was searched again."""
    runs = [plan(request, options) for _ in range(rounds)]
    times = [
        1e3 * min(sum(s.time for s in run.stages if s.name == name) for run in runs)
        for name in STAGES
    ]
    return times, any("searched again" in note for run in runs for note in run.notes)


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--problems", type=int, default=40, help="in each world")
    parser.add_argument("--rounds", type=int, default=5, help="of each problem")
    given = parser.parse_args()
    report = Report("Verification of plans")
    for robot, group in (("franka", "arm"), ("ur10e", "arm")):
        model = load_robot(robot)
        options, rows = PlanOptions(), []
        for boxes, half in WORLDS:
            scene = scattered(boxes, half)
            checker = CollisionChecker(model, group, scene=scene)
            asked = problems(checker, given.problems, options)
            answers = [measured(request, options, given.rounds) for request in asked]
            if not answers:
                rows.append([boxes, 0, *("-" for _ in STAGES), "-", "-"])
                continue
            times = np.array([row for row, _ in answers])
            medians = np.median(times, axis=0)
            again = sum(repeated for _, repeated in answers)
            rows.append([boxes, len(asked), *medians, float(times[:, -1].max()), again])
        columns = [f"{name} [ms]" for name in STAGES]
        report.table(
            robot, ["boxes", "plans", *columns, "verify, max [ms]", "searched again"], rows
        )
    report.write(given.json)


if __name__ == "__main__":
    main()
