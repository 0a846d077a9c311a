# SPDX-License-Identifier: Apache-2.0
"""Inverse kinematics compared with other solvers: success rate, time, time to infeasibility.

Run: ``python benchmarks/bench_ik.py`` (ten minutes, one without peers; ``--poses N``). Peers are
used if installed: ``pip install roboticstoolbox-python pytracik pin``.

Poses are computed from random joint positions within the limits, which solvers do not know, so all
poses are reachable. A solution counts if pinocchio's pose of the tip is within 1e-6 m and 1e-6 rad
(plus a tenth, as peers bound other norms), all joints are within limits, and it took at most 10 ms.
Solvers take turns in rounds of 50 poses, so a busy machine slows all alike; times are those of
single calls from Python, without first calls. For batches among boxes the min times are meaningful
on a busy machine; ``--poses 0`` measures only them.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import pinocchio as pin
from harness import Options, Report, Row, Spread, benchmark, median, progress
from harness.timing import available, mean
from ik.ik_samples import draw, pose_of
from peers.ik import BUDGET, CONTENDERS, TOLERANCE, Solve

import motion_nodes as mn
from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import inverse

PEER = "roboticstoolbox ik_LM (C++)"
ROUND = 50


def accepts(name: str, chain: IkChain, q: np.ndarray, X: np.ndarray) -> bool:
    """Return whether joint positions are a solution for a pose of the tip, by pinocchio."""
    error = inverse(X) @ pose_of(name, chain, q)
    turn = np.linalg.norm(pin.log3(error[:3, :3]))
    near = max(np.linalg.norm(error[:3, 3]), turn) <= 1.1 * TOLERANCE
    return bool(near and ((chain.lower <= q) & (q <= chain.upper)).all())


def rows(
    solvers: dict[str, Solve], targets: np.ndarray, seed: np.ndarray | None,
    judge: Callable[[np.ndarray, np.ndarray], bool] | None,
) -> list[Row]:  # fmt: skip
    """Return the rows of the table: success rates and times."""
    times, solved = ({name: list[float]() for name in solvers} for _ in range(2))
    for first in range(0, len(targets), ROUND):
        part = targets[first : first + ROUND]
        for name, solve in solvers.items():
            answers = []
            gc.collect()
            gc.disable()
            solve(part[-1], seed)  # warms the caches after other solvers
            for X in part:
                begin = time.perf_counter()
                answers.append((solve(X, seed), time.perf_counter() - begin))
            gc.enable()
            for X, (q, taken) in zip(part, answers, strict=True):
                times[name].append(taken)
                found = q is not None and (judge is None or judge(q, X))
                solved[name].append(found and taken <= BUDGET)
    spreads = {name: Spread.of(1e6 * np.array(found)) for name, found in times.items()}
    peer = spreads.get(PEER, Spread())
    return [
        {"solver": name, "solved %": f"{100.0 * mean(solved[name]):.1f}",
         "median us": found.p50, "p95 us": found.p95, "max us": found.maximum,
         "median / ik_LM": found.p50 / peer.p50}
        for name, found in spreads.items()
    ]  # fmt: skip


def single(report: Report, name: str, count: int) -> None:
    """Measure reachable and unreachable poses."""
    robot = load_robot(name)
    chain = IkChain.of_group(robot, "arm")
    judge, solvers = partial(accepts, name, chain), available(CONTENDERS, robot, chain)
    targets = np.array([pose_of(name, chain, q) for q in draw(chain, count, 0)])
    far = targets[: max(10, count // 20)].copy()
    far[:, :3, 3] += chain.length * far[:, :3, 3] / np.linalg.norm(far[:, :3, 3], axis=1)[:, None]
    cases = (
        (f"{count} reachable poses, no seed given", targets, None, judge, ""),
        ("the same poses, from the middle of the joints' ranges", targets, chain.centre.copy(),
         judge, "The solution of the seed's descent is preferred, so others that are found first "
         "wait."),
        (f"{len(far)} poses out of reach, time to infeasible", far, None, None,
         "Each with its own limit of restarts or time."),
    )  # fmt: skip
    for title, poses, seed, by, note in cases:
        progress(f"{name}: {title}")
        report.table(f"{name}: {title}", rows(solvers, poses, seed, by), note)


def among_boxes(report: Report, count: int = 100, boxes: int = 20) -> None:
    """Measure batches of poses of collision-free configurations."""
    arm, table = mn.load_robot("franka")["arm"], list[Row]()
    for seed in range(5):
        rng, world = np.random.default_rng(seed), mn.World()
        while len(world.scene.objects) < boxes:
            p = rng.uniform((-0.8, -0.8, 0.0), (0.8, 0.8, 1.0))
            if np.hypot(p[0], p[1]) >= 0.35:
                X, name = mn.pose(xyz=p, rpy=rng.uniform(-3.0, 3.0, 3)), rng.integers(1 << 40)
                world.add(f"box{seed}_{name}", mn.Box(*rng.uniform(0.05, 0.25, 3)), X)
        Q = rng.uniform(arm.limits.lower, arm.limits.upper, (40 * count, len(arm.limits.lower)))
        poses = arm.fk_batch(Q[arm.collision_free_batch(Q, world)][:count])
        times, solved = [], []
        for _ in range(40):
            began = time.perf_counter()
            found = arm.ik_batch(poses, world=world)
            times.append(1e3 * (time.perf_counter() - began))
            solved.append(100.0 * (found.solved & arm.collision_free_batch(found.q, world)).mean())
        table.append({"scene": f"{seed}", "poses": len(poses), "solved, least [%]": min(solved),
                      "least [ms]": min(times), "median [ms]": median(times)})  # fmt: skip
    title = f"franka: batches of {count} poses that can be reached among {boxes} boxes"
    report.table(title, table)


@benchmark("Inverse kinematics", poses=1000)
def main(report: Report, options: Options) -> None:
    """Print all tables."""
    among_boxes(report)
    for name in ("franka", "ur10e") if options.poses else ():
        single(report, name, options.poses)
