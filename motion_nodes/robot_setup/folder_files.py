# SPDX-License-Identifier: Apache-2.0
"""Creation of a robot's folder, atomically."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lxml import etree  # type: ignore[import-untyped]

from motion_nodes.errors import InvalidConfig, InvalidDescription
from motion_nodes.model.loader import ROBOT_FILE, available_robots, load_robot
from motion_nodes.model.robot import Robot
from motion_nodes.robot_setup.mesh_copies import copy_meshes
from motion_nodes.robot_setup.package_search import PackageSearch
from motion_nodes.robot_setup.robot_yaml_text import URDF_FILE


def target_folder(output: str | Path | None, name: str, force: bool, *, unique_name: bool) -> Path:
    """Return the folder to create; raise an error if it cannot be created."""
    target = Path(output).expanduser().absolute() if output is not None else Path.cwd() / name
    if target.exists() and not force:
        raise InvalidConfig(
            f"{target} exists; choose another place with --output, or move it aside with --force."
        )
    known = available_robots() if unique_name else {}
    if name in known and known[name].parent != target:
        raise InvalidConfig(
            f"a robot called '{name}' exists: {known[name].parent}. Give this one another name "
            "with --name.",
            field=name,
        )
    if not target.parent.is_dir():
        raise InvalidConfig(
            f"{target.parent} is not a folder; create it first, or choose another --output.",
            field="output",
        )
    _draft(target).rmdir()
    return target


def _draft(target: Path) -> Path:
    """Create a temporary folder next to the final one, which also checks that it is writable."""
    try:
        return Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise InvalidConfig(
            f"{target.parent} cannot be written to ({error.strerror or error}); choose another "
            "--output."
        ) from None


def set_wheel_separation(folder: Path, separation: float) -> None:
    """Replace the wheel separation in a robot's folder by a measured one [m]."""
    file = folder / ROBOT_FILE
    line = re.compile(r"^( *wheel_separation:) .*$", re.MULTILINE)
    comment = "# measured in simulation: the wheels skid when the base turns"
    text = line.sub(rf"\1 {separation:.4g}  {comment}", file.read_text(encoding="utf-8"), count=1)
    file.write_text(text, encoding="utf-8")


def _write(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def write_folder(
    target: Path,
    files: Mapping[str, str | bytes],
    root: Any,
    search: PackageSearch,
    last: Callable[[Robot], Mapping[str, str | bytes]] = lambda _: {},
) -> Path | None:
    """Write a temporary folder, check that it loads, then rename it.

    Args:
        target: the folder.
        files: contents of other files than the URDF and its meshes, by name.
        root: the URDF's <robot>.
        search: locates mesh files.
        last: returns files that depend on the loaded robot.

    Returns:
        New path of the previous folder.
    """
    draft = _draft(target)
    try:
        draft.chmod(0o755)
        copy_meshes(root, search, draft)
        etree.indent(root)
        urdf = etree.tostring(root, encoding="unicode")
        (draft / URDF_FILE).write_text(f'<?xml version="1.0"?>\n{urdf}\n', encoding="utf-8")
        _write(draft, files)
        _write(draft, last(load_robot(draft)))
        kept = None
        if target.exists():
            numbered = (target.with_name(f"{target.name}.old{n}") for n in range(1, 10**6))
            kept = next(path for path in numbered if not path.exists())
            target.rename(kept)
        draft.rename(target)
    except OSError as error:
        raise InvalidConfig(f"{target}: cannot be written: {error.strerror or error}.") from None
    except (InvalidConfig, InvalidDescription) as error:
        text = str(error).replace(str(draft), str(target))
        raise type(error)(text, field=error.field) from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return kept
