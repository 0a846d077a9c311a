#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds sdist and wheel, checks them in an empty environment, and writes the release files.

    python tools/release.py [--skip-robot]

Needs the package ``build``; pip installs the dependencies from its index into a temporary folder.
Writes dist/: sdist, wheel, SHA256SUMS, RELEASE_NOTES.md, and for each Python of 3.11 to 3.13 found
a wheel of the compiled message packages, so that ``pip install motion-nodes[ros]`` compiles
nothing on machines of this kind.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
PYTHONS = ("python3.11", "python3.12", "python3.13")
INTERFACES = ROOT / "motion_nodes" / "interface_build" / "packages"
NEEDED = (
    "motion_nodes/py.typed",
    "motion_nodes/__init__.pyi",
    "motion_nodes/robots/franka/robot.yaml",
    "motion_nodes/robots/franka/meshes/panda_link0.obj",
    "motion_nodes/interface_build/packages/NAME",
    "motion_nodes/interface_build/packages/moveit_msgs/action/MoveGroup.action",
)
"""Required files of wheel and sdist, one of each kind."""


class ReleaseError(Exception):
    """The release failed; the text is the reason."""


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"release: {text}", flush=True)


def run(*command: object, folder: Path = ROOT) -> str:
    """Run a command and return its output.

    Raises:
        ReleaseError: it failed; contains the end of its output.
    """
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        raise ReleaseError(f"'{' '.join(words)}' failed:\n{done.stdout[-3000:]}")
    return done.stdout


def version() -> str:
    """Return the version, which must be equal in all files.

    Raises:
        ReleaseError: two files differ.
    """
    found = {
        "motion_nodes/__init__.py": _match("motion_nodes/__init__.py", r'__version__ = "(.+)"'),
        "CITATION.cff": _match("CITATION.cff", r"^version: (.+)$"),
        "package.xml": ET.parse(ROOT / "package.xml").findtext("version", ""),
    }
    if len(set(found.values())) != 1:
        raise ReleaseError(f"versions differ: {found}")
    return next(iter(found.values()))


def _match(file: str, pattern: str) -> str:
    match = re.search(pattern, (ROOT / file).read_text("utf-8"), re.MULTILINE)
    return match[1] if match else ""


def notes(number: str) -> str:
    """Return the changelog's section of a version, else that of unreleased changes.

    Raises:
        ReleaseError: there is neither.
    """
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    for title in (re.escape(number), "Unreleased"):
        section = re.search(rf"^## \[?{title}\b.*?\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.M)
        if section:
            return f"# motion_nodes {number}\n\n{section[1].strip()}\n"
    raise ReleaseError(f"CHANGELOG.md has no section of {number} and no 'Unreleased'")


def built(number: str) -> tuple[Path, Path]:
    """Build and return sdist and wheel.

    Raises:
        ReleaseError: the build failed, or a required file is missing.
    """
    say("building sdist and wheel")
    for old in (*DIST.glob("*.whl"), *DIST.glob("*.tar.gz")):
        old.unlink()
    # The extra "ros" of this wheel then needs the wheels of message packages.
    os.environ["MOTION_NODES_INTERFACES"] = (INTERFACES / "VERSION").read_text("utf-8").strip()
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT)
    sdist, wheel = DIST / f"motion_nodes-{number}.tar.gz", next(DIST.glob("*.whl"))
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()}
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = set(archive.namelist())
    missing = [f"sdist: {n}" for n in (*NEEDED, "requirements/run.txt") if n not in in_sdist]
    missing += [f"wheel: {n}" for n in NEEDED if n not in in_wheel]
    if missing:
        raise ReleaseError(f"missing in {', '.join(missing)}")
    return sdist, wheel


def message_wheels() -> list[Path]:
    """Build and return the wheels of compiled message packages, one for each Python found.

    Raises:
        ReleaseError: a build failed.
    """
    own_name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    # A name on the PATH may be a shim of a version that is not there.
    works = [
        n
        for n in PYTHONS
        if shutil.which(n) and not subprocess.run([n, "-c", ""], capture_output=True).returncode
    ]
    for python in [sys.executable, *(name for name in works if name != own_name)]:
        say(f"compiling the message packages for {python}")
        with tempfile.TemporaryDirectory(prefix="motion_nodes-release-") as name:
            run(python, "-m", "venv", name)
            own = Path(name) / "bin" / "python"
            files = ("-c", "requirements/constraints.txt", "-r", "requirements/ros.txt")
            run(own, "-m", "pip", "install", "-q", "--no-compile", *files)
            run(own, "-m", "motion_nodes.interface_build", "--release", DIST)
    return sorted(DIST.glob("motion_nodes_interfaces-*.whl"))


def check(wheel: Path, *, with_robot: bool) -> None:
    """Install the wheel in an empty environment and use it from an empty folder.

    Raises:
        ReleaseError: a check failed.
    """
    with tempfile.TemporaryDirectory(prefix="motion_nodes-release-") as name:
        folder = Path(name)
        venv.create(folder / "env", with_pip=True)
        programs = folder / "env" / "bin"
        extra = "[ros]" if with_robot else ""
        say(f"installing {wheel.name}{extra} in an empty environment")
        install = ("install", "-q", "--find-links", DIST)
        run(programs / "pip", *install, f"{wheel}{extra}", folder=folder)
        run(programs / "motion", "fk", "franka", "--state", "ready", folder=folder)
        if with_robot:
            say("moving a robot")
            _move_a_robot(programs, folder)


def _move_a_robot(programs: Path, folder: Path) -> None:
    log = folder / "up.log"
    environment = os.environ | {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
    if "compiling" in run(programs / "motion", "setup", folder=folder):
        raise ReleaseError("the message packages of the wheel are not those of its declarations")
    with log.open("w") as file:
        suite = subprocess.Popen(
            [str(programs / "motion"), "up", "franka", "--viewer", "none"],
            cwd=folder, stdout=file, stderr=subprocess.STDOUT, env=environment,
        )  # fmt: skip
    try:
        run(programs / "motion", "wait", "franka", "--timeout", "300", folder=folder)
        run(programs / "motion", "go", "franka", "--to", "ready", folder=folder)
        run(programs / "motion", "ros", "topic", "echo", "--once", "/joint_states", folder=folder)
    except ReleaseError as error:
        raise ReleaseError(f"{error}\n{log.read_text()[-3000:]}") from None
    finally:
        suite.terminate()
        suite.wait(60)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the release files; return the exit code."""
    cli = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    cli.add_argument("--skip-robot", action="store_true", help="check without ROS")
    options = cli.parse_args(arguments)
    try:
        number = version()
        text = notes(number)
        sdist, wheel = built(number)
        messages = message_wheels()
        check(wheel, with_robot=not options.skip_robot)
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    sums = [
        f"{hashlib.sha256(f.read_bytes()).hexdigest()}  {f.name}" for f in (sdist, wheel, *messages)
    ]
    (DIST / "SHA256SUMS").write_text("\n".join([*sums, ""]))
    (DIST / "RELEASE_NOTES.md").write_text(text, "utf-8")
    say(f"{number} is in {DIST}: tag v{number}, upload its archives, those of messages first")
    return 0


if __name__ == "__main__":
    sys.exit(main())
