# SPDX-License-Identifier: Apache-2.0
"""Objects of a planning scene at the hands of people: chosen, dragged, added, removed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import viser

from motion_nodes.errors import MotionError
from motion_nodes.model.tree import Array, Box, Cylinder, Sphere, frozen
from motion_nodes.scene.scene import Scene, WorldObject, world_object
from motion_nodes.scene.scenery import SCENERY
from motion_nodes.scene.shapes import Solid
from motion_nodes.view.drag_handles import DragHandles
from motion_nodes.view.joint_panel import show_value
from motion_nodes.view.scene_view import SceneView
from motion_nodes.view.status_text import plain

NONE = "(none)"
SHAPES = ("box", "sphere", "cylinder")
LEAST_SIZE, MOST_SIZE = 0.005, 5.0
"""[m] Of an object that is added."""
MOST_CHOICES = 100
"""Names in the list; the others can still be clicked in the picture."""
PATIENCE = 5.0
"""[s] In which the owner of a scene tells of an object that was added."""
AHEAD = (0.5, 0.0, 0.3)
"""[m] Where a new object appears, in the scene frame."""

Report = Callable[[str, WorldObject | None], None]


class ObjectEditor:
    """Reports what people want of the scene, and shows it before the scene's owner has answered.

    Args:
        server: the viser server; panel elements go into the tab that is open.
        base: name of the node of the scene frame.
        objects: what draws the scene.
        handle_size: of the handles [m].
        report: called on viser's event loop with name and object; None where it is to go.
        redraw: called when the picture is to be drawn anew.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        base: str,
        objects: SceneView,
        handle_size: float,
        report: Report,
        redraw: Callable[[], None],
    ) -> None:
        """Add the part of the panel."""
        self._objects, self._report, self._redraw = objects, report, redraw
        self._lock = threading.Lock()
        self._scene = Scene()
        self._local: tuple[str, Array] | None = None
        """What is being dragged, and to where."""
        self._names: tuple[str, ...] = (NONE,)
        self._text = ""
        self._awaited = ("", 0.0)
        """An object that was added here and until when its owner may take to tell of it."""
        objects.picked = self._picked
        self.handles = DragHandles(
            server.scene, f"{base}/object_handles", handle_size, self._dragged
        )
        gui = server.gui
        self.choice = gui.add_dropdown(
            "Object", (NONE,), hint="Chosen objects can be dragged. A click on one chooses it."
        )
        self.turn = gui.add_checkbox("Turn it, too", False, visible=False)
        self.remove = gui.add_button("Remove object", icon=viser.Icon.TRASH, visible=False)
        self.shape = gui.add_dropdown("New", SHAPES)
        self.size = gui.add_vector3(
            "Size [m]", (0.1, 0.1, 0.1), min=(LEAST_SIZE,) * 3, max=(MOST_SIZE,) * 3, step=0.01,
            hint="Box: along x, y, z. Sphere: diameter. Cylinder: diameter, any, height.",
        )  # fmt: skip
        add = gui.add_button("Add object", icon=viser.Icon.PLUS)
        self._words = gui.add_markdown("", visible=False)
        self.choice.on_update(self._chosen)
        self.turn.on_update(self._turned)
        self.remove.on_click(self._remove_pressed)
        add.on_click(self._add_pressed)

    def take_words(self, text: str) -> None:
        """Take what there is to say of the scene's owner."""
        self._text = text

    def draw(self, scene: Scene, visible: bool) -> None:
        """Bring handles up to a scene; on the drawing thread."""
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
            # What was dragged is now where its owner says.
            with self._lock:
                self._local = None
            if local[0] in scene.objects:
                self._objects.place(local[0], scene.objects[local[0]].X_WO)
        if item is None:
            return
        self.handles.place(item.X_WO)

    @property
    def animated(self) -> bool:
        """Whether something was dragged that is still to be compared with what its owner says."""
        return self._local is not None

    def refresh_panel(self) -> None:
        """Renew the panel; on viser's event loop."""
        chosen = self.choice.value
        with self._lock:
            names = (NONE, *list(self._scene.objects)[:MOST_CHOICES])
            known = chosen in self._scene.objects
        awaited = chosen == self._awaited[0] and time.monotonic() < self._awaited[1]
        if chosen not in names and (known or awaited):
            names = (*names, chosen)
        if names != self._names:
            self._names = names
            self.choice.options = names
        known = self.choice.value != NONE
        for element in (self.turn, self.remove):
            if element.visible != known:
                element.visible = known
        text = plain(self._text)
        if text != self._words.content:
            self._words.content, self._words.visible = text, bool(text)

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
        self._report(item.name, replace(item, X_WO=frozen(X_WO)))
        self._redraw()

    async def _picked(self, name: str) -> None:
        self._choose(name)

    async def _chosen(self, _: viser.GuiEvent[viser.GuiDropdownHandle[str]]) -> None:
        self.refresh_panel()
        self._redraw()

    async def _turned(self, _: viser.GuiEvent[viser.GuiCheckboxHandle]) -> None:
        self._redraw()

    async def _remove_pressed(self, event: viser.GuiEvent[viser.GuiButtonHandle]) -> None:
        if event.client is not None and self.choice.value != NONE:
            self._report(self.choice.value, None)

    async def _add_pressed(self, event: viser.GuiEvent[viser.GuiButtonHandle]) -> None:
        if event.client is None:
            return
        kind = self.shape.value
        with self._lock:
            taken = {*self._scene.objects, *self._scene.attached}
        name = next(n for k in range(1, len(taken) + 2) if (n := f"{kind}_{k}") not in taken)
        X = np.eye(4)
        X[:3, 3] = AHEAD
        try:
            item = world_object(name, solid_of(kind, self.size.value), X)
        except MotionError as error:
            self.take_words(str(error))
            return
        self.take_words("")
        self._awaited = (name, time.monotonic() + PATIENCE)
        self._report(name, item)
        self._choose(name)


def solid_of(kind: str, size: tuple[float, float, float]) -> Solid:
    """Return a box, sphere or cylinder of some size [m]."""
    x, _, z = size
    if kind == "sphere":
        return Sphere(0.5 * x)
    if kind == "cylinder":
        return Cylinder(0.5 * x, z)
    return Box(size)
