# SPDX-License-Identifier: Apache-2.0
"""Images, depth images and clouds in all layouts that cameras use."""

import array

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from raised_errors import about
from sensor_msgs.msg import CameraInfo, Image, PointCloud2, PointField

from motion_nodes.core.scene.depth_camera import Pinhole
from motion_nodes.errors import InvalidCommand
from motion_nodes.ros.messages.camera_messages import (
    cloud_colours,
    cloud_message,
    depth_message,
    depth_of,
    info_message,
    pinhole_of,
    pixels_of,
    points_of,
)

RGB = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)


def image(encoding: str, pixels: np.ndarray, pad: int = 0) -> Image:
    """Return an image whose rows end with ``pad`` unused bytes."""
    height, width = pixels.shape[:2]
    rows = np.pad(pixels.reshape(height, -1), ((0, 0), (0, pad)))
    data = array.array("B", rows.tobytes())
    return Image(height=height, width=width, encoding=encoding, step=rows.shape[1], data=data)


@pytest.mark.parametrize("pad", [0, 5])
def test_colours_in_any_order(pad):
    alpha = np.full((2, 3, 1), 9, np.uint8)
    for encoding, pixels in (
        ("rgb8", RGB), ("bgr8", RGB[..., ::-1]), ("rgba8", np.dstack([RGB, alpha])),
        ("bgra8", np.dstack([RGB[..., ::-1], alpha])),
    ):  # fmt: skip
        np.testing.assert_array_equal(pixels_of(image(encoding, pixels, pad)), RGB)
    grey = pixels_of(image("mono8", RGB[..., 0], pad))
    np.testing.assert_array_equal(grey, np.repeat(RGB[..., :1], 3, axis=2))


def test_near_is_bright_and_what_is_not_measured_is_black():
    depth = np.array([[0.5, 1.0, 2.0], [np.nan, 0.0, np.inf]], np.float32)
    grey = pixels_of(depth_message(depth, "camera", Time()))[..., 0]
    assert 255 == grey[0, 0] > grey[0, 1] > grey[0, 2] == 32
    assert (grey[1] == 0).all()
    nothing = pixels_of(depth_message(np.full((2, 2), np.nan, np.float32), "camera", Time()))
    assert not nothing.any()


def test_other_encodings_and_wrong_sizes_are_refused():
    with pytest.raises(InvalidCommand, check=about("encoding")):
        pixels_of(image("bayer_rggb8", RGB))
    message = image("rgb8", RGB)
    message.height = 3
    with pytest.raises(InvalidCommand, check=about("data")):
        pixels_of(message)


def test_packed_colours_of_a_cloud():
    message = PointCloud2(height=1, width=2, point_step=8, row_step=16)
    message.fields = [PointField(name="rgb", offset=4, datatype=PointField.FLOAT32, count=1)]
    packed = np.array([[0, 0x00_10_20_30], [0, 0xFF_40_50_60]], "<u4")
    message.data = array.array("B", packed.tobytes())
    expected = [(0x10, 0x20, 0x30), (0x40, 0x50, 0x60)]
    np.testing.assert_array_equal(cloud_colours(message), expected)
    message.is_bigendian = True
    message.data = array.array("B", packed.astype(">u4").tobytes())
    np.testing.assert_array_equal(cloud_colours(message), expected)
    assert cloud_colours(cloud_message(np.ones((2, 3), np.float32), "camera", Time())) is None


POINTS = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)


def cloud(kind, offsets, step, *, big=False, height=1, padding=0, datatype=None):
    width = len(POINTS) // height
    rows = np.zeros((height, width * step + padding), np.uint8)
    for axis, at in enumerate(offsets):
        raw = POINTS[:, axis].astype(kind).reshape(height, width)
        size = raw.dtype.itemsize
        for r in range(height):
            for c in range(width):
                begin = c * step + at
                rows[r, begin : begin + size] = np.frombuffer(raw[r, c : c + 1].tobytes(), np.uint8)
    datatype = datatype or {4: PointField.FLOAT32, 8: PointField.FLOAT64}[np.dtype(kind).itemsize]
    return PointCloud2(
        height=height, width=width, point_step=step, row_step=rows.shape[1], is_bigendian=big,
        fields=[
            PointField(name=name, offset=at, datatype=datatype, count=1)
            for name, at in zip("xyz", offsets, strict=True)
        ],
        data=array.array("B", rows.tobytes()),
    )  # fmt: skip


@pytest.mark.parametrize(
    "message",
    [
        cloud("<f4", (0, 4, 8), 12),
        cloud("<f4", (0, 4, 8), 32, height=3, padding=7),
        cloud("<f4", (8, 0, 4), 16),
        cloud("<f8", (0, 8, 16), 24, height=2),
        cloud(">f4", (4, 8, 12), 20, big=True),
        cloud_message(POINTS, "camera", Time()),
    ],
)
def test_layouts_of_clouds(message):
    assert points_of(message) == pytest.approx(POINTS)


def changed(**changes):
    message = cloud("<f4", (0, 4, 8), 12)
    for name, value in changes.items():
        setattr(message, name, value)
    return message


@pytest.mark.parametrize(
    "message",
    [
        changed(width=13), changed(point_step=11), changed(fields=[]), changed(point_step=0),
        changed(row_step=10), changed(height=2), changed(data=array.array("B")),
        cloud("<f4", (0, 4, 8), 12, datatype=PointField.INT32), changed(width=2**31),
    ],
)  # fmt: skip
def test_invalid_clouds(message):
    with pytest.raises(InvalidCommand):
        points_of(message)


def test_empty_clouds():
    assert points_of(changed(width=0, row_step=0, data=array.array("B"))).shape == (0, 3)


def test_depth_in_metres_and_millimetres():
    depth = np.array([[0.5, np.nan, np.inf], [1.25, 0.0, 3.0]], np.float32)
    message = depth_message(depth, "camera", Time())
    assert np.array_equal(depth_of(message), depth, equal_nan=True)
    whole = np.array([[500, 0, 65535], [1250, 1, 3000]])
    for order, big in (("<u2", False), (">u2", True)):
        rows = np.zeros((2, 10), np.uint8)
        rows[:, :6] = whole.astype(order).view(np.uint8).reshape(2, 6)
        message = Image(
            height=2, width=3, step=10, encoding="16UC1", is_bigendian=big,
            data=array.array("B", rows.tobytes()),
        )  # fmt: skip
        assert depth_of(message) == pytest.approx(1e-3 * whole)


@pytest.mark.parametrize(
    "changes",
    [{"encoding": "rgb8"}, {"encoding": ""}, {"height": 3}, {"step": 8}, {"width": 0},
     {"data": array.array("B")}],
)  # fmt: skip
def test_invalid_images(changes):
    message = depth_message(np.ones((2, 3), np.float32), "camera", Time())
    for name, value in changes.items():
        setattr(message, name, value)
    with pytest.raises(InvalidCommand):
        depth_of(message)


def test_camera_infos():
    camera = Pinhole(640, 480, 500.0, 510.0, 320.5, 240.5)
    message = info_message(camera, "camera", Time())
    assert pinhole_of(message) == camera
    message.p = [0.0] * 12
    assert pinhole_of(message) == camera
    with pytest.raises(InvalidCommand):
        pinhole_of(CameraInfo())
