# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel of some message packages, or finds it in the user's cache, and installs it."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import time
from pathlib import Path

from motion_nodes.interface_build import checks, wheel
from motion_nodes.interface_build.checks import BuildError
from motion_nodes.interface_build.compilation import compile_and_link
from motion_nodes.interface_build.declarations import declared_files, package_names, read_packages
from motion_nodes.interface_build.generation import Progress, Workplace, generate

PACKAGES = Path(__file__).resolve().parent / "packages"
"""Declarations of the suite's own packages."""
TOOLS = sorted(Path(__file__).resolve().parent.glob("*.py"))


def build(source: Path, version: str, target: Path, progress: Progress) -> None:
    """Build the packages below source into the wheel target.

    Args:
        source: folder of the declarations.
        version: of the wheel.
        target: path of the wheel; it appears whole or not at all.
        progress: called with a line of progress.

    Raises:
        BuildError: names what is missing or invalid.
    """
    cc, cxx = checks.compilers(os.environ)
    checks.check_python_headers()
    prefix = Path(sys.prefix)
    progress(f"reading {source}")
    packages = read_packages(source, prefix / "share")
    with tempfile.TemporaryDirectory(prefix="motion_nodes_interfaces_") as folder:
        work, data, platlib = (Path(folder) / name for name in ("work", "data", "platlib"))
        for path in (work, data, platlib):
            path.mkdir()
        place = Workplace(work, data, platlib, prefix, cc, cxx)
        generate(packages, place, progress)
        compile_and_link(packages, place, progress)
        progress("packing the wheel")
        wheel.pack(data, platlib, version, target)


def provide(source: Path, force: bool, progress: Progress) -> Path:
    """Return the wheel for the declarations, from the cache or newly built.

    Args:
        source: folder of the declarations.
        force: build even if the cache has it.
        progress: called with a line of progress.

    Raises:
        BuildError: it cannot be built; contains the reason.
    """
    checks.check_no_sourced_ros(os.environ, package_names(source))
    checks.check_wheels()
    facts = wheel.interpreter_facts()
    key = wheel.build_key(source, TOOLS, facts)
    version = wheel.wheel_version(source, key)
    folder = wheel.cache_folder(os.environ)
    target = folder / wheel.wheel_name(wheel.distribution_name(source), version)
    with wheel.locked(folder, progress):
        if not force and wheel.is_whole(target):
            progress(f"found in the cache: {target.name}")
            target.touch()
        else:
            begin = time.monotonic()
            build(source, version, target, progress)
            if wheel.build_key(source, TOOLS, facts) != key:
                target.unlink()
                raise BuildError(f"{source} or the tool changed during the build; run it again.")
            progress(f"built {target.name} in {time.monotonic() - begin:.0f} s")
        wheel.prune(folder)
    return target


def install(source: Path, built: Path, force: bool, progress: Progress) -> None:
    """Install a wheel of declarations in this interpreter, unless it is there already.

    Raises:
        BuildError: another distribution has one of its packages, or pip refuses.
    """
    if wheel.is_installed(built) and not force:
        progress("this build is already installed")
        return
    wheel.check_no_other_owner(wheel.distribution_name(source), package_names(source))
    with wheel.locked(wheel.cache_folder(os.environ), progress):
        wheel.install(built)
    importlib.invalidate_caches()
    progress(f"installed in {sys.prefix}")


def outdated_packages(source: Path = PACKAGES) -> list[str]:
    """Return the packages that are not installed in this environment as they are declared.

    The installed declarations themselves are compared: no hash or version can be forgotten.
    """
    share = Path(sys.prefix) / "share"
    outdated = set()
    for file in declared_files(source):
        try:
            same = (share / file.relative_to(source)).read_bytes() == file.read_bytes()
        except OSError:
            same = False
        if not same:
            outdated.add(file.relative_to(source).parts[0])
    return sorted(outdated)
