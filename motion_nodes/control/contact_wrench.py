# SPDX-License-Identifier: Apache-2.0
"""External wrench at the tool from the effort residual, and its limit, in every control mode.

The wrench w of a contact at the tool with joint efforts r is the solution of r = J^T w, damped near
singularities.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from motion_nodes.control.effort_residual import EffortResidual
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.robot import Robot
from motion_nodes.model.setting import check_settings, setting
from motion_nodes.typing import Array

_DAMPING = 1e-4
"""Damping of the solution [m^2 or 1]."""
MAX_RIPPLE = 15.0
"""Max ripple of the force at which the wrench of a moving arm is used [N]."""
AT_REST = 0.01
"""Max joint velocity of an arm at rest [rad/s or m/s]."""
STEADY_TIME = 0.25
"""Time constant of the steady wrench [s]."""
_SAME = 1e-6
"""Max motion of a joint for which the last inverse Jacobian is reused [rad or m]."""
_AGAIN = 1.25
"""Relative increase of a wrench above its limit that is a new contact."""


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
        if self._inverse_at is None or (np.abs(q - self._inverse_at[0]) > _SAME).any():
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
        """Create with limits."""
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
