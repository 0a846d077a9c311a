# SPDX-License-Identifier: Apache-2.0
"""Commands that create and edit robots: ``motion new``, ``mount``, ``spheres`` and ``convert``."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.live import Live

from motion_nodes.cli.options import GroupOption, JsonOption, RobotArgument, SeedOption, robot_words
from motion_nodes.cli.output import print_json, print_line, print_table, write_output
from motion_nodes.errors import InvalidConfig, did_you_mean

if TYPE_CHECKING:
    from motion_nodes.core.robot.files.xrdf_file import Xrdf
    from motion_nodes.core.robot.robot import Robot
    from motion_nodes.extras.robot_setup.new_robot import NewRobot
    from motion_nodes.extras.robot_setup.notes import Question
    from motion_nodes.extras.sim.robot_trial import TrialStep

_WORDS = {
    "missing": "missing",
    "changed": "changed in the URDF",
    "guessed": "estimated, please check",
    "measured": "measured",
}
FORMATS = ("robot", "xrdf", "xrdf-1.0", "lula", "curobo", "srdf")
_XRDF_VERSIONS = {"xrdf": 2.0, "xrdf-1.0": 1.0}
_OF_SUFFIX = {"": "robot", ".xrdf": "xrdf", ".srdf": "srdf", ".yaml": "lula", ".yml": "curobo"}


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
    from motion_nodes.extras.robot_setup.new_robot import new_robot
    from motion_nodes.extras.robot_setup.notes import take_guess
    from motion_nodes.extras.robot_setup.xacro_expansion import parse_arguments

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
            aside=_compile if trial else None,
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


def _compile(robot: Robot) -> None:
    """Compile the code of a robot, in another process."""
    from motion_nodes.cli.installation import compile_robot

    compile_robot(robot)


def _trial(made: NewRobot, progress: Callable[[str], None]) -> Sequence[TrialStep]:
    """Try a new robot in simulation; for skid-steered wheels measure their separation first."""
    from motion_nodes.core.robot.loader import load_robot
    from motion_nodes.extras.robot_setup.folder_files import set_wheel_separation
    from motion_nodes.extras.sim.robot_trial import effective_separation, try_robot

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
    logger = logging.getLogger("motion_nodes.extras.sim")
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
    # Without a thread that turns a wheel: new_robot forks.
    with Live("", console=console, transient=True, auto_refresh=False) as line:
        yield lambda text: line.update(text, refresh=True)


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


def mount(
    base: Annotated[str, typer.Argument(help="Robot with wheels: name, folder or URDF.")],
    arm: Annotated[str, typer.Argument(help="Arm that it carries: name, folder or URDF.")],
    at: Annotated[
        str, typer.Option(help="Position of the arm's root link, X,Y,Z [m].", metavar="X,Y,Z")
    ],
    rpy: Annotated[
        str, typer.Option(help="Its roll, pitch and yaw [rad].", metavar="R,P,Y")
    ] = "0,0,0",
    link: Annotated[
        str | None, typer.Option(help="Link that carries it; default: the base frame.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the robot; default: both names.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder to create; default: ./NAME.", show_default=False)
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Rename an existing folder of the same name.")
    ] = False,
    trial: Annotated[bool, typer.Option(help="Try the robot in simulation.")] = True,
) -> None:
    """Create the folder of a mobile manipulator: an arm mounted on a wheeled base.

    Prints the results of a trial in simulation. Exit code 1: a step of it failed.
    """
    from motion_nodes.cli.values import numbers
    from motion_nodes.extras.robot_setup.mounted_arm import ArmMount, mount_arm
    from motion_nodes.extras.sim.robot_trial import try_robot

    x, y, z = numbers(at, 3, "--at").tolist()
    roll, pitch, yaw = numbers(rpy, 3, "--rpy").tolist()
    place = ArmMount((x, y, z), (roll, pitch, yaw), link)
    robot = mount_arm(base, arm, place, name=name, output=output, force=force)
    print_line(f"written: {robot.directory} (details in README.md)")
    steps = try_robot(robot) if trial else ()
    for step in steps:
        print_line(f"{'passed' if step.passed else 'FAILED'}: {step.name}: {step.text}")
    print_line(f"next: motion up {robot.directory} --tasks")
    if not all(step.passed for step in steps):
        raise typer.Exit(1)


def spheres(
    robot: RobotArgument,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Output file; default: spheres.yaml in the given robot folder, else "
            "./ROBOT_spheres.yaml.",
            show_default=False,
        ),
    ] = None,
    port: Annotated[int, typer.Option(help="TCP port of the browser page.")] = 8080,
    host: Annotated[str, typer.Option(help="Listening address of the page.")] = "127.0.0.1",
    dark: Annotated[bool, typer.Option("--dark", help="Dark page.")] = False,
    shadows: Annotated[bool, typer.Option(help="Shadows and reflections.")] = True,
) -> None:
    """Edit a robot's collision spheres in the browser until Ctrl-C."""
    from motion_nodes.core.robot.loader import ROBOT_FILE, load_description
    from motion_nodes.core.scene.sphere_set import SPHERES_FILE
    from motion_nodes.extras.viewer.sphere_editor import SphereEditor, SphereSession

    loaded = load_description(robot)
    file = output
    given = Path(robot).expanduser().resolve()
    # Not that of a name or a URDF: shipped robots and cache entries are not changed.
    if file is None and loaded.directory.resolve() == (
        given.parent if given.name == ROBOT_FILE else given
    ):
        file = loaded.directory / (loaded.description.collision.spheres or SPHERES_FILE)
    session = SphereSession(loaded, file or Path(f"{loaded.name}_{SPHERES_FILE}"))
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with SphereEditor(session, port, host=host, dark=dark, shadows=shadows) as editor:
        print(f"Open {editor.url} in a browser. Saves to {session.file}. Ctrl-C ends.", flush=True)
        stop.wait()
    if session.unsaved:
        print("Unsaved changes were discarded.")


def convert(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FROM",
            help="Robot name or folder, or an XRDF, SRDF, Lula or cuRobo file.",
            autocompletion=robot_words,
        ),
    ],
    target: Annotated[
        str,
        typer.Argument(
            metavar="TO",
            help="Output: a robot folder, or a file .xrdf, .srdf, .yaml (Lula) or .yml (cuRobo).",
        ),
    ],
    urdf: Annotated[
        str | None, typer.Option(help="URDF of the file FROM; default: the one in its folder.")
    ] = None,
    to_format: Annotated[
        str | None,
        typer.Option("--format", help=f"{', '.join(FORMATS)}; default: from the suffix of TO."),
    ] = None,
    group: GroupOption = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Convert a robot's description between robot folders, XRDF, SRDF, Lula and cuRobo.

    Prints every field that the target format cannot represent.
    """
    path = Path(target)
    kind = to_format or _OF_SUFFIX.get(path.suffix, "")
    if kind not in FORMATS:
        hint = did_you_mean(kind or path.suffix, FORMATS)
        raise InvalidConfig(f"--format: '{kind or path.name}' is not a known format.{hint}")
    urdf_file = None if urdf is None else Path(urdf)
    if kind == "robot":
        _write_folder(source, path, urdf_file)
    else:
        if path.exists() and not force:
            raise InvalidConfig(f"{path} already exists; use --force to overwrite it.")
        write_output(path, _text(source, kind, urdf_file, group))
    print_line(f"{path} written ({kind}).")
    if kind == "robot":
        print_line(f"Try it: motion describe {path}")


def _write_folder(source: str, folder: Path, urdf: Path | None) -> None:
    """Write a robot folder from files of another system."""
    from motion_nodes.core.robot.import_robot import (
        format_of,
        read_foreign,
        robot_name,
        with_meshes_from,
        write_robot_folder,
    )
    from motion_nodes.core.robot.loader import load_description

    file = Path(source)
    if not file.is_file() or format_of(file) is None:
        robot = load_description(source)
        raise InvalidConfig(
            f"{source} is already a robot folder: {robot.directory}. Copy it, or give an output "
            "file, such as robot.xrdf."
        )
    found = read_foreign(file, urdf, robot_name(folder.name), _repaired_urdf)
    text = with_meshes_from(
        found.urdf, found.urdf_file.parent, folder.absolute(), str(found.urdf_file)
    )
    comment = (
        f"Converted from {file.name} and {found.urdf_file.name}. Drives are estimated: see sources."
    )
    parts = found.described
    write_robot_folder(folder, parts.description, text, parts.spheres, comment=comment)


def _repaired_urdf(file: Path) -> str:
    """Return the URDF in a file after repairs, which are printed."""
    from lxml import etree  # type: ignore[import-untyped]

    from motion_nodes.extras.robot_setup.notes import Notes
    from motion_nodes.extras.robot_setup.robot_source import read_source
    from motion_nodes.extras.robot_setup.urdf_repair import repair

    findings = Notes()
    source = read_source(file, findings=findings)
    root, path = source.root, source.file
    repair(root, path, findings)
    for finding in findings:
        note = f"motion: {file.name}: {finding.topic} {finding.kind}: {finding.text}"
        print(note, file=sys.stderr)
    return str(etree.tostring(root, encoding="unicode")) + "\n"


def _text(source: str, kind: str, urdf: Path | None, group: str | None) -> str:
    """Return the description in a format of another system."""
    from motion_nodes.core.robot.files.curobo import curobo_text
    from motion_nodes.core.robot.files.lula import lula_text
    from motion_nodes.core.robot.files.srdf_file import srdf
    from motion_nodes.core.robot.files.xrdf_file import xrdf_text
    from motion_nodes.core.robot.files.xrdf_robot import xrdf_of
    from motion_nodes.core.robot.loader import load_description

    comment = f"Converted from {Path(source).name}."
    xrdf = _xrdf_of_file(source) if group is None else None
    if xrdf is not None and kind in _XRDF_VERSIONS:
        # Lossless, and without a URDF.
        return xrdf_text(xrdf, _XRDF_VERSIONS[kind], comment)
    robot = load_description(source, urdf)
    never_checked = _never_checked(robot, exact=kind == "srdf")
    if kind == "srdf":
        return srdf(robot, never_checked)
    xrdf = xrdf or xrdf_of(robot, never_checked, group)
    if kind in _XRDF_VERSIONS:
        return xrdf_text(xrdf, _XRDF_VERSIONS[kind], comment)
    if kind == "lula":
        return lula_text(xrdf, robot.tree.root, comment)
    return curobo_text(xrdf, robot.description.urdf, robot.tree.root, comment)


def _xrdf_of_file(source: str) -> Xrdf | None:
    """Return the contents of an XRDF, Lula or cuRobo file; None for other sources."""
    from motion_nodes.core.robot.files.curobo import read_curobo
    from motion_nodes.core.robot.files.lula import read_lula
    from motion_nodes.core.robot.files.xrdf_file import read_xrdf
    from motion_nodes.core.robot.import_robot import format_of

    file = Path(source)
    kind = format_of(file) if file.is_file() else None
    if kind == "curobo":
        return read_curobo(file).xrdf
    readers = {"xrdf": read_xrdf, "lula": read_lula}
    return readers[kind](file) if kind in readers else None


def _never_checked(robot: Robot, *, exact: bool) -> set[tuple[str, str]]:
    """Return the pairs of links that are excluded from self-collision checks."""
    from motion_nodes.core.scene.robot_spheres import checked_pairs, link_bodies
    from motion_nodes.core.scene.scene import AllowedCollisions

    bodies = link_bodies(robot)
    checked = set(checked_pairs(robot, bodies, AllowedCollisions(), exact=exact))
    pairs = itertools.combinations(range(len(bodies)), 2)
    return {(bodies[i].name, bodies[j].name) for i, j in pairs if (i, j) not in checked}
