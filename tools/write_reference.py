# SPDX-License-Identifier: Apache-2.0
"""Writes what is derived from the public names in ``motion_nodes/__init__.py``.

That is docs/reference.md, from their docstrings, and ``__init__.pyi``, for type checkers.
``python tools/write_reference.py`` writes both; ``--check`` only reports whether they are current
(exit code 1 if not).
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import itertools
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import motion_nodes as mn
from motion_nodes.settings import KEY

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference.md"
STUB = ROOT / "motion_nodes" / "__init__.pyi"
DO_NOT_EDIT = "<!-- Written by tools/write_reference.py from docstrings; edit those instead. -->"
HEAD = """# Reference

The public API, `import motion_nodes as mn`. Units are metres, radians and seconds. Poses are
homogeneous matrices of shape (4, 4); `X_AB` is the pose of frame B in A. Quaternions are `xyzw`.
Names are imported lazily, so importing the package takes milliseconds. Invalid input raises a
`MotionError`; expected failures, such as a target out of reach, are results with `success` and
`reason`.
"""
STUB_HEAD = '''# SPDX-License-Identifier: Apache-2.0
"""Public names for type checkers; written by tools/write_reference.py from ``__init__.py``."""
'''
STUB_TAIL = """
__version__: str
_SECTIONS: dict[str, dict[str, str]]
"""


def page() -> str:
    """Return docs/reference.md."""
    lines = [DO_NOT_EDIT, HEAD]
    for title, names in mn._SECTIONS.items():
        lines += [f"## {title}", ""]
        for name in names:
            value = getattr(mn, name)
            lines += list(_class(name, value) if inspect.isclass(value) else _function(name, value))
    return "\n".join(lines).rstrip() + "\n"


def stub() -> str:
    """Return ``motion_nodes/__init__.pyi``."""
    places = {name: module for names in mn._SECTIONS.values() for name, module in names.items()}
    lines = [STUB_HEAD]
    for name, module in sorted(places.items(), key=lambda place: place[::-1]):
        line = f"from motion_nodes.{module} import {name} as {name}"
        if len(line) > 100:
            line = f"from motion_nodes.{module} import (\n    {name} as {name},\n)"
        lines.append(line)
    return "\n".join([*lines, STUB_TAIL])


def _function(name: str, function: Callable[..., Any], level: str = "###") -> Iterator[str]:
    signature = str(inspect.signature(function)).replace("self, ", "").replace("(self)", "()")
    yield from (f"{level} {name}", "", "```text", f"{name}{_short(signature)}", "```", "")
    yield from (*_prose(inspect.getdoc(function) or ""), "")


def _class(name: str, cls: type) -> Iterator[str]:
    yield from (f"### {name}", "", *_prose(inspect.getdoc(cls) or ""), "")
    attributes = [*_fields(cls), *_properties(cls)]
    for attribute, text in attributes:
        yield f"- `{attribute}`: {text}"
    if attributes:
        yield ""
    for member, value in _members(cls):
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if not member.startswith("_") and inspect.isfunction(function):
            yield from _function(f"{name}.{member}", function, "####")


def _members(cls: type) -> Iterator[tuple[str, object]]:
    """Yield the members of a class, after those of its base classes in the public API."""
    for base in reversed(cls.__mro__):
        if base is cls or base.__module__.startswith("motion_nodes."):
            yield from vars(base).items()


def _fields(cls: type) -> Iterator[tuple[str, str]]:
    """Yield annotated attributes, of the class or of ``self``, with their docstrings."""
    if issubclass(cls, enum.Enum):
        return
    body = ast.parse(inspect.getsource(cls)).body[0]
    assert isinstance(body, ast.ClassDef)
    init = [f for f in body.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"]
    documented: dict[str, str] = {}
    for statements in (body.body, *(function.body for function in init)):
        for node, text in itertools.pairwise(statements):
            name = _attribute(node)
            if name and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                documented[name] = str(text.value.value)
    entries = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    for entry in entries:
        if KEY in entry.metadata:
            documented[entry.name] = entry.metadata[KEY].text
    fields = [entry.name for entry in entries]
    for name in fields or list(getattr(cls, "_fields", ())) or documented:
        if not name.startswith("_"):
            yield name, _joined(documented[name])


def _attribute(node: ast.stmt) -> str:
    """Return the name of an assigned attribute, empty for other statements."""
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    if isinstance(target, ast.Attribute):
        return target.attr
    return target.id if isinstance(target, ast.Name) else ""


def _properties(cls: type) -> Iterator[tuple[str, str]]:
    for name, value in _members(cls):
        function = getattr(value, "fget", None) or getattr(value, "func", None)
        if not name.startswith("_") and function is not None:
            yield name, _joined(inspect.getdoc(function) or "")


def _prose(text: str) -> Iterator[str]:
    """Yield a docstring as Markdown: sections become bold headings, their entries lists."""
    for line in _plain(text).splitlines():
        if re.fullmatch(r"(Args|Returns|Raises):", line):
            yield from (f"**{line}**", "")
        elif entry := re.fullmatch(r"    ([\w, *]+): (.*)", line):
            yield f"- `{entry[1]}`: {entry[2]}"
        else:
            yield f"  {line.strip()}" if line.startswith("        ") else line.strip()


def _plain(text: str) -> str:
    text = re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", text)
    return text.replace("``", "`")


def _joined(text: str) -> str:
    return " ".join(_plain(text).split())


def _short(signature: str) -> str:
    """Return a signature without the modules of its types; numbers such as 0.5 are kept."""
    return re.sub(r"\b(?:[A-Za-z_]\w*\.)+(\w+)", r"\1", signature).replace("'", "")


def main() -> int:
    """Write the files, or check them; return the exit code."""
    code = 0
    for file, text in ((STUB, stub()), (PAGE, page())):
        if "--check" not in sys.argv:
            file.write_text(text, encoding="utf-8")
            continue
        current = file.is_file() and file.read_text(encoding="utf-8") == text
        print(f"{file.name} is {'current' if current else 'out of date: run ' + sys.argv[0]}")
        code = code if current else 1
    return code


if __name__ == "__main__":
    sys.exit(main())
