# SPDX-License-Identifier: Apache-2.0
"""Timing of paths: time for each waypoint, and limits at 1 kHz of random paths.

Run: ``python benchmarks/bench_retiming.py`` (a minute). Lines with rounded corners of a seven-joint
arm, as planners pass them on; two waypoints are a straight line. Then random paths of all kinds go
through :func:`retime`, and each is sampled at 1 kHz: how far beyond a limit it gets, and which ones
fail.
"""

from __future__ import annotations

import time

import numpy as np
from harness import Cell, Report, arguments, progress, take_turns

from motion_nodes.errors import MotionError
from motion_nodes.model.limits import JointLimits
from motion_nodes.trajectory.blended_path import CornerBlending
from motion_nodes.trajectory.generator import JointTrajectoryGenerator
from motion_nodes.trajectory.time_parameterization import retime

Array = np.ndarray
VELOCITY = np.array([2.175] * 4 + [2.61] * 3)
ACCELERATION = np.array([15.0, 7.5, 10.0, 12.5, 15.0, 20.0, 20.0])
JERK = np.array([7500.0, 3750.0, 5000.0, 6250.0, 7500.0, 10000.0, 10000.0])
"""The Franka's, as franka_ros states them."""
PATHS = 5


def limits_of(velocity: Array, acceleration: Array, jerk: Array | float = np.inf) -> JointLimits:
    """Return limits of as many joints."""
    one = np.ones(len(velocity))
    names = tuple(f"joint{i + 1}" for i in range(len(velocity)))
    return JointLimits(
        names, -100.0 * one, 100.0 * one, velocity, 100.0 * one, acceleration, jerk * one
    )


def by_length(report: Report) -> None:
    """Measure what lines with rounded corners cost, as planners pass them on."""
    progress("paths of 2 to 60 waypoints")
    limits, corners = limits_of(VELOCITY, ACCELERATION, JERK), CornerBlending(0.05)
    rows: list[list[Cell]] = []
    for count in (2, 5, 10, 30, 60):
        taken = []
        for seed in range(PATHS):
            steps = np.random.default_rng(seed).normal(size=(count, 7)) / np.sqrt(count)
            points = np.cumsum(steps, axis=0)
            works = {
                jerk: lambda p=points, jerk=jerk: retime(
                    p, limits, jerk_limited=jerk, blending=corners
                )
                for jerk in (False, True)
            }
            taken.append([1e3 * t.median for t in take_turns(works, 5).values()])
        middle = np.median(taken, axis=0)
        rows.append([str(count), *middle.tolist(), *(middle / count).tolist()])
    report.table(
        "Lines with rounded corners, seven joints",
        ("waypoints", "velocity and acceleration [ms]", "and jerk [ms]", "each [ms]",
         "each, with jerk [ms]"),
        rows,
    )  # fmt: skip


def random_path(seed: int, with_jerk: bool) -> tuple[str, float]:
    """Time a random path; return what is wrong, empty if nothing, and the max excess."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(1, 9)), int(rng.integers(2, 25))
    points = 10.0 ** rng.uniform(-5.0, 0.5) * rng.normal(size=(k, n))
    points[rng.random(k) < 0.2] = points[0]
    points[-1] += 1e-5
    jerk = 10.0 ** rng.uniform(0.5, 4.0, n) if with_jerk else np.inf
    limits = limits_of(rng.uniform(0.1, 5.0, n), rng.uniform(0.5, 30.0, n), jerk)
    blending = CornerBlending(float(rng.choice([0.0, 1e-3, 0.01, 0.1, 1.0])))
    try:
        if seed % 3:
            trajectory = retime(points, limits, blending=blending)
        else:
            generator = JointTrajectoryGenerator(limits)
            trajectory = generator.compute_c_space_trajectory(points)
            if trajectory is None:
                return generator.failure, -np.inf
    except (MotionError, ArithmeticError, ValueError) as error:
        return str(error), -np.inf
    times = np.append(np.arange(0.0, trajectory.end_time, 1e-3), trajectory.end_time)
    q, *derivatives = trajectory.states(times)
    bounds = (limits.velocity, limits.acceleration, limits.jerk)
    over = max(float((np.abs(x) - b).max()) for x, b in zip(derivatives, bounds, strict=True))
    if not np.allclose(q[[0, -1]], points[[0, -1]], rtol=0.0, atol=1e-8):
        return "it does not end where it should", over
    if not np.all(np.diff(trajectory.times) > 0.0):
        return "time does not rise", over
    return (f"a limit is exceeded by {over:.1e}" if not over <= 1e-6 else ""), over


def random_paths(report: Report, count: int) -> None:
    """Time random paths of all kinds and look for failures."""
    rows: list[list[Cell]] = []
    for with_jerk, name in ((False, "velocity and acceleration"), (True, "with jerk limits")):
        progress(f"{count} random paths, {name}")
        began = time.process_time()
        found = [random_path(seed, with_jerk) for seed in range(count)]
        spent = (time.process_time() - began) / max(count, 1) * 1e3
        for seed, (wrong, _) in enumerate(found):
            if wrong:
                progress(f"path {seed}, {name}: {wrong}")
        failed, worst = sum(bool(wrong) for wrong, _ in found), max(over for _, over in found)
        rows.append([name, count, failed, f"{worst:.1e}", spent])
    report.table(
        "Random paths: 1 to 8 joints, 2 to 24 waypoints, repeated ones and returns among them",
        ("", "paths", "failures", "max excess at 1 kHz", "CPU with checks [ms each]"),
        rows,
        "Two thirds are lines with rounded corners, the others splines. A failure is an error, an "
        "excess over a\nlimit of more than 1e-6, an end that is missed or time that does not rise.",
    )


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--paths", type=int, default=1000, help="random paths, of both kinds")
    options = parser.parse_args()
    report = Report("Timing of paths")
    by_length(report)
    random_paths(report, options.paths)
    report.write(options.json)


if __name__ == "__main__":
    main()
