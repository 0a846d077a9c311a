# SPDX-License-Identifier: Apache-2.0
"""Kernels of voxels: occupancy of a grid by views of a sensor, distances to what is occupied.

For a view of a sensor, points are hits and free rays misses. Rays are not traced. The range of each
point is entered into a cube map of the directions around the sensor; then each known voxel looks up
the smallest range in its direction, and is a miss if that is greater than its own. The cost is one
operation per point and one per known voxel.

The Euclidean distance transform is exact and takes linear time. Source: Felzenszwalb and
Huttenlocher, Distance Transforms of Sampled Functions, Theory of Computing 8 (2012): lower envelope
of parabolas, one axis after the other.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.kernels.jit import kernel, part
from motion_nodes.typing import Array

SIDE = 256
"""Bins along an edge of a face of the cube map, 0.35 degrees each on average."""
FACES = 6
FAR = np.float32(1e9)
"""Squared distance if no voxel is occupied [voxels^2]."""


class Grid(NamedTuple):
    """Memory of an occupancy grid; voxel (i, j, k) extends from ``(origin + (i, j, k)) * edge``."""

    origin: NDArray[np.int64]
    """Index of the first voxel, shape (3,)."""
    edge: float
    """Edge of a voxel [m]."""
    evidence: NDArray[np.int8]
    """Hits minus misses of each voxel, 0 to ``ViewRules.most``, shape (nx, ny, nz)."""
    seen: NDArray[np.int32]
    """Time of the last hit [ms], same shape."""
    points: NDArray[np.uint16]
    """Number of points of the current view in each voxel, same shape; 0 between views."""
    excluded: NDArray[np.bool_]
    """Whether a voxel belongs to a known object, same shape."""
    ranges: NDArray[np.float32]
    """Smallest range in each direction of the current view [m], shape (FACES, SIDE, SIDE)."""


class ViewRules(NamedTuple):
    """Parameters of an update."""

    min_points: int
    """Min number of points in a voxel that count as a hit."""
    most: int
    """Max evidence."""
    margin: float
    """Tolerance of ranges; a voxel is a miss if the measured range exceeds its own by more [m]."""
    unconfirmed: int
    """Time since the last hit after which a visible voxel loses evidence [ms]."""
    confirmed: int
    """Min evidence of an occupied voxel."""
    padding: float
    """Distance from the robot's spheres within which no voxel becomes occupied [m]."""


@part
def _bin(x: float, y: float, z: float) -> tuple[int, int, int]:
    """Return face, row and column of a direction in the cube map."""
    ax, ay, az = abs(x), abs(y), abs(z)
    if az >= ax and az >= ay:
        face, u, v, w = (4 if z > 0.0 else 5), x, y, az
    elif ax >= ay:
        face, u, v, w = (0 if x > 0.0 else 1), y, z, ax
    else:
        face, u, v, w = (2 if y > 0.0 else 3), x, z, ay
    scale = 0.5 * SIDE / w if w > 0.0 else 0.0
    row = min(int(u * scale + 0.5 * SIDE), SIDE - 1)
    column = min(int(v * scale + 0.5 * SIDE), SIDE - 1)
    return face, row, column


@kernel
def add_points(
    grid: Grid, points: NDArray[np.float32], step: int, X: Array, min_range: float, max_range: float
) -> tuple[int, int]:
    """Count the points of a view per voxel, and enter their ranges into the cube map.

    Args:
        grid: the grid.
        points: in the sensor's frame [m], shape (n, 3). Points that are not finite or closer than
            ``min_range`` are ignored; those beyond ``max_range`` mean free space up to it.
        step: only each ``step``-th point is used.
        X: pose of the sensor in the grid's frame, shape (4, 4).
        min_range: min range of a valid point [m].
        max_range: max range of a counted point [m].

    Returns:
        Number of valid points, and of those within ``max_range`` inside the grid.
    """
    grid.ranges[:] = np.inf
    nx, ny, nz = grid.evidence.shape
    inverse = 1.0 / grid.edge
    ox, oy, oz = float(grid.origin[0]), float(grid.origin[1]), float(grid.origin[2])
    low, valid, inside = min_range * min_range, 0, 0
    for i in range(0, points.shape[0], step):
        x, y, z = float(points[i, 0]), float(points[i, 1]), float(points[i, 2])
        squared = x * x + y * y + z * z
        if not (squared >= low and squared < np.inf):
            continue
        valid += 1
        distance = math.sqrt(squared)
        face, row, column = _bin(x, y, z)
        bounded = np.float32(min(distance, max_range))
        if bounded < grid.ranges[face, row, column]:
            grid.ranges[face, row, column] = bounded
        if distance > max_range:
            continue
        a = (X[0, 0] * x + X[0, 1] * y + X[0, 2] * z + X[0, 3]) * inverse - ox
        b = (X[1, 0] * x + X[1, 1] * y + X[1, 2] * z + X[1, 3]) * inverse - oy
        c = (X[2, 0] * x + X[2, 1] * y + X[2, 2] * z + X[2, 3]) * inverse - oz
        if 0.0 <= a < nx and 0.0 <= b < ny and 0.0 <= c < nz:
            inside += 1
            j, k, m = int(a), int(b), int(c)
            if grid.points[j, k, m] < 65535:
                grid.points[j, k, m] += 1
    return valid, inside


@part
def _range_towards(grid: Grid, x: float, y: float, z: float) -> float:
    """Return the smallest range in a bin and its neighbours [m]; -1 if it is unknown.

    At least two measured bins are required, so that a single wrong pixel clears nothing.
    """
    face, row, column = _bin(x, y, z)
    nearest, count = np.inf, 0
    for i in range(max(row - 1, 0), min(row + 2, SIDE)):
        for j in range(max(column - 1, 0), min(column + 2, SIDE)):
            found = float(grid.ranges[face, i, j])
            if found < np.inf:
                count += 1
                nearest = min(nearest, found)
    return nearest if count >= 2 else -1.0


@part
def _on_robot(x: float, y: float, z: float, spheres: Array, padding: float) -> bool:
    """Return whether a point is inside a sphere, or within ``padding`` of one."""
    for s in range(spheres.shape[0]):
        a, b, c = x - spheres[s, 0], y - spheres[s, 1], z - spheres[s, 2]
        size = spheres[s, 3] + padding
        if a * a + b * b + c * c < size * size:
            return True
    return False


@kernel
def end_view(grid: Grid, X: Array, spheres: Array, now: int, rules: ViewRules) -> None:
    """Update the evidence of all voxels from the points of :func:`add_points`.

    A hit adds one. Voxels of the robot and of known objects are cleared, and so are voxels within
    the padding of the robot that are not occupied yet: they are probably the robot. A voxel without
    points loses one if the sensor sees through it, or if it is visible and its last hit is too old.

    Args:
        grid: the grid; its numbers of points are reset.
        X: pose of the sensor in the grid's frame, shape (4, 4).
        spheres: centres and radii of the spheres of the robot and of attached objects, in the
            grid's frame [m], shape (s, 4).
        now: time of the view [ms].
        rules: see the class.
    """
    nx, ny, nz = grid.evidence.shape
    edge = grid.edge
    for i in range(nx):
        for j in range(ny):
            for k in range(nz):
                evidence, points = grid.evidence[i, j, k], grid.points[i, j, k]
                if evidence == 0 and points == 0:
                    continue
                grid.points[i, j, k] = 0
                x = (grid.origin[0] + i + 0.5) * edge
                y = (grid.origin[1] + j + 0.5) * edge
                z = (grid.origin[2] + k + 0.5) * edge
                beside = rules.padding if evidence < rules.confirmed else 0.0
                if grid.excluded[i, j, k] or _on_robot(x, y, z, spheres, beside):
                    grid.evidence[i, j, k] = 0
                    continue
                if points >= rules.min_points:
                    grid.evidence[i, j, k] = min(evidence + 1, rules.most)
                    grid.seen[i, j, k] = now
                    continue
                if evidence == 0 or points > 0:
                    continue
                x, y, z = x - X[0, 3], y - X[1, 3], z - X[2, 3]
                measured = _range_towards(
                    grid,
                    X[0, 0] * x + X[1, 0] * y + X[2, 0] * z,
                    X[0, 1] * x + X[1, 1] * y + X[2, 1] * z,
                    X[0, 2] * x + X[1, 2] * y + X[2, 2] * z,
                )
                distance = math.sqrt(x * x + y * y + z * z)
                through = measured > distance + rules.margin
                visible = measured > distance - rules.margin
                if through or (visible and now - grid.seen[i, j, k] > rules.unconfirmed):
                    grid.evidence[i, j, k] = evidence - 1


@kernel
def expire(grid: Grid, before: int) -> None:
    """Remove the voxels whose last hit was before a time [ms]."""
    nx, ny, nz = grid.evidence.shape
    for i in range(nx):
        for j in range(ny):
            for k in range(nz):
                if grid.evidence[i, j, k] > 0 and grid.seen[i, j, k] < before:
                    grid.evidence[i, j, k] = 0


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
