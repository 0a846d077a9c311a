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
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from motion_nodes.kernels.private_files import is_private

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
    entries = [(_modified(path), path) for path in folder.glob(f"*{_SUFFIX}")]
    meshes = [entry for entry in entries if entry[1].name.startswith(MESHES)]
    code = [entry for entry in entries if not entry[1].name.startswith(MESHES)]
    for kept, count in ((code, _MAX_ENTRIES), (meshes, _MAX_MESHES)):
        for _, path in sorted(kept)[: max(0, len(kept) - count)]:
            with contextlib.suppress(OSError):
                path.unlink()


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
