# SPDX-License-Identifier: Apache-2.0
"""Settings and phases of the target follower, and the robot state it reads."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import NamedTuple

from motion_nodes.core.reactive.status import Errors
from motion_nodes.settings import check_settings, setting
from motion_nodes.typing import Array


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

    target_timeout: float = setting(
        float("inf"),
        doc="Timeout of the target; when it expires the arm decelerates to rest. Infinity: "
        "no timeout.",
        unit="s",
        gt=0.0,
        inf=True,
    )
    command_timeout: float = setting(
        0.2,
        doc="Timeout of Servo commands; when it expires the arm decelerates to rest.",
        unit="s",
        gt=0.0,
        le=5.0,
    )
    max_tracking_error: float = setting(
        0.3,
        doc="Max difference between the measured joint position and the references of the last "
        "0.25 s; beyond it the arm is stopped. With ignore_robot_state_updates false, the "
        "reference is kept within it.",
        unit="rad or m",
        gt=0.0,
        inf=True,
    )
    position_tolerance: float = setting(
        0.005,
        doc="Position tolerance within which the target is reached.",
        unit="m",
        gt=0.0,
        le=1.0,
    )
    orientation_tolerance: float = setting(
        0.0175,
        doc="Orientation tolerance within which the target is reached.",
        unit="rad",
        gt=0.0,
        le=3.2,
    )
    posture_tolerance: float = setting(
        0.01,
        doc="Joint tolerance within which a posture target is reached.",
        unit="rad or m",
        gt=0.0,
        le=1.0,
    )
    retreat: bool = False
    """Whether a stuck robot retreats to its posture and tries again, once per target; with
    :attr:`escape` only after a planner failed."""
    escape: bool = False
    """Whether a planner resolves local minima, see :attr:`Follower.escape_target`."""
    escape_pause: float = setting(
        5.0, doc="Min time between a failed escape plan and the next attempt.", unit="s", gt=0.0
    )

    def __post_init__(self) -> None:
        """Validate the settings."""
        check_settings(self)


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
