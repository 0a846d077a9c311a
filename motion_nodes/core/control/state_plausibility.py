# SPDX-License-Identifier: Apache-2.0
"""Plausibility of measured joint states and of their source; several senders of one command.

- :class:`EncoderTurns`: whole turns of continuous joints that a driver reports within one turn.
- :class:`StatePlausibility`: whether a position is reachable from the last one within the velocity
  limit. A slipping encoder or a corrupt message reports unreachable positions.
- :class:`FrozenStates`: states that are constant while the references of the joints move, as from
  a driver that repeats its last measurement.
- :class:`StandingJoints`: joints that stay where they are, by their positions alone: states that
  arrive late and all at once are those of a motion that is over.
- :class:`SourceWatch`: several publishers that report (or command) the same joints.
- :class:`SenderWatch`: several publishers that command one robot alternately.

Implausible positions are ignored; if states are frozen, or have several publishers, the state of
the robot counts as lost.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.robot.bounds import SPEED_FACTOR, VELOCITY, max_plausible_step
from motion_nodes.core.robot.limits import TURN, JointLimits, JointTurns, no_turns
from motion_nodes.kernels.cycle_code import cycle_function, cycle_part, zeros
from motion_nodes.tolerances import MEASURED_NOISE
from motion_nodes.typing import Array, Mask

CONFIRMED = 0.04
"""Min duration of a moving reference with constant states, in addition to the drives' lag [s]."""
REPEATS = 3
"""Min number of equal measurements of a frozen joint during its motion."""
MOVED = 1e-4
"""Distance of a reference from which a motion counts [rad or m]."""
CONTRADICTION = 0.02
"""Min reported velocity of a joint that is not at rest [rad/s or m/s]."""
STANDS = 0.15
"""Min time for which joints stay where they are [s]."""
STAYED = 3e-3
"""Max distance from where they are in that time, for noise and coarse encoders [rad or m]."""
SPAN = 2.0
"""Time window in which changes of the publisher are counted [s]."""
CHANGES = 3
"""Number of changes within the window that a single takeover between publishers does not reach."""

WRAPPED_RANGE = TURN + 1e-3
"""Max absolute position of encoders that wrap [rad]: their ranges are [-pi, pi), [0, 2 pi) or
(-2 pi, 2 pi)."""

MAX_GAP = 10.0
"""Bound of the time between two measurements of which velocities are used [s]."""

_NO_JOINTS: NDArray[np.intp] = np.empty(0, np.intp)


class EncoderTurns:
    """Unwraps measured positions of n joints where they come in.

    A driver may report continuous joints within one turn, [-pi, pi) or [0, 2 pi), or, as Isaac Sim
    does, within (-2 pi, 2 pi). A step that only a wrap explains is counted as whole turns. A joint
    that was ever reported beyond that range does not wrap: its steps are what they are, so that
    jumps are noticed, and no turn is lost in a gap of the messages. Neither does a joint whose
    reported velocities contradict the step that a wrap would leave.
    """

    def __init__(self, turns: JointTurns, max_velocity: Array) -> None:
        """Create without measurements.

        Args:
            turns: of the joints.
            max_velocity: velocity limits [rad/s or m/s], shape (n,); may be infinite.
        """
        n = len(max_velocity)
        self.turns, self.used = turns, turns.any
        self._fastest = SPEED_FACTOR * np.minimum(max_velocity, VELOCITY.max)
        self._raw: Array = np.full(n, np.nan)
        self._velocity: Array = np.full(n, np.nan)
        self._shift: Array = np.zeros(n)
        self._stamps: NDArray[np.int64] = np.zeros(n, np.int64)
        self._counts: NDArray[np.bool_] = ~turns.continuous
        """Joints that do not wrap."""
        self._moved: NDArray[np.bool_] = np.zeros(n, np.bool_)
        """Joints whose velocity was reported at least once."""

    def forget(self) -> None:
        """Take the next positions as they are reported."""
        self._raw[:] = self._velocity[:] = np.nan
        self._shift[:] = 0.0

    def rest(self, stamp_ns: int) -> None:
        """Note that all joints were measured where they were, at a stamp [ns]."""
        self._stamps[:] = stamp_ns

    def unwrap(
        self, joints: NDArray[np.intp], stamp_ns: int, raw: Array, velocity: Array, since: Array
    ) -> tuple[Array, Array]:
        """Return unwrapped positions; :meth:`keep` accepts them.

        Args:
            joints: indices, shape (k,).
            stamp_ns: stamp of the measurement [ns].
            raw: reported positions [rad or m], shape (k,).
            velocity: reported velocities [rad/s or m/s], shape (k,); NaN if not reported.
            since: time since the last measurement was received [s], shape (k,), where stamps do not
                increase. Where half a turn or more is possible in this time, the velocities decide;
                otherwise the shorter way.

        Returns:
            Positions [rad or m], and whole turns [rad] for :meth:`keep`, shape (k,) each.
        """
        shift, step = self._shift[joints], raw - self._raw[joints]
        passed = (stamp_ns - self._stamps[joints]) * 1e-9
        dt: Array = np.minimum(np.where(passed > 0.0, passed, since), MAX_GAP)
        last, farthest = self._velocity[joints], self._fastest[joints] * dt
        expected: Array = np.zeros(len(raw))
        if np.count_nonzero(farthest >= math.pi):
            mean, doubt = 0.5 * (velocity + last) * dt, 0.5 * np.abs(velocity - last) * dt
            decides = (farthest >= math.pi) & (np.abs(mean) <= farthest) & (doubt < math.pi)
            expected = np.where(decides, mean, 0.0)
        # Comparisons with NaN are false, so the first measurement is taken as it is.
        wraps = (np.abs(step - expected) > math.pi) & (np.abs(raw) <= WRAPPED_RANGE)
        wraps &= ~self._counts[joints]
        if not np.count_nonzero(wraps):
            return raw + shift, shift
        step = np.where(wraps, step, 0.0)
        turns = TURN * np.rint((step - expected) / TURN)
        speed = np.asarray(np.fmax(np.abs(velocity), np.abs(last)), np.float64)
        reach = np.where(self._moved[joints], max_plausible_step(speed, dt), np.inf)
        wraps &= np.abs(step - turns) <= reach
        shift = np.where(wraps, shift - turns, shift)
        return raw + shift, shift

    def keep(
        self, joints: NDArray[np.intp], stamp_ns: int, raw: Array, velocity: Array, shift: Array
    ) -> None:
        """Keep accepted measurements.

        Args:
            joints: indices, shape (k,).
            stamp_ns: their stamp [ns].
            raw: reported positions [rad or m], shape (k,).
            velocity: reported velocities [rad/s or m/s], shape (k,); NaN if not reported.
            shift: their turns, from :meth:`unwrap` [rad], shape (k,).
        """
        self._raw[joints], self._velocity[joints], self._shift[joints] = raw, velocity, shift
        self._stamps[joints] = stamp_ns
        self._counts[joints] |= np.abs(raw) > WRAPPED_RANGE
        self._moved[joints] |= np.abs(velocity) > CONTRADICTION


def encoder_turns(names: Sequence[str], limits: JointLimits | None) -> EncoderTurns:
    """Return the unwrapping of some joints.

    Args:
        names: the joints.
        limits: of these and perhaps other joints; None: no joint is continuous.

    Raises:
        UnknownJoint: a joint without limits.
    """
    if limits is None:
        return EncoderTurns(no_turns(len(names)), np.zeros(len(names)))
    chosen = limits.select(names)
    return EncoderTurns(chosen.turns, chosen.velocity)


class StatePlausibility:
    """Bounds the steps of measured positions of n joints."""

    def __init__(self, max_velocity: Array) -> None:
        """Create the check.

        Args:
            max_velocity: velocity limits [rad/s or m/s], shape (n,); infinite: not checked.
        """
        self._max_velocity = max_velocity

    def possible(
        self, joints: NDArray[np.intp], before: Array, after: Array, dt: Array
    ) -> NDArray[np.bool_]:
        """Return which joints can have reached a position.

        Args:
            joints: indices, shape (k,).
            before: last accepted positions [rad or m], shape (k,); NaN where there is none.
            after: reported positions [rad or m], shape (k,).
            dt: time since the last accepted position was received [s], shape (k,).

        Returns:
            Mask of shape (k,).
        """
        reach = max_plausible_step(self._max_velocity[joints], dt)
        with np.errstate(invalid="ignore"):
            return ~(np.abs(after - before) > reach)


class FrozenState(NamedTuple):
    """Memory of n joints, arrays of shape (n,) if not stated."""

    measured: Array
    """Last measured positions, velocities and efforts, shape (3, n)."""
    measured_bits: NDArray[np.int64]
    """The same memory as integers."""
    new_bits: NDArray[np.int64]
    """Measurement to be compared, as integers, shape (3, n)."""
    updated: Mask
    """Joints that were measured."""
    exempt: Mask
    """Joints that are not checked."""
    frozen: Mask
    """Frozen joints."""
    position: Array
    velocity: Array
    """New reference [rad or m], [rad/s or m/s]; NaN for joints without one."""
    reference: Array
    """Last reference [rad or m]."""
    steps: Array
    """Distance of the references since the last measurement."""
    travel: Array
    """Distance of the references since the last change of the measurements."""
    elapsed: Array
    """Time of this motion [s]."""
    repeats: NDArray[np.int64]
    """Number of equal measurements."""
    times: Array
    """Time of the references since the last measurement, period, lag of the drives [s]."""

    @classmethod
    def of(cls, n: int) -> FrozenState:
        """Return the memory of n joints."""
        measured, new = np.full((3, n), np.nan), np.zeros((3, n), np.int64)
        return zeros(
            cls, n, ("updated", "exempt", "frozen"), measured=measured, new_bits=new,
            measured_bits=measured.view(np.int64), repeats=np.zeros(n, np.int64), times=np.zeros(3),
        )  # fmt: skip


_TIME, _DT, _LAG = range(3)


@cycle_part
def add_reference(s: FrozenState) -> int:
    """Add the step of a reference; return whether a joint moves."""
    moving = 0
    for j in range(len(s.position)):
        speed = abs(s.velocity[j]) if s.velocity[j] == s.velocity[j] else 0.0
        step = abs(s.position[j] - s.reference[j])
        s.steps[j] += step if step == step else speed * s.times[_DT]
        s.reference[j] = s.position[j]
        if speed > 0.0:
            moving = 1
    return moving


@cycle_part
def frozen_joints(s: FrozenState) -> int:
    """Compare a measurement with the last one; return the number of frozen joints."""
    n, thawed = len(s.position), False
    for j in range(n):
        # Repetitions count from the start of the motion: late measurements are not frozen ones.
        if not s.travel[j] > MOVED:
            s.repeats[j] = 0
        s.travel[j] += s.steps[j]
        if s.travel[j] > MOVED:
            s.elapsed[j] += s.times[_TIME]
        s.steps[j], changed = 0.0, False
        for k in range(3):
            changed = changed or s.new_bits[k, j] != s.measured_bits[k, j]
            s.measured_bits[k, j] = s.new_bits[k, j]
        s.repeats[j] += s.updated[j]
        if changed:
            s.repeats[j], s.travel[j], s.elapsed[j] = 0, 0.0, 0.0
            thawed = thawed or s.frozen[j]
    s.times[_TIME] = 0.0
    suspicious, contradicted, frozen = 0, False, 0
    for j in range(n):
        s.frozen[j] = s.frozen[j] and not thawed
        frozen += s.frozen[j]
        if _is_suspicious(s, j):
            suspicious += 1
            contradicted = contradicted or abs(s.measured[1, j]) > CONTRADICTION
    if suspicious > 1 or contradicted:
        for j in range(n):
            s.frozen[j] = _is_suspicious(s, j)
        frozen = suspicious
    return frozen


@cycle_part
def _is_suspicious(s: FrozenState, j: int) -> bool:
    """Return whether a joint's measurements were equal for long while its reference moved."""
    lasting = s.elapsed[j] > s.times[_LAG] + CONFIRMED and s.repeats[j] >= REPEATS
    return lasting and s.travel[j] > MEASURED_NOISE and not s.exempt[j]


_command, _measure = (cycle_function(FrozenState.of(1))(f) for f in (add_reference, frozen_joints))


class FrozenStates:
    """Detects measurements of n joints that are repeated while the references move.

    A joint is a candidate once its reference has travelled more than
    :data:`~motion_nodes.tolerances.MEASURED_NOISE`, for longer than the lag of the drives, with
    bitwise equal measurements. Two candidates are frozen, because noise and motion change at least
    the last bits of real measurements. A single candidate may be blocked and have a coarse encoder;
    it is frozen if its reported velocity contradicts its constant position.
    """

    def __init__(self, lag: float, exempt: NDArray[np.bool_]) -> None:
        """Create the check.

        Args:
            lag: max lag of the drives and of the measurement [s].
            exempt: joints that are not checked, such as fingers that hold an object, shape (n,).
        """
        self.state = state = FrozenState.of(len(exempt))
        self._command, self._measure = _command.bind(state), _measure.bind(state)
        self._new: Array = state.new_bits.view(np.float64)
        state.exempt[:], state.times[_LAG] = exempt, lag
        self._resting: Array | None = None
        """The last reference, if it is read-only and at rest."""
        self.reset()

    def reset(self) -> None:
        """Reset, with no joint frozen."""
        state = self.state
        self.joints = _NO_JOINTS
        """Indices of the frozen joints; cleared as soon as the measurement of one changes."""
        self._resting = None
        state.frozen[:], state.reference[:] = False, np.nan
        state.steps[:] = state.travel[:] = state.elapsed[:] = state.times[_TIME] = 0.0

    def measure(
        self,
        position: Array,
        velocity: Array,
        effort: Array,
        updated: NDArray[np.bool_] | None = None,
    ) -> None:
        """Compare a measurement with the last one, and update :attr:`joints`.

        Args:
            position: positions [rad or m], shape (n,).
            velocity: velocities [rad/s or m/s], shape (n,).
            effort: efforts [N m or N], shape (n,), NaN where not measured.
            updated: joints that were measured, shape (n,); None: all.
        """
        new = self._new
        new[0], new[1], new[2] = position, velocity, effort
        self.state.updated[:] = True if updated is None else updated
        self.joints = np.flatnonzero(self.state.frozen) if self._measure() else _NO_JOINTS

    def command(self, position: Array, velocity: Array, dt: float) -> None:
        """Process a reference.

        Args:
            position: reference positions [rad or m], shape (n,), NaN for joints without one.
            velocity: reference velocities [rad/s or m/s], shape (n,), NaN for joints without one.
            dt: time since the last reference [s].
        """
        state = self.state
        state.times[_TIME] += dt
        if position is self._resting:
            return
        state.position[:], state.velocity[:], state.times[_DT] = position, velocity, dt
        moves = self._command() or position.flags.writeable
        self._resting = None if moves else position


class StandingJoints:
    """Whether joints have been where they are for :data:`STANDS`."""

    def __init__(self) -> None:
        self._place: Array | None = None
        self._since = 0.0

    @property
    def waiting(self) -> bool:
        """Whether there was a measurement since the last :meth:`forget`."""
        return self._place is not None

    def forget(self) -> None:
        """Begin anew with the next measurement."""
        self._place = None

    def update(self, position: Array, now: float) -> bool:
        """Return whether the joints stand, by a new measurement.

        Args:
            position: measured positions [rad or m], shape (n,).
            now: monotonic time [s].
        """
        if self._place is None or np.abs(position - self._place).max(initial=0.0) > STAYED:
            self._place, self._since = position.copy(), now
        return now - self._since >= STANDS


class SourceWatch:
    """Detects several publishers that report or command the same of n joints.

    Sequence numbers of a publisher increase; a number that does not belongs to another publisher.
    """

    def __init__(self, n: int) -> None:
        self._numbers: NDArray[np.int64] = np.full(n, -1, np.int64)
        self._newest: tuple[NDArray[np.intp], int] | None = None
        """Joints and number of the last message, not in the numbers yet."""
        self._changes: deque[float] = deque(maxlen=CHANGES)
        self._joint = 0

    def note(self, joints: NDArray[np.intp], number: int | None, now: float) -> None:
        """Process a message.

        Args:
            joints: indices of the joints in the message.
            number: sequence number of its publisher; None if the middleware has none.
            now: monotonic time [s].
        """
        if number is None or not len(joints):
            return
        newest, self._newest = self._newest, (joints, number)
        if newest is not None:
            if joints is newest[0] and number > newest[1]:
                return
            self._numbers[newest[0]] = newest[1]
        repeated = number <= self._numbers[joints]
        if np.count_nonzero(repeated):
            self._changes.append(now)
            self._joint = int(joints[int(np.argmax(repeated))])

    def rival(self, now: float) -> int | None:
        """Return a joint with several publishers; None if there is at most one."""
        full = len(self._changes) == CHANGES
        return self._joint if full and now - self._changes[0] <= SPAN else None


class SenderWatch:
    """Detects several publishers that command one robot alternately.

    Publishers number their messages, so a sequence number that does not increase, or another topic,
    means another publisher. One such change is a handover, several in a short time a conflict.
    """

    SPAN = 2.0
    """[s] Time window in which changes are counted."""
    CONFLICT = 3
    """Number of changes in the window that counts as a conflict."""

    def __init__(self) -> None:
        self._last: tuple[str, int | None] | None = None
        self._changes: tuple[tuple[float, str], ...] = ()  # replaced: diagnostics read it

    def received(self, topic: str, number: int | None, now: float) -> None:
        """Record a received message.

        Args:
            topic: topic name.
            number: publication sequence number; None if not supported.
            now: time [s].
        """
        last, self._last = self._last, (topic, number)
        if last is None:
            return
        increased = number is None or last[1] is None or number > last[1]
        if topic != last[0] or not increased:
            self._changes = (*self._changes, (now, topic))[-self.CONFLICT :]

    def competing(self, now: float) -> tuple[str, ...]:
        """Return the topics of conflicting publishers at a time [s]; empty without a conflict."""
        changes = self._changes
        if len(changes) < self.CONFLICT or not 0.0 <= now - changes[0][0] <= self.SPAN:
            return ()
        return tuple(sorted({topic for _, topic in changes}))
