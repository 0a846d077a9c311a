# SPDX-License-Identifier: Apache-2.0
"""Scale of tool twists near singular configurations, with the thresholds of MoveIt Servo.

A twist towards a singularity is scaled down between two condition numbers of the Jacobian, and is 0
beyond the second one. Away from it the second one is higher, and the twist is never 0, so that an
arm can start there. Whether a twist approaches is the change of the condition number along the
motion of the joints that it causes. Lengths are in units of the arm's reach: in metres the numbers
of a small arm would be those of a singular one everywhere. Arms of about 1 m have those of Servo.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np

from motion_nodes.errors import InvalidConfig
from motion_nodes.settings import check_settings, setting
from motion_nodes.typing import Array

STEP = 0.01
"""Step of the fastest joint that shows whether a twist approaches the singularity [rad or m]."""
CUT = 1e-3
"""Ratio of singular values below which a direction of the tool cannot be reached."""
LEAVING_SHARE = 0.3
"""Min share of a twist away from a singularity."""
SAMPLES = 20
"""Configurations by which the directions are known that the arm reaches at all."""


class NearSingularity(Enum):
    """Where a twist moves, relative to a singularity."""

    NO = "no"
    APPROACHING = "approaching a singularity"
    LEAVING = "leaving a singularity"
    HALTED = "halted at a singularity; a twist away from it, or a jog of the joints, moves the arm"


class TwistScale(NamedTuple):
    """Scale of a twist, and its cause."""

    share: float = 1.0
    """Factor of the twist, 0 to 1."""
    cause: NearSingularity = NearSingularity.NO


@dataclass(frozen=True)
class SingularityThresholds:
    """Condition numbers of the Jacobian, whose rows are in units of the reach, and in rad.

    Raises:
        InvalidConfig: the second threshold is not above the first.
    """

    lower_singularity_threshold: float = setting(
        17.0,
        doc="Condition number of the Jacobian, with lengths in units of the reach, from which "
        "twists are scaled down, as in MoveIt Servo. Infinity: never.",
        ge=1.0,
        inf=True,
    )
    hard_stop_singularity_threshold: float = setting(
        30.0,
        doc="Condition number from which a twist towards the singularity stops the arm.",
        gt=1.0,
        inf=True,
    )
    leaving_singularity_threshold_multiplier: float = setting(
        2.0,
        doc="Factor of the distance between both thresholds for twists away from the singularity.",
        gt=1.0,
        le=1000.0,
    )

    def __post_init__(self) -> None:
        check_settings(self)
        lower, hard = self.lower_singularity_threshold, self.hard_stop_singularity_threshold
        if math.isfinite(lower) and hard <= lower:
            raise InvalidConfig(
                f"hard_stop_singularity_threshold is {hard:g}; it must be above "
                f"lower_singularity_threshold, {lower:g}",
                field="hard_stop_singularity_threshold",
            )

    def share(self, condition: float, *, approaching: bool) -> float:
        """Return the share of a twist at a condition number, 0 to 1.

        Source: ``velocityScalingFactorForSingularity`` of moveit_servo (MoveIt 2, Jazzy).

        Args:
            condition: the condition number.
            approaching: whether it grows.
        """
        lower, hard = self.lower_singularity_threshold, self.hard_stop_singularity_threshold
        factor = 1.0 if approaching else self.leaving_singularity_threshold_multiplier
        room = factor * (hard - lower)
        if math.isinf(room):
            return 1.0
        least = 0.0 if approaching else LEAVING_SHARE
        return min(max(1.0 - (condition - lower) / room, least), 1.0)


class TwistScaler:
    """Scales the twists of one tool."""

    def __init__(self, jacobian: Callable[[Array], Array], lower: Array, upper: Array) -> None:
        """Count the directions in which the tool can move at all, such as 3 of a planar arm.

        Args:
            jacobian: returns the Jacobian of the tool at joint positions, shape (6, n).
            lower: position limits of the joints [rad or m], shape (n,); may be infinite.
            upper: the same.
        """
        self._jacobian = jacobian
        random = np.random.default_rng(0)
        low, high = np.maximum(lower, -math.pi), np.minimum(upper, math.pi)
        samples = [jacobian(random.uniform(low, np.maximum(low, high))) for _ in range(SAMPLES)]
        self._rank = max(int(np.linalg.matrix_rank(J, tol=1e-9)) for J in samples)
        self.reach = max(float(np.linalg.norm(J[:3], axis=0).max()) for J in samples) or 1.0
        """Max distance of the tool from an axis, or 1 of prismatic joints [m]."""

    def scale(self, q: Array, twist: Array, thresholds: SingularityThresholds) -> TwistScale:
        """Return the scale of a twist.

        Args:
            q: joint positions [rad or m], shape (n,).
            twist: of the tool, in the axes of the Jacobian [m/s, rad/s], shape (6,).
            thresholds: condition numbers.
        """
        if math.isinf(thresholds.lower_singularity_threshold) or not twist.any() or self._rank == 0:
            return TwistScale()
        U, values, Vt = np.linalg.svd(self._scaled(self._jacobian(q)), full_matrices=False)
        condition = self._condition(values)
        if condition <= thresholds.lower_singularity_threshold:
            return TwistScale()
        # In a singular direction the joints hardly move the tool; their motion there would be any.
        kept = values > CUT * values[0]
        forward = Vt[kept].T @ ((U[:, kept].T @ self._scaled(twist)) / values[kept])
        ahead = q + STEP * forward / max(float(np.abs(forward).max()), STEP)
        nearer = self._condition(np.asarray(np.linalg.svd(self._scaled(self._jacobian(ahead)))[1]))
        approaching = nearer > condition
        share = thresholds.share(condition, approaching=approaching)
        if not approaching:
            return TwistScale(share, NearSingularity.LEAVING)
        cause = NearSingularity.APPROACHING if share > 0.0 else NearSingularity.HALTED
        return TwistScale(share, cause)

    def _scaled(self, rows: Array) -> Array:
        return np.concatenate((rows[:3] / self.reach, rows[3:]))

    def _condition(self, values: Array) -> float:
        """Return the condition number by the singular values, largest first."""
        least = float(values[self._rank - 1])
        return float(values[0]) / least if least > 0.0 else math.inf
