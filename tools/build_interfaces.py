#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compile the message packages declared in interfaces/ to one wheel, and install it.

    python tools/build_interfaces.py [--install] [--out DIR] [--print-path] [--force]

For work without a ROS installation: on top of the ROS 2 wheels from PyPI, which must be installed
in the interpreter that runs this, with gcc, g++ and the headers of Python. Nothing is downloaded.
The wheel is kept in the user's cache (XDG_CACHE_HOME or ~/.cache, motion_nodes/interfaces) under a
key of all that it depends on, so that a second clone or environment of the same kind reuses it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import interfaces_checks as checks
import interfaces_wheel as wheels
from interfaces_checks import BuildError
from interfaces_compile import compile_and_link
from interfaces_declarations import declared_files, read_packages
from interfaces_generate import Say, Workplace, generate

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent / "interfaces"
TOOLS = [Path(__file__).resolve(), *HERE.glob("interfaces_*.py")]


def build(source: Path, version: str, target: Path, say: Say) -> None:
    """Build the packages below source into the wheel target.

    Args:
        source: folder of the declarations.
        version: of the wheel.
        target: path of the wheel; it appears whole or not at all.
        say: takes one line of progress.

    Raises:
        BuildError: something is missing or wrong; says what.
    """
    cc, cxx = checks.compilers(os.environ)
    checks.check_python_headers()
    prefix = Path(sys.prefix)
    say(f"reading {source}")
    packages = read_packages(source, prefix / "share")
    with tempfile.TemporaryDirectory(prefix="motion_nodes_interfaces_") as folder:
        work, data, platlib = (Path(folder) / name for name in ("work", "data", "platlib"))
        for path in (work, data, platlib):
            path.mkdir()
        place = Workplace(work, data, platlib, prefix, cc, cxx)
        generate(packages, place, say)
        compile_and_link(packages, place, say)
        say("packing the wheel")
        wheels.pack(data, platlib, version, target)


def provide(source: Path, force: bool, say: Say) -> tuple[Path, str]:
    """Return the wheel for the declarations and its version, from the cache or newly built.

    Args:
        source: folder of the declarations.
        force: build even if the cache has it.
        say: takes one line of progress.

    Raises:
        BuildError: it cannot be built; says why.
    """
    names = {file.parent.name for file in declared_files(source) if file.name == "package.xml"}
    checks.check_no_sourced_ros(os.environ, names)
    checks.check_wheels()
    facts = wheels.interpreter_facts()
    key = wheels.build_key(source, TOOLS, facts)
    version = wheels.wheel_version(source, key)
    folder = wheels.cache_folder(os.environ)
    target = folder / wheels.wheel_name(version)
    with wheels.locked(folder, say):
        if not force and wheels.is_whole(target):
            say(f"found in the cache: {target.name}")
            target.touch()
        else:
            begin = time.monotonic()
            build(source, version, target, say)
            if wheels.build_key(source, TOOLS, facts) != key:
                target.unlink()
                raise BuildError(f"{source} or the tool changed during the build; run it again.")
            say(f"built {target.name} in {time.monotonic() - begin:.0f} s")
        wheels.prune(folder)
    return target, version


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code: 0 done, 1 refused or failed, 130 interrupted."""
    cli = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    cli.add_argument("--out", type=Path, metavar="DIR", help="also copy the wheel to DIR")
    cli.add_argument("--install", action="store_true", help="install it in this interpreter")
    cli.add_argument("--force", action="store_true", help="build and install even if present")
    cli.add_argument("--print-path", action="store_true", help="print the wheel's path to stdout")
    cli.add_argument("--source", type=Path, default=SOURCE, help="declarations (%(default)s)")
    options = cli.parse_args(arguments)
    begin = time.monotonic()

    def say(text: str) -> None:
        print(f"interfaces [{time.monotonic() - begin:5.1f} s] {text}", file=sys.stderr, flush=True)

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)  # so that temporary folders go in any case
    try:
        wheel, version = provide(options.source.resolve(), options.force, say)
        if options.out:
            options.out.mkdir(parents=True, exist_ok=True)
            shutil.copy2(wheel, options.out)
        if options.install:
            if wheels.is_installed(version) and not options.force:
                say("this build is already installed")
            else:
                wheels.install(wheel)
                say(f"installed in {sys.prefix}")
        if options.print_path:
            print(wheel)
    except (BuildError, OSError) as error:
        print(f"build_interfaces: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("build_interfaces: interrupted; nothing half-built was kept", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
