# SPDX-License-Identifier: Apache-2.0
"""Editing of a planning scene's objects on the page: select, drag, add, attach and remove."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import viser

from motion_nodes.core.robot.poses import from_xyz_rpy, to_rpy
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere, frozen
from motion_nodes.core.scene.mesh_file import read_mesh
from motion_nodes.core.scene.scene import AttachedBody, Scene, WorldObject, world_object
from motion_nodes.core.scene.scenery import SCENERY
from motion_nodes.core.scene.shapes import HalfSpace, Solid, TriangleMesh
from motion_nodes.core.scene.voxels import OCTOMAP
from motion_nodes.errors import InvalidDescription, MotionError
from motion_nodes.extras.viewer.joint_panel import show_value
from motion_nodes.extras.viewer.panel_style import (
    SECONDARY,
    by_user,
    keep_in_range,
    on_loop,
    plain,
    show_text,
)
from motion_nodes.extras.viewer.scene_view import SceneView
from motion_nodes.extras.viewer.target_gizmo import DragHandles
from motion_nodes.extras.viewer.ui_commands import PanelEvents
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot
from motion_nodes.typing import Array

NONE = "(none)"
SHAPES = ("box", "sphere", "cylinder")
MIN_SIZE, MAX_SIZE = 0.005, 5.0
"""Size range of a new object [m]."""
MESH_SUFFIXES = (".stl", ".obj", ".dae", ".ply", ".glb", ".gltf")
MAX_CHOICES = 100
"""Max number of objects in the list; further ones can be clicked in the scene."""
CONFIRMATION_TIMEOUT = 5.0
"""Time within which the owner of the scene must confirm a new object [s]."""
NEW_POSITION = (0.5, 0.0, 0.3)
"""Position of a new object in the scene frame [m]."""
HANDLE_SIZE = 0.15
"""Size of the handles of an object [m]."""


class AttachPanel:
    """A list of links with buttons to attach and detach.

    Args:
        gui: viser's panel; elements are added to the active container, hidden.
        links: of the robot.
        tool: the link selected at first.
        selected: returns the name of the selected object; empty: none.
        report: called on viser's event loop with the name of an object, and the link to attach it
            to; empty: detach it.
    """

    def __init__(
        self,
        gui: viser.GuiApi,
        links: Sequence[str],
        tool: str,
        selected: Callable[[], str],
        report: Callable[[str, str], None],
    ) -> None:
        self._selected, self._report = selected, report
        self.link = gui.add_dropdown(
            "Attach to", tuple(links), initial_value=tool, visible=False,
            hint="The link that the object is attached to, at its present pose relative to it.",
        )  # fmt: skip
        self.attach = gui.add_button(
            "Attach object", color=SECONDARY, icon=viser.Icon.LINK, visible=False,
            hint="The object moves with the link, and may touch the links of its gripper.",
        )  # fmt: skip
        self.detach = gui.add_button(
            "Detach object", color=SECONDARY, icon=viser.Icon.UNLINK, visible=False,
            hint="Puts the object back in the world, at its present pose.",
        )  # fmt: skip
        self.note = gui.add_markdown("", visible=False)
        self.attach.on_click(by_user(lambda: self._pressed(str(self.link.value))))
        self.detach.on_click(by_user(lambda: self._pressed("")))

    def show(self, item: WorldObject | None, body: AttachedBody | None) -> None:
        """Show what can be done with the selected object; on viser's event loop.

        Args:
            item: the object, if it is in the world.
            body: the object, if it is attached.
        """
        free = item is not None and attachable(item)
        for element, visible in (
            (self.link, free), (self.attach, free), (self.detach, body is not None),
        ):  # fmt: skip
            element.visible = visible
        show_text(self.note, "" if body is None else f"Attached to `{body.link}`.")

    def _pressed(self, link: str) -> None:
        if self._selected():
            self._report(self._selected(), link)


def attachable(item: WorldObject) -> bool:
    """Return whether an object can be carried: it is not a part of the cell, voxels or a plane."""
    fixed = item.static or item.kind == SCENERY or item.name == OCTOMAP
    return not fixed and not any(isinstance(part.solid, HalfSpace) for part in item.parts)


class ObjectEditor:
    """Reports edits of the scene, and shows them before the owner of the scene has confirmed them.

    Args:
        server: the viser server; panel elements are added to the active container.
        viewed: the robot of the scene.
        base: scene node of the scene frame.
        objects: scene nodes of the objects.
        events: receivers of the panel's commands.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        viewed: ViewedRobot,
        base: str,
        objects: SceneView,
        events: PanelEvents,
    ) -> None:
        self._objects, self._report, self._redraw = objects, events.scene_object, events.redraw
        self._lock = threading.Lock()
        self._scene = Scene()
        self._local: tuple[str, Array] | None = None
        """Name and pose of an object that is being dragged."""
        self._names: tuple[str, ...] = (NONE,)
        self._text = ""
        self._unconfirmed = ("", 0.0)
        """Name of an object that was added here, and the time at which its confirmation times out
        [s]."""
        objects.on_pick.append(self._choose)
        self.handles = DragHandles(
            server.scene, f"{base}/object_handles", HANDLE_SIZE, self._dragged
        )
        gui = server.gui
        self.choice = gui.add_dropdown(
            "Object", (NONE,), hint="Select an object to drag it, or click it in the scene."
        )
        self.turn = gui.add_checkbox("Allow rotation", False, visible=False)
        self.remove = gui.add_button(
            "Remove object", color=SECONDARY, icon=viser.Icon.TRASH, visible=False
        )
        self.resize = gui.add_button(
            "Resize object", color=SECONDARY, icon=viser.Icon.RESIZE, visible=False,
            hint="Gives the object the size below, about its centre.",
        )  # fmt: skip
        self._sized = NONE
        """Object whose size is shown."""
        links = viewed.model.tree.frame_names
        self.attachment = AttachPanel(gui, links, viewed.tool, self._selected, events.attach)
        self.shape = gui.add_dropdown("Shape", SHAPES)
        self.size = gui.add_vector3(
            "Size [m]", (0.1, 0.1, 0.1), min=(MIN_SIZE,) * 3, max=(MAX_SIZE,) * 3, step=0.01,
            hint="Box: x, y, z. Sphere: diameter, -, -. Cylinder: diameter, -, height.",
        )  # fmt: skip
        add = gui.add_button("Add object", icon=viser.Icon.PLUS)
        self._edited = NONE
        """Object whose name and pose are shown."""
        with gui.add_folder("Numbers and files", expand_by_default=False):
            self.name = gui.add_text("Name", "")
            self.rename = gui.add_button("Rename object", color=SECONDARY)
            self.position = gui.add_vector3("Position [m]", (0.0, 0.0, 0.0), step=0.001)
            self.rotation = gui.add_vector3(
                "RPY [deg]", (0.0, 0.0, 0.0), step=0.1,
                hint="Roll, pitch and yaw (URDF) in the frame of the scene.",
            )  # fmt: skip
            self.place = gui.add_button("Move object to pose", color=SECONDARY)
            self.scale = gui.add_number(
                "Mesh scale", 1.0, min=1e-6, max=1e6,
                hint="Metres per unit of the file: 0.001 for a file in millimetres.",
            )  # fmt: skip
            keep_in_range(self.scale)
            self.mesh = gui.add_upload_button(
                "Import mesh", color=SECONDARY, icon=viser.Icon.UPLOAD,
                mime_type=",".join(MESH_SUFFIXES), hint="Adds the mesh of a file as an object.",
            )  # fmt: skip
        self.rename.on_click(by_user(self._rename_pressed))
        self.place.on_click(by_user(self._place_pressed))
        self.mesh.on_upload(self._mesh_uploaded)
        self._message = gui.add_markdown("", visible=False)
        self.choice.on_update(on_loop(self._chosen))
        self.turn.on_update(on_loop(self._redraw))
        self.remove.on_click(by_user(self._remove_pressed))
        self.resize.on_click(by_user(self._resize_pressed))
        add.on_click(by_user(self._add_pressed))

    def set_message(self, text: str) -> None:
        """Store the status message below the objects."""
        self._text = text

    def draw(self, scene: Scene, visible: bool) -> None:
        """Update the handles; on the drawing thread.

        Args:
            scene: the scene.
            visible: whether its objects are shown.
        """
        with self._lock:
            self._scene = scene
            local = self._local
        item = scene.objects.get(self.choice.value)
        movable = item is not None and not item.static and item.kind != SCENERY
        self.handles.show(visible and movable, bool(self.turn.value))
        if local is not None and item is not None and local[0] == item.name and self.handles.held:
            self._objects.place(*local)
            return
        if local is not None:
            # The drag has ended: the owner's pose of the object applies again.
            with self._lock:
                self._local = None
            if local[0] in scene.objects:
                self._objects.place(local[0], scene.objects[local[0]].X_WO)
        if item is None:
            return
        self.handles.place(item.X_WO)

    @property
    def animated(self) -> bool:
        """Whether a dragged object's pose has not been replaced by the owner's yet."""
        return self._local is not None

    def refresh_panel(self) -> None:
        """Update the panel; on viser's event loop."""
        chosen = self.choice.value
        with self._lock:
            attached = self._scene.attached
            names = (NONE, *list(self._scene.objects)[:MAX_CHOICES], *attached)
            item = self._scene.objects.get(chosen)
        known = item is not None
        pending = chosen == self._unconfirmed[0] and time.monotonic() < self._unconfirmed[1]
        if chosen not in names and (known or pending):
            names = (*names, chosen)
        if names != self._names:
            self._names = names
            self.choice.options = names
        body = attached.get(chosen)
        # An attached object moves with its link; it is removed after it was detached.
        free = self.choice.value != NONE and body is None
        for element in (self.turn, self.remove):
            element.visible = free
        self.attachment.show(item, body)
        self._show_size(item)
        self._show_numbers(item)
        show_text(self._message, plain(self._text))

    def _show_size(self, item: WorldObject | None) -> None:
        """Show shape and size of the selected object, once: the user may change the size."""
        known = None if item is None or item.kind == SCENERY else size_of(item)
        self.resize.visible = known is not None
        if item is None or item.name == self._sized:
            if self.choice.value == NONE:
                self._sized = NONE
            return
        self._sized = item.name
        if known is not None:
            show_value(self.shape, known[0])
            show_value(self.size, known[1])

    def _show_numbers(self, item: WorldObject | None) -> None:
        """Show name and pose of the selected object, once: the user may change them."""
        name = NONE if item is None else item.name
        if name == self._edited:
            return
        self._edited = name
        if item is not None:
            show_value(self.name, item.name)
            self._show_pose(item.X_WO)

    def _show_pose(self, X_WO: Array) -> None:
        show_value(self.position, tuple(np.round(X_WO[:3, 3], 4).tolist()))
        show_value(self.rotation, tuple(np.round(np.rad2deg(to_rpy(X_WO)), 2).tolist()))

    def _editable(self) -> WorldObject | None:
        """Return the selected object; None: none, or one that is fixed."""
        with self._lock:
            item = self._scene.objects.get(self.choice.value)
        fixed = item is None or item.static or item.kind == SCENERY or item.name == OCTOMAP
        return None if fixed else item

    def _free_name(self, name: str) -> str:
        """Return a name that no object has: the given one, or with a number."""
        return name if name not in self._taken() else self._numbered_name(name)

    def _numbered_name(self, name: str) -> str:
        taken = self._taken()
        numbered = (f"{name}_{k}" for k in range(1, len(taken) + 2))
        return next(name for name in numbered if name not in taken)

    def _taken(self) -> set[str]:
        with self._lock:
            return {*self._scene.objects, *self._scene.attached}

    def _add(self, item: WorldObject) -> None:
        self.set_message("")
        self._unconfirmed = (item.name, time.monotonic() + CONFIRMATION_TIMEOUT)
        self._report(item.name, item)
        self._choose(item.name)

    def _rename_pressed(self) -> None:
        item, name = self._editable(), self.name.value.strip()
        if item is None or name == item.name:
            return
        if not name or name != self._free_name(name):
            self.set_message(f"'{name}' is no free name of an object")
            return
        self._report(item.name, None)
        self._add(replace(item, name=name))

    def _place_pressed(self) -> None:
        item, values = self._editable(), np.array([self.position.value, self.rotation.value])
        if item is None or not np.isfinite(values).all():
            return
        X = from_xyz_rpy(values[0], np.deg2rad(values[1]))
        self._report(item.name, replace(item, X_WO=frozen(X), observed_at=None))
        self._redraw()

    async def _mesh_uploaded(self, event: viser.GuiEvent[viser.GuiUploadButtonHandle]) -> None:
        file, scale = event.target.value, float(self.scale.value)
        try:
            solid = mesh_of_upload(file.name, file.content, scale)
            name = self._free_name(Path(file.name).stem or "mesh")
            self._add(world_object(name, solid, from_xyz_rpy(NEW_POSITION)))
        except MotionError as error:
            self.set_message(str(error))

    def _selected(self) -> str:
        """Return the name of the selected object; empty: none."""
        return "" if self.choice.value == NONE else str(self.choice.value)

    def _choose(self, name: str) -> None:
        if name not in self.choice.options:
            self._names = (*self.choice.options, name)
            self.choice.options = self._names
        show_value(self.choice, name)
        self.refresh_panel()
        self._redraw()

    def _dragged(self, X_WO: Array, ended: bool) -> None:
        with self._lock:
            item = self._scene.objects.get(self.choice.value)
            if item is None:
                return
            self._local = (item.name, X_WO)
        self._report(item.name, replace(item, X_WO=frozen(X_WO), observed_at=None))
        if ended:
            self._show_pose(X_WO)
        self._redraw()

    def _chosen(self) -> None:
        self.refresh_panel()
        self._redraw()

    def _remove_pressed(self) -> None:
        if self.choice.value != NONE:
            self._report(self.choice.value, None)

    def _resize_pressed(self) -> None:
        with self._lock:
            item = self._scene.objects.get(self.choice.value)
        known = None if item is None else size_of(item)
        if item is None or known is None:
            return
        solid, poses = solid_of(known[0], self.size.value), (item.parts[0].X_OS,)
        try:
            changed = world_object(item.name, solid, item.X_WO, poses=poses)
        except MotionError as error:
            self.set_message(str(error))
            return
        self.set_message("")
        self._report(item.name, replace(item, parts=changed.parts, observed_at=None))
        self._redraw()

    def _add_pressed(self) -> None:
        kind = self.shape.value
        X = from_xyz_rpy(NEW_POSITION)
        try:
            item = world_object(self._numbered_name(kind), solid_of(kind, self.size.value), X)
            self._add(item)
        except MotionError as error:
            self.set_message(str(error))


def mesh_of_upload(name: str, content: bytes, scale: float) -> TriangleMesh:
    """Return the mesh of an uploaded file.

    Args:
        name: of the file; its suffix is the format.
        content: of the file.
        scale: metres per unit of the file.

    Raises:
        InvalidDescription: the content cannot be read, or the format is not supported.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"mesh{Path(name).suffix.lower()}"
        path.write_bytes(content)
        try:
            return read_mesh(path, (scale,) * 3)
        except InvalidDescription as error:
            raise InvalidDescription(str(error).replace(str(path), name)) from None


def size_of(item: WorldObject) -> tuple[str, tuple[float, float, float]] | None:
    """Return shape and size of an object as in :func:`solid_of`; None: other or several shapes."""
    solid = item.parts[0].solid if len(item.parts) == 1 else None
    if isinstance(solid, Sphere):
        return "sphere", (2.0 * solid.radius,) * 3
    if isinstance(solid, Cylinder):
        return "cylinder", (2.0 * solid.radius, 2.0 * solid.radius, solid.length)
    if isinstance(solid, Box):
        x, y, z = map(float, solid.size)
        return "box", (x, y, z)
    return None


def solid_of(kind: str, size: tuple[float, float, float]) -> Solid:
    """Return a solid.

    Args:
        kind: one of ``SHAPES``.
        size: box: along x, y, z [m]; sphere: diameter, -, -; cylinder: diameter, -, length [m].
    """
    x, _, z = size
    if kind == "sphere":
        return Sphere(0.5 * x)
    if kind == "cylinder":
        return Cylinder(0.5 * x, z)
    return Box(size)
