# SPDX-License-Identifier: Apache-2.0
"""Grasps of triangle meshes by antipodal sampling.

A line through a sampled point crosses the surface in pairs of contacts. A pair is a grasp from
above if the line is within the friction cones of both contacts, the fingers open wide enough, and
both have room beside the object and above it (cf. Murray, Li, Sastry 1994, theorem 5.7: with soft
fingers, such pairs close the force).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motion_nodes.tasks.world_state import ObjectState, SurfaceMesh
from motion_nodes.typing import Array

SAMPLES = 300
"""Number of sampled points."""
MAX_CANDIDATES = 40
"""Max number of grasps."""
FRICTION = 0.4
"""Coefficient of friction between fingers and objects, on the low side."""
THICKNESS, HALF_WIDTH = 0.012, 0.008
"""Clearance of a finger: outwards from its contact, and half of it across [m]."""
TIP = 0.008
"""Depth of the finger tips below the grasp frame [m]."""
LOWEST = 0.011
"""Min height of contacts above the lowest point, so that the finger tips (Franka: 9.6 mm deep) do
not touch what it stands on [m]."""
LENGTH = 0.04
"""Max depth of the grasp frame below the top between the fingers [m]."""
MARGIN = 0.006
"""Free space between an object and the open fingers, on both sides together [m]."""
_BLOCK = 2_000_000
"""Max number of pairs of rays and triangles that are computed at once."""


@dataclass(frozen=True, eq=False)
class ContactPair:
    """Two contacts with opposite forces."""

    centre: Array
    """Between them, in the world [m], shape (3,)."""
    closing: Array
    """Unit vector from the first to the second one, horizontal, shape (3,)."""
    width: float
    """Distance [m]."""
    score: float
    """Distance from the centre of mass, and half of that from the preferred height [m]; lower is
    better.
    """


def contact_pairs(
    target: ObjectState, mesh: SurfaceMesh, max_width: float, height: float, *, seed: int = 0
) -> list[ContactPair]:
    """Return pairs of contacts for grasps from above, best first.

    Args:
        target: the object.
        mesh: its surface in the frame of its shape, with outward normals.
        max_width: max distance of the fingers [m].
        height: preferred height of the contacts in the world [m].
        seed: of the samples.
    """
    V = mesh.vertices @ target.X_WO[:3, :3].T + target.X_WO[:3, 3]
    T = V[mesh.triangles]
    cross = np.cross(T[:, 1] - T[:, 0], T[:, 2] - T[:, 0])
    area = 0.5 * np.linalg.norm(cross, axis=1)
    T, cross, area = T[area > 1e-12], cross[area > 1e-12], area[area > 1e-12]
    if not len(T):
        return []
    normals = cross / (2.0 * area[:, None])
    points, axes = _lines(T, normals, area, np.random.default_rng(seed))
    low, centre = float(V[:, 2].min()), _centre_of_mass(T)
    found, cone = [], 1.0 / np.hypot(1.0, FRICTION)
    for point, axis, (t, hit) in zip(points, axes, _crossings(T, points, axes), strict=True):
        cosine = normals[hit] @ axis
        entries, exits = np.flatnonzero(cosine <= -cone), np.flatnonzero(cosine >= cone)
        for i in entries:
            for j in exits[t[exits] > t[i] + 1e-4]:
                width = float(t[j] - t[i])
                if width + MARGIN > max_width or point[2] - LOWEST < low:
                    continue
                middle = point + 0.5 * (t[i] + t[j]) * axis
                away = float(np.linalg.norm(middle[:2] - centre[:2]))
                score = away + 0.5 * abs(float(point[2]) - height)
                found.append(ContactPair(middle, axis, width, score))
    found.sort(key=lambda pair: pair.score)
    chosen: list[ContactPair] = []
    for pair in found:
        if len(chosen) == MAX_CANDIDATES:
            break
        if _has_room(T, pair):
            chosen.append(pair)
    return chosen


def _lines(T: Array, normals: Array, area: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return points on the surface and horizontal directions into it, shape (n, 3) each."""
    k = rng.choice(len(T), SAMPLES, p=area / area.sum())
    a, b = np.sqrt(rng.random(SAMPLES)), rng.random(SAMPLES)
    points = np.einsum("nk,nkj->nj", np.column_stack((1.0 - a, a * (1.0 - b), a * b)), T[k])
    axes = -normals[k] * [1.0, 1.0, 0.0]
    length = np.linalg.norm(axes, axis=1)
    level = length >= 1.0 / np.hypot(1.0, FRICTION)
    return points[level], axes[level] / length[level, None]


def _crossings(T: Array, origins: Array, directions: Array) -> list[tuple[Array, NDArray[np.intp]]]:
    """Return for each line the signed distances of its crossings, and their triangles, sorted.

    Args:
        T: corners of triangles [m], shape (m, 3, 3).
        origins: of the lines [m], shape (n, 3).
        directions: unit vectors, shape (n, 3).
    """
    found = []
    e1, e2 = T[:, 1] - T[:, 0], T[:, 2] - T[:, 0]
    block = max(1, _BLOCK // len(T))
    for begin in range(0, len(origins), block):
        o, d = origins[begin : begin + block, None], directions[begin : begin + block, None]
        p = np.cross(d, e2[None])
        det = np.einsum("nmj,mj->nm", p, e1)
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse = 1.0 / det
            s = o - T[None, :, 0]
            u = np.einsum("nmj,nmj->nm", s, p) * inverse
            q = np.cross(s, e1[None])
            v = np.einsum("nmj,nmj->nm", q, np.broadcast_to(d, q.shape)) * inverse
            t = np.einsum("nmj,mj->nm", q, e2) * inverse
            inside = (np.abs(det) > 1e-14) & (u >= -1e-9) & (v >= -1e-9) & (u + v <= 1.0 + 1e-9)
        for row in range(len(o)):
            hits = np.flatnonzero(inside[row])
            order = np.argsort(t[row, hits])
            found.append((t[row, hits][order], hits[order]))
    return found


def _has_room(T: Array, pair: ContactPair) -> bool:
    """Return whether open fingers reach both contacts from above, and the palm stays above."""
    across = np.array((-pair.closing[1], pair.closing[0], 0.0))
    away = 0.5 * (pair.width + MARGIN)
    outward = np.linspace(away, away + THICKNESS, 4)
    along = np.concatenate((outward, -outward))
    sides = np.linspace(-HALF_WIDTH, HALF_WIDTH, 3)
    fingers = pair.centre + (
        along[:, None, None] * pair.closing + sides[None, :, None] * across
    ).reshape(-1, 3)
    between = np.linspace(-away, away, 9)
    palm = pair.centre + (
        between[:, None, None] * pair.closing + sides[None, :, None] * across
    ).reshape(-1, 3)
    down = np.array((0.0, 0.0, -1.0))
    above = float(T[:, :, 2].max()) + 0.1
    points = np.concatenate((fingers, palm))
    floor = np.r_[np.full(len(fingers), -TIP), np.full(len(palm), LENGTH)] + pair.centre[2]
    points[:, 2] = above
    hits = _crossings(T, points, np.broadcast_to(down, points.shape))
    tops = np.array([above - t[0] if len(t) else -np.inf for t, _ in hits])
    return bool((tops < floor).all())


def _centre_of_mass(T: Array) -> Array:
    """Return the centre of mass of the solid inside a surface [m], shape (3,)."""
    volumes = np.einsum("mj,mj->m", T[:, 0], np.cross(T[:, 1], T[:, 2])) / 6.0
    total = float(volumes.sum())
    if abs(total) < 1e-9:
        return np.asarray(0.5 * (T.min(axis=(0, 1)) + T.max(axis=(0, 1))))
    return np.asarray((volumes[:, None] * T.sum(axis=1)).sum(axis=0) / (4.0 * total))
