# SPDX-License-Identifier: Apache-2.0
"""The sphere editor: a page on which a robot's collision spheres are seen and changed."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Coroutine
from typing import Any

import viser

from motion_nodes.errors import MotionError
from motion_nodes.model.tree import Array
from motion_nodes.view.joint_panel import show_value
from motion_nodes.view.page_server import address_of, quiet_viser, start_server
from motion_nodes.view.page_token import page_token
from motion_nodes.view.robot_view import bounding_ball
from motion_nodes.view.scene_setup import SceneSetup
from motion_nodes.view.sphere_picture import SpherePicture
from motion_nodes.view.sphere_session import SphereSession
from motion_nodes.view.status_text import plain
from motion_nodes.view.ui_queue import Intents
from motion_nodes.view.viewed_robot import ViewedRobot

NO_SPHERE = "(none)"
LEAST_RADIUS, MOST_RADIUS = 0.001, 0.5
"""[m] Of the slider."""
ONE_MOVEMENT = 1.0
"""[s] Radii that follow each other sooner are undone together."""


class SphereEditor:
    """Serves the page of one session; a context manager.

    Everything that people do is done in its order on one thread, for fitting spheres takes a while.

    Args:
        session: what is edited.
        port: TCP port of the page; 0 takes any free one.
        host: address to listen on.
        dark: dark page.
        shadows: shadows and reflections.

    Raises:
        PortInUse: when no port was free; a MotionError.
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
        self._work = Intents(lambda: False)
        self._numbers = itertools.count()
        self._resized: tuple[tuple[str, int], float] | None = None
        """Link and number of the sphere, and when [s], if the last change was one of a radius."""
        self._add_panel()
        self.picture = SpherePicture(self._server.scene, session, self._picked, self._dragged)
        viewed = ViewedRobot.of(session.robot)
        ball = bounding_ball(viewed, self.picture.robot.meshes)
        SceneSetup(self._server, [ball], dark, shadows=shadows)
        self._do(lambda: None)

    @property
    def url(self) -> str:
        """Address of the page."""
        return address_of(self._server, self._token)

    def close(self) -> None:
        """End what is under way and free the port."""
        self._work.close()
        with quiet_viser():
            self._server.stop()

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
                hint="How far fitted spheres may reach beyond the geometry.",
            )  # fmt: skip
            fit = gui.add_button("Fit to the geometry", icon=viser.Icon.SPHERE)
            self.factor = gui.add_number("Factor", 1.1, min=0.1, max=10.0, step=0.05)
            scale = gui.add_button("Scale all of the link", icon=viser.Icon.RESIZE)
        with gui.add_folder("Sphere"):
            self.sphere = gui.add_dropdown(
                "Sphere", (NO_SPHERE,), hint="A click on one in the picture chooses it, too."
            )
            self.radius = gui.add_slider(
                "Radius [m]", LEAST_RADIUS, MOST_RADIUS, step=0.0005, initial_value=0.05
            )
            add = gui.add_button("Add", icon=viser.Icon.PLUS)
            delete = gui.add_button("Delete", icon=viser.Icon.TRASH)
            self.other = gui.add_dropdown("Connect with", (NO_SPHERE,))
            self.between = gui.add_number("Spheres between", 2, min=1, max=50, step=1)
            connect = gui.add_button("Connect", icon=viser.Icon.LINE)
        self.history = gui.add_button_group("Changes", ("Undo", "Redo"))
        self.save = gui.add_button("Save", icon=viser.Icon.DEVICE_FLOPPY, color="green")
        self.words = gui.add_markdown("")
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
        """Return a handler that makes a call where a person asked for it."""

        async def handle(event: viser.GuiEvent[Any]) -> None:
            if event.client is not None:
                self._do(call)

        return handle

    def _do(self, call: Callable[[], object], key: object = None) -> None:
        """Make a call on the working thread, then show what has become of it."""
        key = next(self._numbers) if key is None else key
        self._work.put(key, functools.partial(self._carry_out, call))

    async def _radius_moved(self, event: viser.GuiEvent[viser.GuiSliderHandle[float]]) -> None:
        """Resize, unless it is the beginning of a number that somebody types, such as 0.0."""
        radius = float(self.radius.value)
        if event.client is not None and radius >= LEAST_RADIUS:
            self._do(functools.partial(self._resize, radius), key="radius")

    def _carry_out(self, call: Callable[[], object]) -> None:
        resized = self._resized
        try:
            said = call()
            self._say(said if isinstance(said, str) else "")
        except MotionError as error:
            self._say(str(error))
        if self._resized is resized:
            self._resized = None
        self.picture.draw()
        self._refresh()

    def _say(self, text: str) -> None:
        if not text and self.session.unsaved:
            text = "Not saved yet."
        self.words.content = plain(text)

    def _refresh(self) -> None:
        """Show the session on the panel."""
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
        """Show the chosen radius, unless it came from the slider: somebody may still be typing."""
        chosen = self.session.chosen
        if chosen is not None and self._resized is None:
            show_value(self.radius, float(min(max(chosen[3], LEAST_RADIUS), MOST_RADIUS)))

    def _coverage(self, count: int) -> str:
        """Return how well the chosen link is covered, in markdown."""
        word = "1 sphere" if count == 1 else f"{count} spheres"
        try:
            found = self.session.coverage()
        except MotionError as error:
            return f"**{word}**  \n{plain(str(error))}"
        if found is None:
            return f"**{word}**; the link has no collision geometry"
        return (
            f"**{word}** hold **{100.0 * found.surface:.1f} %** of the surface and "
            f"**{100.0 * found.volume:.1f} %** of the volume  \n"
            f"beyond it up to **{1e3 * found.reach:.1f} mm**, "
            f"{100.0 * found.excess_volume:.0f} % more volume; "
            f"uncovered up to **{1e3 * found.gap:.1f} mm**"
        )

    def _choose_sphere(self) -> None:
        if self.sphere.value != NO_SPHERE:
            self.session.choose(self.session.link, int(self.sphere.value) - 1)

    def _resize(self, radius: float) -> None:
        if self.session.chosen is None:
            return
        place, now = (self.session.link, self.session.index), time.monotonic()
        last = self._resized
        goes_on = last is not None and last[0] == place and now - last[1] < ONE_MOVEMENT
        self.session.resize(radius, goes_on)
        self._resized = place, now

    def _connect(self) -> None:
        if self.other.value != NO_SPHERE:
            self.session.connect(int(self.other.value) - 1, int(self.between.value))

    def _step(self) -> str:
        if self.history.value == "Undo":
            return "" if self.session.undo() else "There is nothing to undo."
        return "" if self.session.redo() else "There is nothing to do again."

    def _save(self) -> str:
        kept = self.session.save()
        before = f"; the file before is {kept.name}" if kept is not None else ""
        return f"Saved as {self.session.file}{before}."

    def _picked(self, link: str, index: int) -> None:
        self._do(lambda: self.session.choose(link, index))

    def _dragged(self, centre: Array, ended: bool) -> None:
        if ended:
            self._do(lambda: self.session.move(centre))
        else:
            self._work.put("drag", lambda: self.picture.draw_moved(centre))
