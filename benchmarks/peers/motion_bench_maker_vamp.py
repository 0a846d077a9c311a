# SPDX-License-Identifier: Apache-2.0
"""The problems of bench_motion_bench_maker.py, solved by vamp; needs ``vamp-planner`` and NumPy.

``PYTHON motion_bench_maker_vamp.py FILE`` reads ``{"robot": ..., "problems": [...]}`` and prints
one JSON object per problem: whether vamp's spheres are free at start and goal, and the times of its
search and simplification by its own clock [s].
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any


def environment_of(vamp: Any, problem: dict[str, Any]) -> Any:
    """Return the obstacles; cylinders are capsules, boxes in the family ``box``, as vamp has it."""
    environment = vamp.Environment()
    for item in problem["objects"]:
        sizes, at, euler = item["dimensions"], item["position"], item["euler_xyz"]
        if item["type"] == "sphere":
            environment.add_sphere(vamp.Sphere(at, sizes[0]))
        elif item["type"] == "box":
            environment.add_cuboid(vamp.Cuboid(at, euler, [0.5 * x for x in sizes]))
        elif problem["family"] == "box":
            half = [sizes[1], sizes[1], 0.5 * sizes[0]]
            environment.add_cuboid(vamp.Cuboid(at, euler, half))
        else:
            environment.add_capsule(vamp.Cylinder(at, euler, sizes[1], sizes[0]))
    return environment


def main() -> None:
    """Plan and simplify each problem with vamp's own settings for the robot."""
    import vamp

    asked = json.loads(Path(sys.argv[1]).read_text())
    module, plan, settings, simplification = vamp.configure_robot_and_planner_with_kwargs(
        asked["robot"], "rrtc"
    )
    # Its default buffers for a million samples cost a millisecond per call.
    settings.max_samples = 50_000
    sampler = module.halton()
    for problem in asked["problems"]:
        names = list(module.joint_names())
        start, goal = ([problem[end][name] for name in names] for end in ("start", "goal"))
        environment = environment_of(vamp, problem)
        answer = {"start": bool(module.validate(start, environment)),
                  "goal": bool(module.validate(goal, environment)), "solved": False}  # fmt: skip
        if answer["start"] and answer["goal"]:
            sampler.reset()
            begin = time.perf_counter()
            found = plan(start, goal, environment, settings, sampler)
            answer["solved"] = bool(found.solved)
            if found.solved:
                short = module.simplify(found.path, environment, simplification, sampler)
                answer |= {"wall": time.perf_counter() - begin,
                           "search": 1e-9 * found.nanoseconds,
                           "simplify": 1e-9 * short.nanoseconds}  # fmt: skip
        print(json.dumps(answer))


if __name__ == "__main__":
    main()
