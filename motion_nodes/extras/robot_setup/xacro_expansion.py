# SPDX-License-Identifier: Apache-2.0
"""Expansion of xacro files, without a ROS installation.

xacro runs in another process, because a file may loop for ever. Packages are found by
:class:`~motion_nodes.extras.robot_setup.package_search.PackageSearch`, so that ``$(find NAME)``
works for packages that are not installed. Of expressions that remain in a URDF, environment
variables are substituted and others reported.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from motion_nodes.errors import InvalidDescription
from motion_nodes.extras.robot_setup.notes import Notes, listed
from motion_nodes.extras.robot_setup.package_search import PackageSearch

_TIMEOUT = 120.0
"""Max duration of an expansion [s]."""
_SHOWN = 12
"""Max number of arguments named in an error."""
_ARGUMENT = re.compile(r"\w+:=")
_DECLARED = re.compile(
    r"(?:<!--(?P<comment>(?:(?!-->).)*)-->\s*)?<xacro:arg\s(?P<rest>[^>]*)>", re.S
)
_MACRO = re.compile(r"<xacro:macro\s[^>]*?name\s*=\s*[\"']([^\"']+)")
_ATTRIBUTE = re.compile(r"(\w+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_EXPRESSION = re.compile(r"\$\([^)]*\)|\$\{[^}]*\}")
_VARIABLE = re.compile(r"\$\((env|optenv)\s+([^\s)]+)\s*([^)]*)\)")


@dataclass(frozen=True)
class Expansion:
    """Result of a xacro expansion."""

    urdf: str
    left_out: tuple[str, ...] = ()
    """Missing packages that were needed only for included files."""


@dataclass(frozen=True)
class XacroArgument:
    """An argument that a xacro file declares."""

    name: str
    default: str | None
    """Default value; None: required."""
    comment: str
    """Its documentation in the file; empty if none."""

    def __str__(self) -> str:
        default = "required" if self.default is None else f"default '{self.default}'"
        return f"{self.name} ({default}{f'; {self.comment}' if self.comment else ''})"


def split_arguments(text: str) -> tuple[str, dict[str, str]]:
    """Return file and arguments of a text such as ``robot.urdf.xacro name:=ur prefix:=left_``.

    Raises:
        InvalidDescription: a word after the file is not ``NAME:=VALUE``.
    """
    if not _ARGUMENT.search(text):
        return text, {}
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InvalidDescription(f"{text}: {error}.") from None
    return words[0], parse_arguments(words[1:])


def parse_arguments(words: Sequence[str]) -> dict[str, str]:
    """Return arguments by name.

    Args:
        words: ``NAME:=VALUE`` each.

    Raises:
        InvalidDescription: another form, or a name given twice.
    """
    given: dict[str, str] = {}
    for word in words:
        name, separator, value = word.partition(":=")
        if not separator or not name.isidentifier() or name in given:
            raise InvalidDescription(
                f"'{word}' is not an argument of xacro; write NAME:=VALUE, each name once."
            )
        given[name] = value
    return given


def declared_arguments(file: Path) -> tuple[XacroArgument, ...]:
    """Return the arguments that a file declares, without those of included files."""
    text = file.read_text(encoding="utf-8", errors="replace")
    found: dict[str, XacroArgument] = {}
    for match in _DECLARED.finditer(text):
        values = {name: one or other for name, one, other in _ATTRIBUTE.findall(match["rest"])}
        comment = " ".join((match["comment"] or "").split())
        if name := values.get("name"):
            found.setdefault(name, XacroArgument(name, values.get("default"), comment[:80]))
    return tuple(found.values())


def declared_macros(file: Path) -> tuple[str, ...]:
    """Return the names of the macros that a file defines, without those of included files."""
    text = file.read_text(encoding="utf-8", errors="replace")
    return tuple(dict.fromkeys(_MACRO.findall(text)))


def expand(
    file: Path, search: PackageSearch, arguments: Mapping[str, str] | None = None
) -> Expansion:
    """Return the URDF of a xacro file.

    Args:
        file: the xacro file.
        search: search path for packages.
        arguments: values of ``<xacro:arg>`` by name.

    Raises:
        InvalidDescription: xacro is not installed, rejects the file, or does not terminate; an
            argument has no value or is not declared.
    """
    request = {
        "file": str(file),
        "directory": str(search.directory),
        "paths": [str(path) for path in search.paths],
        "arguments": dict(arguments or {}),
    }
    command = [sys.executable, "-m", "motion_nodes.extras.robot_setup.xacro_expansion"]
    try:
        done = subprocess.run(
            command, input=json.dumps(request), capture_output=True, text=True, timeout=_TIMEOUT
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InvalidDescription(f"{file}: xacro could not be run: {error}.") from None
    if done.returncode != 0:
        last = " ".join(done.stderr.split("\n")[-4:]).strip() or "no error message"
        raise InvalidDescription(f"{file}: xacro failed: {last}")
    answer = json.loads(done.stdout)
    if "error" in answer:
        raise InvalidDescription(f"{file}: {answer['error']}{_hint(file)}")
    return Expansion(str(answer["urdf"]), tuple(answer["left_out"]))


def _hint(file: Path) -> str:
    """Return a hint with the arguments of a file, for errors: often one of them is missing."""
    declared = declared_arguments(file)
    if not declared:
        return ""
    shown = "; ".join(map(str, declared[:_SHOWN]))
    more = f"; and {len(declared) - _SHOWN} more" if len(declared) > _SHOWN else ""
    return f" Its arguments, given after it as NAME:=VALUE: {shown}{more}."


# ---- child process


class _Packages:
    """Resolves packages for xacro."""

    def __init__(self, search: PackageSearch, substitute: Path) -> None:
        self._search, self._substitute = search, substitute
        self.missing: dict[str, InvalidDescription] = {}

    def get_package_share_directory(self, package_name: str, *_: Any, **__: Any) -> str:
        """Return the folder of a package, or a substitute without files."""
        try:
            return str(self._search.package(package_name))
        except InvalidDescription as error:
            self.missing[package_name] = error
            return str(self._substitute / package_name)

    def install(self) -> None:
        """Replace the package lookup of xacro, whether ROS is installed or not."""
        package = ModuleType("ament_index_python")
        packages = ModuleType("ament_index_python.packages")
        packages.get_package_share_directory = self.get_package_share_directory  # type: ignore[attr-defined]
        packages.PackageNotFoundError = InvalidDescription  # type: ignore[attr-defined]
        package.packages = packages  # type: ignore[attr-defined]
        sys.modules.update({package.__name__: package, packages.__name__: packages})

    def add_missing_include(self, error: BaseException) -> bool:
        """Create an empty file for a missing include; return whether one was missing.

        Robots include macros of optional equipment from packages that are often not installed.
        """
        found = re.search(rf"{re.escape(str(self._substitute))}/[^'\"\s]+", str(error))
        file = Path(found[0]) if found else None
        if file is None or file.exists() or file.suffix not in (".xacro", ".urdf", ".xml"):
            return False
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("<robot/>")
        return True


def _expanded(request: Mapping[str, Any]) -> dict[str, Any]:
    try:
        import xacro  # type: ignore[import-untyped]
    except ImportError:
        return {"error": "is a xacro, and xacro is not installed: pip install xacro."}
    search = PackageSearch(Path(request["directory"]), tuple(map(Path, request["paths"])))
    file, given = Path(request["file"]), dict(request["arguments"])
    with tempfile.TemporaryDirectory() as folder:
        packages = _Packages(search, Path(folder))
        packages.install()
        while True:
            try:
                document = xacro.process_file(str(file), mappings=dict(given))
                break
            except Exception as error:
                if not packages.add_missing_include(error):
                    missing = [str(e) for e in packages.missing.values()]
                    return {"error": " ".join([_words(error), *missing])}
    # A misspelled name would otherwise be ignored. Included files also declare arguments.
    included = [Path(name) for name in getattr(xacro, "all_includes", [])]
    known = {name for f in (file, *included) if f.is_file() for name in _arguments_in(f)}
    unknown = [name for name in given if name not in known]
    if unknown:
        return {"error": f"has no argument {', '.join(unknown)}."}
    return {"urdf": document.toxml(), "left_out": sorted(packages.missing)}


def _arguments_in(file: Path) -> set[str]:
    """Return the arguments that a file declares or uses."""
    used = re.findall(r"\$\(arg\s+(\w+)\s*\)", file.read_text(encoding="utf-8", errors="replace"))
    return {*used, *(argument.name for argument in declared_arguments(file))}


def _words(error: BaseException) -> str:
    """Return the message of an error of xacro."""
    text = " ".join(str(error).split()) or type(error).__name__
    if match := re.search(r"[Uu]ndefined substitution argument (\w+)", text):
        return f"the argument {match[1]} has no value."
    return f"xacro cannot expand it: {text[:400]}."


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


if __name__ == "__main__":
    print(json.dumps(_expanded(json.load(sys.stdin))))
