# SPDX-License-Identifier: Apache-2.0
"""Settings of trajectory optimization."""

from __future__ import annotations

from dataclasses import dataclass, field

from motion_nodes.planning.search_settings import RrtConnectSettings, ShorteningSettings
from motion_nodes.planning.tree_search import check_number


@dataclass(frozen=True)
class TrajOptSettings:
    """Optimization of a first path to a curve of short duration."""

    paths: int = 4
    """Number of first paths: searches with different seeds, and to different goals if there are
    several."""
    candidates: int = 2
    """Number of those, the shortest ones, that are optimized."""
    control_points: int = 14
    """Number of control points of the curve."""
    samples: int = 56
    """Number of configurations at which clearances are considered."""
    clearance: float = 0.015
    """Desired distance of collision spheres from obstacles, beyond the required one [m]. Closer
    curves cost more, and are still accepted if they are collision-free."""
    iterations: int = 8
    """Number of iterations with each of the weights of the clearance."""
    retries: int = 2
    """Number of repetitions with larger weights and clearances if a curve is in collision."""
    warm_start: tuple[tuple[float, ...], ...] = ()
    """Waypoints of a previous path for the same problem; it is optimized as a further candidate,
    with its ends replaced."""
    search: RrtConnectSettings = field(default_factory=RrtConnectSettings)
    """Search of the first paths."""
    shortening: ShorteningSettings = field(default_factory=ShorteningSettings)
    """Shortening of the first paths."""

    def __post_init__(self) -> None:
        """Validate the numbers."""
        check_number("paths", self.paths, 1, 100)
        check_number("candidates", self.candidates, 1, 100)
        check_number("control_points", self.control_points, 7, 100)
        check_number("samples", self.samples, 8, 1000)
        check_number("clearance", self.clearance, 0.0, 1.0)
        check_number("iterations", self.iterations, 1, 1000)
        check_number("retries", self.retries, 0, 20)
