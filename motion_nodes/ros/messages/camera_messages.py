# SPDX-License-Identifier: Apache-2.0
"""Point clouds, depth and color images, and camera infos from and to arrays.

Images and colours of point clouds become pixels of a screen.
"""

from __future__ import annotations

import array
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sensor_msgs.msg import CameraInfo, Image, PointCloud2, PointField

from motion_nodes.core.scene.depth_camera import Pinhole
from motion_nodes.errors import InvalidCommand

ENCODINGS = {"32FC1": (4, 1.0), "16UC1": (2, 1e-3), "mono16": (2, 1e-3)}
"""Bytes per pixel of a depth image, and its unit [m]."""
COLORS = {"rgb8": [0, 1, 2], "bgr8": [2, 1, 0], "rgba8": [0, 1, 2], "bgra8": [2, 1, 0]}
"""Places of red, green and blue in a pixel of each encoding."""
_KINDS = {PointField.FLOAT32: "f4", PointField.FLOAT64: "f8"}
_AXES = ("x", "y", "z")
COLOURS = {
    "rgb8": (0, 1, 2), "bgr8": (2, 1, 0), "rgba8": (0, 1, 2, 3), "bgra8": (2, 1, 0, 3),
    "mono8": (0,), "8UC1": (0,), "8UC3": (2, 1, 0), "8UC4": (2, 1, 0, 3),
}  # fmt: skip
"""Bytes of a pixel that are red, green, blue and, not shown, alpha; a single one is grey."""
DEPTH_RANGE = 2.0, 98.0
"""Percentiles of the depths that are white and black."""
_COLOUR_FIELDS = ("rgb", "rgba")


def points_of(message: PointCloud2) -> NDArray[np.float32]:
    """Return the points of a cloud, shape (n, 3), without a copy where its layout allows.

    Raises:
        InvalidCommand: no x, y, z of a floating-point type, or a size that contradicts the layout.
    """
    fields = {field.name: field for field in message.fields}
    missing = [name for name in _AXES if name not in fields]
    if missing:
        raise InvalidCommand(f"the cloud has no fields {', '.join(missing)}")
    chosen = [fields[name] for name in _AXES]
    if any(field.datatype not in _KINDS for field in chosen):
        raise InvalidCommand("the fields x, y, z of the cloud must be float32 or float64")
    order = ">" if message.is_bigendian else "<"
    kinds = [order + _KINDS[field.datatype] for field in chosen]
    offsets = [int(field.offset) for field in chosen]
    step, width, height = int(message.point_step), int(message.width), int(message.height)
    ends = [at + np.dtype(kind).itemsize for at, kind in zip(offsets, kinds, strict=True)]
    row = int(message.row_step) or step * width
    if step < max(ends) or row < step * width or len(message.data) < row * height:
        raise InvalidCommand(
            f"the cloud has {len(message.data)} bytes; {height} rows of {row} bytes, and points of "
            f"{step} bytes with x, y, z up to byte {max(ends)} do not fit"
        )
    if not width * height:
        return np.empty((0, 3), np.float32)
    raw = np.frombuffer(message.data, np.uint8)
    if kinds == ["<f4"] * 3 and offsets == [offsets[0], offsets[0] + 4, offsets[0] + 8]:
        shape, strides = (height, width, 3), (row, step, 4)
        view = np.ndarray(shape, np.float32, raw.data, offsets[0], strides)
        return view.reshape(-1, 3)
    columns = [
        np.ndarray((height, width), kind, raw.data, at, (row, step))
        for kind, at in zip(kinds, offsets, strict=True)
    ]
    return np.stack(columns, axis=-1).reshape(-1, 3).astype(np.float32)


def depth_of(message: Image) -> NDArray[np.float32]:
    """Return a depth image [m], shape (h, w).

    Raises:
        InvalidCommand: another encoding than 32FC1 (m) or 16UC1 (mm), or a wrong size.
    """
    if message.encoding not in ENCODINGS:
        raise InvalidCommand(
            f"the image has the encoding '{message.encoding}'; depth images are 32FC1 in metres or "
            "16UC1 in millimetres"
        )
    size, unit = ENCODINGS[message.encoding]
    height, width = int(message.height), int(message.width)
    row = int(message.step) or size * width
    if row < size * width or len(message.data) < row * height or not width * height:
        raise InvalidCommand(
            f"the image has {len(message.data)} bytes in rows of {row}; {width} x {height} pixels "
            f"of {size} bytes do not fit"
        )
    kind = (">" if message.is_bigendian else "<") + ("f4" if size == 4 else "u2")
    raw = np.frombuffer(message.data, np.uint8)
    pixels = np.ndarray((height, width), kind, raw.data, 0, (row, size))
    return np.asarray(pixels * np.float32(unit), np.float32)


def color_of(message: Image) -> NDArray[np.uint8]:
    """Return a color image as red, green, blue, shape (h, w, 3).

    Raises:
        InvalidCommand: another encoding than rgb8, bgr8, rgba8 or bgra8, or a wrong size.
    """
    channels = COLORS.get(message.encoding)
    if channels is None:
        raise InvalidCommand(
            f"the image has the encoding '{message.encoding}'; color images are {', '.join(COLORS)}"
        )
    height, width = int(message.height), int(message.width)
    count = 4 if "a" in message.encoding else 3
    row = int(message.step) or count * width
    if row < count * width or len(message.data) < row * height or not width * height:
        raise InvalidCommand(
            f"the image has {len(message.data)} bytes in rows of {row}; {width} x {height} pixels "
            f"of {count} bytes do not fit"
        )
    raw = np.frombuffer(message.data, np.uint8)
    pixels = np.ndarray((height, width, count), np.uint8, raw.data, 0, (row, count, 1))
    return np.ascontiguousarray(pixels[..., channels])


def color_message(image: NDArray[np.uint8], frame: str, stamp: Any) -> Image:
    """Return a color image, shape (h, w, 3), as rgb8."""
    height, width = image.shape[:2]
    message = Image(height=height, width=width, encoding="rgb8", step=3 * width)
    message.header.frame_id, message.header.stamp = frame, stamp
    message.data = array.array("B", np.ascontiguousarray(image).tobytes())
    return message


def pinhole_of(message: CameraInfo) -> Pinhole:
    """Return the intrinsics of a rectified image: from P, or from K where P is not set.

    Raises:
        InvalidCommand: invalid intrinsics.
    """
    k, p = message.k, message.p
    fx, fy, cx, cy = (p[0], p[5], p[2], p[6]) if p[0] > 0.0 else (k[0], k[4], k[2], k[5])
    return Pinhole(
        int(message.width), int(message.height), float(fx), float(fy), float(cx), float(cy)
    )


def cloud_message(points: NDArray[np.float32], frame: str, stamp: Any, *more: str) -> PointCloud2:
    """Return points as a cloud without order.

    Args:
        points: x, y, z [m] and further values, shape (n, 3 + k).
        frame: of the points.
        stamp: of the message.
        more: names of the further values.
    """
    size = 4 * (len(_AXES) + len(more))
    message = PointCloud2(height=1, width=len(points), point_step=size, is_dense=False)
    message.header.frame_id, message.header.stamp = frame, stamp
    message.row_step = size * len(points)
    message.fields = [
        PointField(name=name, offset=4 * k, datatype=PointField.FLOAT32, count=1)
        for k, name in enumerate((*_AXES, *more))
    ]
    message.data = array.array("B", np.ascontiguousarray(points, "<f4").tobytes())
    return message


def depth_message(depth: NDArray[np.float32], frame: str, stamp: Any) -> Image:
    """Return a depth image [m], shape (h, w), as 32FC1."""
    height, width = depth.shape
    message = Image(height=height, width=width, encoding="32FC1", step=4 * width)
    message.header.frame_id, message.header.stamp = frame, stamp
    message.data = array.array("B", np.ascontiguousarray(depth, "<f4").tobytes())
    return message


def info_message(camera: Pinhole, frame: str, stamp: Any) -> CameraInfo:
    """Return the intrinsics of a camera without distortion."""
    fx, fy, cx, cy = camera.fx, camera.fy, camera.cx, camera.cy
    message = CameraInfo(height=camera.height, width=camera.width, distortion_model="plumb_bob")
    message.header.frame_id, message.header.stamp = frame, stamp
    message.d = [0.0] * 5
    message.k = [fx, 0.0, cx, 0.0, fy, cy, 0.0, 0.0, 1.0]
    message.r = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    message.p = [fx, 0.0, cx, 0.0, 0.0, fy, cy, 0.0, 0.0, 0.0, 1.0, 0.0]
    return message


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
