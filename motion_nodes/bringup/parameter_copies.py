# SPDX-License-Identifier: Apache-2.0
"""Copies of the user's parameter files for one robot, which nodes read instead.

Files of vendors have variables of launch files in them, and names of joints that this robot does
not have, or that belong to chained controllers. The copies are in the cache, by their contents.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from motion_nodes.core.robot.yaml_schema import yaml_text
from motion_nodes.kernels.cache import writable_folder

VARIABLE = re.compile(r"\$\(var ([^()\s]+)\)")
"""A variable of a launch file, which ``ParameterFile(..., allow_substs=True)`` replaces there."""


def without_variables(text: str) -> tuple[str, list[str]]:
    """Return a text with empty variables of launch files, and their names."""
    return VARIABLE.sub("", text), list(dict.fromkeys(VARIABLE.findall(text)))


def copy_of(file: str, sections: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Write a copy of a parameter file; return its path.

    Args:
        file: path of the file.
        sections: full name of a node, and its parameters with dots, in the order of the file.
    """
    parts = [yaml_text({node: {"ros__parameters": _given(values)}}) for node, values in sections]
    text = f"# Written for one robot from {file}\n{''.join(parts)}"
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    path = _folder() / f"{Path(file).stem}-{key}.yaml"
    if not path.is_file():
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as written:
            written.write(text)
        Path(written.name).replace(path)
    return str(path)


def _folder() -> Path:
    """Return the folder of copies: in the cache, or a temporary one if nothing is writable."""
    kernels = writable_folder()
    if kernels is None:
        return Path(tempfile.mkdtemp(prefix="motion_nodes_parameters_"))
    folder = kernels.parent / "parameters"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that have a value, as ROS has no type for others."""
    return {name: value for name, value in values.items() if value is not None and value != []}
