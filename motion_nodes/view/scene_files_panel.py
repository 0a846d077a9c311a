# SPDX-License-Identifier: Apache-2.0
"""Buttons that save the planning scene to a file of the browser's machine, and load one."""

from __future__ import annotations

from collections.abc import Callable

import viser

from motion_nodes.compat.moveit_scene_file import SUFFIX, read_scene_text, scene_text
from motion_nodes.errors import MotionError
from motion_nodes.scene.scene import Scene, WorldObject
from motion_nodes.scene.scenery import SCENERY
from motion_nodes.scene.voxels import OCTOMAP
from motion_nodes.view.button_colours import SECONDARY
from motion_nodes.view.notification import notify


class SceneFilesPanel:
    """Saves and loads MoveIt's ``.scene`` files.

    Args:
        gui: viser's panel; elements are added to the active container.
        name: of the robot, and of the file.
        scene: returns the planning scene.
        load: called on viser's event loop with the objects of a file.
    """

    def __init__(
        self,
        gui: viser.GuiApi,
        name: str,
        scene: Callable[[], Scene],
        load: Callable[[tuple[WorldObject, ...]], None],
    ) -> None:
        """Add the buttons."""
        self._name, self._scene, self._load = name, scene, load
        self.save = gui.add_button(
            "Save scene", color=SECONDARY, icon=viser.Icon.DOWNLOAD,
            hint="Downloads the objects as a .scene file, as RViz's Export does.",
        )  # fmt: skip
        self.upload = gui.add_upload_button(
            "Load scene", color=SECONDARY, icon=viser.Icon.UPLOAD, mime_type=SUFFIX,
            hint="Adds the objects of a .scene file; objects of the same names are replaced.",
        )  # fmt: skip
        self.save.on_click(self._save_pressed)
        self.upload.on_upload(self._uploaded)

    async def _save_pressed(self, event: viser.GuiEvent[viser.GuiButtonHandle]) -> None:
        if event.client is None:
            return
        items = saved_objects(self._scene())
        try:
            text = scene_text(items, self._name)
        except MotionError as error:
            notify((event.client,), f"{self._name}: the scene cannot be saved", str(error))
            return
        if not items:
            notify((event.client,), f"{self._name}: the saved scene has no objects", "")
        event.client.send_file_download(
            f"{self._name.replace('/', '_')}{SUFFIX}", text.encode(), save_immediately=True
        )

    async def _uploaded(self, event: viser.GuiEvent[viser.GuiUploadButtonHandle]) -> None:
        file = event.target.value
        try:
            items = loaded_objects(file.content, file.name, self._scene())
        except MotionError as error:
            if event.client is not None:
                notify((event.client,), f"{self._name}: no scene was loaded", str(error))
            return
        self._load(items)


def saved_objects(scene: Scene) -> tuple[WorldObject, ...]:
    """Return the objects of a scene to be saved: all but scenery and octomap."""
    items = scene.objects.values()
    return tuple(item for item in items if item.kind != SCENERY and item.name != OCTOMAP)


def loaded_objects(content: bytes, name: str, scene: Scene) -> tuple[WorldObject, ...]:
    """Return the objects of a file that are not attached to the robot.

    Args:
        content: content of the file.
        name: name of the file, for errors.
        scene: the planning scene.

    Raises:
        InvalidDescription: not a scene file.
    """
    # Invalid UTF-8 is rejected by the parser, with its line.
    items = read_scene_text(content.decode(errors="replace"), name)
    return tuple(item for item in items if item.name not in scene.attached)
