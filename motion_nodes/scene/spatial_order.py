# SPDX-License-Identifier: Apache-2.0
"""Order in which solids close to each other are neighbours."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motion_nodes.typing import Array


def spatial_order(boxes: Array) -> NDArray[np.intp]:
    """Return the order of boxes along the Morton code of their centres.

    Args:
        boxes: min and max corners [m], shape (n, 2, 3); infinite ones come first.

    Returns:
        Indices, shape (n,); boxes close to each other are mostly neighbours.
    """
    if not len(boxes):
        return np.empty(0, np.intp)
    endless = np.asarray(~np.isfinite(boxes).all(axis=(1, 2)))
    middle = np.where(endless[:, None, None], 0.0, boxes).mean(axis=1)
    low = middle.min(axis=0)
    extent = max(float((middle.max(axis=0) - low).max()), 1e-9)
    bits = np.minimum((middle - low) / extent * 1024.0, 1023.0).astype(np.int64)
    # Moves the ten bits of each coordinate apart, by halves, until two free ones follow each.
    for shift, mask in ((16, 0x030000FF), (8, 0x0300F00F), (4, 0x030C30C3), (2, 0x09249249)):
        bits = (bits | (bits << shift)) & mask
    code = bits[:, 0] | (bits[:, 1] << 1) | (bits[:, 2] << 2)
    # Unbounded pieces overlap every block, so they are grouped.
    return np.lexsort((code, ~endless))
