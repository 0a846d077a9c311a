# SPDX-License-Identifier: Apache-2.0
"""Compile message packages to one wheel on top of the ROS 2 wheels from PyPI, and install it.

    python -m motion_nodes.interface_build [--source FOLDER] [--install] [--out DIR] [--print-path]
    python -m motion_nodes.interface_build --release DIR

Needs gcc, g++ and the headers of Python; nothing is downloaded. The wheel is kept in the user's
cache (XDG_CACHE_HOME or ~/.cache, motion_nodes/interfaces) under a key of all that it depends on,
so that a second clone or environment of the same kind reuses it. ``--source`` compiles packages of
your own: a folder with one folder per package, each with package.xml, msg/, srv/, action/.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from motion_nodes.interface_build.build import PACKAGES, install, provide, release
from motion_nodes.interface_build.declarations import BuildError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code: 0 done, 1 refused or failed, 130 interrupted."""
    cli = argparse.ArgumentParser(
        prog="interface_build", description=(__doc__ or "").splitlines()[0]
    )
    cli.add_argument("--out", type=Path, metavar="DIR", help="also copy the wheel to DIR")
    cli.add_argument("--release", type=Path, metavar="DIR", help="build a wheel for publication")
    cli.add_argument("--install", action="store_true", help="install it in this interpreter")
    cli.add_argument("--force", action="store_true", help="build and install even if present")
    cli.add_argument("--print-path", action="store_true", help="print the wheel's path to stdout")
    cli.add_argument("--source", type=Path, default=PACKAGES, help="declarations (%(default)s)")
    options = cli.parse_args(arguments)
    source = options.source.resolve()
    begin = time.monotonic()

    def progress(text: str) -> None:
        print(f"interfaces [{time.monotonic() - begin:5.1f} s] {text}", file=sys.stderr, flush=True)

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)  # so that temporary folders go in any case
    try:
        if options.release:
            print(release(source, options.release, progress))
            return 0
        built = provide(source, options.force, progress)
        if options.out:
            options.out.mkdir(parents=True, exist_ok=True)
            shutil.copy2(built, options.out)
        if options.install:
            install(source, built, options.force, progress)
        if options.print_path:
            print(built)
    except (BuildError, OSError) as error:
        print(f"interface_build: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interface_build: interrupted; nothing half-built was kept", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
