# SPDX-License-Identifier: Apache-2.0
"""Notices joints that something blocks: they do not follow, or push more than their motion takes.

A joint follows where its measured position is near to any reference of the last moments: drives
lag, and messages take time, but a blocked joint stays behind all of them. Where efforts are
measured, what exceeds the model of the robot (:mod:`.effort_residual`) tells a contact sooner.
Looked at while the reference moves and a little after; a joint that is pushed at rest is no blocked
one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motion_nodes.model.tree import frozen

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

SETTLES = 0.5
"""[s] So long after the reference came to rest joints are still looked at."""
CONFIRMED = 0.04
"""[s] So long a joint is away from its references before it counts as blocked."""
_ROWS = 256
"""References that are kept at most."""


@dataclass(frozen=True, eq=False)
class GuardSettings:
    """What counts as blocked, for n joints; infinite where a joint is not looked at."""

    tolerance: Array
    """Of positions [rad or m], shape (n,)."""
    effort_margin: Array
    """What a joint may push with beyond the model [N m or N], shape (n,)."""
    lag: float
    """How late drives may follow [s]."""

    def __post_init__(self) -> None:
        """Freeze the arrays."""
        object.__setattr__(self, "tolerance", frozen(self.tolerance))
        object.__setattr__(self, "effort_margin", frozen(self.effort_margin))


@dataclass(frozen=True, eq=False)
class Blocked:
    """A joint that is blocked."""

    joint: int
    """Its index."""
    error: float
    """Distance from the nearest reference of the last moments [rad or m]."""
    tolerance: float
    """That it was compared with [rad or m]."""
    effort: float
    """What it pushes with beyond the model [N m or N]; NaN where that is not known."""
    margin: float
    """That it was compared with [N m or N]."""
    by_effort: bool
    """Whether the effort told it."""
    guarded: Mask
    """Joints that are looked at, shape (n,)."""

    def text(self, name: str, *, revolute: bool, place: str = "") -> str:
        """Say what is blocked.

        Args:
            name: of the joint.
            revolute: whether it turns.
            place: where, in words.
        """
        length, push = ("rad", "N m") if revolute else ("m", "N")
        parts = [f"is {self.error:.3g} {length} from its reference"]
        if math.isfinite(self.tolerance):
            parts[0] += f" (tolerance {self.tolerance:.3g})"
        if math.isfinite(self.effort):
            parts.append(
                f"pushes {abs(self.effort):.3g} {push} beyond the model (margin {self.margin:.3g})"
            )
        if self.by_effort:
            parts.reverse()
        said = f"blocked: joint {name} {' and '.join(parts)}"
        return f"{said}, {place}" if place else said


class JointGuard:
    """Compares measured joints with the references of the last moments."""

    def __init__(self, settings: GuardSettings, period: float) -> None:
        """Begin with nothing known.

        Args:
            settings: what counts.
            period: between two references [s].
        """
        self.settings = settings
        self._period = period
        n = len(settings.tolerance)
        self._rows = np.full((_ROWS, n), np.nan)
        self.reset()

    def reset(self) -> None:
        """Forget the references."""
        self._rows[:] = np.nan
        self._at = self._known = 0
        self._unmeasured = self._extra = 0
        self._moved = math.inf
        self._behind: NDArray[np.intp] = np.zeros(self._rows.shape[1], np.intp)

    def note(self, reference: Array, speed: Array, dt: float) -> None:
        """Keep a reference of all joints.

        Args:
            reference: positions [rad or m], shape (n,), NaN where a joint follows none.
            speed: of it [rad/s or m/s], shape (n,), NaN likewise.
            dt: time since the last [s].
        """
        self._rows[self._at] = reference
        self._at = (self._at + 1) % _ROWS
        self._known = min(self._known + 1, _ROWS)
        self._unmeasured += 1
        self._extra = max(self._extra - 1, 0)
        moves = bool((np.abs(speed) > 0.0).any())
        self._moved = 0.0 if moves else self._moved + dt

    def look(
        self,
        position: Array,
        tolerance: Array,
        free: Mask,
        residual: Array | None = None,
    ) -> Blocked | None:
        """Compare what was just measured; call it once for each measurement.

        Args:
            position: measured [rad or m], shape (n,).
            tolerance: in force [rad or m], shape (n,).
            free: joints that may push against something, such as fingers that grip, shape (n,).
            residual: efforts beyond the model [N m or N], shape (n,); None where not measured.
        """
        # Where measurements were missing, what comes after them may be as old as the gap.
        self._extra = max(self._extra, self._unmeasured)
        self._unmeasured = 0
        if self._moved > self.settings.lag + SETTLES or not self._known:
            return None
        margin = np.where(free, np.inf, self.settings.effort_margin)
        bound = np.where(free, np.inf, tolerance)
        error = self._error(position)
        far = error / bound
        # A burst of late messages is over after a few; a blocked joint stays where it is.
        self._behind = np.where(far > 1.0, self._behind + 1, 0)
        far = np.where(self._behind * self._period > CONFIRMED, far, np.minimum(far, 1.0))
        push = np.zeros_like(far) if residual is None else np.abs(residual) / margin
        if far.max(initial=0.0) <= 1.0 and push.max(initial=0.0) <= 1.0:
            return None
        by_effort = bool(push.max() > far.max())
        i = int(np.argmax(push if by_effort else far))
        return Blocked(
            joint=i,
            error=float(error[i]),
            tolerance=float(tolerance[i]),
            effort=math.nan if residual is None else float(residual[i]),
            margin=float(self.settings.effort_margin[i]),
            by_effort=by_effort,
            guarded=np.isfinite(bound) | np.isfinite(margin),
        )

    def _error(self, position: Array) -> Array:
        """Return the distances from the references of the last moments, 0 within them."""
        count = min(1 + math.ceil(self.settings.lag / self._period) + self._extra, self._known)
        first = self._at - count
        rows = self._rows[first : self._at] if first >= 0 else self._rows
        if first < 0:
            rows = np.concatenate((self._rows[first:], self._rows[: self._at]))
        with np.errstate(invalid="ignore"):
            below, above = rows.min(axis=0) - position, position - rows.max(axis=0)
        return np.asarray(np.nan_to_num(np.maximum(np.maximum(below, above), 0.0)))
