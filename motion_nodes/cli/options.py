# SPDX-License-Identifier: Apache-2.0
"""Arguments and options that several commands have, and the words that shells complete."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from motion_nodes.errors import MotionError

if TYPE_CHECKING:
    from motion_nodes.model.robot import Robot


def _matching(words: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


def robot_words(incomplete: str) -> list[str]:
    """Return the robots that a word may become."""
    from motion_nodes.model.loader import available_robots

    try:
        return _matching(available_robots(), incomplete)
    except MotionError:
        return []


def _robot(ctx: typer.Context) -> Robot | None:
    """Return the robot on a command line that is not complete yet."""
    from motion_nodes.robot_setup.derived_robot import load_description

    # While an option waits for its value, click leaves what came before it among the arguments.
    words = [ctx.params.get("robot"), ctx.params.get("source"), *ctx.args]
    name = next((word for word in words if word), "")
    try:
        return load_description(name)
    except MotionError:
        return None


def group_words(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the groups of the robot on the command line."""
    robot = _robot(ctx)
    groups = robot.groups.values() if robot else ()
    return _matching([word for g in groups for word in (g.name, *g.aliases)], incomplete)


def frame_words(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the links of the robot on the command line."""
    robot = _robot(ctx)
    return _matching(robot.tree.frame_names if robot else (), incomplete)


def state_words(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the named states of the robot on the command line."""
    robot = _robot(ctx)
    return _matching(robot.state_names if robot else (), incomplete)


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
ToPositionOption = Annotated[
    str | None, typer.Option(help="x,y,z [m] for the tip to end at, in the base frame.")
]
ToRpyOption = Annotated[
    str | None, typer.Option(help="roll,pitch,yaw [rad] of the tip there; default: any.")
]
ToQuatOption = Annotated[
    str | None, typer.Option(help="Quaternion x,y,z,w of the tip there; default: any.")
]
WorldOption = Annotated[
    str | None, typer.Option(help="Scene file with what stands around the robot.")
]
OutputOption = Annotated[
    str | None,
    typer.Option("--output", "-o", help="File for the trajectory: .json or .csv."),
]
