# SPDX-License-Identifier: Apache-2.0
"""What the page displays of other programs: markers, paths, laser scans, images, recordings.

Sources: visualization_msgs/Marker (types, actions, lifetime, lists, meshes), nav_msgs/Path,
sensor_msgs/LaserScan, sensor_msgs/CameraInfo. A recording is joint states and odometry of the
page's robots by their topics, and images.
"""

from __future__ import annotations

import contextlib
import functools
import math
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path as FilePath
from typing import Any

import numpy as np
from nav_msgs.msg import Path
from numpy.typing import NDArray
from sensor_msgs.msg import CameraInfo, LaserScan
from visualization_msgs.msg import Marker

from motion_nodes.core.robot.meshes import resolve_mesh
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.mesh_file import read_mesh
from motion_nodes.core.scene.shapes import convex_hull, spiral_directions
from motion_nodes.errors import InvalidCommand, InvalidConfig, InvalidDescription, MotionError
from motion_nodes.extras.viewer.displays import CameraImage
from motion_nodes.extras.viewer.object_editor import mesh_of_upload
from motion_nodes.extras.viewer.planning_view import Drawing
from motion_nodes.extras.viewer.recording_panel import RecordedImages, RecordedMotion
from motion_nodes.ros.messages.camera_messages import pinhole_of, pixels_of
from motion_nodes.ros.messages.moveit_messages import pose_of
from motion_nodes.ros.messages.rotations import matrix_of
from motion_nodes.ros.recording import Received, read_mcap
from motion_nodes.typing import Array

MAX_MARKERS = 500
"""Max number of markers of a topic; further ones are not drawn."""
MAX_COPIES = 2000
"""Max number of solids of a list."""
PATH_RGB = (30, 160, 90)
MESH_RGB = (190, 190, 190)
"""Colour of meshes with materials of their own, which are not drawn."""
MAX_MESH = 32 << 20
"""Max size of the file of a mesh [bytes]."""
PoseOfFrame = Callable[[str], Array | None]
"""Returns the pose of a frame in the world, shape (4, 4); None: unknown."""


class MarkerStore:
    """The markers of a topic: added, replaced, deleted, and forgotten after their lifetime."""

    def __init__(self) -> None:
        self._markers: dict[tuple[str, int], tuple[Marker, float]] = {}
        self.changed = False
        """Whether something changed since :meth:`drawings`."""

    def update(self, markers: Iterable[Marker], now: float | None = None) -> None:
        """Apply markers; ``now``: time on ``time.monotonic()`` [s], None: the present."""
        now = time.monotonic() if now is None else now
        for marker in markers:
            key = marker.ns, marker.id
            if marker.action == Marker.DELETEALL:
                self._markers.clear()
            elif marker.action == Marker.DELETE:
                self._markers.pop(key, None)
            elif key in self._markers or len(self._markers) < MAX_MARKERS:
                life = marker.lifetime.sec + 1e-9 * marker.lifetime.nanosec
                self._markers[key] = marker, now + life if life > 0.0 else np.inf
            self.changed = True
        over = [key for key, (_, end) in self._markers.items() if end <= now]
        for key in over:
            del self._markers[key]
        self.changed |= bool(over)

    def drawings(self, pose_of_frame: PoseOfFrame) -> tuple[list[Drawing], str]:
        """Return the drawings in the world, and the first fault; empty: none."""
        self.changed = False
        found, faults = [], []
        for marker, _ in self._markers.values():
            try:
                found += marker_drawings(marker, frame_pose(marker.header.frame_id, pose_of_frame))
            except MotionError as error:
                faults.append(f"marker '{marker.ns}' {marker.id}: {error}")
        return found, faults[0] if faults else ""


def marker_drawings(marker: Marker, X_WF: Array) -> list[Drawing]:
    """Return a marker as drawings in the world; empty for types that are not drawn.

    Args:
        marker: the marker.
        X_WF: pose of its frame in the world, shape (4, 4).

    Raises:
        InvalidCommand: numbers that are not finite, or not a pose.
        InvalidDescription: a mesh that cannot be read.
    """
    X = X_WF @ pose_of(marker.pose, "pose")[0]
    c, s = marker.color, np.array([marker.scale.x, marker.scale.y, marker.scale.z])
    rgb = (byte_of(c.r), byte_of(c.g), byte_of(c.b))
    opacity = min(max(float(np.nan_to_num(c.a)), 0.0), 1.0)
    given = np.array([(p.x, p.y, p.z) for p in marker.points], np.float64).reshape(-1, 3)
    if not (np.isfinite(given).all() and np.isfinite(s).all()):
        raise InvalidCommand("points or scale are not finite", field="points")
    points, kind = _moved(X, given), marker.type
    if kind == Marker.LINE_LIST:
        return [Drawing(points[: len(points) // 2 * 2], rgb, size=1.5)]
    if kind == Marker.LINE_STRIP:
        return [Drawing(_strip(points), rgb, size=3.0)]
    if kind in (Marker.POINTS, Marker.SPHERE_LIST):
        return [Drawing(points, rgb, lines=False, size=float(s[0]))]
    if kind == Marker.TEXT_VIEW_FACING:
        texts = [marker.text[:200]] if marker.text else []
        return [Drawing(X[None, :3, 3], rgb, lines=False, text=text) for text in texts]
    if kind == Marker.TRIANGLE_LIST:
        corners = points[: len(points) // 3 * 3]
        faces = np.arange(len(corners)).reshape(-1, 3)
        return [Drawing(corners, rgb, lines=False, faces=faces, opacity=opacity)]
    if kind == Marker.CUBE_LIST:
        vertices, faces = _unit_solid(Marker.CUBE)
        given = given[:MAX_COPIES]
        copies = (given[:, None] + vertices * s).reshape(-1, 3)
        shifts = len(vertices) * np.arange(len(given))[:, None, None]
        faces = (faces + shifts).reshape(-1, 3)
        corners = _moved(X, copies)
        return [Drawing(corners, rgb, lines=False, faces=faces, opacity=opacity)]
    if kind == Marker.MESH_RESOURCE:
        vertices, faces = _mesh(marker.mesh_resource, bytes(marker.mesh_file.data))
        if marker.mesh_use_embedded_materials and not any((c.r, c.g, c.b, c.a)):
            rgb, opacity = MESH_RGB, 1.0
        corners = _moved(X, vertices * s)
        return [Drawing(corners, rgb, lines=False, faces=faces, opacity=opacity)]
    if kind == Marker.ARROW and len(given) >= 2:
        # From point to point; scale: diameters of shaft and head, length of the head.
        tail, way = given[0], given[1] - given[0]
        X, s = X @ _along(tail, way), np.array([np.linalg.norm(way), s[1], s[1]])
    if kind not in (Marker.ARROW, Marker.CUBE, Marker.SPHERE, Marker.CYLINDER):
        return []
    vertices, faces = _unit_solid(kind)
    corners = _moved(X, vertices * s)
    return [Drawing(corners, rgb, lines=False, faces=faces, opacity=opacity)]


@functools.lru_cache(maxsize=16)
def _mesh(resource: str, content: bytes) -> tuple[Array, NDArray[np.intp]]:
    """Return vertices and triangles of a mesh: of a file, or with its content in the message."""
    if content:
        name = resource
        size = len(content)
    else:
        if not resource.startswith(("package://", "file://")):
            raise InvalidDescription(
                f"mesh '{resource}' is neither package:// nor file://", field="mesh_resource"
            )
        path = resolve_mesh(resource, FilePath("/"))
        name, size = str(path), path.stat().st_size
    if size > MAX_MESH:
        raise InvalidDescription(
            f"mesh '{resource}' has {size >> 20} MiB, more than {MAX_MESH >> 20} MiB",
            field="mesh_resource",
        )
    mesh = mesh_of_upload(name, content, 1.0) if content else read_mesh(path)
    return mesh.vertices, np.asarray(mesh.triangles, np.intp)


def camera_image(
    topic: str, pixels: NDArray[np.uint8], info: CameraInfo, X_WC: Array
) -> CameraImage:
    """Return an image with its camera, without distortion and offset of its centre.

    Args:
        topic: topic of the image.
        pixels: shape (h, w, 3).
        info: of the camera.
        X_WC: pose of its optical frame in the world, shape (4, 4).

    Raises:
        InvalidCommand: an info without focal length.
    """
    lens = pinhole_of(info)
    fov = 2.0 * math.atan(0.5 * lens.height / lens.fy)
    aspect = (lens.width / lens.fx) / (lens.height / lens.fy)
    return CameraImage(topic, pixels, fov, aspect, X_WC)


def path_drawings(path: Path, pose_of_frame: PoseOfFrame) -> list[Drawing]:
    """Return a path as a line in the world.

    Raises:
        InvalidCommand: an unknown frame, or points that are not finite.
    """
    places = [(p.pose.position.x, p.pose.position.y, p.pose.position.z) for p in path.poses]
    X_WF = frame_pose(path.header.frame_id, pose_of_frame)
    points = _moved(X_WF, np.array(places, np.float64).reshape(-1, 3))
    return [Drawing(_strip(points), PATH_RGB, size=3.0)]


def scan_points(scan: LaserScan) -> NDArray[np.float32]:
    """Return the returns of a scan within its range, in its frame [m], shape (n, 3)."""
    r = np.asarray(scan.ranges, np.float64)
    angles = scan.angle_min + scan.angle_increment * np.arange(len(r))
    seen = np.isfinite(r) & np.isfinite(angles) & (r >= scan.range_min) & (r <= scan.range_max)
    r, angles = r[seen], angles[seen]
    return np.column_stack((r * np.cos(angles), r * np.sin(angles), 0.0 * r)).astype(np.float32)


def frame_pose(frame_id: str, pose_of_frame: PoseOfFrame) -> Array:
    """Return the pose of a message's frame, shape (4, 4).

    Raises:
        InvalidCommand: an unknown frame.
    """
    frame = frame_id.lstrip("/")
    X_WF = pose_of_frame(frame)
    if X_WF is None:
        raise InvalidCommand(f"no transform from '{frame}' to a robot", field="frame_id")
    return X_WF


def _moved(X_AB: Array, points: Array) -> Array:
    """Return points of frame B in frame A [m], shape (n, 3)."""
    return points @ X_AB[:3, :3].T + X_AB[:3, 3]


def _strip(points: Array) -> Array:
    """Return both ends of each line between consecutive points, shape (2 (n - 1), 3)."""
    return np.stack([points[:-1], points[1:]], axis=1).reshape(-1, 3)


def _along(tail: Array, way: Array) -> Array:
    """Return the frame at a point whose x axis is a direction, shape (4, 4)."""
    x = way / max(float(np.linalg.norm(way)), 1e-12)
    helper = np.array([0.0, 0.0, 1.0]) if abs(x[2]) < 0.9 else np.array([0.0, 1.0, 0.0])
    y = np.cross(helper, x)
    y /= max(float(np.linalg.norm(y)), 1e-12)
    X = np.eye(4)
    X[:3, :3], X[:3, 3] = np.column_stack((x, y, np.cross(x, y))), tail
    return X


@functools.cache
def _unit_solid(kind: int) -> tuple[Array, NDArray[np.intp]]:
    """Return vertices and triangles of a marker's solid with scale 1: centred, arrows along x."""
    angles = np.linspace(0.0, 2.0 * np.pi, 20, endpoint=False)
    circle = 0.5 * np.column_stack((np.cos(angles), np.sin(angles), np.zeros(20)))
    if kind == Marker.SPHERE:
        return convex_hull(0.5 * spiral_directions(160))
    if kind == Marker.CYLINDER:
        return convex_hull(np.vstack([circle + np.array([0.0, 0.0, z]) for z in (-0.5, 0.5)]))
    if kind == Marker.ARROW:
        # As RViz: the head is 23 % of the length and twice as wide as the shaft.
        ring, neck = circle[:, [2, 0, 1]], np.array([0.77, 0.0, 0.0])
        shaft = convex_hull(np.vstack([0.5 * ring, 0.5 * ring + neck]))
        head = convex_hull(np.vstack([ring + neck, [(1.0, 0.0, 0.0)]]))
        faces = np.vstack([shaft[1], head[1] + len(shaft[0])])
        return np.vstack([shaft[0], head[0]]), faces
    grid = np.array(np.meshgrid(*[(-0.5, 0.5)] * 3)).reshape(3, -1).T
    return convex_hull(grid)


def byte_of(share: float) -> int:
    """Return a colour component, 0 to 1, as a byte."""
    return round(255 * min(max(float(np.nan_to_num(share)), 0.0), 1.0))


IMAGE = "sensor_msgs/msg/Image"
MAX_IMAGE_BYTES = 500_000_000
"""Max size of the images that are kept; what follows is not shown."""
STATE, ODOMETRY = "sensor_msgs/msg/JointState", "nav_msgs/msg/Odometry"
MAX_ROWS = 500_000
"""Max number of messages of a topic; what follows is not shown."""


@dataclass(frozen=True, eq=False)
class RecordedRobot:
    """What a robot of the page is called in recordings."""

    robot: Robot
    states: str
    """Topic of its joint states."""
    odometry: str
    """Topic of its odometry; empty: it has none."""
    X_WO: Array
    """Pose of the frame of the odometry in the world, shape (4, 4)."""


@dataclass
class _Topic:
    """Messages of one topic."""

    times: list[int] = field(default_factory=list)
    messages: list[Any] = field(default_factory=list)


def recorded_motions(
    content: bytes, robots: Mapping[str, RecordedRobot]
) -> dict[str, RecordedMotion]:
    """Return the motions of robots in an MCAP file.

    A robot whose topic is missing takes the first other one with its joints, so that a recording of
    another namespace is shown, too.

    Args:
        content: of the file.
        robots: by name.

    Raises:
        InvalidConfig: the file cannot be read, or holds no motion of these robots.
        InvalidCommand: positions or times that cannot be shown.
    """
    with _messages(content) as messages:
        states, odometry, begin = _topics(messages)
    motions = {}
    taken = {each.states for each in robots.values()}
    for name, each in robots.items():
        own = states.get(each.states) or next(
            (t for topic, t in states.items() if topic not in taken and _has_joints(t, each)), None
        )
        base = odometry.get(each.odometry)
        if base is None and each.odometry and len(odometry) == 1 and len(robots) == 1:
            base = next(iter(odometry.values()))
        if own is None and base is None:
            continue
        motions[name] = _motion(each, own or _Topic(), base or _Topic(), begin)
    if not motions:
        topics = ", ".join([*states, *odometry]) or "none"
        raise InvalidConfig(
            f"it holds no joint states or odometry of {', '.join(robots)} (topics: {topics})"
        )
    return motions


def recorded_images(content: bytes) -> dict[str, RecordedImages]:
    """Return the images in an MCAP file, by topic.

    Args:
        content: of the file.

    Raises:
        InvalidConfig: the file cannot be read.
    """
    found: dict[str, list[Received]] = {}
    begin, size = None, 0
    with _messages(content) as messages:
        for received in messages:
            begin = received.arrived if begin is None else begin
            if received.kind == IMAGE and size + len(received.data) <= MAX_IMAGE_BYTES:
                size += len(received.data)
                found.setdefault(received.topic, []).append(received)
    images = {}
    for topic, each in found.items():
        times = np.maximum.accumulate([received.arrived for received in each]).tolist()
        images[topic] = RecordedImages(_seconds(times, begin or 0), partial(_pixels, each))
    return images


def _pixels(messages: Sequence[Received], k: int) -> NDArray[np.uint8]:
    return pixels_of(messages[k].message())


@contextlib.contextmanager
def _messages(content: bytes) -> Iterator[Iterator[Received]]:
    """Yield the messages of a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = FilePath(folder) / "recording.mcap"
        path.write_bytes(content)
        try:
            yield read_mcap(path)
        except InvalidConfig as error:
            raise InvalidConfig(str(error).replace(f"{path} ", "the file ")) from None


def _topics(messages: Iterable[Received]) -> tuple[dict[str, _Topic], dict[str, _Topic], int]:
    """Return joint states and odometry by topic, and the time of the first message [ns]."""
    states: dict[str, _Topic] = {}
    odometry: dict[str, _Topic] = {}
    begin = None
    for received in messages:
        begin = received.arrived if begin is None else begin
        kinds = {STATE: states, ODOMETRY: odometry}.get(received.kind)
        if kinds is None:
            continue
        topic = kinds.setdefault(received.topic, _Topic())
        if len(topic.times) < MAX_ROWS and (message := _message(received)) is not None:
            topic.times.append(max(received.arrived, topic.times[-1] if topic.times else 0))
            topic.messages.append(message)
    return states, odometry, begin or 0


def _message(received: Received) -> Any:
    try:
        return received.message()
    except Exception:  # of the deserialization, for damaged bytes
        return None


def _has_joints(topic: _Topic, each: RecordedRobot) -> bool:
    return any({*message.name} & {*each.robot.joint_names} for message in topic.messages[:10])


def _motion(each: RecordedRobot, states: _Topic, odometry: _Topic, begin: int) -> RecordedMotion:
    index = {name: i for i, name in enumerate(each.robot.joint_names)}
    row, rows = each.robot.home.copy(), []
    for message in states.messages:
        for joint, value in zip(message.name, message.position, strict=False):
            if joint in index and np.isfinite(value):
                row[index[joint]] = value
        rows.append(row.copy())
    poses, times = [], []
    for stamp, message in zip(odometry.times, odometry.messages, strict=True):
        p, r = message.pose.pose.position, message.pose.pose.orientation
        try:
            X_OB = matrix_of((p.x, p.y, p.z), (r.x, r.y, r.z, r.w))
        except ValueError:
            continue
        poses.append(each.X_WO @ X_OB)
        times.append(stamp)
    return RecordedMotion(
        _seconds(states.times, begin), np.array(rows).reshape(-1, len(index)),
        _seconds(times, begin), np.array(poses).reshape(-1, 4, 4),
    )  # fmt: skip


def _seconds(times: list[int], begin: int) -> Array:
    return np.asarray(1e-9 * (np.array(times, np.int64) - begin), np.float64)
