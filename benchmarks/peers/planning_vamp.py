# SPDX-License-Identifier: Apache-2.0
"""The problems of bench_planning.py, solved by vamp; needs ``vamp-planner`` and NumPy.

``PYTHON planning_vamp.py PROBLEMS STEP ROUNDS [LIMITS]`` prints one JSON object per problem and
round. With limits, ``{"velocity": [...], "acceleration": [...]}``, it contains the duration of the
motion by toppra along a cubic spline through the simplified path's waypoints, which may collide
where the spline leaves the path. With ``aorrtc`` instead of ROUNDS, AORRTC plans with growing
numbers of iterations; times and lengths of its paths are printed.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

GRID = 300  # Grid points of toppra
LONGEST = 1.0  # Time of a search of AORRTC after which no longer one is made [s]
SEGMENT = 50_021  # Samples between the segments of the random sequence, one segment per seed


def duration(waypoints: Any, limits: dict[str, list[float]]) -> float:
    """Return the duration of the time-optimal motion through waypoints, shape (k, n) [s]."""
    import numpy as np
    import toppra
    from toppra.constraint import JointAccelerationConstraint, JointVelocityConstraint

    points = np.asarray(waypoints, np.float64)
    spans = np.linalg.norm(np.diff(points, axis=0), axis=1)
    points = points[np.append(True, spans > 1e-6)]  # without repeated ones
    at = np.append(0.0, np.cumsum(spans[spans > 1e-6]))
    path = toppra.SplineInterpolator(at, points)
    bounds = [np.array(limits[name]) for name in ("velocity", "acceleration")]
    kinds = (JointVelocityConstraint, JointAccelerationConstraint)
    constraints = [kind(np.stack([-b, b], axis=1)) for kind, b in zip(kinds, bounds, strict=True)]
    grid = np.linspace(0.0, at[-1], GRID)
    solver = toppra.algorithm.TOPPRA(constraints, path, gridpoints=grid,
                                     parametrizer="ParametrizeSpline")  # fmt: skip
    motion = solver.compute_trajectory()
    return float("nan") if motion is None else float(motion.duration)


def anytime(valid: list[tuple[str, dict[str, Any]]]) -> None:
    """Plan each problem by AORRTC, as often as its time stays below :data:`LONGEST`."""
    import vamp

    module, plan, settings, _ = vamp.configure_robot_and_planner_with_kwargs("panda", "aorrtc")
    # Buffers of this size are allocated for each search, outside of its clock.
    settings.max_samples = settings.rrtc.max_samples = 100000
    sampler = module.halton()
    for family, row in valid:
        environment, seen, iterations = vamp.problem_dict_to_vamp(row), [], 50
        while not seen or seen[-1][0] < LONGEST:
            settings.max_iterations = iterations
            sampler.reset()
            found = plan(row["start"], row["goals"], environment, settings, sampler)
            cost = found.path.cost() if found.solved else float("inf")
            seen.append((found.nanoseconds * 1e-9, cost))
            iterations = round(1.6 * iterations)
            if iterations > settings.max_samples:
                break
        print(json.dumps({"family": family, "seen": seen}))


def main() -> None:
    """Plan and simplify each problem with vamp's own settings for the Panda."""
    import vamp

    file, step, rounds, *limits = sys.argv[1:]
    families = json.loads(Path(file).read_text())["problems"].items()
    valid = [(family, row) for family, rows in families for row in rows if row["valid"]]
    valid = valid[:: int(step)]
    if rounds == "aorrtc":
        anytime(valid)
        return
    module, plan, settings, simplification = vamp.configure_robot_and_planner_with_kwargs(
        "panda", "rrtc"
    )
    # Its default buffers for a million samples cost a millisecond per call.
    settings.max_samples = 20000
    # Each seed is a separate segment of a pseudorandom sequence. A Halton sequence with constant
    # skips gave the same path for most problems, for all seeds.
    sampler = module.xorshift()
    for number in range(int(rounds)):
        for index, (family, row) in enumerate(valid):
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
                if limits:
                    answer["motion"] = duration(short.path.numpy(), json.loads(limits[0]))
                    answer["retimed"] = time.perf_counter() - begin
            print(json.dumps(answer))


if __name__ == "__main__":
    main()
