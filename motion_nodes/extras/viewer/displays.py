# SPDX-License-Identifier: Apache-2.0
"""Displays beside the robots: frames of /tf, a cloud, a laser scan, markers, a path, an image.

An image is also shown in the scene, before its camera, where it lies over what the camera sees.
Frames of /tf have axes and names as in RViz's TF display, in the page's world, in which only the
robots are placed. A folder of the panel has the topics to choose from.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import viser
from numpy.typing import NDArray

from motion_nodes.core.robot.poses import inverse, to_quat_wxyz
from motion_nodes.extras.viewer.panel_style import OFF, plain, show_text
from motion_nodes.extras.viewer.planning_view import Drawing, MarkerView
from motion_nodes.extras.viewer.scene_setup import DrawLoop
from motion_nodes.extras.viewer.scene_view import escaped
from motion_nodes.typing import Array

MAX_WIDTH = 480
"""Max width of an image on the panel [pixels]; of larger ones every n-th pixel is sent."""
JPEG_QUALITY = 80
CAMERA_SCALE = 0.15
"""Size of the pyramid between a camera and its image [m]: the cube root of its volume, about."""
Transforms = Mapping[str, tuple[str, Array]]
"""Parent and pose X_PC in it, shape (4, 4), by child frame."""
AXES = 0.1
"""Length of the axes [m]."""
MAX_FRAMES = 300
"""Max number of frames drawn."""
MIN_MOVE = 5e-5
"""Smaller changes of the elements of a pose are not sent."""
MAX_POINTS = 20_000
"""Max number of points drawn; of larger clouds every n-th point is drawn."""
POINT_SIZE = 0.01
"""Diameter of a point [m]."""
COLOUR_RANGE = 2.0, 98.0
"""Percentiles of the heights between which colours change."""


@dataclass(frozen=True)
class Selection:
    """Selected displays."""

    frames: bool = False
    """Whether to show frames of /tf."""
    names: bool = True
    """Whether to show frame names."""
    cloud: str = ""
    """Topic of a point cloud; empty: none."""
    image: str = ""
    """Topic of an image; empty: none."""
    overlay: bool = False
    """Whether to show the image in the scene, too."""
    scan: str = ""
    """Topic of a laser scan; empty: none."""
    markers: str = ""
    """Topic of markers, single ones or arrays; empty: none."""
    path: str = ""
    """Topic of a path; empty: none."""


class DisplaysPanel:
    """Selects the displays in addition to the robots.

    Args:
        gui: viser's panel.
        redraw: called when the selection changes.
    """

    def __init__(self, gui: viser.GuiApi, redraw: Callable[[], None]) -> None:
        self._gui = gui
        self._topics: Mapping[str, Sequence[str]] = {}
        self._text = ""
        with gui.add_folder("Displays", expand_by_default=False) as self._folder:
            self.frames = gui.add_checkbox("TF", False, hint="Axes of all frames of /tf.")
            self.names = gui.add_checkbox("Frame names", True, hint="Names of these frames.")
            self.cloud = gui.add_dropdown(
                "PointCloud2", (OFF,), hint="Points of a sensor: their own colours, or by height."
            )
            self.image = gui.add_dropdown(
                "Image", (OFF,), hint="A colour image, or a depth image: near is bright."
            )
            self.overlay = gui.add_checkbox(
                "Image in scene", False,
                hint="The image before its camera, by its camera_info; seen from the camera it "
                "lies over the scene.",
            )  # fmt: skip
            self.scan = gui.add_dropdown("LaserScan", (OFF,), hint="Points of a laser scanner.")
            self.markers = gui.add_dropdown(
                "Markers", (OFF,), hint="A topic of Marker or MarkerArray."
            )
            self.path = gui.add_dropdown("Path", (OFF,), hint="A nav_msgs/Path as a line.")
            self._line = gui.add_markdown("", visible=False)
        self._boxes = {
            "cloud": self.cloud, "image": self.image, "scan": self.scan,
            "markers": self.markers, "path": self.path,
        }  # fmt: skip
        self.picture: viser.GuiImageHandle | None = None
        for element in (self.frames, self.names, self.overlay, *self._boxes.values()):
            element.on_update(lambda _: redraw())

    @property
    def selected(self) -> Selection:
        """Displays to be shown; from any thread."""
        topics = {k: "" if box.value == OFF else str(box.value) for k, box in self._boxes.items()}
        return Selection(
            bool(self.frames.value), bool(self.names.value), overlay=bool(self.overlay.value),
            **topics,
        )  # fmt: skip

    def set_topics(self, topics: Mapping[str, Sequence[str]]) -> None:
        """Store the topics to choose from, by field of :class:`Selection`."""
        self._topics = dict(topics)

    def set_message(self, text: str) -> None:
        """Store a line of text below the displays; empty: none."""
        self._text = text

    def show_image(self, topic: str, pixels: NDArray[np.uint8]) -> None:
        """Show an image of a topic, shape (h, w, 3); on viser's event loop."""
        if topic != self.selected.image or not pixels.size:
            return  # another topic is selected, or the image is empty
        small = thinned_image(pixels)
        if self.picture is None:
            with self._folder:
                self.picture = self._gui.add_image(
                    small, format="jpeg", jpeg_quality=JPEG_QUALITY, label=topic
                )
        else:
            self.picture.image = small

    def refresh(self) -> None:
        """Update the elements; on viser's event loop."""
        for kind, box in self._boxes.items():
            # A selected topic stays in the list even without publishers.
            options = (OFF, *sorted({*self._topics.get(kind, ()), str(box.value)} - {OFF}))
            if options != tuple(box.options):
                box.options = options
        if self.picture is not None and self.picture.label != self.selected.image:
            self.picture.remove()
            self.picture = None
        text = plain(self._text)
        show_text(self._line, text)


def thinned_image(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return every n-th pixel of an image, at most ``MAX_WIDTH`` in a row."""
    step = -(-int(pixels.shape[1]) // MAX_WIDTH) or 1
    return np.ascontiguousarray(pixels[::step, ::step])


@dataclass(frozen=True, eq=False)
class FrameTree:
    """Trees of frames whose roots have a pose in the world."""

    transforms: Transforms
    """Transforms of all frames except roots."""
    roots: Mapping[str, Array]
    """Pose of each root in the world X_WR, shape (4, 4)."""
    unplaced: tuple[str, ...] = ()
    """Frames without a transform chain to a robot, sorted."""

    @classmethod
    def of(cls, transforms: Transforms, anchors: Iterable[tuple[str, Array]]) -> FrameTree:
        """Create the trees from frames with known poses.

        Args:
            transforms: by child frame; frames in a cycle are not placed.
            anchors: frames and their poses in the world X_WA, shape (4, 4). If a tree
                contains several, the first one is used.
        """
        names = {*transforms, *(parent for parent, _ in transforms.values())}
        roots: dict[str, Array] = {}
        for frame, X_WA in anchors:
            root, X_RA = _to_root(transforms, frame)
            if root in names and root not in roots:
                roots[root] = X_WA @ inverse(X_RA)
        unplaced = sorted(name for name in names if _to_root(transforms, name)[0] not in roots)
        return cls(transforms, roots, tuple(unplaced))

    def pose(self, frame: str) -> Array | None:
        """Return the pose of a frame in the world X_WF, shape (4, 4); None: unknown."""
        root, X_RF = _to_root(self.transforms, frame)
        return self.roots[root] @ X_RF if root in self.roots else None

    def placed(self) -> list[tuple[str, str, Array]]:
        """Return the frames with a pose in the world, parents before children.

        Returns:
            Name, parent and pose in the parent, shape (4, 4). Roots have the parent "" and their
            pose in the world.
        """
        children: dict[str, list[str]] = {}
        for child, (parent, _) in self.transforms.items():
            children.setdefault(parent, []).append(child)
        found = [(root, "", X_WR) for root, X_WR in self.roots.items()]
        for name, _, _ in found:  # grows while it is read
            found += [(child, name, self.transforms[child][1]) for child in children.get(name, ())]
        return found


def _to_root(transforms: Transforms, frame: str) -> tuple[str, Array]:
    """Return the root above a frame, "" in a cycle, and the frame's pose in it, (4, 4)."""
    X, seen = np.eye(4), {frame}
    while frame in transforms:
        frame, X_PC = transforms[frame]
        if frame in seen:
            return "", X
        seen.add(frame)
        X = X_PC @ X
    return frame, X


@dataclass
class _Node:
    """A drawn frame."""

    parent: str
    X_PC: Array
    axes: viser.FrameHandle
    label: viser.LabelHandle | None = None


class FrameView:
    """Accepts frames from any thread and draws them on the drawing thread.

    Nodes are nested like the frames, so only frames that move in their parents cause messages.

    Args:
        scene: the viser scene.
        path: name of the parent node.
    """

    def __init__(self, scene: viser.SceneApi, path: str) -> None:
        self._scene, self._path = scene, path
        self._lock = threading.Lock()
        self._newest: FrameTree | None = None
        self._nodes: dict[str, _Node] = {}

    @property
    def drawn(self) -> tuple[str, ...]:
        """Names of the drawn frames."""
        return tuple(self._nodes)

    def set_frames(self, tree: FrameTree) -> None:
        """Replace the frames."""
        with self._lock:
            self._newest = tree

    def draw(self, shown: bool, named: bool) -> None:
        """Send changes since the last call.

        Args:
            shown: whether to draw the frames.
            named: whether to draw their names, too.
        """
        if not shown:
            self._clear()
            return
        with self._lock:
            tree, self._newest = self._newest, None
        if tree is not None:
            self._draw_frames(tree)
        for name, node in self._nodes.items():
            if named and node.label is None:
                node.label = self._scene.add_label(f"{node.axes.name}/name", name)
            if node.label is not None and node.label.visible != named:
                node.label.visible = named

    def _draw_frames(self, tree: FrameTree) -> None:
        placed = tree.placed()[:MAX_FRAMES]
        parents = {name: parent for name, parent, _ in placed}
        # A node cannot move to another parent: all are drawn again then, which is rare.
        if any(parents.get(name) != node.parent for name, node in self._nodes.items()):
            self._clear()
        for name, parent, X_PC in placed:
            node = self._nodes.get(name)
            if node is None:
                above = self._nodes[parent].axes.name if parent else self._path
                axes = self._scene.add_frame(
                    f"{above}/{escaped(name)}", axes_length=AXES, axes_radius=0.03 * AXES,
                    origin_radius=0.04 * AXES, wxyz=to_quat_wxyz(X_PC[:3, :3]),
                    position=X_PC[:3, 3],
                )  # fmt: skip
                self._nodes[name] = _Node(parent, X_PC, axes)
            elif np.abs(X_PC - node.X_PC).max() > MIN_MOVE:
                if np.abs(X_PC[:3, :3] - node.X_PC[:3, :3]).max() > MIN_MOVE:
                    node.axes.wxyz = to_quat_wxyz(X_PC[:3, :3])
                node.axes.position = X_PC[:3, 3]
                node.X_PC = X_PC

    def _clear(self) -> None:
        for node in self._nodes.values():
            if not node.parent:
                node.axes.remove()  # with its children
        self._nodes = {}


@dataclass(frozen=True, eq=False)
class Cloud:
    """Points of a sensor."""

    topic: str
    """Topic of the sensor."""
    points: NDArray[np.float32]
    """In the frame of the sensor [m], shape (n, 3), finite."""
    rgb: NDArray[np.uint8]
    """Colours, shape (n, 3)."""
    X_WF: Array
    """Pose of that frame in the world, shape (4, 4)."""


def thinned_cloud(
    topic: str, points: NDArray[np.float32], rgb: NDArray[np.uint8] | None, X_WF: Array
) -> Cloud:
    """Return a cloud of at most ``MAX_POINTS`` finite points.

    Args:
        topic: topic of the sensor.
        points: in its frame [m], shape (n, 3); NaN and infinite ones are omitted.
        rgb: colours, shape (n, 3); None: by height, from blue to red.
        X_WF: pose of the frame in the world, shape (4, 4).
    """
    seen = np.flatnonzero(np.isfinite(points).all(axis=1))
    seen = seen[:: -(-len(seen) // MAX_POINTS) or 1]
    kept = np.ascontiguousarray(points[seen])
    if rgb is None:
        return Cloud(topic, kept, colours_of_heights(kept @ X_WF[2, :3] + X_WF[2, 3]), X_WF)
    return Cloud(topic, kept, rgb[seen], X_WF)


def colours_of_heights(z: Array) -> NDArray[np.uint8]:
    """Return colours from blue (low) to red (high), shape (n, 3), of heights [m], shape (n,)."""
    if not len(z):
        return np.empty((0, 3), np.uint8)
    low, high = np.percentile(z, COLOUR_RANGE)
    share = np.clip((z - low) / max(high - low, 1e-6), 0.0, 1.0)
    # The hues between blue, at 4 sixths of the colour circle, and red, at 0.
    sixths = 4.0 * (1.0 - share)[:, None] + (0.0, 4.0, 2.0)
    rgb = np.clip(np.abs(sixths % 6.0 - 3.0) - 1.0, 0.0, 1.0)
    return np.asarray(np.round(255.0 * rgb), np.uint8)


class _Shown(Protocol):
    """What views draw."""

    @property
    def topic(self) -> str:
        """Topic that it comes from."""


Item = TypeVar("Item", bound=_Shown)


class _NewestView(Generic[Item]):
    """Accepts items from any thread; the drawing thread draws the newest one of a topic.

    Args:
        scene: the viser scene.
        path: name of the node.
    """

    def __init__(self, scene: viser.SceneApi, path: str) -> None:
        self._scene, self._path = scene, path
        self._lock = threading.Lock()
        self._newest: Item | None = None
        self._topic = ""
        self.node: Any = None
        """The drawn node; None before the first."""

    def put(self, item: Item) -> None:
        """Replace the item."""
        with self._lock:
            self._newest = item

    def _take(self, topic: str) -> Item | None:
        """Return an item since the last call, if it is of a topic; what is of others is removed."""
        with self._lock:
            item, self._newest = self._newest, None
        if topic != self._topic or not topic:
            self._topic = topic
            if self.node is not None:
                self.node.remove()
                self.node = None
        return item if item is not None and item.topic == topic else None


class CloudView(_NewestView[Cloud]):
    """Draws the newest cloud of a topic."""

    @property
    def drawn(self) -> int:
        """Number of points drawn."""
        return 0 if self.node is None else len(self.node.points)

    def draw(self, topic: str) -> None:
        """Send changes since the last call.

        Args:
            topic: topic of the cloud to show; others are removed.
        """
        cloud = self._take(topic)
        if cloud is None:
            return
        wxyz, position = to_quat_wxyz(cloud.X_WF[:3, :3]), cloud.X_WF[:3, 3]
        self.node = self._scene.add_point_cloud(
            self._path, cloud.points, cloud.rgb, point_size=POINT_SIZE, point_shape="circle",
            wxyz=wxyz, position=position,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class CameraImage:
    """An image with the camera that took it."""

    topic: str
    """Topic of the image."""
    pixels: NDArray[np.uint8]
    """Red, green and blue, shape (h, w, 3)."""
    fov: float
    """Vertical angle of view [rad]."""
    aspect: float
    """Width by height."""
    X_WC: Array
    """Pose of the optical frame in the world, z ahead and y down, shape (4, 4)."""


class CameraImageView(_NewestView[CameraImage]):
    """Draws the newest image of a topic before its camera."""

    _lens = (0.0, 0.0)
    """Angle of view and aspect of the drawn camera."""

    def draw(self, topic: str) -> None:
        """Send changes since the last call.

        Args:
            topic: topic of the image to show; others are removed.
        """
        image = self._take(topic)
        if image is None or not image.pixels.size:
            return
        wxyz, position = to_quat_wxyz(image.X_WC[:3, :3]), image.X_WC[:3, 3]
        pixels, lens = thinned_image(image.pixels), (image.fov, image.aspect)
        if self.node is not None and self._lens == lens:
            self.node.image, self.node.wxyz, self.node.position = pixels, wxyz, position
            return
        self._lens = lens
        self.node = self._scene.add_camera_frustum(
            self._path, image.fov, image.aspect, scale=CAMERA_SCALE, image=pixels, format="jpeg",
            jpeg_quality=JPEG_QUALITY, wxyz=wxyz, position=position, cast_shadow=False,
            thickness=1.5, thickness_units="screen",
        )  # fmt: skip


class Displays:
    """Shows the displays selected on the page; updates may come from any thread.

    Args:
        server: the viser server.
        drawing: the thread that draws.
        on_loop: schedules a call on viser's event loop.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        drawing: DrawLoop,
        on_loop: Callable[[Callable[[], None]], None],
    ) -> None:
        self._drawing, self._on_loop = drawing, on_loop
        self._frames = FrameView(server.scene, "/tf")
        self._cloud = CloudView(server.scene, "/cloud")
        self._scan = CloudView(server.scene, "/scan")
        self._camera = CameraImageView(server.scene, "/camera")
        self._drawn = {kind: MarkerView(server.scene, f"/{kind}") for kind in ("markers", "path")}
        self._panel = DisplaysPanel(server.gui, drawing.request)

    @property
    def selected(self) -> Selection:
        """Selection on the page."""
        return self._panel.selected

    def set_topics(self, topics: Mapping[str, Sequence[str]]) -> None:
        """Offer topics, by field of :class:`Selection`."""
        self._panel.set_topics(topics)

    def set_message(self, text: str) -> None:
        """Show one line of text below the displays; empty: none."""
        self._panel.set_message(text)

    def set_frames(self, tree: FrameTree) -> None:
        """Show frames."""
        self._frames.set_frames(tree)
        self._drawing.request_if_watched()

    def set_cloud(self, cloud: Cloud) -> None:
        """Show a point cloud in place of the previous one."""
        self._cloud.put(cloud)
        self._drawing.request_if_watched()

    def set_scan(self, cloud: Cloud) -> None:
        """Show a laser scan in place of the previous one."""
        self._scan.put(cloud)
        self._drawing.request_if_watched()

    def set_drawings(self, kind: str, drawings: Sequence[Drawing]) -> None:
        """Show drawings in the world in place of the previous ones; ``kind``: markers or path."""
        self._drawn[kind].set_drawings(drawings)
        self._drawing.request_if_watched()

    def set_image(self, topic: str, pixels: NDArray[np.uint8]) -> None:
        """Show an image of a topic, shape (h, w, 3)."""
        self._on_loop(lambda: self._panel.show_image(topic, pixels))

    def set_camera(self, image: CameraImage) -> None:
        """Show an image before its camera in place of the previous one."""
        self._camera.put(image)
        self._drawing.request_if_watched()

    def draw(self) -> None:
        """Send changes of the scene; on the drawing thread."""
        selected = self.selected
        self._camera.draw(selected.image if selected.overlay else "")
        self._frames.draw(selected.frames, selected.names)
        self._cloud.draw(selected.cloud)
        self._scan.draw(selected.scan)
        for kind, view in self._drawn.items():
            view.draw(bool(getattr(selected, kind)))

    def refresh(self) -> None:
        """Update the panel; on viser's event loop."""
        self._panel.refresh()
