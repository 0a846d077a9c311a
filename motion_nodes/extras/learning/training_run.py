# SPDX-License-Identifier: Apache-2.0
"""A training run in a directory: checkpoints, learning curve, and the exported policy.

Checkpoints are NumPy archives without pickled objects. They hold the complete state: a resumed run
gives the same numbers as an uninterrupted one. Policies are exported as ONNX, with a description as
Isaac Lab writes it.
"""

from __future__ import annotations

import contextlib
import csv
import ctypes
import dataclasses
import json
import math
import os
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from motion_nodes.core.robot.result_files import write_file
from motion_nodes.core.robot.yaml_schema import yaml_text
from motion_nodes.core.trajectory.trajectory_plot import COLOURS, Axes, page, text
from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.learning.learners import PpoConfig, SacConfig
from motion_nodes.extras.learning.networks import CLIP, Floats, Policy, RunningNorm
from motion_nodes.extras.learning.tasks.robot_cell import (
    ACTION_CLIP,
    OPEN,
    TIME_STEP,
    MujocoTask,
    RobotCell,
)
from motion_nodes.extras.learning.trainer import (
    Evaluation,
    MakeEnv,
    TrainingConfig,
    TrainingLoop,
    TrainingProgress,
    new_trainer,
)
from motion_nodes.extras.policies.network import PolicyNetwork, check_widths, load_network
from motion_nodes.extras.policies.onnx_writer import Perceptron, write_mlp

_WIDTH, _HEIGHT = 760.0, 260.0
_FORMAT = 1
CHECKPOINT, BEST, CURVE, PICTURE = "checkpoint.npz", "best.npz", "curve.csv", "curve.svg"
EVALUATION_INTERVAL = 40
"""Updates between two evaluations that select the best policy."""
_SAVE_EVERY = 30.0
"""Time between checkpoints [s]."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Options of ``mallopt`` of glibc."""
_KEPT = 256 * 1024 * 1024
"""Freed memory that the process keeps [B]."""
_FIELDS = [field.name for field in dataclasses.fields(TrainingProgress)]


def append_csv(file: Path, *rows: TrainingProgress) -> None:
    """Append rows; a new file gets a header.

    Raises:
        InvalidConfig: the file cannot be written.
    """
    new = not file.exists()
    try:
        with file.open("a", newline="", encoding="utf-8") as out:
            writer = csv.writer(out)
            if new:
                writer.writerow(_FIELDS)
            for row in rows:
                values = dataclasses.astuple(row)
                writer.writerow(v if isinstance(v, int) else f"{v:.7g}" for v in values)
    except OSError as error:
        raise InvalidConfig(f"{file} cannot be written: {error.strerror}.") from None


def read_csv(file: Path) -> list[TrainingProgress]:
    """Return the rows of a file of :func:`append_csv`, without an incomplete last one."""
    fields = dataclasses.fields(TrainingProgress)
    kinds: dict[str, Any] = {field.name: int if field.type == "int" else float for field in fields}
    with file.open(newline="", encoding="utf-8") as rows:
        return [
            TrainingProgress(**{name: kind(row[name]) for name, kind in kinds.items()})
            for row in csv.DictReader(rows)
            if None not in row.values()
        ]


def _rewind_csv(file: Path, iteration: int) -> None:
    """Remove the rows after an update, which a resumed run writes again; atomic."""
    if not file.exists():
        return
    part = file.with_name(f".{file.name}.part")
    part.unlink(missing_ok=True)
    append_csv(part, *(row for row in read_csv(file) if row.iteration <= iteration))
    part.replace(file)


def _curve_svg(rows: Sequence[TrainingProgress], title: str) -> str:
    """Return returns and success over environment steps as an SVG document."""
    steps = np.array([row.steps for row in rows], dtype=float)
    end = max(float(steps.max(initial=0.0)), 1.0)
    parts = [text(12.0, 20.0, title, size=15, weight="600")]
    for k, (name, heading) in enumerate(
        (("mean_return", "mean return of episodes"), ("success", "share of successful episodes"))
    ):
        values = np.array([getattr(row, name) for row in rows], dtype=float)
        known = np.isfinite(values)
        shown = values[known] if known.any() else np.zeros(1)
        low, high = (0.0, 1.0) if name == "success" else (float(shown.min()), float(shown.max()))
        axes = Axes(
            0.0, 30.0 + k * _HEIGHT, _WIDTH, _HEIGHT, heading,
            (0.0, end), (low, max(high, low + 1e-6)), "steps of all environments",
        )  # fmt: skip
        axes.curve(steps[known], values[known], COLOURS[k])
        parts.append(axes.svg())
    return page(_WIDTH, 40.0 + 2.0 * _HEIGHT, parts)


class InvalidCheckpoint(InvalidConfig):
    """Not a checkpoint, or one of another task or format."""


def save_checkpoint(trainer: TrainingLoop, file: Path, *, resumable: bool = True) -> None:
    """Write the state of a training run; an existing file is replaced atomically.

    Args:
        trainer: the run.
        file: output, ending in ``.npz``.
        resumable: include what only the continuation of the run needs.

    Raises:
        InvalidConfig: the file cannot be written.
    """
    net = trainer.learner.net
    numbers, learned = trainer.learner_state(resumable=resumable)
    about = {
        "format": _FORMAT,
        "task": trainer.task,
        "observation_size": net.observation_size,
        "action_size": net.action_size,
        "config": dataclasses.asdict(trainer.config),
        "iteration": trainer.iteration,
        "steps": trainer.steps,
        "seconds": trainer.seconds,
        **numbers,
        "random": trainer.rng.bit_generator.state,
        "shard_random": [shard.rng.bit_generator.state for shard in trainer.shards],
    }
    arrays: dict[str, Any] = {
        "about": np.array(json.dumps(about)),
        **learned,
        "norm_count": np.array(trainer.norm.count),
        "norm_mean": trainer.norm.mean,
        "norm_variance": trainer.norm.variance,
    }
    for k, shard in enumerate(trainer.shards):
        arrays[f"shard{k}.observations"] = shard.observations
        arrays[f"shard{k}.running_returns"] = shard.running_returns
        for key, value in shard.env.state().items():
            arrays[f"shard{k}.env.{key}"] = value
    temporary = file.with_name(f".{file.name}.part")
    try:
        with temporary.open("wb") as out:
            np.savez_compressed(out, **arrays)
        os.replace(temporary, file)
    except OSError as error:
        raise InvalidConfig(f"checkpoint {file} cannot be written: {error.strerror}.") from None


def load_policy(file: Path, task: str | None = None) -> Policy:
    """Return the policy of a checkpoint.

    Args:
        file: a checkpoint.
        task: name of the expected task; None: any.

    Raises:
        InvalidCheckpoint: not a checkpoint, pickled objects, or of another task.
    """
    about, arrays = _read(file, task)
    with _usable(file):
        config = _config(about)
        net = config.net(about["observation_size"], about["action_size"])
        size, count = net.observation_size, net.parameter_count
        shapes = {
            "flat": (count,),
            "moments": (2, count),
            "norm_mean": (size,),
            "norm_variance": (size,),
        }
        for name, shape in shapes.items():
            values = arrays[name]
            if values.shape != shape or not np.isfinite(values).all():
                raise InvalidCheckpoint(
                    f"checkpoint {file}: '{name}' has a wrong shape or values that are not finite."
                )
        norm = RunningNorm(size)
        norm.count = float(arrays["norm_count"])
        if arrays["norm_variance"].min() < 0.0 or not 0.0 <= norm.count < np.inf:
            raise InvalidCheckpoint(f"checkpoint {file}: variances or their count are invalid.")
        norm.mean, norm.variance = arrays["norm_mean"], arrays["norm_variance"]
    return Policy(net, arrays["flat"], norm)


def load_trainer(file: Path, make_env: MakeEnv, task: str) -> TrainingLoop:
    """Return the training run of a checkpoint, to resume it.

    Args:
        file: a checkpoint.
        make_env: creates the environments of the task.
        task: name of the task.

    Raises:
        InvalidCheckpoint: not a checkpoint, pickled objects, or of another task.
    """
    policy = load_policy(file, task)
    about, arrays = _read(file, task)
    trainer = new_trainer(make_env, _config(about))
    net = trainer.learner.net
    if net != policy.net:
        raise InvalidCheckpoint(
            f"checkpoint {file}: {policy.net.observation_size} observations and "
            f"{policy.net.action_size} actions; task '{task}' has {net.observation_size} and "
            f"{net.action_size}."
        )
    with _usable(file):
        trainer.restore_learner(about, arrays)
        trainer.norm = policy.norm
        trainer.iteration, trainer.steps = about["iteration"], about["steps"]
        trainer.seconds = about["seconds"]
        trainer.rng.bit_generator.state = about["random"]
        for k, shard in enumerate(trainer.shards):
            prefix = f"shard{k}.env."
            shard.env.restore(
                {
                    key.removeprefix(prefix): value
                    for key, value in arrays.items()
                    if key.startswith(prefix)
                }
            )
            shard.observations = arrays[f"shard{k}.observations"]
            shard.running_returns = arrays[f"shard{k}.running_returns"]
            shard.rng.bit_generator.state = about["shard_random"][k]
    return trainer


@contextmanager
def _usable(file: Path) -> Iterator[None]:
    """Convert the errors of a damaged checkpoint to InvalidCheckpoint."""
    try:
        yield
    except InvalidCheckpoint:
        raise
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise InvalidCheckpoint(
            f"checkpoint {file} is damaged ({type(error).__name__}: {error})."
        ) from None


def _read(file: Path, task: str | None) -> tuple[dict[str, Any], dict[str, Floats]]:
    """Return description and arrays of a checkpoint."""
    try:
        with np.load(file, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
        about = json.loads(str(arrays.pop("about")))
        found, kind = about["task"], about["format"]
    except FileNotFoundError:
        raise InvalidCheckpoint(f"checkpoint {file}: there is no such file.") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise InvalidCheckpoint(
            f"{file} is not a checkpoint of motion_nodes, a .npz archive without pickled "
            f"objects ({type(error).__name__}: {error})."
        ) from None
    if kind != _FORMAT:
        raise InvalidCheckpoint(f"checkpoint {file}: format {kind}; this version reads {_FORMAT}.")
    if task is not None and found != task:
        raise InvalidCheckpoint(f"checkpoint {file} is of task '{found}', not of '{task}'.")
    return about, arrays


def _config(about: dict[str, Any]) -> TrainingConfig:
    """Return the settings that a checkpoint stores."""
    data = dict(about["config"])
    data["hidden"] = tuple(data["hidden"])
    data["ppo"], data["sac"] = PpoConfig(**data["ppo"]), SacConfig(**data.get("sac", {}))
    return TrainingConfig(**data)


def _keep_freed_memory() -> None:
    """Let the allocator of glibc keep memory: an update of SAC took 40 % longer in new pages."""
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        for option in (_TRIM_THRESHOLD, _MMAP_THRESHOLD):
            mallopt(option, _KEPT)


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Run NumPy's matrix products in the calling thread.

    Products of minibatches are small: on a busy machine multithreading made an update twenty times
    slower. Results are also independent of the number of cores. The process also keeps freed memory
    from then on.
    """
    _keep_freed_memory()
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
        if not (self.seconds > 0.0 and self.steps > 0.0):
            raise InvalidConfig(f"duration and steps of a training run must be positive: {self}.")
        if math.isinf(self.seconds) and math.isinf(self.steps):
            raise InvalidConfig("a training run needs a duration or a number of steps.")

    def spent(self, seconds: float, steps: int) -> float:
        """Return the used fraction of the budget; 1 or above: exhausted."""
        return max(seconds / self.seconds, steps / self.steps)


def open_run(
    directory: Path, make_env: MakeEnv, task: str, config: TrainingConfig, *, resume: bool
) -> TrainingLoop:
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
        _rewind_csv(directory / CURVE, trainer.iteration)
        return trainer
    if file.exists() or (directory / CURVE).exists():
        raise InvalidConfig(
            f"{directory} contains a training run; resume it, or choose another directory."
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidConfig(f"{directory} cannot be created: {error.strerror}.") from None
    return new_trainer(make_env, config)


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

    def update(self, trainer: TrainingLoop) -> None:
        """Evaluate the current policy, and keep its checkpoint if it is the best so far."""
        if trainer.iteration == self._evaluated:
            return
        self._evaluated = trainer.iteration
        if self._best is None and self.file.exists():
            self._best = self._score(load_policy(self.file, trainer.task))
        score = self._score(trainer.policy)
        if self._best is None or score >= self._best:
            self._best = score
            save_checkpoint(trainer, self.file, resumable=False)

    def _score(self, policy: Policy) -> tuple[float, float]:
        result = self._evaluate(policy)
        return result.success, result.mean_return


def run(
    trainer: TrainingLoop,
    directory: Path,
    budget: Budget,
    executor: Executor,
    report: Callable[[TrainingProgress, float], None] = lambda progress, spent: None,
    best: BestPolicy | None = None,
) -> None:
    """Train until the budget is exhausted, or write a checkpoint and end if that is impossible.

    It is after Ctrl-C, and when the executor is lost.

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
        InvalidConfig: a file cannot be written; the last checkpoint is kept.
        BrokenExecutor: the executor was lost.
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
            if best is not None:
                best.update(trainer)
        except (KeyboardInterrupt, BrokenExecutor):
            _save(trainer, directory)
            raise
    _save(trainer, directory)


def _save(trainer: TrainingLoop, directory: Path) -> None:
    """Write checkpoint and picture of the curve."""
    save_checkpoint(trainer, directory / CHECKPOINT)
    rows = read_csv(directory / CURVE) if (directory / CURVE).exists() else []
    title = f"{trainer.task}, seed {trainer.config.seed}: {trainer.seconds:.0f} s of training"
    write_file(directory / PICTURE, _curve_svg(rows, title))


DESCRIPTOR = "IO_descriptors.yaml"
"""Name of the description next to the network."""
_TASK = "task"
"""Entry of the file's metadata."""
_ACTIONS = "isaaclab.envs.mdp.actions"


def export_policy(policy: Policy, task: RobotCell, file: Path) -> Path:
    """Write the deterministic policy as ONNX, and its description next to it.

    Args:
        policy: the policy.
        task: the task it was trained for.
        file: output, ending in ``.onnx``.

    Returns:
        The description.

    Raises:
        InvalidConfig: the files cannot be written, or the policy is of other sizes.
    """
    net = policy.net
    sizes = (task.observation_size, task.action_size)
    if (net.observation_size, net.action_size) != sizes:
        raise InvalidConfig(
            f"the policy has {net.observation_size} observations and {net.action_size} actions; "
            f"task '{task.name}' has {sizes[0]} and {sizes[1]}."
        )
    exported = net.exported(policy.flat)
    description = file.with_name(DESCRIPTOR)
    try:
        mlp = Perceptron(
            [(W.T, b) for W, b in exported.layers],
            activation=net.activation,
            output_activation=exported.output_activation,
            output_scale=exported.output_scale,
            mean=policy.norm.mean,
            std=policy.norm.scale,
            input_clip=CLIP,
        )
        write_mlp(file, mlp, metadata={_TASK: task.name})
        description.write_text(
            yaml_text(describe(task), f"Policy of the task '{task.name}'; see docs/learning.md."),
            encoding="utf-8",
        )
    except OSError as error:
        raise InvalidConfig(f"{file} cannot be written: {error.strerror}.") from None
    return description


def describe(task: RobotCell) -> dict[str, Any]:
    """Return the inputs and outputs of a task's policy, in the fields of IO_descriptors.yaml."""
    n = task.moved
    names, moved = list(task.joint_names), list(task.joint_names[:n])
    kind = "RelativeJointPositionAction" if task.relative else "JointPositionAction"
    actions: list[dict[str, Any]] = [
        {
            "full_path": f"{_ACTIONS}.joint_actions.{kind}",
            "joint_names": moved,
            "scale": task.scale.tolist(),
            "offset": [0.0] * n if task.relative else task.default[:n].tolist(),
            "clip": np.stack((task.lower, task.upper), axis=1)[:n].tolist(),
        }
    ]
    if task.action_size > n:
        fingers = names[n:]
        actions.append(
            {
                "full_path": f"{_ACTIONS}.binary_joint_actions.BinaryJointPositionAction",
                "joint_names": fingers,
                "open_command_expr": dict.fromkeys(fingers, OPEN),
                "close_command_expr": dict.fromkeys(fingers, 0.0),
            }
        )
    return {
        "actions": actions,
        "articulations": {
            "robot": {
                "joint_names": names,
                "default_joint_pos": task.default.tolist(),
                "default_joint_stiffness": task.stiffness.tolist(),
                "default_joint_damping": task.damping.tolist(),
            }
        },
        "observations": {"policy": [_term(task, term) for term in task.observation_terms]},
        "scene": {"physics_dt": TIME_STEP, "decimation": task.substeps},
        **task.about_policy,
    }


def _term(task: RobotCell, term: Any) -> dict[str, Any]:
    """Return a part of the observation in the fields of IO_descriptors.yaml."""
    entry: dict[str, Any] = {"name": term.name, "shape": [term.size]}
    if term.name.startswith("joint_"):
        entry["joint_names"] = list(task.joint_names[: term.size])
    if term.name == "joint_pos_rel":
        entry["joint_pos_offsets"] = task.default[: term.size].tolist()
    if term.name == "last_action":
        entry["overloads"] = {"clip": [-ACTION_CLIP, ACTION_CLIP]}
    return {**entry, "extras": {"meaning": term.meaning}}


@dataclass(frozen=True)
class ExportedPolicy:
    """A policy of an ONNX file, run by ONNX Runtime, for many observations at once."""

    network: PolicyNetwork

    def __call__(self, observations: Floats) -> Floats:
        """Return actions, shape (m, action_size), of observations (m, observation_size)."""
        return np.array([self.network(row) for row in observations])


def load_exported(file: Path, task: MujocoTask) -> ExportedPolicy:
    """Return the policy of a file of :func:`export_policy`.

    Args:
        file: an ONNX file.
        task: the task it is used for.

    Raises:
        InvalidConfig: it is of another task.
        InvalidDescription: no such file, no ONNX model, or of other sizes.
    """
    network = load_network(file)
    found = network.metadata.get(_TASK)
    if found is not None and found != task.name:
        raise InvalidConfig(f"{file} is a policy of task '{found}', not of '{task.name}'.")
    check_widths(network, task.observation_size, task.action_size, str(file))
    return ExportedPolicy(network)
