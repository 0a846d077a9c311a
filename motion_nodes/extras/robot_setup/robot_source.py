# SPDX-License-Identifier: Apache-2.0
"""Reader of a robot's file (URDF, xacro or MJCF) as a URDF."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from motion_nodes.core.robot.robot_xml import robot_root, xml_root
from motion_nodes.core.robot.yaml_schema import read_text
from motion_nodes.errors import InvalidDescription
from motion_nodes.extras.robot_setup.notes import Notes, listed
from motion_nodes.extras.robot_setup.package_search import PackageSearch
from motion_nodes.extras.robot_setup.xacro_expansion import declared_macros, expand, needs_xacro

if TYPE_CHECKING:
    from motion_nodes.extras.robot_setup.mjcf_source import MjcfSource

_ELEMENT_OF_XACRO = ".//{http://www.ros.org/wiki/xacro}*"


@dataclass
class RobotSource:
    """A robot as described by its file."""

    root: Any
    """The element <robot>."""
    file: Path
    mjcf: MjcfSource | None = None
    """Data of an MJCF that a URDF cannot represent."""


def read_source(
    file: str | Path,
    package_paths: Sequence[str | Path] = (),
    arguments: Mapping[str, str] | None = None,
    findings: Notes | None = None,
    mesh_folder: Path | None = None,
) -> RobotSource:
    """Read a URDF, a xacro, which is expanded, or an MJCF, which is converted.

    Args:
        file: the file, or a folder with a single URDF.
        package_paths: packages, or folders of packages.
        arguments: xacro arguments by name.
        findings: notes are added.
        mesh_folder: existing folder for the meshes of an MJCF; None: an MJCF is rejected.

    Raises:
        InvalidDescription: it cannot be read, expanded or converted, or is not a robot; arguments
            were given for a file without xacro.
    """
    findings = Notes() if findings is None else findings
    path = Path(file).expanduser().absolute()
    if path.is_dir():
        path = _only_urdf(path)
    if not path.is_file():
        raise InvalidDescription(f"{path}: there is no such file.")
    search = search_from(path, package_paths)
    if ".xacro" in path.suffixes:
        return RobotSource(_expanded(path, search, arguments, findings), path)
    text = read_text(path)
    if mesh_folder is not None and is_mjcf(text, path):
        _refuse_arguments(path, arguments)
        # Imported on demand, because MuJoCo loads slowly.
        from motion_nodes.extras.robot_setup.mjcf_source import read_mjcf

        found = read_mjcf(path, mesh_folder, findings)
        return RobotSource(found.root, path, found)
    root = robot_root(text, str(path))
    if root.find(_ELEMENT_OF_XACRO) is not None or needs_xacro(root):
        return RobotSource(_expanded(path, search, arguments, findings), path)
    _refuse_arguments(path, arguments)
    return RobotSource(root, path)


def is_mjcf(text: str, path: Path) -> bool:
    """Return whether a file is an MJCF."""
    if path.suffix not in (".xml", ".mjcf"):
        return False
    root = xml_root(text, str(path))
    return root is not None and root.tag == "mujoco"


def search_from(file: Path, package_paths: Sequence[str | Path] = ()) -> PackageSearch:
    """Return the package search for a file."""
    paths = tuple(Path(path).expanduser().absolute() for path in package_paths)
    return PackageSearch(file.parent, paths)


def _refuse_arguments(path: Path, arguments: Mapping[str, str] | None) -> None:
    if arguments:
        names = ", ".join(arguments)
        raise InvalidDescription(f"{path}: is not a xacro; it has no arguments; given: {names}.")


def _expanded(
    path: Path, search: PackageSearch, arguments: Mapping[str, str] | None, findings: Notes
) -> Any:
    expansion = expand(path, search, arguments)
    if expansion.left_out:
        text = f"files of packages that were not found are left out: {listed(expansion.left_out)}"
        findings.add("missing", "xacro", text)
    root = robot_root(expansion.urdf, str(path))
    macros = declared_macros(path)
    if root.find("link") is None and macros:
        raise InvalidDescription(
            f"{path}: only defines the macros {listed(macros)}, which the file of a robot calls; "
            "name that file, or write one."
        )
    return root


def _only_urdf(folder: Path) -> Path:
    found = sorted([*folder.glob("*.urdf"), *folder.glob("urdf/*.urdf")])
    if len(found) == 1:
        return found[0]
    names = ", ".join(str(path.relative_to(folder)) for path in found[:10]) or "none"
    raise InvalidDescription(f"{folder}: is a folder; name its URDF file. There are: {names}.")
