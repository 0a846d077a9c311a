# SPDX-License-Identifier: Apache-2.0
"""Learning curves on a shipped task: our PPO and SAC, and Stable-Baselines3's if installed.

Run: ``python benchmarks/bench_training.py [--task reach] [--learners ppo sac sb3-sac]
[--seeds 0 1 2]``. All use the same environments, in one thread, and the same sizes of networks,
rollouts and minibatches; at ten times of each run the policy plays the same 100 episodes without
exploration, whose initial states no training run has. SB3 needs Torch: install it in a separate
environment, and add its site-packages to PYTHONPATH.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from harness import Options, Report, Row, benchmark, progress

from motion_nodes.core.trajectory.figures import Panel, figure_of
from motion_nodes.extras.learning.mujoco_env import MujocoEnv
from motion_nodes.extras.learning.tasks.registry import EnvFactory, make_task, task_config
from motion_nodes.extras.learning.trainer import Evaluation, evaluate, new_trainer
from motion_nodes.extras.learning.training_run import single_threaded_blas

PARTS, EPISODES, ENOUGH = 10, 100, 0.8
"""Evaluations of a run, their episodes, and the success that is timed."""
Policy = Callable[[np.ndarray], np.ndarray]
Run = tuple[Iterator[int], Policy]
"""An endless training run, which yields its steps after each update, and its current policy."""


def ours(task: str, seed: int, algorithm: str) -> Run:
    """Return a run of our learner."""
    config = task_config(task, seed=seed, algorithm=algorithm)
    trainer = new_trainer(EnvFactory(task), config)

    def updates() -> Iterator[int]:
        with ThreadPoolExecutor(1) as executor:
            while True:
                yield trainer.iterate(executor).steps

    return updates(), lambda observations: trainer.policy(observations)


def stable_baselines3(task: str, seed: int, algorithm: str) -> Run:
    """Return a run of Stable-Baselines3's learner."""
    from peers.sb3 import Sb3Run

    run = Sb3Run(task, seed, algorithm)
    return run.updates(), run.play


def random_actions(task: str) -> Policy:
    """Return a policy of random actions, uniform within the limits of SAC's."""
    limit = task_config(task, seed=0, algorithm="sac").sac.action_limit
    rng, size = np.random.default_rng(0), make_task(task).action_size
    return lambda observations: rng.uniform(-limit, limit, (len(observations), size))


def played(task: str, policy: Policy) -> Evaluation:
    """Return the result of the episodes of the test."""
    return evaluate(policy, MujocoEnv(make_task(task), EPISODES, seed=1_000_003))


def curve(task: str, run: Run, steps: int) -> np.ndarray:
    """Train; return steps, CPU time [s], success and return of the evaluations, shape (k, 4)."""
    updates, policy = run
    seen, spent, begin = list[tuple[float, ...]](), 0.0, time.process_time()
    for done in updates:
        if done < steps * (len(seen) + 1) / PARTS:
            continue
        spent += time.process_time() - begin
        result = played(task, policy)
        seen.append((done, spent, result.success, result.mean_return))
        progress(f"{done} steps, {spent:.0f} s, {100.0 * result.success:.0f} %")
        begin = time.process_time()
        if done >= steps:
            break
    return np.array(seen)


@benchmark("Learning {task}", task=("reach", "", ("reach", "grasp", "drawer", "walk")), seeds=[0],
           learners=(["ppo", "sac", "sb3-ppo", "sb3-sac"], "ppo, sac, sb3-ppo or sb3-sac"),
           ppo_steps=250_000, sac_steps=80_000, picture=("", "SVG file of the curves"))  # fmt: skip
def main(report: Report, options: Options) -> None:
    """Train with all contenders, and print and draw their curves."""
    task, rows, curves = options.task, list[Row](), []
    floor = played(task, random_actions(task))
    rows.append({"learner": "random actions", "success [%]": 100.0 * floor.success,
                 "return": floor.mean_return})  # fmt: skip
    with single_threaded_blas():
        for learner in options.learners:
            algorithm = learner.rpartition("-")[2]
            steps = options.sac_steps if algorithm == "sac" else options.ppo_steps
            for seed in options.seeds:
                progress(name := f"{learner}, seed {seed}")
                make = stable_baselines3 if learner.startswith("sb3") else ours
                try:
                    run = make(task, seed, algorithm)
                except ImportError as error:
                    progress(f"without {learner}: {error}")
                    continue
                found = curve(task, run, steps)
                enough = found[found[:, 2] >= ENOUGH]
                first = enough[0] if len(enough) else (None, None)
                rows.append({
                    "learner": learner, "seed": seed, "steps": found[-1, 0],
                    "CPU [s]": found[-1, 1], "success [%]": 100.0 * found[-1, 2],
                    "return": found[-1, 3], "steps to 80 %": first[0], "CPU [s] to 80 %": first[1],
                })  # fmt: skip
                curves.append((found[:, 0], 100.0 * found[:, 2], name))
    report.table(f"{EPISODES} episodes without exploration", rows)
    if options.picture:
        panel = Panel("success [%]", tuple(curves), "steps of all environments")
        title = f"{task}: success in {EPISODES} episodes without exploration"
        figure_of([panel], title, svg=True).savefig(options.picture)
