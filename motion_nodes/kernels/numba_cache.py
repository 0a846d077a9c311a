# SPDX-License-Identifier: Apache-2.0
"""Numba's cache files with checksums: a damaged file counts as missing.

Numba unpickles these files, which fails in many ways if one is damaged. The permissions of the
folder are checked where it is selected (:mod:`motion_nodes.kernels.cache`).

A kernel that several processes need at the same time is compiled by one of them, which holds a lock
file; the others wait and load the result.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from numba.core.caching import IndexDataCacheFile

from motion_nodes.kernels.kernel_library import with_symbols
from motion_nodes.kernels.private_files import lock, open_private

_LOG = logging.getLogger(__name__)
_MAGIC = b"motion_nodes numba 1\n"
_HEAD = len(_MAGIC) + 32
_TURN_TIMEOUT = 60.0
"""Max wait for another process that compiles a kernel, before compiling it as well [s]."""


class CheckedCacheFile(IndexDataCacheFile):  # type: ignore[misc]
    """Index and data files of one kernel."""

    _lock: int | None
    """Open lock file while this process compiles the kernel."""
    _elsewhere: tuple[CheckedCacheFile, ...]
    """Files of the same kernel in other folders, read only."""

    @classmethod
    def of(
        cls,
        before: IndexDataCacheFile,
        root: Path | None = None,
        elsewhere: Sequence[Path] = (),
        name: str = "",
    ) -> CheckedCacheFile:
        """Return the counterpart of one of Numba's cache files.

        Args:
            before: Numba's.
            root: another folder of cached kernels; None for Numba's.
            elsewhere: other folders, read only.
            name: of the subfolder; empty for Numba's, whose name contains a hash of the path of
                the sources' folder.
        """
        made = cls.__new__(cls)
        made.__dict__.update(before.__dict__)
        path = Path(before._cache_path)
        made._cache_path = str((root or path.parent) / (name or path.name))
        made._index_path = str(Path(made._cache_path) / before._index_name)
        made._lock = None
        made._elsewhere = tuple(cls.of(before, other, name=name) for other in elsewhere)
        return made

    def load(self, key: Any) -> Any:
        """Return the code saved under a key; None if this process has to compile it."""
        found = super().load(key)
        for other in self._elsewhere:
            found = IndexDataCacheFile.load(other, key) if found is None else found
        if found is None and self._lock is None and self._take_turn():
            # Another process may have compiled it meanwhile.
            found = super().load(key)
            if found is not None:
                self._end_turn()
        return found

    def save(self, key: Any, data: Any) -> None:
        """Save compiled code and release the lock, so that other processes load it."""
        try:
            super().save(key, with_symbols(data))
        finally:
            self._end_turn()

    def _take_turn(self) -> bool:
        """Wait until no other process compiles this kernel; return whether it is now locked."""
        with contextlib.suppress(OSError):
            Path(self._cache_path).mkdir(parents=True, exist_ok=True)
            # Held until the code is saved, or this process ends.
            self._lock = open_private(Path(self._index_path).with_suffix(".lock"))
            if lock(self._lock, _TURN_TIMEOUT):
                return True
        self._end_turn()
        return False

    def _end_turn(self) -> None:
        held, self._lock = self._lock, None
        if held is not None:
            os.close(held)

    def _load_index(self) -> dict[Any, str]:
        loaded = _read(Path(self._index_path))
        if not isinstance(loaded, tuple) or loaded[:2] != (self._version, self._source_stamp):
            return {}
        return dict(loaded[2])

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._write(self._index_path, (self._version, self._source_stamp, overloads))

    def _load_data(self, name: str) -> Any:
        return _read(Path(self._data_path(name)))

    def _save_data(self, name: str, data: Any) -> None:
        self._write(self._data_path(name), data)

    def _write(self, path: str, content: Any) -> None:
        payload = self._dump(content)
        with self._open_for_write(path) as file:
            file.write(_MAGIC + hashlib.sha256(payload).digest() + payload)


def with_checksums(
    dispatcher: Callable[..., object], elsewhere: Sequence[Path] = (), name: str = ""
) -> None:
    """Make a Numba dispatcher store its compiled code in files with checksums.

    Args:
        dispatcher: of the kernel.
        elsewhere: other folders from which code is loaded.
        name: of the subfolder; empty for Numba's, which depends on where the sources are
            installed.
    """
    cache: Any = getattr(dispatcher, "_cache", None)
    if hasattr(cache, "_cache_file"):
        cache._cache_file = CheckedCacheFile.of(cache._cache_file, None, elsewhere, name)


def _read(path: Path) -> Any:
    """Return the saved object; None if the file is missing or damaged."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    payload = content[_HEAD:]
    if content[:_HEAD] != _MAGIC + hashlib.sha256(payload).digest():
        _LOG.warning("%s is damaged and will be compiled anew", path)
        return None
    return pickle.loads(payload)
