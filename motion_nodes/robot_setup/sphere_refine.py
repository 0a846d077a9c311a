# SPDX-License-Identifier: Apache-2.0
"""Refinement of spheres that cover a link: less excess volume by gradient descent."""

from __future__ import annotations

import numpy as np

from motion_nodes.robot_setup.link_geometry import LinkGeometry
from motion_nodes.robot_setup.sphere_measure import outside, some
from motion_nodes.typing import Array

_ROUNDS, _STEPS = 3, 30
_STEP = 0.08
"""Initial step relative to the accuracy; steps decrease to zero."""
_HOLD = 20.0
"""Weight of uncovered points relative to excess volume."""
_WITHIN = 0.08
"""Desired depth of the surface inside spheres, relative to the accuracy."""
_EDGE = 0.25
"""Width of a sphere's edge band, relative to the accuracy."""
_DECAY, _DECAY_SQUARES = 0.9, 0.99


def refine(spheres: Array, geometry: LinkGeometry, accuracy: float) -> Array:
    """Return the same number of spheres with less volume outside the geometry.

    Gradient descent minimises the sum of two losses: squared distances of points of the geometry
    outside all spheres, and the volume of the spheres' union outside the geometry, weighted by its
    distance. Both depend only on the sphere that contains a point deepest, so the gradient of the
    volume depends only on the free surface. Fitting spheres by descent on such losses:
    Nechyporenko et al., MorphIt: flexible spherical approximation of robot morphology, 2025; on the
    volume outside: Wang et al., Variational sphere set approximation for solid objects, The Visual
    Computer 22, 2006. Steps: Kingma and Ba, Adam, ICLR 2015.

    Args:
        spheres: initial spheres: centre and radius in the link's frame [m], shape (n, 4).
        geometry: geometry of the link.
        accuracy: desired max excess [m].
    """
    rng = np.random.default_rng(3)
    surface, inner = geometry.surface, geometry.elements
    held = np.concatenate(
        (
            some(surface, int(np.clip(25 * len(spheres), 1500, 5000)), rng),
            some(inner, int(np.clip(8 * len(spheres), 500, 1500)), rng),
        )
    )
    near, away = geometry.around(2.0 * accuracy)
    kept = rng.permutation(len(near))[: int(np.clip(35 * len(spheres), 3000, 6000))]
    # Volume represented by each of these elements, in units of the accuracy.
    each = (geometry.spacing / accuracy) ** 3 * len(near) / max(1, len(kept))
    weights = each * (1.0 + 4.0 * (away[kept] / accuracy) ** 8)
    found = np.array(spheres, dtype=np.float64)
    for k in range(_ROUNDS):
        points = np.concatenate((held, near[kept]))
        found = _descended(found, points, len(held), weights, accuracy, k)
        # Add corners that the samples missed.
        lacking = outside(found, surface)
        held = np.concatenate((held, surface[lacking > 0.3 * _WITHIN * accuracy]))
    return found


def _descended(
    spheres: Array,
    points: Array,
    held: int,
    weights: Array,
    accuracy: float,
    part: int,
) -> Array:
    """Return spheres after the steps of one round, the ``part``-th of all."""
    found = spheres.copy()
    mean, square = np.zeros_like(found), np.zeros_like(found)
    for step in range(_STEPS):
        share = (part + step / _STEPS) / _ROUNDS
        gradient = _gradient(found, points, held, weights, accuracy, 0.3 + 1.7 * share)
        mean = _DECAY * mean + (1.0 - _DECAY) * gradient
        square = _DECAY_SQUARES * square + (1.0 - _DECAY_SQUARES) * gradient**2
        straight = mean / (1.0 - _DECAY ** (step + 1))
        size = np.sqrt(square / (1.0 - _DECAY_SQUARES ** (step + 1))) + 1e-9
        found -= _STEP * accuracy * (1.0 - share) * straight / size
        found[:, 3] = np.maximum(found[:, 3], 0.2 * accuracy)
    return found


def _gradient(
    spheres: Array, points: Array, held: int, weights: Array, accuracy: float, firmness: float
) -> Array:
    """Return the gradient of the loss with respect to centres and radii, shape (n, 4).

    Args:
        spheres: shape (n, 4).
        points: points to cover, then points that should be outside [m].
        held: number of points to cover.
        weights: weights of the other points.
        accuracy: desired max excess [m].
        firmness: weight of the coverage; increases during the descent.
    """
    from scipy.spatial.distance import cdist

    outside = cdist(points, spheres[:, :3]) - spheres[:, 3]
    owner = outside.argmin(axis=1)
    distance = outside[np.arange(len(points)), owner]
    away = points - spheres[owner, :3]
    away /= np.maximum(distance + spheres[owner, 3], 1e-9)[:, None]
    lacking = np.maximum(distance[:held] + _WITHIN * accuracy, 0.0) / accuracy
    at_edge = np.maximum(1.0 - np.abs(distance[held:]) / (_EDGE * accuracy), 0.0)
    pull = np.concatenate((_HOLD * firmness * lacking, -weights * at_edge / _EDGE))
    columns = [*(pull * away.T), pull]
    sums = [np.bincount(owner, column, minlength=len(spheres)) for column in columns]
    return -np.stack(sums, axis=1).astype(np.float64)
