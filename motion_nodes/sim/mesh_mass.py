# SPDX-License-Identifier: Apache-2.0
"""Centre of mass and inertia of closed meshes."""

from __future__ import annotations

import numpy as np

from motion_nodes.scene.convex_decomposition import signed_volumes
from motion_nodes.typing import Array


def mass_properties(triangles: Array, mass: float) -> tuple[Array, Array]:
    """Return centre of mass and inertia of a solid of uniform density.

    The solid is a sum of tetrahedra with one corner at the origin, whose second moments are known
    in closed form (Blow and Binstock, How to find the inertia tensor of a 3D solid body, 2004).

    Args:
        triangles: corners of its surface, counterclockwise from outside [m], shape (t, 3, 3).
        mass: mass of the solid [kg].

    Returns:
        Centre of mass [m], shape (3,), and inertia about it [kg m^2], shape (3, 3).

    Raises:
        ValueError: the triangles enclose no volume.
    """
    a, b, c = (triangles[:, k] for k in range(3))
    volumes = signed_volumes(triangles)
    volume, corners = float(volumes.sum()), a + b + c
    if not volume > 0.0:
        raise ValueError("the triangles enclose no volume")
    centre = np.einsum("t,ti->i", volumes, corners) / (4.0 * volume)
    second = np.einsum("t,ti,tj->ij", volumes, corners, corners)
    for corner in (a, b, c):
        second += np.einsum("t,ti,tj->ij", volumes, corner, corner)
    spread = mass * (second / (20.0 * volume) - np.outer(centre, centre))
    return centre, np.trace(spread) * np.eye(3) - spread
