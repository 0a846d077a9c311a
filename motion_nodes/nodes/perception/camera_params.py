# SPDX-License-Identifier: Apache-2.0
"""Parameters of the cameras of a robot."""

from __future__ import annotations

import dataclasses

from motion_nodes.ros.parameters import param
from motion_nodes.ros.robot_node import FramedParams


@dataclasses.dataclass(frozen=True, kw_only=True)
class CameraParams(FramedParams):
    """Parameters of nodes that read the cameras of a robot."""

    point_clouds: tuple[str, ...] = param(
        (), doc="Topics of clouds (sensor_msgs/PointCloud2), whose frame's origin is the sensor.",
        read_only=True,
    )  # fmt: skip
    depth_images: tuple[str, ...] = param(
        (),
        doc="Topics of depth images (sensor_msgs/Image); camera_info in the namespace of each "
        "contains the intrinsics.",
        read_only=True,
    )
    color_images: tuple[str, ...] = param(
        (),
        doc="Topics of color images (sensor_msgs/Image, rgb8 or bgr8) with the same pixels as the "
        "depth images, in their order; an empty name: none.",
        read_only=True,
    )
    max_age: float = param(
        1.0, doc="Images older than this are dropped.", unit="s", gt=0.0, le=60.0
    )
    transform_timeout: float = param(
        0.3, doc="Time for which an image waits for transforms and joint states of its stamp.",
        unit="s", ge=0.0, le=10.0,
    )  # fmt: skip
    transform_tolerance: float = param(
        0.1, doc="Max difference between the stamps of an image and of a moving transform.",
        unit="s", gt=0.0, le=10.0,
    )  # fmt: skip
    camera_timeout: float = param(
        2.0, doc="Time without images after which a camera counts as stopped.", unit="s", gt=0.0,
        le=3600.0,
    )  # fmt: skip
