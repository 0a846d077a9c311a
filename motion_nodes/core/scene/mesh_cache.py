# SPDX-License-Identifier: Apache-2.0
"""Cache of data derived from meshes, keyed by their content: in memory, and on disk.

The same mesh is received many times: as a world object, as an attached body, and in the planning
scene of each node.
"""

from __future__ import annotations

import functools
import hashlib
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import numpy as np

from motion_nodes.core.scene.shapes import TriangleMesh
from motion_nodes.kernels import cache
from motion_nodes.kernels.cache import turn
from motion_nodes.typing import Array

RECENT = 32
"""Max number of unused meshes that are kept: an object is removed before it is attached."""


class _SharedMeshes:
    """Meshes in use, by content; thread-safe."""

    def __init__(self) -> None:
        self._used: weakref.WeakValueDictionary[bytes, TriangleMesh] = weakref.WeakValueDictionary()
        self._recent: OrderedDict[bytes, TriangleMesh] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, mesh: TriangleMesh) -> TriangleMesh:
        key = content_of(mesh)
        with self._lock:
            known = self._used.setdefault(key, mesh)
            self._recent[key] = known
            self._recent.move_to_end(key)
            if len(self._recent) > RECENT:
                self._recent.popitem(last=False)
        return known


shared_mesh = _SharedMeshes()
"""Returns the cached mesh with the same content, else the given one."""


def content_of(mesh: TriangleMesh) -> bytes:
    """Return a hash of the corners and triangles of a mesh."""
    known = _contents.get(mesh)
    if known is None:
        sha = hashlib.sha256(repr((mesh.vertices.shape, mesh.convex)).encode())
        sha.update(mesh.vertices.tobytes() + mesh.triangles.tobytes())
        known = _contents[mesh] = sha.digest()
    return known


_contents: weakref.WeakKeyDictionary[TriangleMesh, bytes] = weakref.WeakKeyDictionary()


def entry_of(kind: str, mesh: TriangleMesh, *sources: str, options: object = None) -> str:
    """Return the disk cache key of data derived from a mesh.

    Args:
        kind: kind of the data.
        mesh: the mesh.
        sources: source files on which the data depends.
        options: settings on which the data depends.
    """
    sha = hashlib.sha256(hash_of_files(sources) + repr(options).encode() + content_of(mesh))
    return f"{cache.MESHES}{kind}-{sha.hexdigest()}"


def stored_arrays(key: str, compute: Callable[[], list[Array]]) -> list[Array]:
    """Return the cached arrays of equal width under a key; compute and store them if missing.

    Args:
        key: from :func:`entry_of`.
        compute: returns at least one array, shape (n, w) each.
    """
    if (stored := cache.read_entry(key)) is not None:
        return _unpacked(stored)
    with turn(key):
        if (stored := cache.read_entry(key)) is not None:
            return _unpacked(stored)
        arrays = compute()
        cache.write_entry(key, _packed(arrays))
    return arrays


@functools.cache
def hash_of_files(sources: tuple[str, ...]) -> bytes:
    """Return a hash of the contents of source files."""
    sha = hashlib.sha256()
    for source in sources:
        sha.update(Path(source).read_bytes())
    return sha.digest()


def _packed(arrays: list[Array]) -> bytes:
    """Return arrays as their number and width, their numbers of rows and all rows."""
    counts = np.array([len(arrays), arrays[0].shape[1], *map(len, arrays)], "<i8")
    return counts.tobytes() + np.concatenate(arrays).astype("<f8").tobytes()


def _unpacked(content: bytes) -> list[Array]:
    number, width = (int(n) for n in np.frombuffer(content, "<i8", 2))
    counts = np.frombuffer(content, "<i8", number, 16)
    rows = np.frombuffer(content, "<f8", offset=8 * (2 + number)).reshape(-1, width)
    return np.split(rows, np.cumsum(counts)[:-1])
