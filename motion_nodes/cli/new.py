# SPDX-License-Identifier: Apache-2.0
"""``motion new``: create a robot folder from a URDF, xacro or MJCF."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from motion_nodes.cli.options import JsonOption, SeedOption
from motion_nodes.cli.printing import print_json, print_line, print_table
from motion_nodes.errors import InvalidConfig

if TYPE_CHECKING:
    from motion_nodes.robot_setup.new_robot import NewRobot
    from motion_nodes.robot_setup.questions import Question
    from motion_nodes.sim.robot_trial import TrialStep

_WORDS = {
    "missing": "missing",
    "changed": "changed in the URDF",
    "guessed": "estimated, please check",
    "measured": "measured",
}


def new(
    urdf: Annotated[Path, typer.Argument(help="URDF, xacro or MJCF of the robot.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(help="Arguments of a xacro, NAME:=VALUE each.", metavar="[NAME:=VALUE]..."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the robot; default: the name in the URDF.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder to create; default: ./NAME.", show_default=False)
    ] = None,
    package_path: Annotated[
        list[Path] | None,
        typer.Option(help="A package, or a folder of packages, to resolve package:// URIs."),
    ] = None,
    spheres_accuracy: Annotated[
        float | None,
        typer.Option(
            help="Max distance of spheres beyond the geometry [m]; default: by link size."
        ),
    ] = None,
    allow_missing_meshes: Annotated[
        bool,
        typer.Option(
            "--allow-missing-meshes", help="Exclude links without meshes from collision checks."
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Rename an existing folder of the same name.")
    ] = False,
    ask: Annotated[
        bool, typer.Option("--ask", help="Prompt if tips, hands or wheels are ambiguous.")
    ] = False,
    trial: Annotated[
        bool, typer.Option(help="Try the robot in simulation, and plan a motion for it.")
    ] = True,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Create a robot folder from a URDF, xacro or MJCF: groups, limits, spheres, drives, RMPflow.

    Prints which values were measured and which were estimated, as in the folder's README.md, and
    the results of a trial in simulation. Exit code 1: a step of it failed.
    """
    from motion_nodes.robot_setup.new_robot import new_robot
    from motion_nodes.robot_setup.questions import take_guess
    from motion_nodes.robot_setup.xacro_expansion import parse_arguments

    begin = time.monotonic()
    if ask and as_json:
        raise InvalidConfig("--ask and --json exclude each other.")
    with _progress(quiet=ask) as progress:
        made = new_robot(
            urdf,
            name=name,
            output=output,
            package_paths=package_path or (),
            arguments=parse_arguments(arguments or ()),
            spheres_accuracy=spheres_accuracy,
            allow_missing_meshes=allow_missing_meshes,
            force=force,
            seed=seed,
            ask=_ask_user if ask else take_guess,
            progress=progress,
        )
        with _without_warnings():
            steps = _trial(made, progress) if trial else ()
    seconds = time.monotonic() - begin
    if as_json:
        print_json(_data(made, steps, seconds))
    else:
        _report(made, steps, seconds)
    if not all(step.passed for step in steps):
        raise typer.Exit(1)


def _trial(made: NewRobot, progress: Callable[[str], None]) -> Sequence[TrialStep]:
    """Try a new robot in simulation; for skid-steered wheels measure their separation first."""
    from motion_nodes.model.loader import load_robot
    from motion_nodes.robot_setup.folder_files import set_wheel_separation
    from motion_nodes.sim.robot_trial import effective_separation, try_robot

    robot = made.robot
    separation = effective_separation(robot)
    if separation is not None:
        set_wheel_separation(made.directory, separation)
        robot = load_robot(made.directory)
        text = f"effective wheel separation with skidding wheels: {separation:.3g} m"
        made.findings.add("measured", "base.wheel_separation", text)
    return try_robot(robot, progress)


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Context manager that suppresses warnings of the simulation about visual meshes."""
    logger = logging.getLogger("motion_nodes.sim")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _ask_user(question: Question) -> str:
    """Prompt on the terminal; Enter accepts the guess."""
    print_line(f"{question.topic}: {question.text}")
    for number, choice in enumerate(question.choices, start=1):
        mark = f"  [{question.confidence}: {question.reason}]" if choice == question.guess else ""
        print_line(f"  {number}  {choice}{mark}")
    default, count = question.choices.index(question.guess) + 1, len(question.choices)
    while True:
        try:
            answer = input(f"number [{default}]: ").strip() or str(default)
        except EOFError:
            raise InvalidConfig(f"{question.topic}: no answer; nothing is written.") from None
        if answer.isdecimal() and 1 <= int(answer) <= count:
            return question.choices[int(answer) - 1]
        print_line(f"a number from 1 to {count}")


@contextlib.contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Context manager of a progress callback on a terminal; silent with --ask."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda text: None
        return
    with console.status("") as status:
        yield lambda text: status.update(text)


def _report(made: NewRobot, steps: Sequence[TrialStep], seconds: float) -> None:
    robot = made.robot
    print_line(f"{robot.name}: {robot.kind}, {len(robot.joint_names)} joints, {seconds:.1f} s")
    rows = [
        (group.name, len(group.joints), group.base or "", group.tip or "")
        for group in robot.groups.values()
    ]
    print_table(("group", "joints", "base", "tip"), rows)
    if made.coverage:
        count = sum(c.count for c in made.coverage.values())
        surface = min(c.surface for c in made.coverage.values())
        reach = max(c.reach for c in made.coverage.values())
        print_line(
            f"spheres: {count} on {len(made.coverage)} links; they cover at least {surface:.1%} of "
            f"each link's surface and exceed it by at most {1000.0 * reach:.0f} mm"
        )
        found = made.self_collisions
        print_line(
            f"self-collisions: {len(found.checked)} pairs of links are checked, "
            f"{len(found.ignored)} are excluded; {made.free_share:.0%} of random configurations "
            "are collision-free"
        )
    for kind, words in _WORDS.items():
        items = made.findings.of(kind)  # type: ignore[arg-type]
        if items:
            print_line(f"{words}:")
            for item in items:
                print_line(f"  {item.topic}: {item.sentence}")
    for step in steps:
        print_line(f"{'passed' if step.passed else 'FAILED'}: {step.name}: {step.text}")
    if made.kept is not None:
        print_line(f"existing folder renamed to {made.kept}")
    print_line(f"written: {made.directory} (details in README.md)")
    place = _relative(made.directory)
    if all(step.passed for step in steps):
        print_line(f"next: motion up {place}")
    else:
        print_line(f"next: correct {place}, see its README.md; a step of the trial failed")


def _relative(directory: Path) -> str:
    relative = os.path.relpath(directory)
    return str(directory) if relative.startswith("..") else f".{os.sep}{relative}"


def _data(made: NewRobot, steps: Sequence[TrialStep], seconds: float) -> dict[str, Any]:
    robot, found = made.robot, made.self_collisions
    return {
        "name": robot.name,
        "kind": robot.kind,
        "directory": str(made.directory),
        "kept": str(made.kept) if made.kept else None,
        "seconds": seconds,
        "trial": [{"step": step.name, "passed": step.passed, "text": step.text} for step in steps],
        "groups": {
            group.name: {"joints": group.joints, "base": group.base, "tip": group.tip}
            for group in robot.groups.values()
        },
        "findings": [
            {
                "kind": item.kind,
                "topic": item.topic,
                "text": item.text,
                "confidence": item.confidence,
            }
            for item in made.findings
        ],
        "spheres": {
            link: {
                "count": c.count,
                "surface": c.surface,
                "volume": c.volume,
                "excess_volume": c.excess_volume,
                "reach": c.reach,
            }
            for link, c in made.coverage.items()
        },
        "self_collisions": {
            "samples": found.samples,
            "checked": found.checked,
            "ignored": [{"links": pair, "reason": why} for pair, why in found.ignored.items()],
            "free_share": made.free_share,
        },
    }
