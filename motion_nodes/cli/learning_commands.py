# SPDX-License-Identifier: Apache-2.0
"""Commands of learned policies: ``motion learn`` and ``motion policy``."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from motion_nodes.cli.cluster import ClusterOption, cluster
from motion_nodes.cli.options import Commands, JsonOption
from motion_nodes.cli.output import print_json, print_line, write_output
from motion_nodes.errors import InvalidCommand, InvalidConfig

if TYPE_CHECKING:
    from motion_nodes.extras.learning.networks import Policy
    from motion_nodes.extras.learning.trainer import Evaluation, TrainingConfig, TrainingProgress
    from motion_nodes.extras.policies.runner import PolicyRunner

_EVALUATION_SEED, _SELECTION_SEED = 1_000_003, 2_000_003
"""Seeds of evaluations, final and intermediate: large, so that initial states differ from those of
training runs with small seeds."""
_SELECTION_EPISODES = 40
"""Episodes of an evaluation that selects the best policy of a run."""
TOLERANCE = 1e-6
"""Difference of actions above which a replay diverges."""


def learn(
    task: Annotated[
        str,
        typer.Argument(help="reach, grasp, drawer or walk.", metavar="TASK", show_default=False),
    ],
    robot: Annotated[
        str | None,
        typer.Option(help="Robot of reach: name, folder or file; default: that of the task."),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Duration of training [min]; default: that of the task.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Steps of all environments, in place of a duration.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    envs: Annotated[
        int | None, typer.Option(help="Number of environments; default: that of the task.")
    ] = None,
    algorithm: Annotated[
        str, typer.Option(help="ppo, or sac: fewer steps, more computation for each.")
    ] = "ppo",
    workers: Annotated[int, typer.Option(help="Number of simulation threads.")] = 2,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="Directory of the run; default: learned/TASK."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run there.")] = False,
    evaluate: Annotated[
        str | None,
        typer.Option(help="Do not train: evaluate this checkpoint (.npz) or policy (.onnx)."),
    ] = None,
    episodes: Annotated[int, typer.Option(help="Episodes of the evaluation.")] = 100,
    address: ClusterOption = "",
    randomize: Annotated[
        bool,
        typer.Option(
            "--randomize",
            help="Random masses, friction, gains, delays and noise in training; evaluations run "
            "with and without.",
        ),
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(help="Show the learning curve on a browser page at this TCP port; 0: any."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Learn a task of an arm or a quadruped in MuJoCo by PPO or SAC, and export it as ONNX.

    The directory receives checkpoint.npz, the learning curve (curve.csv, curve.svg), and the best
    policy of the run (best.npz), which is exported with its description (policy.onnx,
    IO_descriptors.yaml). Ctrl-C or SIGTERM ends the training; --resume continues it.
    """
    from motion_nodes.extras.learning.tasks.registry import make_task, task_config, task_entry

    if robot not in (None, task_entry(task).robot):
        task = f"{task}/{robot}"
    config = task_config(task, seed=seed, num_envs=envs, algorithm=algorithm)
    if importlib.util.find_spec("threadpoolctl") is None:
        raise InvalidConfig("training is not installed: pip install 'motion_nodes[learn]'")
    for name, value in (("workers", workers), ("episodes", episodes)):
        if value < 1:
            raise InvalidConfig(f"--{name} is {value}; it must be at least 1.")
    make_task(task)
    if evaluate is not None:
        policy: Callable[[Any], Any] = _load(Path(evaluate), task)
    else:
        directory = Path(output or f"learned/{task}")
        with cluster(address) as remote:
            pool = remote or ThreadPoolExecutor(workers)
            order = _Training(task, directory, minutes, steps, config, resume, randomize)
            policy = _train(order, pool, port, quiet=as_json)
    _evaluate(task, policy, episodes, as_json, randomize)


class _Training(NamedTuple):
    """What to train; the fields are options of the command."""

    task: str
    directory: Path
    minutes: float | None
    steps: int | None
    config: TrainingConfig
    resume: bool
    randomize: bool


def _train(order: _Training, pool: Executor, port: int | None, *, quiet: bool) -> Policy:
    """Train with a progress bar, and export the best policy."""
    import math

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from motion_nodes.extras.learning.mujoco_env import MujocoEnv, Randomization
    from motion_nodes.extras.learning.tasks.registry import EnvFactory, make_task, task_entry
    from motion_nodes.extras.learning.trainer import evaluate
    from motion_nodes.extras.learning.training_run import (
        BestPolicy,
        Budget,
        export_policy,
        load_policy,
        open_run,
        run,
    )

    task, directory, minutes, steps = order[:4]
    if minutes is None:
        minutes = task_entry(task).minutes if steps is None else math.inf
    budget = Budget(60.0 * minutes, math.inf if steps is None else steps)
    columns = (TextColumn(task), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with contextlib.ExitStack() as stack:
        stack.enter_context(_ended_by_signals())
        show = stack.enter_context(_page(task, directory, port))
        factory = EnvFactory(task, Randomization() if order.randomize else None)
        trainer = open_run(directory, factory, task, order.config, resume=order.resume)
        executor = stack.enter_context(pool)
        bar = stack.enter_context(Progress(*columns, console=Console(stderr=True, quiet=quiet)))
        shown = bar.add_task("", total=1.0)

        def report(progress: TrainingProgress, spent: float) -> None:
            bar.update(shown, completed=spent, description=_line(progress))
            show(progress)

        def evaluated(policy: Policy) -> Evaluation:
            cell = MujocoEnv(
                make_task(task), _SELECTION_EPISODES, _SELECTION_SEED,
                randomization=factory.randomization,
            )  # fmt: skip
            return evaluate(policy, cell)

        best = BestPolicy(directory, evaluated)
        run(trainer, directory, budget, executor, report, best)
    policy = load_policy(best.file, task)
    export_policy(policy, make_task(task), directory / "policy.onnx")
    return policy


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM, and SIGHUP unless it is ignored, end a training as Ctrl-C does: saved."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {n: signal.getsignal(n) for n in numbers if signal.getsignal(n) != signal.SIG_IGN}
    try:
        for number in before:
            signal.signal(number, interrupt)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _page(
    task: str, directory: Path, port: int | None
) -> Iterator[Callable[[TrainingProgress], None]]:
    """Serve the curve of a run, including earlier updates; yield a function to extend it."""
    if port is None:
        yield lambda _: None
        return
    from motion_nodes.extras.learning.training_run import CURVE, read_csv
    from motion_nodes.extras.viewer.plot_panel import LearningPage

    rows = read_csv(directory / CURVE) if (directory / CURVE).exists() else []
    with LearningPage(f"learning {task}", port) as page:
        print(f"Open {page.url} in a browser.", file=sys.stderr, flush=True)

        def show(progress: TrainingProgress) -> None:
            rows.append(progress)
            page.show(
                [row.steps for row in rows],
                [row.mean_return for row in rows],
                [row.success for row in rows],
                _line(progress),
            )

        yield show


def _line(progress: TrainingProgress) -> str:
    """Return the figures next to the progress bar."""
    rate = progress.steps / max(progress.seconds, 1e-9)
    episodes = ""
    if progress.success == progress.success:  # else no episode ended during the rollout
        success = 100.0 * progress.success
        episodes = f", return {progress.mean_return:.2f}, success {success:.0f} %"
    return f"{progress.steps} steps, {rate:.0f}/s{episodes}"


def _load(file: Path, task: str) -> Callable[[Any], Any]:
    """Return the policy in a checkpoint or an ONNX file."""
    from motion_nodes.extras.learning.tasks.registry import make_task
    from motion_nodes.extras.learning.training_run import load_exported, load_policy

    if file.suffix == ".onnx":
        return load_exported(file, make_task(task))
    return load_policy(file, task)


def _evaluate(
    task: str, policy: Callable[[Any], Any], episodes: int, as_json: bool, randomize: bool
) -> None:
    """Print the result of deterministic episodes, also in random physics if that is asked for."""
    from dataclasses import asdict

    from motion_nodes.extras.learning.mujoco_env import MujocoEnv, Randomization
    from motion_nodes.extras.learning.tasks.registry import make_task
    from motion_nodes.extras.learning.trainer import evaluate
    from motion_nodes.extras.learning.training_run import single_threaded_blas

    def result(randomization: Randomization | None) -> Evaluation:
        env = MujocoEnv(make_task(task), episodes, _EVALUATION_SEED, randomization=randomization)
        return evaluate(policy, env)

    with single_threaded_blas():
        results = {"": result(None)}
        if randomize:
            results["randomized"] = result(Randomization())
    if as_json:
        more = {name: asdict(found) for name, found in results.items() if name}
        print_json({"task": task, **asdict(results[""]), **more})
        return
    for name, found in results.items():
        print_line(
            f"{task}{' in random physics' if name else ''}: {found.episodes} episodes without "
            f"exploration: success {100.0 * found.success:.0f} %, mean return "
            f"{found.mean_return:.3f}."
        )


policy = Commands(help="Learned policies.", no_args_is_help=True)


@policy.command()
def check(
    file: Annotated[str, typer.Argument(help="Network, folder or published policy.")],
    robot: Annotated[str, typer.Argument(help="Robot: name, folder or file.")],
    description: Annotated[
        str | None, typer.Option(help="IO_descriptors.yaml or env.yaml; default: next to the file.")
    ] = None,
    joint_order: Annotated[
        str,
        typer.Option(help="Joints in the order of training, separated by commas, for env.yaml."),
    ] = "",
    replay: Annotated[
        Path | None,
        typer.Option(help="Recording (.npz) with observations (k, n) and actions (k, m)."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="SVG file of the divergence of the replay.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Check the compatibility of a policy with a robot. Exit code 1: errors found.

    Checks joint order, missing joints, inputs and their frames, inputs without effect, scales in
    degrees, gains and rates. With a recording, the actions of the network are compared with the
    recorded ones.
    """
    from motion_nodes.core.robot.loader import load_description
    from motion_nodes.extras.policies.policy_check import check_policy
    from motion_nodes.extras.policies.policy_files import load_policy

    described = load_description(robot)
    order = [name.strip() for name in joint_order.split(",") if name.strip()]
    runner = load_policy(file, described, description=description, joint_order=order)
    findings = check_policy(runner, described)
    result = _replayed(runner, replay, plot) if replay is not None else {}
    if json:
        print_json({"findings": [dataclasses.asdict(f) for f in findings], **result})
    else:
        for finding in findings:
            print(f"{finding.level:8} {finding.topic}: {finding.text}")
        for name, value in result.items():
            print(f"{'replay':8} {name}: {value}")
    failed = any(f.level == "error" for f in findings) or result.get("diverges", False)
    raise typer.Exit(1 if failed else 0)


def _replayed(runner: PolicyRunner, recording: Path, plot: Path | None) -> dict[str, object]:
    """Return figures of a replay, and write its plot."""
    import zipfile

    import numpy as np

    from motion_nodes.extras.policies.policy_check import divergence_svg, replay_divergence

    try:
        with np.load(recording, allow_pickle=False) as data:
            observations, actions = data["observations"], data["actions"]
    # An .npy file is an array, which is no context manager (TypeError).
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise InvalidCommand(
            f"{recording}: is not a recording (.npz with observations and actions): {error}"
        ) from None
    differences = np.abs(replay_divergence(runner, observations, actions))
    largest = differences.max(axis=1)
    beyond = np.flatnonzero(~(largest <= TOLERANCE))  # NaN diverges, too
    if plot is not None:
        write_output(plot, divergence_svg(differences, runner.period))
    return {
        "steps": len(largest),
        "max difference of actions": float(largest.max()),
        "action with the largest": int(differences.max(axis=0).argmax()),
        "first step that differs": int(beyond[0]) if beyond.size else None,
        "diverges": bool(beyond.size),
    }


def dataset(
    files: Annotated[
        list[str], typer.Argument(help="Recordings (.mcap), each an episode.", metavar="FILE...")
    ],
    output: Annotated[str, typer.Option("--output", "-o", help="New folder.")] = "dataset",
    task: Annotated[
        list[str] | None,
        typer.Option(help="What is done, such as: pick the cube. Once, or once for each file."),
    ] = None,
    fps: Annotated[int, typer.Option(help="Frames per second.")] = 30,
    topic: Annotated[
        list[str] | None,
        typer.Option(help="Topic to use, * matches anything; may be repeated. Default: all."),
    ] = None,
    action: Annotated[
        str, typer.Option(help="Topic of commands; default: joint_command beside joint_states.")
    ] = "",
) -> None:
    """Write recordings of `motion record --images` as a data set of LeRobot (v3.0)."""
    from motion_nodes.extras.formats.lerobot_dataset import write_dataset
    from motion_nodes.ros.recorded_episodes import DatasetTopics, recorded_episode

    tasks = task or []
    if len(tasks) not in (1, len(files)) or not all(each.strip() for each in tasks):
        raise InvalidCommand(
            f"--task is given {len(tasks)} times; say what is done, once or for each of the "
            f"{len(files)} files."
        )
    topics = DatasetTopics(fps, topic or ["*"], action)
    tasks = tasks if len(tasks) == len(files) else tasks * len(files)
    pairs = zip(files, tasks, strict=True)
    episodes = (recorded_episode(Path(file), each, topics) for file, each in pairs)
    frames = write_dataset(Path(output), episodes, fps)
    print_line(f"{len(files)} episodes with {frames} frames in {output}.")
