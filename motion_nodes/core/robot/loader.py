# SPDX-License-Identifier: Apache-2.0
"""Finds and loads robots by name, folder or file.

Robots shipped with the package are found by name. Folders listed in the environment variable
``MOTION_NODES_ROBOT_PATH`` (separated as in ``PATH``) add more: each entry is a robot's folder or
a folder of such folders.
"""

from __future__ import annotations

import importlib
import importlib.resources
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.robot_builder import assemble
from motion_nodes.core.robot.robot_yaml import RobotDescription
from motion_nodes.core.robot.urdf import read_urdf
from motion_nodes.core.robot.yaml_schema import decode, read_text, read_yaml
from motion_nodes.errors import InvalidConfig, InvalidDescription, RobotNotFound

ROBOT_FILE = "robot.yaml"
PATH_VARIABLE = "MOTION_NODES_ROBOT_PATH"


def load_robot(name_or_path: str | Path, urdf: str | Path | None = None) -> Robot:
    """Load a robot and check its consistency.

    Args:
        name_or_path: name of a robot on the search path, a robot's folder, or its robot.yaml; or an
            XRDF, SRDF, Lula or cuRobo file.
        urdf: the URDF of such a file; None: the one named in it or in its folder.

    Raises:
        RobotNotFound: lists the available robots.
        InvalidDescription: names the file and the invalid field.
        InvalidConfig: two robots on the search path have that name.
    """
    file = _find(name_or_path)
    # The format of a robot.yaml is known without reading it.
    if urdf is not None or file.name != ROBOT_FILE:
        # Importing the readers of other formats takes as long as loading a robot.
        from motion_nodes.core.robot.import_robot import format_of, load_foreign

        if urdf is not None or format_of(file) is not None:
            return load_foreign(file, None if urdf is None else Path(urdf))
    description = decode(read_yaml(file), RobotDescription, str(file))
    urdf_file = file.parent / description.urdf
    if not urdf_file.is_file():
        raise InvalidDescription(
            f"{file}: urdf: the file '{description.urdf}' does not exist in {file.parent}.",
            field="urdf",
        )
    urdf = read_text(urdf_file)
    spheres = _read_spheres(file, description)
    return assemble(file, description, read_urdf(urdf, str(urdf_file)), urdf, spheres)


SOURCES = {
    suffix: "motion_nodes.extras.robot_setup.derived_robot:derived_from"
    for suffix in (".urdf", ".xacro", ".xml", ".mjcf", ".sdf")
}
"""Function that returns a robot's folder for a file of a suffix, as module:name."""
_SUFFIX = re.compile(r"(\.\w+)(?:$|['\"\s])")


def load_description(
    name_or_path: str | Path,
    urdf: str | Path | None = None,
    package_paths: Sequence[str | Path] = (),
    progress: Callable[[str], None] | None = None,
) -> Robot:
    """Load a robot by name, folder or file; a URDF alone is sufficient.

    Args:
        name_or_path: see :func:`load_robot`; or a URDF, MJCF or xacro file, the latter also with
            arguments: ``"robot.urdf.xacro name:=ur prefix:=left_"``.
        urdf: the URDF for a file of another system.
        package_paths: folders to search for ``package://`` names in a URDF.
        progress: called with the steps of deriving a robot.

    Raises:
        RobotNotFound, InvalidDescription, InvalidConfig: as the loader and ``motion new``.
    """
    text = str(name_or_path)
    source = next((SOURCES[x] for x in _SUFFIX.findall(text) if x in SOURCES), None)
    if urdf is None and source is not None:
        module, _, name = source.partition(":")
        try:
            derive = getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            if not module.startswith(str(error.name)):
                raise
            raise InvalidConfig(
                f"{text}: robots from such files need {module.rpartition('.')[0]}, which this "
                "installation leaves out; give a folder with a robot.yaml."
            ) from None
        folder = derive(text, package_paths, progress)
        if folder is not None:
            return load_robot(folder)
    return load_robot(name_or_path, urdf)


_FILE_SUFFIXES = (".yaml", ".yml", ".urdf", ".xacro", ".xml", ".mjcf", ".sdf", ".xrdf")


def available_robots() -> dict[str, Path]:
    """Return the robots on the search path: name -> its robot.yaml, sorted by name.

    Raises:
        InvalidConfig: two robots have the same name; names both files.
    """
    found = _search()
    for name, files in found.items():
        _refuse_two(name, files)
    return {name: files[0] for name, files in sorted(found.items())}


def _find(name_or_path: str | Path) -> Path:
    """Return the robot.yaml for a name or path."""
    text = str(name_or_path)
    path = Path(name_or_path).expanduser()
    found = _search()
    if isinstance(name_or_path, str) and text in found:
        _refuse_two(text, found[text])
        return found[text][0]
    if path.is_dir() and (path / ROBOT_FILE).is_file():
        return path / ROBOT_FILE
    if path.is_file():
        return path
    searched = f"the shipped robots and {PATH_VARIABLE}"
    if path.is_dir():
        searched = f"the file system: there is no {ROBOT_FILE} in {path.absolute()}"
    elif os.sep in text or path.suffix in _FILE_SUFFIXES:
        searched = f"the file system: there is no file or folder {path.absolute()}"
    raise RobotNotFound(text, sorted(found), searched)


def _search() -> dict[str, list[Path]]:
    """Return the robot.yaml files on the search path by robot name."""
    roots = [Path(entry) for entry in os.environ.get(PATH_VARIABLE, "").split(os.pathsep) if entry]
    roots.append(Path(str(importlib.resources.files("motion_nodes"))) / "robots")
    found: dict[str, list[Path]] = {}
    seen: set[Path] = set()
    for root in roots:
        for file in (root / ROBOT_FILE, *sorted(root.glob(f"*/{ROBOT_FILE}"))):
            if file.is_file() and file.resolve() not in seen:
                seen.add(file.resolve())
                found.setdefault(_name_in(file), []).append(file)
    return found


def _name_in(file: Path) -> str:
    """Return the robot's name without decoding the file, which may be invalid."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return file.parent.name
    match = re.search(r"^name:\s*[\"']?([\w.-]+)", text, re.MULTILINE)
    return match.group(1) if match else file.parent.name


def _refuse_two(name: str, files: list[Path]) -> None:
    """Raise an error for a name of several robots."""
    if len(files) > 1:
        raise InvalidConfig(
            f"two robots are called '{name}': {' and '.join(map(str, files))}. Rename one, take "
            f"one off {PATH_VARIABLE}, or give the path instead of the name."
        )


def _read_spheres(
    file: Path, description: RobotDescription
) -> Mapping[str, tuple[tuple[float, float, float, float], ...]]:
    """Return the collision spheres by link; empty if the robot has none."""
    if description.collision.spheres is None:
        return {}
    spheres_file = file.parent / description.collision.spheres
    if not spheres_file.is_file():
        raise InvalidDescription(
            f"{file}: collision.spheres: the file '{spheres_file.name}' does not exist in "
            f"{file.parent}.",
            field="collision.spheres",
        )
    kind = dict[str, tuple[tuple[float, float, float, float], ...]]
    return decode(read_yaml(spheres_file), kind, str(spheres_file))
