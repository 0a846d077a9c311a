# SPDX-License-Identifier: Apache-2.0
"""Commands of planning: ``motion plan``, ``cartesian`` and ``plot``.

``motion plan``: motion planning around obstacles; ``motion cartesian``: straight-line motions of
the tip; ``motion plot``: plots of a trajectory with its joint limits.
"""

from __future__ import annotations

import math
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from motion_nodes.cli.options import (
    DegreesOption,
    GroupOption,
    JsonOption,
    OutputOption,
    RobotArgument,
    SeedOption,
    ToPositionOption,
    ToQuatOption,
    ToRpyOption,
    WorldOption,
)
from motion_nodes.cli.output import (
    output_path,
    print_json,
    print_line,
    print_table,
    waiting,
    write_output,
)
from motion_nodes.errors import InvalidCommand, InvalidConfig, did_you_mean

if TYPE_CHECKING:
    from motion_nodes.cli.values import PoseWords, Subject
    from motion_nodes.core.planning.cartesian import CartesianPath
    from motion_nodes.core.planning.pipeline import MotionPlan
    from motion_nodes.core.planning.planning_problem import Goal
    from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory, Trajectory
    from motion_nodes.core.trajectory.through_waypoints import WaypointOptions
    from motion_nodes.typing import Array

_COLUMNS = 6
"""Max number of waypoints printed."""
SUFFIXES = (".svg", ".html")
_HEAD = """<!DOCTYPE html>
<html><head><meta charset="utf-8"><title>{}</title></head><body style="margin:0">
"""


def plan(
    robot: RobotArgument,
    begin: Annotated[
        str, typer.Option("--from", help="Start: named state or joint positions.")
    ] = "home",
    end: Annotated[
        str | None, typer.Option("--to", help="Goal: named state or joint positions.")
    ] = None,
    to_position: ToPositionOption = None,
    to_rpy: ToRpyOption = None,
    to_quat: ToQuatOption = None,
    world: WorldOption = None,
    group: GroupOption = None,
    planner: Annotated[str, typer.Option(help="Name of the planner; default: the fastest.")] = "",
    velocity: Annotated[float, typer.Option(help="Velocity scaling factor, in (0, 1].")] = 1.0,
    acceleration: Annotated[
        float, typer.Option(help="Acceleration scaling factor, in (0, 1].")
    ] = 1.0,
    timeout: Annotated[float, typer.Option(help="Planning timeout [s].")] = 5.0,
    seed: SeedOption = 123456,
    output: OutputOption = None,
    degrees: DegreesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Plan a collision-free motion of an arm within its limits.

    Exit code 1: no motion found.
    """
    from motion_nodes.cli.values import NO_SOLUTION, PoseWords, Subject, checked_timeout, checker_of
    from motion_nodes.core.planning.pipeline import PlanOptions
    from motion_nodes.core.planning.pipeline import plan as plan_motion
    from motion_nodes.core.planning.planning_problem import PlanRequest
    from motion_nodes.core.planning.warm_up import warm_up
    from motion_nodes.core.trajectory.trajectory_files import write_trajectory

    checked_timeout(timeout)
    subject = Subject.of(robot, group, degrees)
    start = subject.configuration(begin, "--from")
    goal = _goal(subject, end, PoseWords(to_position, to_rpy, to_quat))
    options = PlanOptions(
        planner=known_planner(planner),
        velocity_scaling=velocity,
        acceleration_scaling=acceleration,
    )
    checker = checker_of(subject, world)
    with waiting("compiling kernels (once per machine, half a minute)"):
        warm_up(checker, (options.planner,))
    with waiting("planning"):
        found = plan_motion(PlanRequest(checker, start, (goal,), timeout, seed), options)
    if output is not None and found.trajectory is not None:
        write_trajectory(found.trajectory, output)
    _report(subject, found, output, as_json)
    if not found.success:
        raise typer.Exit(NO_SOLUTION)


def known_planner(name: str) -> str:
    """Reject an unknown planner, for which requests over ROS get the default one."""
    from motion_nodes.core.planning.planners import find_planner, planner_names

    known, note = find_planner(name)
    if note:
        hint = did_you_mean(name, planner_names())
        raise InvalidConfig(f"--planner: there is no planner '{name}'.{hint}")
    return known


def _goal(subject: Subject, end: str | None, pose: PoseWords) -> Goal:
    """Return the goal: joint positions or a pose."""
    from motion_nodes.cli.values import TipPose
    from motion_nodes.core.ik.problem import IkTolerance
    from motion_nodes.core.planning.planning_problem import JointGoal, PoseGoal

    target = subject.destination(end, pose)
    if not isinstance(target, TipPose):
        return JointGoal(target)
    tolerance = IkTolerance() if target.oriented else IkTolerance(1e-3, math.inf)
    return PoseGoal(target.tip, target.X_BT, tolerance)


def _report(subject: Subject, found: MotionPlan, output: str | None, as_json: bool) -> None:
    from motion_nodes.core.trajectory.trajectory_files import trajectory_data

    stages = [
        {"name": stage.name, "time": stage.time, "result": stage.words} for stage in found.stages
    ]
    if as_json:
        print_json(
            {
                "robot": subject.robot.name,
                "group": subject.group.name,
                "success": found.success,
                "status": found.status.name,
                "reason": found.reason,
                "notes": found.notes,
                "stages": stages,
                "path": found.path,
                "trajectory": trajectory_data(found.trajectory) if found.trajectory else None,
            }
        )
        return
    print_table(
        ["stage", "[ms]", "result"],
        [(stage["name"], 1000.0 * float(str(stage["time"])), stage["result"]) for stage in stages],
    )
    for note in found.notes:
        print_line(f"note: {note}")
    if found.trajectory is None or found.path is None:
        print_line(f"No motion: {found.status.value}. {found.reason}")
        return
    _print_waypoints(subject, found.path)
    saved = f", written to {output}" if output is not None else ""
    points = len(found.trajectory.times)
    print_line(f"Duration: {found.trajectory.times[-1]:.4g} s, {points} points{saved}.")


def _print_waypoints(subject: Subject, path: Array) -> None:
    """Print a row per joint; of long paths only the first and last waypoints."""
    count = len(path)
    shown = list(range(count))
    if count > _COLUMNS:
        shown = [*shown[: _COLUMNS // 2], *shown[-_COLUMNS // 2 :]]
    rows = zip(subject.group.joints, subject.units, subject.shown(path[shown]).T, strict=True)
    print_table(
        [f"{count} waypoints", "", *map(str, shown)],
        [(name, unit, *values.tolist()) for name, unit, values in rows],
    )


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
    from motion_nodes.cli.values import NO_SOLUTION, Subject, checker_of
    from motion_nodes.core.planning.cartesian import CartesianOptions, cartesian_path
    from motion_nodes.core.robot.kinematics import Kinematics
    from motion_nodes.core.trajectory.trajectory_files import write_trajectory

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
    _cartesian_report(subject, found, motion, output, as_json)
    if not found.success:
        raise typer.Exit(NO_SOLUTION)


def _poses(subject: Subject, X_BT: Any, to: list[str], by: list[str]) -> list[Any]:
    """Return the end poses of the segments, shape (4, 4) each: first --to, then --by."""
    import numpy as np

    from motion_nodes.cli.values import numbers
    from motion_nodes.core.robot.poses import from_xyz_quat, from_xyz_rpy

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

    from motion_nodes.core.planning.cartesian import cartesian_motion, cruising

    path = found.path
    if np.abs(path - path[0]).max() < 1e-9:
        return None
    motion = cartesian_motion(checker, path)
    if speed is not None:
        motion = cruising(motion, checker, {tip: speed})
    return motion.points(0.01)


def _cartesian_report(
    subject: Subject,
    found: CartesianPath,
    motion: JointTrajectory | None,
    output: str | None,
    as_json: bool,
) -> None:
    from motion_nodes.core.trajectory.trajectory_files import trajectory_data

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


def plot(
    robot: RobotArgument,
    file: Annotated[
        str,
        typer.Argument(
            help="Trajectory or waypoints (JSON, YAML or CSV, such as written by 'motion plan "
            "--output'), a recording (MCAP), or a path of the tool (YAML)."
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
    from motion_nodes.cli.values import Subject
    from motion_nodes.core.robot.kinematics import Kinematics
    from motion_nodes.core.trajectory.through_waypoints import WaypointOptions
    from motion_nodes.core.trajectory.trajectory_plot import curves_of, trajectory_svg

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
    from motion_nodes.cli.values import read_motion
    from motion_nodes.core.planning.task_space_generator import (
        CSpacePathSpec,
        TaskSpaceTrajectoryGenerator,
        load_path_spec,
    )
    from motion_nodes.core.trajectory.joint_path import checked_waypoints
    from motion_nodes.core.trajectory.joint_trajectory import Infeasible
    from motion_nodes.core.trajectory.through_waypoints import through_waypoints
    from motion_nodes.core.trajectory.trajectory_checks import joint_order
    from motion_nodes.core.trajectory.trajectory_files import PathFile, Waypoints

    robot, group = subject.robot, subject.group
    found = read_motion(file, robot.joint_names)
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
