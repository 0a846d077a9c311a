# SPDX-License-Identifier: Apache-2.0
"""The sphere editor: a page on which a robot's collision spheres are displayed and edited."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Coroutine
from typing import Any

import viser

from motion_nodes.errors import MotionError
from motion_nodes.typing import Array
from motion_nodes.view.button_colours import SECONDARY
from motion_nodes.view.joint_panel import show_value
from motion_nodes.view.page_server import address_of, start_server, stop_server
from motion_nodes.view.page_token import page_token
from motion_nodes.view.robot_view import bounding_sphere
from motion_nodes.view.scene_setup import SceneSetup
from motion_nodes.view.sphere_picture import SpherePicture
from motion_nodes.view.sphere_session import SphereSession
from motion_nodes.view.status_text import plain
from motion_nodes.view.ui_queue import CallbackQueue
from motion_nodes.view.viewed_robot import ViewedRobot

NO_SPHERE = "(none)"
MIN_RADIUS, MAX_RADIUS = 0.001, 0.5
"""Range of the radius slider [m]."""
MERGE_TIME = 1.0
"""Changes of a radius within this time [s] are merged into one undo step."""


class SphereEditor:
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
        """Start the server."""
        self.session = session
        token = self._token = page_token()
        self._server = start_server(host, port, 10, f"spheres of {session.robot.name}", dark, token)
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

    @property
    def url(self) -> str:
        """Address of the page."""
        return address_of(self._server, self._token)

    def close(self) -> None:
        """Complete pending edits, close the page and release the port."""
        self._work.close()
        stop_server(self._server)

    def __enter__(self) -> SphereEditor:
        """Return the editor."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

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
        self.history = gui.add_button_group("Changes", ("Undo", "Redo"))
        self.save = gui.add_button("Save", icon=viser.Icon.DEVICE_FLOPPY, color="green")
        self.message = gui.add_markdown("")
        self.link.on_update(self._on(lambda: session.choose(self.link.value)))
        self.sphere.on_update(self._on(self._choose_sphere))
        self.radius.on_update(self._radius_moved)
        fit.on_click(self._on(lambda: session.generate(1e-3 * self.accuracy.value)))
        scale.on_click(self._on(lambda: session.scale(self.factor.value)))
        add.on_click(self._on(session.add))
        delete.on_click(self._on(session.remove))
        connect.on_click(self._on(self._connect))
        self.history.on_click(self._on(self._step))
        self.save.on_click(self._on(self._save))

    def _on(
        self, call: Callable[[], object]
    ) -> Callable[[viser.GuiEvent[Any]], Coroutine[Any, Any, None]]:
        """Return an event handler that submits a call for events of a page."""

        async def handle(event: viser.GuiEvent[Any]) -> None:
            if event.client is not None:
                self._submit(call)

        return handle

    def _submit(self, call: Callable[[], object], key: object = None) -> None:
        """Queue a call for the worker thread, which then updates the page."""
        key = next(self._numbers) if key is None else key
        self._work.put(key, functools.partial(self._execute, call))

    async def _radius_moved(self, event: viser.GuiEvent[viser.GuiSliderHandle[float]]) -> None:
        """Resize; ignores values below the range, which are numbers not fully typed yet."""
        radius = float(self.radius.value)
        if event.client is not None and radius >= MIN_RADIUS:
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
        self._show_radius()
        self.figures.content = self._coverage(count)

    def _show_radius(self) -> None:
        """Show the selected radius, unless it came from the input, where the user may be typing."""
        chosen = self.session.chosen
        if chosen is not None and self._resized is None:
            show_value(self.radius, float(min(max(chosen[3], MIN_RADIUS), MAX_RADIUS)))

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
