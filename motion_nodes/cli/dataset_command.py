# SPDX-License-Identifier: Apache-2.0
"""``motion dataset``: data sets for learning from recordings."""

from __future__ import annotations

from typing import Annotated

import typer


def dataset(
    files: Annotated[
        list[str],
        typer.Argument(help="Recordings (.mcap), each an episode.", metavar="FILE..."),
    ],
    output: Annotated[str, typer.Option("--output", "-o", help="New folder.")] = "dataset",
    task: Annotated[
        list[str] | None,
        typer.Option(help="What is done, such as: pick the cube. Once, or once for each file."),
    ] = None,
    robot: Annotated[str, typer.Option(help="Name of the robot.")] = "",
    fps: Annotated[int, typer.Option(help="Frames per second.")] = 30,
    state: Annotated[
        str, typer.Option(help="Topic of observed joint positions; default: joint_states.")
    ] = "",
    action: Annotated[
        str, typer.Option(help="Topic of commands; default: joint_command beside the states.")
    ] = "",
    image: Annotated[
        list[str] | None,
        typer.Option(
            help="Topic of color images, * matches anything; may be repeated. Default: all."
        ),
    ] = None,
) -> None:
    """Write recordings as a data set of LeRobot (v3.0), from `motion record --images`."""
    from pathlib import Path

    from motion_nodes.cli.output import print_line
    from motion_nodes.errors import InvalidCommand
    from motion_nodes.extras.formats.lerobot_dataset import write_dataset
    from motion_nodes.ros.recorded_episodes import DatasetTopics, recorded_episode

    tasks = task or []
    if len(tasks) not in (1, len(files)):
        raise InvalidCommand(
            f"--task is given {len(tasks)} times; give it once, or once for each of the "
            f"{len(files)} files."
        )
    if any(not each.strip() for each in tasks):
        raise InvalidCommand("--task is empty; say what is done.")
    topics = DatasetTopics(fps, state, action, image or ["*"])
    tasks = tasks if len(tasks) == len(files) else tasks * len(files)
    episodes = (
        recorded_episode(Path(file), each, topics) for file, each in zip(files, tasks, strict=True)
    )
    frames = write_dataset(Path(output), episodes, fps, robot)
    print_line(f"{len(files)} episodes with {frames} frames in {output}.")
