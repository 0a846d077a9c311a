# SPDX-License-Identifier: Apache-2.0
"""Learning curves on a shipped task: our PPO, and that of Stable-Baselines3 if installed.

Run: ``python benchmarks/bench_training.py [--task reach] [--steps 200000]``. Both use the same
environments, in one thread, and the same sizes of networks, rollouts and minibatches; then both
play the same episodes without exploration. SB3 needs Torch: install it in a separate environment,
and add its site-packages to PYTHONPATH.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from harness import Options, Report, Row, benchmark, progress
from harness.timing import available

from motion_nodes.extras.learning.mujoco_env import MujocoEnv
from motion_nodes.extras.learning.tasks.registry import EnvFactory, make_task, task_config
from motion_nodes.extras.learning.trainer import Trainer, evaluate
from motion_nodes.extras.learning.training_run import single_threaded_blas

Updates = Iterator[tuple[int, float, float]]
"""After each update: number of steps, mean return and success rate of the ended episodes."""
Run = tuple[Updates, Callable[[np.ndarray], np.ndarray]]
"""An endless training run, and its current policy."""


def ours(task: str, seed: int) -> Run:
    """Return a run of our PPO."""
    trainer = Trainer(EnvFactory(task), task_config(task, seed=seed))

    def updates() -> Updates:
        with ThreadPoolExecutor(1) as executor:
            while True:
                done = trainer.iterate(executor)
                yield done.steps, done.mean_return, done.success

    return updates(), lambda observations: trainer.policy(observations)


def stable_baselines3(task: str, seed: int) -> Run:
    """Return a run of Stable-Baselines3's PPO."""
    from peers.sb3 import Sb3Run

    run = Sb3Run(task, seed)
    return run.updates(), run.play


def curve(updates: Updates, steps: int) -> list[tuple[float, ...]]:
    """Train; return steps, CPU time [s], mean return and success rate after each update."""
    begin, seen = time.process_time(), []
    for done, mean_return, success in updates:
        seen.append((done, time.process_time() - begin, mean_return, 100.0 * success))
        if done >= steps:
            return seen
    return seen


@benchmark("Learning {task}", task=("reach", "", ("reach", "grasp", "drawer")), steps=200_000,
           seed=0)  # fmt: skip
def main(report: Report, options: Options) -> None:
    """Train with all contenders and print their curves."""
    parts, final = max(1, min(10, options.steps // 8192)), list[Row]()
    table: list[Row] = [{"steps": round(options.steps * (k + 1) / parts)} for k in range(parts)]
    makers = {"ours": ours, "SB3": stable_baselines3}
    with single_threaded_blas():
        for name, (updates, play) in available(makers, options.task, options.seed).items():
            progress(name)
            seen = np.array(curve(updates, options.steps))
            for row, part in zip(table, np.array_split(seen, parts), strict=True):
                row[f"{name}: CPU [s]"] = part[-1, 1]
                row |= dict(zip((f"{name}: return", f"{name}: success [%]"),
                                np.nanmean(part[:, 2:], axis=0).tolist(), strict=True))  # fmt: skip
            result = evaluate(play, MujocoEnv(make_task(options.task), 100, seed=1_000_003))
            final.append({"learner": name, "updates": len(seen), "return": result.mean_return,
                          "success [%]": 100.0 * result.success})  # fmt: skip
    report.table("Curves, with exploration; means since the row above", table)
    report.table("100 episodes without exploration", final)
