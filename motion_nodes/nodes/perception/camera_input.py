# SPDX-License-Identifier: Apache-2.0
"""Images of one camera: the newest one as points, until it is used or too old."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sensor_msgs.msg import CameraInfo, Image, PointCloud2

from motion_nodes.errors import InvalidCommand
from motion_nodes.perception.depth_camera import DepthProjection
from motion_nodes.ros import qos
from motion_nodes.ros.joint_topics import stamp_ns
from motion_nodes.ros.messages.depth_messages import color_of, depth_of, pinhole_of, points_of
from motion_nodes.ros.node import MotionNode

MATCH_PERIOD = 1.0
"""Period at which the reliability of the publishers is checked [s]."""
COLOR_TOLERANCE = 0.05
"""Max difference between the stamps of a color image and of its depth image [s]."""
SETTLING_TIME = 2.0
"""Intrinsics and transforms of a camera that starts may arrive this long after its images [s]."""


@dataclass(frozen=True, eq=False)
class View:
    """One image."""

    points: NDArray[np.float32]
    """In the frame [m], shape (n, 3)."""
    frame: str
    stamp: float
    """[s]; 0 if the camera gives none."""
    arrived: float
    """On ``time.monotonic()`` [s]."""
    color: NDArray[np.uint8] | None = None
    """Color of each point's pixel, shape (h, w, 3); None without a color image of its stamp."""


class CameraInput:
    """Reads clouds, or depth images with their camera info."""

    def __init__(
        self, node: MotionNode[Any], topic: str, depth: bool, color_topic: str = ""
    ) -> None:
        """Subscribe.

        Args:
            node: that uses them.
            topic: of the images.
            depth: whether they are depth images.
            color_topic: of color images with the same pixels as the depth images; empty: none.
        """
        self._colors = node.poll(Image, color_topic, qos.NEWEST) if color_topic else None
        self._color: Image | None = None
        self.topic, self._depth = topic, depth
        self._images = node.poll(Image if depth else PointCloud2, topic, qos.NEWEST_RELIABLE)
        self._infos = None
        if depth:
            beside = topic.rpartition("/")[0]
            name = f"{beside}/camera_info" if beside else "camera_info"
            self._infos = node.poll(CameraInfo, name, qos.NEWEST)
        self._info: CameraInfo | None = None
        self._projection: DepthProjection | None = None
        self.pending: View | None = None
        """The newest image, until it is used."""
        self.fault = ""
        """Why the last image was not used; empty if it was."""
        self.used = 0
        """Number of images that were used."""
        self._used_at: float | None = None
        self._begin = time.monotonic()
        self._matched_at = -math.inf
        self._first: float | None = None

    @property
    def age(self) -> float:
        """Time since the last image that was used, or since the start [s]."""
        return time.monotonic() - (self._used_at or self._begin)

    @property
    def settling(self) -> bool:
        """Whether no image was used so far, because the camera has just started."""
        begun = self._first is None or time.monotonic() - self._first < SETTLING_TIME
        return begun and not self.used

    def restart(self) -> None:
        """Restart the age."""
        self._begin, self._used_at, self.pending = time.monotonic(), None, None

    def done(self) -> None:
        """Mark the pending image as used."""
        self.pending, self.fault, self._used_at = None, "", time.monotonic()
        self.used += 1

    def reject(self, why: str) -> None:
        """Drop the pending image."""
        self.pending, self.fault = None, why

    def update(self) -> None:
        """Read the newest image; one that waits for its transforms is not replaced.

        Otherwise no image would be used where transforms arrive after the next image.

        Raises:
            InvalidCommand: the newest image has an invalid layout.
        """
        if self._infos is not None:
            self._info = self._infos.newest() or self._info
        if time.monotonic() - self._matched_at > MATCH_PERIOD:
            self._matched_at = time.monotonic()
            self._images.match_publishers()
        if self._colors is not None:
            self._color = self._colors.newest() or self._color
        if self.pending is not None:
            return
        message = self._images.newest()
        if message is None:
            return
        if self._first is None:
            self._first = time.monotonic()
        points = self._points(message)
        stamp = 1e-9 * stamp_ns(message)
        color = self._color_at(stamp, len(points))
        self.pending = View(points, message.header.frame_id, stamp, time.monotonic(), color)

    def _color_at(self, stamp: float, count: int) -> NDArray[np.uint8] | None:
        """Return the color image of a depth image; None if there is none of its time and size.

        Raises:
            InvalidCommand: the newest color image has an invalid layout.
        """
        message = self._color
        if message is None or abs(1e-9 * stamp_ns(message) - stamp) > COLOR_TOLERANCE:
            return None
        image = color_of(message)
        return image if image.shape[0] * image.shape[1] == count else None

    def _points(self, message: Any) -> NDArray[np.float32]:
        if not self._depth:
            return points_of(message)
        if self._info is None:
            raise InvalidCommand("no camera_info was received")
        camera = pinhole_of(self._info)
        if self._projection is None or self._projection.camera != camera:
            self._projection = DepthProjection(camera)
        return self._projection.points(depth_of(message))
