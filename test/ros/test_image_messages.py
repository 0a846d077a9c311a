# SPDX-License-Identifier: Apache-2.0
"""Images and colours of clouds as pixels."""

from __future__ import annotations

import array

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from raised_errors import about
from sensor_msgs.msg import Image, PointCloud2, PointField

from motion_nodes.errors import InvalidCommand
from motion_nodes.ros.messages.camera_messages import (
    cloud_colours,
    cloud_message,
    depth_message,
    pixels_of,
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
