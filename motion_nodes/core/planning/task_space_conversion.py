# SPDX-License-Identifier: Apache-2.0
"""Conversion of a tool path to a joint path with bounded deviation.

Waypoints are computed one after the other by inverse kinematics seeded with the previous one; their
spacing follows from the deviation of straight lines between them. A spline through them is then
compared with the path at many places, and refined where needed, so that the max deviation is
guaranteed.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.ik.problem import IkRequest, IkSettings, IkTolerance
from motion_nodes.core.ik.solver import LeastSquaresIk
from motion_nodes.core.planning.task_space_path_spec import TaskSpacePath
from motion_nodes.core.robot.poses import rotation_vector
from motion_nodes.core.trajectory.joint_path import FreeCheck, JointPath, chained
from motion_nodes.core.trajectory.spline import spline_path
from motion_nodes.errors import InvalidConfig
from motion_nodes.settings import check_settings, setting
from motion_nodes.typing import Array

_EXACT = IkTolerance(1e-6, 1e-5)
_BETWEEN = np.array([0.25, 0.5, 0.75])
"""Places at which a line between two waypoints is compared with the path."""
_PARTS = 8
"""Subdivisions of each interval of the spline for its comparison."""
_REFINEMENTS = 10
"""Max number of refinements of the spline."""
_MARGINS = (1e-3, 2e-7)
"""Distances from joint limits that waypoints keep, because splines overshoot where a joint reaches
its limit; the second one if the path cannot be followed with the first [rad or m]."""
_ROUNDING, _EXCESS = 1e-9, 1e-12
"""Tolerances of joint limits at places of a path, and of all bounds of a spline [rad or m]."""
_START_TIMEOUT = 1.0
"""Timeout for the first pose, which has no neighbour as seed [s]."""


@dataclass(frozen=True)
class PathConversionConfig:
    """Settings of the conversion; names and values as in Lula."""

    min_position_deviation: float = setting(
        0.001,
        doc="Deviation of the joint-space interpolation from the task-space path below "
        "which the distance between waypoints is increased.",
        unit="m",
        gt=0.0,
        le=1.0,
    )
    max_position_deviation: float = setting(
        0.003,
        doc="Max position deviation of the end effector from the task-space path.",
        unit="m",
        gt=0.0,
        le=1.0,
    )
    initial_s_step_size: float = setting(
        0.05, doc="Initial distance between waypoints.", unit="m", gt=0.0
    )
    initial_s_step_size_delta: float = setting(
        0.005, doc="Initial increment of the distance.", unit="m", gt=0.0
    )
    min_s_step_size: float = setting(
        1e-5, doc="Min distance between waypoints; the conversion fails below it.", unit="m", gt=0.0
    )
    min_s_step_size_delta: float = setting(
        1e-5, doc="Min increment of the distance.", unit="m", gt=0.0
    )
    max_iterations: int = setting(50, doc="Max number of steps tried per waypoint.", gt=0.0)
    alpha: float = setting(1.4, doc="Factor by which increments grow and shrink.", gt=1.0)
    max_orientation_deviation: float = setting(
        0.02,
        doc="Max orientation deviation of the end effector from the task-space path.",
        unit="rad",
        gt=0.0,
        le=3.2,
    )
    max_joint_step: float = setting(
        0.5,
        doc="Max change of a joint between two waypoints; larger changes are treated as "
        "discontinuities and rejected.",
        unit="rad or m",
        gt=0.0,
        le=10.0,
    )

    def __post_init__(self) -> None:
        check_settings(self)
        if self.min_position_deviation >= self.max_position_deviation:
            raise InvalidConfig(
                f"min_position_deviation ({self.min_position_deviation} m) must be less than "
                f"max_position_deviation ({self.max_position_deviation} m)"
            )


class ConvertedPath(NamedTuple):
    """Result of the conversion."""

    path: JointPath | None
    """Joint path over the distance along the tool path; None if not even a start was found."""
    waypoints: Array
    """Joint positions found, shape (k, n)."""
    distances: Array
    """Their distances along the tool path, shape (k,)."""
    fraction: float
    """Converted fraction of the tool path; 1 is all."""
    reason: str
    """Why it ended early; empty if complete."""


class _Failure(Exception):
    """Raised where the path cannot be followed further."""


class PathConverter:
    """Converts paths of a chain's tip, with poses in the chain's base."""

    def __init__(
        self,
        chain: IkChain,
        config: PathConversionConfig | None = None,
        is_free: FreeCheck | None = None,
    ) -> None:
        """Create the solver.

        Args:
            chain: joints and tip.
            config: None: the default.
            is_free: collision check of the joint path; None: no check.
        """
        self.chain = chain
        self.config = config or PathConversionConfig()
        self.is_free = is_free
        self._solver = LeastSquaresIk(chain)
        self._inner = [LeastSquaresIk(chain.narrowed(margin)) for margin in _MARGINS]
        self._following = self._inner[0]
        """Solver in use for the waypoints."""
        self._near = IkSettings(tolerance=_EXACT, attempts=1)
        self._anywhere = IkSettings(tolerance=_EXACT, timeout=_START_TIMEOUT)

    def convert(self, path: TaskSpacePath, seed: ArrayLike | None = None) -> ConvertedPath:
        """Return the joint path, as far as it is feasible.

        Args:
            path: of the tip.
            seed: initial joint positions, usually the current ones, shape (n,).
        """
        first, reason = self.start(path.pose(0.0), seed)
        if first is None:
            nothing = np.empty((0, len(self.chain.joint_names)))
            return ConvertedPath(None, nothing, np.empty(0), 0.0, reason)
        best: ConvertedPath | None = None
        for solver in self._inner:
            self._following = solver
            found = self._followed(path, first)
            if best is None or found.fraction > best.fraction:
                best = found
            if not best.reason:
                break
        assert best is not None
        return best

    def _followed(self, path: TaskSpacePath, first: Array) -> ConvertedPath:
        """Return the joint path from a first configuration."""
        reason = ""
        parts: list[JointPath] = []
        q, end = first, 0.0
        cuts = np.concatenate([[0.0], path.corners, [path.length]])
        breaks = path.breaks
        for begin, until in itertools.pairwise(cuts.tolist()):
            inner = breaks[(breaks > begin) & (breaks < until)]
            stages = np.concatenate([[begin], inner, [until]])
            distances, points, reason = self._walk(path, stages, q)
            spline, why = self._spline(path, distances, points)
            reason = why or reason
            if spline is not None:
                parts.append(spline)
                q = spline.evaluate(spline.length)[0]
                end += spline.length
            if reason:
                break
        whole = chained(parts) if parts else None
        if reason:
            reason = (
                f"the tool's path was followed for {end:.4g} of {path.length:.4g} "
                f"({100.0 * end / path.length:.1f} %); then {reason}"
            )
        if whole is None:
            return ConvertedPath(None, first[None], np.zeros(1), 0.0, reason)
        fraction = end / path.length if reason else 1.0
        return ConvertedPath(whole, whole.evaluate(whole.breaks), whole.breaks, fraction, reason)

    def start(self, pose: Array, seed: ArrayLike | None) -> tuple[Array | None, str]:
        """Return joint positions [rad or m] at the start of a path, or None and the reason."""
        found = self._solver.solve(IkRequest(pose, seed, settings=self._anywhere))
        if found.success:
            return found.q, ""
        return None, f"the start of the tool's path cannot be reached: {found.reason}"

    def problem(self, path: JointPath) -> str:
        """Return where a joint path is outside limits or in collision, as text.

        Empty if nowhere.
        """
        local = _places(path)
        Q = path.evaluate(local)
        if not self._inside(Q).all():
            return "the path leaves the joint limits"
        free = np.ones(1) if self.is_free is None else self.is_free(Q)
        return "" if np.all(free) else "the path is in collision"

    def _inside(self, Q: Array) -> NDArray[np.bool_]:
        chain = self.chain
        low, high = chain.lower - _ROUNDING, chain.upper + _ROUNDING
        return np.asarray(np.all((low <= Q) & (high >= Q), axis=1), dtype=np.bool_)

    def _outside(self, spline: JointPath) -> NDArray[np.bool_]:
        """Return whether each piece may leave the joint limits."""
        low, high = spline.bounds()
        chain = self.chain
        return np.asarray(
            ((low < chain.lower - _EXCESS) | (high > chain.upper + _EXCESS)).any(axis=1)
        )

    def _walk(self, path: TaskSpacePath, stages: Array, q: Array) -> tuple[Array, Array, str]:
        """Return distances and joint positions of waypoints, and why they end early."""
        distances, points = [float(stages[0])], [q]
        step = self.config.initial_s_step_size
        for end in stages[1:].tolist():
            while distances[-1] < end:
                try:
                    at, q = self._next(path, distances[-1], points[-1], end, step)
                except _Failure as failure:
                    return np.array(distances), np.array(points), str(failure)
                if at < end:
                    step = at - distances[-1]
                distances.append(at)
                points.append(q)
        return np.array(distances), np.array(points), ""

    def _next(
        self, path: TaskSpacePath, at: float, q: Array, end: float, step: float
    ) -> tuple[float, Array]:
        """Return the next waypoint: as far away as the deviation permits."""
        config = self.config
        best: tuple[float, Array] | None = None
        too_far, delta, why = math.inf, config.initial_s_step_size_delta, ""
        for _ in range(config.max_iterations):
            target = at + step
            if end - target < config.min_s_step_size:
                target = end
            try:
                found, deviation = self._try(path, at, q, target)
            except _Failure as failure:
                why, too_far = str(failure), step
            else:
                best = (target, found)
                if target == end or deviation >= config.min_position_deviation:
                    return best
            if best is None:
                if step <= config.min_s_step_size:
                    break
                step = max(step / config.alpha, config.min_s_step_size)
            elif math.isinf(too_far):
                step, delta = step + delta, delta * config.alpha
            elif too_far - (best[0] - at) <= config.min_s_step_size_delta:
                break
            else:
                step = 0.5 * (too_far + best[0] - at)
        if best is None:
            raise _Failure(why)
        return best

    def _try(self, path: TaskSpacePath, at: float, q: Array, target: float) -> tuple[Array, float]:
        """Return joint positions at a distance, and the deviation of the line to them."""
        found = self._near_pose(path.pose(target), q)
        change = np.abs(found - q)
        if change.max() > self.config.max_joint_step:
            joint = self.chain.joint_names[int(np.argmax(change))]
            raise _Failure(f"joint {joint} would jump by {change.max():.3g}")
        lines = q + _BETWEEN[:, None] * (found - q)
        off, turned = self._deviations(path, at + _BETWEEN * (target - at), lines)
        if off.max() > self.config.max_position_deviation:
            raise _Failure(f"the tool would leave its path by {off.max():.3g} m between waypoints")
        if turned.max() > self.config.max_orientation_deviation:
            raise _Failure(f"the orientation of the tool would deviate by {turned.max():.3g} rad")
        return found, float(off.max())

    def _near_pose(self, pose: Array, seed: Array) -> Array:
        result = self._following.solve(IkRequest(pose, seed, settings=self._near))
        if not result.success:
            raise _Failure(f"no inverse kinematics solution continues the path: {result.reason}")
        return result.q

    def _deviations(self, path: TaskSpacePath, at: Array, Q: Array) -> tuple[Array, Array]:
        """Return distances [m] and angles [rad] between the tool and its path, shape (k,) each."""
        tools = self.chain.kinematics.pose_batch(Q, self.chain.tip)
        poses = np.array([path.pose(s) for s in at.tolist()])
        off = np.linalg.norm(tools[:, :3, 3] - poses[:, :3, 3], axis=1)
        between = np.swapaxes(poses[:, :3, :3], 1, 2) @ tools[:, :3, :3]
        turned = np.array([math.hypot(*rotation_vector(R)) for R in between])
        return off, turned

    def _spline(
        self, path: TaskSpacePath, distances: Array, points: Array
    ) -> tuple[JointPath | None, str]:
        """Return the spline through waypoints, refined where needed; and where it ends."""
        config = self.config
        for _ in range(_REFINEMENTS):
            if len(distances) < 2:
                return None, ""
            spline = spline_path(self.chain.joint_names, points, np.diff(distances))
            local = _places(spline)
            Q = spline.evaluate(local)
            off, turned = self._deviations(path, distances[0] + local, Q)
            wrong = (off > config.max_position_deviation) | (
                turned > config.max_orientation_deviation
            )
            bad = np.flatnonzero(wrong.reshape(-1, _PARTS).any(axis=1) | self._outside(spline))
            if not len(bad):
                return self._free_part(spline, local, Q)
            middles = 0.5 * (distances[bad] + distances[bad + 1])
            guesses = 0.5 * (points[bad] + points[bad + 1])
            try:
                added = [
                    self._near_pose(path.pose(s), q)
                    for s, q in zip(middles.tolist(), guesses, strict=True)
                ]
            except _Failure as failure:
                return self._spline(path, distances[: bad[0] + 1], points[: bad[0] + 1])[0], str(
                    failure
                )
            distances = np.insert(distances, bad + 1, middles)
            points = np.insert(points, bad + 1, added, axis=0)
        return None, "no smooth joint path stays within the tolerance of the tool's path"

    def _free_part(self, spline: JointPath, local: Array, Q: Array) -> tuple[JointPath | None, str]:
        """Return the spline up to its first collision."""
        if self.is_free is None:
            return spline, ""
        order = np.searchsorted(local, spline.breaks)
        everything = np.insert(Q, order, spline.evaluate(spline.breaks), axis=0)
        places = np.insert(local, order, spline.breaks)
        taken = np.flatnonzero(~np.asarray(self.is_free(everything), dtype=np.bool_))
        if not len(taken):
            return spline, ""
        last = int(np.searchsorted(spline.breaks, places[taken[0]])) - 1
        reason = f"the joints would collide at {places[taken[0]]:.4g} of this part"
        if last < 1:
            return None, reason
        return (
            JointPath(
                spline.joint_names,
                spline.breaks[: last + 1],
                spline.coefficients[:last],
                np.empty(0),
            ),
            reason,
        )


def _places(path: JointPath) -> Array:
    """Return the distances at which a path is checked."""
    shares = (np.arange(_PARTS) + 0.5) / _PARTS
    return np.asarray((path.breaks[:-1, None] + shares * np.diff(path.breaks)[:, None]).ravel())
