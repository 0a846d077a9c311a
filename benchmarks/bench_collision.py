# SPDX-License-Identifier: Apache-2.0
"""Collision checks of the Panda's arm: throughput, edges, growing worlds, start, overstatement.

Run: ``python benchmarks/bench_collision.py`` (a minute; needs ``pin``, which brings coal; vamp is
measured where it can be imported, and the report says so where it cannot).

Verdicts are compared before anything is timed. Contenders take turns in short rounds on one core;
the least of the rounds counts.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable

import numpy as np
from collision_peers import Check, disagreements, with_coal, with_vamp
from report import Cell, Report, arguments, ratio

from motion_nodes.model.loader import load_robot
from motion_nodes.model.poses import from_xyz_quat
from motion_nodes.model.tree import Box, Sphere
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.scene import Scene, world_object
from motion_nodes.scene.world import World

CONFIGURATIONS = 32
"""On an edge."""
_START = """
import time
begin = time.perf_counter()
from motion_nodes.model.loader import load_robot
robot = load_robot("franka")
loaded = time.perf_counter()
from motion_nodes.scene.checker import CollisionChecker
checker = CollisionChecker(robot, "arm")
checker.is_free(robot.home[:7])
print(loaded - begin, time.perf_counter() - loaded)
"""


def scattered(count: int, kind: str, size: float, seed: int = 1) -> Scene:
    """Return a world of spheres or turned boxes around the robot, 0.45 to 1.2 m away."""
    rng = np.random.default_rng(seed)
    objects = {}
    for index in range(count):
        direction = rng.normal(size=3)
        position = direction / np.linalg.norm(direction) * rng.uniform(0.45, 1.2)
        solid = Sphere(size) if kind == "spheres" else Box((2.0 * size,) * 3)
        name = f"{kind}_{index}"
        objects[name] = world_object(name, solid, from_xyz_quat(position, rng.normal(size=4)))
    return Scene(objects)


def least(call: Callable[[], object], rounds: int = 30) -> float:
    """Return the least time of some rounds [s]."""
    return min(timeit.timeit(call, number=1) for _ in range(rounds))


def free_configurations(checker: CollisionChecker, count: int) -> np.ndarray:
    """Return random configurations that are free."""
    rng = np.random.default_rng(0)
    found = np.empty((0, 7))
    while len(found) < count:
        Q = rng.uniform(checker.limits.lower, checker.limits.upper, (20 * count, 7))
        found = np.concatenate((found, Q[checker.are_free(Q)]))
    return np.ascontiguousarray(found[:count])


def free_edges(checker: CollisionChecker, count: int = 40) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return free edges of exactly ``CONFIGURATIONS`` configurations."""
    rng, edges = np.random.default_rng(2), []
    Q = free_configurations(checker, 400)
    while len(edges) < count:
        a, b = Q[rng.permutation(len(Q))[:2]]
        length = float(np.linalg.norm((b - a) / checker.resolution))
        end = a + (b - a) * ((CONFIGURATIONS - 0.5) / length)
        if checker.edge_free(a, end):
            edges.append((np.ascontiguousarray(a), np.ascontiguousarray(end)))
    return edges


def edge_time(checker: CollisionChecker) -> float:
    """Return the time of a free edge through its address, as planners call it [us]."""
    kernel = checker.kernel()
    call = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3)(kernel.edge)
    edges = free_edges(checker)
    words = [(a.ctypes.data, b.ctypes.data, kernel.memory) for a, b in edges]

    def run() -> None:
        for word in words:
            call(*word)

    return least(run) / len(words) * 1e6


def throughput(report: Report) -> None:
    """Measure free configurations in worlds of 0 and 50 obstacles beside the peers."""
    robot = load_robot("franka")
    checker = CollisionChecker(robot, "arm")
    rows: list[list[Cell]] = []
    for label, scene in (
        ("self", Scene()),
        ("self and 50 spheres", scattered(50, "spheres", 0.03)),
        ("self and 50 turned boxes", scattered(50, "boxes", 0.03)),
    ):
        checker.set_scene(scene)
        Q = free_configurations(checker, 3200)
        peers: dict[str, Check | None] = {"coal": with_coal(robot, scene), "vamp": with_vamp(scene)}
        mixed = np.random.default_rng(3).uniform(
            checker.limits.lower, checker.limits.upper, (200, 7)
        )
        if peers["coal"] and (wrong := disagreements(checker, peers["coal"], mixed)):
            raise SystemExit(f"{label}: coal says otherwise {wrong} times")
        ours = least(lambda Q=Q: checker.are_free(Q)) / len(Q) * 1e9  # type: ignore[misc]
        single = least(lambda Q=Q: [checker.is_free(q) for q in Q[:200]]) / 200 * 1e9  # type: ignore[misc]
        others = {
            name: least(lambda check=check, Q=Q: [check(q) for q in Q[:50]], 3) / 50 * 1e9  # type: ignore[misc]
            if check
            else None
            for name, check in peers.items()
        }
        coal_time = others["coal"] or float("nan")
        rows.append([label, ours, single, edge_time(checker), coal_time, others["vamp"],
                     ratio(ours, coal_time)])  # fmt: skip
    heads = [
        "free configurations", "batch [ns each]", "single call [ns]",
        f"edge of {CONFIGURATIONS} [us]", "pinocchio and coal, all pairs [ns]",
        "vamp, single call [ns]", "batch / coal",
    ]  # fmt: skip
    report.table("Throughput, one core (an edge: one call through its address)", heads, rows)


def growth(report: Report) -> None:
    """Measure worlds of 10 to 10 000 obstacles, smaller ones the more there are."""
    checker = CollisionChecker(load_robot("franka"), "arm")
    rows: list[list[Cell]] = []
    for count in (10, 100, 1000, 10_000):
        for kind in ("spheres", "boxes"):
            world = World(scattered(count, kind, 0.05 * count ** (-1.0 / 3.0)))
            begin = time.perf_counter()
            checker.set_scene(world.scene)
            checker.kernel()
            first = time.perf_counter() - begin
            again = least(lambda world=world: _moved(checker, world), 3)  # type: ignore[misc]
            Q = free_configurations(checker, 320)
            batch = least(lambda Q=Q: checker.are_free(Q), 10) / len(Q) * 1e9  # type: ignore[misc]
            rows.append([f"{count} {kind}", edge_time(checker), batch, first * 1e3, again * 1e3])
    heads = [
        "world", f"free edge of {CONFIGURATIONS} [us]", "free batch [ns each]", "packed first [ms]",
        "packed after one moved [ms]",
    ]  # fmt: skip
    report.table("Growing worlds", heads, rows)


def _moved(checker: CollisionChecker, world: World) -> None:
    name = next(iter(world.scene.objects))
    world.move({name: world.scene.objects[name].X_WO})
    checker.set_scene(world.scene)
    checker.kernel()


def start(report: Report) -> None:
    """Measure fresh processes with an empty cache of compiled code, and with a full one."""
    rows: list[list[Cell]] = []
    with tempfile.TemporaryDirectory() as folder:
        for label in ("cold: everything compiled", "warm: loaded from the cache"):
            environment = {**os.environ, "MOTION_NODES_CACHE_DIR": folder}
            words = [sys.executable, "-c", _START]
            done = subprocess.run(
                words, env=environment, capture_output=True, text=True, check=True
            )
            robot, checker = (float(word) for word in done.stdout.split())
            rows.append([label, robot * 1e3, checker * 1e3])
    heads = ["fresh process", "robot read [ms]", "checker ready, first check done [ms]"]
    report.table("Start", heads, rows)


def overstatement(report: Report) -> None:
    """Measure how often spheres refuse what the URDF's own shapes would not touch."""
    rows: list[list[Cell]] = []
    for name in ("franka", "ur10e"):
        robot = load_robot(name)
        group = next(iter(robot.groups))
        checker = CollisionChecker(robot, group)
        scene = scattered(30, "boxes", 0.05)
        checker.set_scene(scene)
        exact = with_coal(robot, scene, spheres=False)
        rng = np.random.default_rng(4)
        Q = rng.uniform(
            checker.limits.lower, checker.limits.upper, (1500, len(checker.joint_names))
        )
        ours, true = checker.are_free(Q), np.array([exact(q) for q in Q])
        refused = int((~ours & true).sum())
        missed = int((ours & ~true).sum())
        rows.append([name, len(Q), int(true.sum()), refused, missed])
    heads = [
        "robot",
        "configurations",
        "free for the shapes",
        "of these refused",
        "touching, called free",
    ]
    report.table("Spheres beside the shapes of the URDF (30 boxes; coal decides)", heads, rows)


def main() -> None:
    """Compare, measure, print."""
    parser = arguments(__doc__)
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    report = Report("Collision checks of the Franka (its arm, its spheres)")
    for part in (throughput, growth, start, overstatement):
        part(report)
    report.write(options.json)


if __name__ == "__main__":
    main()
