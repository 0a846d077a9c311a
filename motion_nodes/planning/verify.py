# SPDX-License-Identifier: Apache-2.0
"""A second look at a path before it is given out, by other code than that which found it.

Distances come from plain NumPy and the scene itself, not from the planners' packed memory. Where
two configurations are so far from everything that no sphere can touch anything on the way between
them, the whole way is certainly free; where not, the way is cut in halves, down to a fraction of
the planners' resolution. So most of a path is proven free between its samples too, and is looked at
in few places.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.poses import inverse
from motion_nodes.model.tree import Array, Box
from motion_nodes.planning.start import in_words
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.edge_steps import joint_steps
from motion_nodes.scene.robot_spheres import checked_pairs
from motion_nodes.scene.shapes import HalfSpace, bounding_radius
from motion_nodes.scene.signed_distance import signed_distance

FINER = 10
"""So many times finer than the planners' resolution is what cannot be proven checked."""
ROUNDING = 5e-5
"""What is deeper than this counts as touching [m]: planners compute with less precision."""
_FIRST = 33
"""Places along a path that are looked at in any case."""
_BLOCK = 256
"""Configurations at once; more would need more memory than caches hold."""


@dataclass(frozen=True)
class Verification:
    """What the second look found."""

    free: bool
    reason: str
    """For a person: where the path is not free; empty if it is."""
    configurations: int
    """How many were looked at."""
    certain: float
    """Share of the path's length that is proven free between the samples too."""
    time: float
    """[s]"""


class PathVerifier:
    """Checks paths of one checker's robot, in its scene as it is now; for one thread."""

    def __init__(self, checker: CollisionChecker, finer: int = FINER) -> None:
        """Prepare.

        Args:
            checker: whose robot, scene, clearance and resolution count.
            finer: how many times finer than its resolution a path is checked.
        """
        self._checker, self._finer = checker, finer
        robot = checker.robot
        self._kinematics = Kinematics(robot.tree, base=robot.base_frame)
        rows = {name: i for i, name in enumerate(self._kinematics.frame_names)}
        bodies = checker.bodies
        self._rows = np.array([rows[b.link] for b in bodies for _ in b.spheres], np.intp)
        self._centres = np.concatenate([b.spheres[:, :3] for b in bodies] or [np.empty((0, 3))])
        self._radii = np.concatenate([b.spheres[:, 3] for b in bodies] or [np.empty(0)])
        starts = np.concatenate([[0], np.cumsum([len(b.spheres) for b in bodies])]).astype(int)
        self._slices = [slice(a, b) for a, b in itertools.pairwise(starts.tolist())]
        self._pairs = checked_pairs(robot, bodies, checker.scene.allowed)
        bounds = np.array([b.bounding_sphere for b in bodies]).reshape(-1, 4)
        self._bounds, self._bodies = bounds, np.array([rows[b.link] for b in bodies], np.intp)
        self._parts = [
            (part.solid, inverse(item.X_WO @ part.X_OS), _touching(checker, item.name, starts))
            for item in checker.scene.objects.values()
            if item.enabled
            for part in item.parts
        ]
        self._columns = robot.indices(checker.joint_names)
        self._travel = _travel(checker)

    def verify(self, path: ArrayLike) -> Verification:
        """Check a path, both ends included.

        Args:
            path: waypoints joined by straight lines, shape (k, n); a trajectory's samples too.
        """
        began = time.perf_counter()
        points = np.asarray(path, np.float64)
        limits = self._checker.limits
        outside = ~((points >= limits.lower - 1e-9) & (points <= limits.upper + 1e-9)).all(axis=1)
        if outside.any():
            first = int(np.argmax(outside))
            words = "; ".join(limits.violations(points[first])) or "it is not finite"
            spent = time.perf_counter() - began
            return Verification(False, f"waypoint {first}: {words}", 0, 0.0, spent)
        line = _Line(points, self._travel, self._checker.resolution / self._finer)
        seen, uncertain, place, depth = self._look(line)
        spent = time.perf_counter() - began
        if place is None:
            certain = 1.0 - uncertain / line.length if line.length > 0.0 else 1.0
            return Verification(True, "", seen, certain, spent)
        words = in_words(self._checker, line.at(np.array([place]))[0])
        words = words or f"two are {1e3 * depth:.2f} mm in each other"
        share = place / line.length if line.length > 0.0 else 0.0
        return Verification(False, f"at {100 * share:.0f} % of the way: {words}", seen, 0.0, spent)

    def _look(self, line: _Line) -> tuple[int, float, float | None, float]:
        """Return configurations seen, the uncertain length, where it is not free and how deep."""
        places = np.linspace(0.0, line.length, _FIRST)
        margins = self.margins(line.at(places))
        seen, uncertain = len(places), 0.0
        if margins.min() < -ROUNDING:
            return seen, 0.0, *_worst(places, margins)
        low, high, at_low, at_high = places[:-1], places[1:], margins[:-1], margins[1:]
        while True:
            # A joint moves a sphere against an obstacle, or against a sphere on its other side;
            # so no distance changes by more than all joints' travels together.
            safe = at_low + at_high > high - low
            tiny = line.steps(low, high) <= 1.0
            uncertain += float((high - low)[~safe & tiny].sum())
            left = ~(safe | tiny)
            if not left.any():
                return seen, uncertain, None, 0.0
            low, high, at_low, at_high = low[left], high[left], at_low[left], at_high[left]
            middle = 0.5 * (low + high)
            margins = self.margins(line.at(middle))
            seen += len(middle)
            if margins.min() < -ROUNDING:
                return seen, 0.0, *_worst(middle, margins)
            low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
            at_low = np.concatenate([at_low, margins])
            at_high = np.concatenate([margins, at_high])

    def margins(self, Q: Array) -> Array:
        """Return of each configuration how far it is from touching, shape (m,) [m].

        Distances that are far above what matters for a step may be told smaller than they are.
        """
        pieces = [self._margins(Q[i : i + _BLOCK]) for i in range(0, len(Q), _BLOCK)]
        return np.concatenate(pieces) if pieces else np.empty(0)

    def _margins(self, Q: Array) -> Array:
        full = np.tile(self._checker.positions, (len(Q), 1))
        full[:, self._columns] = Q
        X = self._checker.base_pose @ self._kinematics.frames_batch(full)
        places = _placed(X[:, self._rows], self._centres)
        bounds = _placed(X[:, self._bodies], self._bounds[:, :3])
        margin = self._between_bodies(places, bounds)
        for solid, X_SW, counted in self._parts:
            if counted.any():
                away = _distances(solid, X_SW, places[:, counted], self._radii[counted], margin)
                margin = np.minimum(margin, away)
        return np.asarray(margin - self._checker.clearance)

    def _between_bodies(self, places: Array, bounds: Array) -> Array:
        """Return of each configuration the least distance of two bodies, shape (m,)."""
        margin = np.full(len(places), np.inf)
        for i, j in self._pairs:
            reach = self._bounds[i, 3] + self._bounds[j, 3]
            apart = np.linalg.norm(bounds[:, i] - bounds[:, j], axis=1) - reach
            near = np.flatnonzero(apart < margin)
            if not len(near):
                continue
            a, b = self._slices[i], self._slices[j]
            offsets = places[near, a, np.newaxis] - places[near, np.newaxis, b]
            gaps = np.sqrt(np.einsum("mijk,mijk->mij", offsets, offsets))
            gaps -= self._radii[a, np.newaxis] + self._radii[np.newaxis, b]
            margin[near] = np.minimum(margin[near], gaps.min(axis=(1, 2)))
        return margin


class _Line:
    """A path as a function of how far spheres have moved along it, at most [m]."""

    def __init__(self, points: Array, travel: Array, steps: Array) -> None:
        ways = np.diff(points, axis=0)
        moved = np.abs(ways) @ travel
        # What moves no sphere still takes a place of its own, so that no two are the same.
        self._places = np.concatenate([[0.0], np.cumsum(moved + 1e-12)])
        self._counts = np.concatenate([[0.0], np.cumsum(np.linalg.norm(ways / steps, axis=1))])
        self._points = points
        self.length = float(self._places[-1])

    def at(self, places: Array) -> Array:
        """Return the configurations at places, shape (m, n)."""
        columns = [np.interp(places, self._places, column) for column in self._points.T]
        return np.stack(columns, axis=1)

    def steps(self, low: Array, high: Array) -> Array:
        """Return how many of the finest steps lie between places."""
        counts = np.interp(np.stack([low, high]), self._places, self._counts)
        return np.asarray(counts[1] - counts[0])


def _worst(places: Array, margins: Array) -> tuple[float, float]:
    """Return the place that is deepest in something, and how deep."""
    i = int(np.argmin(margins))
    return float(places[i]), -float(margins[i])


def _placed(X: Array, points: Array) -> Array:
    """Return points, shape (s, 3), in poses of shape (m, s, 4, 4)."""
    return np.asarray(np.einsum("msij,sj->msi", X[:, :, :3, :3], points) + X[:, :, :3, 3])


def _travel(checker: CollisionChecker) -> Array:
    """Return how far each joint moves any sphere, per radian or metre, with a tenth more."""
    unit, robot = 1e-3, checker.robot
    steps = joint_steps(robot, checker.bodies, checker.joint_names, unit)
    joints = robot.tree.joints.values()
    movers = [
        sum(j.name == name or (j.mimic is not None and j.mimic.joint == name) for j in joints)
        for name in checker.joint_names
    ]
    return np.where(steps < np.pi, 1.1 * np.array(movers) * unit / steps, 0.0)


def _distances(solid: object, X_SW: Array, places: Array, radii: Array, known: Array) -> Array:
    """Return of each configuration the least distance of spheres to a solid, shape (m,).

    Only spheres that may be nearer than what is ``known`` are measured exactly.
    """
    local = places @ X_SW[:3, :3].T + X_SW[:3, 3]
    bound = _lower_bound(solid, local) - radii
    near = bound < np.minimum(known, bound.min(axis=1) + 0.05)[:, np.newaxis]
    result = np.where(near, np.inf, bound)
    if near.any():
        distance, _ = signed_distance(solid, local[near])  # type: ignore[arg-type]
        result[near] = distance - np.broadcast_to(radii, near.shape)[near]
    return np.asarray(result.min(axis=1))


def _lower_bound(solid: object, points: Array) -> Array:
    """Return distances that are not too great, quickly, shape (m, s)."""
    if isinstance(solid, HalfSpace):
        return points[..., 2]
    if isinstance(solid, Box):
        beyond = np.abs(points) - 0.5 * np.asarray(solid.size)
        return np.asarray(beyond.max(axis=-1))
    radius = bounding_radius(solid)  # type: ignore[arg-type]
    return np.asarray(np.linalg.norm(points, axis=-1) - radius)


def _touching(checker: CollisionChecker, name: str, starts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which spheres must not touch an object, shape (s,)."""
    allowed = checker.scene.allowed
    counted = np.zeros(int(starts[-1]), bool)
    for i, body in enumerate(checker.bodies):
        counted[starts[i] : starts[i + 1]] = not allowed.allows(body.name, name)
    return counted
