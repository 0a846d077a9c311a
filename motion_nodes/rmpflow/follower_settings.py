# SPDX-License-Identifier: Apache-2.0
"""What a follower does, how it judges targets and robot, and what it is told of the robot."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import NamedTuple

from motion_nodes.errors import InvalidConfig
from motion_nodes.model.tree import Array
from motion_nodes.rmpflow.status import Errors


class Phase(enum.Enum):
    """What a follower does."""

    IDLE = "idle"
    FOLLOWING = "following"
    ARRIVED = "arrived"
    STUCK = "stuck"
    STOPPING = "stopping"
    STOPPED = "stopped"
    PAUSED = "paused"
    ESCAPING = "escaping"


SILENT = (Phase.IDLE, Phase.STOPPED, Phase.PAUSED, Phase.ESCAPING)
"""In these nothing is told to the robot."""


@dataclass(frozen=True)
class FollowerSettings:
    """How a follower judges targets and robot."""

    target_timeout: float = float("inf")
    """A pose or posture that is not renewed for so long is lost [s]."""
    command_timeout: float = 0.2
    """A speed that is not renewed for so long has ended [s]."""
    max_tracking_error: float = 0.3
    """A robot that is further than this from where it is led does not follow [rad or m]; where the
    policy looks at measured joints, it is led no further ahead than this."""
    position_tolerance: float = 0.005
    """So near to its target the tool has arrived [m]."""
    orientation_tolerance: float = 0.0175
    """Likewise [rad]."""
    posture_tolerance: float = 0.01
    """So near to a posture the joints have arrived [rad or m]."""
    retreat: bool = False
    """Whether a robot that is stuck goes to its posture first and tries again, once per target;
    with :attr:`escape` only after a planner failed."""
    escape: bool = False
    """Whether a planner brings the robot out of traps, see :attr:`Follower.escape_target`."""
    escape_pause: float = 5.0
    """After an escape that failed there is no other for so long [s]."""

    def __post_init__(self) -> None:
        """Refuse what no judgement can be made of."""
        for name, value in vars(self).items():
            if not isinstance(value, bool) and not value > 0.0:
                raise InvalidConfig(f"{name} is {value}; it must be above 0.")


class RobotMotion(NamedTuple):
    """News of the robot; joints in the order of the policy's active and watched ones."""

    q: Array
    """Measured positions of the active joints [rad or m], shape (n,)."""
    qd: Array
    """Their velocities [rad/s or m/s], shape (n,)."""
    watched_q: Array
    """Measured positions of the watched joints, shape (m,)."""
    watched_qd: Array
    """Their velocities, shape (m,)."""
    led_q: Array | None = None
    """Where their controller leads the active joints, where it says so, shape (n,)."""
    led_qd: Array | None = None
    """How fast, shape (n,)."""


def is_near(errors: Errors, settings: FollowerSettings, factor: float) -> bool:
    """Return whether errors are within the tolerances of an arrival times a factor."""
    if math.isnan(errors.position) and math.isnan(errors.orientation):
        return errors.posture < factor * settings.posture_tolerance
    far = errors.position > factor * settings.position_tolerance
    return not far and not errors.orientation > factor * settings.orientation_tolerance
