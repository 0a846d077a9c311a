# SPDX-License-Identifier: Apache-2.0
"""The browser viewer: robots in a web page, with joint sliders and drive pads, without ROS."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np
import viser

from motion_nodes.errors import InvalidConfig
from motion_nodes.model.tree import Array
from motion_nodes.view.angle_unit import AngleUnit, AngleUnitChoice
from motion_nodes.view.base_driving import BaseDriving
from motion_nodes.view.displays import Displays
from motion_nodes.view.draw_loop import DrawLoop
from motion_nodes.view.health_panel import HealthPanel
from motion_nodes.view.icon_archive import open_icons
from motion_nodes.view.live_robot import LiveRobot
from motion_nodes.view.page_script import (
    ALIVE_PATH,
    HOLD_PATH,
    RELEASE_PATH,
    RESUME_PATH,
    STOP_PATH,
)
from motion_nodes.view.page_server import address_of, start_server, stop_server
from motion_nodes.view.page_token import page_token
from motion_nodes.view.scaling_panel import ScalingPanel
from motion_nodes.view.scene_setup import MOBILE_RADIUS, SceneSetup
from motion_nodes.view.simulation_panel import SimulationPanel
from motion_nodes.view.status_text import global_line
from motion_nodes.view.stop_panel import StopPanel
from motion_nodes.view.ui_commands import invoke
from motion_nodes.view.view_panel import ViewPanel
from motion_nodes.view.viewed_robot import PLANNER, ViewedRobot
from motion_nodes.view.viewer_updates import ViewerUpdates


class BrowserViewer(ViewerUpdates):
    """Serves a page that displays robots and accepts commands for them.

    Updates may come from any thread at any rate: only the newest is kept, and all links that moved
    are sent together at most ``rate`` times a second. Without an open page nothing is sent.

    Commands given on the page are passed to the ``on_...`` callbacks of :class:`ViewerCallbacks`.
    Everyone who can open the page can move the robots; by default only this machine can.

    Args:
        robots: the robots.
        port: TCP port of the page; 0: any free port.
        host: address to listen on; ``0.0.0.0``: all network interfaces.
        port_search: number of further ports to try if ``port`` is in use.
        title: title of the panel.
        rate: max number of scene updates per second [Hz].
        dark: use the dark theme.
        shadows: enable shadows and reflections; turn off on machines without a graphics card.
        require_token: serve only requests with the token of :attr:`url`.
        stops: add a button, and the key Esc, that stop all robots; see ``on_stop``.
        simulation: add buttons that pause and reset the simulation; see ``on_pause``.
        displays: add a folder that shows frames, a point cloud and an image; see ``displays``.

    Raises:
        InvalidConfig: two robots with the same name, or settings out of range.
        PortInUse: no port is free.
    """

    def __init__(
        self,
        robots: Sequence[ViewedRobot],
        port: int = 8080,
        *,
        host: str = "127.0.0.1",
        port_search: int = 10,
        title: str = "motion_nodes",
        rate: float = 30.0,
        dark: bool = False,
        shadows: bool = True,
        require_token: bool = True,
        stops: bool = False,
        simulation: bool = False,
        displays: bool = False,
    ) -> None:
        """Start the server and its threads."""
        self._token = page_token() if require_token else None
        names = [robot.name for robot in robots]
        if len(set(names)) != len(names):
            raise InvalidConfig(
                f"names of viewed robots must be unique, got {', '.join(names)}.", field="name"
            )
        if not (np.isfinite(rate) and 0.0 < rate <= 240.0):
            raise InvalidConfig(
                f"rate is {rate} Hz; it must be above 0 and at most 240.", field="rate"
            )
        super().__init__()
        self._closed = threading.Event()
        self._draw_lock = threading.Lock()
        hold = self.slider_hold
        actions: dict[str, Callable[[], object]] = {
            HOLD_PATH: hold.hold, RELEASE_PATH: hold.release, ALIVE_PATH: lambda: None,
        }  # fmt: skip
        if stops:
            actions |= {STOP_PATH: self._stop_all, RESUME_PATH: self._resume}
        self._server = start_server(host, port, port_search, title, dark, self._token, actions)
        self._loop = self._server.get_event_loop()
        self._driving = BaseDriving(self._server, self.send_twist)
        self._drawing = DrawLoop(1.0 / rate, self._draw, self._page_open, self._animated)
        self._simulation: SimulationPanel | None = None
        with open_icons():
            self._add_panels(robots, dark, shadows, stops)
            if simulation:
                self._simulation = SimulationPanel(self._server.gui, self._pause, self._reset)
        self.displays: Displays | None = None
        """Frames, a point cloud and an image; None without ``displays``."""
        if displays:
            self.displays = Displays(self._server, self._drawing, self._on_loop)
        self._server.on_client_connect(self._client_connected)
        self._server.on_client_disconnect(self._client_left)
        self._drawing.start()

    @property
    def url(self) -> str:
        """Address of the page, with the actual port and the token."""
        return address_of(self._server, self._token)

    @property
    def client_count(self) -> int:
        """Number of open pages."""
        return len(self._server.get_clients())

    @property
    def robot_names(self) -> tuple[str, ...]:
        """Names of the robots in updates and callbacks."""
        return tuple(self._robots)

    def flush(self) -> None:
        """Update the scene now, even without an open page."""
        with self._draw_lock, self._server.atomic():
            for live in self._robots.values():
                live.draw()
                live.draw_trail()
            if self.displays is not None:
                self.displays.draw()

    def close(self) -> None:
        """Stop driving, end all threads and release the port; may be called repeatedly."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._driving.close()
        self._drawing.close()
        stop_server(self._server)

    def __enter__(self) -> BrowserViewer:
        """Return the viewer."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the viewer."""
        self.close()

    # ---- internal

    def _add_panels(
        self, robots: Sequence[ViewedRobot], dark: bool, shadows: bool, stops: bool
    ) -> None:
        """Add robots, panels, floor and lights."""
        self._status = self._server.gui.add_markdown(global_line(0))
        self._stop = StopPanel(self._server.gui, self._stop_all, self._resume) if stops else None
        if any(PLANNER in robot.followers for robot in robots):
            self._scaling = ScalingPanel(self._server.gui)
        unit = AngleUnit()
        self._angles = AngleUnitChoice(self._server.gui, unit)
        self._robots: dict[str, LiveRobot] = {}
        for number, robot in enumerate(robots):
            events = self.events(
                robot.name, self._driving.callbacks, self._driving.changed, self._drawing.request
            )
            self._robots[robot.name] = LiveRobot(self._server, robot, number, events, unit)
        for live in self._robots.values():
            live.view.meshes.warn_of_missing()
        self._driving.set_pads(
            {name: live.drive for name, live in self._robots.items() if live.drive is not None}
        )
        min_radius = MOBILE_RADIUS if any(robot.drive for robot in robots) else 0.0
        setup = SceneSetup(
            self._server, self._bounding_spheres(), dark, shadows=shadows, min_radius=min_radius
        )
        self._health = HealthPanel(self._server.gui)
        self._view = ViewPanel(self._server, setup, self._bounding_spheres, dark, shadows)

    def _page_open(self) -> bool:
        return self.client_count > 0

    def _animated(self) -> bool:
        return any(live.animated for live in self._robots.values())

    def _draw(self, panel: bool) -> None:
        """Send changes of the scene; if ``panel``, those of trails and panels, too."""
        with self._draw_lock, self._server.atomic():
            for live in self._robots.values():
                live.draw()
                if panel:
                    live.draw_trail()
            if self.displays is not None:
                self.displays.draw()
        if panel:
            self._on_loop(self._refresh_panels)

    def _refresh_panels(self) -> None:
        """Update all status lines and sliders; on viser's event loop."""
        self._health.refresh()
        for panel in (self._stop, self._simulation, self.displays):
            if panel is not None:
                panel.refresh()
        line = global_line(self.client_count, self._health.summary())
        if line != self._status.content:
            self._status.content = line
        for live in self._robots.values():
            live.refresh_panel()

    def _client_connected(self, client: viser.ClientHandle) -> None:
        """Draw the current state, which is not sent while no page is open."""
        self._view.set_initial_camera(client)
        self._drawing.request()

    def _client_left(self, client: viser.ClientHandle) -> None:
        """Stop the drives of a disconnected page; all drives if it was the last page."""
        self._driving.client_left(client.client_id)
        for live in self._robots.values():
            if live.floor_goal is not None:
                live.floor_goal.client_left(client.client_id)
        if not self.client_count:
            self._driving.stop()

    def _stop_all(self) -> None:
        """Stop all drive pads and robots; the pads first, should the callback fail."""
        self._driving.stop()
        invoke(self.on_stop)

    def _pause(self, paused: bool) -> None:
        invoke(self.on_pause, paused)

    def _reset(self) -> None:
        invoke(self.on_reset)

    def _resume(self) -> None:
        invoke(self.on_resume)

    def _bounding_spheres(self) -> list[tuple[Array, float]]:
        """Return the bounding sphere of each robot at its current pose."""
        return [live.bounding_sphere() for live in self._robots.values()]
