# SPDX-License-Identifier: Apache-2.0
"""Depth images of a pinhole camera as points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.errors import InvalidCommand

MAX_PIXELS = 20_000_000


@dataclass(frozen=True)
class Pinhole:
    """Intrinsics of a rectified camera; its frame has z forward, x right, y down (REP-103).

    Raises:
        InvalidCommand: a size or focal length that is not positive, or a value that is not finite.
    """

    width: int
    """[pixels]"""
    height: int
    fx: float
    """Focal length [pixels]."""
    fy: float
    cx: float
    """Principal point [pixels]."""
    cy: float

    def __post_init__(self) -> None:
        if not (0 < self.width and 0 < self.height and self.width * self.height <= MAX_PIXELS):
            raise InvalidCommand(f"the camera has {self.width} x {self.height} pixels.")
        numbers = (self.fx, self.fy, self.cx, self.cy)
        if not (np.isfinite(numbers).all() and self.fx > 0.0 and self.fy > 0.0):
            raise InvalidCommand(
                f"the camera's intrinsics fx, fy, cx, cy are {numbers}; they must be finite, and "
                "focal lengths positive."
            )


class DepthProjection:
    """Points of the depth images of one camera."""

    def __init__(self, camera: Pinhole) -> None:
        self.camera = camera
        u = (np.arange(camera.width) - camera.cx) / camera.fx
        v = (np.arange(camera.height) - camera.cy) / camera.fy
        rays = np.ones((camera.height, camera.width, 3), np.float32)
        rays[..., 0], rays[..., 1] = u, v[:, None]
        self.rays: NDArray[np.float32] = rays.reshape(-1, 3)
        """Point of each pixel at a depth of 1 m, shape (h * w, 3)."""

    def points(self, depth: ArrayLike, beyond: float = 1e4) -> NDArray[np.float32]:
        """Return the points of an image in the camera's frame.

        Args:
            depth: along z [m], shape (h, w); 0 and NaN: not measured, inf: nothing in range
                (REP-118).
            beyond: depth that replaces inf [m].

        Returns:
            Shape (h * w, 3) [m]; NaN where nothing was measured.

        Raises:
            InvalidCommand: an image of another size.
        """
        image = np.array(depth, np.float32)
        if image.shape != (self.camera.height, self.camera.width):
            raise InvalidCommand(
                f"the depth image has {image.shape[::-1]} pixels; the camera info has "
                f"{self.camera.width} x {self.camera.height}."
            )
        image[np.isposinf(image)] = beyond
        image[~(image > 0.0)] = np.nan
        return np.asarray(self.rays * image.reshape(-1, 1), np.float32)
