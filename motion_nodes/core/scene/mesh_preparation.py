# SPDX-License-Identifier: Apache-2.0
"""Precomputation of sphere covers and convex parts of large meshes, in a separate process.

For meshes with thousands of triangles this takes seconds and holds Python's GIL: a control loop in
the same process would stall when such an object is attached to the robot. It is therefore computed
when the object is added, and cached on disk for all nodes.

``python -m motion_nodes.core.scene.mesh_preparation`` runs it; meshes are read from standard input.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from functools import partial
from typing import BinaryIO

import numpy as np

from motion_nodes.core.scene.convex_decomposition import convex_parts, parts_entry
from motion_nodes.core.scene.mesh_cache import content_of
from motion_nodes.core.scene.robot_spheres import cover, cover_entry
from motion_nodes.core.scene.scene import Part, Scene
from motion_nodes.core.scene.shapes import TriangleMesh, triangle_mesh
from motion_nodes.kernels import cache
from motion_nodes.kernels.cache import in_turns

LARGE = 200
"""Min number of triangles of a mesh that is prepared; smaller ones take less than 0.1 s."""
MAX_KNOWN = 1000
"""Max number of meshes recorded as prepared."""


def large_meshes(parts: Iterable[Part]) -> list[TriangleMesh]:
    """Return the meshes that have to be prepared."""
    solids = (part.solid for part in parts)
    return [m for m in solids if isinstance(m, TriangleMesh) and len(m.triangles) >= LARGE]


def all_parts(scene: Scene) -> Iterator[Part]:
    """Return the shapes of all objects and attached bodies of a planning scene."""
    for item in scene.objects.values():
        yield from item.parts
    for body in scene.attached.values():
        yield from body.parts


class MeshPreparation:
    """Prepares meshes, one process at a time; thread-safe, non-blocking."""

    def __init__(self) -> None:
        self._ready: set[bytes] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._working: set[bytes] = set()
        self._lock = threading.Lock()

    def ready(self, meshes: Iterable[TriangleMesh]) -> bool:
        """Return whether meshes are prepared; if not, start to prepare them in another process.

        Meshes whose process failed count as prepared: their data is computed where it is used.

        Args:
            meshes: meshes; call again to poll.
        """
        with self._lock:
            self._look()
            missing = {content_of(mesh): mesh for mesh in meshes if not self._known(mesh)}
            if missing and self._process is None:
                self._begin(missing)
            return not missing

    def close(self) -> None:
        """Terminate the process."""
        with self._lock:
            if self._process is not None:
                self._process.kill()
                self._process.wait()
                self._process = None

    def _look(self) -> None:
        """Record the meshes of a terminated process as prepared."""
        if self._process is not None and self._process.poll() is not None:
            self._process = None
            self._ready |= self._working

    def _known(self, mesh: TriangleMesh) -> bool:
        """Return whether a mesh is prepared, or there is no disk cache."""
        key = content_of(mesh)
        if key not in self._ready and (cache.writable_folder() is None or _is_prepared(mesh)):
            if len(self._ready) >= MAX_KNOWN:
                self._ready.clear()
            self._ready.add(key)
        return key in self._ready

    def _begin(self, missing: dict[bytes, TriangleMesh]) -> None:
        self._working = set(missing)
        command = [sys.executable, "-m", "motion_nodes.core.scene.mesh_preparation"]
        try:
            with tempfile.TemporaryFile() as file:
                write_meshes(file, missing.values())
                file.seek(0)
                self._process = subprocess.Popen(command, stdin=file)
        except OSError:
            self._ready |= self._working


def _is_prepared(mesh: TriangleMesh) -> bool:
    return all(cache.has_entry(key) for key in (cover_entry(mesh), parts_entry(mesh)))


def write_meshes(file: BinaryIO, meshes: Iterable[TriangleMesh]) -> None:
    """Write meshes for :func:`read_meshes`."""
    arrays = [(m.vertices, m.triangles, np.array(m.convex)) for m in meshes]
    np.savez(file, *(array for three in arrays for array in three))


def read_meshes(file: BinaryIO) -> list[TriangleMesh]:
    """Return the meshes in a file."""
    with np.load(file, allow_pickle=False) as stored:
        arrays = [stored[f"arr_{k}"] for k in range(len(stored.files))]
    return [
        triangle_mesh(vertices, triangles, bool(convex))
        for vertices, triangles, convex in zip(*[iter(arrays)] * 3, strict=True)
    ]


def prepare(mesh: TriangleMesh) -> None:
    """Compute and store the sphere cover and the convex parts of a mesh."""
    cover(mesh)
    convex_parts(mesh)


def main() -> None:
    """Prepare the meshes on standard input at low priority, shared with other processes."""
    with contextlib.suppress(OSError):
        os.nice(10)
    with tempfile.TemporaryFile() as copy:
        copy.write(sys.stdin.buffer.read())
        copy.seek(0)
        meshes = read_meshes(copy)
    in_turns(partial(prepare, mesh) for mesh in meshes)


if __name__ == "__main__":
    main()
