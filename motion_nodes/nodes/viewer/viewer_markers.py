# SPDX-License-Identifier: Apache-2.0
"""Markers, paths, laser scans and camera images of other programs as drawings of the page.

Sources: visualization_msgs/Marker (types, actions, lifetime, lists, meshes), nav_msgs/Path,
sensor_msgs/LaserScan, sensor_msgs/CameraInfo.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path as FilePath

import numpy as np
from nav_msgs.msg import Path
from numpy.typing import NDArray
from sensor_msgs.msg import CameraInfo, LaserScan
from visualization_msgs.msg import Marker

from motion_nodes.core.robot.meshes import resolve_mesh
from motion_nodes.core.scene.mesh_file import read_mesh
from motion_nodes.core.scene.shapes import convex_hull, spiral_directions
from motion_nodes.errors import InvalidCommand, InvalidDescription, MotionError
from motion_nodes.extras.viewer.displays import CameraImage
from motion_nodes.extras.viewer.object_editor import mesh_of_upload
from motion_nodes.extras.viewer.planning_view import Drawing
from motion_nodes.ros.messages.camera_messages import pinhole_of
from motion_nodes.ros.messages.moveit_messages import pose_of
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
        """Start empty."""
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
