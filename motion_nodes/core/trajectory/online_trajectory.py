# SPDX-License-Identifier: Apache-2.0
"""Online trajectories to changing targets within velocity, acceleration and jerk limits.

Each joint moves independently, as fast as its limits allow, from its current state to its target.
Computed by Ruckig (Berscheid and Kröger, "Jerk-limited real-time trajectory generation with
arbitrary target states", RSS 2021) from state to state, without intermediate waypoints. Ruckig does
not support position limits; they are satisfied by choosing targets without overshoot. (The cases of
that choice are kept in one file.)

Velocities of one joint from which it can stop, or stop accelerating, within its limits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import ruckig
from numpy.typing import NDArray

from motion_nodes.core.robot.bounds import JOINT_POSITION
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.trajectory.joint_trajectory import TrajectorySample
from motion_nodes.errors import MotionError
from motion_nodes.kernels.cycle_code import cycle_function, cycle_part, zeros
from motion_nodes.tolerances import LIMIT_SHARE, RUCKIG_ACCELERATION, RUCKIG_STATE, SPEED_ROUNDING
from motion_nodes.typing import Array, Mask

FARTHEST = JOINT_POSITION.max
"""Position limits beyond this are ignored: Ruckig is numerically unstable at such distances [rad or
m]."""
_HORIZON = 1000.0
"""Max time to a target given to Ruckig, which supports at most two hours [s]."""
_UNLIMITED_VELOCITY = 1e6
"""Replaces an infinite velocity limit, which Ruckig does not support [rad/s or m/s]."""
_CHASE = 0.999
"""Max fraction of the velocity limit for a moving goal; the rest is for catching up."""
_GOAL_ACCELERATION = 0.9
"""Max fraction of the acceleration limit of a moving goal that is taken into account."""
_ACCELERATION_EXCESS = 0.04
"""The same for accelerations, which may exceed those of the points in between."""


def stopping_speed(room: float, acceleration: float, jerk: float) -> float:
    """Return the max velocity [rad/s or m/s] from which a joint can stop within a distance.

    Args:
        room: the distance [rad or m]; 0 or less gives 0.
        acceleration: limit, may be infinite [rad/s^2 or m/s^2].
        jerk: limit, may be infinite [rad/s^3 or m/s^3].

    Source: braking from v takes ``v/a + a/j`` at the mean velocity v/2, or ``2 sqrt(v/j)`` if the
    acceleration limit is not reached (v below ``a^2/j``); solved for v.
    """
    if room <= 0.0:
        return 0.0
    corner = acceleration * acceleration / jerk if math.isfinite(acceleration) else math.inf
    by_jerk = float(np.cbrt(room * room * jerk))
    if by_jerk <= corner:
        return by_jerk
    return 0.5 * (math.sqrt(corner * corner + 8.0 * acceleration * room) - corner)


def peak_velocity(velocity: Array, acceleration: Array, jerk: Array) -> Array:
    """Return velocities [rad/s or m/s] of joints whose acceleration decreases to 0 at the max jerk.

    Args:
        velocity: current velocities [rad/s or m/s], shape (n,).
        acceleration: current accelerations [rad/s^2 or m/s^2], shape (n,).
        jerk: limits, may be infinite [rad/s^3 or m/s^3], shape (n,).

    Source: the acceleration a falls linearly in the time ``a/j``.
    """
    return np.asarray(velocity + 0.5 * acceleration * np.abs(acceleration) / jerk)


def _solvable_acceleration(limits: JointLimits) -> Array:
    """Return acceleration limits that Ruckig supports: finite for joints with a jerk limit.

    Between opposite max velocities V the acceleration peaks at sqrt(2 V jerk); a limit of twice
    that is never active, while without one Ruckig misses targets.
    """
    peak = 2.0 * np.sqrt(2.0 * np.minimum(limits.velocity, _UNLIMITED_VELOCITY) * limits.jerk)
    return np.where(np.isinf(limits.acceleration), peak, limits.acceleration)


class LimiterState(NamedTuple):
    """Memory of a limiter of n joints; positions [rad or m], arrays of shape (n,)."""

    position: Array
    velocity: Array
    acceleration: Array
    """Reference."""
    lower: Array
    upper: Array
    fastest: Array
    """Limits: positions, and the velocity at which a target is approached."""
    sudden: Mask
    """Joints without limits of acceleration and jerk."""
    by_velocity: Mask
    goal: Array
    speed: Array
    goal_acceleration: Array
    """Inputs of this step, see :meth:`OnlineLimiter.step`."""
    last_by_velocity: Mask
    last_goal: Array
    last_speed: Array
    last_acceleration: Array
    """Inputs that the targets were computed from."""
    target_by_velocity: Mask
    target: Array
    target_speed: Array
    """Targets given to Ruckig."""
    frame: Array
    frame_acceleration: Array
    """Velocities and accelerations of moving goals; 0 for others."""
    flags: NDArray[np.int64]
    """Whether: the targets last until the inputs change; the joints rest at them; a goal moves or
    moved in the step before, so that Ruckig's state and limits must be written; shape (3,)."""

    @classmethod
    def of(cls, n: int) -> LimiterState:
        """Return the memory of n joints at zero."""
        masks = "sudden", "by_velocity", "last_by_velocity", "target_by_velocity"
        return zeros(cls, n, masks, flags=np.zeros(3, np.int64))


_LASTING, _RESTING, _CHASING = range(3)
SAME, SIMPLE, OTHER = range(3)
"""Kinds of targets: as before, new ones at rest, or new ones with velocities."""


@cycle_part
def begin_step(s: LimiterState) -> int:
    """Compare the inputs with the last ones, and set targets at rest.

    Returns:
        :data:`SAME`: the targets have not changed; :data:`SIMPLE`: new ones at rest were set;
        :data:`OTHER`: those with velocities, or of joints without limits, are to be set.
    """
    n, same, simple = len(s.position), s.flags[_LASTING] != 0, s.flags[_CHASING] == 0
    for j in range(n):
        same = same and s.by_velocity[j] == s.last_by_velocity[j] and s.goal[j] == s.last_goal[j]
        same = same and s.speed[j] == s.last_speed[j]
        same = same and s.goal_acceleration[j] == s.last_acceleration[j]
        simple = simple and s.speed[j] == 0.0 and not (s.by_velocity[j] and s.sudden[j])
    if same:
        return SAME
    s.flags[_RESTING] = 0
    lasting = 1
    for j in range(n):
        s.last_by_velocity[j], s.last_goal[j] = s.by_velocity[j], s.goal[j]
        s.last_speed[j], s.last_acceleration[j] = s.speed[j], s.goal_acceleration[j]
        if simple:
            position, reach = s.position[j], _HORIZON * s.fastest[j]
            # A joint outside of its limits stays there, or moves in as far as its target.
            goal, lower, upper = s.goal[j], s.lower[j], s.upper[j]
            lower = position if position < lower and goal >= position else lower
            upper = position if position > upper and goal <= position else upper
            goal = position if s.by_velocity[j] else min(max(goal, lower), upper)
            if abs(goal - position) > reach:
                goal, lasting = min(max(goal, position - reach), position + reach), 0
            s.target_by_velocity[j], s.target[j], s.target_speed[j] = s.by_velocity[j], goal, 0.0
    if simple:
        s.flags[_LASTING] = lasting
    return SIMPLE if simple else OTHER


@cycle_part
def end_step(s: LimiterState) -> int:
    """Set joints that have arrived exactly to their targets, to avoid creep.

    Returns:
        1 if Ruckig's state has to be written, otherwise 0.
    """
    written, resting = 0, s.flags[_LASTING]
    for j in range(len(s.position)):
        if s.flags[_CHASING] != 0:
            s.velocity[j] += s.frame[j]
            s.acceleration[j] += s.frame_acceleration[j]
        exact = s.position[j] if s.target_by_velocity[j] else s.target[j]
        off = max(abs(s.velocity[j]), abs(s.position[j] - exact))
        near = off < RUCKIG_STATE and abs(s.acceleration[j]) < RUCKIG_ACCELERATION
        if not near or s.target_speed[j] != 0.0:
            resting = 0
        elif off > 0.0 or s.acceleration[j] != 0.0:
            s.position[j], s.velocity[j], s.acceleration[j], written = exact, 0.0, 0.0, 1
    s.flags[_RESTING] = resting
    return written


_begin, _end = (cycle_function(LimiterState.of(1))(f) for f in (begin_step, end_step))


class OnlineLimiter:
    """Reference of n joints that tracks targets which may change at every step."""

    def __init__(self, limits: JointLimits) -> None:
        """Start at zero; call :meth:`reset` with the joint positions."""
        self._n = len(limits.names)
        self._limits = limits
        self._lower = np.where(limits.lower < -FARTHEST, -np.inf, limits.lower)
        self._upper = np.where(limits.upper > FARTHEST, np.inf, limits.upper)
        self._input, self._output = ruckig.InputParameter(self._n), ruckig.OutputParameter(self._n)
        self._solver = ruckig.Ruckig(self._n, 0.001)
        self._input.synchronization = ruckig.Synchronization.No
        self._acceleration_limit = _solvable_acceleration(limits)
        self._brake = ruckig.InputParameter(self._n)
        self._brake.control_interface = ruckig.ControlInterface.Velocity
        self._brake.synchronization = ruckig.Synchronization.No
        self._brake.target_velocity = self._no_speeds = [0.0] * self._n
        self._brake.max_velocity = [_UNLIMITED_VELOCITY] * self._n
        # Without limits no braking is needed: any finite value is valid for Ruckig.
        self._brake.max_acceleration = self._acceleration_limit.clip(max=1e9).tolist()
        self._brake.max_jerk = limits.jerk.tolist()
        self._brake_solver = ruckig.Ruckig(self._n)
        self._brake_way = ruckig.Trajectory(self._n)
        self._sudden = np.isinf(limits.acceleration) & np.isinf(limits.jerk)
        self._some_sudden = bool(self._sudden.any())
        self._velocity_limit = np.minimum(limits.velocity, _UNLIMITED_VELOCITY)
        self._input.max_acceleration = self._acceleration_limit.tolist()
        self._input.max_jerk = limits.jerk.tolist()
        self.state = state = LimiterState.of(self._n)
        self._begin, self._end = _begin.bind(state), _end.bind(state)
        state.lower[:], state.upper[:] = self._lower, self._upper
        state.sudden[:], state.fastest[:] = self._sudden, self._velocity_limit
        self._frame, self._frame_acceleration = state.frame, state.frame_acceleration
        self._chasing = False
        """Whether a goal moves."""
        self._interfaces = b""
        self.position: Array = state.position
        """Reference positions [rad or m]."""
        self.velocity: Array = state.velocity
        """Reference velocities [rad/s or m/s]."""
        self.acceleration: Array = state.acceleration
        """Reference accelerations [rad/s^2 or m/s^2]."""
        self.write_state()

    def reset(self, position: Array) -> None:
        """Reset to rest at ``position`` [rad or m], shape (n,)."""
        self.position[:] = position
        self.velocity[:] = 0.0
        self.acceleration[:] = 0.0
        self.write_state()
        self._solver.reset()
        self.state.flags[_LASTING] = 0

    def follow(self, joints: Mask, position: Array) -> None:
        """Set the reference of some joints to positions [rad or m], shape (n,); skips NaN."""
        np.copyto(self.position, position, where=joints & np.isfinite(position))
        self._input.current_position = self.position.tolist()
        self.state.flags[_LASTING] = 0

    def reachable(self, joints: Mask, sample: TrajectorySample, dt: float) -> Mask:
        """Return which joints can reach a trajectory's sample one step from now.

        Args:
            joints: that follow the trajectory, shape (n,).
            sample: their states one step from now, of shape (n,); NaN without a trajectory.
            dt: duration of the step [s].

        Positions and velocities that are connected by an acceleration within ``a`` in a time T lie
        within ``(a^2 T^2 - dv^2) / 4a`` of the mean of both velocities times T (a for a part of the
        time and -a for the rest). Samples accepted here thus satisfy the acceleration limit in
        second differences of positions, too.
        """
        mean = 0.5 * (self.velocity + sample.velocity)
        reach = self._acceleration_limit * (1.0 + _ACCELERATION_EXCESS)
        change = np.abs(sample.velocity - self.velocity)
        # Written as a product, because a limit may be infinite.
        most = 0.25 * (reach * dt - change) * (dt + change / reach)
        return np.asarray(
            joints
            & (np.abs(sample.velocity) <= self._velocity_limit * (1.0 + LIMIT_SHARE))
            & (change <= reach * dt)
            & (np.abs(sample.position - self.position - mean * dt) <= most)
            # A reference outside its limits may return at the speed of the trajectory.
            & (sample.position >= np.minimum(self._lower, self.position) - LIMIT_SHARE)
            & (sample.position <= np.maximum(self._upper, self.position) + LIMIT_SHARE)
        )

    def resting(self, by_velocity: Mask, goal: Array, speed: Array) -> Mask:
        """Return which joints are at rest at their targets; arguments as for :meth:`step`."""
        still = (self.velocity == 0.0) & (self.acceleration == 0.0) & (speed == 0.0)
        return np.asarray(still & (by_velocity | (self.position == goal)))

    def rests(self, by_velocity: Mask, goal: Array, speed: Array) -> bool:
        """Return whether all joints are at rest at their targets; see :meth:`resting`."""
        if any(map(np.count_nonzero, (self.velocity, self.acceleration, speed))):
            return False
        return bool((by_velocity | (self.position == goal)).all())

    def set_state(self, joints: Mask, sample: TrajectorySample) -> None:
        """Set the reference of some joints to a trajectory's sample, of shape (n,)."""
        np.copyto(self.position, sample.position, where=joints)
        np.copyto(self.velocity, sample.velocity, where=joints)
        np.copyto(self.acceleration, sample.acceleration, where=joints)
        self.write_state()
        self.state.flags[_LASTING] = 0

    def step(
        self,
        by_velocity: Mask,
        goal: Array,
        speed: Array,
        dt: float,
        acceleration: Array | None = None,
    ) -> None:
        """Advance the reference by one step.

        A joint that starts within its position limits stays within; one that starts outside returns
        to the nearest limit, or holds its position under velocity control.

        Args:
            by_velocity: joints that follow ``speed`` alone, shape (n,), until a position limit; the
                others move to ``goal``.
            goal: target positions [rad or m], shape (n,), finite where used; clamped to the
                position limits.
            speed: target velocities [rad/s or m/s], shape (n,), finite. A goal with a velocity
                moves: ``goal`` is its position at the end of this step. It is limited so that the
                joint can brake before the position limits on either side.
            dt: duration of the step [s]; nothing moves unless it is finite and above 0.
            acceleration: of goals with a velocity [rad/s^2 or m/s^2], shape (n,), finite; without
                it the reference lags behind a goal whose velocity changes.

        Raises:
            MotionError: limits and state are contradictory; nothing moved.
        """
        if not 0.0 < dt < math.inf:
            return
        state = self.state
        state.by_velocity[:], state.goal[:], state.speed[:] = by_velocity, goal, speed
        state.goal_acceleration[:] = 0.0 if acceleration is None else acceleration
        self.plan_step(self._begin(), dt)
        if not state.flags[_RESTING] and self._end():
            self.write_state()

    def plan_step(self, targets: int, dt: float) -> None:
        """Let Ruckig compute the next state from the inputs in the memory.

        Args:
            targets: kind of the targets, from :func:`begin_step`.
            dt: duration of the step [s].

        Raises:
            MotionError: see :meth:`step`.
        """
        state = self.state
        if targets == SIMPLE:
            self._write_interfaces(state.target_by_velocity)
            self._input.target_position = state.target.tolist()
            self._input.target_velocity = self._no_speeds
        elif targets == OTHER:
            inputs = state.by_velocity, state.goal, state.speed, state.goal_acceleration
            self._set_targets(*inputs, dt)
        if state.flags[_RESTING]:
            return
        self._solver.delta_time = dt
        try:
            self._plan(dt)
        except (ruckig.RuckigError, ValueError) as error:
            state.flags[_LASTING] = 0
            self._stand()
            self.write_state()
            raise MotionError(f"no trajectory to the target within the limits: {error}") from error
        output = self._output
        output.pass_to_input(self._input)
        self.position[:] = output.new_position
        self.velocity[:] = output.new_velocity
        self.acceleration[:] = output.new_acceleration

    def _plan(self, dt: float) -> None:
        """Let Ruckig compute the next state; brake if there is no solution."""
        state = self.state
        if self._chasing:
            self.write_state(dt)
        try:
            self._solver.update(self._input, self._output)
            if self._chasing and np.count_nonzero(self._frame_acceleration):
                self._respect_velocity_limits(dt)
            late = self._late_to_brake() if self._chasing else None
            if late is not None and late.any():
                # Near a limit Ruckig would turn around too late to stop before it.
                state.target_speed[late] = 0.0
                self._stop_chasing(late, dt)
        except (ruckig.RuckigError, ValueError):
            # No solution because of rounding at a limit: brake; the next state has one.
            state.target_by_velocity[:], state.target_speed[:] = True, 0.0
            self._write_interfaces(state.target_by_velocity)
            self._input.target_velocity = self._no_speeds
            self.velocity[self._sudden] = 0.0
            self._stop_chasing(state.target_by_velocity, dt)

    def _respect_velocity_limits(self, dt: float) -> None:
        """Recompute the next state of joints that could not stop accelerating at their limits.

        Ruckig limits the velocity in the frame of a goal, regardless of the frame's acceleration.
        """
        velocity = self._frame + self._output.new_velocity
        acceleration = self._frame_acceleration + self._output.new_acceleration
        peak = peak_velocity(velocity, acceleration, self._limits.jerk)
        fast = np.abs(peak) > self._velocity_limit
        if np.count_nonzero(fast & (self._frame_acceleration != 0.0)):
            self._frame_acceleration[fast] = 0.0
            self.write_state(dt)
            self._solver.update(self._input, self._output)

    def _stop_chasing(self, joints: Mask, dt: float) -> None:
        """Recompute the next state with some joints' goals at rest."""
        self.state.flags[_LASTING] = 0
        self._frame[joints] = self._frame_acceleration[joints] = 0.0
        self.write_state(dt)
        self._solver.update(self._input, self._output)

    def _late_to_brake(self) -> Mask:
        """Return which joints, braked from the next state, would exceed their position limits."""
        brake = self._brake
        brake.current_position = self._output.new_position
        brake.current_velocity = (self._frame + self._output.new_velocity).tolist()
        brake.current_acceleration = (
            self._frame_acceleration + self._output.new_acceleration
        ).tolist()
        self._brake_solver.calculate(brake, self._brake_way)
        extrema = self._brake_way.position_extrema
        lowest, highest = np.array([(bound.min, bound.max) for bound in extrema]).T
        return np.asarray((lowest < self._lower) | (highest > self._upper)) & ~self._sudden

    def _set_targets(
        self, by_velocity: Mask, goal: Array, speed: Array, acceleration: Array, dt: float
    ) -> None:
        """Set Ruckig's targets and velocity limits such that the limits are never exceeded."""
        state = self.state
        written = not state.flags[_CHASING]
        state.fastest[:] = self._velocity_limit
        self._stand()
        # A joint outside of its limits stays there, or moves in as far as its target.
        here = self.position
        lower = np.where((here < self._lower) & (goal >= here), here, self._lower)
        upper = np.where((here > self._upper) & (goal <= here), here, self._upper)
        goal = np.where(by_velocity, here, goal.clip(lower, upper))
        to_limit, moves = False, bool(np.count_nonzero(speed))
        if moves:
            by_velocity = by_velocity.copy()
            speed, to_limit = self._set_speeds(by_velocity, goal, speed, acceleration, dt)
            self._chasing = bool(self._frame.any())
        reach = _HORIZON * state.fastest
        lasting = not (to_limit or self._chasing)
        if np.count_nonzero(np.abs(goal - self.position) > reach):
            goal, lasting = goal.clip(self.position - reach, self.position + reach), False
        if self._some_sudden and np.count_nonzero(by_velocity & self._sudden):
            # Ruckig finds no solution between velocities without acceleration limits.
            np.copyto(self.velocity, speed, where=by_velocity & self._sudden)
            written = lasting = False
        state.flags[_LASTING], state.flags[_CHASING] = lasting, moves
        state.target_by_velocity[:], state.target[:], state.target_speed[:] = (
            by_velocity, goal, speed,
        )  # fmt: skip
        given = self._input
        self._write_interfaces(by_velocity)
        given.target_position = goal.tolist()
        given.target_velocity = (speed * by_velocity).tolist() if moves else self._no_speeds
        if moves or not written:
            self.write_state(dt)

    def _set_speeds(
        self, by_velocity: Mask, goal: Array, speed: Array, acceleration: Array, dt: float
    ) -> tuple[Array, bool]:
        """Set the frame, and change ``by_velocity`` and ``goal``, for targets with velocities.

        Returns:
            Remaining velocities, shape (n,), and whether velocity control leads to a limit.
        """
        fastest = self.state.fastest
        frame, frame_acceleration = self._frame, self._frame_acceleration
        speed, to_limit = speed.clip(-fastest, fastest), False
        for i in speed.nonzero()[0].tolist():
            if not by_velocity[i] and self._sudden[i]:
                speed[i] = 0.0  # such a joint jumps along with its goal
                continue
            if not by_velocity[i]:
                bound = min(self._passing_speed(i, goal[i], abs(speed[i]), dt), _CHASE * fastest[i])
                if abs(speed[i]) <= bound:
                    most = _GOAL_ACCELERATION * self._acceleration_limit[i]
                    frame_acceleration[i] = min(max(acceleration[i], -most), most)
                speed[i] = frame[i] = min(max(speed[i], -bound), bound)
                continue
            limit = self._upper[i] if speed[i] > 0.0 else self._lower[i]
            if math.isinf(limit):
                continue
            # Velocity control until a limit is equivalent to moving to the limit at that velocity.
            to_limit = True
            room = (limit - self.position[i]) * math.copysign(1.0, speed[i])
            if room > 0.0 and abs(speed[i]) >= SPEED_ROUNDING:
                by_velocity[i], goal[i], fastest[i] = False, limit, abs(speed[i])
            speed[i] = 0.0
        return speed, to_limit

    def _stand(self) -> None:
        """Let no goal move."""
        if self._chasing:
            self._frame[:] = self._frame_acceleration[:] = 0.0
            self._chasing = False

    def _passing_speed(self, i: int, goal: float, desired: float, dt: float) -> float:
        """Return the velocity at a goal that permits braking, even one step late."""
        room = float(min(goal - self._lower[i], self._upper[i] - goal))
        limits = float(self._acceleration_limit[i]), float(self._limits.jerk[i])
        return stopping_speed(room - min(desired, stopping_speed(room, *limits)) * dt, *limits)

    def _write_interfaces(self, by_velocity: Mask) -> None:
        """Set which joints Ruckig moves by velocity alone."""
        key = by_velocity.tobytes()
        if key != self._interfaces:
            kinds = (ruckig.ControlInterface.Position, ruckig.ControlInterface.Velocity)
            self._input.per_dof_control_interface = [kinds[v] for v in by_velocity.tolist()]
            self._interfaces = key

    def write_state(self, dt: float = 0.0) -> None:
        """Set Ruckig's current state and velocity limits.

        A moving goal is tracked in a frame that moves with it, where it is at rest. The frame is at
        its place at the end of the step of ``dt`` [s].
        """
        given, frame = self._input, self._frame
        acceleration, limit = self._frame_acceleration, self._acceleration_limit
        given.current_position = (self.position + (frame - 0.5 * dt * acceleration) * dt).tolist()
        given.current_velocity = (self.velocity - frame + dt * acceleration).tolist()
        given.current_acceleration = (self.acceleration - acceleration).tolist()
        given.max_acceleration = (limit - acceleration).tolist()
        given.min_acceleration = (-limit - acceleration).tolist()
        given.max_velocity = (self.state.fastest - frame).tolist()
        given.min_velocity = (-self.state.fastest - frame).tolist()
