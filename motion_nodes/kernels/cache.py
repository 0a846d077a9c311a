# SPDX-License-Identifier: Apache-2.0
"""Cache of compiled code on disk.

The folder is ``$MOTION_NODES_CACHE_DIR/kernels`` if that variable is set, else
``$XDG_CACHE_HOME/motion_nodes/kernels``, else ``~/.cache/motion_nodes/kernels``. If it is not
writable, new entries go to a private folder of the user in the system's temporary folder or shared
memory, or are not stored; existing entries of the first folder are still used.

The key of an entry is a hash of everything its content depends on, so entries never become stale.
Entries are written to a temporary file and renamed, so several processes may write concurrently.
Each entry has a checksum; a damaged one counts as missing.

Anyone who can write to the folder can execute code as the users who load from it. It must therefore
belong to this user or to root and be writable by nobody else; other folders are not used, nor are
Numba's files in them.

Computation of cached data by several processes that need the same data at the same time. All nodes
of a robot need its compiled kinematics and the convex parts of its meshes at their first start.
Each result is computed by one process, under a lock of the file system that ends with the process;
the others compute another one meanwhile, or wait and read it from the disk.

Folders and files that only this user or root can have written, and locks of such files;
hashes of the source files that generate code.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import logging
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_PERIOD = 0.02
"""[s] Period of polling a lock."""
_LOG = logging.getLogger(__name__)
_SUFFIX = ".code"
_MAGIC = b"motion_nodes code 1\n"
_MAX_ENTRIES = 2000
"""Max number of entries of compiled code."""
_MAX_MESHES = 500
"""Max number of entries derived from meshes."""
MESHES = "mesh-"
"""Prefix of entries derived from meshes."""
SHARED_MEMORY = Path("/dev/shm")
"""Writable even in containers with read-only file systems, because the middleware needs it."""
ROOM = Path(__file__).parent
WAIT = 300.0
"""[s] Time after which a result that another process computes is computed here, too."""
_LOCK_SUFFIX = ".lock"


def is_private(folder: Path) -> bool:
    """Return whether only this user and root can write to a folder; links are not followed.

    Args:
        folder: checked together with its parent, because anyone who can write to the parent can
            replace the folder. A sticky parent such as ``/tmp`` prevents that.
    """
    if not hasattr(os, "getuid"):
        return True
    try:
        own, parent = folder.lstat(), folder.parent.stat()
    except OSError:
        return False
    trusted = (os.getuid(), 0)
    if not stat.S_ISDIR(own.st_mode) or own.st_uid not in trusted or own.st_mode & _OTHERS:
        return False
    sticky = bool(parent.st_mode & stat.S_ISVTX)
    return sticky or (parent.st_uid in trusted and not parent.st_mode & _OTHERS)


def open_private(path: Path) -> int:
    """Open a file of this user for reading and writing; create it with mode 0600 if missing.

    Args:
        path: of the file.

    Returns:
        Its descriptor.

    Raises:
        OSError: it cannot be opened, or is a symbolic link, a device, a hard link or another
            user's file.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o600)
    found = os.fstat(descriptor)
    owned = not hasattr(os, "getuid") or found.st_uid == os.getuid()
    if not stat.S_ISREG(found.st_mode) or not owned or found.st_nlink != 1:
        os.close(descriptor)
        raise OSError(0, "not a regular file owned by this user alone")
    return descriptor


def lock(descriptor: int, timeout: float) -> bool:
    """Lock a file against other threads and processes until the descriptor is closed.

    Args:
        descriptor: of :func:`open_private`.
        timeout: max time to wait for those that hold the lock [s].

    Returns:
        Whether it is locked now.

    Raises:
        OSError: the file system has no locks.
    """
    until = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(_PERIOD)
        else:
            return True


@dataclass(frozen=True)
class CacheState:
    """State of the cache of compiled code."""

    folder: Path | None
    """Folder of new entries; None if no folder is writable."""
    preferred: Path | None
    """Preferred folder of new entries; None without a home folder."""
    entries: int
    """Number of entries, of code and of meshes, in all readable folders."""
    size: int
    """Total size of these folders, Numba's files included [byte]."""


def preferred_folder() -> Path | None:
    """Return the folder requested by the environment, whether it exists or not.

    None without a home folder.
    """
    own = os.environ.get("MOTION_NODES_CACHE_DIR")
    if own:
        return Path(own).expanduser().absolute() / "kernels"
    xdg = os.environ.get("XDG_CACHE_HOME")
    if xdg and Path(xdg).is_absolute():  # The XDG standard requires relative paths to be ignored.
        return Path(xdg) / "motion_nodes" / "kernels"
    try:
        return Path.home() / ".cache" / "motion_nodes" / "kernels"
    except RuntimeError:
        return None


def writable_folder() -> Path | None:
    """Return the folder for new entries, created if necessary; None if there is none."""
    return _writable_folder(preferred_folder(), _temporary_folders())


@functools.cache  # Cached: a folder is probed, and a problem logged, once per process.
def _writable_folder(preferred: Path | None, temporary: tuple[Path, ...]) -> Path | None:
    problem = "there is no home folder" if preferred is None else _problem(preferred)
    if preferred is not None and problem is None and not is_private(preferred):
        problem = "other users can write to it and could inject code"
    if preferred is not None and problem is None:
        return preferred
    desired = preferred or "~/.cache"
    advice = "set MOTION_NODES_CACHE_DIR to a writable folder"
    for folder in temporary:
        if _problem(folder) is None and is_private(folder):
            _LOG.warning(
                "no cache of compiled code in %s (%s): using %s; %s",
                desired,
                problem,
                folder,
                advice,
            )
            return folder
    _LOG.warning(
        "no cache of compiled code in %s (%s): each start compiles anew; %s",
        desired,
        problem,
        advice,
    )
    return None


def _temporary_folders() -> tuple[Path, ...]:
    """Return private folders in temporary storage, whether they exist or not."""
    owner = os.getuid() if hasattr(os, "getuid") else "user"
    roots = []
    with contextlib.suppress(OSError):  # raised if none is writable
        roots.append(Path(tempfile.gettempdir()))
    if SHARED_MEMORY.is_dir():
        roots.append(SHARED_MEMORY)
    return tuple(root / f"motion_nodes-{owner}" / "kernels" for root in roots)


def _problem(folder: Path) -> str | None:
    """Return why a folder is not writable, or None; create the folder if necessary."""
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return error.strerror or str(error)


def readable_folders() -> list[Path]:
    """Return the folders whose content can be trusted: only this user or root can write to them."""
    folders = (preferred_folder(), *_temporary_folders())
    return [folder for folder in folders if folder is not None and is_private(folder)]


def read_entry(key: str) -> bytes | None:
    """Return the payload stored under a key; None if it is missing or damaged."""
    for folder in readable_folders():
        with contextlib.suppress(OSError):
            content = (folder / f"{key}{_SUFFIX}").read_bytes()
            head = len(_MAGIC) + 32
            payload = content[head:]
            if content[:head] == _MAGIC + hashlib.sha256(payload).digest():
                return payload
            _LOG.warning("%s is damaged and will be compiled anew", folder / f"{key}{_SUFFIX}")
    return None


def has_entry(key: str) -> bool:
    """Return whether something is stored under a key, damaged or not."""
    return any((folder / f"{key}{_SUFFIX}").exists() for folder in readable_folders())


def write_entry(key: str, payload: bytes) -> None:
    """Store a payload under a key; a failure is logged and otherwise ignored."""
    folder = writable_folder()
    if folder is None:
        return
    name = ""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f"{key}.", suffix=".part", dir=folder)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(payload).digest() + payload)
        Path(name).replace(folder / f"{key}{_SUFFIX}")
    except OSError as error:
        _LOG.warning("cannot store compiled code in %s: %s", folder, error)
        if name:
            Path(name).unlink(missing_ok=True)
        return
    _prune(folder)


def _prune(folder: Path) -> None:
    """Remove the oldest entries beyond the maximum counts, separately for code and meshes."""
    with contextlib.suppress(OSError):
        entries = [name for name in os.listdir(folder) if name.endswith(_SUFFIX)]
        meshes = [name for name in entries if name.startswith(MESHES)]
        code = [name for name in entries if not name.startswith(MESHES)]
        for kept, count in ((code, _MAX_ENTRIES), (meshes, _MAX_MESHES)):
            if len(kept) > count:
                oldest = sorted((_modified(folder / name), folder / name) for name in kept)
                for _, path in oldest[: len(kept) - count]:
                    path.unlink(missing_ok=True)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _files(folder: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        yield from (path for path in folder.rglob("*") if path.is_file())


def cache_state() -> CacheState:
    """Return location, number of entries and size of the cache."""
    entries = size = 0
    for folder in readable_folders():
        for path in _files(folder):
            entries += path.suffix == _SUFFIX
            with contextlib.suppress(OSError):
                size += path.stat().st_size
    return CacheState(writable_folder(), preferred_folder(), entries, size)


@functools.cache
def source_digest(names: tuple[str, ...]) -> str:
    """Return a hash of modules of this package, as hexadecimal digits.

    Empty in a zipped or frozen installation, which has no sources.

    Args:
        names: modules below ``motion_nodes.kernels``, such as ``rmp.rmp_codegen``.

    Raises:
        FileNotFoundError: there is no module of this name.
    """
    if not Path(__file__).is_file():
        return ""
    sha = hashlib.sha256()
    for name in names:
        sha.update(ROOM.joinpath(*name.split(".")).with_suffix(".py").read_bytes())
    return sha.hexdigest()


_waits: ContextVar[bool] = ContextVar("waits", default=True)


class ComputedElsewhere(Exception):
    """Another process computes this result."""


@contextlib.contextmanager
def turn(key: str) -> Iterator[None]:
    """Wait until no other thread or process computes the result of a key.

    Args:
        key: of the disk cache; the result should be looked up again inside.

    Raises:
        ComputedElsewhere: another one computes it, within :func:`in_turns`.
    """
    folder = writable_folder()
    if folder is None:
        yield
        return
    path = folder / f"{key}{_LOCK_SUFFIX}"
    try:
        descriptor = open_private(path)
    except OSError:  # computed without a lock, at worst twice
        yield
        return
    try:
        # After the time, and on file systems without locks, it is computed without one.
        with contextlib.suppress(OSError):
            if not lock(descriptor, WAIT if _waits.get() else 0.0) and not _waits.get():
                raise ComputedElsewhere
        try:
            yield
        finally:
            # Those that wait for the removed file find the result.
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def in_progress(prefix: str = "") -> int:
    """Return the number of results that some process computes now.

    Args:
        prefix: of their keys.
    """
    folder, count = writable_folder(), 0
    for path in [] if folder is None else folder.glob(f"{prefix}*{_LOCK_SUFFIX}"):
        with contextlib.suppress(OSError), path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                count += 1
    return count


def in_turns(tasks: Iterable[Callable[[], object]]) -> None:
    """Run tasks that store results on the disk, last those that other processes work on.

    Args:
        tasks: each may be called twice; nothing is done without a disk cache.
    """
    if writable_folder() is None:
        return
    later = []
    reset = _waits.set(False)
    try:
        for task in tasks:
            try:
                task()
            except ComputedElsewhere:
                later.append(task)
    finally:
        _waits.reset(reset)
    for task in later:
        task()
