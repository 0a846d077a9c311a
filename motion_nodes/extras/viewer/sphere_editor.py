# SPDX-License-Identifier: Apache-2.0
"""The sphere editor: a page on which a robot's collision spheres are displayed and edited."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import viser
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.link_geometry import LinkGeometry
from motion_nodes.core.scene.sphere_set import Coverage, SphereSet
from motion_nodes.errors import InvalidCommand, MotionError, UnknownFrame
from motion_nodes.extras.viewer.joint_panel import show_value
from motion_nodes.extras.viewer.page_server import PageSettings, ServedPage
from motion_nodes.extras.viewer.panel_style import SECONDARY, by_user, keep_in_range, plain
from motion_nodes.extras.viewer.robot_view import Appearance, RobotView, bounding_sphere
from motion_nodes.extras.viewer.scene_setup import SceneSetup
from motion_nodes.extras.viewer.scene_view import add_spheres
from motion_nodes.extras.viewer.target_gizmo import DragHandles
from motion_nodes.extras.viewer.ui_commands import CallbackQueue
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot
from motion_nodes.typing import Array

MAX_UNDO = 500
"""Max number of undo steps."""
NEW_RADIUS = 0.04
"""Radius of a sphere added to a link without geometry [m]."""
OTHER_RGB, LINK_RGB, CHOSEN_RGB = (95, 145, 215), (240, 190, 40), (225, 45, 45)
"""Colours of spheres of other links, of the selected link, and of the selected sphere."""
GEOMETRY = Appearance(opacity=0.6, shadow=False)
HANDLE_SIZE = 0.12
"""Size of the handles [m]."""
NO_SPHERE = "(none)"
MIN_RADIUS, MAX_RADIUS = 0.001, 0.5
"""Range of the radius slider [m]."""
MERGE_TIME = 1.0
"""Changes of a radius within this time [s] are merged into one undo step."""


class SphereSession:
    """A sphere set with its undo history.

    Args:
        robot: the robot whose spheres are edited.
        file: file to save to.
    """

    def __init__(self, robot: Robot, file: Path) -> None:
        """Start with the loaded spheres of the robot and select the first link with spheres."""
        self.robot, self.file = robot, file
        self.spheres = self._saved = SphereSet.of_robot(robot)
        self._undo: list[SphereSet] = []
        self._redo: list[SphereSet] = []
        self._geometry: dict[str, LinkGeometry | None] = {}
        self.links = tuple(
            name
            for name, link in robot.tree.links.items()
            if link.collisions or link.visuals or name in self.spheres.links
        )
        """Links that can have spheres."""
        self.link = next((name for name in self.links if name in self.spheres.links), "")
        self.link = self.link or next(iter(self.links), "")
        self.index = 0

    @property
    def chosen(self) -> np.ndarray | None:
        """Selected sphere: centre in the link and radius [m], shape (4,); None without spheres."""
        spheres = self.spheres.of(self.link)
        return np.array(spheres[self.index]) if self.index < len(spheres) else None

    @property
    def unsaved(self) -> bool:
        """Whether there are unsaved changes."""
        return self.spheres is not self._saved

    def choose(self, link: str, index: int = 0) -> None:
        """Select a link and one of its spheres.

        Args:
            link: one of ``links``.
            index: index of the sphere, clamped to the existing ones.

        Raises:
            UnknownFrame: the link is not one of ``links``.
        """
        if link not in self.links:
            raise UnknownFrame(link, self.links, self.robot.name)
        self.link = link
        self.index = min(max(index, 0), max(len(self.spheres.of(link)) - 1, 0))

    def add(self) -> None:
        """Add a sphere at the centre of the selected link's geometry, and select it."""
        geometry = self.geometry(self.link)
        centre, radius = np.zeros(3), NEW_RADIUS
        if geometry is not None:
            centre = geometry.bounds.mean(axis=0)
            radius = max(0.25 * float(np.ptp(geometry.bounds, axis=0).max()), 1e-3)
        self._apply(self.spheres.add(self.link, centre, radius))
        self.index = len(self.spheres.of(self.link)) - 1

    def move(self, centre: ArrayLike) -> None:
        """Move the selected sphere.

        Args:
            centre: new centre in its link [m], shape (3,).

        Raises:
            InvalidCommand: not three finite numbers, or no sphere is selected.
        """
        self._apply(self.spheres.move(self.link, self.index, centre))

    def resize(self, radius: float, merge: bool = False) -> None:
        """Change the radius of the selected sphere.

        Args:
            radius: new radius [m].
            merge: whether to merge this change with the previous one into one undo step.

        Raises:
            InvalidCommand: the radius is not positive and finite, or no sphere is selected.
        """
        spheres = self.spheres.resize(self.link, self.index, radius)
        if merge and self._undo:
            self.spheres, self._redo = spheres, []
        else:
            self._apply(spheres)

    def remove(self) -> None:
        """Delete the selected sphere, and select the previous one.

        Raises:
            InvalidCommand: no sphere is selected.
        """
        self._apply(self.spheres.remove(self.link, self.index))
        self.choose(self.link, self.index - 1)

    def connect(self, other: int, count: int) -> None:
        """Interpolate spheres between the selected one and another of its link.

        Args:
            other: index of the other sphere.
            count: number of spheres to add.

        Raises:
            InvalidCommand: no such spheres, or ``count`` is out of range.
        """
        self._apply(self.spheres.connect(self.link, self.index, other, count))

    def scale(self, factor: float) -> None:
        """Scale the radii of the selected link's spheres.

        Args:
            factor: above 0.

        Raises:
            InvalidCommand: the factor is not positive and finite.
            UnknownFrame: the selected link has no spheres.
        """
        self._apply(self.spheres.scale(factor, self.link))

    def generate(self, accuracy: float) -> None:
        """Replace the selected link's spheres by ones fitted to its geometry.

        Args:
            accuracy: max protrusion beyond the geometry [m].

        Raises:
            InvalidCommand: the link has no geometry.
            InvalidConfig: ``accuracy`` is not positive.
        """
        geometry = self.geometry(self.link)
        if geometry is None:
            raise InvalidCommand(f"{self.link} has no collision geometry to fit spheres to.")
        self._apply(self.spheres.generate(self.link, geometry, accuracy=accuracy))
        self.choose(self.link)

    def undo(self) -> bool:
        """Undo the last change; return whether there was one."""
        return self._step(self._undo, self._redo)

    def redo(self) -> bool:
        """Redo the last undone change; return whether there was one."""
        return self._step(self._redo, self._undo)

    def save(self) -> Path | None:
        """Write the file; an existing file is kept as a backup.

        Returns:
            Path of the backup, or None.

        Raises:
            InvalidDescription: the file cannot be written.
        """
        backup = self.spheres.write(self.file)
        self._saved = self.spheres
        return backup

    def geometry(self, link: str) -> LinkGeometry | None:
        """Return the collision geometry of a link, cached; None if it has none."""
        if link not in self._geometry:
            self._geometry[link] = LinkGeometry.of_link(self.robot, link)
        return self._geometry[link]

    def coverage(self) -> Coverage | None:
        """Return the coverage of the selected link's geometry; None without geometry."""
        geometry = self.geometry(self.link)
        return None if geometry is None else self.spheres.coverage(self.link, geometry)

    def _apply(self, spheres: SphereSet) -> None:
        self._undo = [*self._undo, self.spheres][-MAX_UNDO:]
        self._redo = []
        self.spheres = spheres

    def _step(self, back: list[SphereSet], forth: list[SphereSet]) -> bool:
        if not back:
            return False
        forth.append(self.spheres)
        self.spheres = back.pop()
        self.choose(self.link, self.index)
        return True


class SpherePicture:
    """Draws an editing session; not thread-safe.

    Args:
        scene: the viser scene.
        session: the session.
        picked: called on viser's event loop with link and index of a clicked sphere.
        dragged: called on viser's event loop with the dragged centre in the selected link [m],
            shape (3,), and whether the drag has ended.
    """

    def __init__(
        self,
        scene: viser.SceneApi,
        session: SphereSession,
        picked: Callable[[str, int], None],
        dragged: Callable[[Array, bool], None],
    ) -> None:
        self._scene, self._session = scene, session
        self._picked, self._dragged = picked, dragged
        viewed = ViewedRobot.of(session.robot)
        self.robot = RobotView(scene, viewed, f"/robots/{viewed.name}", GEOMETRY)
        names = session.robot.tree.frame_names
        self._link_nodes = {n: node.name for n, node in zip(names, self.robot.links, strict=True)}
        self.nodes: dict[str, viser.BatchedMeshHandle] = {}
        """Spheres of each link."""
        self._drawn: dict[str, Array] = {}
        self._handles: dict[str, DragHandles] = {}

    @property
    def handles(self) -> DragHandles:
        """Handles of the selected link."""
        link = self._session.link
        if link not in self._handles:
            path = f"{self._link_nodes[link]}/sphere_handles"
            self._handles[link] = DragHandles(
                self._scene, path, HANDLE_SIZE, lambda X, end: self._dragged(X[:3, 3], end)
            )
        return self._handles[link]

    def draw(self) -> None:
        """Update spheres and handles from the session."""
        session = self._session
        for link in {*self._drawn, *session.spheres.links}:
            self._draw_link(link, session.spheres.of(link))
        chosen = session.chosen
        for link, handles in self._handles.items():
            if link != session.link:
                handles.show(False)
        if chosen is not None:
            X = np.eye(4)
            X[:3, 3] = chosen[:3]
            self.handles.place(X)
        self.handles.show(chosen is not None, turning=False)

    def draw_moved(self, centre: Array) -> None:
        """Draw the selected sphere at a centre in its link [m], shape (3,), while dragged."""
        link, index = self._session.link, self._session.index
        node = self.nodes.get(link)
        if node is not None and index < len(node.batched_positions):
            positions = node.batched_positions.copy()
            positions[index] = centre
            node.batched_positions = positions
            self._drawn.pop(link, None)

    def _draw_link(self, link: str, spheres: Array) -> None:
        node = self.nodes.get(link)
        if node is not None and len(node.batched_positions) != len(spheres):
            node.remove()
            node = self.nodes.pop(link, None) and None
        if not len(spheres):
            self._drawn.pop(link, None)
            return
        if node is None:
            node = self._add(link, spheres)
        elif self._drawn.get(link) is not spheres:
            node.batched_positions = spheres[:, :3].astype(np.float32)
            node.batched_scales = spheres[:, 3].astype(np.float32)
        self._drawn[link] = spheres
        colours = self._colours(link, len(spheres))
        if not np.array_equal(node.batched_colors, colours):
            node.batched_colors = colours

    def _add(self, link: str, spheres: Array) -> viser.BatchedMeshHandle:
        path = f"{self._link_nodes[link]}/spheres"
        node = add_spheres(
            self._scene, path, spheres, self._colours(link, len(spheres)), opacity=0.5
        )
        self.nodes[link] = node

        async def clicked(event: viser.SceneNodePointerEvent[viser.BatchedMeshHandle]) -> None:
            if event.instance_index is not None:
                self._picked(link, int(event.instance_index))

        node.on_click(clicked)
        return node

    def _colours(self, link: str, count: int) -> NDArray[np.uint8]:
        session = self._session
        plain = LINK_RGB if link == session.link else OTHER_RGB
        colours = np.tile(np.array(plain, dtype=np.uint8), (count, 1))
        if link == session.link and session.index < count:
            colours[session.index] = CHOSEN_RGB
        return colours


class SphereEditor(ServedPage):
    """Serves the page of one editing session; a context manager.

    All edits are executed in order on one thread, because fitting spheres may take seconds.

    Args:
        session: the session.
        port: TCP port of the page; 0: any free port.
        host: address to listen on.
        dark: use the dark theme.
        shadows: enable shadows and reflections.

    Raises:
        InvalidConfig: the host or port cannot be used.
        PortInUse: no port is free.
    """

    def __init__(
        self,
        session: SphereSession,
        port: int = 8080,
        *,
        host: str = "127.0.0.1",
        dark: bool = False,
        shadows: bool = True,
    ) -> None:
        self.session = session
        title = f"spheres of {session.robot.name}"
        super().__init__(PageSettings(port, host, title=title, dark=dark))
        self._work = CallbackQueue(lambda: False)
        self._numbers = itertools.count()
        self._resized: tuple[tuple[str, int], float] | None = None
        """Link and index of the sphere and time [s] of the last change, if it was of a radius."""
        self._add_panel()
        self.picture = SpherePicture(self._server.scene, session, self._picked, self._dragged)
        viewed = ViewedRobot.of(session.robot)
        sphere = bounding_sphere(viewed, self.picture.robot.meshes)
        SceneSetup(self._server, [sphere], dark, shadows=shadows)
        self._submit(lambda: None)

    def close(self) -> None:
        """Complete pending edits, close the page and release the port."""
        self._work.close()
        super().close()

    def _add_panel(self) -> None:
        gui, session = self._server.gui, self.session
        with gui.add_folder("Link"):
            self.link = gui.add_dropdown("Link", session.links, initial_value=session.link)
            self.figures = gui.add_markdown("")
            self.accuracy = gui.add_number(
                "Accuracy [mm]", 10.0, min=0.5, max=200.0, step=0.5,
                hint="Max protrusion of fitted spheres beyond the geometry.",
            )  # fmt: skip
            fit = gui.add_button("Fit to geometry", color=SECONDARY, icon=viser.Icon.SPHERE)
            self.factor = gui.add_number("Factor", 1.1, min=0.1, max=10.0, step=0.05)
            scale = gui.add_button("Scale spheres of link", color=SECONDARY, icon=viser.Icon.RESIZE)
        with gui.add_folder("Sphere"):
            self.sphere = gui.add_dropdown(
                "Sphere", (NO_SPHERE,), hint="Or click a sphere in the scene."
            )
            self.radius = gui.add_slider(
                "Radius [m]", MIN_RADIUS, MAX_RADIUS, step=0.0005, initial_value=0.05
            )
            add = gui.add_button("Add", color=SECONDARY, icon=viser.Icon.PLUS)
            delete = gui.add_button("Delete", color=SECONDARY, icon=viser.Icon.TRASH)
            self.other = gui.add_dropdown("Connect with", (NO_SPHERE,))
            self.between = gui.add_number("Spheres between", 2, min=1, max=50, step=1)
            connect = gui.add_button("Connect", color=SECONDARY, icon=viser.Icon.LINE)
        keep_in_range(self.accuracy, self.factor, self.between)
        self.history = gui.add_button_group("Changes", ("Undo", "Redo"))
        self.save = gui.add_button("Save", icon=viser.Icon.DEVICE_FLOPPY, color="green")
        self.message = gui.add_markdown("")
        self.radius.on_update(by_user(self._radius_moved))

        def on_worker(call: Callable[[], object]) -> Callable[[Any], Coroutine[Any, Any, None]]:
            return by_user(lambda: self._submit(call))

        self.link.on_update(on_worker(lambda: session.choose(self.link.value)))
        self.sphere.on_update(on_worker(self._choose_sphere))
        fit.on_click(on_worker(lambda: session.generate(1e-3 * self.accuracy.value)))
        scale.on_click(on_worker(lambda: session.scale(self.factor.value)))
        add.on_click(on_worker(session.add))
        delete.on_click(on_worker(session.remove))
        connect.on_click(on_worker(self._connect))
        self.history.on_click(on_worker(self._step))
        self.save.on_click(on_worker(self._save))

    def _submit(self, call: Callable[[], object], key: object = None) -> None:
        """Queue a call for the worker thread, which then updates the page."""
        key = next(self._numbers) if key is None else key
        self._work.put(key, functools.partial(self._execute, call))

    def _radius_moved(self) -> None:
        """Resize; ignores values below the range, which are numbers not fully typed yet."""
        radius = float(self.radius.value)
        if radius >= MIN_RADIUS:
            self._submit(functools.partial(self._resize, radius), key="radius")

    def _execute(self, call: Callable[[], object]) -> None:
        resized = self._resized
        try:
            result = call()
            self._show_message(result if isinstance(result, str) else "")
        except MotionError as error:
            self._show_message(str(error))
        if self._resized is resized:
            self._resized = None
        self.picture.draw()
        self._refresh()

    def _show_message(self, text: str) -> None:
        if not text and self.session.unsaved:
            text = "Unsaved changes."
        self.message.content = plain(text)

    def _refresh(self) -> None:
        """Update the panel from the session."""
        session = self.session
        show_value(self.link, session.link)
        count = len(session.spheres.of(session.link))
        numbers = tuple(str(k + 1) for k in range(count)) or (NO_SPHERE,)
        for choice in (self.sphere, self.other):
            if tuple(choice.options) != numbers:
                choice.options = numbers
        show_value(self.sphere, numbers[min(session.index, len(numbers) - 1)])
        if session.chosen is not None and self._resized is None:  # the user may be typing it
            radius = float(session.chosen[3])
            show_value(self.radius, min(max(radius, MIN_RADIUS), MAX_RADIUS))
        self.figures.content = self._coverage(count)

    def _coverage(self, count: int) -> str:
        """Return the coverage of the selected link's geometry, as Markdown."""
        number = "1 sphere" if count == 1 else f"{count} spheres"
        try:
            found = self.session.coverage()
        except MotionError as error:
            return f"**{number}**  \n{plain(str(error))}"
        if found is None:
            return f"**{number}**; the link has no collision geometry"
        return (
            f"**{number}**; coverage: **{100.0 * found.surface:.1f} %** of the surface, "
            f"**{100.0 * found.volume:.1f} %** of the volume  \n"
            f"max protrusion **{1e3 * found.reach:.1f} mm**, "
            f"{100.0 * found.excess_volume:.0f} % excess volume; "
            f"max gap **{1e3 * found.gap:.1f} mm**"
        )

    def _choose_sphere(self) -> None:
        if self.sphere.value != NO_SPHERE:
            self.session.choose(self.session.link, int(self.sphere.value) - 1)

    def _resize(self, radius: float) -> None:
        if self.session.chosen is None:
            return
        place, now = (self.session.link, self.session.index), time.monotonic()
        last = self._resized
        merge = last is not None and last[0] == place and now - last[1] < MERGE_TIME
        self.session.resize(radius, merge)
        self._resized = place, now

    def _connect(self) -> None:
        if self.other.value != NO_SPHERE:
            self.session.connect(int(self.other.value) - 1, int(self.between.value))

    def _step(self) -> str:
        if self.history.value == "Undo":
            return "" if self.session.undo() else "Nothing to undo."
        return "" if self.session.redo() else "Nothing to redo."

    def _save(self) -> str:
        backup = self.session.save()
        suffix = f"; backup of the previous file: {backup.name}" if backup is not None else ""
        return f"Saved as {self.session.file}{suffix}."

    def _picked(self, link: str, index: int) -> None:
        self._submit(lambda: self.session.choose(link, index))

    def _dragged(self, centre: Array, ended: bool) -> None:
        if ended:
            self._submit(lambda: self.session.move(centre))
        else:
            self._work.put("drag", lambda: self.picture.draw_moved(centre))
