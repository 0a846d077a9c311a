# SPDX-License-Identifier: Apache-2.0
"""Browser viewer: displays robots on a web page and sends commands of its users.

Joint commands are sent to the joint controller's ``~/reference``, twists to the base controller's
``~/cmd_vel``, targets to RMPflow, inverse kinematics or the planner, objects to the planning scene.
The page also shows frames of /tf, a point cloud, an image and the diagnostics of the nodes, and
pauses, continues and resets the simulation.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from nav_msgs.msg import Path
from rclpy.qos import QoSProfile
from sensor_msgs.msg import CameraInfo, Image, LaserScan, PointCloud2
from std_srvs.srv import SetBool, Trigger
from visualization_msgs.msg import Marker, MarkerArray

from motion_nodes.core.robot.placement import parse_placements
from motion_nodes.errors import InvalidCommand, MotionError
from motion_nodes.extras.viewer.browser import BrowserViewer
from motion_nodes.extras.viewer.displays import Displays, FrameTree, Selection, thinned_cloud
from motion_nodes.extras.viewer.page_server import PageSettings
from motion_nodes.extras.viewer.suite_panels import Health
from motion_nodes.nodes.viewer.viewer_displays import (
    MarkerStore,
    RecordedRobot,
    camera_image,
    frame_pose,
    path_drawings,
    recorded_images,
    recorded_motions,
    scan_points,
)
from motion_nodes.nodes.viewer.viewer_goals import on_page
from motion_nodes.nodes.viewer.viewer_robot import WatchedRobot
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.loops import ExecutorQueue
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.messages.camera_messages import cloud_colours, pixels_of, points_of
from motion_nodes.ros.node import MotionNode, NodeParams
from motion_nodes.ros.parameters import param
from motion_nodes.ros.transforms import TransformLink, TransformTree
from motion_nodes.typing import Array

MARKERS = qos.TF_READER
"""Of markers every message counts: each adds or deletes some."""
SCAN_RGB = (220, 50, 50)
PERIOD = 0.1
"""Min time between two updates of a display [s]."""
TOPICS_PERIOD = 2.0
"""Period at which the topics of the graph are listed [s]."""
FRAME_TIMEOUT = 15.0
"""A frame without a transform for this time is reported [s]."""
MAX_LISTED = 5
"""Max number of frames listed in a message."""
COMMANDS = {
    "on_joint_target": ("", "send_joint"),
    "on_named_state": ("", "send_state"),
    "on_twist": ("", "send_twist"),
    "on_target": ("target", "send"),
    "on_plan": ("target", "plan"),
    "on_object": ("planning", "send_object"),
    "on_attach": ("attachment", "send"),
    "on_scene_load": ("planning", "send_scene"),
    "on_recover": ("planning", "send_recover"),
    "on_suction": ("suction", "send"),
    "on_task": ("task", "send"),
    "on_go": ("navigation", "send"),
}
"""Callbacks of the page, with the part of a :class:`.WatchedRobot` (empty: itself) and its method;
ignored where a robot has no such part."""
MARKER_TYPE = "visualization_msgs/msg/Marker"
TYPES = {
    "cloud": ("sensor_msgs/msg/PointCloud2",),
    "image": ("sensor_msgs/msg/Image",),
    "scan": ("sensor_msgs/msg/LaserScan",),
    "markers": (MARKER_TYPE, f"{MARKER_TYPE}Array"),
    "path": ("nav_msgs/msg/Path",),
}
"""Message types of each display."""
LEVELS = {
    DiagnosticStatus.OK: "OK",
    DiagnosticStatus.WARN: "WARN",
    DiagnosticStatus.ERROR: "ERROR",
    DiagnosticStatus.STALE: "STALE",
}
PAUSED = "paused"
"""Message of the simulation on /diagnostics while it is paused."""
UNUSED_TIME = 10.0
"""Time since the last page was open after which no states are received [s]."""
RATE_WITHOUT_PAGES = 5.0
"""Rate at which messages are read while no page is open [Hz]."""


class WatchedDisplays:
    """Subscribes to the displays selected on the page, only while a page is open."""

    def __init__(self, node: MotionNode[Any], frames: TransformTree) -> None:
        """Start without subscriptions.

        Args:
            node: the viewer.
            frames: transforms.
        """
        self._node, self._frames = node, frames
        self._clouds = _Selected(node, PointCloud2)
        self._images, self._infos = _Selected(node, Image), _Selected(node, CameraInfo)
        self._scans, self._paths = _Selected(node, LaserScan), _Selected(node, Path)
        self._markers = {MARKER_TYPE: _Selected(node, Marker, MARKERS)}
        self._markers[f"{MARKER_TYPE}Array"] = _Selected(node, MarkerArray, MARKERS)
        self._store = MarkerStore()
        self._camera: CameraInfo | None = None
        self._types: dict[str, list[str]] = {}
        """Types of each topic."""
        self._selected = Selection()
        self._due = self._topics_due = 0.0
        self._tree: FrameTree | None = None
        self._links: dict[str, TransformLink] = {}
        self._faults: dict[str, str] = {}
        """Fault of each display."""

    def show(self, viewer: BrowserViewer, anchors: Callable[[], list[tuple[str, Array]]]) -> None:
        """Update the page.

        Args:
            viewer: the page.
            anchors: returns frames of robots and their poses in the world, shape (4, 4).
        """
        displays, now = viewer.displays, time.monotonic()
        if displays is None or now < self._due:
            return
        if not viewer.client_count:
            self.destroy()
            return
        self._due = now + PERIOD
        self._frames.update()  # before what is latched arrives, and is placed once
        if now >= self._topics_due:
            self._topics_due = now + TOPICS_PERIOD
            self._types = dict(self._node.get_topic_names_and_types())
            displays.set_topics(
                {kind: [t for t, types in self._types.items() if {*types} & {*wanted}]
                 for kind, wanted in TYPES.items()}
            )  # fmt: skip
        selected = displays.selected
        topics = {kind: getattr(selected, kind) for kind in TYPES}
        self._faults = {k: v for k, v in self._faults.items() if k in topics.values()}
        self._tree = None
        placed = (topic for kind, topic in topics.items() if kind != "image" or selected.overlay)
        if selected.frames or any(placed):
            self._tree = self._placed(anchors())
        if selected.frames and self._tree is not None:
            displays.set_frames(self._tree)
            self._faults["TF"] = self._fault_of_frames(self._tree)
        self._show_cloud(displays, selected.cloud)
        self._show_image(displays, selected.image, selected.overlay)
        self._show_scan(displays, selected.scan)
        self._show_path(displays, selected.path)
        self._show_markers(displays, selected.markers)
        self._selected = selected
        displays.set_message("; ".join(filter(None, self._faults.values())))

    def destroy(self) -> None:
        """Unsubscribe."""
        every = (
            self._clouds, self._images, self._infos, self._scans, self._paths,
            *self._markers.values(),
        )  # fmt: skip
        self._camera = None
        for selection in every:
            selection.select("")

    def _placed(self, anchors: Iterable[tuple[str, Array]]) -> FrameTree:
        self._links = self._frames.links()
        transforms = {child: (link.parent, link.X_PC) for child, link in self._links.items()}
        return FrameTree.of(transforms, anchors)

    def _fault_of_frames(self, tree: FrameTree) -> str:
        oldest = self._node.now_ns() - round(1e9 * FRAME_TIMEOUT)
        old = sorted(
            child
            for child, link in self._links.items()
            if link.stamp_ns is not None and link.stamp_ns < oldest
        )
        return "; ".join(
            f"{text}: {_listed(names)}"
            for text, names in (
                ("no transform to a robot from", tree.unplaced),
                (f"no transform for {FRAME_TIMEOUT:.0f} s of", old),
            )
            if names
        )

    @contextlib.contextmanager
    def _reported(self, topic: str) -> Iterator[None]:
        """Context manager that keeps why a message cannot be shown, until one can."""
        try:
            yield
        except MotionError as error:
            self._faults[topic] = f"{topic}: {error}"
        else:
            self._faults.pop(topic, None)

    def _show_cloud(self, displays: Displays, topic: str) -> None:
        message = self._clouds.newest(topic)
        if message is None or self._tree is None:
            return
        with self._reported(topic):
            points = points_of(message)
            X_WF = frame_pose(message.header.frame_id, self._tree.pose)
            displays.set_cloud(thinned_cloud(topic, points, cloud_colours(message), X_WF))

    def _show_image(self, displays: Displays, topic: str, overlay: bool) -> None:
        message = self._images.newest(topic)
        # As image_transport has it: the info is beside the image.
        infos = f"{topic.rpartition('/')[0]}/camera_info" if topic and overlay else ""
        self._camera = self._infos.newest(infos) or (self._camera if infos else None)
        if message is None:
            return
        with self._reported(topic):
            pixels = pixels_of(message)
            displays.set_image(topic, pixels)
            if infos and self._tree is not None:
                if self._camera is None:
                    raise InvalidCommand(f"no message on {infos}", field="overlay")
                X_WC = frame_pose(message.header.frame_id, self._tree.pose)
                displays.set_camera(camera_image(topic, pixels, self._camera, X_WC))

    def _show_scan(self, displays: Displays, topic: str) -> None:
        message = self._scans.newest(topic)
        if message is None or self._tree is None:
            return
        with self._reported(topic):
            X_WF = frame_pose(message.header.frame_id, self._tree.pose)
            points = scan_points(message)
            rgb = np.tile(np.array(SCAN_RGB, np.uint8), (len(points), 1))
            displays.set_scan(thinned_cloud(topic, points, rgb, X_WF))

    def _show_path(self, displays: Displays, topic: str) -> None:
        if topic != self._selected.path:
            displays.set_drawings("path", ())
        message = self._paths.newest(topic)
        if message is None or self._tree is None:
            return
        with self._reported(topic):
            displays.set_drawings("path", path_drawings(message, self._tree.pose))

    def _show_markers(self, displays: Displays, topic: str) -> None:
        if topic != self._selected.markers:
            self._store = MarkerStore()
            self._store.changed = True
        markers: list[Marker] = []
        for kind, selection in self._markers.items():
            messages = selection.all(topic if kind in self._types.get(topic, ()) else "")
            markers += messages if kind == MARKER_TYPE else [m for a in messages for m in a.markers]
        self._store.update(markers)
        if self._store.changed and (self._tree is not None or not topic):
            pose = (lambda _: None) if self._tree is None else self._tree.pose
            drawings, fault = self._store.drawings(pose)
            displays.set_drawings("markers", drawings)
            self._faults.pop(topic, None)
            if fault:
                self._faults[topic] = f"{topic}: {fault}"


class _Selected:
    """The subscription to one topic, which may change."""

    def __init__(
        self, node: MotionNode[Any], kind: type[Any], profile: QoSProfile = qos.NEWEST
    ) -> None:
        self._node, self._kind, self._qos = node, kind, profile
        self._topic = ""
        self._subscription: PolledSubscription[Any] | None = None

    def select(self, topic: str) -> None:
        """Subscribe to a topic in place of the previous one; empty: to none."""
        if topic == self._topic:
            return
        self._topic = topic
        if self._subscription is not None:
            self._subscription.destroy()
            self._subscription = None
        if topic:
            publishers = self._node.get_publishers_info_by_topic(topic)
            latched = qos.LATCHED.durability
            # What latched publishers sent before is shown, too.
            kept = publishers and all(p.qos_profile.durability == latched for p in publishers)
            profile = qos.LATCHED if kept else self._qos
            self._subscription = PolledSubscription(self._node, self._kind, topic, profile)

    def newest(self, topic: str) -> Any | None:
        """Return the newest message of a topic, if there is a new one."""
        self.select(topic)
        return self._subscription.newest() if self._subscription is not None else None

    def all(self, topic: str) -> list[Any]:
        """Return the new messages of a topic, oldest first."""
        self.select(topic)
        return self._subscription.all() if self._subscription is not None else []


def _listed(names: Iterable[str]) -> str:
    names = tuple(names)
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return ", ".join(names[:MAX_LISTED]) + more


def health_of(message: DiagnosticArray) -> list[Health]:
    """Convert a diagnostics message."""
    return [
        Health(status.name, LEVELS.get(status.level, "ERROR"), status.message)
        for status in message.status
    ]


class WatchedSimulation:
    """Services and state of the simulation."""

    def __init__(self, node: MotionNode[Any], simulation: str) -> None:
        """Create the clients.

        Args:
            node: the viewer.
            simulation: full name of the node of the simulation.
        """
        self._name = simulation.strip("/")
        self._pause = node.create_client(SetBool, f"/{self._name}/pause", qos_profile=qos.SERVICES)
        self._reset = node.create_client(Trigger, f"/{self._name}/reset", qos_profile=qos.SERVICES)
        self._paused = False

    def pause(self, viewer: BrowserViewer, paused: bool) -> None:
        """Pause the simulation, or continue it."""

        def done(response: Any) -> None:
            self._paused = paused if response.success else self._paused
            viewer.set_simulation(self._paused, "" if response.success else response.message)

        self._call(viewer, self._pause, SetBool.Request(data=paused), done)

    def reset(self, viewer: BrowserViewer) -> None:
        """Reset the simulation."""
        self._call(
            viewer, self._reset, Trigger.Request(),
            lambda response: viewer.set_simulation(self._paused, response.message),
        )  # fmt: skip

    def show(self, viewer: BrowserViewer, statuses: Iterable[DiagnosticStatus]) -> None:
        """Update the page by reports of /diagnostics: others may pause the simulation, too."""
        for status in statuses:
            if status.name.strip("/") == self._name:
                self._paused = PAUSED in status.message.split("; ")
                viewer.set_simulation(self._paused)

    def _call(self, viewer: BrowserViewer, client: Any, request: Any, done: Any) -> None:
        if not client.service_is_ready():
            viewer.set_simulation(self._paused, f"no service {client.srv_name}: is it running?")
            return

        def received(future: Any) -> None:
            response = future.result()
            if response is not None:
                done(response)

        client.call_async(request).add_done_callback(received)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BrowserViewerParams(NodeParams):
    """Parameters of the viewer."""

    update_rate: float = param(
        30.0, doc="Max update rate of the page.", unit="Hz", gt=0.0, le=120.0, read_only=True
    )
    robots: tuple[str, ...] = param(
        doc="Robots to display, each as [NAMESPACE:=]ROBOT[@X,Y,YAW], in m and rad.", read_only=True
    )
    base_controllers: tuple[str, ...] = param(
        (), doc="Controllers of bases that are not those of the robots' descriptions, as "
        "NAMESPACE=CONTROLLER; the namespace may be empty.", read_only=True,
    )  # fmt: skip
    policies: tuple[str, ...] = param(
        (), doc="Names of the robots that are moved by a policy controller: they get a drive pad.",
        read_only=True,
    )  # fmt: skip
    simulation: str = param(
        "", doc="Node of the simulation, which the page pauses and resets; empty: none.",
        read_only=True,
    )  # fmt: skip
    port: int = param(8080, doc="TCP port of the page; 0 selects any free port.", ge=0, le=65535,
                      read_only=True)  # fmt: skip
    port_search: int = param(
        10, doc="Number of subsequent ports to try if the port is in use; 0: none.", ge=0, le=1000,
        read_only=True,
    )  # fmt: skip
    host: str = param(
        "127.0.0.1",
        doc="Network address to listen on; 0.0.0.0 makes the page, and control of the robots, "
        "available to the whole network.",
        read_only=True,
    )
    require_token: bool = param(
        True, doc="Serve only requests with a token, which is part of the logged page address; set "
        "MOTION_NODES_PAGE_TOKEN to choose it.", read_only=True,
    )  # fmt: skip
    dark: bool = param(False, doc="Use the dark theme.", read_only=True)
    shadows: bool = param(
        True, doc="Render shadows and reflections; disable on computers without a GPU.",
        read_only=True,
    )  # fmt: skip


class BrowserViewerNode(MotionNode[BrowserViewerParams]):
    """Serves the page."""

    params_type = BrowserViewerParams
    obeys_stop = True

    def __init__(self, ros_args: list[str] | None = None) -> None:
        super().__init__("browser_viewer", ros_args=ros_args)
        self._viewer: BrowserViewer | None = None
        self._frames: TransformTree | None = None
        self._executor_jobs: ExecutorQueue | None = None
        self._simulation: WatchedSimulation | None = None
        self._displays: WatchedDisplays | None = None
        self._watched: dict[str, WatchedRobot] = {}

    def configure(self) -> None:
        """Load the robots and open the page."""
        params = self.params
        places = parse_placements(params.robots)
        frames = self._frames = TransformTree(self, on_demand=True)
        jobs = self._executor_jobs = ExecutorQueue(self)
        watched = [WatchedRobot(self, place, frames, jobs, params.policies) for place in places]
        self._watched = {robot.name: robot for robot in watched}
        self._viewer = BrowserViewer(
            [watched.viewed for watched in self._watched.values()],
            PageSettings(
                params.port,
                params.host,
                params.port_search,
                rate=params.update_rate,
                dark=params.dark,
                shadows=params.shadows,
                require_token=params.require_token,
            ),
            stops=True,
            simulation=bool(params.simulation),
            displays=True,
        )
        self._displays = WatchedDisplays(self, frames)
        simulation = WatchedSimulation(self, params.simulation) if params.simulation else None
        self._simulation = simulation
        self._diagnoses = self.poll(DiagnosticArray, "/diagnostics", qos.DIAGNOSTICS)
        self._commands: deque[tuple[Any, ...]] = deque(maxlen=100)
        for event, (part, method) in COMMANDS.items():
            setattr(self._viewer, event, self._enqueue(part, method))
        if simulation is not None:
            viewer = self._viewer
            self._viewer.on_pause = lambda paused: jobs.submit(
                lambda: simulation.pause(viewer, paused)
            )
            self._viewer.on_reset = lambda: jobs.submit(lambda: simulation.reset(viewer))
        self._viewer.on_recording = self._open_recording
        latch = self.stop_latch
        assert latch is not None
        self._viewer.on_stop = lambda: latch.stop("the browser page")
        self._viewer.on_resume = latch.resume
        self.get_logger().info(f"open {self._viewer.url} in a browser")

    def activate(self) -> None:
        """Drop commands from before the activation."""
        self._commands.clear()
        self._used_at = time.monotonic()

    def tick(self, dt: float) -> None:
        """Send commands and update the page."""
        assert self._viewer is not None
        self._send_commands(self._viewer)
        self._viewer.set_stopped(on_page(self.stop_reason))
        now = time.monotonic()
        if self._viewer.client_count:
            self._used_at = now
        for watched in self._watched.values():
            watched.listen(wanted=now - self._used_at < UNUSED_TIME)
            page = self._viewer.robot(watched.name)
            watched.show(page)
            page.set_message(watched.status())
        if self._displays is not None:
            self._displays.show(self._viewer, self._anchors)
        for message in self._diagnoses.all():
            self._viewer.update_health(health_of(message))
            if self._simulation is not None:
                self._simulation.show(self._viewer, message.status)
        if not self._viewer.client_count:
            self.idle(RATE_WITHOUT_PAGES)

    def stopped(self, why: str) -> None:
        """Drop pending commands."""
        self._commands.clear()

    def halt(self) -> None:
        """Stop bases that the page drives."""
        self._commands.clear()
        for watched in self._watched.values():
            watched.stop_base()

    def release(self) -> None:
        """Close the page."""
        if self._viewer is not None:
            self._viewer.close()
            self._viewer = None
        for watched in self._watched.values():
            watched.destroy()
        self._watched = {}
        if self._displays is not None:
            self._displays.destroy()
            self._displays = None
        if self._executor_jobs is not None:
            self._executor_jobs.destroy()
            self._executor_jobs = None
        if self._frames is not None:
            self._frames.destroy()
            self._frames = None

    def notice(self) -> str:
        """Return the address of the page."""
        return f"shows the page {self._viewer.url}" if self._viewer is not None else ""

    def diagnose(self, report: Report) -> None:
        """Report the address of the page, its clients, and missing robots."""
        if self._viewer is not None:
            report.value("address", self._viewer.url)
            report.value("pages open", self._viewer.client_count)
        for watched in self._watched.values():
            if watched.status():
                report.note("WARN", f"{watched.name}: {watched.status()}")

    def _open_recording(self, file: str, content: bytes) -> None:
        """Read a recording in a thread of its own, which takes seconds, and show it."""
        viewer = self._viewer
        robots = {
            name: RecordedRobot(each.robot, *each.recorded_topics(), each.X_WO)
            for name, each in self._watched.items()
        }

        def read() -> None:
            assert viewer is not None
            motions, images, text = {}, {}, ""
            try:
                images = recorded_images(content)
                motions = recorded_motions(content, robots)
            except MotionError as error:
                text = str(error)
            shown = ", ".join([*motions, *images])
            viewer.show_recording(motions, f"{file}: {shown or text}", images)

        threading.Thread(target=read, name="recording", daemon=True).start()

    def _anchors(self) -> list[tuple[str, Array]]:
        """Return frames of the robots and their poses in the world, shape (4, 4)."""
        return [anchor for watched in self._watched.values() for anchor in watched.anchors()]

    def _enqueue(self, part: str, method: str) -> Callable[..., None]:
        """Return a callback of the page that queues a method call of a robot for the loop."""
        return lambda robot, *values: self._commands.append((robot, part, method, values))

    def _send_commands(self, viewer: BrowserViewer) -> None:
        while self._commands:
            robot, part, method, values = self._commands.popleft()
            watched = self._watched[robot]
            receiver = getattr(watched, part) if part else watched
            if receiver is not None:
                getattr(receiver, method)(viewer.robot(robot), *values)
