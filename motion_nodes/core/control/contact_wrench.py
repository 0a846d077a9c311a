# SPDX-License-Identifier: Apache-2.0
"""External wrench at the tool from the effort residual, and its limit, in every control mode.

The wrench w of a contact at the tool with joint efforts r is the solution of r = J^T w, damped near
singularities.

The effort residual r is measured joint efforts minus those of the robot's model:

    r' = (tau - M(q) a - h(q, v) - r) / T

The residual passes a low-pass filter of time constant T; accelerations are differences of measured
velocities, which the filter smooths together with the efforts. Source: the residual of De Luca et
al., "Collision detection and safe reaction with the DLR-III lightweight manipulator arm", IROS
2006, with differences in place of momenta.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from motion_nodes.core.robot.inverse_dynamics import InverseDynamics
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.robot import Robot
from motion_nodes.settings import check_settings, setting
from motion_nodes.tolerances import UNCHANGED_POSITIONS
from motion_nodes.typing import Array

TIME_CONSTANT = 0.02
"""Time constant of the filter [s]."""
MAX_GAP = 0.02
"""Max time between measurements for which a difference is computed [s]."""
MAX_SHARE = 1.6
"""Max time between measurements as a multiple of the usual one: if a measurement is missing, the
acceleration is a mean over two periods, but the effort is that of the last."""
_DAMPING = 1e-4
"""Damping of the solution [m^2 or 1]."""
MAX_RIPPLE = 15.0
"""Max ripple of the force at which the wrench of a moving arm is used [N]."""
AT_REST = 0.01
"""Max joint velocity of an arm at rest [rad/s or m/s]."""
STEADY_TIME = 0.25
"""Time constant of the steady wrench [s]."""
_AGAIN = 1.25
"""Relative increase of a wrench above its limit that is a new contact."""


@dataclass(frozen=True, eq=False)
class Ripple:
    """Max deviation of drive efforts from their mean, caused by the sampling of references.

    Within a sampling period T the reference is constant while the joint moves: ``(kp |v| + kd |a|)
    T / 2``.
    """

    by_speed: Array
    """[N m s/rad or N s/m], shape (n,)."""
    by_acceleration: Array
    """[N m s^2/rad or N s^2/m], shape (n,)."""
    acceleration: Array
    """Max acceleration that is considered [rad/s^2 or m/s^2], shape (n,); an impact exceeds it."""

    @classmethod
    def of(cls, stiffness: Array, damping: Array, acceleration: Array, period: float) -> Ripple:
        """Return the ripple of drives with given gains.

        Args:
            stiffness: position gains [N m/rad or N/m], shape (n,).
            damping: velocity gains [N m s/rad or N s/m], shape (n,).
            acceleration: max acceleration considered [rad/s^2 or m/s^2], shape (n,).
            period: sampling period of the references [s].
        """
        half = 0.5 * period
        return cls(half * stiffness, half * damping, acceleration)


class EffortResidual:
    """Filtered effort residual of n joints."""

    def __init__(self, dynamics: InverseDynamics, ripple: Ripple) -> None:
        """Start with zero residual.

        Args:
            dynamics: dynamics of the joints.
            ripple: ripple of their drives; subtracted from the residual.
        """
        self._dynamics, self._ripple = dynamics, ripple
        n = len(dynamics.joint_names)
        self.value: Array = np.zeros(n)
        """Residual minus the ripple [N m or N], shape (n,)."""
        self.filtered: Array = np.zeros(n)
        """Residual including the ripple [N m or N], shape (n,)."""
        self.doubt: Array = np.zeros(n)
        """Max ripple in it [N m or N], shape (n,)."""
        self._before: tuple[float, Array, Array] | None = None
        self._usual = MAX_GAP
        """Usual time between measurements [s]: a slowly increasing minimum."""

    def reset(self) -> None:
        """Reset the filter."""
        for values in (self.value, self.filtered, self.doubt):
            values[:] = 0.0
        self._before = None

    def update(self, time: float, q: Array, v: Array, effort: Array) -> Array | None:
        """Process a measurement and return the residual; None if efforts are not measured.

        Args:
            time: time of the measurement [s].
            q: positions [rad or m], shape (n,).
            v: velocities [rad/s or m/s], shape (n,).
            effort: efforts of the drives [N m or N], shape (n,); a joint without a finite value has
                no residual.
        """
        known = np.isfinite(effort)
        if not known.any():
            self._before = None
            return None
        before, self._before = self._before, (time, v.copy(), effort.copy())
        if before is None or not self._regular(time - before[0]):
            return self.value
        dt = time - before[0]
        mean, acceleration = 0.5 * (v + before[1]), (v - before[1]) / dt
        model = self._dynamics.efforts(q, mean, acceleration)
        residual = np.where(known, 0.5 * (effort + before[2]) - model, 0.0)
        residual[np.isnan(residual)] = 0.0
        usual = np.minimum(np.abs(acceleration), self._ripple.acceleration)
        doubt = self._ripple.by_speed * np.abs(mean) + self._ripple.by_acceleration * usual
        share = -math.expm1(-dt / TIME_CONSTANT)
        self.filtered += (residual - self.filtered) * share
        self.doubt += (doubt - self.doubt) * share
        beyond = np.abs(self.filtered) - self.doubt
        self.value = np.copysign(beyond.clip(0.0), self.filtered)
        return self.value

    def repeat(self, time: float) -> None:
        """Process a measurement of the same values at another time [s]; the residual stays."""
        if self._before is not None:
            self._before = (time, *self._before[1:])

    def _regular(self, dt: float) -> bool:
        """Return whether no measurement is missing between two that are dt [s] apart."""
        if not 0.0 < dt <= MAX_GAP:
            return False
        self._usual = min(dt, 1.02 * self._usual)
        return dt <= MAX_SHARE * self._usual


class ContactWrench:
    """Converts the effort residual of a controller's joints to a wrench at the tool."""

    def __init__(self, robot: Robot, joints: Sequence[str], arm: Sequence[str], tool: str) -> None:
        """Create and compile.

        Args:
            robot: the robot.
            joints: joints of the controller, in order.
            arm: joints that move the tool.
            tool: frame of the wrench.

        Raises:
            UnknownJoint, UnknownFrame: unknown name.
        """
        self.tool = tool
        self._kinematics = Kinematics(robot.tree, arm, base=robot.base_frame)
        self._indices = np.array([joints.index(joint) for joint in arm], np.intp)
        self.certain: Array = np.full(6, np.nan)
        """Wrench of the environment on the tool in the base's axes, beyond the ripple of the drive
        efforts [N, N m], shape (6,); NaN: unknown."""
        self.value: Array = self.certain
        """The wrench including the ripple, while the ripple is small or the arm is at rest."""
        self.steady: Array = self.certain
        """Low-pass filtered wrench of the arm at rest [N, N m], shape (6,); NaN while it moves."""
        self._still_since = self._time = math.nan
        self._inverse_at: tuple[Array, Array] | None = None
        """Positions of the group's joints, and the inverse at them."""
        self._inverse(np.zeros(len(joints)))  # compiles

    def update(
        self, time: float, q: Array, v: Array, residual: EffortResidual, *, known: bool
    ) -> None:
        """Process a measurement.

        Args:
            time: time of the measurement [s].
            q: measured positions of all joints [rad or m], shape (n,).
            v: measured velocities [rad/s or m/s], shape (n,).
            residual: effort residual of the joints.
            known: whether efforts are measured.
        """
        dt, self._time = time - self._time, time
        speed = float(np.abs(v[self._indices]).max())
        self.certain = self.value = np.full(6, np.nan)
        if known:
            J_inv = self._inverse(q)
            self.certain = self.value = -J_inv @ residual.value[self._indices]
            ripple = np.abs(J_inv[:3]) @ residual.doubt[self._indices]
            if speed <= AT_REST or float(np.linalg.norm(ripple)) < MAX_RIPPLE:
                self.value = -J_inv @ residual.filtered[self._indices]
        if speed > AT_REST or not 0.0 < dt < STEADY_TIME or np.isnan(self.steady).any():
            self.steady = self.value if speed <= AT_REST else np.full(6, np.nan)
            self._still_since = time
        else:
            self.steady = self.steady + (self.value - self.steady) * -math.expm1(-dt / STEADY_TIME)

    @property
    def steady_time(self) -> float:
        """Time for which the wrench has been filtered [s]."""
        return self._time - self._still_since

    def _inverse(self, q: Array) -> Array:
        """Return the map from joint efforts to the wrench at the tool, shape (6, k)."""
        q = q[self._indices]
        if (
            self._inverse_at is None
            or (np.abs(q - self._inverse_at[0]) > UNCHANGED_POSITIONS).any()
        ):
            J = self._kinematics.jacobian(q, self.tool)
            inverse = np.linalg.solve(J @ J.T + _DAMPING * np.eye(6), J)
            self._inverse_at = q, np.asarray(inverse)
        return self._inverse_at[1]


@dataclass(frozen=True, kw_only=True)
class WrenchLimits:
    """Limits of the external wrench; 0: unlimited."""

    max_force: float = setting(
        0.0,
        doc="Max external force at the tool: beyond it the joints stop, in every control mode. 0: "
        "unlimited. Requires contact_detection.",
        unit="N", ge=0.0, le=1e5,
    )  # fmt: skip
    max_torque: float = setting(
        0.0,
        doc="Max external torque at the tool: beyond it the joints stop, in every control mode. 0: "
        "unlimited. Requires contact_detection.",
        unit="N m", ge=0.0, le=1e5,
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Check all values; raises InvalidConfig."""
        check_settings(self)

    @property
    def any(self) -> bool:
        """Whether there is a limit."""
        return self.max_force > 0.0 or self.max_torque > 0.0


class WrenchGuard:
    """Detects wrenches beyond their limits.

    A contact is reported once, and again if its wrench increases by a quarter, so that the tool can
    be retracted.
    """

    def __init__(self, limits: WrenchLimits) -> None:
        self.limits = limits
        self._bounds = np.zeros(2)

    def check(self, wrench: Array) -> str:
        """Return the reason to stop the joints, or an empty string.

        Args:
            wrench: external wrench [N, N m], shape (6,); NaN where unknown.
        """
        if not self.limits.any:
            return ""
        limits = np.array((self.limits.max_force, self.limits.max_torque))
        found = np.array((np.linalg.norm(wrench[:3]), np.linalg.norm(wrench[3:])))
        if np.isnan(found).any():
            return ""
        self._bounds = np.maximum(limits, np.minimum(self._bounds, _AGAIN * found))
        beyond = (found > self._bounds) & (limits > 0.0)
        if not beyond.any():
            return ""
        i = int(np.argmax(beyond))
        self._bounds[i] = _AGAIN * found[i]
        what, unit = ("force", "N") if i == 0 else ("torque", "N m")
        return f"external {what} of {found[i]:.3g} {unit} at the tool (limit {limits[i]:g} {unit})"
