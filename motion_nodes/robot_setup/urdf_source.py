# SPDX-License-Identifier: Apache-2.0
"""Reading of a URDF or xacro as XML, and location of its mesh files."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from motion_nodes.errors import InvalidDescription
from motion_nodes.model.urdf.robot_xml import robot_root
from motion_nodes.model.urdf.urdf import read_urdf_text
from motion_nodes.robot_setup.xacro_leftovers import needs_xacro

_PACKAGE_SCHEMES = ("package://", "model://")
_ANCESTORS = 6  # max number of parent folders searched for packages


@dataclass(frozen=True)
class PackageSearch:
    """Search path for ``package://`` names, in order of preference."""

    directory: Path
    """Folder of the URDF."""
    paths: tuple[Path, ...] = ()
    """A package's folder, or folders of packages."""

    def find(self, filename: str) -> Path:
        """Return the file of a mesh's ``filename``.

        Raises:
            InvalidDescription: not found; lists the places that were searched.
        """
        tried: list[Path] = []
        for path in self._places(filename):
            if path.is_file():
                return path
            if path not in tried:
                tried.append(path)
        scheme = next((s for s in _PACKAGE_SCHEMES if filename.startswith(s)), "")
        looked = ", ".join(map(str, tried[:4])) + (", ..." if len(tried) > 4 else "")
        package = filename.removeprefix(scheme).partition("/")[0]
        hint = f" Say where the package '{package}' is with --package-path." if scheme else ""
        raise InvalidDescription(f"mesh '{filename}' was not found; looked at: {looked}.{hint}")

    def _places(self, filename: str) -> Iterator[Path]:
        for scheme in _PACKAGE_SCHEMES:
            if filename.startswith(scheme):
                package, _, rest = filename.removeprefix(scheme).partition("/")
                yield from (folder / rest for folder in self.package_folders(package))
                return
        if filename.startswith("file://"):
            yield Path(unquote(urlparse(filename).path))
        elif "://" in filename:
            raise InvalidDescription(
                f"mesh '{filename}': allowed are package://, model://, file://, absolute and "
                "relative paths."
            )
        else:
            yield self.directory / filename  # absolute paths are unchanged

    def package_folders(self, package: str) -> Iterator[Path]:
        """Yield the candidate folders of a package."""
        above = [self.directory, *self.directory.parents][:_ANCESTORS]
        for path in self.paths:
            if path.name == package:
                yield path
            yield from (path / package, path / "share" / package)
        yield from (folder for folder in above if folder.name == package)
        yield from (folder / package for folder in above)
        for entry in _entries("ROS_PACKAGE_PATH"):
            if entry.name == package:
                yield entry
            yield entry / package
        yield from (entry / "share" / package for entry in _entries("AMENT_PREFIX_PATH"))
        # A package that was checked out under another name.
        yield from (*self.paths, *above)


def _entries(variable: str) -> Iterator[Path]:
    return (Path(entry) for entry in os.environ.get(variable, "").split(os.pathsep) if entry)


def read_source(file: str | Path, package_paths: Sequence[str | Path] = ()) -> tuple[Any, Path]:
    """Return the root element of a URDF, or of an expanded xacro, and its file.

    Raises:
        InvalidDescription: it cannot be read, is not a URDF, or xacro is needed and not installed.
    """
    path = Path(file).expanduser().absolute()
    if path.is_dir():
        path = _only_urdf(path)
    if ".xacro" in path.suffixes:
        text = _expanded(path, package_paths)
    else:
        text = read_urdf_text(path)
    root = robot_root(text, str(path))
    unfinished = root.find(".//{http://www.ros.org/wiki/xacro}*") is not None or (
        needs_xacro(root) and shutil.which("xacro") is not None
    )
    if unfinished and ".xacro" not in path.suffixes:
        root = robot_root(_expanded(path, package_paths), str(path))
    return root, path


def _only_urdf(folder: Path) -> Path:
    found = sorted([*folder.glob("*.urdf"), *folder.glob("urdf/*.urdf")])
    if len(found) == 1:
        return found[0]
    names = ", ".join(str(path.relative_to(folder)) for path in found[:10]) or "none"
    raise InvalidDescription(f"{folder}: is a folder; name its URDF file. There are: {names}.")


def _expanded(path: Path, package_paths: Iterable[str | Path]) -> str:
    """Return the output of the program xacro for a file."""
    program = shutil.which("xacro")
    if program is None:
        raise InvalidDescription(
            f"{path}: is a xacro, and the program xacro is not installed. Install it (pip install "
            "xacro), or expand the file elsewhere: xacro robot.urdf.xacro > robot.urdf"
        )
    paths = os.pathsep.join([*map(str, package_paths), os.environ.get("ROS_PACKAGE_PATH", "")])
    try:
        done = subprocess.run(
            [program, str(path)],
            capture_output=True,
            text=True,
            timeout=120.0,
            env={**os.environ, "ROS_PACKAGE_PATH": paths},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InvalidDescription(f"{path}: xacro could not be run: {error}") from None
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-3:] or ["no error message"]
        raise InvalidDescription(f"{path}: xacro failed: {' '.join(last)}")
    return done.stdout
