# SPDX-License-Identifier: Apache-2.0
"""Parameters of the object detector."""

from __future__ import annotations

import dataclasses

from motion_nodes.perception.detector_settings import DetectorSettings
from motion_nodes.ros.parameters import core_params, param
from motion_nodes.ros.robot_node import FramedParams


@dataclasses.dataclass(frozen=True, kw_only=True)
@core_params(DetectorSettings)
class DetectorParams(FramedParams):
    """Parameters of the object detector."""

    update_rate: float = param(
        5.0, doc="Max rate at which images are searched for objects.", unit="Hz", gt=0.0, le=100.0,
        read_only=True,
    )  # fmt: skip
    point_clouds: tuple[str, ...] = param(
        (), doc="Topics of clouds (sensor_msgs/PointCloud2).", read_only=True
    )
    depth_images: tuple[str, ...] = param(
        (),
        doc="Topics of depth images (sensor_msgs/Image); camera_info in the namespace of each "
        "contains the intrinsics.",
        read_only=True,
    )
    detection_frame: str = param(
        "",
        doc="Frame of the objects and of the region, z upwards, such as odom for a moving base; "
        "empty: the robot's base frame.",
        read_only=True,
    )
    models: tuple[str, ...] = param(
        (),
        doc="Objects of known size, each of which is there at most once, and which are named so: "
        "NAME:=box:X,Y,Z, NAME:=cylinder:RADIUS,LENGTH or NAME:=sphere:RADIUS in m. Others are "
        "object_1, object_2 ...",
        read_only=True,
    )
    robot_padding: float = param(
        0.03, doc="Distance from the spheres of the robot and its load within which points are "
        "ignored.", unit="m", ge=0.0, le=0.5,
    )  # fmt: skip
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
