# SPDX-License-Identifier: Apache-2.0
"""An arm with a closed form: from poses to all joint positions, within given limits.

The closed form that fits an arm is detected from its axes at the zero configuration. Those of a
real arm intersect or are parallel only approximately: factory calibration moves them by some tenths
of millimetres and milliradians. They are idealized as the form requires, within a tolerance; the
solutions are refined for the actual arm.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.robot.poses import bad_pose, rotation_about
from motion_nodes.errors import InvalidConfig, UnknownJoint
from motion_nodes.kernels.ik.closed_form import (
    GENERAL,
    MEETING,
    MOST,
    PARALLEL_12,
    PARALLEL_23,
    THREE_PARALLEL,
)
from motion_nodes.kernels.ik.closed_form_search import NO_POSE, search
from motion_nodes.kernels.kinematic_arrays import FIXED, REVOLUTE, PackedArrays, joint_motion
from motion_nodes.typing import Array

NAMES = {
    THREE_PARALLEL: "three parallel axes",
    PARALLEL_23: "spherical wrist, axes 2 and 3 parallel",
    MEETING: "spherical wrist, axes 1 and 2 meeting",
    PARALLEL_12: "spherical wrist, axes 1 and 2 parallel",
    GENERAL: "spherical wrist",
}
"""Names of the forms, in the order in which they are tried; axes counted without the redundant
joint.
"""
_ANGLES = (0.7, 2.0, -1.3)
"""Values of a redundant joint at which a form must fit [rad]; axes may coincide at 0."""
_LEAST = 1e-4
"""Min of the largest smallest singular value found; below it the arm has fewer than six degrees of
freedom."""
_TURN = 2.0 * math.pi
ALL = 1 << 30
"""More than the max number of solutions."""
_SAMPLES = 25
"""Number of poses, and of values of the redundant joint, for the comparison of redundant joints."""


@dataclass(frozen=True, eq=False)
class Lines:
    """Joint axes from base to tip: the arm as a product of exponentials.

    Source: K. Lynch, F. Park, "Modern Robotics", 2017, section 4.1.
    """

    h: Array
    """Unit directions, shape (n, 3)."""
    p: Array
    """A point on each axis [m], shape (n, 3)."""

    def __len__(self) -> int:
        """Return the number of axes."""
        return len(self.h)

    def turned_behind(self, joint: int, angle: float) -> Lines:
        """Return the axes after a rotation of one joint [rad], which moves the distal ones."""
        R = rotation_about(self.h[joint], np.array(angle))
        h, p = self.h.copy(), self.p.copy()
        h[joint + 1 :] = h[joint + 1 :] @ R.T
        p[joint + 1 :] = (p[joint + 1 :] - p[joint]) @ R.T + p[joint]
        return Lines(h, p)

    def without(self, joint: int, angle: float) -> Lines:
        """Return the other axes, with one joint fixed at an angle [rad]."""
        others = self.turned_behind(joint, angle)
        return Lines(np.delete(others.h, joint, axis=0), np.delete(others.p, joint, axis=0))

    def backwards(self) -> Lines:
        """Return the same axes from tip to base."""
        return Lines(-self.h[::-1], self.p[::-1])

    def jacobian(self, q: Array) -> Array:
        """Return the Jacobian of the point currently at the origin, shape (6, n)."""
        J, X = np.empty((6, len(self))), np.eye(4)
        for i in range(len(self)):
            h, p = X[:3, :3] @ self.h[i], X[:3, :3] @ self.p[i] + X[:3, 3]
            J[:3, i], J[3:, i] = np.cross(p, h), h
            R = rotation_about(self.h[i], q[i])
            step = np.eye(4)
            step[:3, :3], step[:3, 3] = R, self.p[i] - R @ self.p[i]
            X = X @ step
        return J


def lines_of(chain: IkChain) -> tuple[Lines, Array]:
    """Return the axes of a chain in its base, and the pose of its tip at zero, shape (4, 4).

    Raises:
        InvalidConfig: a joint is prismatic, or moves in more than one place.
    """
    arrays, X = chain.arrays, np.eye(4)
    h, p = np.zeros((arrays.joint_count, 3)), np.zeros((arrays.joint_count, 3))
    for r in _rows_to(arrays, chain.row):
        X = X @ arrays.X_PJ[r]
        if arrays.kind[r] == FIXED:
            continue
        k = int(arrays.q_index[r])
        _check_joint(chain, r, h[k])
        h[k], p[k] = X[:3, :3] @ arrays.axis[r], X[:3, 3]
        X = X @ joint_motion(int(arrays.kind[r]), arrays.axis[r], float(arrays.offset[r]))
    order = _order(arrays, chain.row)
    if order != sorted(order):
        raise InvalidConfig(
            f"{chain.robot_name}: closed forms need the joints in their order from base to tip: "
            f"{', '.join(chain.joint_names[k] for k in order)}."
        )
    return Lines(h, p), X


def _check_joint(chain: IkChain, r: int, known: Array) -> None:
    """Raise an error unless a row has an independent revolute joint."""
    arrays = chain.arrays
    name = chain.joint_names[int(arrays.q_index[r])]
    if arrays.kind[r] != REVOLUTE:
        raise InvalidConfig(
            f"{chain.robot_name}: joint '{name}' is prismatic; closed forms need revolute joints.",
            field=name,
        )
    if known.any() or arrays.multiplier[r] != 1.0:
        raise InvalidConfig(
            f"{chain.robot_name}: joint '{name}' moves a joint that mimics it; closed forms need "
            "independent joints."
        )


def _rows_to(arrays: PackedArrays, row: int) -> Sequence[int]:
    rows = []
    while row > 0:
        rows.append(row)
        row = int(arrays.parent[row])
    return rows[::-1]


def _order(arrays: PackedArrays, row: int) -> list[int]:
    return [int(arrays.q_index[r]) for r in _rows_to(arrays, row) if arrays.kind[r] != FIXED]


@dataclass(frozen=True, eq=False)
class Structure:
    """A closed form, and an arm's idealized axes."""

    form: int
    backwards: bool
    """Whether the form is that of the reversed arm, from tip to base."""
    free: int
    """Index of the redundant joint; -1 for an arm with six joints."""
    lines: Lines
    """Idealized axes, shape (n, 3) each."""
    misfit: float
    """Max deviation of the arm's actual axes from the idealized ones [m, rad]."""

    @property
    def name(self) -> str:
        """Name of the form."""
        return NAMES[self.form] + (", from the tip" if self.backwards else "")


def find_structures(
    lines: Lines, tolerance: float, free: int | None, names: Sequence[str], robot: str
) -> list[Structure]:
    """Return the forms that fit an arm, one for each possible redundant joint.

    If a special form fits, the general one is omitted.

    Args:
        lines: axes of the arm.
        tolerance: max deviation [m, rad].
        free: the redundant joint of an arm with seven joints; None: any that fits.
        names: of the joints, for errors.
        robot: for errors.

    Raises:
        InvalidConfig: no form fits; names the violated condition.
    """
    count = len(lines)
    if count not in (6, 7):
        raise InvalidConfig(
            f"{robot}: closed forms are for 6 revolute joints, or 7 of which one is free; this "
            f"chain has {count}: {', '.join(names)}."
        )
    if count == 6 and free is not None:
        raise InvalidConfig(f"{robot}: 6 joints have no free joint; got '{names[free]}'.")
    frees = [-1] if count == 6 else list(range(7)) if free is None else [free]
    fits = [fit for at in frees for fit in _fits(lines, at)]
    good = [fit for fit in fits if fit.misfit <= tolerance and _is_general(lines, fit)]
    if not good:
        raise InvalidConfig(_refusal(lines, fits, tolerance, frees, names, robot))
    special = [fit for fit in good if fit.form != GENERAL]
    # The first form of each redundant joint: a dictionary keeps the last.
    return list({fit.free: fit for fit in reversed(special or good)}.values())[::-1]


def _fits(lines: Lines, free: int) -> list[Structure]:
    """Return all forms with their deviation."""
    kept = [i for i in range(len(lines)) if i != free]
    found = []
    for backwards in (False, True):
        six = lines if free < 0 else lines.without(free, _ANGLES[0])
        six = six.backwards() if backwards else six
        for form in NAMES:
            result = _IDEAL[form](six)
            if result is None:
                continue
            ideal = result[0].backwards() if backwards else result[0]
            if free < 0:
                found.append(Structure(form, backwards, free, ideal, result[1]))
                continue
            # Return to the configuration in which the joints after the redundant one are zero.
            h, p = lines.h.copy(), lines.p.copy()
            h[kept], p[kept] = ideal.h, ideal.p
            whole = Lines(h, p).turned_behind(free, -_ANGLES[0])
            fit = Structure(form, backwards, free, whole, result[1])
            found.append(replace(fit, misfit=max(fit.misfit, _moving_misfit(fit))))
    return found


def _moving_misfit(fit: Structure) -> float:
    """Return the max deviation over other values of the redundant joint."""
    misfit = 0.0
    for angle in _ANGLES[1:]:
        six = fit.lines.without(fit.free, angle)
        six = six.backwards() if fit.backwards else six
        result = _IDEAL[fit.form](six)
        if result is None:
            return math.inf
        wrist = six.p[4:] if fit.form == THREE_PARALLEL else six.p[3:]
        misfit = max(misfit, result[1], float(np.ptp(wrist, axis=0).max()))
    return misfit


def _is_general(lines: Lines, fit: Structure) -> bool:
    """Return whether the six joints have six degrees of freedom in some configuration."""
    rng = np.random.default_rng(0)
    for angle in rng.uniform(-2.0, 2.0, 4):
        six = lines if fit.free < 0 else lines.without(fit.free, angle)
        J = six.jacobian(rng.uniform(-2.0, 2.0, 6))
        if np.linalg.svd(J, compute_uv=False)[-1] > _LEAST:
            return True
    return False


_Ideal = tuple[Lines, float] | None


def _three_parallel(six: Lines) -> _Ideal:
    """Axes 2, 3, 4 parallel, their points in one plane; 5 and 6 intersect."""
    wrist = _meeting(six, (4, 5))
    if wrist is None:
        return None
    ideal, apart = wrist
    ideal, angle = _parallel(ideal, (1, 2, 3))
    return ideal, max(apart, angle)


def _spherical_wrist(six: Lines, more: Callable[[Lines], _Ideal]) -> _Ideal:
    """Axes 4, 5, 6 intersect, plus another condition."""
    wrist = _meeting(six, (3, 4, 5))
    if wrist is None:
        return None
    arm = more(wrist[0])
    return None if arm is None else (arm[0], max(arm[1], wrist[1]))


def _meeting(lines: Lines, which: tuple[int, ...]) -> _Ideal:
    """Return the axes with some moved to their closest common point; None if it is not unique."""
    normal, right = np.zeros((3, 3)), np.zeros(3)
    for i in which:
        P = np.eye(3) - np.outer(lines.h[i], lines.h[i])
        normal += P
        right += P @ lines.p[i]
    if np.linalg.cond(normal) > 1e4:
        return None
    w = np.linalg.solve(normal, right)
    apart = max(float(np.linalg.norm(np.cross(lines.h[i], w - lines.p[i]))) for i in which)
    p = lines.p.copy()
    p[list(which)] = w
    return Lines(lines.h, p), apart


def _parallel(lines: Lines, which: tuple[int, ...]) -> tuple[Lines, float]:
    """Return the axes with some made parallel to their mean, their points in one plane."""
    some = list(which)
    first = lines.h[which[0]]
    signs = np.where(lines.h[some] @ first < 0.0, -1.0, 1.0)
    mean = signs @ lines.h[some]
    mean /= np.linalg.norm(mean)
    angle = float(np.linalg.norm(np.cross(lines.h[some], mean), axis=1).max())
    h, p = lines.h.copy(), lines.p.copy()
    h[some] = signs[:, np.newaxis] * mean
    # The effect of a small rotation of an axis is smallest near the middle of the arm.
    centre = lines.p.mean(axis=0)
    near = p[some] + lines.h[some] * np.sum((centre - p[some]) * lines.h[some], axis=1)[:, None]
    p[some] = near - np.outer((near - near[0]) @ mean, mean)
    return Lines(h, p), angle


def _parallel_12(six: Lines) -> _Ideal:
    return _parallel(six, (0, 1))


def _parallel_23(six: Lines) -> _Ideal:
    return _parallel(six, (1, 2))


def _meeting_12(six: Lines) -> _Ideal:
    return _meeting(six, (0, 1))


def _anyhow(six: Lines) -> _Ideal:
    return six, 0.0


_IDEAL: dict[int, Callable[[Lines], _Ideal]] = {
    THREE_PARALLEL: _three_parallel,
    PARALLEL_23: lambda six: _spherical_wrist(six, _parallel_23),
    MEETING: lambda six: _spherical_wrist(six, _meeting_12),
    PARALLEL_12: lambda six: _spherical_wrist(six, _parallel_12),
    GENERAL: lambda six: _spherical_wrist(six, _anyhow),
}


def _refusal(
    lines: Lines,
    fits: Sequence[Structure],
    tolerance: float,
    frees: Sequence[int],
    names: Sequence[str],
    robot: str,
) -> str:
    """Return why no form fits, and the deviation of the best one."""
    if any(fit.misfit <= tolerance for fit in fits):
        return (
            f"{robot}: the joints {', '.join(names)} do not move the tip in six degrees "
            "of freedom, so full poses cannot be solved."
        )
    free = "" if frees[0] < 0 else f", for any free joint of {', '.join(names[i] for i in frees)}"
    if 0 <= frees[0] and len(frees) == 1:
        free = f" with the free joint '{names[frees[0]]}'"
    nearest = min((fit.misfit for fit in fits), default=math.inf)
    missing = f"the nearest form is {nearest:.3g} m or rad off" if nearest < math.inf else "none"
    return (
        f"{robot}: no closed form fits {', '.join(names)}{free}. Required: three consecutive "
        "axes at either end intersect in one point, or three consecutive axes are parallel and the "
        f"next two intersect; {missing} (tolerance {tolerance:g}). Use an iterative solver."
    )


class Metric(NamedTuple):
    """Distance of configurations by which solutions are sorted."""

    norm: float = math.inf
    """p of the norm, at least 1; ``math.inf`` is the max joint displacement."""
    weights: Array | None = None
    """Weights of the joints, shape (n,); None: equal."""


MAX_NORM = Metric()


class ClosedFormArm:
    """A chain of six revolute joints, or of seven with one redundant joint."""

    structure: Structure
    free: int
    """Index of the redundant joint; -1 for an arm with six joints."""

    def __init__(self, chain: IkChain, free_joint: str | None, tolerance: float) -> None:
        """Determine the closed form, and compile or load its kernel.

        Args:
            chain: the chain.
            free_joint: name of the redundant joint, or None.
            tolerance: max deviation of the axes from the form [m, rad].

        Raises:
            UnknownJoint: the redundant joint is not in the chain.
            InvalidConfig: the tolerance is not above 0, or no form fits the chain; with the reason.
        """
        if not 0.0 < tolerance < math.inf:
            raise InvalidConfig(
                f"tolerance is {tolerance}; it must be above 0 (m and rad).", field="tolerance"
            )
        names = chain.joint_names
        if free_joint is not None and free_joint not in names:
            raise UnknownJoint(free_joint, names, f"the chain to '{chain.tip}'")
        free = None if free_joint is None else names.index(free_joint)
        lines, self._home = lines_of(chain)
        self._own = lines
        self._alike = np.ones(len(names))
        self._any = np.array([np.full(len(names), -math.inf), np.full(len(names), math.inf)])
        fits = find_structures(lines, tolerance, free, names, chain.robot_name)
        self._take(fits[0] if len(fits) == 1 else max(fits, key=lambda fit: self._use(fit, chain)))
        self.solutions(self._home, np.zeros(len(names)))

    def _take(self, structure: Structure) -> None:
        self.structure, self.free = structure, structure.free
        ideal = structure.lines
        self._lines = np.array([ideal.h, ideal.p, self._own.h, self._own.p])
        self._slack = max(1e-6, 20.0 * structure.misfit)

    def _use(self, structure: Structure, chain: IkChain) -> tuple[int, int]:
        """Return the number of poses with solutions, and of values with solutions, for a joint."""
        self._take(structure)
        limits = np.array([chain.lower, chain.upper])
        low = np.where(np.isfinite(chain.lower), chain.lower, -math.pi)
        high = np.where(np.isfinite(chain.upper), chain.upper, math.pi)
        values = np.linspace(low[self.free], high[self.free], _SAMPLES)
        counts = []
        for q in np.random.default_rng(0).uniform(low, high, (_SAMPLES, low.size)):
            X = chain.kinematics.pose(q, chain.tip)
            counts.append(len(np.unique(self.solutions(X, q, limits, values)[:, self.free])))
        return int(np.count_nonzero(counts)), sum(counts)

    def solutions(
        self,
        target: Array,
        near: Array,
        limits: Array | None = None,
        values: Array | None = None,
        metric: Metric = MAX_NORM,
        enough: int = ALL,
    ) -> Array:
        """Return all solutions, closest first.

        Args:
            target: pose of the tip in the base, shape (4, 4).
            near: solutions are shifted by full turns to be close to it [rad], shape (n,).
            limits: lower and upper joint limits [rad], shape (2, n); None: no limits.
            values: values of the redundant joint [rad], shape (m,); None: as in ``near``.
            metric: of the distance from ``near``.
            enough: stop after a value once this many solutions were found.

        Returns:
            Shape (k, n).

        Raises:
            InvalidCommand: the target is not a valid pose.
        """
        if values is None:
            values = near[self.free : self.free + 1] if self.free >= 0 else near[:1]
        out = np.empty((MOST * len(values), near.size))
        form = self.structure
        count = search(
            form.form,
            form.free,
            form.backwards,
            self._lines,
            self._home,
            self._any if limits is None else limits,
            target,
            near,
            self._alike if metric.weights is None else metric.weights,
            metric.norm,
            values,
            enough,
            self._slack,
            out,
        )
        if count == NO_POSE:
            raise bad_pose(target, "target")
        return out[:count]


def with_all_turns(Q: Array, limits: Array) -> Array:
    """Return configurations and all others within the limits that differ by full turns.

    Joints without limits are unchanged.

    Args:
        Q: within the limits [rad], shape (m, n).
        limits: lower and upper joint limits [rad], shape (2, n).

    Returns:
        Shape (k, n).
    """
    endless = ~np.isfinite(limits).all(axis=0)
    fewest = np.where(endless, 0.0, np.ceil((np.where(endless, 0.0, limits[0]) - Q) / _TURN))
    most = np.where(endless, 0.0, np.floor((np.where(endless, 0.0, limits[1]) - Q) / _TURN))
    if not fewest.any() and not most.any():
        return Q
    rows = []
    for q, low, high in zip(Q, fewest, most, strict=True):
        turns = [range(int(a), int(b) + 1) for a, b in zip(low, high, strict=True)]
        rows.append(q + _TURN * np.array(list(itertools.product(*turns)), dtype=np.float64))
    return np.asarray(np.clip(np.concatenate(rows), *limits))  # despite rounding
