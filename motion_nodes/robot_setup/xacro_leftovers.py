# SPDX-License-Identifier: Apache-2.0
"""Remaining xacro expressions in a URDF: environment variables are substituted, others reported."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from motion_nodes.errors import InvalidDescription
from motion_nodes.robot_setup.notes import Notes, listed

_EXPRESSION = re.compile(r"\$\([^)]*\)|\$\{[^}]*\}")
_VARIABLE = re.compile(r"\$\((env|optenv)\s+([^\s)]+)\s*([^)]*)\)")


def needs_xacro(root: Any) -> bool:
    """Return whether there are expressions that require xacro."""
    return any(
        not _VARIABLE.fullmatch(found)
        for _, _, text in _texts(root)
        for found in _EXPRESSION.findall(text)
    )


def put_in_variables(root: Any, file: Path, findings: Notes) -> None:
    """Replace ``$(optenv NAME value)`` and ``$(env NAME)`` by environment variables.

    Args:
        root: the element ``<robot>``; its attributes are changed.
        file: for errors.
        findings: notes are added.

    Raises:
        InvalidDescription: an undefined variable, or another expression; names its line.
    """
    refused: list[str] = []
    for element, key, text in list(_texts(root)):
        if not _EXPRESSION.search(text):
            continue
        filled = _VARIABLE.sub(_value, text)
        where = f"line {element.sourceline}: {key} of <{element.tag}>"
        if left := _EXPRESSION.search(filled):
            refused.append(f"{where} contains {left.group()}")
            continue
        element.set(key, filled)
        findings.add("changed", "xacro", f"{where} was '{text}', now '{filled}'")
    if refused:
        raise InvalidDescription(
            f"{file}: it contains unexpanded xacro expressions: {listed(refused, 3)}. Replace them "
            "by values; or expand the file, with xacro installed (pip install xacro): "
            f"xacro {file.name} > expanded.urdf"
        )


def _texts(root: Any) -> Iterator[tuple[Any, str, str]]:
    """Yield element, name and text of all attributes of links and joints."""
    for part in [*root.findall("link"), *root.findall("joint")]:
        for element in part.iter():
            for key, text in element.attrib.items():
                yield element, key, text


def _value(found: re.Match[str]) -> str:
    word, name, default = found.groups()
    if word == "env" and name not in os.environ:
        return found.group()
    return os.environ.get(name, default.strip())
