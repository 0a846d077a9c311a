# SPDX-License-Identifier: Apache-2.0
"""Services save_geometry_to_file and load_geometry_from_file: scene geometry as MoveIt's files."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from moveit_msgs.srv import LoadGeometryFromFile, SaveGeometryToFile

from motion_nodes.compat.moveit_scene_file import SUFFIX, read_scene_text, scene_text
from motion_nodes.errors import InvalidCommand, InvalidDescription, MotionError
from motion_nodes.nodes.planner.planning_scene import PlanningSceneOwner
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.service_threads import ServiceThreads
from motion_nodes.ros.node import MotionNode
from motion_nodes.scene.scene import WorldObject

MAX_SIZE = 256 * 1024 * 1024
"""Max size of a file that is read [bytes]."""


class SceneFiles:
    """Serves both services; the responses have no text, so reasons are logged."""

    def __init__(
        self, node: MotionNode[Any], scenes: PlanningSceneOwner, threads: ServiceThreads
    ) -> None:
        self._node = node
        self._scenes = scenes
        profile = qos.SERVICES
        threads.serve(SaveGeometryToFile, "save_geometry_to_file", self._save, profile)
        threads.serve(LoadGeometryFromFile, "load_geometry_from_file", self._load, profile)

    def _save(self, request: Any, response: Any) -> Any:
        """Write the objects of the world, without scenery, octomap and attached objects."""

        def save(file: str) -> str:
            objects = self._scenes.own_objects()
            save_scene(file, objects, self._scenes.name)
            return f"{len(objects)} objects saved to {file}"

        return self._answer("save_geometry_to_file", save, request, response)

    def _load(self, request: Any, response: Any) -> Any:
        """Add the objects of a file, or none; those of the same names are replaced."""

        def load(file: str) -> str:
            objects = load_scene_file(file)
            refused = self._scenes.add_objects(objects)
            if refused:
                raise InvalidCommand(f"nothing is loaded: {'; '.join(refused)}")
            return f"{len(objects)} objects loaded from {file}"

        return self._answer("load_geometry_from_file", load, request, response)

    def _answer(self, service: str, job: Callable[[str], str], request: Any, response: Any) -> Any:
        """Execute a job with the requested file; log its result or its error."""
        try:
            done = job(request.file_path_and_name)
        except (MotionError, OSError) as error:
            self._node.warn(service, f"{service}: {error}")
        else:
            self._node.get_logger().info(done)
            response.success = True
        return response


def save_scene(name: str, objects: tuple[WorldObject, ...], scene: str) -> None:
    """Write a scene file; an existing file is replaced only if it is one.

    Args:
        name: absolute path that ends with ``.scene``, in an existing folder.
        objects: to write.
        scene: name of the scene.

    Raises:
        InvalidCommand: a path that is not allowed.
        InvalidDescription: an existing file that is not a scene file.
        OSError: the file cannot be written.
    """
    path = _absolute(name)
    if path.suffix != SUFFIX:
        raise InvalidCommand(f"'{name}' does not end with '{SUFFIX}'; other files are not written")
    if not path.parent.is_dir():
        raise InvalidCommand(f"'{path.parent}' is not a folder; create it first")
    if path.is_symlink():
        raise InvalidCommand(f"'{path}' is a symbolic link; give the path of the file itself")
    if path.exists():
        load_scene_file(name)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        temporary.write_text(scene_text(objects, scene), encoding="utf-8")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def load_scene_file(name: str) -> tuple[WorldObject, ...]:
    """Return the objects of a scene file.

    Args:
        name: absolute path.

    Raises:
        InvalidCommand: a path that is not absolute, no regular file, or a file that is too large.
        InvalidDescription: it is not a scene file; names the line.
        OSError: the file cannot be read.
    """
    path = _absolute(name)
    if not path.is_file():
        raise InvalidCommand(f"'{path}' is not a file")
    size = path.stat().st_size
    if size > MAX_SIZE:
        raise InvalidCommand(f"'{path}' has {size} bytes; allowed are {MAX_SIZE}")
    try:
        return read_scene_text(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError:
        raise InvalidDescription(f"{path} is not a text file") from None


def _absolute(name: str) -> Path:
    if "\0" in name:
        raise InvalidCommand("a path must not contain the character 0")
    path = Path(name)
    if not path.is_absolute():
        raise InvalidCommand(
            f"'{name}' is not an absolute path; the node's working directory is not the client's"
        )
    return path
