# SPDX-License-Identifier: Apache-2.0
"""``motion ik``: inverse kinematics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from motion_nodes.cli.options import (
    DegreesOption,
    GroupOption,
    JsonOption,
    PositionOption,
    QuatOption,
    RobotArgument,
    RpyOption,
    SeedOption,
    WorldOption,
)

if TYPE_CHECKING:
    from motion_nodes.cli.values import Subject
    from motion_nodes.ik.problem import IkResult, Validity


def ik(
    robot: RobotArgument,
    position: PositionOption = None,
    rpy: RpyOption = None,
    quat: QuatOption = None,
    near: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Seed: named state or joint positions; the closest solution is printed. Default: "
            "the state ready, else home.",
        ),
    ] = None,
    group: GroupOption = None,
    world: WorldOption = None,
    free: Annotated[bool, typer.Option("--free", help="Only collision-free solutions.")] = False,
    solver: Annotated[str, typer.Option(help="Name of the solver.")] = "damped_least_squares",
    tolerance: Annotated[float, typer.Option(help="Position tolerance [m].")] = 1e-3,
    angle_tolerance: Annotated[float, typer.Option(help="Orientation tolerance [rad].")] = 0.01,
    seed: SeedOption = 0,
    timeout: Annotated[float, typer.Option(help="Timeout of the search [s].")] = 1.0,
    degrees: DegreesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compute joint positions for a pose of the tip (inverse kinematics).

    Without --rpy and --quat the orientation is free. Exit code 1: no solution.
    """
    import numpy as np

    from motion_nodes.cli.printing import waiting
    from motion_nodes.cli.values import NO_SOLUTION, Subject
    from motion_nodes.ik.chain import IkChain
    from motion_nodes.ik.problem import IkRequest, IkSettings, IkTolerance
    from motion_nodes.ik.solvers import make_solver

    subject = Subject.of(robot, group, degrees)
    target, oriented = subject.pose(position, rpy, quat)
    bounds = IkTolerance(tolerance, angle_tolerance if oriented else np.inf)
    settings = IkSettings(tolerance=bounds, random_seed=seed, timeout=timeout, prefer="closest")
    start = subject.default_state if near is None else subject.configuration(near, "--from")
    with waiting("compiling kernels (once per robot)"):
        chain = IkChain.of_group(subject.robot, subject.group.name)
        ik_solver = make_solver(chain, solver)
        validity = _validity(subject, world) if free or world is not None else None
    request = IkRequest(
        subject.in_group_base(target), seed=start, settings=settings, validity=validity
    )
    result = ik_solver.solve(request)
    _report(subject, result, oriented, as_json)
    if not result.success:
        raise typer.Exit(NO_SOLUTION)


def _validity(subject: Subject, world: str | None) -> Validity:
    from motion_nodes.cli.values import checker_of
    from motion_nodes.planning.start_state import in_words

    checker = checker_of(subject, world)

    def is_valid(q: Any) -> bool | str:
        return checker.exact.is_free(q) or in_words(checker, q)

    return is_valid


def _report(subject: Subject, result: IkResult, oriented: bool, as_json: bool) -> None:
    from motion_nodes.cli.printing import print_json, print_line, print_table

    names = subject.group.joints
    if as_json:
        print_json(
            {
                "robot": subject.robot.name,
                "group": subject.group.name,
                "success": result.success,
                "status": result.status.name,
                "reason": result.reason,
                "joints": dict(zip(names, result.q.tolist(), strict=True)),
                "position_error": result.position_error,
                "orientation_error": result.orientation_error,
                "time": result.time,
            }
        )
        return
    if not result.success:
        print_line(f"No solution. {result.reason}")
        print_line("Closest configuration:")
    rows = zip(names, subject.shown(result.q).tolist(), subject.units, strict=True)
    print_table(["joint", "position", ""], rows)
    angle = f"{result.orientation_error:.2g} rad" if oriented else "orientation free"
    print_line(
        f"error {1000.0 * result.position_error:.4g} mm, {angle}; {1e3 * result.time:.2g} ms"
    )
