# SPDX-License-Identifier: Apache-2.0
"""Piecewise polynomial joint paths, without time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.errors import InvalidCommand
from motion_nodes.model.tree import frozen
from motion_nodes.typing import Array, IndexArray


@dataclass(frozen=True, eq=False)
class JointPath:
    """Joint positions as a function of the distance along a path.

    The meaning of the distance depends on the kind of path; it begins at 0. First and second
    derivatives are continuous except where the path stops.
    """

    joint_names: tuple[str, ...]
    breaks: Array
    """Bounds of the pieces, increasing, shape (m + 1,)."""
    coefficients: Array
    """Lowest power first, in the distance from the start of a piece, shape (m, d + 1, n)."""
    stops: Array
    """Distances of corners, at which the joints have to stop; shape (c,)."""

    def __post_init__(self) -> None:
        """Freeze the arrays."""
        for name in ("breaks", "coefficients", "stops"):
            object.__setattr__(self, name, frozen(getattr(self, name)))

    @property
    def length(self) -> float:
        """Distance from start to end, in joint space [rad or m]."""
        return float(self.breaks[-1])

    @property
    def bent(self) -> NDArray[np.bool_]:
        """Whether each piece is curved, i.e. not a line at constant rate, shape (m,)."""
        return np.asarray(self.coefficients[:, 2:].any(axis=(1, 2)))

    def bounds(self) -> tuple[Array, Array]:
        """Return lower and upper bounds of the positions of each piece, shape (m, n) each.

        Source: a polynomial is within the convex hull of its Bernstein coefficients.
        """
        degree = self.coefficients.shape[1] - 1
        powers = range(degree + 1)
        weights = np.array([[comb(j, i) / comb(degree, i) for i in powers] for j in powers])
        scale = np.diff(self.breaks)[:, None] ** np.arange(degree + 1)
        hull = np.einsum("ji,mi,min->mjn", weights, scale, self.coefficients)
        return hull.min(axis=1), hull.max(axis=1)

    def piece_at(self, distance: ArrayLike) -> IndexArray:
        """Return the piece that contains each distance [rad or m], shape (k,)."""
        found = np.searchsorted(self.breaks, distance, side="right") - 1
        return np.clip(found, 0, len(self.breaks) - 2).astype(np.int32)

    def evaluate(
        self, distance: ArrayLike, order: int = 0, piece: IndexArray | None = None
    ) -> Array:
        """Return the path or a derivative of it.

        Args:
            distance: along the path, shape (k,).
            order: of the derivative; 0 for positions.
            piece: in which to evaluate each, shape (k,); None: the one that contains it.

        Returns:
            Shape (k, n).
        """
        s = np.atleast_1d(np.asarray(distance, dtype=np.float64))
        at = self.piece_at(s) if piece is None else piece
        local = (s - self.breaks[at])[:, None]
        degree = self.coefficients.shape[1] - 1
        value = np.zeros((len(s), self.coefficients.shape[2]))
        for power in range(degree, order - 1, -1):
            factor = float(np.prod(np.arange(power, power - order, -1)))
            value = value * local + factor * self.coefficients[at, power]
        return value


def chained(parts: Sequence[JointPath]) -> JointPath:
    """Return consecutive paths, at least one, as one path with stops between them."""
    size = max(part.coefficients.shape[1] for part in parts)
    breaks, stops, coefficients = [np.zeros(1)], [], []
    for part in parts:
        start = breaks[-1][-1]
        breaks.append(part.breaks[1:] + start)
        stops += [*(part.stops + start).tolist(), breaks[-1][-1]]
        missing = size - part.coefficients.shape[1]
        coefficients.append(np.pad(part.coefficients, ((0, 0), (0, missing), (0, 0))))
    return JointPath(
        parts[0].joint_names,
        np.concatenate(breaks),
        np.concatenate(coefficients),
        np.array(stops[:-1]),
    )


def checked_waypoints(path: ArrayLike, joint_names: tuple[str, ...], least: int = 1) -> Array:
    """Return validated waypoints as an array of shape (k, n).

    Args:
        path: the waypoints.
        joint_names: names of the n joints.
        least: min number of waypoints.

    Raises:
        InvalidCommand: too few, wrong number of joints, or values that are not finite.
    """
    try:
        points = np.array(path, dtype=np.float64, ndmin=2)
    except (TypeError, ValueError) as error:
        raise InvalidCommand(
            f"waypoints must be rows of {len(joint_names)} numbers, all of one length ({error})",
            field="waypoints",
        ) from None
    if points.ndim != 2 or points.shape[1] != len(joint_names):
        raise InvalidCommand(
            f"waypoints have shape {points.shape}; expected is one row per waypoint with "
            f"{len(joint_names)} values: {', '.join(joint_names)}",
            field="waypoints",
        )
    if len(points) < least:
        raise InvalidCommand(
            f"{len(points)} waypoint given; a motion needs at least {least}", field="waypoints"
        )
    wrong = np.argwhere(~np.isfinite(points))
    if len(wrong):
        i, j = wrong[0]
        raise InvalidCommand(
            f"waypoint {i} has {points[i, j]} for joint {joint_names[j]}", field=joint_names[j]
        )
    return points
