# SPDX-License-Identifier: Apache-2.0
"""``motion plan``: motion planning around obstacles."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

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

if TYPE_CHECKING:
    from motion_nodes.cli.values import PoseWords, Subject
    from motion_nodes.planning.pipeline import MotionPlan
    from motion_nodes.planning.planning_problem import Goal
    from motion_nodes.typing import Array

_COLUMNS = 6
"""Max number of waypoints printed."""


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
    from motion_nodes.cli.printing import waiting
    from motion_nodes.cli.trajectory_out import check_output, write_trajectory
    from motion_nodes.cli.values import NO_SOLUTION, PoseWords, Subject, checked_timeout, checker_of
    from motion_nodes.planning.pipeline import PlanOptions
    from motion_nodes.planning.pipeline import plan as plan_motion
    from motion_nodes.planning.planning_problem import PlanRequest
    from motion_nodes.planning.warm_up import warm_up

    check_output(output)
    checked_timeout(timeout)
    subject = Subject.of(robot, group, degrees)
    start = subject.configuration(begin, "--from")
    goal = _goal(subject, end, PoseWords(to_position, to_rpy, to_quat))
    options = PlanOptions(
        planner=_known_planner(planner),
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


def _known_planner(name: str) -> str:
    """Reject an unknown planner, for which requests over ROS get the default one."""
    from motion_nodes.errors import InvalidConfig
    from motion_nodes.planning.planners import find_planner

    known, note = find_planner(name)
    if note:
        raise InvalidConfig(f"--planner: {note}")
    return known


def _goal(subject: Subject, end: str | None, pose: PoseWords) -> Goal:
    """Return the goal: joint positions or a pose."""
    from motion_nodes.cli.values import TipPose
    from motion_nodes.ik.problem import IkTolerance
    from motion_nodes.planning.planning_problem import JointGoal, PoseGoal

    target = subject.destination(end, pose)
    if not isinstance(target, TipPose):
        return JointGoal(target)
    tolerance = IkTolerance() if target.oriented else IkTolerance(1e-3, math.inf)
    return PoseGoal(target.tip, target.X_BT, tolerance)


def _report(subject: Subject, found: MotionPlan, output: str | None, as_json: bool) -> None:
    from motion_nodes.cli.printing import print_json, print_line, print_table
    from motion_nodes.cli.trajectory_out import trajectory_data

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
    from motion_nodes.cli.printing import print_table

    count = len(path)
    shown = list(range(count))
    if count > _COLUMNS:
        shown = [*shown[: _COLUMNS // 2], *shown[-_COLUMNS // 2 :]]
    rows = zip(subject.group.joints, subject.units, subject.shown(path[shown]).T, strict=True)
    print_table(
        [f"{count} waypoints", "", *map(str, shown)],
        [(name, unit, *values.tolist()) for name, unit, values in rows],
    )
