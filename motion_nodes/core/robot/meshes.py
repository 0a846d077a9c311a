# SPDX-License-Identifier: Apache-2.0
"""Location of mesh files named in a URDF."""

from __future__ import annotations

import importlib.resources
import os
import re
from pathlib import Path
from urllib.parse import unquote, urlparse

from motion_nodes.errors import InvalidDescription


def resolve_mesh(filename: str, directory: Path) -> Path:
    """Return the file of a mesh from its ``filename`` in a URDF.

    Args:
        filename: ``package://<package>/<file>``, ``file://<absolute>``, an absolute path, or a path
            relative to ``directory``.
        directory: folder of the URDF.

    Raises:
        InvalidDescription: no such file exists; lists the places that were tried.
    """
    tried = _places(filename, directory)
    for path in tried:
        if os.path.isfile(path):  # False also for a name that is too long
            return path
    looked = ", ".join(map(str, tried)) or "nowhere (no folder of that package is known)"
    hint = ""
    if filename.startswith("package://"):
        hint = " Source the workspace that holds the package, or add it to AMENT_PREFIX_PATH."
    raise InvalidDescription(
        f"mesh '{filename}' was not found; looked at: {looked}.{hint}", field=filename
    )


def with_absolute_meshes(urdf: str, directory: Path) -> str:
    """Return a URDF's text with relative mesh names replaced by ``file://`` addresses.

    Other programs (RViz, Foxglove) receive the text without its folder and cannot resolve relative
    names.

    Args:
        urdf: text of the URDF.
        directory: folder of the URDF.
    """

    def absolute(match: re.Match[str]) -> str:
        name = match.group(2)
        if "://" in name or Path(name).is_absolute():
            return match.group(0)
        return f"{match.group(1)}{(directory.absolute() / name).as_uri()}{match.group(3)}"

    return re.sub(r"""(<mesh\b[^>]*?\bfilename=["'])([^"']+)(["'])""", absolute, urdf)


def _places(filename: str, directory: Path) -> list[Path]:
    """Return candidate paths, preferred ones first."""
    if filename.startswith("package://"):
        package, _, rest = filename.removeprefix("package://").partition("/")
        return [share / rest for share in _package_folders(package, directory)]
    if filename.startswith("file://"):
        return [Path(unquote(urlparse(filename).path))]
    if "://" in filename:
        raise InvalidDescription(
            f"mesh '{filename}': allowed are package://, file://, absolute and relative paths."
        )
    path = Path(filename)
    return [path if path.is_absolute() else directory / path]


def _package_folders(package: str, directory: Path) -> list[Path]:
    """Return folders that may be the share folder of a ROS package."""
    folders = [parent for parent in (directory, *directory.parents) if parent.name == package]
    for prefix in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep):
        if prefix:
            folders.append(Path(prefix) / "share" / package)
    if package == "motion_nodes":
        folders.append(Path(str(importlib.resources.files("motion_nodes"))))
    return folders
