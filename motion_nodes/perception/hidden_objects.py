# SPDX-License-Identifier: Apache-2.0
"""Detection of objects that the robot occludes from the cameras, fully or in part."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.perception.shape_fits import Shape, extents
from motion_nodes.typing import Array


def hidden(shape: Shape, X_WO: Array, eyes: Iterable[Array], spheres: ArrayLike) -> bool:
    """Return whether no camera sees all of an object, because of the robot.

    Args:
        shape: of the object.
        X_WO: its pose, shape (4, 4).
        eyes: positions of cameras [m], shape (3,) each.
        spheres: centre and radius of the robot's spheres [m], shape (s, 4).
    """
    centres_radii = np.asarray(spheres, np.float64).reshape(-1, 4)
    reach = centres_radii[:, 3] + 0.5 * float(np.linalg.norm(extents(shape)))
    centre = X_WO[:3, 3]
    if bool((np.linalg.norm(centres_radii[:, :3] - centre, axis=1) < reach).any()):
        return True
    return all(_crosses(np.asarray(eye), centre, centres_radii[:, :3], reach) for eye in eyes)


def _crosses(eye: Array, end: Array, centres: Array, radii: Array) -> bool:
    """Return whether a straight line comes closer to points than their radii."""
    line = end - eye
    along = np.clip((centres - eye) @ line / max(float(line @ line), 1e-12), 0.0, 1.0)
    nearest = eye + along[:, None] * line
    return bool((np.linalg.norm(centres - nearest, axis=1) < radii).any())
