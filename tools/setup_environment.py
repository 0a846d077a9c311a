#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Creates the environment in .venv: ROS 2 from wheels, libraries, interfaces, this package.

    python3 tools/setup_environment.py [--test]

Needs Python 3.11 to 3.13, a C++ compiler and, for the first run, the network. Does nothing if the
environment matches the requirements, so every make target may call it.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
REQUIREMENTS = ROOT / "requirements"
INTERFACES = ROOT / "motion_nodes" / "interface_build"
DEMO = ["ros", "run", "sim", "viewer", "policy", "learn", "mcp"]
"""Requirements of the demo; those of the tests are added."""
OLDEST, NEWEST = (3, 11), (3, 13)


class SetupError(Exception):
    """The setup failed; the text contains reason and remedy."""


def check_machine() -> None:
    """Check Python, ROS, compiler and headers.

    Raises:
        SetupError: states what is missing and how to install it.
    """
    version = sys.version_info[:2]
    if not OLDEST <= version <= NEWEST:
        raise SetupError(
            f"this is Python {version[0]}.{version[1]}, but ROS 2 wheels need Python 3.11 to 3.13; "
            "call make with another one, such as: make demo PYTHON=python3.12"
        )
    distro = os.environ.get("ROS_DISTRO")
    if distro or os.environ.get("AMENT_PREFIX_PATH"):
        raise SetupError(
            f"a ROS installation{f' ({distro})' if distro else ''} is sourced in this shell, and "
            "ROS wheels must not be mixed with it. Either build the package in a workspace "
            "(rosdep install --from-paths . -y; colcon build), or use a shell without it"
        )
    compiler = os.environ.get("CXX") or "g++"
    if not shutil.which(compiler.split()[0]):
        raise SetupError(
            f"no C++ compiler: '{compiler}' was not found. On Debian and Ubuntu: "
            "sudo apt install g++"
        )
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        raise SetupError(
            f"the headers of Python {version[0]}.{version[1]} are missing. On Debian and Ubuntu: "
            f"sudo apt install python{version[0]}.{version[1]}-dev"
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        raise SetupError(
            "Python's venv module is missing. On Debian and Ubuntu: "
            f"sudo apt install python{version[0]}.{version[1]}-venv"
        ) from None


def fingerprint(kinds: Sequence[str]) -> str:
    """Return a hash of all inputs of the environment."""
    digest = hashlib.sha256()
    files = [REQUIREMENTS / f"{kind}.txt" for kind in (*kinds, "constraints")]
    files += [ROOT / "pyproject.toml", ROOT / "setup.py"]
    files += sorted(
        path for path in INTERFACES.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    )
    for path in files:
        digest.update(os.path.relpath(path, ROOT).encode())
        digest.update(path.read_bytes())
    # The base's: make may be called with the environment activated or not.
    digest.update(f"{sys.version}{sys.base_prefix}{ROOT}".encode())
    return digest.hexdigest()


def python() -> Path:
    """Return the environment's interpreter."""
    return VENV / "bin" / "python"


def run(*command: object) -> None:
    """Run a command without output.

    Raises:
        SetupError: the command failed; contains the last lines of its output.
    """
    done = subprocess.run(
        [str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-15:])
        raise SetupError(f"'{' '.join(map(str, command))}' failed:\n{tail}")


def pip(*arguments: object) -> list[object]:
    """Return a pip command for the environment with pinned versions."""
    return [
        python(), "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-compile",
        "-c", REQUIREMENTS / "constraints.txt", *arguments,
    ]  # fmt: skip


class Progress:
    """Prints steps and elapsed time."""

    def __init__(self, steps: int) -> None:
        """Prepare for a number of steps."""
        self._steps, self._step, self._begin = steps, 0, time.monotonic()

    def __call__(self, text: str) -> None:
        """Announce the next step."""
        self._step += 1
        seconds = time.monotonic() - self._begin
        print(f"[{self._step}/{self._steps}] {text} ({seconds:.0f} s so far)", flush=True)


def install(kinds: Sequence[str]) -> None:
    """Install everything; compile while downloading."""
    say = Progress(5)
    if not python().exists():
        say(f"making {VENV.name} with Python {sys.version.split()[0]}")
        run(sys.executable, "-m", "venv", VENV)
    else:
        say(f"{VENV.name} exists")
    say("installing ROS 2 Jazzy from wheels (65 MB)")
    run(*pip("-r", REQUIREMENTS / "ros.txt"))
    say("compiling message packages, meanwhile installing libraries (200 MB)")
    interfaces = subprocess.Popen(
        [str(python()), "-m", "motion_nodes.interface_build", "--print-path"], cwd=ROOT,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        listed = [
            part for kind in kinds if kind != "ros" for part in ("-r", REQUIREMENTS / f"{kind}.txt")
        ]
        run(*pip(*listed))
        say("waiting for the compiler")
        output, _ = interfaces.communicate()
    finally:
        interfaces.kill()
    if interfaces.returncode:
        raise SetupError(f"compiling the message packages failed:\n{output.strip()}")
    say("installing the message packages and motion_nodes")
    run(*pip("--no-deps", "--no-build-isolation", "--no-index", "-e", ROOT))
    run(python(), "-m", "motion_nodes.interface_build", "--install")
    run(python(), "-m", "motion_nodes.cli.main", "setup")


def main() -> int:
    """Set up what is missing; return the exit code."""
    cli = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    cli.add_argument("--test", action="store_true", help="also what the tests need")
    args = cli.parse_args()
    wanted = [*DEMO, "test"] if args.test else DEMO
    try:
        check_machine()
        # An environment for the tests is also one for the demo.
        for kinds in ([*DEMO, "test"], wanted):
            stamp = VENV / f"made-for-{'-'.join(kinds)}"
            if stamp.exists() and stamp.read_text() == fingerprint(kinds):
                return 0
        begin = time.monotonic()
        print(f"setting up {VENV} (once)", flush=True)
        for old in VENV.glob("made-for-*"):
            old.unlink()
        install(wanted)
        (VENV / f"made-for-{'-'.join(wanted)}").write_text(fingerprint(wanted))
        print(f"the environment is ready after {time.monotonic() - begin:.0f} s", flush=True)
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("setup: interrupted; run it again to continue", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
