# SPDX-License-Identifier: Apache-2.0
"""Detection of the closed form that fits an arm, from the geometry of its axes.

The axes of a real arm intersect or are parallel only approximately: factory calibration moves them
by some tenths of millimetres and milliradians. They are idealized as the form requires, within a
tolerance; the solutions are refined for the actual arm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from motion_nodes.errors import InvalidConfig
from motion_nodes.ik.analytic.lines import Lines
from motion_nodes.kernels.ik.closed_form import THREE_PARALLEL
from motion_nodes.kernels.ik.spherical_wrist import GENERAL, MEETING, PARALLEL_12, PARALLEL_23

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
