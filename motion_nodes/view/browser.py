# SPDX-License-Identifier: Apache-2.0
"""The browser viewer: robots in a web page, with sliders and drive pads, and no ROS in it."""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType

import numpy as np
import viser

from motion_nodes.errors import InvalidConfig, RobotNotFound
from motion_nodes.model.tree import Array
from motion_nodes.scene.scene import Scene
from motion_nodes.view.drive_panel import DrivePanel
from motion_nodes.view.health_panel import Health, HealthPanel
from motion_nodes.view.live_robot import LiveRobot
from motion_nodes.view.marker_view import Drawing
from motion_nodes.view.page_server import address_of, quiet_viser, start_server
from motion_nodes.view.page_token import page_token
from motion_nodes.view.scene_setup import DRIVEN_RADIUS, SceneSetup
from motion_nodes.view.stale_pages import PageWatch
from motion_nodes.view.status_text import global_line
from motion_nodes.view.stop_panel import StopPanel
from motion_nodes.view.ui_commands import PanelEvents, Wishes
from motion_nodes.view.ui_queue import Intents
from motion_nodes.view.view_panel import ViewPanel
from motion_nodes.view.viewed_robot import ViewedRobot

_log = logging.getLogger(__name__)

PANEL_PERIOD = 0.2
"""Status lines, sliders and trails are renewed this often [s]."""


class BrowserViewer(Wishes):
    """Serves a page that shows robots and lets people move them.

    Updates may come from any thread and at any rate: only the newest is kept and at most ``rate``
    times a second the links that moved are sent, all at once. With no page open nothing is sent.

    What people do on the page arrives in the ``on_...`` attributes of :class:`Wishes`.

    Anybody who can open the page can move the robots, so it is served to this machine only unless
    ``host`` says otherwise.

    Args:
        robots: what to show.
        port: TCP port of the page; 0 takes any free one.
        host: address to listen on; ``0.0.0.0`` opens the page to every network of this machine.
        port_search: how many ports after ``port`` may be tried when it is in use.
        title: shown at the top of the panel.
        rate: greatest number of scene updates per second [Hz].
        dark: dark page.
        shadows: shadows and reflections; off is easier on machines without a graphics card.
        require_token: serve only requests with the token of :attr:`url`.
        stops: a button, and the key Esc, that stop all robots; see ``on_stop``.

    Raises:
        InvalidConfig: for two robots of one name, or settings that cannot be used.
        PortInUse: when no port was free; a MotionError.
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
    ) -> None:
        """Start the server and its threads."""
        token = page_token() if require_token else None
        names = [robot.name for robot in robots]
        if len(set(names)) != len(names):
            raise InvalidConfig(f"Two viewed robots have one name: {', '.join(names)}.")
        if not (np.isfinite(rate) and 0.0 < rate <= 240.0):
            raise InvalidConfig(f"rate is {rate} Hz; it must be above 0 and at most 240.")
        super().__init__()
        self._period = 1.0 / rate
        self._message = ""
        self._closed = threading.Event()
        self._wake = threading.Event()
        self._draw_lock = threading.Lock()
        self._server = start_server(host, port, port_search, title, dark, token)
        self._token = token
        self._loop = self._server.get_event_loop()
        self._intents = Intents(self._repeat_twists)
        self._status = self._server.gui.add_markdown(global_line(0, ""))
        self._stop = StopPanel(self._server.gui, self._stop_all, self._resume) if stops else None
        self._robots = {
            robot.name: LiveRobot(self._server, robot, number, self._events(robot.name))
            for number, robot in enumerate(robots)
        }
        for live in self._robots.values():
            live.view.meshes.warn_of_missing()
        stage = SceneSetup(
            self._server, self._balls(), dark, shadows=shadows,
            least_radius=DRIVEN_RADIUS if any(robot.drive for robot in robots) else 0.0,
        )  # fmt: skip
        self._health = HealthPanel(self._server.gui)
        self._view = ViewPanel(self._server, stage, self._balls, dark, shadows)
        self._watch = PageWatch(self._server, self._driving_pages, self._stop_drives_of)
        self._server.on_client_connect(self._client_came)
        self._server.on_client_disconnect(self._client_left)
        self._thread = threading.Thread(target=self._draw_loop, name="viewer-draw", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Address of the page, with the port that was really taken."""
        return address_of(self._server, self._token)

    @property
    def client_count(self) -> int:
        """Number of pages that are open."""
        return len(self._server.get_clients())

    @property
    def robot_names(self) -> tuple[str, ...]:
        """Names of the robots, as updates and callbacks use them."""
        return tuple(self._robots)

    def update_joints(self, name: str, q: object, v: object | None = None) -> None:
        """Show joint positions.

        Args:
            name: the robot.
            q: positions in the order of its ``joint_names`` [rad or m], shape (n,); those that are
                NaN or infinite stay as they are.
            v: velocities for the plots [rad/s or m/s], shape (n,).

        Raises:
            RobotNotFound: when no robot of that name is shown.
            InvalidCommand: for a wrong length or something that is no number; nothing changes.
        """
        self._robot(name).take_joints(q, v)
        self._wake_if_watched()

    def update_base(self, name: str, X_WB: object) -> None:
        """Show where the root link stands, and draw its trail.

        Args:
            name: the robot.
            X_WB: pose of the root link in the world, shape (4, 4).

        Raises:
            RobotNotFound: when no robot of that name is shown.
            InvalidCommand: when it is not a finite rigid pose; the last one stays.
        """
        self._robot(name).take_base(X_WB)
        self._wake_if_watched()

    def update_reference(self, name: str, q: object | None) -> None:
        """Show where the robot should be as a translucent ghost, or none when ``q`` is None.

        Positions and errors are those of ``update_joints``.
        """
        self._robot(name).take_reference(q)
        self._wake_if_watched()

    def update_scene(self, name: str, scene: Scene) -> None:
        """Show what stands around a robot and what it carries, in its ``scene_frame``.

        Raises:
            RobotNotFound: when no robot of that name is shown.
            InvalidCommand: when that robot has no tool.
        """
        self._robot(name).plans().take_scene(scene)
        self._wake_if_watched()

    def update_plan(self, name: str, times: object, positions: object) -> None:
        """Show a planned motion by a ghost that passes it, and by the line of its tool.

        Args:
            name: the robot.
            times: when each row is passed [s], shape (m,).
            positions: all its joints [rad or m], shape (m, n).

        Raises:
            RobotNotFound: when no robot of that name is shown.
            InvalidCommand: for wrong shapes or numbers, or when that robot has no tool.
        """
        self._robot(name).plans().path.take(times, positions)
        self._wake_if_watched()

    def update_target(self, name: str, X_BT: object) -> None:
        """Show where somebody wants the tool; on the page it can be dragged from there.

        Args:
            name: the robot.
            X_BT: pose of the tool in its scene frame, shape (4, 4).

        Raises:
            RobotNotFound: when no robot of that name is shown.
            InvalidCommand: when it is not a finite rigid pose, or when that robot has no target.
        """
        self._robot(name).targets().take(X_BT)
        self._wake_if_watched()

    def update_tree(self, name: str, drawings: Sequence[Drawing]) -> None:
        """Show what a planner tried, in the robot's scene frame, in place of what was shown.

        Raises:
            RobotNotFound: when no robot of that name is shown.
            InvalidCommand: when that robot has no tool.
        """
        self._robot(name).plans().tree.take(drawings)
        self._wake_if_watched()

    def wants_tree(self, name: str) -> bool:
        """Return whether somebody wants to see what a planner tried."""
        planning = self._robot(name).planning
        return planning is not None and bool(planning.show_tree.value)

    def set_target_message(self, name: str, text: str) -> None:
        """Show a text below the target of a robot, on one line; nothing where it has none."""
        target = self._robot(name).target
        if target is not None:
            target.take_words(text)

    def set_scene_message(self, name: str, text: str) -> None:
        """Show a text below the objects of a robot, on one line; nothing where there are none."""
        planning = self._robot(name).planning
        if planning is not None and planning.editor is not None:
            planning.editor.take_words(text)

    def set_recovery_message(self, name: str, text: str) -> None:
        """Show what became of a recovery on the plan tab of a robot; nothing where it has none."""
        planning = self._robot(name).planning
        if planning is not None:
            planning.take_recovery_message(text)
            self._wake_if_watched()

    def update_health(self, reports: Sequence[Health]) -> None:
        """Show what nodes report of themselves; each report replaces that node's last one."""
        self._health.take(reports)

    def set_message(self, name: str, text: str) -> None:
        """Show a text below the status line of a robot; it is shown as it is, on one line.

        Raises:
            RobotNotFound: when no robot of that name is shown.
        """
        self._robot(name).take_message(text)
        self._wake_if_watched()

    def set_status(self, text: str) -> None:
        """Show a text at the top of the panel."""
        self._message = text
        self._wake_if_watched()

    def set_stopped(self, reason: str) -> None:
        """Show why all robots are stopped, with a button to resume; nothing where they are not."""
        if self._stop is not None and self._stop.take(reason):
            self._wake_if_watched()

    def clear_trail(self, name: str) -> None:
        """Take the trail of a robot away.

        Raises:
            RobotNotFound: when no robot of that name is shown.
        """
        self._robot(name).request_clear_trail()
        self._wake_if_watched()

    def flush(self) -> None:
        """Bring the scene up to date now, even with no page open."""
        with self._draw_lock, self._server.atomic():
            for live in self._robots.values():
                live.draw()
                live.draw_trail()

    def close(self) -> None:
        """Stop driving, end all threads and free the port; may be called twice."""
        if self._closed.is_set():
            return
        self._closed.set()
        for name, live in self._robots.items():
            if live.drive is not None and live.drive.rest_if_driving():
                self._intents.put(("twist", name), functools.partial(self.send_twist, name))
        self._intents.close()
        self._watch.close()
        self._wake.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=2.0)
        with quiet_viser():
            self._server.stop()

    def __enter__(self) -> BrowserViewer:
        """Return the viewer."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def _robot(self, name: str) -> LiveRobot:
        """Return the robot of that name."""
        try:
            return self._robots[name]
        except KeyError:
            raise RobotNotFound(name, self._robots, "the viewer") from None

    def _wake_if_watched(self) -> None:
        """Have the scene drawn soon if a page is open."""
        if self.client_count:
            self._wake.set()

    def _draw_loop(self) -> None:
        """Draw when something changed, at most at the given rate."""
        panel_due = 0.0
        while not self._closed.is_set():
            animated = any(live.animated for live in self._robots.values())
            pause = self._period if animated else PANEL_PERIOD
            self._wake.wait(pause if self.client_count else None)
            self._wake.clear()
            if self._closed.is_set() or not self.client_count:
                continue
            now = time.monotonic()
            try:
                self._draw(panel=now >= panel_due)
            except Exception:
                _log.exception("Drawing failed; the viewer goes on.")
            if now >= panel_due:
                panel_due = now + PANEL_PERIOD
            self._closed.wait(max(0.0, self._period - (time.monotonic() - now)))

    def _draw(self, panel: bool) -> None:
        """Send what changed; every few frames the panel and trails too."""
        with self._draw_lock, self._server.atomic():
            for live in self._robots.values():
                live.draw()
                if panel:
                    live.draw_trail()
        if panel:
            self._on_loop(self._refresh_panels)

    def _refresh_panels(self) -> None:
        """Renew all status lines and sliders; on viser's event loop."""
        self._health.refresh()
        if self._stop is not None:
            self._stop.refresh()
        line = global_line(self.client_count, self._message, self._health.summary())
        if line != self._status.content:
            self._status.content = line
        for live in self._robots.values():
            live.refresh_panel()

    def _on_loop(self, call: Callable[[], None]) -> None:
        """Have something called on viser's event loop."""
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:
            # The loop is closed: the viewer is going down.
            return

    def _client_came(self, client: viser.ClientHandle) -> None:
        """Bring the scene up to date, which nobody did while no page was open."""
        self._view.welcome(client)
        self._wake.set()

    def _client_left(self, client: viser.ClientHandle) -> None:
        """Stop what that page was driving; stop everything with the last page."""
        self._stop_drives_of(client.client_id)
        for drive in self._drives() if not self.client_count else ():
            drive.rest_if_driving()

    def _drives(self) -> list[DrivePanel]:
        """Return all drive pads."""
        return [live.drive for live in self._robots.values() if live.drive is not None]

    def _driving_pages(self) -> set[int]:
        """Return the pages that have latched a drive."""
        return {page for drive in self._drives() if (page := drive.latched_by()) is not None}

    def _stop_drives_of(self, client: int) -> None:
        """Stop what one page was driving."""
        for drive in self._drives():
            drive.client_left(client)

    def _stop_all(self) -> None:
        """Stop all robots, and let go of the drive pads."""
        if self.on_stop is not None:
            self.on_stop()
        for drive in self._drives():
            drive.rest_if_driving()

    def _resume(self) -> None:
        """Have commands taken again."""
        if self.on_resume is not None:
            self.on_resume()

    def _drive_changed(self) -> None:
        """Send what a drive pad wants, and keep an eye on the page that wants it."""
        self._intents.start_repeating()
        self._watch.look()

    def _balls(self) -> list[tuple[Array, float]]:
        """Return a ball about each robot as it stands now."""
        return [live.ball() for live in self._robots.values()]

    def _events(self, name: str) -> PanelEvents:
        """Return where the panel of one robot reports to."""
        return self.events(name, self._intents, self._drive_changed, self._wake.set)

    def _repeat_twists(self) -> bool:
        """Send what the drive pads want now; return whether more is to come."""
        more = False
        for name, live in self._robots.items():
            if live.drive is None:
                continue
            twist, active = live.drive.step()
            more |= active
            if twist is not None:
                self.send_twist(name, twist.vx, twist.vy, twist.wz)
        return more
