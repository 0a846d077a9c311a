# SPDX-License-Identifier: Apache-2.0
"""Parameters of the object detector."""

from __future__ import annotations

import dataclasses

from motion_nodes.nodes.perception.camera_params import CameraParams
from motion_nodes.perception.detector_settings import DetectorSettings
from motion_nodes.perception.image_detection import COLORS
from motion_nodes.ros.parameters import core_params, param


@dataclasses.dataclass(frozen=True, kw_only=True)
@core_params(DetectorSettings)
class DetectorParams(CameraParams):
    """Parameters of the object detector."""

    update_rate: float = param(
        5.0, doc="Max rate at which images are searched for objects.", unit="Hz", gt=0.0, le=100.0,
        read_only=True,
    )  # fmt: skip
    detection_frame: str = param(
        "",
        doc="Frame of the objects and of the region, z upwards, such as odom for a moving base; "
        "empty: the robot's base frame.",
        read_only=True,
    )
    models: tuple[str, ...] = param(
        (),
        doc="Objects of known name and size, at most one of each: "
        "NAME:=box:X,Y,Z, NAME:=cylinder:RADIUS,LENGTH or NAME:=sphere:RADIUS in m. Others are "
        "named object_1, object_2 ...",
        read_only=True,
    )
    descriptions: tuple[str, ...] = param(
        (),
        doc="Texts such as 'red cup', each of which names the object that the image detector finds "
        "by it in the color images: red_cup.",
    )
    image_detector: str = param(
        COLORS,
        doc="Detector of described objects: colors, or the name that another package registered.",
        read_only=True,
    )
    robot_padding: float = param(
        0.03, doc="Distance from the spheres of the robot and its load within which points are "
        "ignored.", unit="m", ge=0.0, le=0.5,
    )  # fmt: skip
