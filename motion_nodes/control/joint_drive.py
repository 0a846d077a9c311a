# SPDX-License-Identifier: Apache-2.0
"""Joint drives with efforts computed by the suite; control modes select the active gains.

    tau = kp (q* - q) + I + kd (v* - v) + effort + load,   |tau| <= max_effort

The load is the feedforward of the robot's model (gravity, inertia), so that the gains only
compensate model errors.

Position mode uses all stored gains, velocity mode only kd, effort mode no gains and no load. A mode
switch does not change the stored gains. The integral I (ki, usually 0) and its anti-windup are
those of :class:`~motion_nodes.control.pid.Pid`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.control.joint_reference import ControlMode, JointReference
from motion_nodes.control.pid import Pid, PidConfig
from motion_nodes.errors import InvalidCommand
from motion_nodes.model.inverse_dynamics import InverseDynamics
from motion_nodes.model.limits import joint_indices
from motion_nodes.typing import Array

EFFORT_MODES = ("force", "acceleration")
"""Whether an effort target is a force (torque) or an acceleration times the joint's inertia."""


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
        self._effort_modes = ["force"] * n
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
    def acting_gains(self) -> DriveGains:
        """Gains in effect in the current modes."""
        acting = self._pid.config
        return DriveGains(acting.kp, acting.kd, acting.ki)

    @property
    def max_efforts(self) -> Array:
        """A copy of the effort limits [N m]."""
        return self._max_effort.copy()

    @property
    def effort_modes(self) -> tuple[str, ...]:
        """Effort mode of each joint."""
        return tuple(self._effort_modes)

    def reset(self) -> None:
        """Reset the integral."""
        self._pid.reset()

    def set_gains(
        self,
        kp: ArrayLike | None = None,
        kd: ArrayLike | None = None,
        ki: ArrayLike | None = None,
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

    def set_effort_mode(self, mode: str, joints: Sequence[str] | None = None) -> None:
        """Select whether effort targets are forces or accelerations.

        Raises:
            InvalidCommand: unknown mode.
            UnknownJoint: a name that is not among the joints; nothing changes.
        """
        if mode not in EFFORT_MODES:
            raise InvalidCommand(
                f"effort mode '{mode}' is not known. Available: {', '.join(EFFORT_MODES)}."
            )
        for i in self._indices(joints):
            self._effort_modes[i] = mode

    def efforts(
        self,
        reference: JointReference,
        position: Array,
        velocity: Array,
        dt: float,
        inertia: ArrayLike = 1.0,
        load: ArrayLike = 0.0,
    ) -> Array:
        """Return the efforts of all joints [N m or N], saturated, shape (n,).

        Args:
            reference: reference of the joints; NaN for unused channels.
            position: measured positions q [rad or m], shape (n,).
            velocity: measured velocities v [rad/s or m/s], shape (n,).
            dt: time since the last call [s], above 0.
            inertia: reflected inertia of each joint [kg m^2], for effort mode ``acceleration``.
            load: feedforward of the robot's model [N m], see :func:`motion_load`; not used for
                joints in effort mode.
        """
        scale = np.where([m == "acceleration" for m in self._effort_modes], inertia, 1.0)
        desired = np.where(np.isnan(reference.positions), position, reference.positions)
        forward = np.nan_to_num(reference.efforts) * scale
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
