# SPDX-License-Identifier: Apache-2.0
"""The browser viewer: robots in a web page, with joint sliders and drive pads, without ROS.

Reads viser's icons from an archive that is opened once; camera presets and appearance of
the page.
"""

from __future__ import annotations

import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import viser
from viser import _icons

from motion_nodes.core.scene.scene import WorldObject
from motion_nodes.errors import InvalidConfig, RobotNotFound
from motion_nodes.extras.viewer.displays import Displays
from motion_nodes.extras.viewer.live_robot import LiveRobot
from motion_nodes.extras.viewer.page_server import (
    HOLD_PATH,
    RELEASE_PATH,
    RESUME_PATH,
    STOP_PATH,
    PageSettings,
    ServedPage,
    set_theme,
)
from motion_nodes.extras.viewer.panel_style import DEG, RAD, AngleUnit, global_line, on_loop, plain
from motion_nodes.extras.viewer.planning_view import notify
from motion_nodes.extras.viewer.recording_panel import (
    RecordedImages,
    RecordedMotion,
    RecordingPanel,
)
from motion_nodes.extras.viewer.scene_setup import (
    MOBILE_RADIUS,
    PAGE,
    VIEW_DIRECTION,
    DrawLoop,
    SceneSetup,
    camera_for,
)
from motion_nodes.extras.viewer.suite_panels import (
    Health,
    HealthPanel,
    ScalingPanel,
    SimulationPanel,
    StopPanel,
)
from motion_nodes.extras.viewer.ui_commands import (
    BaseDriving,
    MotionScaling,
    PanelEvents,
    PlanCommand,
    SliderHold,
    TargetCommand,
    TaskCommand,
    invoke,
)
from motion_nodes.extras.viewer.viewed_robot import PLANNER, ViewedRobot
from motion_nodes.typing import Array

DIRECTIONS: dict[str, Array] = {
    "Fit": VIEW_DIRECTION,
    "Front": np.array([1.0, 0.0, 0.12]),
    "Side": np.array([0.0, 1.0, 0.12]),
    # Not exactly vertical, where the camera's up direction would be undefined.
    "Top": np.array([-0.02, 0.0, 1.0]),
}
"""Directions from the robots to the camera, in the world frame, shape (3,)."""
SETTLING = 3.0
"""[s] Time within which a new page settles on its size and initial camera."""


@contextmanager
def open_icons() -> Iterator[None]:
    """Keep the archive of icons open meanwhile.

    viser opens it for each icon, which takes about 30 ms, as it contains some 5000.
    """
    with zipfile.ZipFile(_icons.ICONS_DIR / "tabler-icons.zip") as archive:
        kept = SimpleNamespace(ZipFile=lambda _file: nullcontext(archive))
        _icons.zipfile = kept  # type: ignore[assignment]
        try:
            yield
        finally:
            _icons.zipfile = zipfile


class _PlacedCamera(NamedTuple):
    """Where the camera of a page was placed."""

    direction: Array
    """From the robots to the camera, shape (3,)."""
    position: Array
    """In the world [m], shape (3,)."""
    size: tuple[float, float]
    """Width and height of the page [pixels]."""


def _size_of(camera: viser.CameraHandle) -> tuple[float, float]:
    """Return width and height of a page [pixels]; a new one does not have them yet."""
    return float(camera.image_width or PAGE[0]), float(camera.image_height or PAGE[1])


class ViewPanel:
    """Camera presets, dark theme and shadows.

    Args:
        server: the viser server.
        setup: floor and lights.
        bounding_spheres: returns the centre [m], shape (3,), and radius [m] of each robot's
            bounding sphere in the world.
        dark: initial theme.
        shadows: whether shadows and reflections are initially enabled.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        setup: SceneSetup,
        bounding_spheres: Callable[[], list[tuple[Array, float]]],
        dark: bool,
        shadows: bool,
    ) -> None:
        self._server, self._setup, self._bounding_spheres = server, setup, bounding_spheres
        with server.gui.add_folder("View", expand_by_default=False):
            self.camera = server.gui.add_button_group("Camera", tuple(DIRECTIONS))
            self.dark = server.gui.add_checkbox("Dark", dark)
            self.shadows = server.gui.add_checkbox(
                "Shadows", shadows, hint="Shadows and reflections. Turn off on slow devices."
            )
        self._placed: dict[int, _PlacedCamera] = {}
        """The last placement on each page."""
        self.camera.on_click(self._camera_pressed)
        self.dark.on_update(on_loop(self._dark_changed))
        self.shadows.on_update(on_loop(lambda: setup.set_shadows(bool(self.shadows.value))))

    def set_initial_camera(self, client: viser.ClientHandle) -> None:
        """Place the camera of a new page by its size.

        A new page reports its size and camera several times, the first time possibly before it has
        its size, and may replace a camera that it was sent meanwhile. Later, when a phone is turned
        or a window resized, the camera is placed again unless the user has moved it.
        """
        end, settled = time.monotonic() + SETTLING, 0

        async def updated(camera: viser.CameraHandle) -> None:
            nonlocal settled
            # From the second report of the placed camera on, changes are the user's.
            if time.monotonic() < end and settled < 2:
                position, _ = self._view_from(VIEW_DIRECTION, camera)
                if np.allclose(camera.position, position, atol=1e-3):
                    settled += 1
                else:
                    self._place_camera(client, VIEW_DIRECTION)
                return
            placed = self._placed[client.client_id]
            resized = placed.size != _size_of(camera)
            if resized and np.allclose(camera.position, placed.position, atol=1e-3):
                self._place_camera(client, placed.direction)

        client.camera.on_update(updated)
        self._place_camera(client, VIEW_DIRECTION)

    def _view_from(self, direction: Array, camera: viser.CameraHandle) -> tuple[Array, Array]:
        """Return position and target of a camera that shows all robots [m], shape (3,) each."""
        return camera_for(
            self._bounding_spheres(), direction, self._setup.min_radius, _size_of(camera)
        )

    def client_left(self, client: int) -> None:
        """Forget a closed page."""
        self._placed.pop(client, None)

    def _place_camera(self, client: viser.ClientHandle, direction: Array) -> None:
        position, look_at = self._view_from(direction, client.camera)
        self._placed[client.client_id] = _PlacedCamera(direction, position, _size_of(client.camera))
        with client.atomic():
            client.camera.up_direction = (0.0, 0.0, 1.0)
            client.camera.position = position
            client.camera.look_at = look_at

    async def _camera_pressed(self, event: viser.GuiEvent[viser.GuiButtonGroupHandle]) -> None:
        """Place the camera of the page on which the button was pressed."""
        if event.client is not None:
            self._place_camera(event.client, DIRECTIONS[str(event.target.value)])

    def _dark_changed(self) -> None:
        set_theme(self._server, bool(self.dark.value))
        self._setup.set_dark(bool(self.dark.value))


class BrowserViewer(ServedPage):
    """Serves a page that displays robots and accepts commands for them.

    Updates of a :meth:`robot` may come from any thread at any rate: only the newest is kept, and
    all links that moved are sent together at most ``rate`` times a second. Without an open page
    nothing is sent.

    Commands given on the page are passed to the ``on_...`` callbacks, None initially. They are
    called one at a time on a single thread of the viewer. If a callback is slow, superseded values
    are skipped. Exceptions in callbacks are logged.

    Everyone who can open the page can move the robots; by default only this machine can.

    Args:
        robots: the robots.
        page: address and look of the page.
        stops: add a button, and the key Esc, that stop all robots; see ``on_stop``.
        simulation: add buttons that pause and reset the simulation; see ``on_pause``.
        displays: add folders that show frames, a point cloud and an image (see ``displays``), and
            recordings (see ``on_recording``).

    Raises:
        InvalidConfig: two robots with the same name, or settings out of range.
        PortInUse: no port is free.
    """

    def __init__(
        self,
        robots: Sequence[ViewedRobot],
        page: PageSettings | None = None,
        *,
        stops: bool = False,
        simulation: bool = False,
        displays: bool = False,
    ) -> None:
        """Start the server and its threads, without callbacks."""
        page = page or PageSettings()
        names = [robot.name for robot in robots]
        if len(set(names)) != len(names):
            raise InvalidConfig(
                f"names of viewed robots must be unique, got {', '.join(names)}.", field="name"
            )
        self.slider_hold = SliderHold()
        """Whether a slider is held on a page."""
        self._scaling: ScalingPanel | None = None
        self.on_joint_target: Callable[[str, str, float], None] | None = None
        """Robot, joint and target position [rad or m], from a slider."""
        self.on_named_state: Callable[[str, str], None] | None = None
        """Robot and named state to move to."""
        self.on_twist: Callable[[str, float, float, float], None] | None = None
        """Robot, vx, vy [m/s] and wz [rad/s] in its base frame; repeated at 15 Hz while driving,
        then zero three times."""
        self.on_target: Callable[[str, TargetCommand], None] | None = None
        """Robot and target of its tool."""
        self.on_plan: Callable[[str, PlanCommand], None] | None = None
        """Robot and goal of its planner."""
        self.on_object: Callable[[str, str, WorldObject | None], None] | None = None
        """Robot, name of an object of its scene, and the object: added, with a new pose, or None
        to remove it."""
        self.on_attach: Callable[[str, str, str], None] | None = None
        """Robot, name of an object of its scene, and the link to attach it to; empty: detach it."""
        self.on_scene_load: Callable[[str, tuple[WorldObject, ...]], None] | None = None
        """Robot and objects of a file to add to its scene."""
        self.on_recover: Callable[[str], None] | None = None
        """Robot to recover from a collision."""
        self.on_suction: Callable[[str, bool], None] | None = None
        """Robot, and whether to close its surface gripper, or open it."""
        self.on_task: Callable[[str, TaskCommand], None] | None = None
        """Robot and task for its task server."""
        self.on_go: Callable[[str, float, float, float], None] | None = None
        """Base, and the pose to drive to: x, y [m] and yaw [rad] in the world."""
        self.on_pause: Callable[[bool], None] | None = None
        """Whether to pause the simulation, or continue it."""
        self.on_reset: Callable[[], None] | None = None
        """Reset the simulation."""
        self.on_recording: Callable[[str, bytes], None] | None = None
        """Name and content of a recording to show by :meth:`show_recording`; called on viser's
        event loop."""
        self.on_stop: Callable[[], object] | None = None
        """Stop all robots. This callback and ``on_resume`` are called immediately, on viser's event
        loop."""
        self.on_resume: Callable[[], object] | None = None
        """Accept commands again."""
        self._closed = threading.Event()
        self._draw_lock = threading.Lock()
        hold = self.slider_hold
        actions: dict[str, Callable[[], object]] = {
            HOLD_PATH: hold.hold, RELEASE_PATH: hold.release,
        }  # fmt: skip
        if stops:
            actions |= {STOP_PATH: self._stop_all, RESUME_PATH: self._resume}
        super().__init__(page, actions)
        self._loop = self._server.get_event_loop()
        self._driving = BaseDriving(self._server, self.send_twist)
        self._drawing = DrawLoop(1.0 / page.rate, self._draw, self._page_open, self._animated)
        self._simulation: SimulationPanel | None = None
        with open_icons():
            self._add_panels(robots, page, stops)
            if simulation:
                self._simulation = SimulationPanel(self._server.gui, self._pause, self._reset)
        self.displays: Displays | None = None
        """Frames, a point cloud and an image; None without ``displays``."""
        self._recording: RecordingPanel | None = None
        if displays:
            self.displays = Displays(self._server, self._drawing, self.run_on_loop)
            self._recording = RecordingPanel(
                self._server, {robot.name: robot for robot in robots},
                lambda name, content: invoke(self.on_recording, name, content),
                self._drawing.request_if_watched,
            )  # fmt: skip
        self._server.on_client_connect(self._client_connected)
        self._server.on_client_disconnect(self._client_left)
        self._drawing.start()

    @property
    def client_count(self) -> int:
        """Number of open pages."""
        return len(self._server.get_clients())

    @property
    def robot_names(self) -> tuple[str, ...]:
        """Names of the robots in updates and callbacks."""
        return tuple(self._robots)

    @property
    def scaling(self) -> MotionScaling:
        """Velocity and acceleration scaling chosen on the page, for all robots."""
        return MotionScaling() if self._scaling is None else self._scaling.scaling

    def send_twist(self, name: str, vx: float = 0.0, vy: float = 0.0, wz: float = 0.0) -> None:
        """Call ``on_twist``; only on the thread of the callbacks.

        Args:
            name: of the robot.
            vx: forward velocity in the base frame [m/s].
            vy: velocity to the left [m/s].
            wz: yaw rate, counter-clockwise [rad/s].
        """
        invoke(self.on_twist, name, vx, vy, wz)

    def flush(self) -> None:
        """Update the scene now, even without an open page."""
        with self._draw_lock, self._server.atomic():
            for live in self._robots.values():
                live.draw()
                live.draw_trail()
            self._draw_others()

    def close(self) -> None:
        """Stop driving, end all threads and release the port; may be called repeatedly."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._driving.close()
        self._drawing.close()
        super().close()

    # ---- updates

    def robot(self, name: str) -> LiveRobot:
        """Return a robot, which takes updates.

        Raises:
            RobotNotFound: no such robot.
        """
        try:
            return self._robots[name]
        except KeyError:
            raise RobotNotFound(name, self._robots, "the viewer") from None

    def notify(self, title: str, text: str) -> None:
        """Show a notification on all open pages for some seconds.

        Args:
            title: of the notification.
            text: one or several lines of plain text.
        """
        self.run_on_loop(lambda: notify(self._server.get_clients().values(), title, text))

    def update_health(self, reports: Sequence[Health]) -> None:
        """Show diagnostics of nodes; each report replaces the previous one of its node."""
        self._health.set_reports(reports)

    def set_stopped(self, reason: str) -> None:
        """Show why all robots are stopped, with a button to resume; empty: not stopped.

        Plans that are shown are hidden at a stop.
        """
        if self._stop is not None and self._stop.set_reason(reason):
            for robot in self._robots.values() if reason else ():
                if robot.planning is not None:
                    robot.planning.path.end()
            self._drawing.request_if_watched()

    def set_simulation(self, paused: bool, text: str | None = None) -> None:
        """Show whether the simulation is paused.

        Args:
            paused: whether simulated time is paused.
            text: a line below the buttons; None: unchanged.
        """
        if self._simulation is not None and self._simulation.set_state(paused, text):
            self._drawing.request_if_watched()

    def show_recording(
        self,
        motions: Mapping[str, RecordedMotion],
        text: str,
        images: Mapping[str, RecordedImages] | None = None,
    ) -> None:
        """Show a recording as ghosts in place of the previous one; ignored without displays.

        Args:
            motions: by robot; empty: none.
            text: one line of plain text, such as the name of the file.
            images: by topic; None: none.
        """
        if self._recording is not None:
            self._recording.set_motions(motions, text, images)

    # ---- internal

    def run_on_loop(self, call: Callable[[], None]) -> None:
        """Schedule a call on viser's event loop."""
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:
            # The loop is closed: the viewer is shutting down.
            return

    def _add_panels(self, robots: Sequence[ViewedRobot], page: PageSettings, stops: bool) -> None:
        """Add robots, panels, floor and lights."""
        # The stop first: a line above it that wraps would move it under the pointer.
        self._stop = StopPanel(self._server.gui, self._stop_all, self._resume) if stops else None
        self._status = self._server.gui.add_markdown(global_line(0))
        if any(PLANNER in robot.followers for robot in robots):
            self._scaling = ScalingPanel(self._server.gui)
        unit = AngleUnit()
        self._angles = self._server.gui.add_dropdown(
            "Angles", (RAD, DEG), hint="Unit of angles on the panel. Topics are in rad."
        )
        self._angles.on_update(on_loop(lambda: unit.set(str(self._angles.value))))
        self._robots: dict[str, LiveRobot] = {}
        for number, robot in enumerate(robots):
            events = PanelEvents(self, robot.name, self._driving, self._drawing)
            self._robots[robot.name] = LiveRobot(self._server, robot, number, events, unit)
        for live in self._robots.values():
            live.view.meshes.warn_of_missing()
        self._driving.set_pads(
            {name: live.drive for name, live in self._robots.items() if live.drive is not None}
        )
        min_radius = MOBILE_RADIUS if any(robot.drive for robot in robots) else 0.0
        dark, shadows = page.dark, page.shadows
        setup = SceneSetup(
            self._server, self._bounding_spheres(), dark, shadows=shadows, min_radius=min_radius
        )
        self._health = HealthPanel(self._server.gui)
        self._view = ViewPanel(self._server, setup, self._bounding_spheres, dark, shadows)

    def _page_open(self) -> bool:
        return self.client_count > 0

    def _animated(self) -> bool:
        replayed = self._recording is not None and self._recording.playing
        return replayed or any(live.animated for live in self._robots.values())

    def _draw(self, panel: bool) -> None:
        """Send changes of the scene; if ``panel``, those of trails and panels, too."""
        with self._draw_lock, self._server.atomic():
            for live in self._robots.values():
                live.draw()
                if panel:
                    live.draw_trail()
            self._draw_others()
        if panel:
            self.run_on_loop(self._refresh_panels)

    def _draw_others(self) -> None:
        """Send changes of displays and recording."""
        for part in (self.displays, self._recording):
            if part is not None:
                part.draw()

    def _refresh_panels(self) -> None:
        """Update all status lines and sliders; on viser's event loop."""
        self._health.refresh()
        for panel in (self._stop, self._simulation, self.displays, self._recording):
            if panel is not None:
                panel.refresh()
        line = global_line(self.client_count, plain(self._health.summary()))
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
        self._view.client_left(client.client_id)
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
