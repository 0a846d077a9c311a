# SPDX-License-Identifier: Apache-2.0
"""``motion go``: move a robot of a running suite."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from motion_nodes.cli.options import (
    DegreesOption,
    GroupOption,
    ToPositionOption,
    ToQuatOption,
    ToRpyOption,
)

if TYPE_CHECKING:
    from motion_nodes.cli.values import PoseWords
    from motion_nodes.model.placement import Placement
    from motion_nodes.model.robot import Robot
    from motion_nodes.nodes.clients.go import GoalRequest


def go(
    robot: Annotated[
        str, typer.Argument(help="Robot, as given to `motion up`: [NAMESPACE:=]ROBOT.")
    ],
    to: Annotated[
        str | None,
        typer.Option(
            help="Arm: named state or joint positions. Base: x,y or x,y,yaw [m, rad] in odom. "
            "Mobile manipulator: numbers are for the base, unless --group is given."
        ),
    ] = None,
    to_position: ToPositionOption = None,
    to_rpy: ToRpyOption = None,
    to_quat: ToQuatOption = None,
    group: GroupOption = None,
    velocity: Annotated[
        float, typer.Option(help="Velocity scaling factor of an arm, in (0, 1].")
    ] = 1.0,
    acceleration: Annotated[
        float, typer.Option(help="Acceleration scaling factor of an arm, in (0, 1].")
    ] = 1.0,
    timeout: Annotated[
        float, typer.Option(help="Max time to wait for a suite that is starting [s].")
    ] = 60.0,
    degrees: DegreesOption = False,
) -> None:
    """Move a robot of a running suite: an arm around obstacles, a base to a pose.

    Waits for a suite that is starting, and for the end of the motion. Ctrl-C stops the motion. Exit
    code 1: the target was not reached; the reason is printed.
    """
    import time

    from motion_nodes.cli.printing import print_line
    from motion_nodes.cli.values import NO_SOLUTION, PoseWords, checked_timeout
    from motion_nodes.errors import InvalidCommand, RobotNotFound
    from motion_nodes.model.placement import parse_placement
    from motion_nodes.nodes.clients.go import execute
    from motion_nodes.robot_setup.derived_robot import load_description

    for name, factor in (("velocity", velocity), ("acceleration", acceleration)):
        if not 0.0 < factor <= 1.0:
            raise InvalidCommand(f"--{name} is {factor:g}; it must be above 0 and at most 1.")
    checked_timeout(timeout)
    place = parse_placement(robot)
    pose = PoseWords(to_position, to_rpy, to_quat)
    try:
        known = load_description(place.robot)
    except RobotNotFound as error:
        if to is not None or pose.given:
            raise
        raise InvalidCommand(f"{error} Goals follow it: motion go ROBOT --to {robot}.") from None
    if known.base is not None and group is None and not _for_its_arm(known, to, pose):
        if pose.given or (velocity, acceleration) != (1.0, 1.0):
            raise InvalidCommand(
                f"'{known.name}' is a mobile base; its only target option is --to x,y or x,y,yaw."
            )
        request = _base_request(place, known, to, degrees)
    else:
        request = _arm_request(place, group, to, pose, degrees)
        request.goal.request.max_velocity_scaling_factor = velocity
        request.goal.request.max_acceleration_scaling_factor = acceleration
    begin = time.monotonic()
    failure = execute(request, timeout, print_line)
    if failure:
        end = "" if failure.endswith((".", "?")) else "."
        print_line(f"target not reached: {failure}{end}")
        if time.monotonic() - begin > timeout:
            print_line(
                "Is `motion up` running, with this robot and the same ROS_DOMAIN_ID and namespace?"
            )
        raise typer.Exit(NO_SOLUTION)
    print_line(f"target reached after {time.monotonic() - begin:.1f} s.")


def _for_its_arm(robot: Robot, to: str | None, pose: PoseWords) -> bool:
    """Return whether a target of a mobile base is one of the arm on it."""
    has_arm = any(group.tip for group in robot.groups.values())
    return has_arm and (
        pose.given or (to is not None and re.search(r"[^-+\d.,e\s]", to) is not None)
    )


def _arm_request(
    place: Placement,
    group: str | None,
    to: str | None,
    pose: PoseWords,
    degrees: bool,
) -> GoalRequest:
    """Return the request for an arm."""
    from motion_nodes.cli.values import Subject, TipPose
    from motion_nodes.nodes.clients.go import arm_to_joints, arm_to_pose
    from motion_nodes.ros.names import under

    subject = Subject.of(place.robot, group, degrees)
    target = subject.destination(to, pose)
    prefix, name = f"/{place.namespace}" if place.namespace else "", subject.group.name
    if isinstance(target, TipPose):
        frame = under(place.namespace, subject.robot.base_frame)
        return arm_to_pose(prefix, name, target.tip, frame, target.X_BT, oriented=target.oriented)
    joints = dict(zip(subject.group.joints, map(float, target), strict=True))
    return arm_to_joints(prefix, name, joints)


def _base_request(place: Placement, robot: Robot, to: str | None, degrees: bool) -> GoalRequest:
    """Return the request for a mobile base."""
    import math

    from motion_nodes.base_navigation.planar_pose import Pose2
    from motion_nodes.cli.values import numbers
    from motion_nodes.errors import InvalidCommand
    from motion_nodes.nodes.clients.go import base_to_pose
    from motion_nodes.ros.names import under

    if to is None:
        raise InvalidCommand("give a target: --to x,y or --to x,y,yaw [m, rad].")
    x, y, *yaw = map(float, numbers(to, (2, 3), "--to", "x,y or x,y,yaw"))
    angle = yaw[0] if yaw else 0.0
    prefix = f"/{place.namespace}" if place.namespace else ""
    frame = under(place.namespace, robot.description.frames.odom)
    return base_to_pose(prefix, frame, Pose2(x, y, math.radians(angle) if degrees else angle))
