# SPDX-License-Identifier: Apache-2.0
"""Motions with a limited speed of a link: as fast as other limits permit, up to that speed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from motion_nodes.model.payload import Payload
from motion_nodes.planning.cartesian import checker_kinematics
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.trajectory.path_efforts import EFFORT_SHARE, effort_limits
from motion_nodes.trajectory.point_speeds import PointSpeeds
from motion_nodes.trajectory.time_parameterization import scaled_limits, time_optimal
from motion_nodes.trajectory.timed_path import TimedPath
from motion_nodes.typing import Array


def tool_speeds(checker: CollisionChecker, limits: Mapping[str, float]) -> PointSpeeds | None:
    """Return speed limits of links' origins along paths; None without any.

    Args:
        checker: robot and joints of the paths.
        limits: max speeds by link [m/s].

    Raises:
        InvalidConfig: a speed that is not above 0.
    """
    kinematics = checker_kinematics(checker)

    def jacobian(link: str) -> Callable[[Array], Array]:
        return lambda Q: kinematics.jacobian_batch(Q, link)[:, :3]

    return PointSpeeds(tuple(map(jacobian, limits)), tuple(limits.values())) if limits else None


def cruising(
    motion: TimedPath,
    checker: CollisionChecker,
    limits: Mapping[str, float],
    *,
    scaling: tuple[float, float] = (1.0, 1.0),
    effort_share: float = EFFORT_SHARE,
    payload: Payload | None = None,
) -> TimedPath:
    """Return a motion along the same path with limited speeds of links' origins.

    Args:
        motion: of the checker's joints.
        checker: robot and joints of the motion.
        limits: max speeds by link [m/s].
        scaling: fractions of the velocity and acceleration limits.
        effort_share: fraction of the effort limits that may be used; 0: not considered.
        payload: for the effort limits; None: nothing is carried.

    Raises:
        InvalidConfig: a speed that is not above 0, or limits that permit no motion.
    """
    speeds = tool_speeds(checker, limits)
    if speeds is None or speeds.stretch(motion) <= 1.0:
        return motion
    joints = checker.joint_names
    efforts = effort_limits(checker.robot, joints, checker.positions, effort_share, payload)
    joint_limits = scaled_limits(checker.limits, *scaling)
    return time_optimal(motion.path, joint_limits, efforts=efforts, speeds=speeds)
