# SPDX-License-Identifier: Apache-2.0
"""Parameters of the occupancy mapper."""

from __future__ import annotations

import dataclasses

from motion_nodes.nodes.perception.camera_params import CameraParams
from motion_nodes.perception.map_settings import MapSettings
from motion_nodes.ros.parameters import core_params, param

POLICIES = ("keep", "decay", "block")


@dataclasses.dataclass(frozen=True, kw_only=True)
@core_params(MapSettings, read_only=("resolution", "region_min", "region_max", "max_memory"))
class MapperParams(CameraParams):
    """Parameters of the occupancy mapper."""

    update_rate: float = param(
        30.0, doc="Rate at which images are processed.", unit="Hz", gt=0.0, le=200.0, read_only=True
    )
    publish_rate: float = param(
        30.0, doc="Max rate of octomaps; each is published after a change.", unit="Hz", gt=0.0,
        le=100.0,
    )  # fmt: skip
    map_frame: str = param(
        "",
        doc="Frame of the map, such as odom for a moving base; empty: the robot's base frame.",
        read_only=True,
    )
    camera_stopped: str = param(
        "keep",
        doc="If a camera stops: keep the map, let its voxels decay (after decay_time, or after "
        "camera_timeout if that is 0), or block motion by a stop of all robots until a resume.",
        one_of=POLICIES,
    )
    resolution: float
    decay_time: float
    robot_padding: float
