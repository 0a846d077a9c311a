# SPDX-License-Identifier: Apache-2.0
"""Numba's files of compiled kernels, each with a checksum: a damaged one is compiled anew.

Numba unpickles what it finds, which fails in many ways on a damaged file. Whether others can have
written to the folder is checked where the folder is chosen (:mod:`motion_nodes.kernels.cache`).
"""

from __future__ import annotations

import hashlib
import logging
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba.core.caching import IndexDataCacheFile

_LOG = logging.getLogger(__name__)
_MAGIC = b"motion_nodes numba 1\n"
_HEAD = len(_MAGIC) + 32


class CheckedCacheFile(IndexDataCacheFile):  # type: ignore[misc]
    """Index and data files of one kernel."""

    @classmethod
    def of(cls, before: IndexDataCacheFile) -> CheckedCacheFile:
        """Return one for the same files as one of Numba's."""
        made = cls.__new__(cls)
        made.__dict__.update(before.__dict__)
        return made

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


def with_checksums(dispatcher: Callable[..., object]) -> None:
    """Have a dispatcher of Numba keep its compiled code in files with checksums."""
    cache: Any = getattr(dispatcher, "_cache", None)
    if hasattr(cache, "_cache_file"):
        cache._cache_file = CheckedCacheFile.of(cache._cache_file)


def _read(path: Path) -> Any:
    """Return what was saved; None where nothing is, or where it is damaged."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    payload = content[_HEAD:]
    if content[:_HEAD] != _MAGIC + hashlib.sha256(payload).digest():
        _LOG.warning("%s is damaged and will be compiled anew", path)
        return None
    return pickle.loads(payload)
