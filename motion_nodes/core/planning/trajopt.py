# SPDX-License-Identifier: Apache-2.0
"""``TrajOpt``: first paths by RRT-Connect, optimized to curves of short duration.

The cost of a curve is that of velocities, accelerations and missing clearances. With the duration
T, velocities and accelerations of a curve q(u), u = t / T, are q' / T and q'' / T^2. The sum of
their squares relative to the limits, integrated over the curve, is a quadratic form of the control
points; clearances that are too small are added as squares (hinge loss, as in J. Schulman et al.,
"Motion planning with sequential convex optimization and convex collision checking", Int. J.
Robotics Research 33(9), 2014). The sum of squares is minimized by the Levenberg-Marquardt method.
The exact time parameterization of the curve follows afterwards.

Curves are uniform B-splines over a parameter from 0 to 1, clamped at both ends. Source: C. de Boor,
"A Practical Guide to Splines", 1978, chapters IX and X.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.planning.planning_problem import JointGoal, PlanRequest, PlanResult
from motion_nodes.core.planning.rrt_connect import RrtConnect, RrtConnectSettings
from motion_nodes.core.planning.shortcut import ShorteningSettings, shorten_path
from motion_nodes.core.planning.tree_search import SearchTree, check_number, find_ends
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.trajectory.joint_path import JointPath
from motion_nodes.core.trajectory.time_parameterization import retime, time_optimal
from motion_nodes.core.trajectory.timed_path import PathEfforts, effort_limits
from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.typing import Array

DEGREE = 5
"""Four continuous derivatives, so that jerks change smoothly."""
_STEP = 1e-5
"""Step of forward differences of sphere positions [rad or m]."""
_REACH = 0.05
"""Pairs of the robot's spheres that are farther apart at first are not considered [m]."""
_WEIGHTS = (1.0, 10.0, 100.0)
"""Weights of the clearances, one after the other."""
_UNIT = 0.01
"""Missing clearance that counts 1 [m]."""
_BETWEEN = 0.3
"""Fraction of the desired clearance between links."""
_DAMPING, _LEAST_DAMPING, _MOST_DAMPING = 1e-3, 1e-6, 1e3
_LONGEST = 0.5
"""Max change of a control point per iteration [rad or m]."""
_CONVERGED = 1e-4
"""Relative improvement that ends the iterations with a weight."""
_GROWTH = 1.5
"""Ratio of the desired clearances of successive repetitions."""
_SHARE = 0.5
"""Max fraction of the planning time for first paths."""
_DENSE = 4
"""Checked configurations per sample of the optimization."""


@dataclass(frozen=True, eq=False)
class BSpline:
    """Linear maps from m control points to values of the curve."""

    samples: Array
    """Values at equal steps of the parameter, both ends included, shape (s, m)."""
    rate: Array
    """The integral of the squared first derivative as a quadratic form, shape (m, m)."""
    curvature: Array
    """The same for the second derivative."""
    pieces: Array
    """Polynomial coefficients of each piece, lowest power first, shape (p, d + 1, m)."""

    def path(self, joint_names: tuple[str, ...], P: Array) -> JointPath:
        """Return the curve with control points P, shape (m, n)."""
        breaks = np.linspace(0.0, 1.0, len(self.pieces) + 1)
        return JointPath(joint_names, breaks, self.pieces @ P, np.empty(0))

    def fitted(self, points: Array) -> Array:
        """Return control points, shape (m, n), of a curve close to points, shape (s, n).

        It begins and ends exactly with the first and the last of them.
        """
        B, P = self.samples, np.empty((self.samples.shape[1], points.shape[1]))
        P[0], P[-1] = points[0], points[-1]
        rest = points - B[:, [0, -1]] @ P[[0, -1]]
        # A little smoothing keeps control points between widely spaced samples in place.
        inner = B[:, 1:-1]
        A = inner.T @ inner + 1e-6 * self.curvature[1:-1, 1:-1]
        b = inner.T @ rest - 1e-6 * self.curvature[1:-1][:, [0, -1]] @ P[[0, -1]]
        P[1:-1] = np.linalg.solve(A, b)
        return P


@functools.lru_cache(maxsize=8)
def bspline(points: int, samples: int) -> BSpline:
    """Return the maps for a number of control points, at least six, and of samples."""
    count = points - DEGREE  # of pieces
    inner = np.linspace(0.0, 1.0, count + 1)
    knots = np.concatenate([np.zeros(DEGREE), inner, np.ones(DEGREE)])
    # Each piece from its values at as many places as it has coefficients.
    local = np.linspace(0.0, 1.0 / count, DEGREE + 1)
    powers = np.linalg.inv(np.vander(local, increasing=True))
    pieces = np.array([powers @ _values(knots, points, start + local, k) for k, start in
                       enumerate(inner[:-1])])  # fmt: skip
    nodes, weights = np.polynomial.legendre.leggauss(DEGREE)
    at, share = 0.5 * (nodes + 1.0) / count, 0.5 * weights / count
    forms = []
    for order in (1, 2):
        rows = np.array([
            [np.prod(np.arange(p, p - order, -1)) * x ** max(p - order, 0) for p in
             range(DEGREE + 1)] for x in at
        ])  # fmt: skip
        D = (rows @ pieces).reshape(-1, points)
        forms.append(D.T @ (np.tile(share, count)[:, None] * D))
    u = np.linspace(0.0, 1.0, samples)
    piece = np.minimum((u * count).astype(np.intp), count - 1)
    values = np.array([_values(knots, points, u[[k]], piece[k])[0] for k in range(samples)])
    return BSpline(values, forms[0], forms[1], pieces)


def _values(knots: Array, count: int, u: Array, piece: int) -> Array:
    """Return the values of the basis functions in one piece (Cox and de Boor), (k, count)."""
    N = np.zeros((len(u), len(knots) - 1))
    N[:, piece + DEGREE] = 1.0
    for degree in range(1, DEGREE + 1):
        for i in range(len(knots) - 1 - degree):
            left, right = knots[i + degree] - knots[i], knots[i + degree + 1] - knots[i + 1]
            rising = (u - knots[i]) / left * N[:, i] if left > 0.0 else 0.0
            falling = (knots[i + degree + 1] - u) / right * N[:, i + 1] if right > 0.0 else 0.0
            N[:, i] = rising + falling
    return N[:, :count]


class Shortfalls(NamedTuple):
    """Distances below the desired clearance."""

    row: NDArray[np.intp]
    """Index of the configuration, shape (k,)."""
    missing: Array
    """Missing distance [m], shape (k,)."""
    gradient: Array
    """Of the distance [m/rad or m/m], shape (k, n)."""


class Clearances:
    """Clearances of one checker's robot, by its collision spheres."""

    def __init__(self, checker: CollisionChecker, world: float, between: float) -> None:
        """Create.

        Args:
            checker: robot and scene.
            world: desired distance of each sphere from the world, beyond the clearance [m].
            between: the same between spheres of the robot [m].
        """
        self._checker, self._pairs = checker, checker.sphere_pairs()
        self._world = world + checker.clearance
        self._between = between
        self._near: NDArray[np.intp] | None = None

    def shortfalls(self, Q: Array) -> Shortfalls:
        """Return all clearances that are too small.

        Args:
            Q: configurations [rad or m], shape (m, n).
        """
        distance, direction = self._checker.world_distances(Q)
        in_world = distance < self._world
        centres = self._pairs.centres(Q)
        if self._near is None:
            gap, _ = self._pairs.own_gaps(centres, slice(None))
            self._near = np.flatnonzero((gap < self._between + _REACH).any(axis=0))
        gap, normal = self._pairs.own_gaps(centres, self._near)
        in_robot = gap < self._between
        rows = np.flatnonzero(in_world.any(axis=1) | in_robot.any(axis=1))
        J = self._jacobians(Q[rows], centres[rows])
        where = np.zeros(len(Q), np.intp)
        where[rows] = np.arange(len(rows))
        row, sphere = np.nonzero(in_world)
        moves = np.einsum("kjc,kc->kj", J[where[row], :, sphere], direction[row, sphere])
        other, pair = np.nonzero(in_robot)
        first, second = self._pairs.own_spheres(self._near[pair])
        apart = J[where[other], :, first] - J[where[other], :, second]
        moves2 = np.einsum("kjc,kc->kj", apart, normal[other, pair])
        missing = [self._world - distance[in_world], self._between - gap[in_robot]]
        return Shortfalls(
            np.concatenate([row, other]), np.concatenate(missing), np.concatenate([moves, moves2])
        )

    def _jacobians(self, Q: Array, centres: Array) -> Array:
        """Return the derivatives of the spheres' positions, shape (m, n, s, 3)."""
        m, n = Q.shape
        moved = (Q[:, None] + _STEP * np.eye(n)).reshape(m * n, n)
        ahead = self._pairs.centres(moved).reshape(m, n, *centres.shape[1:])
        return np.asarray((ahead - centres[:, None]) / _STEP)


@dataclass(frozen=True)
class TrajOptSettings:
    """Optimization of a first path to a curve of short duration."""

    paths: int = 4
    """Number of first paths: searches with different seeds, and to different goals if there are
    several."""
    candidates: int = 2
    """Number of those, the shortest ones, that are optimized."""
    control_points: int = 14
    """Number of control points of the curve."""
    samples: int = 56
    """Number of configurations at which clearances are considered."""
    clearance: float = 0.015
    """Desired distance of collision spheres from obstacles, beyond the required one [m]. Closer
    curves cost more, and are still accepted if they are collision-free."""
    iterations: int = 8
    """Number of iterations with each of the weights of the clearance."""
    retries: int = 2
    """Number of repetitions with larger weights and clearances if a curve is in collision."""
    warm_start: tuple[tuple[float, ...], ...] = ()
    """Waypoints of a previous path for the same problem; it is optimized as a further candidate,
    with its ends replaced."""
    search: RrtConnectSettings = field(default_factory=RrtConnectSettings)
    """Search of the first paths."""
    shortening: ShorteningSettings = field(default_factory=ShorteningSettings)
    """Shortening of the first paths."""

    def __post_init__(self) -> None:
        check_number("paths", self.paths, 1, 100)
        check_number("candidates", self.candidates, 1, 100)
        check_number("control_points", self.control_points, 7, 100)
        check_number("samples", self.samples, 8, 1000)
        check_number("clearance", self.clearance, 0.0, 1.0)
        check_number("iterations", self.iterations, 1, 1000)
        check_number("retries", self.retries, 0, 20)


class CurveOptimizer:
    """Optimizes curves of one robot in one scene; not thread-safe."""

    def __init__(self, checker: CollisionChecker, settings: TrajOptSettings) -> None:
        """Create.

        Args:
            checker: robot and scene; its joints must have velocity and acceleration limits.
            settings: of the optimization.
        """
        self._checker, self._settings = checker, settings
        self._limits = checker.limits
        self.spline: BSpline = bspline(settings.control_points, settings.samples)

    def optimized(self, points: Array, duration: float, give_up: Callable[[], bool]) -> Array:
        """Return control points of a curve, shape (m, n); it may still be in collision.

        Args:
            points: equally spaced configurations on the first path, shape (samples, n).
            duration: approximate duration of the motion [s].
            give_up: polled; True ends the optimization.
        """
        return self._minimized(self.spline.fitted(points), duration, 0, give_up)

    def repaired(
        self, P: Array, duration: float, number: int, give_up: Callable[[], bool]
    ) -> Array:
        """Return control points that are farther from obstacles.

        Args:
            P: control points of a curve in collision, shape (m, n).
            duration: as for :meth:`optimized`.
            number: of the repetition, from 1.
            give_up: as for :meth:`optimized`.
        """
        return self._minimized(P, duration, number, give_up)

    def _minimized(
        self, P: Array, duration: float, number: int, give_up: Callable[[], bool]
    ) -> Array:
        desired = self._settings.clearance * _GROWTH**number
        clearances = Clearances(self._checker, desired, _BETWEEN * desired)
        smooth = self._smoothness(duration)
        for weight in _WEIGHTS if number == 0 else (_WEIGHTS[-1] * 10.0**number,):
            P = self._descended(P, smooth, clearances, weight, give_up)
        return P

    def _smoothness(self, duration: float) -> Array:
        """Return the quadratic forms of the joints, shape (n, m, m)."""
        velocity = 1.0 / (duration * self._limits.velocity) ** 2
        acceleration = 1.0 / (duration**2 * self._limits.acceleration) ** 2
        forms = velocity[:, None, None] * self.spline.rate
        return np.asarray(forms + acceleration[:, None, None] * self.spline.curvature)

    def _descended(
        self,
        P: Array,
        smooth: Array,
        clearances: Clearances,
        weight: float,
        give_up: Callable[[], bool],
    ) -> Array:
        B = self.spline.samples
        n, inner = P.shape[1], P.shape[0] - 2
        damping = _DAMPING
        short = clearances.shortfalls(B @ P)
        cost = self._cost(P, smooth, short.missing, weight)
        fixed = np.zeros((n * inner, n * inner))
        for j in range(n):
            fixed[j * inner : (j + 1) * inner, j * inner : (j + 1) * inner] = smooth[j][1:-1, 1:-1]
        for _ in range(self._settings.iterations):
            if give_up():
                break
            G = short.gradient[:, :, None] * B[short.row, None, 1:-1] / _UNIT
            G = G.reshape(len(short.row), n * inner)
            H = fixed + weight * G.T @ G
            slope = np.einsum("jik,kj->ji", smooth, P)[:, 1:-1].ravel()
            right = weight * G.T @ (short.missing / _UNIT) - slope
            diagonal = np.diag(H) + 1e-9
            move = np.linalg.solve(H + damping * np.diag(diagonal), right).reshape(n, inner).T
            move *= min(1.0, _LONGEST / max(float(np.abs(move).max()), 1e-12))
            tried = P.copy()
            tried[1:-1] = np.clip(P[1:-1] + move, self._limits.lower, self._limits.upper)
            ahead = clearances.shortfalls(B @ tried)
            new = self._cost(tried, smooth, ahead.missing, weight)
            if new < cost:
                gain, P, short, cost = cost - new, tried, ahead, new
                damping = max(damping / 5.0, _LEAST_DAMPING)
                if gain < _CONVERGED * cost:
                    break
            else:
                damping *= 8.0
                if damping > _MOST_DAMPING:
                    break
        return P

    @staticmethod
    def _cost(P: Array, smooth: Array, missing: Array, weight: float) -> float:
        bending = np.einsum("ij,jik,kj->", P, smooth, P)
        return float(bending + weight * np.sum((missing / _UNIT) ** 2))


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A first path."""

    path: Array
    goal: int | None
    duration: float
    """Duration of the motion along it; without acceleration limits by velocity limits alone [s]."""
    result: PlanResult
    checked: bool = True
    """Whether the path is collision-free."""


class TrajOpt:
    """Returns the fastest of several optimized curves and of the first paths themselves."""

    name = "TrajOpt"

    def __init__(self, settings: TrajOptSettings | None = None) -> None:
        self.settings = settings or TrajOptSettings()
        self._search = RrtConnect(self.settings.search)

    def tree(self) -> SearchTree | None:
        """Return the trees of the last search as one, for visualization."""
        return self._search.tree()

    def plan(self, request: PlanRequest) -> PlanResult:
        """Search first paths, and optimize the shortest ones.

        The result's ``curve`` is collision-free for the spheres at dense samples, like the first
        paths, and ends at the same configurations; there is none if no curve is faster.
        """
        began = compute_time()
        end = began + request.timeout

        def give_up() -> bool:
            return request.cancelled() or compute_time() > end

        first = self._first_path(request, request)
        if isinstance(first, PlanResult):
            return replace(first, planner=self.name)
        found = [first, *self._more(request, first, began + _SHARE * request.timeout)]
        found.sort(key=lambda candidate: candidate.duration)
        best, curve, duration = found[0], None, np.inf
        if self.settings.warm_start:
            found = [*self._warm(request, first), *found[: self.settings.candidates - 1]]
        for candidate in found[: self.settings.candidates]:
            if give_up() and np.isfinite(duration):
                break
            time, optimized = self._faster(request, candidate, give_up)
            if time < duration:
                best, curve, duration = candidate, optimized, time
        path = best.path if curve is None else _dense(curve, self._count)
        spent = compute_time() - began
        return replace(
            best.result, path=path, planner=self.name, curve=curve, time=spent, goal_index=best.goal
        )

    @property
    def _count(self) -> int:
        return _DENSE * self.settings.samples

    def _first_path(
        self, request: PlanRequest, part: PlanRequest, goal: int | None = None
    ) -> _Candidate | PlanResult:
        """Return a shortened first path for a request, or for one of its goals."""
        result = self._search.plan(part)
        if result.path is None:
            return result
        path = shorten_path(
            request.checker, result.path, self.settings.shortening, random_seed=part.random_seed
        )
        goal = result.goal_index if goal is None else goal
        return _Candidate(path, goal, _duration(request, path), result)

    def _more(self, request: PlanRequest, first: _Candidate, end: float) -> Iterator[_Candidate]:
        """Yield further first paths: to other goals, the closest first, and from other seeds."""
        if len(first.path) <= 2 and all(isinstance(goal, JointGoal) for goal in request.goals):
            return  # a straight line
        ends = find_ends(request)
        if isinstance(ends, PlanResult):
            return
        speed = request.checker.limits.velocity
        ways = request.checker.limits.turns.distance(ends.start, ends.goals.Q)
        away = (ways / speed).max(axis=1)
        order = np.argsort(away)
        for number in range(self.settings.paths - 1):
            left = end - compute_time()
            if left <= 0.0 or request.cancelled():
                return
            k = int(order[number % len(order)])
            part = replace(
                request,
                goals=(JointGoal(ends.goals.Q[k]),),
                random_seed=request.random_seed + 1 + number,
                timeout=left,
            )
            other = self._first_path(request, part, ends.goals.index[k])
            if isinstance(other, _Candidate):
                yield other

    def _warm(self, request: PlanRequest, first: _Candidate) -> list[_Candidate]:
        """Return the given path as a candidate, with the ends of the first path."""
        try:
            points = np.array(self.settings.warm_start, dtype=np.float64)
        except (TypeError, ValueError):  # text, or rows of different lengths
            points = np.empty(0)
        joints = first.path.shape[1]
        sound = points.ndim == 2 and points.shape[1] == joints and len(points) >= 2
        if not sound or not np.isfinite(points).all():
            raise InvalidConfig(
                f"warm_start must be two or more waypoints of {joints} finite joint values.",
                field="warm_start",
            )
        points[0], points[-1] = first.path[0], first.path[-1]
        return [replace(first, path=points, duration=_duration(request, points), checked=False)]

    def _faster(
        self, request: PlanRequest, candidate: _Candidate, give_up: Callable[[], bool]
    ) -> tuple[float, JointPath | None]:
        """Return the duration of a candidate, and the curve that reaches it, if one does."""
        checker, limits = request.checker, request.checker.limits
        duration, own = candidate.duration, candidate.duration if candidate.checked else np.inf
        if len(candidate.path) <= 2 or not np.isfinite(limits.acceleration).all():
            return own, None
        efforts = _efforts(request)
        optimizer = CurveOptimizer(checker, self.settings)
        points = _equally_spaced(candidate.path, limits.velocity, self.settings.samples)
        P = optimizer.optimized(points, duration, give_up)
        for number in range(self.settings.retries + 1):
            if number:
                P = optimizer.repaired(P, duration, number, give_up)
            curve = optimizer.spline.path(limits.names, P)
            if checker.are_free(_dense(curve, self._count)).all():
                time = time_optimal(curve, limits, efforts=efforts).duration
                return (time, curve) if time < own else (own, None)
        return own, None


def _efforts(request: PlanRequest) -> PathEfforts | None:
    checker = request.checker
    return effort_limits(checker.robot, checker.joint_names, checker.positions)


def _duration(request: PlanRequest, path: Array) -> float:
    """Return the duration of the motion along a path [s]."""
    limits = request.checker.limits
    try:
        return retime(path, limits, efforts=_efforts(request)).duration
    except MotionError:  # e.g. no acceleration limits: the pipeline reports it
        return float(np.abs(np.diff(path, axis=0) / limits.velocity).max(axis=1).sum())


def _dense(curve: JointPath, count: int) -> Array:
    """Return configurations on a curve, both ends included, shape (count + 1, n)."""
    return curve.evaluate(np.linspace(0.0, curve.length, count + 1))


def _equally_spaced(path: Array, scale: Array, count: int) -> Array:
    """Return points at equal distances along a path, measured relative to a scale, (count, n)."""
    steps = np.linalg.norm(np.diff(path, axis=0) / scale, axis=1)
    places = np.append(0.0, np.cumsum(steps))
    desired = np.linspace(0.0, places[-1], count)
    return np.stack([np.interp(desired, places, column) for column in path.T], axis=1)
