# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of training runs: NumPy archives without pickled objects.

A checkpoint holds the complete state: a resumed run gives the same numbers as an uninterrupted one.
"""

from __future__ import annotations

import dataclasses
import json
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from motion_nodes.errors import InvalidConfig
from motion_nodes.learning.actor_critic import ActorCritic
from motion_nodes.learning.mlp import Floats
from motion_nodes.learning.policy import Policy
from motion_nodes.learning.ppo import PpoConfig
from motion_nodes.learning.running_norm import RunningNorm
from motion_nodes.learning.trainer import MakeEnv, Trainer, TrainingConfig

_FORMAT = 1


class InvalidCheckpoint(InvalidConfig):
    """Not a checkpoint, or one of another task or format."""


def save_checkpoint(trainer: Trainer, file: Path) -> None:
    """Write the state of a training run; an existing file is replaced atomically.

    Args:
        trainer: the run.
        file: output, ending in ``.npz``.

    Raises:
        InvalidConfig: the file cannot be written.
    """
    net, learner = trainer.learner.net, trainer.learner
    about = {
        "format": _FORMAT,
        "task": trainer.task,
        "observation_size": net.observation_size,
        "action_size": net.action_size,
        "config": dataclasses.asdict(trainer.config),
        "iteration": trainer.iteration,
        "steps": trainer.steps,
        "seconds": trainer.seconds,
        "learning_rate": learner.learning_rate,
        "updates": learner.updates,
        "random": trainer.rng.bit_generator.state,
        "shard_random": [shard.rng.bit_generator.state for shard in trainer.shards],
    }
    arrays: dict[str, Any] = {
        "about": np.array(json.dumps(about)),
        "flat": learner.flat,
        "moments": learner.moments,
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
        net = ActorCritic(
            about["observation_size"], about["action_size"], config.hidden, config.activation
        )
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


def load_trainer(file: Path, make_env: MakeEnv, task: str) -> Trainer:
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
    trainer = Trainer(make_env, _config(about))
    net = trainer.learner.net
    if net != policy.net:
        raise InvalidCheckpoint(
            f"checkpoint {file}: {policy.net.observation_size} observations and "
            f"{policy.net.action_size} actions; task '{task}' has {net.observation_size} and "
            f"{net.action_size}."
        )
    with _usable(file):
        learner = trainer.learner
        learner.flat, learner.moments = policy.flat, arrays["moments"]
        learner.updates, learner.learning_rate = about["updates"], about["learning_rate"]
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
    return TrainingConfig(**{**data, "ppo": PpoConfig(**data["ppo"])})
