# SPDX-License-Identifier: Apache-2.0
"""Few spheres that hold a link's geometry and reach little beyond it; and how good they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from motion_nodes.errors import BadConfig
from motion_nodes.model.tree import Array, frozen
from motion_nodes.robot_setup.link_geometry import LinkGeometry

_CANDIDATES = 800
_TARGETS = 3000  # points that have to be held while spheres are chosen
_LOOKED_AT = 6000  # points of surface and of volume that sizes are fitted to
_GROWTH = 0.35
"""Part of the accuracy by which spheres may grow to take in points that are left over."""
_GAP = 0.3
"""How far beyond samples spheres reach at first, as a part of the spacing; what is between the
samples of one sphere it holds anyway, and what is between those of two is looked at afterwards."""


@dataclass(frozen=True)
class Coverage:
    """How well spheres stand for a geometry."""

    surface: float
    """Share of the surface that is in a sphere, 0 to 1."""
    volume: float
    """Share of the volume that is in a sphere, 0 to 1."""
    excess_volume: float
    """Volume of the spheres outside the geometry, as a multiple of the geometry's volume."""
    reach: float
    """How far the spheres reach beyond the geometry at most [m]."""
    gap: float
    """How far the geometry reaches beyond the spheres at most [m]."""
    count: int
    """Number of spheres."""


def fit_spheres(geometry: LinkGeometry, accuracy: float) -> Array:
    """Return spheres that hold a geometry and reach about ``accuracy`` beyond it at most.

    A sphere about a point at depth d may have the radius ``d + accuracy``: the ball of radius d is
    within the geometry, so no point of the larger one is farther from it than ``accuracy``. Of
    such spheres the one that holds most of what is not held yet is taken until all is held (the
    greedy algorithm for set cover; Chvatal, A greedy heuristic for the set-covering problem, Math.
    of Operations Research 4, 1979). Then each is made to hold what is between the points that were
    looked at, and no larger than that.

    Args:
        geometry: of one link.
        accuracy: [m].

    Returns:
        Centre and radius in the link's frame [m], shape (n, 4), the largest first.

    Raises:
        BadConfig: an accuracy that is not a positive number.
    """
    if not (np.isfinite(accuracy) and accuracy > 0.0):
        raise BadConfig(f"the accuracy of spheres is {accuracy} m; it must be above 0.")
    geometry = geometry.finer(accuracy / 3.0)
    rng = np.random.default_rng(0)
    surface, inner = geometry.surface, geometry.elements
    targets = np.concatenate((_some(surface, _TARGETS, rng), _some(inner, _TARGETS // 3, rng)))
    centres = np.concatenate(
        (
            _some(geometry.middle_axes, _CANDIDATES, rng),
            _some(inner, _CANDIDATES // 2, rng),
            _some(surface, _CANDIDATES // 3, rng),
        )
    )
    # What a sphere will grow by afterwards is taken off before.
    radii = np.maximum(geometry.depth(centres), 0.0) + (1.0 - _GROWTH) * accuracy
    spheres = _fitted(_greedy(centres, radii, targets, _GROWTH * accuracy), geometry, accuracy)
    return frozen(spheres[np.argsort(-spheres[:, 3], kind="stable")])


def fit_count(geometry: LinkGeometry, count: int) -> Array:
    """Return at most ``count`` spheres that hold a geometry, as accurate as so many can be.

    Raises:
        BadConfig: a count below 1.
    """
    if count < 1:
        raise BadConfig(f"{count} spheres cannot hold a link; ask for 1 or more.")
    size = float(np.ptp(geometry.bounds, axis=0).max())
    best = _fitted(np.array([[*geometry.bounds.mean(axis=0), size]]), geometry, size)
    low, high = size / 100.0, size
    for _ in range(9):
        middle = float(np.sqrt(low * high))
        spheres = fit_spheres(geometry, middle)
        if len(spheres) <= count:
            best, high = spheres, middle
        else:
            low = middle
    return frozen(best)


def measure(spheres: Array, geometry: LinkGeometry) -> Coverage:
    """Return how well spheres stand for a geometry.

    Args:
        spheres: centre and radius in the link's frame [m], shape (n, 4).
        geometry: of that link; its spacing is how exact the figures are.
    """
    spheres = np.asarray(spheres, dtype=np.float64).reshape(-1, 4)
    if not len(spheres):
        low, high = geometry.bounds
        return Coverage(0.0, 0.0, 0.0, 0.0, float(np.linalg.norm(high - low)), 0)
    surface = outside(spheres, geometry.surface)
    inside = outside(spheres, geometry.elements) <= 0.0
    weights = geometry._weights
    held = float((weights * inside).sum()) * geometry.spacing**3
    total = _union_volume(spheres, geometry.spacing)
    shells = _shells(spheres)
    free = shells[outside(spheres, shells) > -1e-9]
    reach = float(np.maximum(-geometry.depth(free), 0.0).max(initial=0.0))
    return Coverage(
        surface=float((surface <= 0.0).mean()),
        volume=float((weights * inside).sum() / weights.sum()),
        excess_volume=max(0.0, total - held) / geometry.volume,
        reach=reach,
        gap=float(max(0.0, surface.max())),
        count=len(spheres),
    )


def outside(spheres: Array, points: Array) -> Array:
    """Return how far points are outside all spheres, negative inside [m], shape (m,)."""
    nearest = np.full(len(points), np.inf)
    for centre_and_radius in spheres:
        offset = points - centre_and_radius[:3]
        distance = np.sqrt(np.einsum("mi,mi->m", offset, offset)) - centre_and_radius[3]
        np.minimum(nearest, distance, out=nearest)
    return nearest


def _some(points: Array, count: int, rng: np.random.Generator) -> Array:
    """Return at most ``count`` of some points, each as likely as the others."""
    return points[rng.permutation(len(points))[:count]]


def _greedy(centres: Array, radii: Array, targets: Array, growth: float) -> Array:
    """Return the spheres that are taken one after the other until all targets are nearly held.

    Those within ``growth`` of a sphere count as held: else the last few points would ask for as
    many spheres as all others.
    """
    from scipy.spatial.distance import cdist

    beyond = cdist(targets, centres) - radii
    held_by = beyond <= 0.0
    gains = held_by.sum(axis=0)
    is_open = np.ones(len(targets), bool)
    taken = []
    while gains.max() > 0:
        taken.append(int(gains.argmax()))
        new = (beyond[:, taken[-1]] <= growth) & is_open
        gains -= held_by[new].sum(axis=0)
        is_open &= ~new
    return np.column_stack((centres, radii))[taken]


def _fitted(spheres: Array, geometry: LinkGeometry, accuracy: float) -> Array:
    """Return the spheres without those that are not needed, each as large as it has to be.

    A smaller sphere about another middle is taken if it reaches no farther out.
    """
    rng = np.random.default_rng(1)
    surface, inner = (_some(p, _LOOKED_AT, rng) for p in (geometry.surface, geometry.elements))
    points = np.concatenate((surface, inner))
    gap = _GAP * geometry.spacing
    gaps = np.repeat([gap, 0.0], [len(surface), len(inner)])
    beyond = np.stack([np.linalg.norm(points - s[:3], axis=1) + gaps - s[3] for s in spheres])
    holds = beyond <= 0.0
    holds[beyond.argmin(axis=0), np.arange(len(points))] = True
    needed = np.ones(len(spheres), bool)
    times = holds.sum(axis=0)
    for k in np.argsort(holds.sum(axis=1), kind="stable"):
        if (times[holds[k]] > 1).all():
            needed[k] = False
            times = times - holds[k]
    beyond, spheres = beyond[needed], spheres[needed]
    owner = beyond.argmin(axis=0)
    own = [np.flatnonzero(owner == k) for k in range(len(spheres))]
    kept = [k for k, indices in enumerate(own) if len(indices)]
    own, centres = [own[k] for k in kept], spheres[kept, :3]
    middles = _middles([points[indices] for indices in own])
    before, after = (
        np.array(
            [
                (np.linalg.norm(points[indices] - centre, axis=1) + gaps[indices]).max()
                for indices, centre in zip(own, chosen, strict=True)
            ]
        )
        for chosen in (centres, middles)
    )
    reach = before - np.maximum(geometry.depth(centres), 0.0)
    moved_reach = after - np.maximum(geometry.depth(middles), 0.0)
    better = (after < before) & (moved_reach <= np.maximum(reach, accuracy))
    chosen = np.where(better[:, None], middles, centres)
    return _grown(np.column_stack((chosen, np.where(better, after, before))), geometry)


def _grown(spheres: Array, geometry: LinkGeometry) -> Array:
    """Return spheres that also hold what is between the samples: the nearest one grows."""
    spheres = spheres.copy()
    for points in np.array_split(geometry.dense, 1 + len(geometry.dense) // 50_000):
        missed = points[outside(spheres, points) > 0.0]
        if len(missed):
            beyond = np.stack([np.linalg.norm(missed - s[:3], axis=1) - s[3] for s in spheres])
            most = np.zeros(len(spheres))
            np.maximum.at(most, beyond.argmin(axis=0), beyond.min(axis=0))
            spheres[:, 3] += most
    return spheres


def _middles(groups: list[Array]) -> Array:
    """Return the middle of a small sphere around each group of points, shape (n, 3).

    Source: Badoiu and Clarkson, Smaller core-sets for balls (SODA 2003): step towards the farthest
    point with falling step sizes. The few points that hold the smallest sphere are outermost ones.
    """
    directions = _spread(40)
    outer = np.stack([points[(points @ directions.T).argmax(axis=0)] for points in groups])
    middles = 0.5 * (outer.min(axis=1) + outer.max(axis=1))
    rows = np.arange(len(outer))
    for step in range(2, 100):
        squares = ((outer - middles[:, None]) ** 2).sum(axis=2)
        middles = middles + (outer[rows, squares.argmax(axis=1)] - middles) / step
    return np.asarray(middles)


def _spread(count: int) -> Array:
    """Return directions that are spread evenly, shape (count, 3): a Fibonacci lattice."""
    k = np.arange(count) + 0.5
    polar, turn = np.arccos(1.0 - 2.0 * k / count), np.pi * (1.0 + 5.0**0.5) * k
    x, y = np.cos(turn) * np.sin(polar), np.sin(turn) * np.sin(polar)
    return np.stack((x, y, np.cos(polar)), axis=1)


def _union_volume(spheres: Array, spacing: float) -> float:
    """Return the volume of the union of spheres [m^3], counted in a grid."""
    low = (spheres[:, :3] - spheres[:, 3:]).min(axis=0)
    high = (spheres[:, :3] + spheres[:, 3:]).max(axis=0)
    step = max(spacing, float((high - low).max()) / 100.0)
    axes = [np.arange(a + 0.5 * step, b, step) for a, b in zip(low, high, strict=True)]
    inside = np.zeros([len(axis) for axis in axes], bool)
    for x, y, z, radius in spheres:
        squares = [(axis - c) ** 2 for axis, c in zip(axes, (x, y, z), strict=True)]
        inside |= (
            squares[0][:, None, None] + squares[1][None, :, None] + squares[2][None, None, :]
        ) <= radius**2
    return float(inside.sum()) * step**3


def _shells(spheres: Array) -> Array:
    """Return points spread over the spheres' surfaces, shape (n * 200, 3)."""
    points = spheres[:, None, :3] + spheres[:, None, 3:] * _spread(200)
    return np.asarray(points.reshape(-1, 3))
