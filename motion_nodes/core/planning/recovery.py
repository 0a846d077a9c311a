# SPDX-License-Identifier: Apache-2.0
"""Recovery paths out of a shallow collision, or back inside joint limits, with decreasing depths.

Two strategies alternate. Descent: each step is the shortest joint displacement, by linearized
distances, that separates all pairs that are too close, brings no collision-free pair closer, and
moves joints outside their limits inwards (a quadratic program with a few rows, solved in its dual
by coordinate ascent). Sampling: collision-free configurations nearby, reached in a straight line. A
path is valid only if depths along it never increase: of pairs in collision, of joints outside
limits.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.planning.planning_problem import configuration, in_words
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.numpy_checks import SpherePairs
from motion_nodes.core.trajectory.trajectory_checks import limit_excess
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.settings import check_settings, setting
from motion_nodes.tolerances import EQUAL_POSITIONS
from motion_nodes.typing import Array

TOLERANCE = 1e-5
"""Max increase of a depth above its previous minimum [m or rad]."""
_FINER = 10
"""Ratio of the checker's resolution to the sampling step of a path."""
Depths = Callable[[Array], list[dict[object, float]]]
"""Maps configurations, shape (m, n), to the depths [m or rad] of all violations of each."""
_SLACK = 0.01
"""Collision-free pairs closer than the margin plus this are kept from getting closer [m]."""
_PUSH = 0.004
"""Max separation of a pair per step [m]."""
_INWARD = 0.02
"""Max displacement of a joint per step towards its limits [rad or m]; five times this if it is
inside its limits."""
_LEAST_PROGRESS = 1e-5
"""Min total separation per step [m or rad]."""
_ROUNDS = 60
"""Max number of steps of one descent."""
_SWEEPS = 200
"""Max number of sweeps of the coordinate ascent."""
_METRICS = 4
"""Random joint metrics that are tried if a step fails in the default one."""
_RADII = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Half sizes of the boxes in which configurations are sampled [rad or m]."""
_SAMPLES = 256
"""Configurations sampled in each box."""
_LINES = 12
"""Number of nearest samples to which a straight line is tried."""


class MonotonePath:
    """Tracks a path and stores the min depth of each pair or joint."""

    def __init__(self, depths: Depths, resolution: Array) -> None:
        """Create without a path.

        Args:
            depths: of configurations.
            resolution: max step of each joint between checks of a planner [rad or m], shape (n,).
        """
        self._depths, self._resolution = depths, resolution / _FINER
        self.depths: dict[object, float] = {}
        """Violations at the end of the path, with their min depths [m or rad]."""
        self.offender = ""
        """The violation with an increased depth, if :meth:`extend` was False."""

    def begin(self, q: Array) -> None:
        """Start a path at a configuration, shape (n,)."""
        self.depths = self._depths(q[np.newaxis])[0]

    def extend(self, a: Array, b: Array) -> bool:
        """Extend straight from ``a`` to ``b``, (n,) each; return whether no depth increases."""
        count = max(1, int(np.ceil(np.linalg.norm((b - a) / self._resolution))))
        shares = np.arange(1, count + 1)[:, np.newaxis] / count
        for first in range(0, count, 16):
            for found in self._depths(a + shares[first : first + 16] * (b - a)):
                if not self._take(found):
                    return False
        return True

    def _take(self, found: dict[object, float]) -> bool:
        for what, depth in found.items():
            if depth > self.depths.get(what, 0.0) + TOLERANCE:
                self.offender = " and ".join(what) if isinstance(what, tuple) else str(what)
                return False
        self.depths = {
            what: min(depth, self.depths.get(what, 0.0)) for what, depth in found.items()
        }
        return True


@dataclass(frozen=True)
class RecoverySettings:
    """Limits and speed of recovery."""

    max_depth: float = setting(
        0.03, doc="Max penetration depth from which a recovery starts.", unit="m", gt=0.0, le=0.2
    )
    max_limit_violation: float = setting(
        0.1,
        doc="Max distance of a joint outside its limits from which a recovery starts.",
        unit="rad or m",
        gt=0.0,
        le=1.0,
    )
    margin: float = setting(
        0.002,
        doc="Clearance at the end of a recovery, where the surroundings permit it.",
        unit="m",
        gt=0.0,
        le=0.1,
    )
    velocity_scaling: float = setting(
        0.1, doc="Fraction of the velocity limits used in a recovery.", gt=0.0, le=1.0
    )
    acceleration_scaling: float = setting(
        0.1, doc="Fraction of the acceleration limits used in a recovery.", gt=0.0, le=1.0
    )
    timeout: float = setting(
        3.0, doc="Timeout of the search for a recovery.", unit="s", gt=0.0, le=60.0
    )

    def __post_init__(self) -> None:
        check_settings(self, "recovery ")


@dataclass(frozen=True, eq=False)
class Recovery:
    """A path from an invalid start to a valid configuration, or the reason of the failure."""

    success: bool
    path: Array
    """Waypoints joined by straight lines, shape (k, n); only the start if there is none or the
    start is valid."""
    reason: str
    """Why it failed; empty on success."""
    note: str
    """Fault of the start; empty if it is valid."""
    depths: Array
    """Max depth of all pairs at each waypoint [m], shape (k,); 0 where collision-free."""
    time: float
    """Duration of the search [s]."""

    @property
    def needed(self) -> bool:
        """Whether the start was invalid."""
        return bool(self.note)


def recover(
    checker: CollisionChecker,
    start: ArrayLike,
    settings: RecoverySettings | None = None,
    *,
    random_seed: int = 0,
    cancelled: Callable[[], bool] = lambda: False,
) -> Recovery:
    """Find a short joint path from a shallow collision to a collision-free configuration.

    Along the path the depth of each pair never increases, no other pair gets into collision, and
    joints outside their limits move inwards only.

    Args:
        checker: robot, joints, scene and clearance.
        start: current joint positions [rad or m], shape (n,).
        settings: limits of recovery; default: those of :class:`RecoverySettings`.
        random_seed: equal seeds give equal paths, unless the timeout expires.
        cancelled: polled between steps; True ends the search.

    Raises:
        InvalidCommand: wrong number of joint positions.
    """
    return _RecoverySearch(checker, settings or RecoverySettings(), random_seed, cancelled).run(
        configuration(checker, start, "the start")
    )


def check_recovery(checker: CollisionChecker, path: ArrayLike) -> str:
    """Return why depths do not decrease along a path; empty if they do.

    Implemented independently of the search (:meth:`CollisionChecker.explain`), at steps of a tenth
    of the checker's resolution.

    Args:
        checker: as for :func:`recover`.
        path: waypoints joined by straight lines, shape (k, n), or a trajectory's samples.

    Raises:
        InvalidCommand: wrong number of joint positions.
    """

    def depths(Q: Array) -> list[dict[object, float]]:
        return [
            {contact.pair: contact.depth for contact in checker.explain(q)}
            for q in Q
        ]  # fmt: skip

    points = np.asarray(path, np.float64)
    monotone = MonotonePath(depths, checker.resolution)
    monotone.begin(points[0])
    for a, b in itertools.pairwise(points):
        if not monotone.extend(a, b):
            return f"{monotone.offender} would penetrate deeper along the escape path"
    return "" if not monotone.depths else f"it ends in collision: {in_words(checker, points[-1])}"


class _RecoverySearch:
    """One search; not thread-safe."""

    def __init__(
        self,
        checker: CollisionChecker,
        settings: RecoverySettings,
        random_seed: int,
        cancelled: Callable[[], bool],
    ) -> None:
        self._began = compute_time()
        self._checker, self._settings, self._cancelled = checker, settings, cancelled
        self._limits: JointLimits = checker.limits
        self._rng = np.random.default_rng(random_seed)
        self._goal = checker.snapshot()
        self._goal.set_sphere_margin(settings.margin)

    def run(self, start: Array) -> Recovery:
        checker, limits = self._checker, self._limits
        if not np.isfinite(start).all():
            return self._failed(start, "the start is unknown: joint values are not finite")
        if limits.within(start) and checker.is_free(start):
            if checker.exact.is_free(start):
                return self._result(start[np.newaxis], "", np.zeros(1))
            note = in_words(checker, start)
            return self._failed(start, f"the collision spheres are collision-free: {note}", note)
        self._pairs: SpherePairs = checker.sphere_pairs()
        note = in_words(checker, start)
        excess = float(limit_excess(limits, start).max(initial=0.0))
        depths = self._depths(start[np.newaxis])[0]
        deepest = max((d for pair, d in depths.items() if isinstance(pair, int)), default=0.0)
        if excess > self._settings.max_limit_violation:
            return self._failed(start, f"too far outside the limits: {note}", note)
        if deepest > self._settings.max_depth:
            return self._failed(
                start,
                f"too deep in collision (max_depth {1e3 * self._settings.max_depth:g} mm): {note}",
                note,
            )
        found = self._found(start)
        if found is None:
            return self._failed(start, self._why_none(note), note)
        path = self._simplified(found)
        refused = check_recovery(checker, path)
        if refused:
            return self._failed(start, f"{refused}; the start: {note}", note)
        return self._result(path, note, self._max_depths(path))

    # ---- strategies

    def _found(self, start: Array) -> list[Array] | None:
        path = [start]
        if self._descend(path) or self._sample(path):
            return path
        # The descent may have ended in a dead end that sampling from the start avoids.
        path = [start]
        return path if self._sample(path) else None

    def _descend(self, path: list[Array]) -> bool:
        """Extend a path by steps that separate close pairs; return True at its end."""
        for _ in range(_ROUNDS):
            if self._valid(path[-1]):
                return True
            if self._over():
                return False
            step = self._step(path[-1])
            if step is None:
                return self._acceptable(path[-1])
            path.append(step)
        return self._acceptable(path[-1])

    def _step(self, q: Array) -> Array | None:
        """Return the next configuration of a descent, None at its end."""
        centres = self._pairs.centres(q[np.newaxis])[0]
        desired = self._settings.margin
        gaps = self._pairs.gaps(centres, desired + _SLACK)
        A = self._pairs.gradients(q, gaps)
        lack = desired - gaps.distance
        low, high = self._step_bounds(q)
        here = self._lack(q)
        for attempt in range(1 + _METRICS):
            # Slightly more than necessary, so that the end is reached in finite steps.
            push = np.where(lack > 0.0, np.minimum(1.1 * lack + 1e-4, _PUSH), lack)
            metric = np.ones(len(q)) if not attempt else self._rng.uniform(0.2, 2.0, len(q))
            dq = _least_motion(A * metric, push, low / metric, high / metric) * metric
            for share in (1.0, 0.5, 0.25, 0.1):
                there = self._clamped(q + share * dq)
                if self._lack(there) < here - _LEAST_PROGRESS and self._monotone(q, there):
                    return np.asarray(there)
        return None

    def _sample(self, path: list[Array]) -> bool:
        """Extend a path by a straight line to a collision-free configuration nearby."""
        q, limits = path[-1], self._limits
        for checker in (self._goal, self._checker):
            for radius in _RADII:
                if self._over():
                    return False
                drawn = q + self._rng.uniform(-radius, radius, (_SAMPLES, len(q)))
                drawn = limits.clip(drawn)
                drawn = drawn[checker.are_free(drawn)]
                nearest = np.argsort(np.linalg.norm(drawn - q, axis=1))[:_LINES]
                for k in nearest:
                    if self._over():
                        return False
                    if self._monotone(q, drawn[k]):
                        path.append(drawn[k])
                        return True
        return False

    def _simplified(self, path: list[Array]) -> Array:
        """Return a path without redundant waypoints."""
        kept, i = [path[0]], 0
        while i < len(path) - 1:
            j = len(path) - 1
            while j > i + 1 and not self._monotone(path[i], path[j]):
                j = i + (j - i + 1) // 2
            i = j
            kept.append(path[i])
        return np.array(kept)

    # ---- conditions

    def _step_bounds(self, q: Array) -> tuple[Array, Array]:
        """Return the bounds of joint displacements per step, down and up, shape (n,) each."""
        limits, most = self._limits, 5.0 * _INWARD
        low = np.clip(limits.lower - q, -most, _INWARD)
        high = np.clip(limits.upper - q, -_INWARD, most)
        return np.minimum(low, high), np.maximum(low, high)

    def _clamped(self, q: Array) -> Array:
        """Return joint positions with rounding errors beyond limits clamped."""
        inside = self._limits.clip(q)
        return np.where(np.abs(inside - q) < EQUAL_POSITIONS, inside, q)

    def _valid(self, q: Array) -> bool:
        return self._limits.within(q) and self._goal.is_free(q)

    def _acceptable(self, q: Array) -> bool:
        """Return whether it is acceptable without the margin."""
        return self._limits.within(q) and self._checker.is_free(q)

    def _lack(self, q: Array) -> float:
        """Return the remaining sum of depths below the margin and limit violations."""
        desired = self._settings.margin
        centres = self._pairs.centres(q[np.newaxis])[0]
        apart = self._pairs.distances(centres, desired)
        excess = float(limit_excess(self._limits, q).sum())
        return sum(desired - distance for distance in apart.values()) + excess

    def _depths(self, Q: Array) -> list[dict[object, float]]:
        """Return the depths of pairs in collision and the limit violations."""
        found: list[dict[object, float]] = []
        for q, centres in zip(Q, self._pairs.centres(Q), strict=True):
            close = self._pairs.distances(centres, 0.0)
            depths: dict[object, float] = {pair: -distance for pair, distance in close.items()}
            excess = limit_excess(self._limits, q)
            for joint in np.flatnonzero(excess):
                depths[self._limits.names[joint]] = float(excess[joint])
            found.append(depths)
        return found

    def _monotone(self, a: Array, b: Array) -> bool:
        monotone = MonotonePath(self._depths, self._checker.resolution)
        monotone.begin(a)
        return monotone.extend(a, b)

    def _max_depths(self, path: Array) -> Array:
        return np.array(
            [
                max((d for pair, d in depths.items() if isinstance(pair, int)), default=0.0)
                for depths in self._depths(path)
            ]
        )

    def _over(self) -> bool:
        spent = compute_time() - self._began
        return spent > self._settings.timeout or self._cancelled()

    # ---- results

    def _why_none(self, note: str) -> str:
        if self._cancelled():
            return "cancelled"
        spent = f" in {self._settings.timeout:.3g} s" if self._over() else ""
        return f"no path to a valid state was found{spent}: {note}"

    def _failed(self, start: Array, reason: str, note: str = "") -> Recovery:
        spent = compute_time() - self._began
        return Recovery(False, start[np.newaxis], reason, note or reason, np.zeros(1), spent)

    def _result(self, path: Array, note: str, depths: Array) -> Recovery:
        return Recovery(True, path, "", note, depths, compute_time() - self._began)


def _least_motion(A: Array, b: Array, low: Array, high: Array) -> Array:
    """Return the shortest x with A x >= b and low <= x <= high, approximately if infeasible.

    The dual, maximize -|A' y|^2 / 2 + b' y over y >= 0, is solved by coordinate ascent (C.
    Hildreth, "A quadratic programming procedure", 1957). Contradicting rows give a compromise,
    because the number of sweeps is bounded.

    Args:
        A: rows, shape (k, n).
        b: shape (k,).
        low: lower bounds of x, shape (n,).
        high: upper bounds of x, shape (n,).
    """
    n = A.shape[1]
    rows = np.concatenate([A, np.eye(n), -np.eye(n)])
    desired = np.concatenate([b, low, -high])
    norm = np.einsum("ij,ij->i", rows, rows)
    active = np.flatnonzero(norm > 1e-12)
    x, y = np.zeros(n), np.zeros(len(rows))
    for _ in range(_SWEEPS):
        largest = 0.0
        for i in active:
            change = max(-y[i], (desired[i] - rows[i] @ x) / norm[i])
            if change:
                y[i] += change
                x += change * rows[i]
                largest = max(largest, abs(change) * norm[i])
        if largest < 1e-7:
            break
    return np.clip(x, low, high)
