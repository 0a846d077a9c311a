# SPDX-License-Identifier: Apache-2.0
"""Arguments and options of several commands, and their shell completion."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, Optional, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperGroup

from motion_nodes.cli.output import output_path
from motion_nodes.errors import MotionError

if TYPE_CHECKING:
    from motion_nodes.core.robot.robot import Robot


class _InOrder(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        """Return the commands in the order of their definition."""
        return list(self.commands)


class Commands(typer.Typer):
    """Group of commands, in order, with ``X | None`` in their signatures.

    Typer 0.9, that of Ubuntu 24.04, sorts them by name and knows ``Optional[X]`` only.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(cls=_InOrder, **options)

    def command(self, *args: Any, **options: Any) -> Callable[[Any], Any]:
        """Return the decorator that adds a command, as that of typer."""
        add = super().command(*args, **options)
        return lambda function: add(_with_older_types(function))

    def callback(self, *args: Any, **options: Any) -> Callable[[Any], Any]:
        """Return the decorator of the function called before a command, as that of typer."""
        add = super().callback(*args, **options)
        return lambda function: add(_with_older_types(function))


def _with_older_types(function: Any) -> Any:
    """Return a function with the types of its parameters instead of their texts."""
    hints = get_type_hints(function, include_extras=True)
    function.__annotations__ = {name: _older(hint) for name, hint in hints.items()}
    return function


def _older(hint: Any) -> Any:
    """Return a type with its union with None written as Optional."""
    if get_origin(hint) is Annotated:
        inner, *notes = get_args(hint)
        return Annotated[(_older(inner), *notes)]
    if isinstance(hint, types.UnionType):
        return Optional[next(part for part in get_args(hint) if part is not type(None))]  # noqa: UP045
    return hint


def _matching(words: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


def robot_words(incomplete: str) -> list[str]:
    """Return completions for the name of a robot."""
    from motion_nodes.core.robot.loader import available_robots

    try:
        return _matching(available_robots(), incomplete)
    except MotionError:
        return []


def _robot(ctx: typer.Context) -> Robot | None:
    """Return the robot on an incomplete command line."""
    from motion_nodes.core.robot.loader import load_description

    # While the value of an option is completed, click keeps the words before it in ctx.args.
    words = [ctx.params.get("robot"), ctx.params.get("source"), *ctx.args]
    name = next((word for word in words if word), "")
    try:
        return load_description(name)
    except MotionError:
        return None


def group_words(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return completions for a group of the robot on the command line."""
    robot = _robot(ctx)
    groups = robot.groups.values() if robot else ()
    return _matching([word for g in groups for word in (g.name, *g.aliases)], incomplete)


def frame_words(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return completions for a frame of the robot on the command line."""
    robot = _robot(ctx)
    return _matching(robot.tree.frame_names if robot else (), incomplete)


def state_words(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return completions for a named state of the robot on the command line."""
    robot = _robot(ctx)
    return _matching(robot.state_names if robot else (), incomplete)


RobotArgument = Annotated[
    str,
    typer.Argument(
        help="Robot name, robot folder, URDF, xacro or MJCF, or an XRDF, SRDF, Lula or cuRobo "
        "file.",
        autocompletion=robot_words,
    ),
]
GroupOption = Annotated[
    str | None,
    typer.Option(
        help="Group of joints; default: the first group with a tip.", autocompletion=group_words
    ),
]
DegreesOption = Annotated[
    bool, typer.Option("--degrees", help="Angles in degrees, for input and output.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
SeedOption = Annotated[int, typer.Option(help="Random seed; results are reproducible.")]
PositionOption = Annotated[str | None, typer.Option(help="x,y,z [m] in the base frame.")]
RpyOption = Annotated[str | None, typer.Option(help="roll,pitch,yaw [rad] in the base frame.")]
QuatOption = Annotated[str | None, typer.Option(help="Quaternion x,y,z,w in the base frame.")]
ToPositionOption = Annotated[
    str | None, typer.Option(help="Target position x,y,z of the tip in the base frame [m].")
]
ToRpyOption = Annotated[
    str | None,
    typer.Option(help="Target orientation roll,pitch,yaw of the tip [rad]; default: free."),
]
ToQuatOption = Annotated[
    str | None, typer.Option(help="Target quaternion x,y,z,w of the tip; default: free.")
]
WorldOption = Annotated[
    str | None, typer.Option(help="Scene file with obstacles around the robot.")
]


def _checked_output(output: str | None) -> str | None:
    """Check the file of a result before anything is computed."""
    if output is not None:
        from motion_nodes.core.robot.result_files import SUFFIXES

        output_path(output, SUFFIXES)
    return output


OutputOption = Annotated[
    str | None,
    typer.Option(
        "--output", "-o", help="Output file of the trajectory: .json, .csv, .npz or .mcap.",
        callback=_checked_output,
    ),
]  # fmt: skip
