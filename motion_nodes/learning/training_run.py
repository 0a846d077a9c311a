# SPDX-License-Identifier: Apache-2.0
"""A training run in a directory: checkpoints, learning curve, exported policy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from threadpoolctl import threadpool_limits

from motion_nodes.errors import InvalidConfig
from motion_nodes.learning.checkpoint import load_policy, load_trainer, save_checkpoint
from motion_nodes.learning.learning_curve import append_csv, curve_svg, read_csv, rewind_csv
from motion_nodes.learning.policy import Policy
from motion_nodes.learning.trainer import (
    Evaluation,
    MakeEnv,
    Trainer,
    TrainingConfig,
    TrainingProgress,
)

CHECKPOINT, BEST, CURVE, PICTURE = "checkpoint.npz", "best.npz", "curve.csv", "curve.svg"
EVALUATION_INTERVAL = 40
"""Updates between two evaluations that select the best policy."""
_SAVE_EVERY = 30.0
"""Time between checkpoints [s]."""


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Run NumPy's matrix products in the calling thread.

    Products of minibatches are small: on a busy machine multithreading made an update twenty times
    slower. Results are also independent of the number of cores.
    """
    with threadpool_limits(limits=1, user_api="blas"):
        yield


@dataclass(frozen=True)
class Budget:
    """Budget of a training run, which ends at the first limit.

    Raises:
        InvalidConfig: neither is given, or one is not positive.
    """

    seconds: float = math.inf
    """Duration of training, including runs before a resume [s]."""
    steps: float = math.inf
    """Steps of all environments, likewise."""

    def __post_init__(self) -> None:
        """Validate the values."""
        if not (self.seconds > 0.0 and self.steps > 0.0):
            raise InvalidConfig(f"duration and steps of a training run must be positive: {self}.")
        if math.isinf(self.seconds) and math.isinf(self.steps):
            raise InvalidConfig("a training run needs a duration or a number of steps.")

    def spent(self, seconds: float, steps: int) -> float:
        """Return the used fraction of the budget; 1 or above: exhausted."""
        return max(seconds / self.seconds, steps / self.steps)


def open_run(
    directory: Path, make_env: MakeEnv, task: str, config: TrainingConfig, *, resume: bool
) -> Trainer:
    """Return a new training run, or the one whose checkpoint is in the directory.

    Args:
        directory: of the run's files; created.
        make_env: creates environments.
        task: name of the task.
        config: settings of a new run.
        resume: continue the run of the directory.

    Raises:
        InvalidConfig: the directory contains a run and ``resume`` is False, or vice versa.
        InvalidCheckpoint: its checkpoint is not usable.
    """
    file = directory / CHECKPOINT
    if resume:
        trainer = load_trainer(file, make_env, task)
        rewind_csv(directory / CURVE, trainer.iteration)
        return trainer
    if file.exists() or (directory / CURVE).exists():
        raise InvalidConfig(
            f"{directory} contains a training run; resume it, or choose another directory."
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidConfig(f"{directory} cannot be created: {error.strerror}.") from None
    return Trainer(make_env, config)


class BestPolicy:
    """Keeps the best policy of a run, by deterministic evaluations.

    The best one has the highest success rate, then the highest mean return. Evaluations at
    fixed numbers of updates keep runs reproducible.
    """

    def __init__(self, directory: Path, evaluate: Callable[[Policy], Evaluation]) -> None:
        """Create; a resumed run starts with its best policy.

        Args:
            directory: of the run's files; the best policy is its ``best.npz``.
            evaluate: runs episodes whose initial states are the same each time.
        """
        self.file, self._evaluate = directory / BEST, evaluate
        self._evaluated = -1
        self._best: tuple[float, float] | None = None

    def update(self, trainer: Trainer) -> None:
        """Evaluate the current policy, and keep its checkpoint if it is the best so far."""
        if trainer.iteration == self._evaluated:
            return
        self._evaluated = trainer.iteration
        if self._best is None and self.file.exists():
            self._best = self._score(load_policy(self.file, trainer.task))
        score = self._score(trainer.policy)
        if self._best is None or score >= self._best:
            self._best = score
            save_checkpoint(trainer, self.file)

    def _score(self, policy: Policy) -> tuple[float, float]:
        result = self._evaluate(policy)
        return result.success, result.mean_return


def run(
    trainer: Trainer,
    directory: Path,
    budget: Budget,
    executor: Executor,
    report: Callable[[TrainingProgress, float], None] = lambda progress, spent: None,
    best: BestPolicy | None = None,
) -> None:
    """Train until the budget is exhausted; an interrupted run writes a checkpoint.

    Args:
        trainer: the run.
        directory: of its files.
        budget: when it ends.
        executor: runs the environments.
        report: called after each update with its figures and the used fraction of the budget.
        best: keeps the best policy; its evaluations are not part of the duration. None: none is
            kept.

    Raises:
        TrainingDiverged: values are not finite; the last checkpoint is kept.
    """
    saved = trainer.seconds
    with single_threaded_blas():
        try:
            while budget.spent(trainer.seconds, trainer.steps) < 1.0:
                progress = trainer.iterate(executor)
                append_csv(directory / CURVE, progress)
                if trainer.seconds - saved > _SAVE_EVERY:
                    _save(trainer, directory)
                    saved = trainer.seconds
                if best is not None and trainer.iteration % EVALUATION_INTERVAL == 0:
                    best.update(trainer)
                report(progress, budget.spent(trainer.seconds, trainer.steps))
        except KeyboardInterrupt:
            _save(trainer, directory)
            raise
        if best is not None:
            best.update(trainer)
    _save(trainer, directory)


def _save(trainer: Trainer, directory: Path) -> None:
    """Write checkpoint and picture of the curve."""
    save_checkpoint(trainer, directory / CHECKPOINT)
    rows = read_csv(directory / CURVE) if (directory / CURVE).exists() else []
    title = f"{trainer.task}, seed {trainer.config.seed}: {trainer.seconds:.0f} s of training"
    (directory / PICTURE).write_text(curve_svg(rows, title), encoding="utf-8")
