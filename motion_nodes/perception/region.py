# SPDX-License-Identifier: Apache-2.0
"""The box-shaped region that cameras are used for."""

from __future__ import annotations

from collections.abc import Sequence

from motion_nodes.errors import InvalidConfig


def check_region(low: Sequence[float], high: Sequence[float]) -> None:
    """Validate the corners ``region_min`` and ``region_max`` of a region [m].

    Raises:
        InvalidConfig: not three values each, or an empty region.
    """
    if len(low) != 3 or len(high) != 3:
        raise InvalidConfig("region_min and region_max must have three values: x, y, z")
    if not all(a < b for a, b in zip(low, high, strict=True)):
        raise InvalidConfig(f"the region from {list(low)} to {list(high)} is empty")
