# SPDX-License-Identifier: Apache-2.0
"""Settings and phases of the target follower, and the robot state it reads."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import NamedTuple

from motion_nodes.errors import InvalidConfig
from motion_nodes.model.tree import Array
from motion_nodes.rmpflow.status import Errors


class Phase(enum.Enum):
    """State of a follower."""

    IDLE = "idle"
    FOLLOWING = "following"
    ARRIVED = "arrived"
    STUCK = "stuck"
    STOPPING = "stopping"
    STOPPED = "stopped"
    PAUSED = "paused"
    ESCAPING = "escaping"


SILENT = (Phase.IDLE, Phase.STOPPED, Phase.PAUSED, Phase.ESCAPING)
"""Phases in which nothing is commanded."""


@dataclass(frozen=True)
class FollowerSettings:
    """Timeouts and tolerances of a follower."""

    target_timeout: float = float("inf")
    """Timeout of a pose or posture target that is not renewed [s]."""
    command_timeout: float = 0.2
    """Timeout of a velocity command that is not renewed [s]."""
    max_tracking_error: float = 0.3
    """Max deviation of the measured from the commanded position; beyond it the robot does not
    follow [rad or m]. If the policy uses measured joints, also the max lead of the reference."""
    position_tolerance: float = 0.005
    """Position tolerance of the tool at its target [m]."""
    orientation_tolerance: float = 0.0175
    """Orientation tolerance of the tool at its target [rad]."""
    posture_tolerance: float = 0.01
    """Tolerance of the joints at a posture [rad or m]."""
    retreat: bool = False
    """Whether a stuck robot retreats to its posture and tries again, once per target; with
    :attr:`escape` only after a planner failed."""
    escape: bool = False
    """Whether a planner resolves local minima, see :attr:`Follower.escape_target`."""
    escape_pause: float = 5.0
    """Min time between a failed escape and the next one [s]."""

    def __post_init__(self) -> None:
        """Validate the settings."""
        for name, value in vars(self).items():
            if not isinstance(value, bool) and not value > 0.0:
                raise InvalidConfig(f"{name} is {value}; it must be above 0.")


class RobotMotion(NamedTuple):
    """State of the robot; joints in the order of the policy's active and watched ones."""

    q: Array
    """Measured positions of the active joints [rad or m], shape (n,)."""
    qd: Array
    """Measured velocities of the active joints [rad/s or m/s], shape (n,)."""
    watched_q: Array
    """Measured positions of the watched joints [rad or m], shape (m,)."""
    watched_qd: Array
    """Measured velocities of the watched joints [rad/s or m/s], shape (m,)."""
    reference_q: Array | None = None
    """Reference positions reported by the controller, if any [rad or m], shape (n,)."""
    reference_qd: Array | None = None
    """Reference velocities reported by the controller, if any [rad/s or m/s], shape (n,)."""


def is_near(errors: Errors, settings: FollowerSettings, factor: float) -> bool:
    """Return whether errors are within the target tolerances times a factor."""
    if math.isnan(errors.position) and math.isnan(errors.orientation):
        return errors.posture < factor * settings.posture_tolerance
    far = errors.position > factor * settings.position_tolerance
    return not far and not errors.orientation > factor * settings.orientation_tolerance
