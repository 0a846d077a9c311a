# SPDX-License-Identifier: Apache-2.0
"""Parameters of the occupancy mapper."""

from __future__ import annotations

import dataclasses

from motion_nodes.perception.map_settings import MapSettings
from motion_nodes.ros.parameters import core_params, param
from motion_nodes.ros.robot_node import FramedParams

POLICIES = ("keep", "decay", "block")


@dataclasses.dataclass(frozen=True, kw_only=True)
@core_params(MapSettings, read_only=("resolution", "region_min", "region_max", "max_memory"))
class MapperParams(FramedParams):
    """Parameters of the occupancy mapper."""

    update_rate: float = param(
        30.0, doc="Rate at which images are processed.", unit="Hz", gt=0.0, le=200.0, read_only=True
    )
    publish_rate: float = param(
        30.0, doc="Max rate of octomaps; each is published after a change.", unit="Hz", gt=0.0,
        le=100.0,
    )  # fmt: skip
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
    map_frame: str = param(
        "",
        doc="Frame of the map, such as odom for a moving base; empty: the robot's base frame.",
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
    camera_stopped: str = param(
        "keep",
        doc="If a camera stops: keep the map, let its voxels decay (after decay_time, or after "
        "camera_timeout if that is 0), or block motion by a stop of all robots until a resume.",
        one_of=POLICIES,
    )
    resolution: float
    decay_time: float
    robot_padding: float
