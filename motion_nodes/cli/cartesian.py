# SPDX-License-Identifier: Apache-2.0
"""``motion cartesian``: straight-line motions of the tip."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from motion_nodes.cli.options import (
    DegreesOption,
    GroupOption,
    JsonOption,
    OutputOption,
    RobotArgument,
    WorldOption,
)

if TYPE_CHECKING:
    from motion_nodes.cli.values import Subject
    from motion_nodes.planning.cartesian import CartesianPath
    from motion_nodes.trajectory.joint_trajectory import JointTrajectory


def cartesian(
    robot: RobotArgument,
    to: Annotated[
        list[str] | None,
        typer.Option(
            help="Target pose: x,y,z (orientation kept), x,y,z,roll,pitch,yaw or "
            "x,y,z,qx,qy,qz,qw [m, rad]; repeat for further segments."
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(help="Displacement from there: dx,dy,dz [m]; may be repeated."),
    ] = None,
    begin: Annotated[
        str, typer.Option("--from", help="Start: named state or joint positions.")
    ] = "home",
    step: Annotated[float, typer.Option(help="Max distance between waypoints [m].")] = 0.01,
    speed: Annotated[
        float | None,
        typer.Option(help="Max speed of the tip [m/s]; default: as joint limits allow."),
    ] = None,
    world: WorldOption = None,
    group: GroupOption = None,
    output: OutputOption = None,
    degrees: DegreesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compute a motion of the tip along straight lines, within joint limits and around obstacles.

    Exit code 1: the path is incomplete; its end and the reason are printed.
    """
    from motion_nodes.cli.printing import waiting
    from motion_nodes.cli.trajectory_out import check_output, write_trajectory
    from motion_nodes.cli.values import NO_SOLUTION, Subject, checker_of
    from motion_nodes.errors import InvalidCommand
    from motion_nodes.model.kinematics import Kinematics
    from motion_nodes.planning.cartesian import CartesianOptions, cartesian_path

    check_output(output)
    subject = Subject.of(robot, group, degrees)
    model, tip = subject.robot, subject.group.tip
    if tip is None:
        raise InvalidCommand(f"group '{subject.group.name}' has no tip to move along a line.")
    start = subject.configuration(begin, "--from")
    q = model.home.copy()
    q[subject.group.indices] = start
    X_BT = Kinematics(model.tree, base=model.base_frame).pose(q, tip)
    poses = _poses(subject, X_BT, to or [], by or [])
    options = CartesianOptions(max_step=step)
    with waiting("compiling kernels (once per robot)"):
        checker = checker_of(subject, world)
        found = cartesian_path(checker, start, tip, poses, options)
    motion = _timed(found, checker, tip, speed)
    if output is not None and motion is not None:
        write_trajectory(motion, output)
    _report(subject, found, motion, output, as_json)
    if not found.success:
        raise typer.Exit(NO_SOLUTION)


def _poses(subject: Subject, X_BT: Any, to: list[str], by: list[str]) -> list[Any]:
    """Return the end poses of the segments, shape (4, 4) each: first --to, then --by."""
    import numpy as np

    from motion_nodes.cli.values import numbers
    from motion_nodes.errors import InvalidCommand
    from motion_nodes.model.poses import from_xyz_quat, from_xyz_rpy

    if not to and not by:
        raise InvalidCommand("give a target: --to x,y,z or --by dx,dy,dz.")
    poses = [X_BT]
    for text in to:
        values = numbers(text, (3, 6, 7), "--to", "x,y,z, and roll,pitch,yaw or qx,qy,qz,qw")
        X = poses[-1].copy()
        if len(values) == 6:
            angles = np.radians(values[3:]) if subject.degrees else values[3:]
            X = from_xyz_rpy(values[:3], angles)
        elif len(values) == 7:
            try:
                X = from_xyz_quat(values[:3], values[3:])
            except ValueError:
                raise InvalidCommand(
                    "--to: the quaternion is zero; the identity is 0,0,0,1."
                ) from None
        X[:3, 3] = values[:3]
        poses.append(X)
    for text in by:
        X = poses[-1].copy()
        X[:3, 3] += numbers(text, 3, "--by", "dx,dy,dz")
        poses.append(X)
    return poses[1:]


def _timed(
    found: CartesianPath, checker: Any, tip: str, speed: float | None
) -> JointTrajectory | None:
    """Return the time-parameterized path, or None if it has no motion."""
    import numpy as np

    from motion_nodes.planning.cartesian import cartesian_motion
    from motion_nodes.planning.tool_speed import cruising

    path = found.path
    if np.abs(path - path[0]).max() < 1e-9:
        return None
    motion = cartesian_motion(checker, path)
    if speed is not None:
        motion = cruising(motion, checker, {tip: speed})
    return motion.points(0.01)


def _report(
    subject: Subject,
    found: CartesianPath,
    motion: JointTrajectory | None,
    output: str | None,
    as_json: bool,
) -> None:
    from motion_nodes.cli.printing import print_json, print_line, print_table
    from motion_nodes.cli.trajectory_out import trajectory_data

    if as_json:
        print_json(
            {
                "robot": subject.robot.name,
                "group": subject.group.name,
                "success": found.success,
                "status": found.stop.name,
                "reason": found.reason,
                "fraction": found.fraction,
                "path": found.path,
                "trajectory": trajectory_data(motion) if motion is not None else None,
            }
        )
        return
    last = subject.shown(found.path[-1]).tolist()
    print_table(
        ["joint", "end position", ""], zip(subject.group.joints, last, subject.units, strict=True)
    )
    print_line(f"{100.0 * found.fraction:.4g} % of the path, {len(found.path)} waypoints.")
    if not found.success:
        print_line(f"The path is incomplete: {found.reason}")
    if motion is not None:
        saved = f", written to {output}" if output is not None else ""
        print_line(f"Duration: {motion.times[-1]:.4g} s{saved}.")
