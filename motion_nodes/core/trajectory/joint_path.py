# SPDX-License-Identifier: Apache-2.0
"""Piecewise polynomial joint paths, without time.

Straight lines between waypoints with blended corners. At a corner the direction changes from d0 to
d1 over a length of 2 r: d0 + (d1 - d0) (3 w^2 - 2 w^3) with w from 0 to 1. The curvature is 0 at
both ends of the blend, so accelerations are continuous and jerks finite. The deviation at the
corner is 3/16 r |d1 - d0| (the integral of the direction to w = 1/2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.robot.tree import frozen
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.tolerances import RATIO_ROUNDING
from motion_nodes.typing import Array, IndexArray

FreeCheck = Callable[[Array], NDArray[np.bool_]]
"""Maps configurations of shape (k, n) to whether they are collision-free, shape (k,)."""
_HALVINGS = 5
"""Max number of halvings of a blend in collision before the path stops at its corner."""
_MOST = 0.475
"""Max fraction of a line used by a blend: a short straight part remains, because adjacent pieces of
very different lengths are difficult to time-parameterize."""


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


@dataclass(frozen=True)
class CornerBlending:
    """Blending of the corners of a path."""

    deviation: float = 0.01
    """Max deviation from a corner [rad or m, Euclidean over the joints]; 0: stop there."""
    is_free: FreeCheck | None = None
    """Collision check of the blended corners; None: no check."""
    resolution: float = 0.02
    """Max joint step between checked configurations [rad or m]."""

    def __post_init__(self) -> None:
        if not (np.isfinite(self.deviation) and self.deviation >= 0.0):
            raise InvalidConfig(f"blend deviation is {self.deviation}; it must be finite and >= 0")
        if not (np.isfinite(self.resolution) and self.resolution > 0.0):
            raise InvalidConfig(
                f"resolution is {self.resolution}; it must be finite and above 0",
                field="resolution",
            )


def blended_path(
    joint_names: tuple[str, ...], waypoints: Array, scale: Array, blending: CornerBlending
) -> JointPath:
    """Return the path along the lines between waypoints.

    Args:
        joint_names: names of the n joints.
        waypoints: two or more, consecutive ones distinct, shape (k, n).
        scale: of each joint, shape (n,); the length of a line is the maximum of its changes, each
            divided by this. With velocity limits it is the min duration.
        blending: blending of corners.
    """
    change = waypoints[1:] - waypoints[:-1]
    lengths = (np.abs(change) / scale).max(axis=1)
    directions = change / lengths[:, None]
    turns = directions[1:] - directions[:-1]
    size = np.sqrt((turns * turns).sum(axis=1))
    bent = size > RATIO_ROUNDING * np.sqrt((directions[1:] * directions[1:]).sum(axis=1))
    radii = np.zeros(len(waypoints))
    room = _MOST * np.minimum(lengths[:-1], lengths[1:])
    desired = np.divide(16.0 * blending.deviation, 3.0 * size, out=np.zeros_like(size), where=bent)
    radii[1:-1] = np.minimum(desired, room)
    if blending.is_free is not None:
        _shrink_to_free(radii, waypoints, directions, scale, blending)
    bent_at = np.concatenate([[False], bent, [False]])
    return _assemble(joint_names, waypoints, lengths, directions, radii, bent_at)


def blend_points(corner: Array, before: Array, after: Array, radius: Array, count: int) -> Array:
    """Return configurations on blends, shape (k, count, n).

    Args:
        corner: shape (k, n).
        before: directions into the corners, shape (k, n).
        after: directions out of the corners, shape (k, n).
        radius: shape (k,).
        count: points on each blend, including its ends.
    """
    w = np.linspace(0.0, 1.0, count)[None, :, None]
    r = radius[:, None, None]
    turned = (after - before)[:, None, :] * (w**3 - 0.5 * w**4)
    return corner[:, None, :] + before[:, None, :] * (2.0 * r * w - r) + 2.0 * r * turned


def _shrink_to_free(
    radii: Array, waypoints: Array, directions: Array, scale: Array, blending: CornerBlending
) -> None:
    """Halve the blends that are in collision; one that remains so becomes 0."""
    is_free = blending.is_free
    assert is_free is not None
    open_corners = np.flatnonzero(radii > 0.0)
    for _ in range(_HALVINGS):
        if not len(open_corners):
            return
        r = radii[open_corners]
        count = int(np.ceil(2.0 * float(np.max(r)) * float(np.max(scale)) / blending.resolution))
        points = blend_points(
            waypoints[open_corners],
            directions[open_corners - 1],
            directions[open_corners],
            r,
            max(count, 2) + 1,
        )
        free = np.asarray(is_free(points.reshape(-1, points.shape[-1])), dtype=np.bool_)
        open_corners = open_corners[~free.reshape(points.shape[:2]).all(axis=1)]
        radii[open_corners] *= 0.5
    radii[open_corners] = 0.0


def _assemble(
    joint_names: tuple[str, ...],
    waypoints: Array,
    lengths: Array,
    directions: Array,
    radii: Array,
    bent: NDArray[np.bool_],
) -> JointPath:
    """Return lines and blends as pieces: line 0, blend 1, line 1, blend 2, ..."""
    count, n = directions.shape
    spans = np.zeros(2 * count - 1)
    coefficients = np.zeros((2 * count - 1, 5, n))
    spans[0::2] = lengths - radii[:-1] - radii[1:]
    coefficients[0::2, 0] = waypoints[:-1] + directions * radii[:-1, None]
    coefficients[0::2, 1] = directions
    r = radii[1:-1, None]
    width = np.where(r > 0.0, 2.0 * r, 1.0)
    spans[1::2] = 2.0 * radii[1:-1]
    coefficients[1::2, 0] = waypoints[1:-1] - directions[:-1] * r
    coefficients[1::2, 1] = directions[:-1]
    turns = directions[1:] - directions[:-1]
    coefficients[1::2, 3] = turns / width**2
    coefficients[1::2, 4] = -0.5 * turns / width**3
    kept = spans > 0.0
    ends = np.cumsum(spans)
    stopped = np.flatnonzero(bent & (radii == 0.0))
    return JointPath(
        joint_names,
        np.concatenate([[0.0], ends[kept]]),
        coefficients[kept],
        ends[2 * (stopped - 1)],
    )
