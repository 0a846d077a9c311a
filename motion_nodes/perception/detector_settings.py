# SPDX-License-Identifier: Apache-2.0
"""Settings of the detection of objects in point clouds."""

from __future__ import annotations

import math
from dataclasses import dataclass

from motion_nodes.model.setting import check_settings, setting
from motion_nodes.perception.region import check_region


@dataclass(frozen=True)
class DetectorSettings:
    """Region, support plane, clusters."""

    region_min: tuple[float, ...] = setting(
        (-1.0, -1.0, -0.1), doc="Min corner of the region in which objects are detected.", unit="m",
        ge=-1e3, le=1e3,
    )  # fmt: skip
    region_max: tuple[float, ...] = setting(
        (1.0, 1.0, 1.0), doc="Max corner of the region in which objects are detected.", unit="m",
        ge=-1e3, le=1e3,
    )  # fmt: skip
    support_height: float = setting(
        math.nan,
        doc="Height of the plane that objects stand on; NaN: the horizontal one with most points.",
        unit="m",
        ge=-1e3,
        le=1e3,
        nan=True,
    )
    plane_tolerance: float = setting(
        0.01, doc="Max distance of the points of a plane from it.", unit="m", ge=1e-3, le=0.1
    )
    plane_tilt: float = setting(
        0.1, doc="Max angle between a supporting plane and the horizontal.", unit="rad", ge=0.0,
        le=0.8,
    )  # fmt: skip
    min_height: float = setting(
        0.012, doc="Points lower than this above the plane belong to it.", unit="m", ge=1e-3, le=0.2
    )
    min_support: float = setting(
        0.015, doc="Min area of the top of an object on which further ones are detected.",
        unit="m^2", gt=0.0, le=100.0,
    )  # fmt: skip
    cluster_distance: float = setting(
        0.025, doc="Points closer than this belong to one object.", unit="m", ge=2e-3, le=0.5
    )
    min_points: int = setting(12, doc="Min number of points of an object.", ge=4, le=100_000)
    max_size: float = setting(
        0.6, doc="Clusters with a side above this are not objects.", unit="m", gt=0.0, le=10.0
    )
    max_points: int = setting(
        100_000, doc="Max number of points used of a cloud; larger clouds are decimated.",
        ge=1000, le=5_000_000,
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Validate.

        Raises:
            InvalidConfig: a value out of range, or an empty region.
        """
        check_settings(self)
        check_region(self.region_min, self.region_max)
