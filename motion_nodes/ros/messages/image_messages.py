# SPDX-License-Identifier: Apache-2.0
"""Images and colours of point clouds as pixels of a screen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sensor_msgs.msg import Image, PointCloud2, PointField

from motion_nodes.errors import InvalidCommand
from motion_nodes.ros.messages.depth_messages import ENCODINGS, depth_of

COLOURS = {
    "rgb8": (0, 1, 2), "bgr8": (2, 1, 0), "rgba8": (0, 1, 2, 3), "bgra8": (2, 1, 0, 3),
    "mono8": (0,), "8UC1": (0,), "8UC3": (2, 1, 0), "8UC4": (2, 1, 0, 3),
}  # fmt: skip
"""Bytes of a pixel that are red, green, blue and, not shown, alpha; a single one is grey."""
DEPTH_RANGE = 2.0, 98.0
"""Percentiles of the depths that are white and black."""
_COLOUR_FIELDS = ("rgb", "rgba")


def pixels_of(message: Image) -> NDArray[np.uint8]:
    """Return an image as red, green and blue, shape (h, w, 3); of depths the nearest are white.

    Raises:
        InvalidCommand: an encoding that is not supported, or a wrong size.
    """
    if message.encoding in ENCODINGS:
        return _grey(depth_of(message))
    if message.encoding not in COLOURS:
        known = ", ".join((*COLOURS, *ENCODINGS))
        raise InvalidCommand(
            f"the image has the encoding '{message.encoding}'; supported: {known}", field="encoding"
        )
    order = COLOURS[message.encoding]
    height, width, size = int(message.height), int(message.width), len(order)
    row = int(message.step) or size * width
    if row < size * width or len(message.data) < row * height or not width * height:
        raise InvalidCommand(
            f"the image has {len(message.data)} bytes in rows of {row}; {width} x {height} pixels "
            f"of {size} bytes do not fit",
            field="data",
        )
    raw = np.frombuffer(message.data, np.uint8)
    pixels = np.ndarray((height, width, size), np.uint8, raw.data, 0, (row, size, 1))
    return np.ascontiguousarray(pixels[:, :, list((order * 3)[:3])])


def cloud_colours(message: PointCloud2) -> NDArray[np.uint8] | None:
    """Return the colours of a cloud whose layout is valid, shape (n, 3); None: it has none."""
    fields = {field.name: field for field in message.fields}
    field = next((fields[name] for name in _COLOUR_FIELDS if name in fields), None)
    step, width, height = int(message.point_step), int(message.width), int(message.height)
    kinds = (PointField.FLOAT32, PointField.UINT32)
    if field is None or field.datatype not in kinds or field.offset + 4 > step:
        return None
    # Packed as 0xAARRGGBB, independent of the field's type.
    raw = np.frombuffer(message.data, np.uint8)
    row = int(message.row_step) or step * width
    packed = np.ndarray((height, width, 4), np.uint8, raw.data, field.offset, (row, step, 1))
    order = [1, 2, 3] if message.is_bigendian else [2, 1, 0]
    return np.ascontiguousarray(packed[:, :, order].reshape(-1, 3))


def _grey(depth: NDArray[np.float32]) -> NDArray[np.uint8]:
    measured = np.isfinite(depth) & (depth > 0.0)
    grey = np.zeros(depth.shape, np.uint8)
    if measured.any():
        near, far = np.percentile(depth[measured], DEPTH_RANGE)
        share = np.clip((far - depth[measured]) / max(far - near, 1e-6), 0.0, 1.0)
        # Black is reserved for missing depths.
        grey[measured] = np.round(32.0 + 223.0 * share)
    return np.repeat(grey[:, :, None], 3, axis=2)
