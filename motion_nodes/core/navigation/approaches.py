# SPDX-License-Identifier: Apache-2.0
"""Approaches to a pose, and the bases that support them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from motion_nodes.core.navigation.base_motion import BaseKind, BaseMotion
from motion_nodes.core.navigation.follow_path import FollowConfig, FollowPath
from motion_nodes.core.navigation.planar_geometry import PlanarPath, Pose2
from motion_nodes.core.navigation.pose_curves import PathEnd, dubins_path, plan_quintic
from motion_nodes.core.navigation.pose_motions import GoToPose, TurnThenDrive, TurnThenDriveConfig
from motion_nodes.errors import InvalidCommand, InvalidConfig, did_you_mean
from motion_nodes.settings import check_settings, setting

APPROACHES: dict[BaseKind, tuple[str, ...]] = {
    "differential": ("straight", "turn_then_drive", "quintic", "dubins"),
    "holonomic": ("straight", "turn_then_drive", "quintic"),
    "ackermann": ("dubins", "quintic"),
}
"""Approaches of each kind of base, the default first."""

TURN_ROOM = 1.5
"""Ratio of the radius of planned curves to the min turning radius, a margin for path tracking."""

DRIVE_TOLERANCE: dict[BaseKind, float] = {"differential": 0.02, "holonomic": 0.02, "ackermann": 0.1}
"""Max distance from the end of a drive of a given length [m]."""

NEAR = 1e-3
"""Distance below which a goal needs no path [m]."""


@dataclass(frozen=True, kw_only=True)
class QuinticConfig:
    """Settings of quintic paths to a pose."""

    velocity: float = setting(
        0.25,
        doc="Speed at both ends of a quintic path; larger values give wider curves.",
        unit="m/s",
        gt=0.0,
        le=100.0,
    )
    max_acceleration: float = setting(
        0.5, doc="Max acceleration along a quintic path.", unit="m/s^2", gt=0.0, le=1000.0
    )
    max_jerk: float = setting(
        1.0, doc="Max jerk along a quintic path.", unit="m/s^3", gt=0.0, le=10000.0
    )
    step: float = setting(0.05, doc="Time between the path's samples.", unit="s", gt=0.0)

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, kw_only=True)
class ApproachConfig:
    """Settings of the approach to poses.

    Raises:
        InvalidConfig: an unknown approach, or one that this kind of base does not support.
    """

    kind: BaseKind
    approach: str
    """One of :data:`APPROACHES`."""
    follow: FollowConfig
    rule: TurnThenDriveConfig = field(default_factory=TurnThenDriveConfig)
    quintic: QuinticConfig = field(default_factory=QuinticConfig)

    def __post_init__(self) -> None:
        allowed = APPROACHES[self.kind]
        if self.approach not in allowed:
            raise InvalidConfig(
                f"approach '{self.approach}' is not one of a base of kind '{self.kind}'."
                f"{did_you_mean(self.approach, allowed)}"
            )


def motion_to_pose(
    start: Pose2, goal: Pose2, config: ApproachConfig
) -> tuple[BaseMotion, PlanarPath]:
    """Return a motion from pose to pose, and its path.

    Args:
        start: current pose.
        goal: target pose.
        config: settings.

    Raises:
        InvalidCommand: there is no such motion, with the reason.
    """
    follow = config.follow
    if config.approach == "turn_then_drive":
        return TurnThenDrive(config.kind, goal, config.rule), _line(start, goal)
    on_the_spot = config.kind != "ackermann"
    if config.approach == "straight" or (on_the_spot and start.distance(goal) < NEAR):
        motion = GoToPose(
            config.kind, goal, follow.limits, follow.tolerance, reversing=follow.reversing
        )
        return motion, _line(start, goal)
    if config.approach == "dubins":
        radius = TURN_ROOM / follow.steering.max_curvature
        path = dubins_path(start, goal, radius, reversing=follow.reversing)
    else:
        numbers = config.quintic
        quintic = plan_quintic(
            PathEnd(pose=start, velocity=numbers.velocity),
            PathEnd(pose=goal, velocity=numbers.velocity),
            max_acceleration=numbers.max_acceleration,
            max_jerk=numbers.max_jerk,
        )
        path = quintic.sample(numbers.step).path()
    return FollowPath(config.kind, path, follow), path


def motion_through(
    start: Pose2, goals: Sequence[Pose2], config: ApproachConfig
) -> tuple[BaseMotion, PlanarPath, tuple[float, ...]]:
    """Return a motion through poses to the last one.

    It follows the paths from pose to pose. The base stops only where they turn sharply or change
    between forward and reverse, see :func:`~motion_nodes.core.navigation.follow_path.sections_of`.

    Args:
        start: current pose.
        goals: target poses, at least one.
        config: settings.

    Returns:
        The motion, its path, and the remaining length of the path at each pose but the last [m].

    Raises:
        InvalidCommand: there is no such motion, with the reason.
    """
    if len(goals) == 1:
        return *motion_to_pose(start, goals[0], config), ()
    legs = [motion_to_pose(a, b, config)[1] for a, b in itertools.pairwise((start, *goals))]
    path = PlanarPath(np.concatenate([leg.poses() for leg in legs]))
    after = path.length - np.cumsum([leg.length for leg in legs[:-1]])
    return FollowPath(config.kind, path, config.follow), path, tuple(after.tolist())


def motion_along_heading(
    start: Pose2, distance: float, speed: float, config: ApproachConfig
) -> tuple[BaseMotion, PlanarPath]:
    """Return a motion straight along the heading of the base, and its path.

    Its length is what was asked for: the tolerance of goals, which may be half a metre, is not that
    of a drive of 10 cm.

    Args:
        start: current pose.
        distance: length, negative in reverse [m].
        speed: max speed, above 0 [m/s].
        config: settings.

    Raises:
        InvalidCommand: a value that is not finite, or a speed that is not above 0.
    """
    if not math.isfinite(distance):
        raise InvalidCommand(f"the distance is {distance} m; it must be finite")
    if not (math.isfinite(speed) and speed > 0.0):
        raise InvalidCommand(f"the speed is {speed:g} m/s; it must be finite and above 0")
    limits = config.follow.limits
    limits = replace(limits, max_velocity=min(speed, limits.max_velocity))
    path = _line(start, start.compose(Pose2(distance)))
    tolerance = config.follow.tolerance
    tolerance = replace(tolerance, xy=min(tolerance.xy, DRIVE_TOLERANCE[config.kind]))
    follow = replace(config.follow, limits=limits, reversing=True, tolerance=tolerance)
    return FollowPath(config.kind, path, follow), path


def _line(start: Pose2, goal: Pose2) -> PlanarPath:
    """Return the straight path, with a min length if start and goal coincide."""
    first = np.array(start)
    if start.distance(goal) < NEAR:
        first[:2] = goal.compose(Pose2(-NEAR, 0.0, 0.0))[:2]
    return PlanarPath(np.stack((first, np.array(goal))))
