# SPDX-License-Identifier: Apache-2.0
"""Load a robot from its URDF alone: the content of robot.yaml is derived once and cached.

Mobile manipulators that are mounted from two robots are cached, too.

The cache is ``$MOTION_NODES_CACHE_DIR/robots`` if that variable is set, else
``$XDG_CACHE_HOME/motion_nodes/robots``, else ``~/.cache/motion_nodes/robots``. The key of an entry
is a hash of the URDF, of its referenced files, and of the code that derives the robot.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import logging
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from motion_nodes.core.robot.loader import ROBOT_FILE, SOURCES, load_robot
from motion_nodes.errors import InvalidConfig, InvalidDescription
from motion_nodes.extras.robot_setup.package_search import PackageSearch
from motion_nodes.extras.robot_setup.robot_source import search_from
from motion_nodes.extras.robot_setup.xacro_expansion import expand, split_arguments
from motion_nodes.kernels.cache import lock, open_private, preferred_folder

Progress = Callable[[str], None]

_LOG = logging.getLogger(__name__)
_FILENAME = re.compile(rb"file(?:name)?\s*=\s*[\"']([^\"']+)[\"']")
_FOLDER = re.compile(rb"(?:asset|mesh|texture)dir\s*=\s*[\"']([^\"']+)[\"']")
"""Folders of an MJCF's files."""
_ROOMS = ("core/robot", "extras/robot_setup", "core/scene")
"""Packages whose code derives a robot."""


def derived_from(
    text: str, package_paths: Sequence[str | Path] = (), progress: Progress | None = None
) -> Path | None:
    """Return the folder of a robot that is given as a file; None if there is no such file.

    Args:
        text: URDF, MJCF or xacro file, the latter also with arguments.
        package_paths: folders to search for ``package://`` names.
        progress: called with the steps.

    Raises:
        InvalidDescription, InvalidConfig: as :func:`derived_folder`.
    """
    file, arguments = split_arguments(text)
    path = Path(file).expanduser()
    if path.suffix not in SOURCES or not path.is_file():
        return None
    return derived_folder(path.absolute(), package_paths, arguments, progress)


def derived_folder(
    urdf: Path,
    package_paths: Sequence[str | Path] = (),
    arguments: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Return the folder with the robot.yaml derived from a URDF, created if not cached.

    Args:
        urdf: URDF or xacro file.
        package_paths: folders to search for ``package://`` names.
        arguments: xacro arguments by name.
        progress: called with the steps.

    Raises:
        InvalidDescription: the URDF cannot be used; names file, line and remedy.
        InvalidConfig: the cache cannot be written.
    """

    def create(folder: Path) -> None:
        # Imported on demand: slow, and needed once per robot.
        from motion_nodes.extras.robot_setup.new_robot import new_robot

        _LOG.warning(
            "%s has no robot.yaml; deriving groups, limits, drives and collision spheres, once, "
            "for ten seconds to a minute", urdf,
        )  # fmt: skip
        made = new_robot(
            urdf,
            output=folder,
            package_paths=package_paths,
            arguments=arguments,
            force=True,
            unique_name=False,
            picture=False,
            progress=progress,
        )
        notes = "".join(f"\n  {item.topic}: {item.text}" for item in made.findings)
        _LOG.warning(
            "%s: derived from the file:%s\n'motion new %s' writes a folder in which all of it can "
            "be corrected", urdf, notes, urdf,
        )  # fmt: skip

    return _cached(_digest(urdf, package_paths, arguments or {}), create)


def mounted_folder(
    base: str, arm: str, xyz: tuple[float, float, float], progress: Progress | None = None
) -> Path:
    """Return the folder of a mobile manipulator, created if not cached.

    Args:
        base: name of a wheeled robot.
        arm: name of an arm.
        xyz: position of the arm's root link in the base frame [m].
        progress: called with the steps.

    Raises:
        InvalidConfig: the arm cannot be mounted there, or the cache cannot be written.
        RobotNotFound, InvalidDescription: as the loader.
    """
    sha = hashlib.sha256(_code_digest())
    for name in (base, arm):
        folder = load_robot(name).directory
        for file in sorted(folder.glob("*.yaml")) + sorted(folder.glob("*.urdf")):
            sha.update(str(file).encode() + file.read_bytes())
    sha.update(repr(xyz).encode())

    def create(folder: Path) -> None:
        # Imported on demand: slow, and needed once per robot.
        from motion_nodes.extras.robot_setup.mounted_arm import ArmMount, mount_arm

        mount_arm(
            base, arm, ArmMount(xyz),
            output=folder, force=True, unique_name=False, progress=progress,
        )  # fmt: skip

    return _cached(sha.hexdigest()[:32], create)


def _cached(key: str, create: Callable[[Path], None]) -> Path:
    """Return the folder of a cache entry, created if missing; one process at a time."""
    cache = _cache_folder()
    folder = cache / key
    with _locked(cache / f"{key}.lock"):
        if not (folder / ROBOT_FILE).is_file():
            create(folder)
    return folder


def _cache_folder() -> Path:
    kernels = preferred_folder()
    if kernels is None:
        raise InvalidConfig(
            "there is no home folder; set MOTION_NODES_CACHE_DIR to a writable folder."
        )
    folder = kernels.parent / "robots"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise InvalidConfig(
            f"{folder} cannot be made ({error.strerror}); set MOTION_NODES_CACHE_DIR to a writable "
            "folder, or make a robot's folder with 'motion new'."
        ) from None
    return folder


def _digest(urdf: Path, package_paths: Sequence[str | Path], arguments: Mapping[str, str]) -> str:
    """Return a hash of everything that a derived robot depends on."""
    try:
        text = urdf.read_bytes()
    except OSError as error:
        raise InvalidConfig(f"{urdf} cannot be read: {error.strerror}.") from None
    search = search_from(urdf, package_paths)
    if ".xacro" in urdf.suffixes:  # it also depends on included files
        text = expand(urdf, search, arguments).urdf.encode()
    sha = hashlib.sha256(_code_digest())
    sha.update(str(urdf).encode())
    sha.update(text)
    for path in sorted(_referenced(text, search)):
        sha.update(str(path).encode() + str(path.stat().st_mtime_ns).encode())
    for folder in package_paths:
        sha.update(str(Path(folder).absolute()).encode())
    return sha.hexdigest()[:32]


def _referenced(text: bytes, search: PackageSearch) -> set[Path]:
    """Return the existing files that a robot's file names, and those that included files name."""
    found: set[Path] = set()
    texts, folders = [text], [""]
    while texts:
        text = texts.pop()
        folders += [f"{os.fsdecode(folder)}/" for folder in _FOLDER.findall(text)]
        for name, folder in itertools.product(_FILENAME.findall(text), folders):
            with contextlib.suppress(InvalidDescription):
                file = search.find(folder + os.fsdecode(name))
                if file not in found and file.suffix in SOURCES:
                    texts.append(file.read_bytes())
                found.add(file)
    return found


@functools.cache
def _code_digest() -> bytes:
    """Return a hash of the source files that derive robots."""
    sha = hashlib.sha256()
    for room in _ROOMS:
        for file in sorted((Path(__file__).parents[2] / room).rglob("*.py")):
            sha.update(file.read_bytes())
    return sha.digest()


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock file, so that only one of several processes derives a robot."""
    try:
        descriptor = open_private(path)
    except OSError as error:
        raise InvalidConfig(
            f"{path} cannot be created ({error.strerror}); set MOTION_NODES_CACHE_DIR to a "
            "writable folder."
        ) from None
    try:
        lock(descriptor, math.inf)
        yield
    finally:
        os.close(descriptor)
