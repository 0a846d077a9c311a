# SPDX-License-Identifier: Apache-2.0
"""Detection of blocked joints, by tracking errors and effort residuals.

The tracking error is the distance from the closest recent reference, which allows for lag of drives
and delay of messages, or from their extrapolations, which a driver applies until a late reference
arrives: a blocked joint is away from all of them. If efforts are measured, the effort
residual (:mod:`.effort_residual`) detects a contact earlier, except at a position limit, where a
joint may touch its end stop. Joints are checked while the reference moves and shortly after. A load
on a joint at rest is a preload and does not count, so that an arm can leave a contact.

Default thresholds of blocked joints, from effort limits and drive stiffness.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.control.stream_resampler import BRAKED, ResamplerSettings
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import JointKind, frozen
from motion_nodes.typing import Array, Mask

SETTLES = 0.5
"""Time after the reference stops during which joints are still checked [s]."""
CONFIRMED = 0.04
"""Min duration of a tracking error before a joint counts as blocked [s]."""
NOT_DRIVEN = 0.5
"""Min duration of a tracking error of a joint without contact [s]: references may be late."""
PUSH_SHARE = 0.2
"""Fraction of the effort threshold above which a joint counts as pushing."""
END_STOP = 0.005
"""Distance from a position limit at which the residual may be that of the end stop [rad or m]."""
EXTRAPOLATED = BRAKED * ResamplerSettings().extrapolation
"""Time by which drivers extrapolate a late reference, with braking [s]."""
_ROWS = 256
"""Max number of stored references."""
GRIPPER_GROUP = "gripper"
"""Name of the group that gripper actions move; its joints may push against objects."""
MARGIN = 0.6
"""Effort threshold as a fraction of the effort limit; covers payloads and model errors."""
_REVOLUTE = (0.045, 0.05, 0.25)
"""Offset, min and max of the tolerance of revolute joints [rad]."""
_PRISMATIC = (0.009, 0.01, 0.05)
"""Offset, min and max of the tolerance of prismatic joints [m]."""


@dataclass(frozen=True, eq=False)
class GuardSettings:
    """Thresholds for n joints; infinite for unchecked joints."""

    tolerance: Array
    """Position error threshold [rad or m], shape (n,)."""
    effort_margin: Array
    """Effort residual threshold [N m or N], shape (n,)."""
    lag: float
    """Max lag of the drives [s]."""
    lower: Array
    """Lower position limits [rad or m], shape (n,); may be infinite."""
    upper: Array
    """Upper position limits [rad or m], shape (n,); may be infinite."""

    def __post_init__(self) -> None:
        """Freeze the arrays."""
        object.__setattr__(self, "lower", frozen(self.lower))
        object.__setattr__(self, "upper", frozen(self.upper))
        object.__setattr__(self, "tolerance", frozen(self.tolerance))
        object.__setattr__(self, "effort_margin", frozen(self.effort_margin))


@dataclass(frozen=True, eq=False)
class Blocked:
    """A blocked joint."""

    joint: int
    """Index of the joint."""
    error: float
    """Distance from the closest recent reference [rad or m]."""
    tolerance: float
    """Position error threshold [rad or m]."""
    effort: float
    """Effort residual [N m or N]; NaN if unknown."""
    margin: float
    """Effort residual threshold [N m or N]."""
    by_effort: bool
    """Whether the effort exceeded its threshold."""
    guarded: Mask
    """Checked joints, shape (n,)."""

    @property
    def pushes(self) -> bool:
        """Whether the joint pushes against an object, according to its effort."""
        return not abs(self.effort) < PUSH_SHARE * self.margin

    def text(self, name: str, *, revolute: bool, place: str = "") -> str:
        """Return a description.

        Args:
            name: name of the joint.
            revolute: whether it is a revolute joint.
            place: description of the place.
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
        text = f"blocked: joint {name} {' and '.join(parts)}"
        if not self.pushes:
            cause = "the drive is disabled or at its effort limit, or references arrive late"
            text += f": no contact; {cause}"
        return f"{text}, {place}" if place else text


class JointGuard:
    """Compares measured joints with recent references."""

    def __init__(self, settings: GuardSettings, period: float) -> None:
        """Create a guard without references.

        Args:
            settings: thresholds.
            period: period of the references [s].
        """
        self.settings = settings
        self._period = period
        n = len(settings.tolerance)
        self._rows = np.full((_ROWS, 2, n), np.nan)
        """Stored references and their extrapolations."""
        self._preload = np.zeros(n)
        self.reset()

    def reset(self) -> None:
        """Clear the references."""
        self._rows[:] = np.nan
        self._at = self._known = 0
        self._unmeasured = self._extra = 0
        self._moved = math.inf
        self._behind: NDArray[np.intp] = np.zeros(self._rows.shape[2], np.intp)

    def note(self, reference: Array, speed: Array, dt: float) -> None:
        """Store a reference of all joints.

        Args:
            reference: positions [rad or m], shape (n,), NaN for joints without one.
            speed: velocities [rad/s or m/s], shape (n,), NaN for joints without one.
            dt: time since the last reference [s].
        """
        row = self._rows[self._at]
        row[0] = reference
        np.multiply(speed, EXTRAPOLATED, out=row[1])
        row[1] += reference
        self._at = (self._at + 1) % _ROWS
        self._known = min(self._known + 1, _ROWS)
        self._unmeasured += 1
        self._extra = max(self._extra - 1, 0)
        moves = np.count_nonzero(np.abs(speed) > 0.0) > 0
        self._moved = 0.0 if moves else self._moved + dt

    def note_preload(self, residual: Array | None) -> None:
        """Store the preload of joints at rest, or until they leave a contact.

        Args:
            residual: effort residual [N m or N], shape (n,); None if not measured.
        """
        self._preload = np.zeros_like(self._preload) if residual is None else residual.copy()

    def check(
        self,
        position: Array,
        tolerance: Array,
        free: Mask,
        residual: Array | None = None,
    ) -> Blocked | None:
        """Check a measurement; call it once per measurement.

        Args:
            position: measured positions [rad or m], shape (n,).
            tolerance: current thresholds [rad or m], shape (n,).
            free: joints that may push against objects, such as gripping fingers, shape (n,).
            residual: effort residual [N m or N], shape (n,); None if not measured.

        Returns:
            The blocked joint, or None.
        """
        # Measurements after a gap may be delayed by the duration of the gap.
        self._extra = max(self._extra, self._unmeasured)
        self._unmeasured = 0
        if self._moved > self.settings.lag + SETTLES or not self._known:
            self.note_preload(residual)
            return None
        given = self.settings
        bound = np.where(free, np.inf, tolerance)
        error = self._error(position)
        far = error / bound
        # A burst of delayed messages is short; a blocked joint stays blocked.
        behind = far > 1.0
        self._behind += 1
        self._behind *= behind
        if residual is None and not behind.any():
            return None
        end = (position < given.lower + END_STOP) | (position > given.upper - END_STOP)
        margin = np.where(free | end, np.inf, given.effort_margin)
        push = np.zeros_like(far)
        if residual is not None:
            self._keep_lasting_preload(residual)
            push = np.abs(residual) / (margin + np.abs(self._preload))
        patience = np.full_like(far, CONFIRMED)
        if residual is not None:
            patience[np.isfinite(margin) & (push < PUSH_SHARE)] = NOT_DRIVEN
        far = np.where(self._behind * self._period > patience, far, np.minimum(far, 1.0))
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

    def _keep_lasting_preload(self, residual: Array) -> None:
        """Reduce the preload to its min value since the joints were at rest."""
        lasting = np.minimum(np.abs(residual), np.abs(self._preload))
        same = np.sign(residual) == np.sign(self._preload)
        self._preload = np.where(same, np.copysign(lasting, residual), 0.0)

    def _error(self, position: Array) -> Array:
        """Return the distances from the recent references, 0 within their range."""
        count = min(1 + math.ceil(self.settings.lag / self._period) + self._extra, self._known)
        first = self._at - count
        rows = self._rows[first : self._at] if first >= 0 else self._rows
        if first < 0:
            rows = np.concatenate((self._rows[first:], self._rows[: self._at]))
        rows = rows.reshape(-1, len(position))
        with np.errstate(invalid="ignore"):
            beyond = np.maximum(rows.min(axis=0) - position, position - rows.max(axis=0))
        # 0 for joints without a reference.
        return np.asarray(np.fmax(beyond, 0.0))


def gripper_joints(robot: Robot, joints: Sequence[str]) -> NDArray[np.bool_]:
    """Return which of the joints belong to the gripper, shape (n,)."""
    group = robot.groups.get(GRIPPER_GROUP)
    names = () if group is None else group.joints
    return np.array([joint in names for joint in joints], dtype=np.bool_)


def revolute(robot: Robot, joints: Sequence[str]) -> NDArray[np.bool_]:
    """Return which of the joints are not prismatic, shape (n,)."""
    kinds = [robot.tree.joint(joint).kind for joint in joints]
    return np.array([kind is not JointKind.PRISMATIC for kind in kinds], dtype=np.bool_)


def position_tolerances(robot: Robot, joints: Sequence[str], stiffness: Array) -> Array:
    """Return the max position errors of joints that are not blocked.

    A drive at its effort limit lags by ``effort limit / stiffness``; larger errors mean that the
    joint is blocked.

    Args:
        robot: the robot.
        joints: the controlled joints.
        stiffness: stiffness of their drives [N m/rad or N/m], shape (n,); 0: unknown.

    Returns:
        Tolerances [rad or m], shape (n,); infinite for gripper joints.
    """
    effort = robot.limits.select(tuple(joints)).effort
    offset, low, high = np.where(revolute(robot, joints)[:, None], _REVOLUTE, _PRISMATIC).T
    known = (stiffness > 0.0) & np.isfinite(effort)
    lag = np.divide(effort, stiffness, out=np.full_like(effort, np.inf), where=known)
    return np.where(gripper_joints(robot, joints), np.inf, (lag + offset).clip(low, high))


def effort_margins(robot: Robot, joints: Sequence[str]) -> Array:
    """Return the max differences from modelled efforts [N m or N], shape (n,); 0: unlimited."""
    effort = robot.limits.select(tuple(joints)).effort
    bounded = np.isfinite(effort) & ~gripper_joints(robot, joints)
    return np.where(bounded, MARGIN * effort, 0.0)
