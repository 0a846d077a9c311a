# SPDX-License-Identifier: Apache-2.0
"""Meshes of detected objects, from files that markers of the type MESH_RESOURCE name."""

from __future__ import annotations

from pathlib import Path

from visualization_msgs.msg import Marker

from motion_nodes.errors import InvalidCommand, MotionError
from motion_nodes.scene.mesh_cache import shared_mesh
from motion_nodes.scene.mesh_file import read_mesh
from motion_nodes.scene.scene import world_object
from motion_nodes.tasks.composite_objects import CompositeObject, composite_of

MAX_FILES = 100
"""Max number of cached files."""
MAX_SIZE = 50_000_000
"""Max size of a file [byte]."""
_SCHEME = "file://"


class DetectedMeshes:
    """Cache of mesh files; failures are cached, too."""

    def __init__(self) -> None:
        """Start empty."""
        self._known: dict[tuple[str, tuple[float, ...]], CompositeObject | MotionError] = {}

    def of(self, marker: Marker) -> CompositeObject:
        """Return the shape of a marker of the type MESH_RESOURCE.

        Raises:
            MotionError: the file cannot be read.
        """
        scale = (marker.scale.x, marker.scale.y, marker.scale.z)
        key = (marker.mesh_resource, scale)
        if key not in self._known:
            if len(self._known) >= MAX_FILES:
                self._known.clear()
            try:
                self._known[key] = _read(*key)
            except MotionError as error:
                self._known[key] = error
        found = self._known[key]
        if isinstance(found, MotionError):
            raise found
        return found


def _read(resource: str, scale: tuple[float, float, float]) -> CompositeObject:
    path = Path(resource.removeprefix(_SCHEME))
    if not resource.startswith(_SCHEME) or not path.is_absolute():
        raise InvalidCommand(f"its mesh is '{resource[:200]}'; it must be {_SCHEME}/PATH")
    try:
        usable = path.is_file() and path.stat().st_size <= MAX_SIZE
    except OSError as error:  # such as a name that is too long
        raise InvalidCommand(f"its mesh '{resource[:200]}': {error.strerror}") from None
    if not usable:
        raise InvalidCommand(f"its mesh {path} is no file of at most {MAX_SIZE // 10**6} MB")
    made = composite_of(world_object("mesh", shared_mesh(read_mesh(path, scale))))
    assert made is not None  # a mesh has bounds
    return made
