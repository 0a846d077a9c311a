# SPDX-License-Identifier: Apache-2.0
"""State of a policy and of the follower of its target: inputs, status, errors, settings, phases.

Progress check: a policy is stuck if the distance to the target no longer decreases. A reactive
policy is local and gets stuck in U-shaped obstacles. This check triggers a planner.
"""

from __future__ import annotations

import enum
import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import sub
from typing import NamedTuple

import numpy as np

from motion_nodes.core.reactive.numpy_policy import ANGLE_WEIGHT, Goal
from motion_nodes.core.reactive.singularity import SingularityThresholds
from motion_nodes.core.robot.limits import JointTurns
from motion_nodes.core.robot.rmpflow_settings import RmpflowSettings
from motion_nodes.core.scene.scene import Scene
from motion_nodes.settings import check_settings, setting
from motion_nodes.tolerances import SETTLED_SPEED
from motion_nodes.typing import Array


@dataclass(frozen=True, eq=False)
class PolicyView:
    """All inputs of a policy's next step."""

    q: Array
    """Positions of all joints, the active ones first [rad or m], shape (m,)."""
    qd: Array
    """Velocities of all joints [rad/s or m/s], shape (m,)."""
    goal: Goal
    """Goal of the policy, in the base frame."""
    scene: Scene
    """Obstacles and attached bodies, in the world."""
    twists: Mapping[str, Array]
    """Twists of its objects in the world, shape (6,) each."""
    X_WB: Array
    """Pose of the robot's base in the world, shape (4, 4)."""
    settings: RmpflowSettings
    """Parameters."""


_MARKS = 10  # number of stored errors within the patience time
_STEADY = 2e-3  # [m, rad / 10]


@dataclass(frozen=True)
class StuckSettings:
    """Criteria for a stuck policy."""

    patience: float = setting(
        1.5, doc="Time without progress after which the arm is stuck.", unit="s", gt=0.0
    )
    progress: float = setting(
        0.01,
        doc="Min decrease of the target error that counts as progress; 1 rad of orientation error "
        "is weighted as 0.1 m.",
        unit="m or rad/10",
        gt=0.0,
    )
    tolerance: float = setting(
        0.01,
        doc="Target error below which the arm is stuck only if it is at rest; 1 rad is "
        "weighted as 0.1 m.",
        unit="m or rad/10",
        gt=0.0,
    )
    target_step: float = setting(
        0.02,
        doc="Displacement of the target beyond which the measured progress is reset; 1 rad is "
        "weighted as 0.1 m.",
        unit="m or rad/10",
        gt=0.0,
    )

    def __post_init__(self) -> None:
        check_settings(self, "stuck.")


class TargetProgress:
    """Monitors the error of a policy: the min error now, and some time ago."""

    def __init__(self, settings: StuckSettings | None = None) -> None:
        self.settings = settings or StuckSettings()
        self._marks: deque[float] = deque(maxlen=_MARKS)
        self.reset()

    def reset(self) -> None:
        """Reset, as after a new target."""
        self._target: Array | None = None
        self._newest: Array | None = None
        self._restart()

    def _restart(self) -> None:
        self._best = np.inf
        self._marks.clear()
        self._since_mark = 0.0
        self.stuck = False
        """Whether progress was negligible for ``patience``."""

    def update(self, target: Array, error: float, dt: float) -> bool:
        """Return whether the policy is stuck, after a step.

        Args:
            target: coordinates of the target, unchanged while it is the same array; orientations
                are weighted by 1/10.
            error: distance of the robot from it, in the same metric.
            dt: length of the step [s].
        """
        s, known = self.settings, self._target
        if target is not self._newest:
            self._newest = target
            if (
                known is None
                or known.shape != target.shape
                or float(np.abs(target - known).max(initial=0.0)) > s.target_step
            ):
                self._target = target.copy()
                self._restart()
        if error < s.tolerance:
            self._restart()
            return False
        self._best = min(self._best, error)
        if not self._marks:
            self._marks.append(self._best)
        self._since_mark += dt
        full = len(self._marks) == _MARKS
        if self._since_mark >= s.patience / _MARKS:
            self._since_mark = 0.0
            self.stuck = full and self._marks[0] - self._best < s.progress
            self._marks.append(self._best)
        return self.stuck


class Standstill:
    """Detects a robot at rest short of its target, e.g. because it is blocked."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Reset, as after an arrival."""
        self._error = np.inf
        self.lasts = 0.0
        """Time at rest [s]."""

    def update(self, speed: float, error: float, dt: float) -> float:
        """Return how long robot and target have been at rest [s].

        Args:
            speed: of the fastest joint [rad/s or m/s].
            error: distance of the robot from its target [m, rad / 10].
            dt: length of the step [s].
        """
        if speed > SETTLED_SPEED or not abs(error - self._error) < _STEADY:
            self._error, self.lasts = error, 0.0
        else:
            self.lasts += dt
        return self.lasts


@dataclass(frozen=True)
class PolicyStatus:
    """Status of a policy after its last step."""

    position_error: float
    """Position error of the tool [m]; NaN without a target position."""
    orientation_error: float
    """Orientation error of the tool [rad]; NaN without a target orientation."""
    posture_error: float
    """Max distance of a joint from the posture [rad or m]."""
    stuck: bool
    """Whether there was no progress for the patience time."""
    stopping: bool
    """Whether :meth:`RmpflowPolicy.stop` is active."""
    speed_scalar: float
    """Time scaling factor relative to the policy's own speed; 1 without smoothing."""


class Errors(NamedTuple):
    """Distances from a goal; NaN for unconstrained components."""

    position: float
    orientation: float
    posture: float


def errors_of(goal: Goal, X_BT: Array, q: Array, turns: JointTurns | None = None) -> Errors:
    """Return the errors of tool and joints relative to a goal [m, rad].

    Args:
        goal: the goal.
        X_BT: pose of the tool in the base, shape (4, 4).
        q: joint positions [rad or m], shape (n,).
        turns: which of them are continuous; None: none.
    """
    position = orientation = float("nan")
    # Plain floats: several times as fast as arrays of this size.
    (*x, u), (*y, v), (*z, w), _ = X_BT.tolist()
    if goal.position is not None:
        position = math.dist(goal.position.tolist(), (u, v, w))
    if goal.rotation is not None:
        orientation = _angle(goal.rotation.tolist(), (x, y, z))
    if turns is not None and turns.any:
        posture = float(turns.distance(q, goal.posture).max(initial=0.0))
    else:
        posture = max(map(abs, map(sub, goal.posture.tolist(), q.tolist())), default=0.0)
    return Errors(position, orientation, posture)


def _angle(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]) -> float:
    """Return the angle between two rotations, given by rows [rad].

    Source: R = first^T second has the trace 1 + 2 cos(angle), and the entries of R - R^T are those
    of 2 sin(angle) times the axis.
    """
    (a, b, c), (d, e, f), (g, h, i) = first
    (j, k, m), (n, o, p), (q, r, s) = second
    trace = a * j + d * n + g * q + b * k + e * o + h * r + c * m + f * p + i * s
    x = c * k + f * o + i * r - (b * m + e * p + h * s)
    y = a * m + d * p + g * s - (c * j + f * n + i * q)
    z = b * j + e * n + h * q - (a * k + d * o + g * r)
    return math.atan2(math.hypot(x, y, z), trace - 1.0)


def error_of(goal: Goal, errors: Errors) -> float:
    """Return the distance from the goal as one number [m, rad / 10]."""
    if goal.position is None and goal.rotation is None:
        return ANGLE_WEIGHT * errors.posture
    error = 0.0 if goal.position is None else errors.position
    return error if goal.rotation is None else error + ANGLE_WEIGHT * errors.orientation


def watch(
    progress: TargetProgress,
    goal: Goal,
    errors: Errors,
    duration: float,
    remaining: float | None = None,
) -> None:
    """Update the progress check.

    Args:
        progress: the check.
        goal: the goal.
        errors: distances from it.
        duration: time since the last update [s].
        remaining: measure of the distance from the goal; default: that of :func:`error_of`.
    """
    error = error_of(goal, errors) if remaining is None else remaining
    progress.update(goal.coordinates, error, duration)


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
    singularity: SingularityThresholds = field(default_factory=SingularityThresholds)
    """Of velocity commands of the tool."""

    def __post_init__(self) -> None:
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
