# SPDX-License-Identifier: Apache-2.0
"""Blending of joint paths around the points where they meet."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from motion_nodes.trajectory.joint_path import JointPath, chained
from motion_nodes.trajectory.joint_trajectory import polynomial_between
from motion_nodes.typing import Array

_BISECTIONS = 40


def blended(
    before: JointPath, after: JointPath, distance: Callable[[Array], float], radius: float
) -> tuple[JointPath, JointPath, JointPath]:
    """Return two paths shortened around the point where they meet, and the blend between them.

    The blend is a polynomial of degree five that continues position, first and second derivative.

    Args:
        before: path that ends at the point.
        after: path that begins there, without stops within the radius.
        distance: returns the distance of the tool from the point [m] at a configuration.
        radius: distance at which the blend begins and ends [m].

    Returns:
        The first path, the blend, the second path.
    """
    leave = _place(before, distance, radius, from_end=True)
    enter = _place(after, distance, radius, from_end=False)
    first, second = _part(before, 0.0, leave), _part(after, enter, after.length)
    span = (before.length - leave) + enter
    ends = [
        (path.evaluate([s])[0], path.evaluate([s], 1)[0], path.evaluate([s], 2)[0])
        for path, s in ((before, leave), (after, enter))
    ]
    coefficients = np.array(polynomial_between(ends[0], ends[1], span))
    blend = JointPath(
        before.joint_names, np.array([0.0, span]), coefficients[np.newaxis], np.empty(0)
    )
    return first, blend, second


def joined_smoothly(parts: Sequence[JointPath]) -> JointPath:
    """Return consecutive paths, at least one, as one path without stops between them."""
    whole = chained(parts)
    ends = np.cumsum([part.length for part in parts])[:-1]
    kept = [s for s in whole.stops if not np.isclose(s, ends, rtol=0.0, atol=1e-9).any()]
    return JointPath(whole.joint_names, whole.breaks, whole.coefficients, np.array(kept))


def _place(
    path: JointPath, distance: Callable[[Array], float], radius: float, *, from_end: bool
) -> float:
    """Return the place nearest to the end (or start) at which the tool is at a distance."""
    places = np.linspace(0.0, path.length, 201)
    places = places[::-1] if from_end else places
    far = places[-1]
    near = places[0]
    for s in places[1:]:
        if distance(path.evaluate([s])[0]) >= radius:
            far = s
            break
        near = s
    for _ in range(_BISECTIONS):
        middle = 0.5 * (near + far)
        if distance(path.evaluate([middle])[0]) >= radius:
            far = middle
        else:
            near = middle
    return float(near)


def _part(path: JointPath, begin: float, end: float) -> JointPath:
    """Return the part of a path between two places."""
    inner = path.breaks[(path.breaks > begin + 1e-12) & (path.breaks < end - 1e-12)]
    breaks = np.concatenate([[begin], inner, [end]])
    middles = 0.5 * (breaks[:-1] + breaks[1:])
    piece = path.piece_at(middles)
    # Taylor expansion of each piece around its new start.
    degree = path.coefficients.shape[1] - 1
    factorial = np.cumprod(np.append(1.0, np.arange(1, degree + 1)))
    coefficients = np.stack(
        [
            path.evaluate(breaks[:-1], order, piece) / factorial[order]
            for order in range(degree + 1)
        ],
        axis=1,
    )
    stops = path.stops[(path.stops > begin) & (path.stops < end)] - begin
    return JointPath(path.joint_names, breaks - begin, coefficients, stops)
