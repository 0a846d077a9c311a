# SPDX-License-Identifier: Apache-2.0
"""Motions to named states of one robot on the viewer's page, with scaled velocities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from motion_nodes.errors import InvalidCommand
from motion_nodes.model.robot import Robot
from motion_nodes.ros import qos
from motion_nodes.ros.messages.trajectory_messages import fill_seconds
from motion_nodes.ros.names import JOINT_CONTROLLER, under
from motion_nodes.ros.node import MotionNode
from motion_nodes.trajectory.joint_trajectory import rest_to_rest_duration
from motion_nodes.view.scaling_panel import MotionScaling

MIN_DURATION = 0.1
"""Min duration of a motion [s], for joints that are at the state already."""


class ScaledMotions:
    """Sends motions to joint positions, without avoiding obstacles, to the joint controller."""

    def __init__(self, node: MotionNode[Any], robot: Robot, namespace: str) -> None:
        """Create the publisher.

        Args:
            node: the viewer.
            robot: whose joints move.
            namespace: of the robot's topics.
        """
        self._robot = robot
        self._trajectories = node.advertise(
            JointTrajectory, under(namespace, f"{JOINT_CONTROLLER}/joint_trajectory"), qos.REQUESTS
        )

    def send(
        self, goal: Mapping[str, float], current: Mapping[str, float], scaling: MotionScaling
    ) -> None:
        """Move joints to positions; all arrive together.

        Args:
            goal: by joint [rad or m].
            current: measured positions by joint [rad or m]; NaN: unknown.
            scaling: of the robot's limits.

        Raises:
            InvalidCommand: the position of a joint is unknown; nothing moves.
        """
        self._trajectories.publish(scaled_motion(self._robot, goal, current, scaling))


def scaled_motion(
    robot: Robot,
    goal: Mapping[str, float],
    current: Mapping[str, float],
    scaling: MotionScaling,
) -> JointTrajectory:
    """Return the trajectory from the controller's references to positions at rest.

    It has one point, before which the controller interpolates by a quintic. The duration is the
    shortest with which a motion from rest is within the scaled limits.

    Args:
        robot: with the limits.
        goal: by joint [rad or m].
        current: measured positions by joint [rad or m]; NaN: unknown.
        scaling: of the limits of velocity, and of those of acceleration and jerk.

    Raises:
        InvalidCommand: the position of a joint is unknown.
    """
    names = tuple(goal)
    positions = np.array([float(goal[name]) for name in names])
    start = np.array([float(current.get(name, np.nan)) for name in names])
    unknown = [name for name, q in zip(names, start, strict=True) if not np.isfinite(q)]
    if unknown:
        raise InvalidCommand(
            f"the position of {', '.join(unknown)} is not known: nothing moves.", field=unknown[0]
        )
    limits = robot.limits.select(names)
    duration = rest_to_rest_duration(
        limits.turns.distance(start, positions),
        scaling.velocity * limits.velocity,
        scaling.acceleration * limits.acceleration,
        scaling.acceleration * limits.jerk,
    )
    zeros = [0.0] * len(names)
    point = JointTrajectoryPoint(
        positions=positions.tolist(), velocities=zeros, accelerations=list(zeros)
    )
    fill_seconds(point.time_from_start, max(duration, MIN_DURATION))
    return JointTrajectory(joint_names=list(names), points=[point])
