# SPDX-License-Identifier: Apache-2.0
"""Lattice of planar poses: cells times headings, joined by the motions that a base can make.

A base that turns on the spot drives straight and turns to the next heading, a holonomic one also
moves sideways, and a car drives arcs between lines of two headings within its curvature. Sixteen
headings lead to cells exactly, so motions end at poses of the lattice.

Source: Pivtoraiko, Knepper and Kelly, Differentially constrained mobile robot motion planning in
state lattices (2009).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.bases.odometry import wrap_angle
from motion_nodes.core.navigation.base_motion import BaseKind
from motion_nodes.core.navigation.footprint import Footprint
from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.core.navigation.pose_curves import dubins_path
from motion_nodes.tolerances import EQUAL_POINTS
from motion_nodes.typing import Array

_QUADRANT = ((1, 0), (2, 1), (1, 1), (1, 2))
MOVES = tuple(sorted(
    (move for x, y in _QUADRANT for move in ((x, y), (-y, x), (-x, -y), (y, -x))),
    key=lambda move: math.atan2(move[1], move[0]) % math.tau,
))  # fmt: skip
"""Straight moves along each heading [cells]."""
HEADINGS: Array = np.array([math.atan2(y, x) % math.tau for x, y in MOVES])
"""[rad], ascending, shape (16,)."""
TURNS = (-2, -1, 1, 2)
"""Numbers of headings by which an arc turns."""
REVERSE_COST = 2.0
"""Ratio of the costs of driving in reverse and forward."""
JOIN = 4.0
"""Length over which the end of a path is changed [radii], and a metre more."""
SAMPLE = 0.5
"""Distance of the poses on a motion [cells]; two of them are in the same or in adjacent cells."""


class _LatticeMotion(NamedTuple):
    start: int
    """Heading."""
    step: tuple[int, int]
    end: int
    cost: float
    curve: Array
    """Poses behind the start, x and y in cells, shape (k, 3)."""


@dataclass(frozen=True, eq=False)
class MotionPrimitives:
    """Motions of a base between poses of a lattice; arrays of the kernel's ``Primitives``."""

    headings: Array
    """[rad], shape (h,)."""
    first: NDArray[np.int64]
    ends: NDArray[np.int64]
    costs: Array
    begins: NDArray[np.int64]
    swept: NDArray[np.int64]
    curves: tuple[Array, ...]
    """Poses on each motion behind its start, x, y in cells, yaw [rad], shape (k, 3) each."""
    stretch: float
    """Max ratio of the way over the cells of a motion, and its cost."""


@functools.lru_cache(maxsize=32)
def motion_primitives(
    kind: BaseKind,
    *,
    radius: float = 0.0,
    turn_cost: float = 0.0,
    reversing: bool = False,
    turning: bool = True,
) -> MotionPrimitives:
    """Return the motions of a kind of base.

    Args:
        kind: kind of the base.
        radius: min turning radius of a car [cells].
        turn_cost: cost of turns on the spot [cells/rad].
        reversing: whether a car also drives in reverse.
        turning: whether a holonomic base turns; else its only heading is 0.
    """
    count = len(MOVES) if kind != "holonomic" or turning else 1
    motions: list[_LatticeMotion] = []
    for h in range(count):
        if kind == "ackermann":
            forward = _car_motions(h, radius)
            motions += forward
            if reversing:
                motions += [_reversed(m) for m in _car_motions((h + 8) % count, radius)]
            continue
        for move in MOVES if kind == "holonomic" else (MOVES[h],):
            motions.append(_straight(h, move, float(HEADINGS[h])))
        if count > 1:
            for k in ((h + 1) % count, (h - 1) % count):
                turn = abs(wrap_angle(HEADINGS[k] - HEADINGS[h]))
                curve = np.array(((0.0, 0.0, HEADINGS[k]),))
                motions.append(_LatticeMotion(h, (0, 0), k, max(turn_cost * turn, 1e-3), curve))
    swept = [_swept(motion) for motion in motions]
    lengths = [len(poses) for poses in swept]
    starts = np.array([motion.start for motion in motions])
    return MotionPrimitives(
        headings=HEADINGS[:count],
        first=np.searchsorted(starts, np.arange(count + 1)),
        ends=np.array([(*motion.step, motion.end) for motion in motions], np.int64),
        costs=np.array([motion.cost for motion in motions]),
        begins=np.concatenate(([0], np.cumsum(lengths))),
        swept=np.concatenate(swept),
        curves=tuple(motion.curve for motion in motions),
        stretch=max(_way(poses) / m.cost for poses, m in zip(swept, motions, strict=True)),
    )


def _straight(start: int, move: tuple[int, int], yaw: float) -> _LatticeMotion:
    length = math.hypot(*move)
    shares = np.linspace(0.0, 1.0, math.ceil(length / SAMPLE) + 1)[1:]
    curve = np.column_stack((shares[:, None] * np.array(move), np.full(len(shares), yaw)))
    return _LatticeMotion(start, move, start, length, curve)


def _car_motions(start: int, radius: float) -> list[_LatticeMotion]:
    """Return the straight motion of a heading, and the shortest arc to each other one.

    An arc is between two lines along the headings, and at least ``radius`` wide [cells].
    """
    motions = [_straight(start, MOVES[start], float(HEADINGS[start]))]
    along = np.array((math.cos(HEADINGS[start]), math.sin(HEADINGS[start])))
    for turns in TURNS:
        end = (start + turns) % len(MOVES)
        turn = wrap_angle(HEADINGS[end] - HEADINGS[start])
        out = np.array((math.cos(HEADINGS[end]), math.sin(HEADINGS[end])))
        half = math.tan(0.5 * abs(turn))
        far = math.ceil(2.0 * radius * half) + 4
        steps = np.stack(np.meshgrid(*2 * [np.arange(-far, far + 1)], indexing="ij"), -1)
        steps = steps.reshape(-1, 2)
        # Lengths of both lines up to their corner.
        lines = np.linalg.solve(np.column_stack((along, out)), steps.T).T
        shorter = lines.min(axis=1)
        usable = shorter > np.maximum(radius * half, 0.0) - 1e-9
        lengths = lines.sum(axis=1) - shorter * (2.0 - abs(turn) / half)
        best = int(np.where(usable & (shorter > 1e-9), lengths, np.inf).argmin())
        tangent = float(shorter[best])
        before, after = (float(v) - tangent for v in lines[best])
        wide = tangent / half
        marks = np.linspace(0.0, lengths[best], math.ceil(lengths[best] / SAMPLE) + 1)[1:]
        curve = np.array([_arc(s, before, wide, turn, after) for s in marks.tolist()])
        c, s = along
        curve[:, :2] = curve[:, :2] @ np.array(((c, s), (-s, c)))
        curve[:, 2] += HEADINGS[start]
        x, y = steps[best].tolist()
        motions.append(_LatticeMotion(start, (x, y), end, float(lengths[best]), curve))
    return motions


def _arc(s: float, before: float, radius: float, turn: float, after: float) -> Pose2:
    """Return the pose at a length of a line, an arc and a line that begins at the origin."""
    if s <= before:
        return Pose2(s, 0.0, 0.0)
    bend = min((s - before) / radius, abs(turn))
    rest = max(s - before - radius * abs(turn), 0.0)
    side = math.copysign(1.0, turn)
    x = before + radius * math.sin(bend) + rest * math.cos(bend)
    y = radius * (1.0 - math.cos(bend)) + rest * math.sin(bend)
    return Pose2(x, side * y, side * bend)


def _reversed(motion: _LatticeMotion) -> _LatticeMotion:
    """Return a motion in reverse, given the forward one at the opposite heading."""
    half = len(MOVES) // 2
    curve = motion.curve + np.array((0.0, 0.0, math.pi))
    start, end = (motion.start + half) % len(MOVES), (motion.end + half) % len(MOVES)
    return _LatticeMotion(start, motion.step, end, REVERSE_COST * motion.cost, curve)


def _swept(motion: _LatticeMotion) -> NDArray[np.int64]:
    """Return the cells and headings of a motion, without repetitions, shape (k, 3)."""
    cells = np.rint(motion.curve[:, :2]).astype(np.int64)
    away = np.abs(np.mod(motion.curve[:, 2:] - HEADINGS + math.pi, math.tau) - math.pi)
    poses = np.column_stack((cells, away.argmin(axis=1)))
    poses[-1] = *motion.step, motion.end
    changed = np.concatenate(([True], (np.diff(poses, axis=0) != 0).any(axis=1)))
    return poses[changed]


def _way(swept: NDArray[np.int64]) -> float:
    steps = np.diff(np.concatenate((np.zeros((1, 2)), swept[:, :2])), axis=0)
    return float(np.hypot(*steps.T).sum())


class PoseLattice:
    """Poses of one lattice, which may be blocked, and shortest paths between them."""

    def __init__(
        self, primitives: MotionPrimitives, cell: float, corner: Array, shape: tuple[int, int]
    ) -> None:
        """Create a lattice without obstacles.

        Args:
            primitives: motions of the base.
            cell: edge of a cell [m].
            corner: centre of the first cell [m], shape (2,).
            shape: number of cells along x and y.
        """
        self.primitives, self.cell, self.shape = primitives, cell, shape
        self.corner = np.asarray(corner, np.float64)
        self.weight: NDArray[np.float32] = np.ones((len(primitives.headings), *shape), np.float32)
        """Of each pose, infinite where it is blocked, shape (h, nx, ny)."""

    def block(self, footprint: Footprint, points: Array, clearance: float) -> None:
        """Block the poses whose footprints violate the clearance of points [m], shape (n, 2).

        Points are assumed anywhere in their cells; those outside block poses beside the border.
        """
        reach = math.ceil((footprint.radius + clearance) / self.cell) + 1
        wide = [n + 2 * reach for n in self.shape]
        cells = np.rint((points - self.corner) / self.cell).astype(int) + reach
        cells = cells[((cells >= 0) & (cells < wide)).all(axis=1)]
        occupied = np.zeros(wide)
        occupied[tuple(cells.T)] = 1.0
        spectrum = np.fft.rfft2(occupied)
        span = np.arange(-reach, reach + 1) * self.cell
        offsets = np.stack(np.meshgrid(span, span, indexing="ij"), axis=-1).reshape(-1, 2)
        keep = clearance + self.cell * math.sqrt(0.5)
        for h, heading in enumerate(self.primitives.headings.tolist()):
            c, s = math.cos(heading), math.sin(heading)
            # Positions of obstacles in collision with the base at the origin.
            near = footprint.distances(offsets @ np.array(((c, -s), (s, c)))) < keep
            mask = np.fft.rfft2(near.reshape(len(span), len(span)).astype(float), wide)
            touched = np.fft.irfft2(spectrum * mask.conj(), wide)
            self.weight[h, touched[: self.shape[0], : self.shape[1]] > 0.5] = np.inf

    @property
    def free(self) -> NDArray[np.bool_]:
        """Whether each pose is free, shape (h, nx, ny)."""
        return np.asarray(self.weight < np.inf)

    def node(self, pose: Pose2) -> int | None:
        """Return the node of the cell and heading closest to a pose; None outside or if blocked."""
        i, j = np.rint((np.array(pose[:2]) - self.corner) / self.cell).astype(int).tolist()
        if not (0 <= i < self.shape[0] and 0 <= j < self.shape[1]):
            return None
        turns = np.abs(np.mod(self.primitives.headings - pose.yaw + math.pi, math.tau) - math.pi)
        h = int(turns.argmin())
        if not self.weight[h, i, j] < np.inf:
            return None
        return int((h * self.shape[0] + i) * self.shape[1] + j)

    def weights_at(self, rows: Array) -> Array:
        """Return the weights of the closest nodes of poses, infinite outside, shape (n,).

        Args:
            rows: x, y, yaw [m, m, rad], shape (n, 3).
        """
        cells = np.rint((rows[:, :2] - self.corner) / self.cell).astype(int)
        turns = rows[:, 2:] - self.primitives.headings
        h = np.abs(np.mod(turns + math.pi, math.tau) - math.pi).argmin(axis=1)
        inside = np.asarray(((cells >= 0) & (cells < self.shape)).all(axis=1))
        i, j = np.where(inside[:, None], cells, 0).T
        return np.where(inside, self.weight[h, i, j], np.inf)

    def pose(self, node: int) -> Pose2:
        """Return the pose of a node."""
        h, i, j = (int(v) for v in np.unravel_index(node, self.weight.shape))
        x, y = (self.corner + self.cell * np.array((i, j))).tolist()
        return Pose2(x, y, float(self.primitives.headings[h]))

    def search(
        self, starts: Array, goals: NDArray[np.int64], limit: float = math.inf
    ) -> tuple[Array, NDArray[np.int32], NDArray[np.int32]]:
        """Return the costs of goals and of poses on the way, and how they are reached.

        Args:
            starts: node and initial cost [m] of each start, shape (k, 2).
            goals: nodes, shape (g,).
            limit: max cost [m].

        Returns:
            Costs [m] of all nodes, the nodes before them, -1 for starts, and the motions from
            there; see :func:`motion_nodes.kernels.search.a_star.shortest_poses`.
        """
        # Imported on demand: Numba takes a quarter of a second to import.
        from motion_nodes.kernels.search.a_star import Primitives, shortest_poses

        p = self.primitives
        table = Primitives(p.first, p.ends, p.costs, p.begins, p.swept)
        begin = np.array(starts, np.float64).reshape(-1, 2) / (1.0, self.cell)
        chosen = np.asarray(goals, np.int64)
        cost, before, by = shortest_poses(
            self.weight, table, self._left(chosen), begin, chosen, limit / self.cell
        )
        return cost * self.cell, before, by

    def path(
        self, node: int, before: NDArray[np.int32], by: NDArray[np.int32]
    ) -> tuple[list[int], Array]:
        """Return nodes and poses from a start to a node of a search.

        Returns:
            The nodes, and x, y, yaw rows [m, m, rad] on the motions between them, shape (n, 3).
        """
        nodes = [node]
        while before[nodes[-1]] >= 0:
            nodes.append(int(before[nodes[-1]]))
        nodes.reverse()
        parts = [np.array(self.pose(nodes[0]))[None]]
        for a, b in itertools.pairwise(nodes):
            curve = self.primitives.curves[by[b]] * (self.cell, self.cell, 1.0)
            parts.append(curve + np.array((*self.pose(a)[:2], 0.0)))
        return nodes, np.concatenate(parts)

    def _left(self, goals: NDArray[np.int64]) -> Array:
        """Return a lower bound of the cost from each cell to a goal [cells], shape (nx, ny)."""
        from scipy.ndimage import distance_transform_edt

        from motion_nodes.kernels.search.a_star import cell_distances

        cells = np.unique(goals % math.prod(self.shape))
        others = np.ones(self.shape, np.bool_)
        others.reshape(-1)[cells] = False
        straight = np.asarray(distance_transform_edt(others), np.float64)
        around = cell_distances(np.asarray(self.free.any(axis=0)), cells)
        return np.maximum(straight, around / self.primitives.stretch)


def joined(rows: Array, end: Pose2, radius: float, clear: Callable[[Array], bool]) -> Array | None:
    """Return a path of a car with another end, which it reaches by a short curve.

    Args:
        rows: poses of the path, x, y, yaw [m, m, rad], shape (n, 3).
        end: the last pose, close to that of the path.
        radius: min turning radius [m].
        clear: whether the poses of a curve are free.

    Returns:
        Poses, shape (m, 3); None: no curve from a pose of the path is free and short.
    """
    s = np.concatenate(([0.0], np.cumsum(np.hypot(*np.diff(rows[:, :2], axis=0).T))))
    for k in range(len(rows) - 1, -1, -2):
        start, left = Pose2(*rows[k].tolist()), float(s[-1] - s[k])
        if start.distance(end) < EQUAL_POINTS:
            continue
        if left > JOIN * radius + 1.0:
            break
        curve = dubins_path(start, end, radius)
        if curve.length > 1.1 * left + 0.1 * radius:
            continue
        poses = curve.poses()
        if clear(poses):
            return np.concatenate((rows[:k], poses))
    return None


def shortened(rows: Array, radius: float, lattice: PoseLattice) -> Array:
    """Return a path of a car with Dubins curves where they are free and cost less.

    The headings of a lattice are few, so its paths wind where the straight line is between two.

    Args:
        rows: poses of the path, x, y, yaw [m, m, rad], shape (n, 3).
        radius: min turning radius [m].
        lattice: lattice of the path.
    """
    steps = np.diff(rows[:, :2], axis=0)
    heading = rows[:-1, 2] + 0.5 * np.array([wrap_angle(v) for v in np.diff(rows[:, 2])])
    back = steps[:, 0] * np.cos(heading) + steps[:, 1] * np.sin(heading) < 0.0
    cusps = [0, *(np.flatnonzero(back[1:] != back[:-1]) + 1).tolist(), len(rows) - 1]
    parts = [rows[:1]]
    for a, b in itertools.pairwise(cusps):
        turn = np.array((0.0, 0.0, math.pi if back[a] else 0.0))
        parts.append(_shortened(rows[a : b + 1] + turn, radius, lattice, turn)[1:] - turn)
    return np.concatenate(parts)


def _shortened(rows: Array, radius: float, lattice: PoseLattice, turn: Array) -> Array:
    """Return the same for poses that face along the path; their ``weights`` are those turned."""

    def cost(poses: Array) -> float:
        lengths = np.hypot(*np.diff(poses[:, :2], axis=0).T)
        weights = lattice.weights_at(poses - turn)
        return float((lengths * np.maximum(weights[1:], weights[:-1])).sum())

    parts, k, last = [rows[:1]], 0, len(rows) - 1
    while k < last:
        span = last - k
        while span > 1:
            start, end = (Pose2(*rows[n].tolist()) for n in (k, k + span))
            if start.distance(end) > EQUAL_POINTS:
                curve = dubins_path(start, end, radius).poses()
                if cost(curve) <= cost(rows[k : k + span + 1]):
                    parts.append(curve[1:])
                    break
            span = span * 2 // 3
        else:
            parts.append(rows[k + 1 : k + 2])
        k += max(span, 1)
    return np.concatenate(parts)
