# SPDX-License-Identifier: Apache-2.0
"""Settings of occupancy maps, of object detection, and of the region that cameras observe."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from motion_nodes.errors import InvalidConfig
from motion_nodes.settings import check_settings, setting

BYTES_PER_VOXEL = 8
"""Evidence, time of the last hit, points of a view, and exclusion."""


def _check_region(low: Sequence[float], high: Sequence[float]) -> None:
    """Validate the corners ``region_min`` and ``region_max`` of a region [m]."""
    if len(low) != 3 or len(high) != 3:
        raise InvalidConfig("region_min and region_max must have three values: x, y, z")
    if not all(a < b for a, b in zip(low, high, strict=True)):
        raise InvalidConfig(f"the region from {list(low)} to {list(high)} is empty")


@dataclass(frozen=True)
class MapSettings:
    """Region, resolution, and rules of an occupancy map."""

    resolution: float = setting(0.02, doc="Edge of a voxel.", unit="m", ge=0.002, le=1.0)
    region_min: tuple[float, ...] = setting(
        (-1.0, -1.0, -0.2), doc="Min corner of the mapped region in the map's frame.", unit="m",
        ge=-1e3, le=1e3,
    )  # fmt: skip
    region_max: tuple[float, ...] = setting(
        (1.0, 1.0, 1.4), doc="Max corner of the mapped region in the map's frame.", unit="m",
        ge=-1e3, le=1e3,
    )  # fmt: skip
    max_memory: float = setting(
        64.0,
        doc=f"Max memory of the map, which takes {BYTES_PER_VOXEL} bytes for each voxel of the "
        "region.", unit="MB", gt=0.0, le=8000.0,
    )  # fmt: skip
    min_range: float = setting(
        0.05, doc="Points closer to the camera are ignored.", unit="m", ge=0.0, le=100.0
    )
    max_range: float = setting(
        4.0, doc="Points farther from the camera are free space up to this range.", unit="m",
        gt=0.0, le=100.0,
    )  # fmt: skip
    min_points: int = setting(
        2, doc="Points of one image in a voxel that count as a hit.", ge=1, le=1000
    )
    confirmations: int = setting(
        2, doc="Hits, less misses, after which a voxel is occupied.", ge=1, le=50
    )
    clearing_margin: float = setting(
        1.0, doc="Distance in voxels behind a voxel that a ray must reach for a miss.", ge=0.0,
        le=20.0,
    )  # fmt: skip
    unconfirmed_time: float = setting(
        1.0,
        doc="Time without hits after which a voxel in view is removed, although nothing is seen "
        "behind it.", unit="s", gt=0.0, le=3600.0,
    )  # fmt: skip
    decay_time: float = setting(
        0.0,
        doc="Time without hits after which any voxel is removed; 0: voxels out of view are kept.",
        unit="s", ge=0.0, le=86400.0,
    )  # fmt: skip
    robot_padding: float = setting(
        0.03, doc="Distance from the spheres of the robot and its load within which nothing new is "
        "mapped; voxels mapped before are kept, except next to a load.", unit="m", ge=0.0, le=0.5,
    )  # fmt: skip
    object_padding: float = setting(
        0.02, doc="Distance from the objects of the planning scene within which nothing is mapped.",
        unit="m", ge=0.0, le=0.5,
    )  # fmt: skip
    max_points: int = setting(
        1_000_000, doc="Max number of points used of a cloud; larger clouds are decimated.",
        ge=1000, le=20_000_000,
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Validate.

        Raises:
            InvalidConfig: a value out of range, an empty region, or one beyond ``max_memory``.
        """
        check_settings(self)
        _check_region(self.region_min, self.region_max)
        size = math.prod(self.shape) * BYTES_PER_VOXEL / 1e6
        if size > self.max_memory:
            raise InvalidConfig(
                f"the region has {' x '.join(map(str, self.shape))} voxels, which take "
                f"{size:.0f} MB; max_memory is {self.max_memory:g} MB. Increase resolution or "
                "max_memory, or reduce the region"
            )

    @property
    def origin(self) -> tuple[int, int, int]:
        """Index of the first voxel; voxel 0 begins at the origin of the map's frame."""
        x, y, z = (math.floor(value / self.resolution + 1e-9) for value in self.region_min)
        return x, y, z

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of voxels along each axis, at least 2."""
        x, y, z = (
            max(math.ceil(high / self.resolution - 1e-9) - first, 2)
            for high, first in zip(self.region_max, self.origin, strict=True)
        )
        return x, y, z


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
        unit="m", ge=-1e3, le=1e3, nan=True,
    )  # fmt: skip
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
        _check_region(self.region_min, self.region_max)
