# SPDX-License-Identifier: Apache-2.0
"""Tracking tolerances of joints, with the special values of control_msgs.

Source: control_msgs/JointTolerance: 0 means "not given, use the default", -1 means "none". Its
accelerations are not checked: joint_states contain none, and numerical differences are too noisy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.errors import InvalidCommand, UnknownJoint
from motion_nodes.model.tree import frozen
from motion_nodes.typing import Array

NO_TOLERANCE = -1.0
"""Value of a request for no tolerance."""


@dataclass(frozen=True)
class ToleranceRequest:
    """Tolerance requested for one joint; -1: none; 0 and other negative values: the default."""

    joint: str
    position: float = 0.0
    """Position tolerance [rad or m]."""
    velocity: float = 0.0
    """Velocity tolerance [rad/s or m/s]."""


@dataclass(frozen=True, eq=False)
class Tolerances:
    """Tolerances of n joints, infinite where there is none."""

    position: Array
    """Position tolerances [rad or m], shape (n,)."""
    velocity: Array
    """Velocity tolerances [rad/s or m/s], shape (n,)."""

    def __post_init__(self) -> None:
        """Freeze the arrays."""
        object.__setattr__(self, "position", frozen(self.position))
        object.__setattr__(self, "velocity", frozen(self.velocity))

    @classmethod
    def of(cls, position: ArrayLike, velocity: ArrayLike = 0.0) -> Tolerances:
        """Return tolerances, one per joint (velocity also as a scalar); 0 or less: none."""
        q = np.asarray(position, dtype=np.float64)
        v = np.broadcast_to(np.asarray(velocity, dtype=np.float64), q.shape)
        return cls(np.where(q > 0.0, q, np.inf), np.where(v > 0.0, v, np.inf))

    @classmethod
    def uniform(cls, n: int, position: float, velocity: float = 0.0) -> Tolerances:
        """Return the same tolerances [rad or m, per s] for n joints; 0 or less means none."""
        return cls.of(np.full(n, position), velocity)

    def requested(
        self, requests: Iterable[ToleranceRequest], joint_names: Sequence[str]
    ) -> Tolerances:
        """Return these tolerances, overridden by a client's requests.

        Args:
            requests: tolerances of joints by name.
            joint_names: names of the n joints.

        Raises:
            UnknownJoint: a joint that is not among ``joint_names``.
            InvalidCommand: a value that is NaN or infinite.
        """
        position, velocity = self.position.copy(), self.velocity.copy()
        for request in requests:
            if request.joint not in joint_names:
                raise UnknownJoint(request.joint, joint_names, "the goal's tolerances")
            i = list(joint_names).index(request.joint)
            for values, requested_value in (
                (position, request.position),
                (velocity, request.velocity),
            ):
                if not np.isfinite(requested_value):
                    raise InvalidCommand(
                        f"a tolerance of joint {request.joint} is {requested_value}"
                    )
                if requested_value > 0.0 or requested_value == NO_TOLERANCE:
                    values[i] = requested_value if requested_value > 0.0 else np.inf
        return Tolerances(position, velocity)

    def violation(
        self, position_error: Array, velocity_error: Array, joint_names: Sequence[str]
    ) -> str | None:
        """Return which joint exceeds its tolerance, as text, or None.

        Args:
            position_error: reference minus measured [rad or m], shape (n,).
            velocity_error: reference minus measured [rad/s or m/s], shape (n,).
            joint_names: names of the n joints, for the text.
        """
        rows = (
            ("position", position_error, self.position),
            ("velocity", velocity_error, self.velocity),
        )
        for what, error, bound in rows:
            excess = np.abs(error) > bound
            if excess.any():
                i = int(np.argmax(excess))
                return (
                    f"{what} of joint {joint_names[i]} is off by {abs(error[i]):.4g}, "
                    f"tolerance {bound[i]:.4g}"
                )
        return None
