# SPDX-License-Identifier: Apache-2.0
"""Search for ROS packages and for files of ``package://`` URIs, with or without ROS."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse

from motion_nodes.errors import InvalidDescription

_SCHEMES = ("package://", "model://")
_ANCESTORS = 6
"""Max number of parent folders searched for packages."""
_DEPTH = 4
"""Max depth of a package below a given folder, such as a workspace."""
_FOLDERS = 20_000
"""Max number of folders visited in a search."""
_SKIPPED = {"build", "log", "node_modules", "__pycache__"}
_NAME = re.compile(rb"<name>\s*([\w.-]+)\s*</name>")


@dataclass(frozen=True)
class PackageSearch:
    """Search path for packages, in order of preference."""

    directory: Path
    """Folder of the URDF."""
    paths: tuple[Path, ...] = ()
    """A package's folder, or folders of packages, such as a workspace."""

    def find(self, filename: str) -> Path:
        """Return the file of a mesh's ``filename``.

        Raises:
            InvalidDescription: not found; lists the places that were searched.
        """
        tried: list[Path] = []
        for path in self._places(filename.replace("\\", "/")):
            if os.path.isfile(path):  # False also for a name that is too long
                return path
            if (other := _other_case(path)) is not None:
                return other
            if path not in tried:
                tried.append(path)
        scheme = next((s for s in _SCHEMES if filename.startswith(s)), "")
        package = filename.removeprefix(scheme).partition("/")[0]
        hint = f" Give the folder of the package '{package}' with --package-path." if scheme else ""
        raise InvalidDescription(f"mesh '{filename}' was not found; {_looked(tried)}.{hint}")

    def package(self, name: str) -> Path:
        """Return the folder of a package.

        Raises:
            InvalidDescription: not found; lists the places that were searched.
        """
        tried: list[Path] = []
        for folder in self.package_folders(name):
            if folder.is_dir() and (folder.name == name or _name_of(folder) == name):
                return folder
            tried += [folder] if folder not in tried else []
        raise InvalidDescription(
            f"the package '{name}' was not found; {_looked(tried)}. Say where it is with "
            "--package-path: its folder, or a workspace that contains it."
        )

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
        for path in self.paths:
            if (found := _packages_below(path).get(package)) is not None:
                yield found
        # A package in a folder with another name.
        yield from (*self.paths, *above)

    def _places(self, filename: str) -> Iterator[Path]:
        for scheme in _SCHEMES:
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


def _looked(tried: Sequence[Path]) -> str:
    return f"looked at: {', '.join(map(str, tried[:4]))}{', ...' if len(tried) > 4 else ''}"


def _entries(variable: str) -> Iterator[Path]:
    return (Path(entry) for entry in os.environ.get(variable, "").split(os.pathsep) if entry)


def _other_case(path: Path) -> Path | None:
    """Return the file whose name differs only in case, if it is unique."""
    try:
        same = [p for p in path.parent.iterdir() if p.name.lower() == path.name.lower()]
    except OSError:
        return None
    return same[0] if len(same) == 1 and same[0].is_file() else None


def _name_of(folder: Path) -> str | None:
    """Return the name in a folder's package.xml, None without one."""
    try:
        found = _NAME.search((folder / "package.xml").read_bytes()[:20_000])
    except OSError:
        return None
    return found[1].decode() if found else None


@functools.cache
def _packages_below(root: Path) -> dict[str, Path]:
    """Return the packages below a folder by name; the shallowest have precedence."""
    found: dict[str, Path] = {}
    folders, visited = [root], 0
    for _ in range(_DEPTH + 1):
        below: list[Path] = []
        for folder in folders:
            visited += 1
            if visited > _FOLDERS:
                return found
            if (name := _name_of(folder)) is not None:
                found.setdefault(name, folder)
                continue
            try:
                entries = sorted(folder.iterdir())
            except OSError:
                continue
            below += [
                e
                for e in entries
                if not e.name.startswith(".") and e.name not in _SKIPPED and e.is_dir()
            ]
        folders = below
    return found
