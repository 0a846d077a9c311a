# SPDX-License-Identifier: Apache-2.0
"""The problems of bench_planning.py, solved by vamp; needs ``vamp-planner`` and NumPy.

``PYTHON planning_vamp.py PROBLEMS STEP ROUNDS [LIMITS]`` prints one JSON object per problem and
round. With limits, ``{"velocity": [...], "acceleration": [...]}``, it contains the duration of the
motion by toppra along a cubic spline through the simplified path's waypoints, which may collide
where the spline leaves the path.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

GRID = 300  # Grid points of toppra
SEGMENT = 50_021  # Samples between the segments of the random sequence, one segment per seed


def duration(waypoints: Any, limits: dict[str, list[float]]) -> float:
    """Return the duration of the time-optimal motion through waypoints, shape (k, n) [s]."""
    import numpy as np
    import toppra
    from toppra.constraint import JointAccelerationConstraint, JointVelocityConstraint

    points = np.asarray(waypoints, np.float64)
    spans = np.linalg.norm(np.diff(points, axis=0), axis=1)
    points = points[np.append(True, spans > 1e-6)]
    at = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1)))
    path = toppra.SplineInterpolator(at, points)
    bounds = [np.array(limits[name]) for name in ("velocity", "acceleration")]
    kinds = (JointVelocityConstraint, JointAccelerationConstraint)
    constraints = [kind(np.stack([-b, b], axis=1)) for kind, b in zip(kinds, bounds, strict=True)]
    grid = np.linspace(0.0, at[-1], GRID)
    solver = toppra.algorithm.TOPPRA(constraints, path, gridpoints=grid,
                                     parametrizer="ParametrizeSpline")  # fmt: skip
    motion = solver.compute_trajectory()
    return float("nan") if motion is None else float(motion.duration)


def main() -> None:
    """Plan and simplify each problem with vamp's own settings for the Panda."""
    import vamp

    with open(sys.argv[1]) as file:
        families = json.load(file)["problems"]
    step, rounds = int(sys.argv[2]), int(sys.argv[3])
    limits = json.loads(sys.argv[4]) if len(sys.argv) > 4 else None
    module, plan, settings, simplification = vamp.configure_robot_and_planner_with_kwargs(
        "panda", "rrtc"
    )
    # Its default buffers for a million samples cost a millisecond per call.
    settings.max_samples = 20000
    # Each seed is a separate segment of a pseudorandom sequence. A Halton sequence with constant
    # skips gave the same path for most problems, for all seeds.
    sampler = module.xorshift()
    valid = [(family, row) for family, rows in families.items() for row in rows if row["valid"]]
    for number in range(rounds):
        for index, (family, row) in enumerate(valid[::step]):
            sampler.reset()
            sampler.skip(SEGMENT * number)
            environment = vamp.problem_dict_to_vamp(row)
            begin = time.perf_counter()
            found = plan(row["start"], row["goals"], environment, settings, sampler)
            answer = {"family": family, "problem": index, "solved": bool(found.solved)}
            if found.solved:
                short = module.simplify(found.path, environment, simplification, sampler)
                answer |= {"wall": time.perf_counter() - begin,
                           "search": found.nanoseconds * 1e-9,
                           "first": found.path.cost(), "length": short.path.cost()}  # fmt: skip
                if limits is not None:
                    answer["motion"] = duration(short.path.numpy(), limits)
                    answer["retimed"] = time.perf_counter() - begin
            print(json.dumps(answer))


if __name__ == "__main__":
    main()
