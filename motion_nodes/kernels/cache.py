# SPDX-License-Identifier: Apache-2.0
"""Compiled code on disk: where it lies, how it is read and written.

The folder is ``$MOTION_NODES_CACHE_DIR/kernels`` if that variable is set, else
``$XDG_CACHE_HOME/motion_nodes/kernels``, else ``~/.cache/motion_nodes/kernels``. Where nothing can
be written there, new entries go to a private folder of the user below the system's temporary
folder, or nowhere; what lies in the first folder is used all the same.

An entry's name is a hash of everything its content depends on, so an entry is never stale: whoever
changes anything asks for another name. Entries are written to one side and renamed, so several
processes may do so at once, and each holds a checksum, so a damaged one counts as missing.

Who can write to the folder can have code run by whoever reads it. So it must belong to this user or
to root, and nobody else may write to it; other folders are not used, neither are Numba's files
there.
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


@dataclass(frozen=True)
class CacheState:
    """What the cache of compiled code looks like now."""

    folder: Path | None
    """Where new entries are written; None where no folder can be written."""
    preferred: Path | None
    """Where they would be written if that were possible; None without a home."""
    entries: int
    """How many pieces of compiled code there are, in both folders."""
    size: int
    """What they take, Numba's files included [byte]."""


def preferred_folder() -> Path | None:
    """Return the folder that the environment asks for, whether it exists or not."""
    own = os.environ.get("MOTION_NODES_CACHE_DIR")
    if own:
        return Path(own).expanduser().absolute() / "kernels"
    xdg = os.environ.get("XDG_CACHE_HOME")
    if xdg and Path(xdg).is_absolute():  # the XDG standard says to ignore relative paths
        return Path(xdg) / "motion_nodes" / "kernels"
    try:
        return Path.home() / ".cache" / "motion_nodes" / "kernels"
    except RuntimeError:
        return None


def writable_folder() -> Path | None:
    """Return the folder for new entries, made if need be; None where there is none."""
    return _writable_folder(preferred_folder(), _temporary_folder())


@functools.cache  # so that a folder is probed, and a problem logged, once per process
def _writable_folder(preferred: Path | None, temporary: Path) -> Path | None:
    problem = "there is no home folder" if preferred is None else _problem(preferred)
    if preferred is not None and problem is None and not is_private(preferred):
        problem = "others can write to it, and could have code run"
    if preferred is not None and problem is None:
        return preferred
    wanted = preferred or "~/.cache"
    advice = "set MOTION_NODES_CACHE_DIR to a folder that can be written"
    if _problem(temporary) is None and is_private(temporary):
        _LOG.warning(
            "no cache of compiled code in %s (%s): using %s; %s", wanted, problem, temporary, advice
        )
        return temporary
    _LOG.warning(
        "no cache of compiled code in %s (%s): each start compiles anew; %s",
        wanted,
        problem,
        advice,
    )
    return None


def _temporary_folder() -> Path:
    owner = os.getuid() if hasattr(os, "getuid") else "user"
    return Path(tempfile.gettempdir()) / f"motion_nodes-{owner}" / "kernels"


def _problem(folder: Path) -> str | None:
    """Return why nothing can be written to a folder, or None; make the folder if need be."""
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return error.strerror or str(error)


def _readable_folders() -> list[Path]:
    """Return the folders of which the content can be trusted."""
    folders = (preferred_folder(), _temporary_folder())
    return [folder for folder in folders if folder is not None and is_private(folder)]


def read_entry(key: str) -> bytes | None:
    """Return what was stored under a key; None where nothing is, or where it is damaged."""
    for folder in _readable_folders():
        with contextlib.suppress(OSError):
            content = (folder / f"{key}{_SUFFIX}").read_bytes()
            head = len(_MAGIC) + 32
            payload = content[head:]
            if content[:head] == _MAGIC + hashlib.sha256(payload).digest():
                return payload
            _LOG.warning("%s is damaged and will be compiled anew", folder / f"{key}{_SUFFIX}")
    return None


def write_entry(key: str, payload: bytes) -> None:
    """Store something under a key; where that is impossible, nothing happens."""
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
        _LOG.warning("cannot keep compiled code in %s: %s", folder, error)
        if name:
            Path(name).unlink(missing_ok=True)
        return
    _prune(folder)


def _prune(folder: Path) -> None:
    """Remove the oldest entries beyond the number that is kept."""
    entries = [(_modified(path), path) for path in folder.glob(f"*{_SUFFIX}")]
    for _, path in sorted(entries)[: max(0, len(entries) - _MAX_ENTRIES)]:
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
    """Return where compiled code is kept, how much of it there is, and what it takes."""
    entries = size = 0
    for folder in _readable_folders():
        for path in _files(folder):
            entries += path.suffix == _SUFFIX
            with contextlib.suppress(OSError):
                size += path.stat().st_size
    return CacheState(writable_folder(), preferred_folder(), entries, size)
