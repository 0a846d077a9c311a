# SPDX-License-Identifier: Apache-2.0
"""Frames of /tf, a point cloud and an image on the viewer's page."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from sensor_msgs.msg import Image, PointCloud2

from motion_nodes.errors import MotionError
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.messages.depth_messages import points_of
from motion_nodes.ros.messages.image_messages import cloud_colours, pixels_of
from motion_nodes.ros.node import MotionNode
from motion_nodes.ros.transform_tree import TransformLink, TransformTree
from motion_nodes.typing import Array
from motion_nodes.view.browser import BrowserViewer
from motion_nodes.view.cloud_view import thinned_cloud
from motion_nodes.view.displays import Displays
from motion_nodes.view.frame_tree import FrameTree

PERIOD = 0.1
"""Min time between two updates of a display [s]."""
TOPICS_PERIOD = 2.0
"""Period at which the topics of the graph are listed [s]."""
FRAME_TIMEOUT = 15.0
"""A frame without a transform for this time is reported [s]."""
MAX_LISTED = 5
"""Max number of frames listed in a message."""
CLOUD_TYPE, IMAGE_TYPE = "sensor_msgs/msg/PointCloud2", "sensor_msgs/msg/Image"


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
        self._images = _Selected(node, Image)
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
        if now >= self._topics_due:
            self._topics_due = now + TOPICS_PERIOD
            displays.set_topics(self._topics(CLOUD_TYPE), self._topics(IMAGE_TYPE))
        selected = displays.selected
        self._faults = {
            k: v for k, v in self._faults.items() if k in (selected.cloud, selected.image)
        }
        self._tree = None
        if selected.frames or selected.cloud:
            self._tree = self._placed(anchors())
        if selected.frames and self._tree is not None:
            displays.set_frames(self._tree)
            self._faults["TF"] = self._fault_of_frames(self._tree)
        self._show_cloud(displays, selected.cloud)
        self._show_image(displays, selected.image)
        displays.set_message("; ".join(filter(None, self._faults.values())))

    def destroy(self) -> None:
        """Unsubscribe."""
        self._clouds.select("")
        self._images.select("")

    def _placed(self, anchors: Iterable[tuple[str, Array]]) -> FrameTree:
        self._frames.update()
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

    def _show_cloud(self, displays: Displays, topic: str) -> None:
        message = self._clouds.newest(topic)
        if message is None or self._tree is None:
            return
        try:
            points = points_of(message)
        except MotionError as error:
            self._faults[topic] = f"{topic}: {error}"
            return
        frame = message.header.frame_id.lstrip("/")
        X_WF = self._tree.pose(frame)
        if X_WF is None:
            self._faults[topic] = f"{topic}: no transform from '{frame}' to a robot"
            return
        self._faults.pop(topic, None)
        displays.set_cloud(thinned_cloud(topic, points, cloud_colours(message), X_WF))

    def _show_image(self, displays: Displays, topic: str) -> None:
        message = self._images.newest(topic)
        if message is None:
            return
        try:
            displays.set_image(topic, pixels_of(message))
            self._faults.pop(topic, None)
        except MotionError as error:
            self._faults[topic] = f"{topic}: {error}"

    def _topics(self, desired: str) -> list[str]:
        found = self._node.get_topic_names_and_types()
        return [topic for topic, types in found if desired in types]


class _Selected:
    """The subscription to one topic, which may change."""

    def __init__(self, node: MotionNode[Any], kind: type[Any]) -> None:
        self._node, self._kind = node, kind
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
            self._subscription = PolledSubscription(self._node, self._kind, topic, qos.NEWEST)

    def newest(self, topic: str) -> Any | None:
        """Return the newest message of a topic, if there is a new one."""
        self.select(topic)
        return self._subscription.newest() if self._subscription is not None else None


def _listed(names: Iterable[str]) -> str:
    names = tuple(names)
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return ", ".join(names[:MAX_LISTED]) + more
