# SPDX-License-Identifier: Apache-2.0
"""Joint drives with efforts computed by the suite; control modes select the active gains.

    tau = kp (q* - q) + I + kd (v* - v) + effort + load,   |tau| <= max_effort

The load is the feedforward of the robot's model (gravity, inertia), so that the gains only
compensate model errors.

Position mode uses all stored gains, velocity mode only kd, effort mode no gains and no load. A mode
switch does not change the stored gains. The integral I (ki, usually 0) and its anti-windup are
those of :class:`Pid`.

:class:`Pid` is a discrete PID controller for any number of joints:

    u = kp e + I + D,                       e = r - y
    I <- I + ki e dt + (u_sat - u) dt / Tt  (back-calculation, where ki > 0)
    D <- (D - kd N (y - y_before)) / (1 + N dt)

The derivative acts on the measurement, which avoids a kick at steps of the reference, with a
first-order filter of corner frequency N (backward Euler); the integral is a rectangle sum. Source:
Åström and Murray, "Feedback Systems", sections 10.4 and 10.5; the derivative is ``kd s / (1 + s /
N)`` with ``alpha = N dt / (1 + N dt)``.

Position-controlled drives have no effort limit per command; the effort of one is its stiffness
times the position error. A reference within ``limit / stiffness`` of the joint bounds it:

    |q* - q| <= limit / kp   =>   |kp (q* - q)| <= limit

The joint's position is filtered (first order): the drive receives references with a delay, and a
reference relative to the newest position would oscillate. The lag of the filter acts as a damper on
a joint that moves towards its target. The reference satisfies the joint's velocity and acceleration
limits for any measurement: at distance d behind its goal, it is faster by at most ``sqrt(2 a d)``.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.control.joint_command import ControlMode, JointReference
from motion_nodes.core.robot.inverse_dynamics import InverseDynamics
from motion_nodes.core.robot.limits import JointLimits, joint_indices
from motion_nodes.core.robot.tree import frozen
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.tolerances import EXACT_POSITIONS
from motion_nodes.typing import Array

FILTER_TIME = 0.02
"""Time constant of the filter [s]; several periods of the stream and of its latency."""


@dataclass(frozen=True, eq=False)
class PidConfig:
    """Gains of n joints; each field is a scalar for all of them or one number per joint.

    Raises:
        InvalidConfig: inconsistent lengths, values that are not finite (except ``limit``, which may
            be infinite), negative gains, or times and corner frequencies that are not positive.
    """

    kp: ArrayLike
    """Proportional gain [N m/rad]."""
    ki: ArrayLike = 0.0
    """Integral gain [N m/(rad s)]."""
    kd: ArrayLike = 0.0
    """Derivative gain [N m s/rad]."""
    limit: ArrayLike = np.inf
    """Output limit [N m]; the output is clamped to +- limit."""
    derivative_corner: ArrayLike = 100.0
    """Corner frequency N of the derivative's filter [rad/s]."""
    tracking_time: ArrayLike = 0.0
    """Time constant Tt of the anti-windup [s]; 0 selects sqrt(Ti Td), or Ti/2 if kd is 0, with Ti =
    kp/ki and Td = kd/kp, or 1 s if kp is 0."""

    def __post_init__(self) -> None:
        """Validate the values and broadcast all fields to one length."""
        arrays = {}
        for field in fields(self):
            try:
                arrays[field.name] = np.atleast_1d(np.asarray(getattr(self, field.name), float))
            except (TypeError, ValueError):
                raise InvalidConfig(f"PID {field.name} must be numbers", field=field.name) from None
        lengths = {name: len(a) for name, a in arrays.items() if a.ndim == 1 and len(a) > 1}
        if any(a.ndim != 1 or len(a) == 0 for a in arrays.values()) or len({*lengths.values()}) > 1:
            shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise InvalidConfig(
                f"PID fields must be of one length, one number per joint; got {shown}",
                field="gains",
            )
        n = max(lengths.values(), default=1)
        for name, array in arrays.items():
            strictly = name in ("limit", "derivative_corner")
            good = (array > 0.0) if strictly else (array >= 0.0)
            if name != "limit":
                good &= np.isfinite(array)
            if not good.all():
                i = int(np.argmin(good))
                bound = "above 0" if strictly else "0 or above"
                raise InvalidConfig(
                    f"PID {name} of joint {i} is {array[i]}; it must be {bound}", field=name
                )
            object.__setattr__(self, name, frozen(np.broadcast_to(array, (n,)).copy()))

    @property
    def size(self) -> int:
        """Number of joints."""
        return len(np.asarray(self.kp))

    def anti_windup_time(self) -> Array:
        """Return Tt of every joint [s], with the default inserted."""
        kp, ki, kd, given = (
            np.asarray(v, float) for v in (self.kp, self.ki, self.kd, self.tracking_time)
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            ti = np.where(ki > 0.0, kp / ki, np.inf)
            td = np.where(kp > 0.0, kd / kp, 0.0)
            usual = np.where(kd > 0.0, np.sqrt(ti * td), 0.5 * ti)
        usual = np.where(kp > 0.0, usual, 1.0)
        return np.where(given > 0.0, given, usual)


class Pid:
    """PID control of n joints."""

    def __init__(self, config: PidConfig) -> None:
        self.config = config
        self._tt = config.anti_windup_time()
        self.reset()

    def reset(self) -> None:
        """Reset integral, derivative and the last measurement."""
        n = self.config.size
        self._integral = np.zeros(n)
        self._derivative = np.zeros(n)
        self._measured: Array | None = None

    @property
    def integral(self) -> Array:
        """The integral term of the output [N m], a copy."""
        return self._integral.copy()

    def set_config(self, config: PidConfig) -> None:
        """Replace the gains without a jump of the integral term.

        Raises:
            InvalidConfig: for another number of joints; nothing changes.
        """
        if config.size != self.config.size:
            raise InvalidConfig(f"{config.size} gains given for {self.config.size} joints")
        self.config, self._tt = config, config.anti_windup_time()
        self._integral = np.where(np.asarray(config.ki) > 0.0, self._integral, 0.0)

    def step(
        self,
        reference: ArrayLike,
        measured: ArrayLike,
        dt: float,
        feed_forward: ArrayLike = 0.0,
        velocity: ArrayLike | None = None,
    ) -> Array:
        """Return the output for one sample.

        The first sample after a reset has no derivative term, because the velocity is unknown. The
        saturation of a sample affects the integral of the next.

        Args:
            reference: reference positions [rad], shape (n,).
            measured: measured positions [rad], shape (n,).
            dt: time since the last sample [s], above 0.
            feed_forward: added to the output, e.g. gravity compensation [N m], shape (n,) or a
                scalar.
            velocity: measured velocities [rad/s], shape (n,); if given, the derivative term uses
                them instead of filtered differences.

        Returns:
            Outputs within the limits [N m], shape (n,).

        Raises:
            InvalidCommand: wrong lengths, values that are not finite, or dt not above 0; the
                controller's state is unchanged.
        """
        n = self.config.size
        r, y = np.asarray(reference, dtype=np.float64), np.asarray(measured, dtype=np.float64)
        ff = np.asarray(feed_forward, dtype=np.float64)
        if r.shape != (n,) or y.shape != (n,) or ff.shape not in ((), (n,)):
            raise InvalidCommand(
                f"PID of {n} joints was given shapes {r.shape}, {y.shape} and {ff.shape}",
                field="reference",
            )
        v = None if velocity is None else np.asarray(velocity, dtype=np.float64)
        if v is not None and v.shape != (n,):
            raise InvalidCommand(
                f"PID of {n} joints was given velocities of shape {v.shape}", field="velocity"
            )
        if not all(np.isfinite(a).all() for a in (r, y, ff, 0.0 if v is None else v)):
            raise InvalidCommand("PID was given a number that is not finite", field="samples")
        if not (np.isfinite(dt) and dt > 0.0):
            raise InvalidCommand(
                f"PID was given dt = {dt} s; it must be finite and above 0", field="dt"
            )
        gains = self.config
        kd, corner = np.asarray(gains.kd), np.asarray(gains.derivative_corner)
        before = y if self._measured is None else self._measured
        if v is None:
            self._derivative = (self._derivative - kd * corner * (y - before)) / (1.0 + corner * dt)
        else:
            self._derivative = -kd * v
        self._measured = y.copy()
        error = r - y
        desired = np.asarray(gains.kp) * error + self._integral + self._derivative + ff
        limit = np.asarray(gains.limit)
        output = desired.clip(-limit, limit)
        ki = np.asarray(gains.ki)
        back = np.where(ki > 0.0, (output - desired) / self._tt, 0.0)
        self._integral = self._integral + (ki * error + back) * dt
        return np.asarray(output)


@dataclass(frozen=True, eq=False)
class DriveGains:
    """Stored gains of n joints; each a scalar for all or one per joint."""

    kp: ArrayLike
    """Position gain [N m/rad]."""
    kd: ArrayLike
    """Velocity gain [N m s/rad]."""
    ki: ArrayLike = 0.0
    """Integral gain [N m/(rad s)]."""


class DriveLaw:
    """Gains, modes and effort limits of n joints, and the resulting efforts."""

    def __init__(
        self,
        joint_names: Sequence[str],
        gains: DriveGains,
        max_effort: ArrayLike,
        modes: Mapping[str, ControlMode] | None = None,
    ) -> None:
        """Create the drives.

        Args:
            joint_names: names of the n joints.
            gains: gains.
            max_effort: effort limits [N m or N].
            modes: mode by joint; default: position.

        Raises:
            InvalidCommand: wrong lengths, or values that are negative or not finite.
            UnknownJoint: ``modes`` names an unknown joint.
        """
        self.joint_names = tuple(joint_names)
        n = len(self.joint_names)
        self._gains = {name: _checked(name, getattr(gains, name), n) for name in ("kp", "ki", "kd")}
        self._max_effort = _checked("max_effort", max_effort, n, infinite=True)
        joint_indices(modes or {}, self.joint_names, "this controller")
        self._modes = [(modes or {}).get(j, ControlMode.POSITION) for j in self.joint_names]
        self._pid = Pid(self._acting())

    @property
    def modes(self) -> tuple[ControlMode, ...]:
        """Mode of each joint."""
        return tuple(self._modes)

    @property
    def gains(self) -> DriveGains:
        """Copies of the stored gains."""
        return DriveGains(**{name: values.copy() for name, values in self._gains.items()})

    @property
    def max_efforts(self) -> Array:
        """A copy of the effort limits [N m]."""
        return self._max_effort.copy()

    def reset(self) -> None:
        """Reset the integral."""
        self._pid.reset()

    def set_gains(
        self, kp: ArrayLike | None = None, kd: ArrayLike | None = None, ki: ArrayLike | None = None
    ) -> None:
        """Replace stored gains; None keeps the stored ones.

        Raises:
            InvalidCommand: see the constructor; nothing changes.
        """
        given = {"kp": kp, "kd": kd, "ki": ki}
        n = len(self.joint_names)
        checked = {k: _checked(k, v, n) for k, v in given.items() if v is not None}
        self._gains |= checked
        self._pid.set_config(self._acting())

    def set_max_efforts(self, values: ArrayLike, joints: Sequence[str] | None = None) -> None:
        """Replace the effort limits of some joints (default: all) [N m or N].

        Raises:
            InvalidCommand: see the constructor; nothing changes.
            UnknownJoint: a name that is not among the joints.
        """
        where = self._indices(joints)
        self._max_effort[where] = _checked("max_effort", values, len(where), infinite=True)
        self._pid.set_config(self._acting())

    def switch_mode(self, mode: ControlMode | str, joints: Sequence[str] | None = None) -> None:
        """Change the mode of some joints (default: all).

        Raises:
            InvalidCommand: unknown mode.
            UnknownJoint: a name that is not among the joints; nothing changes.
        """
        mode = ControlMode.named(mode) if isinstance(mode, str) else mode
        for i in self._indices(joints):
            self._modes[i] = mode
        self._pid.set_config(self._acting())

    def efforts(
        self,
        reference: JointReference,
        position: Array,
        velocity: Array,
        dt: float,
        load: ArrayLike = 0.0,
    ) -> Array:
        """Return the efforts of all joints [N m or N], saturated, shape (n,).

        Args:
            reference: reference of the joints; NaN for unused channels.
            position: measured positions q [rad or m], shape (n,).
            velocity: measured velocities v [rad/s or m/s], shape (n,).
            dt: time since the last call [s], above 0.
            load: feedforward of the robot's model [N m], see :func:`motion_load`; not used for
                joints in effort mode.
        """
        desired = np.where(np.isnan(reference.positions), position, reference.positions)
        forward = np.nan_to_num(reference.efforts)
        forward += np.asarray(self._pid.config.kd) * np.nan_to_num(reference.velocities)
        forward += np.where([m is ControlMode.EFFORT for m in self._modes], 0.0, load)
        return self._pid.step(desired, position, dt, forward, velocity)

    def _acting(self) -> PidConfig:
        position = np.array([mode is ControlMode.POSITION for mode in self._modes])
        effort = np.array([mode is ControlMode.EFFORT for mode in self._modes])
        return PidConfig(
            kp=np.where(position, self._gains["kp"], 0.0),
            ki=np.where(position, self._gains["ki"], 0.0),
            kd=np.where(effort, 0.0, self._gains["kd"]),
            # The PID requires a limit above 0, but a joint may have 0.
            limit=np.maximum(self._max_effort, np.finfo(float).tiny),
        )

    def _indices(self, joints: Sequence[str] | None) -> NDArray[np.intp]:
        names = self.joint_names if joints is None else joints
        return joint_indices(names, self.joint_names, "this controller")


def one_step_back(reference: JointReference, step: float) -> JointReference:
    """Return the reference at the current time, given the reference one step ahead.

    References are one step ahead, for drives with a lag of one step. A control law that compares
    them with the current measurement would lead by that step.

    Args:
        reference: reference one step from now.
        step: duration of the step [s].

    Source: Taylor series about the end of the step; the remainder is jerk * step^3 / 6.
    """
    acceleration = np.nan_to_num(reference.accelerations)
    velocities = reference.velocities - acceleration * step
    displacement = np.nan_to_num(reference.velocities) * step - 0.5 * acceleration * step**2
    return dataclasses.replace(
        reference, positions=reference.positions - displacement, velocities=velocities
    )


def motion_load(
    dynamics: InverseDynamics,
    reference: JointReference,
    position: Array,
    velocity: Array,
    *,
    gravity: bool,
    inertia: bool,
) -> Array:
    """Return the feedforward efforts along a reference [N m or N], shape (n,).

    Evaluated at the measured positions, so that gravity compensation is correct for a joint that is
    away from its reference, and does not follow steps of the reference.

    Args:
        dynamics: dynamics of the joints, in their order.
        reference: velocities and accelerations; without a velocity, the measured one is used.
        position: measured positions [rad or m], shape (n,).
        velocity: measured velocities [rad/s or m/s], shape (n,).
        gravity: include gravity.
        inertia: include inertia, Coriolis terms and damping.
    """
    still = np.zeros_like(position)
    if not inertia:
        return dynamics.gravity(position) if gravity else still
    velocities = np.where(np.isnan(reference.velocities), velocity, reference.velocities)
    load = dynamics.efforts(position, velocities, np.nan_to_num(reference.accelerations))
    return load if gravity else load - dynamics.gravity(position)


def _checked(what: str, values: ArrayLike, n: int, *, infinite: bool = False) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if array.shape not in ((), (n,)):
        raise InvalidCommand(
            f"{what} has shape {array.shape}; give one number for each of {n} joints", field=what
        )
    array = np.broadcast_to(array, (n,)).copy()
    good = (array >= 0.0) & (np.isfinite(array) | infinite)
    if not good.all():
        i = int(np.argmin(good))
        raise InvalidCommand(f"{what} of joint {i} is {array[i]}; it must be 0 or above")
    return array


def per_degree(gain: float, *, revolute: bool) -> float:
    """Convert a gain [N m/rad] to [N m/deg], as used in files of simulators.

    The gain of a prismatic joint is unchanged.
    """
    return gain * np.pi / 180.0 if revolute else gain


def per_radian(gain: float, *, revolute: bool) -> float:
    """Convert a gain [N m/deg] to [N m/rad]; see :func:`per_degree`."""
    return gain * 180.0 / np.pi if revolute else gain


class EffortLimiter:
    """Limits the distance between references and joints with an effort limit."""

    def __init__(self, stiffness: Array, limits: JointLimits) -> None:
        """Create a limiter for n joints.

        Args:
            stiffness: stiffness of the drives [N m/rad or N/m], shape (n,); 0: unknown, not
                limited.
            limits: limits of the joints; filtered positions satisfy position and velocity limits
                for any measurement.
        """
        self._stiffness, self._limits = stiffness, limits
        self._limited: NDArray[np.bool_]
        """Joints whose references were limited."""
        self.reset()

    def reset(self) -> None:
        """Reset positions and references."""
        n = len(self._stiffness)
        self._filtered: Array | None = None
        self._limited = np.zeros(n, np.bool_)
        self._sent = self._goal = self._before = np.full(n, np.nan)
        self._dt = math.inf
        """Time from the reference before the last sent one to that [s]."""

    def limit(
        self, reference: JointReference, position: Array, max_effort: Array, dt: float
    ) -> JointReference:
        """Return a reference that the drives follow within the given efforts.

        Args:
            reference: reference of n joints.
            position: measured positions [rad or m], shape (n,).
            max_effort: effort limits [N m or N], shape (n,); infinite for no limit.
            dt: time since the last call [s].
        """
        if not np.count_nonzero(self._limited | (max_effort < np.inf)):
            self._filtered = None
            self._note(reference.positions, reference.positions, dt)
            return reference
        near = self._filter(position, dt)
        reach = np.divide(
            max_effort,
            self._stiffness,
            out=np.full_like(max_effort, np.inf),
            where=self._stiffness > 0.0,
        )
        goal = reference.positions.clip(near - reach, near + reach)
        # Joints without a limit follow their references at any velocity.
        slow = np.isfinite(reach) | self._limited
        positions = np.where(slow, self._approached(goal, reference.positions, dt), goal)
        before = self._limited
        self._limited = (positions != reference.positions) & ~np.isnan(reference.positions)
        self._note(positions, goal, dt)
        # Damping with a reference at rest only reduces the effort. When the original reference is
        # met again, the sent one is not yet as fast.
        speed = self._speed()
        least, most = np.minimum(speed, 0.0), np.maximum(speed, 0.0)
        velocities = np.where(before, reference.velocities.clip(least, most), reference.velocities)
        velocities = np.where(self._limited, 0.0, velocities)
        return dataclasses.replace(reference, positions=positions, velocities=velocities)

    def _approached(self, goal: Array, reference: Array, dt: float) -> Array:
        """Return the next positions towards goals [rad or m], shape (n,)."""
        last = np.where(np.isnan(self._sent), reference, self._sent)
        if dt <= 0.0:
            return last
        limits, gain = self._limits, self._limits.acceleration * dt
        lead = np.nan_to_num((goal - self._goal) / dt).clip(-limits.velocity, limits.velocity)
        behind = goal - last - lead * dt
        brake = np.full_like(gain, np.inf)
        bounded = np.isfinite(gain)
        half = 0.5 * gain[bounded]
        brake[bounded] = (
            np.sqrt(half**2 + 2.0 * gain[bounded] / dt * np.abs(behind[bounded])) - half
        )
        before = self._speed()
        speed = lead + (behind / dt).clip(-brake, brake)
        speed = speed.clip(before - gain, before + gain)
        positions = last + speed.clip(-limits.velocity, limits.velocity) * dt
        return np.where(np.abs(goal - positions) < EXACT_POSITIONS, goal, positions)

    def _note(self, positions: Array, goal: Array, dt: float) -> None:
        """Store the sent reference and its goal."""
        if dt > 0.0:
            self._before, self._dt = self._sent, dt
        else:
            self._before = positions - (self._sent - self._before)
        self._sent, self._goal = positions, goal

    def _speed(self) -> Array:
        """Return the velocity of the sent references, shape (n,); computed only if used."""
        return np.asarray(np.nan_to_num((self._sent - self._before) / self._dt))

    def _filter(self, position: Array, dt: float) -> Array:
        limits = self._limits
        position = np.minimum(np.maximum(position, limits.lower), limits.upper)
        if self._filtered is None:
            self._filtered = position
        step = (position - self._filtered) * -math.expm1(-dt / FILTER_TIME)
        reach = limits.velocity * dt
        self._filtered = self._filtered + np.minimum(np.maximum(step, -reach), reach)
        return self._filtered
