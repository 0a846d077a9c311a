# SPDX-License-Identifier: Apache-2.0
"""``motion convert``: robot descriptions between the formats of different systems."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from motion_nodes.cli.options import GroupOption, robot_words

if TYPE_CHECKING:
    from motion_nodes.model.files.xrdf_schema import Xrdf
    from motion_nodes.model.robot import Robot

FORMATS = ("robot", "xrdf", "xrdf-1.0", "lula", "curobo", "srdf")
_XRDF_VERSIONS = {"xrdf": 2.0, "xrdf-1.0": 1.0}
_OF_SUFFIX = {"": "robot", ".xrdf": "xrdf", ".srdf": "srdf", ".yaml": "lula", ".yml": "curobo"}


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
    from motion_nodes.cli.output_files import write_output
    from motion_nodes.cli.printing import print_line
    from motion_nodes.errors import InvalidConfig, did_you_mean

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
    from motion_nodes.errors import InvalidConfig
    from motion_nodes.model.import_robot import format_of, read_foreign, robot_name
    from motion_nodes.model.robot_folder import with_meshes_from, write_robot_folder
    from motion_nodes.robot_setup.derived_robot import load_description

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

    from motion_nodes.robot_setup.notes import Notes
    from motion_nodes.robot_setup.robot_source import read_source
    from motion_nodes.robot_setup.urdf_repair import repair

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
    from motion_nodes.model.files.curobo import curobo_text
    from motion_nodes.model.files.lula import lula_text
    from motion_nodes.model.files.srdf_from_robot import srdf
    from motion_nodes.model.files.xrdf_file import xrdf_text
    from motion_nodes.model.files.xrdf_robot import xrdf_of
    from motion_nodes.robot_setup.derived_robot import load_description

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
    from motion_nodes.model.files.curobo import read_curobo
    from motion_nodes.model.files.lula import read_lula
    from motion_nodes.model.files.xrdf_file import read_xrdf
    from motion_nodes.model.import_robot import format_of

    file = Path(source)
    kind = format_of(file) if file.is_file() else None
    if kind == "curobo":
        return read_curobo(file).xrdf
    readers = {"xrdf": read_xrdf, "lula": read_lula}
    return readers[kind](file) if kind in readers else None


def _never_checked(robot: Robot, *, exact: bool) -> set[tuple[str, str]]:
    """Return the pairs of links that are excluded from self-collision checks."""
    from motion_nodes.scene.allowed_collisions import AllowedCollisions
    from motion_nodes.scene.robot_spheres import checked_pairs, link_bodies

    bodies = link_bodies(robot)
    checked = set(checked_pairs(robot, bodies, AllowedCollisions(), exact=exact))
    pairs = itertools.combinations(range(len(bodies)), 2)
    return {(bodies[i].name, bodies[j].name) for i, j in pairs if (i, j) not in checked}
