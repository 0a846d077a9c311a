# SPDX-License-Identifier: Apache-2.0
"""Timing of paths: ours beside toppra, Drake and Ruckig, and the saturation method.

Run: ``python benchmarks/bench_retiming.py`` (a minute). The peers are toppra and Drake
(``pip install toppra drake``, best in an environment of their own; then give its Python with
``--peer-python``); what is not installed is left out. Ruckig always is there.

All time the same natural splines through ten random waypoints of a seven-jointed arm, on the same
grids. The optimum is toppra's on 5000 grid points, or ours where toppra is missing. Every result is
sampled at 1 kHz: how far beyond a limit it gets, as a share of it. Then random paths of all
kinds go through :func:`retime`, and each is checked the same way.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from report import Report, arguments, progress, ratio

from motion_nodes.errors import MotionError
from motion_nodes.kernels.timing.time_optimal import fastest_speeds
from motion_nodes.model.limits import JointLimits
from motion_nodes.trajectory.blended_path import CornerBlending
from motion_nodes.trajectory.generator import JointTrajectoryGenerator
from motion_nodes.trajectory.point_to_point import point_to_point
from motion_nodes.trajectory.spline import segment_shares, spline_path
from motion_nodes.trajectory.time_parameterization import retime, speed_grid, time_optimal

Array = np.ndarray

VELOCITY = np.array([2.175] * 4 + [2.61] * 3)
ACCELERATION = np.array([15.0, 7.5, 10.0, 12.5, 15.0, 20.0, 20.0])
JERK = np.array([7500.0, 3750.0, 5000.0, 6250.0, 7500.0, 10000.0, 10000.0])
"""The Franka's, as franka_ros states them."""
GRIDS = (100, 200, 400)
FINEST = 5000
PATHS = 5


def limits_of(velocity: Array, acceleration: Array, jerk: Array | float = np.inf) -> JointLimits:
    """Return limits of as many joints."""
    one = np.ones(len(velocity))
    names = tuple(f"joint{i + 1}" for i in range(len(velocity)))
    return JointLimits(
        names, -100.0 * one, 100.0 * one, velocity, 100.0 * one, acceleration, jerk * one
    )


def median_time(work: Callable[[], object], rounds: int = 25) -> float:
    """Return the median duration of a call [us]."""
    work()
    taken = []
    for _ in range(rounds):
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return float(np.median(taken) * 1e6)


def excess(v: Array, a: Array, j: Array, limits: JointLimits) -> float:
    """Return by how much limits are exceeded at most, absolute."""
    pairs = ((v, limits.velocity), (a, limits.acceleration), (j, limits.jerk))
    return max(float(np.max(np.abs(x) - bound)) for x, bound in pairs)


def dense_excess(trajectory: object, limits: JointLimits, rate: float = 1000.0) -> float:
    """Return by how much a trajectory exceeds limits at a rate [Hz]."""
    times = np.append(np.arange(0.0, trajectory.end_time, 1.0 / rate), trajectory.end_time)
    _, v, a, j = trajectory.states(times)
    return excess(v, a, j, limits)


def trajectory_share(trajectory: object, limits: JointLimits) -> float:
    """Return by how much velocity and acceleration limits are exceeded at 1 kHz, as a share."""
    _, v, a, _ = trajectory.states(np.arange(0.0, trajectory.end_time, 1e-3))
    pairs = ((v, limits.velocity), (a, limits.acceleration))
    return max(float(np.max(np.abs(x) / bound)) for x, bound in pairs) - 1.0


def problems() -> list[tuple[Array, Array]]:
    """Return breaks and waypoints of the splines."""
    found = []
    for seed in range(PATHS):
        points = np.random.default_rng(seed).uniform(-2.0, 2.0, (10, 7))
        shares = segment_shares(points, "centripetal", VELOCITY)
        found.append((np.concatenate([[0.0], np.cumsum(shares)]), points))
    return found


def ours(breaks: Array, points: Array, grid: int) -> dict[str, float]:
    """Time a spline; the grid's intervals are those that the pieces get anyway and the rest."""
    limits = limits_of(VELOCITY, ACCELERATION)
    path = spline_path(limits.names, points, np.diff(breaks))
    intervals = grid - 8 * (len(points) - 1)

    def whole() -> object:
        spline = spline_path(limits.names, points, np.diff(breaks))
        return time_optimal(spline, limits, intervals)

    nodes, piece = speed_grid(path, intervals)
    velocity, acceleration = (
        np.tile(values, (len(piece), 1)) for values in (limits.velocity, limits.acceleration)
    )
    start = np.full(len(nodes), np.inf)
    start[[0, -1]] = 0.0
    u = np.empty(len(piece))

    def solve() -> None:
        fastest_speeds(
            path.breaks, path.coefficients, nodes, piece, velocity, acceleration, start.copy(), u
        )

    trajectory = whole()
    return {
        "duration": trajectory.duration,
        "time": median_time(whole),
        "solve": median_time(solve),
        "excess": trajectory_share(trajectory, limits),
    }


def ask_peers(python: str) -> dict[str, dict]:
    """Run the peers with a Python that has them; none where it fails."""
    splines = [
        {
            "breaks": breaks.tolist(),
            "points": points.tolist(),
            "end_slopes": spline_path(tuple("abcdefg"), points, np.diff(breaks))
            .evaluate(breaks[[0, -1]], 1)
            .tolist(),
        }
        for breaks, points in problems()
    ]
    task = {
        "velocity": VELOCITY.tolist(),
        "acceleration": ACCELERATION.tolist(),
        "splines": splines,
        "grids": GRIDS,
        "finest": FINEST,
    }
    answer = subprocess.run(
        [python, str(Path(__file__).resolve().with_name("retiming_peers.py"))],
        input=json.dumps(task),
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        progress(f"the peers failed: {answer.stderr.strip()[-300:]}")
        return {}
    return json.loads(answer.stdout)


def against_peers(report: Report, python: str) -> None:
    """Compare with toppra and Drake under limits of velocity and acceleration."""
    progress("toppra and Drake")
    peers = ask_peers(python)
    names = ", ".join(f"{name} {peer['version']}" for name, peer in peers.items())
    progress("motion_nodes on the same splines")
    rows = []
    for grid in GRIDS:
        mine = [ours(*problem, grid) for problem in problems()]
        if "toppra" in peers:
            best = [row[str(FINEST)]["duration"] for row in peers["toppra"]["rows"]]
        else:
            best = [ours(*problem, FINEST)["duration"] for problem in problems()]
        taken = float(np.median([m["time"] for m in mine]))
        solved = float(np.median([m["solve"] for m in mine]))
        rows.append(
            [f"motion_nodes, {grid} intervals", taken, solved, *_quality(mine, best), None, None]
        )
        for name, peer in peers.items():
            found = [row[str(grid)] for row in peer["rows"]]
            theirs = float(np.median([f["time"] for f in found]))
            rows.append(
                [
                    f"{name}, {grid}",
                    theirs,
                    None,
                    *_quality(found, best),
                    ratio(taken, theirs),
                    ratio(solved, theirs),
                ]
            )
    report.table(
        "Splines through ten waypoints, seven joints; velocity and acceleration limits",
        (
            "",
            "whole [us]",
            "solve [us]",
            "over optimum [%]",
            "over limits [%]",
            "ours / theirs",
            "solve / theirs",
        ),
        rows,
        "Whole: from waypoints to a trajectory; ours includes looking for excesses between grid "
        "points\nand taking them back, which the peers do not do. Solve: the kernel alone. "
        f"Optimum: toppra on {FINEST}\nintervals. Peers: {names or 'none installed'}.",
    )


def _quality(found: list[dict], best: list[float]) -> tuple[float, float | None]:
    """Return greatest excesses over the optimal duration and over limits [%]."""
    late = max(f["duration"] / b - 1.0 for f, b in zip(found, best, strict=True))
    over = [f["excess"] for f in found]
    return 100.0 * late, 100.0 * max(0.0, *over) if np.isfinite(over).all() else None


def against_saturation(report: Report) -> None:
    """Compare with the source's method, and with jerk limits."""
    progress("saturation")
    rows = []
    for title, jerk in (("none", np.inf), ("as given", JERK), ("a tenth", 0.1 * JERK)):
        limits = limits_of(VELOCITY, ACCELERATION, jerk)
        for method in ("time_optimal", "saturation"):
            generator = JointTrajectoryGenerator(limits, method)
            durations, taken, over = [], [], []
            for _, points in problems():
                trajectory = generator.compute_c_space_trajectory(points)
                durations.append(trajectory.duration)
                over.append(dense_excess(trajectory, limits))
                taken.append(
                    median_time(lambda g=generator, p=points: g.compute_c_space_trajectory(p), 5)
                )
            rows.append(
                [
                    f"{method}, jerk limits {title}",
                    float(np.mean(durations)),
                    float(np.median(taken)) * 1e-3,
                    f"{max(over):.1e}",
                ]
            )
    report.table(
        "The same waypoints: fastest along a spline, and the saturation method",
        ("", "mean duration [s]", "computing time [ms]", "greatest excess at 1 kHz"),
        rows,
    )


def by_length(report: Report) -> None:
    """Measure what lines with rounded corners cost, as planners hand them over."""
    progress("paths of 2 to 60 waypoints")
    limits = limits_of(VELOCITY, ACCELERATION, JERK)
    rows = []
    for count in (2, 5, 10, 30, 60):
        taken: dict[bool, list[float]] = {True: [], False: []}
        for seed in range(PATHS):
            steps = np.random.default_rng(seed).normal(size=(count, 7)) / np.sqrt(count)
            points = np.cumsum(steps, axis=0)
            for jerk, times in taken.items():

                def work(points: Array = points, jerk: bool = jerk) -> object:
                    corners = CornerBlending(0.05)
                    return retime(points, limits, jerk_limited=jerk, blending=corners)

                times.append(median_time(work, 7))
        rows.append([count, *(float(np.median(taken[jerk])) * 1e-3 for jerk in (False, True))])
    report.table(
        "Lines with rounded corners, seven joints",
        ("waypoints", "velocity and acceleration [ms]", "and jerk [ms]"),
        rows,
    )


def against_ruckig(report: Report) -> None:
    """Compare with Ruckig from rest to rest along straight lines."""
    progress("Ruckig")
    rows = []
    for title, jerk in (("as given", JERK), ("a tenth", 0.1 * JERK), ("a hundredth", 0.01 * JERK)):
        limits = limits_of(VELOCITY, ACCELERATION, jerk)
        longer, taken, theirs = [], [], []
        for seed in range(20):
            points = np.random.default_rng(seed).uniform(-2.0, 2.0, (2, 7))
            # Along a line the slowest joint, scaled, is what Ruckig's single joint is.
            way = np.abs(points[1] - points[0])
            bounds = (limits.velocity, limits.acceleration, limits.jerk)
            along = [np.array([np.min(bound / way)]) for bound in bounds]
            line = limits_of(*along)
            best = point_to_point([0.0], [1.0], line).duration
            longer.append(retime(points, limits).duration / best - 1.0)
            taken.append(median_time(lambda p=points, k=limits: retime(p, k), 3))
            theirs.append(median_time(lambda k=line: point_to_point([0.0], [1.0], k), 3))
        rows.append([title, 100.0 * max(longer), np.median(taken) * 1e-3, np.median(theirs) * 1e-3])
    report.table(
        "Straight lines with jerk limits, beside Ruckig",
        ("jerk limits", "longer by at most [%]", "path [ms]", "Ruckig, one joint [ms]"),
        rows,
    )


def random_path(seed: int, with_jerk: bool) -> tuple[str, float]:
    """Time a random path; return what is wrong, empty if nothing, and the greatest excess."""
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
    over = dense_excess(trajectory, limits)
    ends = trajectory.states([0.0, trajectory.end_time])[0]
    if not np.allclose(ends, points[[0, -1]], rtol=0.0, atol=1e-8):
        return "it does not end where it should", over
    if not np.all(np.diff(trajectory.times) > 0.0):
        return "time does not rise", over
    return (f"a limit is exceeded by {over:.1e}" if not over <= 1e-6 else ""), over


def random_paths(report: Report, count: int) -> None:
    """Time random paths of all kinds and look for failures."""
    rows = []
    for with_jerk in (False, True):
        name = "with jerk limits" if with_jerk else "velocity and acceleration"
        failed, worst, began = 0, -np.inf, time.process_time()
        for seed in range(count):
            if seed % 1000 == 0:
                progress(f"random paths, {name}: {seed} of {count}")
            wrong, over = random_path(seed, with_jerk)
            worst = max(worst, over)
            if wrong:
                failed += 1
                progress(f"path {seed}, {name}: {wrong}")
        spent = (time.process_time() - began) / count * 1e3
        rows.append([name, count, failed, f"{worst:.1e}", spent])
    report.table(
        "Random paths: 1 to 8 joints, 2 to 24 waypoints, repeated ones and returns among them",
        ("", "paths", "failures", "greatest excess at 1 kHz", "CPU with checks [ms each]"),
        rows,
        "Two thirds are lines with rounded corners, the others splines. A failure is an error, an "
        "excess over a\nlimit of more than 1e-6, an end that is missed or time that does not rise.",
    )


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--peer-python", default=sys.executable, help="Python that has the peers")
    parser.add_argument("--paths", type=int, default=1000, help="random paths, of both kinds")
    parser.add_argument("--random", type=int, metavar="N", help="only N random paths of both kinds")
    options = parser.parse_args()
    report = Report("Timing of paths")
    if options.random:
        random_paths(report, options.random)
        report.write(options.json)
        return
    against_peers(report, options.peer_python)
    against_saturation(report)
    by_length(report)
    against_ruckig(report)
    random_paths(report, options.paths)
    report.write(options.json)


if __name__ == "__main__":
    main()
