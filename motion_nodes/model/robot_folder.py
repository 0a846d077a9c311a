# SPDX-License-Identifier: Apache-2.0
"""Writes a robot's folder atomically: robot.yaml, URDF, spheres and further files."""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lxml import etree  # type: ignore[import-untyped]

from motion_nodes.errors import InvalidConfig, InvalidDescription
from motion_nodes.model.files.xrdf_schema import Spheres
from motion_nodes.model.files.yaml_file import yaml_text
from motion_nodes.model.loader import ROBOT_FILE
from motion_nodes.model.meshes import resolve_mesh
from motion_nodes.model.robot_yaml import RobotDescription
from motion_nodes.model.urdf.urdf import parse_xml

SPHERES_COMMENT = "Collision spheres: link -> [x, y, z, radius] in the link's frame [m]."


def description_data(description: RobotDescription) -> dict[str, Any]:
    """Return the content of a robot.yaml: fields that differ from their defaults."""
    data = _without_defaults(description)
    return data if description.base is None else {**data, "base": description.base}


def write_robot_folder(
    folder: Path,
    description: RobotDescription,
    urdf: str,
    spheres: Spheres,
    *,
    comment: str = "",
    more: Mapping[str, str] | None = None,
) -> None:
    """Write a robot's folder, which must not exist yet.

    The files are written to a temporary folder, which is then renamed, so no partial folder exists.

    Args:
        folder: folder to create.
        description: content of the robot.yaml.
        urdf: text of the URDF, with mesh names valid from the new folder.
        spheres: spheres by link [m]; written if the description names a file for them.
        comment: comment at the top of the robot.yaml.
        more: further files: name -> text.

    Raises:
        InvalidConfig: the folder exists, or cannot be written.
    """
    files = {
        ROBOT_FILE: yaml_text(description_data(description), comment),
        description.urdf: urdf,
        **(more or {}),
    }
    if description.collision.spheres is not None:
        data = {link: [list(sphere) for sphere in items] for link, items in spheres.items()}
        files[description.collision.spheres] = yaml_text(data, SPHERES_COMMENT)
    if folder.exists():
        raise InvalidConfig(f"{folder} exists already; nothing was written. Choose another name.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise InvalidConfig(f"{folder} cannot be written: {error.strerror}.") from None
    try:
        temporary.chmod(0o755)
        for name, text in files.items():
            (temporary / name).write_text(text, encoding="utf-8")
        temporary.rename(folder)
    except OSError as error:
        raise InvalidConfig(f"{folder} cannot be written: {error.strerror}.") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def with_meshes_from(urdf: str, directory: Path, folder: Path, where: str) -> str:
    """Return a URDF with mesh names that are valid from another folder.

    Names of missing meshes are unchanged.

    Args:
        urdf: text of the URDF.
        directory: original folder of the URDF.
        folder: new folder of the URDF.
        where: name of the URDF, for errors.
    """
    root = parse_xml(urdf, where)
    changed = False
    for mesh in root.iter("mesh"):
        try:
            file = resolve_mesh(mesh.get("filename", ""), directory)
        except InvalidDescription:
            continue
        mesh.set("filename", os.path.relpath(file, folder))
        changed = True
    return str(etree.tostring(root, encoding="unicode")) + "\n" if changed else urdf


def _without_defaults(block: Any) -> dict[str, Any]:
    """Return the fields of a block that differ from their defaults."""
    data = {}
    for field in dataclasses.fields(block):
        value = getattr(block, field.name)
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        if value != default or isinstance(default, type(dataclasses.MISSING)):
            data[field.name] = _plain(value)
    return data


def _plain(value: Any) -> Any:
    """Return a value as lists, dictionaries, numbers and text."""
    if dataclasses.is_dataclass(value):
        return _without_defaults(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
