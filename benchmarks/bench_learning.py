# SPDX-License-Identifier: Apache-2.0
"""Training of a task beside stable-baselines3: time, and what the policies are worth.

Run: ``python benchmarks/bench_learning.py [--sb3-python PYTHON]``. Both learn in the same
environments for the same number of steps, with networks of the same size and the same settings
where both have them (ours adapts its step size; stable-baselines3 ends an update early at 1.5
times the same divergence). Then 200 episodes without exploration, from the same initial states.
"""

from __future__ import annotations

import json
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness import Report, arguments, progress

from motion_nodes.learning.mujoco_env import MujocoEnv
from motion_nodes.learning.tasks.registry import EnvFactory, make_task, task_config
from motion_nodes.learning.trainer import Trainer, evaluate
from motion_nodes.learning.training_run import single_threaded_blas

PEER = Path(__file__).parent / "peers" / "learning_sb3.py"
EPISODES = 200


def ours(task: str, steps: int, seed: int) -> dict[str, float]:
    """Return figures of our trainer."""
    trainer = Trainer(EnvFactory(task), task_config(task, seed=seed))
    wall, cpu = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(2) as executor, single_threaded_blas():
        while trainer.steps < steps:
            trainer.iterate(executor)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        result = evaluate(trainer.policy, MujocoEnv(make_task(task), EPISODES, 1_000_003))
    return {
        "steps": trainer.steps,
        "wall": wall,
        "cpu": cpu,
        "return": result.mean_return,
        "success": result.success,
    }


def peer(python: str, task: str, steps: int, seed: int) -> dict[str, float]:
    """Return figures of stable-baselines3."""
    words = [python, str(PEER), task, str(steps), str(seed), str(EPISODES)]
    found = subprocess.run(words, check=True, capture_output=True, text=True)
    return dict(json.loads(found.stdout.splitlines()[-1]))


def main() -> None:
    """Train, and print a table."""
    parser = arguments(__doc__)
    parser.add_argument("--task", default="reach")
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds")
    parser.add_argument("--sb3-python", help="Python with stable-baselines3 and this package")
    options = parser.parse_args()
    report = Report(f"Training: {options.task}, {options.steps} steps")
    rows = []
    for seed in range(options.seeds):
        contenders = [("motion_nodes", lambda s=seed: ours(options.task, options.steps, s))]
        if options.sb3_python:
            contenders.append(
                (
                    "stable-baselines3",
                    lambda s=seed: peer(options.sb3_python, options.task, options.steps, s),
                )
            )
        for name, run in contenders:
            progress(f"{name}, seed {seed}")
            found = run()
            rows.append(
                (
                    f"{name}, seed {seed}",
                    found["wall"],
                    found["cpu"],
                    found["steps"] / found["cpu"],
                    found["return"],
                    100.0 * found["success"],
                )
            )
    report.table(
        f"{EPISODES} episodes without exploration",
        ["", "wall [s]", "CPU [s]", "steps per CPU s", "mean return", "success [%]"],
        rows,
        "" if options.sb3_python else "stable-baselines3 was not measured: no --sb3-python.",
    )
    report.write(options.json)


if __name__ == "__main__":
    main()
