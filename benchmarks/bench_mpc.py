# SPDX-License-Identifier: Apache-2.0
"""Reactive MPC compared with RMPflow: arrivals, traps, moving obstacles, time per step.

Run: ``python benchmarks/bench_mpc.py --starts 50 --scenes 50`` (fifteen minutes; one core).
Arrivals and moving scenes are those of ``bench_rmpflow_runs.py``, with the same seeds and MuJoCo's
contacts; without escape. A trap is a wall, box or U between hand and target position, with small
random displacements. Time per step: CPU time of the thread for steps of 10 ms
among 50 resting and 50 moving boxes, with a new target each second.
"""

from __future__ import annotations

import time

import numpy as np
from harness import Options, Report, Row, Spread, benchmark, progress
from bench_rmpflow_runs import KINDS, Run, Runs, arrival_row, scene_row
from rmpflow.judged_arm import FRAME
from u_trap import BEYOND_U, U_WALLS

from motion_nodes.core.reactive.mpc_policy import MpcPolicy
from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.scene import Scene, world_object

POLICIES = {"RMPflow": RmpflowPolicy, "MPC": MpcPolicy}
TRAPS = {
    "U": (U_WALLS, BEYOND_U),
    "wall in front": ({"wall": ((0.02, 0.6, 0.3), (0.5, 0.0, 0.3))}, (0.65, 0.0, 0.3)),
    "box in front": ({"box": ((0.12, 0.5, 0.3), (0.42, 0.0, 0.3))}, (0.62, 0.0, 0.25)),
}  # fmt: skip
"""Boxes (sizes and positions) and target position of each trap [m]."""


def trapped(runs: Runs, name: str, seed: int) -> Run:
    """Return the result of one run; walls and target are displaced by up to 2 cm."""
    rng, (walls, target) = np.random.default_rng(seed), TRAPS[name]
    shift = rng.uniform(-0.02, 0.02, 3)
    boxes = {k: world_object(k, Box(size), from_xyz_rpy(np.add(at, shift)))
             for k, (size, at) in walls.items()}  # fmt: skip
    X = from_xyz_rpy(np.add(target, rng.uniform(-0.02, 0.02, 3)))
    start = runs.policy.default_cspace_target
    return runs.run(start, X, Scene(objects=boxes), oriented=False)


def step_times(runs: Runs, *, moving: bool) -> Spread:
    """Return the CPU times of steps among 50 boxes [ms]."""
    rng, policy, times = np.random.default_rng(0), runs.policy, []
    policy.reset()
    places = rng.uniform((-0.8, -0.8, 0.0), (0.8, 0.8, 1.0), (150, 3))
    places = places[np.hypot(places[:, 0], places[:, 1]) > 0.35][:50]
    sizes = rng.uniform(0.03, 0.1, (len(places), 3))
    swing = rng.uniform(-0.1, 0.1, (len(places), 3)) if moving else 0.0
    home, rest = policy.default_cspace_target, np.zeros(7)
    for k in range(1000):
        if k % 100 == 0:
            goal = runs.near_home(rng, 0.6)
            policy.set_end_effector_target(policy.tool_pose(goal)[:3, 3])
        if k == 0 or (moving and k % 10 == 0):
            at = zip(places + np.sin(k * FRAME) * swing, sizes, strict=True)
            policy.set_scene(Scene({f"b{i}": world_object(f"b{i}", Box(size), from_xyz_rpy(p))
                                    for i, (p, size) in enumerate(at)}))  # fmt: skip
        began = time.thread_time()
        policy.compute_joint_targets(home, rest, frame_duration=FRAME)
        times.append(1e3 * (time.thread_time() - began))
    return Spread.of(times[5:])


@benchmark("Reactive MPC beside RMPflow", starts=50, scenes=50, traps=20)
def main(report: Report, options: Options) -> None:
    """Measure and print."""
    arrivals, traps, scenes, steps = list[Row](), list[Row](), list[Row](), list[Row]()
    for name, kind in POLICIES.items():
        runs = Runs("franka", kind)
        for start in KINDS[:3] if options.starts else ():
            progress(what := f"{name}, {start}")
            found = [runs.arrival(seed, start, "alone") for seed in range(options.starts)]
            arrivals.append(arrival_row(what, found))
        for trap in TRAPS if options.traps else ():
            progress(what := f"{name}, {trap}")
            ends = [trapped(runs, trap, seed) for seed in range(options.traps)]
            traps.append(arrival_row(what, ends))
        if options.scenes:
            progress(f"{name}, scenes")
            scenes.append(scene_row(name, [runs.scene(k) for k in range(options.scenes)]))
        for moving in (False, True):
            spread = step_times(runs, moving=moving)
            steps.append({
                "": f"{name}, {'moving' if moving else 'at rest'}", "steps": spread.number,
                "median": spread.p50, "99 %": spread.p99, "max": spread.maximum,
            })  # fmt: skip
    report.table("Franka, from random starts to random poses", arrivals)
    report.table("Franka, traps", traps)
    report.table("Franka, two flying balls, two boxes, a table; 8 s each", scenes)
    report.table("Processor time of a step of 10 ms among 50 boxes [ms]", steps)
