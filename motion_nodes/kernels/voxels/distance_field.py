# SPDX-License-Identifier: Apache-2.0
"""Euclidean distance transform of a grid, exact and in linear time.

Source: Felzenszwalb and Huttenlocher, Distance Transforms of Sampled Functions, Theory of Computing
8 (2012): lower envelope of parabolas, one axis after the other.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from motion_nodes.kernels.jit import kernel, part
from motion_nodes.typing import Array

FAR = np.float32(1e9)
"""Squared distance if no voxel is occupied [voxels^2]."""


@part
def _envelope(
    f: NDArray[np.float32], n: int, out: NDArray[np.float32], at: NDArray[np.int32], begin: Array
) -> None:
    """Write min over q of ((p - q)^2 + f(q)) for each p of a line."""
    count = -1
    for q in range(n):
        if f[q] >= FAR:
            continue
        while count >= 0:
            p = at[count]
            meets = ((f[q] + q * q) - (f[p] + p * p)) / (2.0 * (q - p))
            if meets > begin[count]:
                break
            count -= 1
        count += 1
        at[count] = q
        begin[count] = meets if count > 0 else -np.inf
    if count < 0:
        out[:n] = FAR
        return
    k = 0
    for p in range(n):
        while k < count and begin[k + 1] < p:
            k += 1
        out[p] = (p - at[k]) * (p - at[k]) + f[at[k]]


@kernel
def squared_distances(occupied: NDArray[np.bool_], squared: NDArray[np.float32]) -> None:
    """Write the squared distance of each voxel to the nearest occupied one [voxels^2].

    Args:
        occupied: shape (nx, ny, nz).
        squared: output, same shape; ``FAR`` if nothing is occupied.
    """
    nx, ny, nz = occupied.shape
    most = max(nx, ny, nz)
    line, out = np.empty(most, np.float32), np.empty(most, np.float32)
    at, begin = np.empty(most, np.int32), np.empty(most)
    for i in range(nx):
        for j in range(ny):
            for k in range(nz):
                line[k] = 0.0 if occupied[i, j, k] else FAR
            _envelope(line, nz, out, at, begin)
            squared[i, j, :] = out[:nz]
    for i in range(nx):
        for k in range(nz):
            for j in range(ny):
                line[j] = squared[i, j, k]
            _envelope(line, ny, out, at, begin)
            for j in range(ny):
                squared[i, j, k] = out[j]
    for j in range(ny):
        for k in range(nz):
            for i in range(nx):
                line[i] = squared[i, j, k]
            _envelope(line, nx, out, at, begin)
            for i in range(nx):
                squared[i, j, k] = out[i]


@part
def interpolated(field: NDArray[np.float32], x: float, y: float, z: float) -> float:
    """Return the trilinear interpolation of a field, clamped to the grid.

    Args:
        field: shape (nx, ny, nz).
        x: coordinate relative to the centre of the first voxel [voxels].
        y: likewise.
        z: likewise.
    """
    nx, ny, nz = field.shape
    x = min(max(x, 0.0), nx - 1.0)
    y = min(max(y, 0.0), ny - 1.0)
    z = min(max(z, 0.0), nz - 1.0)
    i, j, k = min(int(x), nx - 2), min(int(y), ny - 2), min(int(z), nz - 2)
    u, v, w = x - i, y - j, z - k
    found = 0.0
    for a in range(2):
        for b in range(2):
            for c in range(2):
                weight = (u if a else 1.0 - u) * (v if b else 1.0 - v) * (w if c else 1.0 - w)
                found += weight * field[i + a, j + b, k + c]
    return found


@kernel
def field_at(
    field: NDArray[np.float32], first: Array, edge: float, points: Array, out: Array
) -> None:
    """Write the interpolated distances of a field at points.

    Outside the grid, at the distance s from its border: s minus half an edge, since the nearest
    occupied centre may be on the border; or the border's value minus s if greater.

    Args:
        field: distances [m], shape (nx, ny, nz).
        first: centre of the first voxel [m], shape (3,).
        edge: edge of a voxel [m].
        points: shape (m, 3) [m].
        out: distances [m], shape (m,).
    """
    for m in range(points.shape[0]):
        beyond = 0.0
        for axis in range(3):
            place = (points[m, axis] - first[axis]) / edge
            over = max(-place, place - (field.shape[axis] - 1), 0.0)
            beyond += over * over
        found = interpolated(
            field,
            (points[m, 0] - first[0]) / edge,
            (points[m, 1] - first[1]) / edge,
            (points[m, 2] - first[2]) / edge,
        )
        # Both are lower bounds: occupied voxels are in the grid.
        way = math.sqrt(beyond) * edge
        out[m] = max(found - way, way - 0.5 * edge)
