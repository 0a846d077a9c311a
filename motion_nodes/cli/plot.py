# SPDX-License-Identifier: Apache-2.0
"""``motion plot``: plots of a trajectory with its joint limits."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from motion_nodes.cli.options import GroupOption, RobotArgument

if TYPE_CHECKING:
    from motion_nodes.cli.values import Subject
    from motion_nodes.trajectory.through_waypoints import WaypointOptions
    from motion_nodes.trajectory.trajectory import Trajectory

SUFFIXES = (".svg", ".html")
_HEAD = """<!DOCTYPE html>
<html><head><meta charset="utf-8"><title>{}</title></head><body style="margin:0">
"""


def plot(
    robot: RobotArgument,
    file: Annotated[
        str,
        typer.Argument(
            help="Trajectory or waypoints (JSON, YAML or CSV, such as written by 'motion plan "
            "--output'), or a path of the tool (YAML)."
        ),
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", help="Output file: .svg or .html.")
    ] = "trajectory.svg",
    group: GroupOption = None,
    method: Annotated[
        str,
        typer.Option(help="Time parameterization of waypoints: time_optimal, lines or saturation."),
    ] = "time_optimal",
    velocity: Annotated[float, typer.Option(help="Velocity scaling factor, in (0, 1].")] = 1.0,
    acceleration: Annotated[
        float, typer.Option(help="Acceleration scaling factor, in (0, 1].")
    ] = 1.0,
    jerk_limited: Annotated[bool, typer.Option(help="Respect jerk limits.")] = True,
) -> None:
    """Plot positions, velocities, accelerations and jerks over time, and the tool's path.

    Waypoints and paths are time-parameterized first, as by the trajectory generator.
    """
    from motion_nodes.cli.output_files import output_path, write_output
    from motion_nodes.cli.printing import print_line
    from motion_nodes.cli.values import Subject
    from motion_nodes.model.kinematics import Kinematics
    from motion_nodes.trajectory.through_waypoints import WaypointOptions
    from motion_nodes.trajectory.trajectory_plot import curves_of, trajectory_svg

    target = output_path(output, SUFFIXES)
    subject = Subject.of(robot, group)
    options = WaypointOptions(method, jerk_limited, velocity, acceleration)
    motion = _motion_of(subject, file, options)
    curves = curves_of(motion)
    tool = None
    if subject.group.tip is not None:
        model = subject.robot
        kinematics = Kinematics(model.tree, model.joint_names, base=model.base_frame)
        Q = model.home + 0.0 * curves.times[:, None]
        Q[:, model.indices(curves.joint_names)] = curves.positions
        tool = kinematics.pose_batch(Q, subject.group.tip)[:, :3, 3]
    title = f"{subject.robot.name}: {Path(file).name}, {motion.duration:.4g} s"
    limits = subject.robot.limits.select(curves.joint_names)
    text = trajectory_svg(curves, limits, tool, title)
    if target.suffix == ".html":
        text = f"{_HEAD.format(escape(title))}{text}</body></html>\n"
    write_output(target, text)
    print_line(f"Duration: {motion.duration:.4g} s; written to {output}.")


def _motion_of(subject: Subject, file: str, options: WaypointOptions) -> Trajectory:
    """Return the motion in a file, time-parameterized if needed."""
    from motion_nodes.cli.trajectory_in import PathFile, Waypoints, read_motion
    from motion_nodes.planning.composite_path import CSpacePathSpec
    from motion_nodes.planning.path_spec_file import load_path_spec
    from motion_nodes.planning.task_space_generator import TaskSpaceTrajectoryGenerator
    from motion_nodes.trajectory.joint_path import checked_waypoints
    from motion_nodes.trajectory.through_waypoints import through_waypoints
    from motion_nodes.trajectory.trajectory import Infeasible
    from motion_nodes.trajectory.trajectory_checks import joint_order

    robot, group = subject.robot, subject.group
    found = read_motion(file)
    if isinstance(found, PathFile):
        spec = load_path_spec(found.file)
        if not isinstance(spec, CSpacePathSpec):
            generator = TaskSpaceTrajectoryGenerator(robot, group.name, options=options)
            seed = robot.home[robot.indices(generator.joint_names)]
            motion = generator.compute_task_space_trajectory_from_path_spec(spec, seed=seed)
            if motion is None:
                raise Infeasible(generator.failure)
            return motion
        found = Waypoints(group.joints, spec.waypoints)
    joint_order(found.joint_names, robot.joint_names)
    if not isinstance(found, Waypoints):
        return found
    points = checked_waypoints(found.positions, found.joint_names, least=2)
    return through_waypoints(points, robot.limits.select(found.joint_names), options)
