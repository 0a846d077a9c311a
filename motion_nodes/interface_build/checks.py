# SPDX-License-Identifier: Apache-2.0
"""Requirements for compiling interfaces; each check fails with one sentence."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path

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
