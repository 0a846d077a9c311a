# SPDX-License-Identifier: Apache-2.0
"""Arguments and options that several commands have, and the words that shells complete."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from motion_nodes.errors import MotionError


def _matching(words: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


def robot_words(incomplete: str) -> list[str]:
    """Return the robots that a word may become."""
    from motion_nodes.model.loader import available_robots

    try:
        return _matching(available_robots(), incomplete)
    except MotionError:
        return []


def group_words(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the groups of the robot on the command line."""
    from motion_nodes.model.loader import load_robot

    try:
        groups = load_robot(str(ctx.params.get("robot"))).groups.values()
    except MotionError:
        return []
    return _matching([w for g in groups for w in (g.name, *g.aliases)], incomplete)


def frame_words(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the links of the robot on the command line."""
    from motion_nodes.model.loader import load_robot

    try:
        return _matching(load_robot(str(ctx.params.get("robot"))).tree.frame_names, incomplete)
    except MotionError:
        return []


def state_words(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the named states of the robot on the command line."""
    from motion_nodes.model.loader import load_robot

    try:
        return _matching(load_robot(str(ctx.params.get("robot"))).state_names, incomplete)
    except MotionError:
        return []


RobotArgument = Annotated[
    str,
    typer.Argument(
        help="A robot's name, its folder, or its XRDF, SRDF, Lula or cuRobo file.",
        autocompletion=robot_words,
    ),
]
GroupOption = Annotated[
    str | None,
    typer.Option(
        help="Group of joints; default: the first with a tip.", autocompletion=group_words
    ),
]
DegreesOption = Annotated[
    bool, typer.Option("--degrees", help="Angles in degrees, given and printed.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
SeedOption = Annotated[int, typer.Option(help="Random seed: equal ones give equal answers.")]
PositionOption = Annotated[str | None, typer.Option(help="x,y,z [m] in the base frame.")]
RpyOption = Annotated[str | None, typer.Option(help="roll,pitch,yaw [rad] in the base frame.")]
QuatOption = Annotated[str | None, typer.Option(help="Quaternion x,y,z,w in the base frame.")]
WorldOption = Annotated[
    str | None, typer.Option(help="Scene file with what stands around the robot.")
]
OutputOption = Annotated[
    str | None,
    typer.Option("--output", "-o", help="File for the trajectory: .json or .csv."),
]
