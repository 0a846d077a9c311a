# SPDX-License-Identifier: Apache-2.0
"""Fitting of few spheres that cover a link's geometry with a small excess."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motion_nodes.errors import InvalidConfig
from motion_nodes.model.tree import frozen
from motion_nodes.robot_setup.link_geometry import LinkGeometry
from motion_nodes.robot_setup.sphere_measure import nearest, reach_beyond, some
from motion_nodes.robot_setup.sphere_refine import refine
from motion_nodes.typing import Array

_CANDIDATES = 800
_TARGETS = 3000  # number of points to cover while spheres are selected
_GROWTH = 0.35
"""Max growth of spheres to cover remaining points, as a fraction of the accuracy."""
_FIRST = 1.1
"""Initial max excess of spheres relative to the accuracy; the refinement reduces it."""
_TRIES = 5
_AIM, _GOOD = 0.93, 1.02
"""Desired and sufficient excess, relative to the accuracy."""


def fit_spheres(geometry: LinkGeometry, accuracy: float) -> Array:
    """Return few spheres that cover a geometry with an excess of at most ``accuracy``.

    Initial spheres: a sphere about a point at depth d may have the radius ``d + accuracy``, because
    the ball of radius d is within the geometry. Of such spheres about points of the medial axis and
    of the volume, the one that covers most uncovered points is selected until all are covered (the
    greedy algorithm for set cover; Chvatal, A greedy heuristic for the set-covering problem, Math.
    of Operations Research 4, 1979). All spheres are then optimised together to reduce the excess
    volume (:func:`~motion_nodes.robot_setup.sphere_refine.refine`), and enlarged to cover the
    remaining points. Spheres with a large excess are split in two, for a few rounds.

    Args:
        geometry: geometry of one link.
        accuracy: max excess [m].

    Returns:
        Centre and radius in the link's frame [m], shape (n, 4), the largest first.

    Raises:
        InvalidConfig: an accuracy that is not a positive number.
    """
    if not (np.isfinite(accuracy) and accuracy > 0.0):
        raise InvalidConfig(f"the accuracy of spheres is {accuracy} m; it must be above 0.")
    geometry = geometry.finer(accuracy / 3.0)
    spheres = _polished(_Cover(geometry).greedy(_FIRST * accuracy), geometry, accuracy)
    best, least = spheres, np.inf
    for _ in range(_TRIES):
        reach = reach_beyond(spheres, geometry)
        if reach.max() < least:
            best, least = spheres, reach.max()
        if least <= _GOOD * accuracy:
            break
        spheres = _split(spheres, reach > _GOOD * accuracy, geometry)
        spheres = _polished(spheres, geometry, accuracy)
    return frozen(best)


def fit_count(geometry: LinkGeometry, count: int) -> Array:
    """Return at most ``count`` spheres that cover a geometry, with the best accuracy.

    Raises:
        InvalidConfig: a count below 1.
    """
    if count < 1:
        raise InvalidConfig(f"the number of spheres is {count}; it must be 1 or more.")
    size = float(np.ptp(geometry.bounds, axis=0).max())
    cover = _Cover(geometry)
    low, high = size / 100.0, size
    best = np.array([[*geometry.bounds.mean(axis=0), size]])
    for _ in range(9):
        middle = float(np.sqrt(low * high))
        spheres = cover.greedy(middle)
        if len(spheres) <= count:
            best, high = spheres, middle
        else:
            low = middle
    return frozen(_polished(best, geometry.finer(high / 3.0), high))


class _Cover:
    """Selection of spheres that cover samples of a geometry."""

    def __init__(self, geometry: LinkGeometry) -> None:
        from scipy.spatial.distance import cdist

        rng = np.random.default_rng(0)
        surface, inner = geometry.surface, geometry.elements
        targets = (some(surface, _TARGETS, rng), some(inner, _TARGETS // 3, rng))
        self._centres = np.concatenate(
            (
                some(geometry.middle_axes, _CANDIDATES, rng),
                some(inner, _CANDIDATES // 2, rng),
                some(surface, _CANDIDATES // 3, rng),
            )
        )
        self._depths = np.maximum(geometry.depth(self._centres), 0.0)
        self._beyond = cdist(np.concatenate(targets), self._centres) - self._depths

    def greedy(self, accuracy: float) -> Array:
        """Return spheres selected greedily until almost all samples are covered.

        Points within ``_GROWTH`` of a sphere count as covered; otherwise the last few points would
        require as many spheres as all others.
        """
        more = (1.0 - _GROWTH) * accuracy
        held_by = self._beyond <= more
        gains = held_by.sum(axis=0)
        is_open = np.ones(len(held_by), bool)
        taken: list[int] = []
        while gains.max() > 0:
            taken.append(int(gains.argmax()))
            new = (self._beyond[:, taken[-1]] <= accuracy) & is_open
            gains -= held_by[new].sum(axis=0)
            is_open &= ~new
        return np.column_stack((self._centres[taken], self._depths[taken] + more))


def _split(spheres: Array, too_far: NDArray[np.bool_], geometry: LinkGeometry) -> Array:
    """Return spheres, some of them split in two that cover half of the points each."""
    points = np.concatenate((geometry.surface, geometry.elements))
    owner = nearest(spheres, points)[1]
    halves = []
    for k in np.flatnonzero(too_far):
        own = points[owner == k]
        if not len(own):
            halves.append(spheres[k])
            continue
        own = own - (middle := own.mean(axis=0))
        longest = np.linalg.eigh(own.T @ own)[1][:, -1]
        side = own @ longest > 0.0
        if side.all() or not side.any():
            halves.append(spheres[k])
            continue
        for part in (own[side], own[~side]):
            halves.append([*(middle + part.mean(axis=0)), 0.8 * spheres[k, 3]])
    return np.vstack((spheres[~too_far], halves))


def _polished(spheres: Array, geometry: LinkGeometry, accuracy: float) -> Array:
    """Return refined spheres that cover all of the geometry, the largest first."""
    spheres = refine(spheres, geometry, _AIM * accuracy)
    grown = spheres.copy()
    used = np.zeros(len(spheres), bool)
    for points in np.array_split(geometry.dense, 1 + len(geometry.dense) // 50_000):
        beyond, owner = nearest(spheres, points)
        used[owner] = True
        np.maximum.at(grown[:, 3], owner, spheres[owner, 3] + beyond)
    used[nearest(spheres, geometry.elements)[1]] = True
    grown = grown[used]
    return grown[np.argsort(-grown[:, 3], kind="stable")]
