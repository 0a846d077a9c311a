# SPDX-License-Identifier: Apache-2.0
"""Time parameterization of paths: time per waypoint, and limits of random paths at 1 kHz.

Run: ``python benchmarks/bench_retiming.py`` (a minute). First, lines with rounded corners of a
seven-joint arm, as from planners; two waypoints are a straight line. Then random paths of all kinds
are time-parameterized by :func:`retime` and sampled at 1 kHz; reported are the max excess over
limits and the failures. ``--peer-python`` adds TOPP-RA and COPP on the first kind.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from harness import Options, Report, Row, benchmark, median, progress, take_turns
from harness.timing import peer_lines
from trajectory.retime_limits import JERK, arm_limits, excess, fault_of, random_path, without_jerk

from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.trajectory.joint_path import CornerBlending, JointPath
from motion_nodes.core.trajectory.through_waypoints import JointTrajectoryGenerator
from motion_nodes.core.trajectory.time_parameterization import retime
from motion_nodes.core.trajectory.timed_path import TimedPath
from motion_nodes.errors import MotionError
from motion_nodes.typing import Array

PATHS = 5
COUNTS = (2, 5, 10, 30, 60)
CORNERS = CornerBlending(0.05)
GRID = 300  # Intervals of the peers, at least
OURS = {False: "ours", True: "ours, jerk"}
CONTENDERS = (("ours", "TOPP-RA", "COPP"), ("ours, jerk", "COPP, jerk"))
"""Without and with jerk limits, as in ``peers/retiming.py``."""


def lines(count: int, seed: int) -> Array:
    """Return random waypoints, shape (count, 7) [rad]."""
    return np.cumsum(np.random.default_rng(seed).normal(size=(count, 7)) / np.sqrt(count), axis=0)


def works_of(points: Array, limits: JointLimits) -> dict[bool, Callable[[], TimedPath]]:
    """Return the calls that time a path, without and with jerk limits."""
    return {with_jerk: partial(retime, points, each, blending=CORNERS)
            for with_jerk, each in ((False, without_jerk(limits)), (True, limits))}  # fmt: skip


def by_length(report: Report) -> None:
    """Measure lines with rounded corners, as from planners."""
    progress("paths of 2 to 60 waypoints")
    limits, rows = arm_limits(JERK), list[Row]()
    for count in COUNTS:
        times = [take_turns(works_of(lines(count, seed), limits), 5) for seed in range(PATHS)]
        plain, jerk = (1e3 * median(each[k].p50 for each in times) for k in (False, True))
        rows.append({"waypoints": str(count), "velocity and acceleration [ms]": plain,
                     "and jerk [ms]": jerk, "each [ms]": plain / count,
                     "each, with jerk [ms]": jerk / count})  # fmt: skip
    report.table("Lines with rounded corners, seven joints", rows)


def sampled(path: JointPath) -> dict[str, Any]:
    """Return the samples of a path for the peers: distances, and derivatives of order 0 to 3.

    Each piece has the same number of intervals, as derivatives may jump at its ends.
    """
    shares = np.linspace(0.0, 1.0, GRID // (len(path.breaks) - 1) + 2)[:-1]
    inside = path.breaks[:-1, None] + shares * np.diff(path.breaks)[:, None]
    s = np.append(inside.ravel(), path.length)
    return {"s": s.tolist(), "q": [path.evaluate(s, order).tolist() for order in range(4)]}


def beside_peers(report: Report, python: str) -> None:
    """Compare times and durations with TOPP-RA and COPP, on the same paths."""
    limits, paths = arm_limits(JERK), list[dict[str, Any]]()
    mine: list[dict[str, tuple[float, float]]] = []
    for count in COUNTS:
        works = works_of(lines(count, 0), limits)
        motions = {with_jerk: work() for with_jerk, work in works.items()}
        times = take_turns(works, 10)
        mine.append({OURS[k]: (1e3 * times[k].least, motions[k].duration) for k in works})
        paths.append(sampled(motions[True].path))
    bounds = [np.asarray(x).tolist() for x in (limits.velocity, limits.acceleration, limits.jerk)]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"limits": bounds, "paths": paths}, file)
        file.flush()
        peers = peer_lines(python, "peers/retiming.py", file.name)
    rows: list[Row] = []
    for count, path, own, theirs in zip(COUNTS, paths, mine, peers, strict=False):
        found, row = own | theirs, {"waypoints": str(count), "grid": len(path["s"])}
        for names in CONTENDERS:
            for k, unit in enumerate(("ms", "s")):
                row |= {f"{name} [{unit}]": found[name][k] for name in names}
        rows.append(row)
    report.table("Beside TOPP-RA and COPP, least time of a call, and duration of the motion", rows)


def timed(seed: int, with_jerk: bool) -> tuple[str, float]:
    """Time-parameterize a random path; return the failure (empty: none) and the max excess."""
    points, limits, blending = random_path(seed, with_jerk)
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
    return fault_of(trajectory, points, limits), excess(trajectory, limits)


def random_paths(report: Report, count: int) -> None:
    """Time-parameterize random paths of all kinds and count failures."""
    rows: list[Row] = []
    for with_jerk, name in ((False, "velocity and acceleration"), (True, "with jerk limits")):
        progress(f"{count} random paths, {name}")
        began = time.process_time()
        found = [timed(seed, with_jerk) for seed in range(count)]
        spent = (time.process_time() - began) / count * 1e3
        for seed, (wrong, _) in enumerate(found):
            if wrong:
                progress(f"path {seed}, {name}: {wrong}")
        rows.append({
            "": name, "paths": count, "failures": sum(bool(wrong) for wrong, _ in found),
            "max excess at 1 kHz": f"{max(over for _, over in found):.1e}",
            "CPU with checks [ms each]": spent,
        })  # fmt: skip
    report.table(
        "Random paths: 1 to 8 joints, 2 to 24 waypoints, repeated ones and returns among them",
        rows,
        "Two thirds are lines with rounded corners, the others splines. A failure is an error, an "
        "excess over a\nlimit of more than 1e-6, an end that is missed or time that does not rise.",
    )


@benchmark("Timing of paths", paths=(1000, "random paths, of both kinds"),
           peer_python=("", "a Python that has toppra and copp-py"))  # fmt: skip
def main(report: Report, options: Options) -> None:
    """Measure and print."""
    by_length(report)
    if options.peer_python:
        beside_peers(report, options.peer_python)
    random_paths(report, options.paths)
