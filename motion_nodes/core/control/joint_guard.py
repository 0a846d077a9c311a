# SPDX-License-Identifier: Apache-2.0
"""Detection of blocked joints, by tracking errors and effort residuals, and what follows a stop.

The tracking error is the distance from the closest recent reference, which allows for lag of drives
and delay of messages, or from their extrapolations, which a driver applies until a late reference
arrives: a blocked joint is away from all of them. If efforts are measured, the effort
residual (:mod:`.contact_wrench`) detects a contact earlier, except at a position limit, where a
joint may touch its end stop. Joints are checked while the reference moves and shortly after. A load
on a joint at rest is a preload and does not count, so that an arm can leave a contact.

Default thresholds of blocked joints follow from effort limits and drive stiffness.

After a stop the reference is resynchronized: moved to the measured positions of joints at rest.
Planners start at the measured state, controllers at their reference; after a blocked motion they
differ. The steady-state error of drives under an unknown load is excluded: it is stored while the
joints are at rest without contact, so that it never accumulates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.control.stream_resampler import BRAKED, ResamplerSettings
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import JointKind, frozen
from motion_nodes.kernels.cycle_code import cycle_function, cycle_part, zeros
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
MARGIN = 0.6
"""Effort threshold as a fraction of the effort limit; covers payloads and model errors."""
_REVOLUTE = (0.045, 0.05, 0.25)
"""Offset, min and max of the tolerance of revolute joints [rad]."""
_PRISMATIC = (0.009, 0.01, 0.05)
"""Offset, min and max of the tolerance of prismatic joints [m]."""

REST_SPEED = 0.02
"""Velocity below which a joint is at rest [rad/s or m/s]."""
REST_TIME = 0.15
"""Min time at rest [s]."""
RESYNC_TOLERANCE = 0.05
"""Max distance of references from joints without a tolerance after a stop [rad or m]."""
AFTER_CONTACT = 1e-3
"""Max difference that is ignored after a contact, because its force is small [rad or m]."""
CLOSER = 0.8
"""Max share of a difference that a correction leaves: the joints do not follow beyond it."""
CONTACT_PASSES = 6
"""Max number of corrections after a contact: joints spring back, or other joints move them."""


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


class GuardState(NamedTuple):
    """Memory of a guard of n joints."""

    rows: Array
    """Recent references and their extrapolations [rad or m], shape (256, 2, n), a ring."""
    reference: Array
    """Reference to be stored: positions and velocities, shape (2, n); NaN for joints without."""
    position: Array
    """Measured positions [rad or m], shape (n,)."""
    residual: Array
    """Measured effort residual [N m or N], shape (n,)."""
    tolerance: Array
    """Current position error thresholds [rad or m], shape (n,)."""
    free: Mask
    """Joints that may push against objects, shape (n,)."""
    margin: Array
    """Effort residual thresholds [N m or N], shape (n,)."""
    lower: Array
    upper: Array
    """Position limits [rad or m], shape (n,); may be infinite."""
    preload: Array
    """Residual of a load that was there before the motion [N m or N], shape (n,)."""
    behind: NDArray[np.int64]
    """Number of consecutive measurements away from all references, shape (n,)."""
    error: Array
    """Distances from the recent references [rad or m], shape (n,)."""
    counts: NDArray[np.int64]
    """Next row, number of known rows, references since the last measurement, further rows that a
    delayed measurement may belong to; whether the residual is measured, the last check was by
    effort; number of references within the lag of the drives; the blocked joint; whether no
    measurement has been found at rest since the reference moved, shape (9,)."""
    times: Array
    """Time since the reference moved, of the last period, max lag of the drives, period [s]."""

    @classmethod
    def of(cls, n: int) -> GuardState:
        """Return the memory of a guard of n joints without references."""
        return zeros(
            cls, n, ("free",), rows=np.full((_ROWS, 2, n), np.nan), reference=np.zeros((2, n)),
            behind=np.zeros(n, np.int64), counts=np.zeros(9, np.int64), times=np.zeros(4),
        )  # fmt: skip


_AT, _KNOWN, _UNMEASURED, _EXTRA, _HAS_RESIDUAL, _BY_EFFORT, _WITHIN_LAG, _BLOCKED, _WATCHED = (
    range(9)
)
_MOVED, _DT, _LAG, _PERIOD = range(4)


@cycle_part
def note_reference(guard: GuardState) -> int:
    """Store the reference of all joints."""
    counts, times = guard.counts, guard.times
    row, moves = guard.rows[counts[_AT]], False
    for j in range(row.shape[1]):
        position, speed = guard.reference[0, j], guard.reference[1, j]
        row[0, j] = position
        row[1, j] = position + speed * EXTRAPOLATED
        moves = moves or abs(speed) > 0.0
    counts[_AT] = (counts[_AT] + 1) % _ROWS
    counts[_KNOWN] = min(counts[_KNOWN] + 1, _ROWS)
    counts[_UNMEASURED] += 1
    counts[_EXTRA] = max(counts[_EXTRA] - 1, 0)
    times[_MOVED] = 0.0 if moves else times[_MOVED] + times[_DT]
    counts[_WATCHED] = max(counts[_WATCHED], int(moves))
    return 0


@cycle_part
def blocked_joint(guard: GuardState) -> int:
    """Compare a measurement with the recent references; return the blocked joint, or -1."""
    counts, times, n = guard.counts, guard.times, len(guard.position)
    measured = counts[_HAS_RESIDUAL] != 0
    # Measurements after a gap may be delayed by the duration of the gap.
    counts[_EXTRA] = max(counts[_EXTRA], counts[_UNMEASURED])
    counts[_UNMEASURED] = 0
    # A joint that was blocked while measurements were late is found once they are no more.
    late = counts[_WATCHED] * counts[_EXTRA] * times[_PERIOD]
    counts[_WATCHED] = int(times[_MOVED] <= times[_LAG] + SETTLES + late)
    if counts[_WATCHED] == 0 or counts[_KNOWN] == 0:
        for j in range(n):
            guard.preload[j] = guard.residual[j] if measured else 0.0
        return -1
    count = min(1 + counts[_WITHIN_LAG] + counts[_EXTRA], counts[_KNOWN])
    some_behind = False
    for j in range(n):
        low, high, known = math.inf, -math.inf, True
        for k in range(count):
            for each in guard.rows[(counts[_AT] - 1 - k) % _ROWS, :, j]:
                known = known and each == each
                low, high = min(low, each), max(high, each)
        away = max(low - guard.position[j], guard.position[j] - high)
        # 0 for joints without a reference.
        guard.error[j] = max(away, 0.0) if known else 0.0
        behind = not guard.free[j] and guard.error[j] > guard.tolerance[j]
        guard.behind[j] = guard.behind[j] + 1 if behind else 0
        some_behind = some_behind or behind
    if not measured and not some_behind:
        return -1
    worst, most, by_effort = -1, 1.0, 0
    for j in range(n):
        position, residual, preload = guard.position[j], guard.residual[j], guard.preload[j]
        at_end = position < guard.lower[j] + END_STOP or position > guard.upper[j] - END_STOP
        margin = math.inf if guard.free[j] or at_end else guard.margin[j]
        push, patience = 0.0, CONFIRMED
        if measured:
            # A preload decreases to its min value since the joints were at rest.
            lasting = min(abs(residual), abs(preload)) if residual * preload > 0.0 else 0.0
            guard.preload[j] = math.copysign(lasting, residual)
            push = abs(residual) / (margin + lasting)
            if math.isfinite(margin) and push < PUSH_SHARE:
                patience = NOT_DRIVEN
        # A burst of delayed messages is short; a blocked joint stays blocked.
        lasts = guard.behind[j] * times[_PERIOD] > patience
        if lasts and guard.error[j] > most * guard.tolerance[j]:
            worst, most, by_effort = j, guard.error[j] / guard.tolerance[j], 0
        if push > most:
            worst, most, by_effort = j, push, 1
    counts[_BY_EFFORT], counts[_BLOCKED] = by_effort, worst
    return worst


_note, _check = (cycle_function(GuardState.of(1))(f) for f in (note_reference, blocked_joint))


class JointGuard:
    """Compares measured joints with recent references."""

    def __init__(self, settings: GuardSettings, period: float) -> None:
        """Create a guard without references.

        Args:
            settings: thresholds.
            period: period of the references [s].
        """
        self.state = state = GuardState.of(len(settings.tolerance))
        self._note, self._check = _note.bind(state), _check.bind(state)
        state.times[_PERIOD] = period
        self.settings = settings
        self.reset()

    @property
    def settings(self) -> GuardSettings:
        """Thresholds."""
        return self._settings

    @settings.setter
    def settings(self, settings: GuardSettings) -> None:
        self._settings, state = settings, self.state
        state.margin[:] = settings.effort_margin
        state.lower[:], state.upper[:] = settings.lower, settings.upper
        state.times[_LAG] = settings.lag
        state.counts[_WITHIN_LAG] = math.ceil(settings.lag / state.times[_PERIOD])

    def reset(self) -> None:
        """Clear the references."""
        state = self.state
        state.rows[:] = np.nan
        state.counts[:_WITHIN_LAG] = state.behind[:] = 0
        state.times[_MOVED] = math.inf

    def note(self, reference: Array, speed: Array, dt: float) -> None:
        """Store a reference of all joints.

        Args:
            reference: positions [rad or m], shape (n,), NaN for joints without one.
            speed: velocities [rad/s or m/s], shape (n,), NaN for joints without one.
            dt: time since the last reference [s].
        """
        state = self.state
        state.reference[0], state.reference[1], state.times[_DT] = reference, speed, dt
        self._note()

    def note_preload(self, residual: Array | None) -> None:
        """Store the preload of joints at rest, or until they leave a contact.

        Args:
            residual: effort residual [N m or N], shape (n,); None if not measured.
        """
        self.state.preload[:] = 0.0 if residual is None else residual

    def check(
        self, position: Array, tolerance: Array, free: Mask, residual: Array | None = None
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
        self.state.position[:], self.state.free[:] = position, free
        self.set_inputs(tolerance, residual)
        return self.blocked() if self._check() >= 0 else None

    def set_inputs(self, tolerance: Array, residual: Array | None) -> None:
        """Set thresholds and residual of the next check, see :meth:`check`."""
        state = self.state
        state.tolerance[:] = tolerance
        state.counts[_HAS_RESIDUAL] = residual is not None
        if residual is not None:
            state.residual[:] = residual

    def blocked(self) -> Blocked:
        """Return the joint that the last check found."""
        state, i = self.state, int(self.state.counts[_BLOCKED])
        position, tolerance = state.position, state.tolerance
        measured = bool(state.counts[_HAS_RESIDUAL])
        at_end = (position < state.lower + END_STOP) | (position > state.upper - END_STOP)
        by_effort = np.isfinite(state.margin) & ~at_end
        return Blocked(
            joint=i,
            error=float(state.error[i]),
            tolerance=float(tolerance[i]),
            effort=float(state.residual[i]) if measured else math.nan,
            margin=float(state.margin[i]),
            by_effort=bool(state.counts[_BY_EFFORT]),
            guarded=(np.isfinite(tolerance) | by_effort) & ~state.free,
        )


NO_JOINTS: NDArray[np.intp] = np.empty(0, np.intp)


class ResyncState(NamedTuple):
    """Memory of n joints, arrays of shape (n,)."""

    error: Array
    """Reference minus measured position [rad or m]."""
    speed: Array
    """Measured velocities [rad/s or m/s]."""
    leading: Mask
    """Joints whose reference moves or may not be moved."""
    normal: Array
    """Tolerances below which errors are ignored [rad or m]."""
    never: Mask
    """Joints that may push permanently."""
    passes: NDArray[np.int64]
    """Corrections left; 0 without a request."""
    contact: Mask
    """Joints that were blocked."""
    corrected: Array
    """Differences before the last correction of a request, infinite before the first [rad or m]."""
    sag: Array
    """Steady-state errors [rad or m]."""
    rested: Array
    """Times at rest [s]."""
    away: Mask
    """Joints whose reference must be moved."""
    dt: Array
    """Time since the last call [s], shape (1,)."""

    @classmethod
    def of(cls, n: int) -> ResyncState:
        """Return the memory of n joints without requests."""
        masks = "leading", "never", "contact", "away"
        return zeros(cls, n, masks, passes=np.zeros(n, np.int64), dt=np.zeros(1))


@cycle_part
def count_away(s: ResyncState) -> int:
    """Update times and errors at rest; return the number of references to be moved."""
    count = 0
    for j in range(len(s.error)):
        size, requested = abs(s.error[j]), s.passes[j] > 0
        still = abs(s.speed[j]) < REST_SPEED and size < math.inf and not s.leading[j]
        s.rested[j] = s.rested[j] + s.dt[0] if still else 0.0
        ready = s.rested[j] >= REST_TIME
        s.away[j] = False
        if ready and not requested and size <= s.normal[j]:
            s.sag[j] = s.error[j]
        if not ready or not requested or s.never[j]:
            continue
        bound = min(AFTER_CONTACT, s.normal[j]) if s.contact[j] else s.normal[j]
        left = abs(s.error[j] - s.sag[j])
        # Positions that move with the reference are those of a wrong encoder, not of a contact.
        s.away[j] = left > bound and left <= CLOSER * s.corrected[j]
        s.corrected[j] = left
        s.passes[j] = s.passes[j] - 1 if s.away[j] else 0
        s.contact[j] = s.contact[j] and s.passes[j] > 0
        count += s.away[j]
    return count


_update = cycle_function(ResyncState.of(1))(count_away)


class Resync:
    """Requests to resynchronize joints with their references."""

    def __init__(self, n: int) -> None:
        self.state = state = ResyncState.of(n)
        self._update = _update.bind(state)
        self._passes, self._contact, self._rested = state.passes, state.contact, state.rested
        self.never: Mask = state.never
        """Joints that may push permanently, such as fingers, shape (n,)."""

    @property
    def sag(self) -> Array:
        """Steady-state errors of the joints at rest without contact [rad or m], shape (n,)."""
        return self.state.sag

    def request(self, joints: NDArray[np.intp], *, contact: bool = False) -> None:
        """Request the correction of joints as soon as they are at rest.

        Args:
            joints: indices, shape (k,).
            contact: whether they were blocked.
        """
        self._passes[joints] = CONTACT_PASSES if contact else 1
        self._contact[joints] = contact
        self._rested[joints] = 0.0
        self.state.corrected[joints] = math.inf

    def drop(self, joints: NDArray[np.intp]) -> None:
        """Cancel the requests of joints with a new command."""
        self._passes[joints] = 0
        self._contact[joints] = False
        self._rested[joints] = 0.0

    def update(
        self, dt: float, error: Array, speed: Array, leading: Mask, normal: Array | float
    ) -> NDArray[np.intp]:
        """Return joints whose reference must be moved to their measured positions, shape (k,).

        Args:
            dt: time since the last call [s].
            error: reference minus measured [rad or m], shape (n,).
            speed: measured velocities [rad/s or m/s], shape (n,).
            leading: joints whose reference moves or may not be moved, shape (n,).
            normal: tolerances below which errors are ignored [rad or m], shape (n,).
        """
        state = self.state
        state.error[:], state.speed[:], state.leading[:] = error, speed, leading
        state.normal[:], state.dt[0] = normal, dt
        return np.flatnonzero(state.away) if self._update() else NO_JOINTS


def gripper_joints(robot: Robot, joints: Sequence[str]) -> NDArray[np.bool_]:
    """Return which of the joints belong to a gripper, shape (n,)."""
    names = {joint for hand in robot.hands for joint in hand.joints}
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
