# SPDX-License-Identifier: Apache-2.0
"""``ros2 launch``, ``run``, ``pkg`` and ``daemon`` without launch_ros and ros2cli."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from motion_nodes.bringup import suite
from motion_nodes.bringup.bringup_config import ARGUMENTS, CELL_ARGUMENTS, checked
from motion_nodes.errors import InvalidConfig, did_you_mean
from motion_nodes.ros.environment import share_folders

PACKAGE = "motion_nodes"
LAUNCH_FILES = {"bringup.launch.py": ARGUMENTS, "multi_robot.launch.py": CELL_ARGUMENTS}
"""Launch files without dependencies on other packages, and their arguments."""
RVIZ_FILES = ("view.launch.py", "moveit_rviz.launch.py")


def add_launch(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ros2 launch``."""
    parser.add_argument("package", help="motion_nodes")
    parser.add_argument("file", help=", ".join(LAUNCH_FILES))
    parser.add_argument("arguments", nargs="*", help="NAME:=VALUE", metavar="NAME:=VALUE")
    parser.add_argument("-s", "--show-args", action="store_true", help="list the arguments")
    parser.set_defaults(run=_launch)


def _launch(options: argparse.Namespace) -> int:
    if options.package != PACKAGE:
        raise InvalidConfig(
            f"launch files of '{options.package}' need launch_ros, which is not on PyPI; "
            f"here only those of {PACKAGE} can be run: {', '.join(LAUNCH_FILES)}"
        )
    if options.file in RVIZ_FILES:
        raise InvalidConfig(
            f"{options.file} starts RViz and needs a ROS installation with it; "
            "without one, the page of `motion up` shows the robots"
        )
    if options.file not in LAUNCH_FILES:
        raise InvalidConfig(
            f"there is no launch file '{options.file}'.{did_you_mean(options.file, LAUNCH_FILES)}"
        )
    arguments = LAUNCH_FILES[options.file]
    if options.show_args:
        for argument in arguments:
            allowed = f" One of: {', '.join(argument.choices)}." if argument.choices else ""
            print(f"    '{argument.name}':\n        {argument.description}{allowed}")
            print(f"        (default: '{argument.default}')")
        return 0
    values = checked(dict(suite.pair(text) for text in options.arguments), arguments)
    return suite.main([f"{name}:={value}" for name, value in _of_suite(values).items()])


def _of_suite(values: Mapping[str, str]) -> dict[str, str]:
    """Return the arguments of the bring-up for those of the launch file for several robots."""
    of_suite = dict(values)
    if "robots" in of_suite:
        of_suite["robot"] = of_suite.pop("robots")
        if of_suite.pop("rviz") == "true":
            raise InvalidConfig("rviz:=true needs a ROS installation with RViz")
    return of_suite


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ros2 run``."""
    parser.add_argument("package")
    parser.add_argument("executable")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if options.package == PACKAGE:
        from motion_nodes.nodes.registry import NODES

        known = sorted([*NODES, "container"])
        if options.executable not in known:
            raise InvalidConfig(
                f"{PACKAGE} has no executable '{options.executable}'."
                f"{did_you_mean(options.executable, known)}"
            )
        words = [sys.executable, "-m", "motion_nodes.nodes", options.executable]
        os.execv(sys.executable, [*words, *options.arguments])
    for share in share_folders():
        program = share.parent / "lib" / options.package / options.executable
        if os.access(program, os.X_OK):
            os.execv(program, [str(program), *options.arguments])
    raise InvalidConfig(f"there is no executable {options.package}/{options.executable}")


def add_pkg(parser: argparse.ArgumentParser) -> None:
    """Add the verbs of ``ros2 pkg``."""
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    verbs.add_parser("list", help="list packages").set_defaults(run=_pkg_list)
    prefix = verbs.add_parser("prefix", help="print the prefix of a package")
    prefix.add_argument("package")
    prefix.set_defaults(run=_pkg_prefix)
    executables = verbs.add_parser("executables", help="list the executables of a package")
    executables.add_argument("package")
    executables.set_defaults(run=_pkg_executables)


def _packages() -> dict[str, Path]:
    """Return the prefix of each package in the ament index; of this one also from a clone."""
    found = {PACKAGE: Path(sys.prefix)}
    for share in reversed(share_folders()):
        for marker in (share / "ament_index" / "resource_index" / "packages").glob("*"):
            found[marker.name] = share.parent
    return found


def _pkg_list(_options: argparse.Namespace) -> None:
    print("\n".join(sorted(_packages())))


def _prefix_of(package: str) -> Path:
    packages = _packages()
    if package not in packages:
        raise InvalidConfig(f"there is no package '{package}'.{did_you_mean(package, packages)}")
    return packages[package]


def _pkg_prefix(options: argparse.Namespace) -> None:
    print(_prefix_of(options.package))


def _pkg_executables(options: argparse.Namespace) -> None:
    folder = _prefix_of(options.package) / "lib" / options.package
    names = sorted(path.name for path in folder.glob("*") if os.access(path, os.X_OK))
    if options.package == PACKAGE:
        from motion_nodes.nodes.registry import NODES

        names = sorted([*NODES, "container"])
    print("\n".join(f"{options.package} {name}" for name in names))


def add_daemon(parser: argparse.ArgumentParser) -> None:
    """Add the verbs of ``ros2 daemon``, which have no effect."""
    parser.add_argument("verb", choices=("start", "stop", "status"))
    parser.set_defaults(run=_daemon)


def _daemon(_options: argparse.Namespace) -> None:
    print("there is no daemon: every command discovers the graph by itself")
