# SPDX-License-Identifier: Apache-2.0
"""Which closed form fits an arm, found from how its lines lie and not from its name.

The lines of a real arm meet or are parallel only nearly: a factory's calibration moves them by some
tenths of millimetres and milliradians. They are taken as the form needs them, and the tolerance
says how far from that they may be; the solutions are corrected for the arm as it is.
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
"""The forms in words, in the order in which they are tried; axes counted without the free joint."""

_ANGLES = (0.7, 2.0, -1.3)
"""Values of a free joint at which a form must fit [rad]; at 0 axes may fall together by chance."""
_LEAST = 1e-4
"""An arm whose Jacobian never has a greater smallest singular value does not move in six ways."""


@dataclass(frozen=True, eq=False)
class Structure:
    """A closed form, and an arm's lines as it needs them."""

    form: int
    backwards: bool
    """Whether the form is that of the arm seen from its tip."""
    free: int
    """The joint whose value is given; -1 for an arm of six."""
    lines: Lines
    """As the form needs them, shape (n, 3) each."""
    misfit: float
    """How far the arm's own lines are from that: the greatest distance or angle [m, rad]."""

    @property
    def name(self) -> str:
        """The form in words."""
        return NAMES[self.form] + (", from the tip" if self.backwards else "")


def find_structures(
    lines: Lines, tolerance: float, free: int | None, names: Sequence[str], robot: str
) -> list[Structure]:
    """Return the forms that fit an arm, one for each joint that may be free.

    Where a special form fits, the general one is left out.

    Args:
        lines: of the arm.
        tolerance: greatest misfit [m, rad].
        free: the joint to be left free, of an arm of seven; None: whichever fits.
        names: of the joints, for errors.
        robot: for errors.

    Raises:
        InvalidConfig: no form fits; says what is missing.
    """
    count = len(lines)
    if count not in (6, 7):
        raise InvalidConfig(
            f"{robot}: closed forms are for 6 turning joints, or 7 of which one is free; this "
            f"chain has {count}: {', '.join(names)}."
        )
    if count == 6 and free is not None:
        raise InvalidConfig(f"{robot}: of 6 joints none is free, but '{names[free]}' was to be.")
    frees = [-1] if count == 6 else list(range(7)) if free is None else [free]
    fits = [fit for at in frees for fit in _fits(lines, at)]
    good = [fit for fit in fits if fit.misfit <= tolerance and _is_general(lines, fit)]
    if not good:
        raise InvalidConfig(_refusal(lines, fits, tolerance, frees, names, robot))
    special = [fit for fit in good if fit.form != GENERAL]
    # The first form of each free joint: a dictionary keeps the last.
    return list({fit.free: fit for fit in reversed(special or good)}.values())[::-1]


def _fits(lines: Lines, free: int) -> list[Structure]:
    """Return all forms with their misfit."""
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
            # Back to where the joints behind the free one are at zero.
            h, p = lines.h.copy(), lines.p.copy()
            h[kept], p[kept] = ideal.h, ideal.p
            whole = Lines(h, p).turned_behind(free, -_ANGLES[0])
            fit = Structure(form, backwards, free, whole, result[1])
            found.append(replace(fit, misfit=max(fit.misfit, _moving_misfit(fit))))
    return found


def _moving_misfit(fit: Structure) -> float:
    """Return the greatest misfit over other values of the free joint."""
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
    """Return whether the six joints move the tip in six independent ways, somewhere."""
    rng = np.random.default_rng(0)
    for angle in rng.uniform(-2.0, 2.0, 4):
        six = lines if fit.free < 0 else lines.without(fit.free, angle)
        J = six.jacobian(rng.uniform(-2.0, 2.0, 6))
        if np.linalg.svd(J, compute_uv=False)[-1] > _LEAST:
            return True
    return False


_Ideal = tuple[Lines, float] | None


def _three_parallel(six: Lines) -> _Ideal:
    """Lines 2, 3, 4 parallel, their points in one plane; 5 and 6 meet."""
    wrist = _meeting(six, (4, 5))
    if wrist is None:
        return None
    ideal, apart = wrist
    ideal, angle = _parallel(ideal, (1, 2, 3))
    return ideal, max(apart, angle)


def _spherical_wrist(six: Lines, more: Callable[[Lines], _Ideal]) -> _Ideal:
    """Lines 4, 5, 6 meet, and more."""
    wrist = _meeting(six, (3, 4, 5))
    if wrist is None:
        return None
    arm = more(wrist[0])
    return None if arm is None else (arm[0], max(arm[1], wrist[1]))


def _meeting(lines: Lines, which: tuple[int, ...]) -> _Ideal:
    """Return the lines with the point nearest to all of some as theirs; None if it is anywhere."""
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
    """Return the lines with some made parallel to the mean of them, their points in one plane."""
    some = list(which)
    first = lines.h[which[0]]
    signs = np.where(lines.h[some] @ first < 0.0, -1.0, 1.0)
    mean = signs @ lines.h[some]
    mean /= np.linalg.norm(mean)
    angle = float(np.linalg.norm(np.cross(lines.h[some], mean), axis=1).max())
    h, p = lines.h.copy(), lines.p.copy()
    h[some] = signs[:, np.newaxis] * mean
    # Where a line that is turned a little must pass is best said near to the arm's middle.
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
    """Say why no form fits, and by how much the nearest misses."""
    if any(fit.misfit <= tolerance for fit in fits):
        return (
            f"{robot}: the joints {', '.join(names)} do not move the tip in six independent ways, "
            "so there is nothing to solve for a full pose."
        )
    free = "" if frees[0] < 0 else f", whichever of {', '.join(names[i] for i in frees)} is free"
    if 0 <= frees[0] and len(frees) == 1:
        free = f", '{names[frees[0]]}' being free"
    nearest = min((fit.misfit for fit in fits), default=math.inf)
    missing = f"the nearest form is {nearest:.3g} m or rad off" if nearest < math.inf else "none"
    return (
        f"{robot}: no closed form fits {', '.join(names)}{free}. Needed is that three axes in a "
        "row at either end meet in one point, or that three in a row are parallel and the two "
        f"behind them meet; {missing} (tolerance {tolerance:g}). Iterative solvers take any chain."
    )
