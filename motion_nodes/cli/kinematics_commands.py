# SPDX-License-Identifier: Apache-2.0
"""Commands of kinematics: ``motion fk``, ``ik``, ``batch``, ``reach`` and ``bench``.

``motion fk``: forward kinematics; ``motion ik``: inverse kinematics; ``motion batch``: inverse
kinematics or plans for many poses of a file; ``motion reach``: a reachability map as a picture;
``motion bench``: computation times for a robot on this machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from motion_nodes.cli.cluster import ClusterOption, cluster
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
    frame_words,
    state_words,
)
from motion_nodes.cli.output import (
    output_path,
    pose_data,
    pose_rows,
    print_json,
    print_line,
    print_table,
    waiting,
    write_output,
)
from motion_nodes.errors import InvalidCommand, InvalidDescription

if TYPE_CHECKING:
    from collections.abc import Sequence

    from motion_nodes.cli.values import Subject
    from motion_nodes.core.ik.problem import IkBatchResult, IkResult, Validity
    from motion_nodes.core.planning.pipeline import MotionPlan
    from motion_nodes.typing import Array

COLUMNS = ("x", "y", "z", "qx", "qy", "qz", "qw")
"""Position [m] and quaternion of a pose."""
_TARGETS = 200
"""Number of random poses and configurations."""


def fk(
    robot: RobotArgument,
    joints: Annotated[
        str | None,
        typer.Option(
            help="Positions of all joints of the group, or joint=value,...; default: --state."
        ),
    ] = None,
    state: Annotated[
        str, typer.Option(help="Named state of the joints.", autocompletion=state_words)
    ] = "home",
    frame: Annotated[
        list[str] | None,
        typer.Option(
            help="Frame to compute, may be repeated; default: the group's tip.",
            autocompletion=frame_words,
        ),
    ] = None,
    every_frame: Annotated[bool, typer.Option("--all", help="All frames of the robot.")] = False,
    base: Annotated[
        str | None,
        typer.Option(
            help="Reference frame of the poses; default: the robot's base frame.",
            autocompletion=frame_words,
        ),
    ] = None,
    group: GroupOption = None,
    degrees: DegreesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compute the poses of frames (forward kinematics)."""
    from motion_nodes.cli.values import Subject
    from motion_nodes.core.robot.kinematics import Kinematics

    subject = Subject.of(robot, group, degrees)
    model, chosen = subject.robot, subject.group
    q = model.home.copy()
    what = "--state" if joints is None else "--joints"
    q[chosen.indices] = subject.configuration(
        state if joints is None else joints, what, inside=False
    )
    tip = chosen.tip or model.tool_frame or model.tree.frame_names[-1]
    frames = list(model.tree.frame_names) if every_frame else frame or [tip]
    kinematics = Kinematics(model.tree, base=base or model.base_frame)
    poses = {name: kinematics.pose(q, name) for name in frames}
    if as_json:
        print_json(
            {
                "robot": model.name,
                "base": kinematics.base,
                "joints": dict(zip(model.joint_names, q.tolist(), strict=True)),
                "frames": {name: pose_data(X) for name, X in poses.items()},
            }
        )
        return
    print_table(
        [f"frame in {kinematics.base}", "", "x", "y", "z", "w"],
        [
            (name if k == 0 else "", *row)
            for name, X in poses.items()
            for k, row in enumerate(pose_rows(X, degrees))
        ],
    )


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

    from motion_nodes.cli.values import NO_SOLUTION, Subject
    from motion_nodes.core.ik.chain import IkChain
    from motion_nodes.core.ik.problem import IkRequest, IkSettings, IkTolerance
    from motion_nodes.core.ik.solvers import make_solver

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
    from motion_nodes.core.planning.planning_problem import in_words

    checker = checker_of(subject, world)

    def is_valid(q: Any) -> bool | str:
        return checker.exact.is_free(q) or in_words(checker, q)

    return is_valid


def _report(subject: Subject, result: IkResult, oriented: bool, as_json: bool) -> None:
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


def batch(
    robot: RobotArgument,
    poses: Annotated[
        str,
        typer.Argument(
            help="CSV file with a row x,y,z,qx,qy,qz,qw per pose of the tip in the base frame."
        ),
    ],
    start: Annotated[
        str | None,
        typer.Option(
            "--plan-from",
            help="Plan to each pose from this named state or joint positions; without it, solve "
            "inverse kinematics.",
        ),
    ] = None,
    group: GroupOption = None,
    world: WorldOption = None,
    timeout: Annotated[float, typer.Option(help="Timeout of each pose [s].")] = 1.0,
    address: ClusterOption = "",
    as_json: JsonOption = False,
) -> None:
    """Solve collision-free inverse kinematics, or plan, for many poses in parallel.

    Exit code 1: a pose without solution.
    """
    from motion_nodes.api.joint_group import JointGroup
    from motion_nodes.cli.values import NO_SOLUTION, Subject, checked_timeout, checker_of
    from motion_nodes.core.ik.problem import IkSettings
    from motion_nodes.core.scene.world import World

    checked_timeout(timeout)
    X_BT, subject = _read(poses), Subject.of(robot, group)
    X = subject.in_group_base(X_BT)
    arm = JointGroup(subject.robot, subject.group.name)
    around = World(checker_of(subject, world).scene)
    if start is None:
        with waiting("solving inverse kinematics"), cluster(address) as executor:
            settings = IkSettings(timeout=timeout)
            found = arm.ik_batch(X, world=around, settings=settings, executor=executor)
        rows, head = _solutions(found), "joints [rad or m]"
    else:
        q = subject.configuration(start, "--plan-from")
        with waiting("planning"), cluster(address) as executor:
            plans = arm.plan_batch(q, X, around, timeout=timeout, executor=executor)
            rows, head = _plans(plans), "duration [s]"
    solved = sum(row["solved"] for row in rows)
    if as_json:
        print_json({"robot": subject.robot.name, "group": arm.name, "joints": subject.group.joints,
                    "solved": solved, "poses": rows})  # fmt: skip
    else:
        shown = [(k, row["result"], _short(row)) for k, row in enumerate(rows)]
        print_table(["pose", "result", head], shown)
        print_line(f"{solved} of {len(rows)} poses solved.")
    if solved < len(rows):
        raise typer.Exit(NO_SOLUTION)


def _solutions(found: IkBatchResult) -> list[dict[str, Any]]:
    """Return the results of inverse kinematics, a row per pose."""
    parts = zip(found.solved.tolist(), found.status, found.q.tolist(), strict=True)
    return [
        {"solved": good, "result": status.name.lower(), "positions": q if good else None}
        for good, status, q in parts
    ]


def _plans(plans: Sequence[MotionPlan]) -> list[dict[str, Any]]:
    """Return the results of planning, a row per pose."""
    return [
        {
            "solved": plan.success,
            "result": plan.status.name.lower(),
            "reason": plan.reason,
            "duration": plan.motion.duration if plan.motion is not None else None,
            "path": plan.path.tolist() if plan.path is not None else None,
        }
        for plan in plans
    ]


def _short(row: dict[str, Any]) -> object:
    """Return what a table shows of a row: positions or the duration."""
    if row.get("positions"):
        return ", ".join(f"{value:.4f}" for value in row["positions"])
    return row.get("duration") or ""


def _read(file: str) -> Array:
    """Return the poses of a file, shape (m, 4, 4)."""
    import csv

    import numpy as np

    from motion_nodes.core.robot.poses import from_xyz_quat

    try:
        with open(file, newline="", encoding="utf-8") as stream:
            table = [row for row in csv.reader(stream) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidDescription(f"{file}: {getattr(error, 'strerror', None) or error}.") from None
    if table and table[0] == list(COLUMNS):
        table = table[1:]
    found = []
    for number, row in enumerate(table, start=1):
        try:
            values = np.array([float(word) for word in row])
        except ValueError:
            values = np.empty(0)
        norm = float(np.linalg.norm(values[3:])) if len(values) == len(COLUMNS) else 0.0
        if not (np.isfinite(values).all() and 0.9 < norm < 1.1):
            raise InvalidDescription(
                f"{file}: pose {number} is '{','.join(row)}'; give {','.join(COLUMNS)}: finite "
                "numbers, a position [m] and a unit quaternion."
            )
        found.append(from_xyz_quat(values[:3], values[3:] / norm))
    if not found:
        raise InvalidDescription(f"{file}: no poses; give rows of {','.join(COLUMNS)}.")
    return np.array(found)


def reach(
    robot: RobotArgument,
    plane: Annotated[str, typer.Option(help="Plane of the map: xy, xz or yz.")] = "xz",
    offset: Annotated[
        float, typer.Option("--at", help="Position of the plane along the axis across it [m].")
    ] = 0.0,
    step: Annotated[float, typer.Option(help="Grid spacing [m].")] = 0.1,
    directions: Annotated[
        int, typer.Option(help="Number of approach directions (z axis of the tip) per point.")
    ] = 20,
    rpy: RpyOption = None,
    group: GroupOption = None,
    world: WorldOption = None,
    free: Annotated[
        bool, typer.Option("--free", help="Only collision-free configurations.")
    ] = False,
    output: Annotated[str, typer.Option("--output", "-o", help="Output file: .svg.")] = "reach.svg",
    degrees: DegreesOption = False,
    address: ClusterOption = "",
) -> None:
    """Plot the fraction of approach directions that an arm reaches in a plane of its base.

    With --rpy, only this orientation of the tip.
    """
    from motion_nodes.api.joint_group import JointGroup
    from motion_nodes.api.reachability import reachability_map
    from motion_nodes.cli.values import Subject, checker_of
    from motion_nodes.core.robot.poses import from_xyz_rpy
    from motion_nodes.core.scene.world import World

    file = output_path(output, (".svg",))
    subject = Subject.of(robot, group, degrees)
    arm, turn, around = JointGroup(subject.robot, subject.group.name), None, None
    if rpy is not None:
        turn = from_xyz_rpy((0.0, 0.0, 0.0), subject.angles(rpy, "--rpy"))[:3, :3]
    if free or world is not None:
        around = World(checker_of(subject, world).scene)
    with waiting("solving inverse kinematics"), cluster(address) as executor:
        found = reachability_map(
            arm,
            plane,
            offset,
            step=step,
            directions=directions,
            orientation=turn,
            world=around,
            executor=executor,
        )
    across = next(axis for axis in "xyz" if axis not in plane)
    title = f"{subject.robot.name} {arm.name}: {arm.tip}, {across} = {offset:g} m"
    write_output(file, found.svg(title))
    reached = found.share > 0.0
    print_line(
        f"{reached.sum()} of {reached.size} points are reached, {found.share[reached].mean():.0%} "
        f"of the orientations there; written to {output}."
        if reached.any()
        else f"None of {reached.size} points is reached; written to {output}."
    )


def bench(
    robot: RobotArgument,
    seconds: Annotated[float, typer.Option(help="Approximate duration of each row [s].")] = 0.5,
    world: WorldOption = None,
    group: GroupOption = None,
    seed: SeedOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Measure kinematics, inverse kinematics, collision checks and planning for a robot.

    Poses and configurations are random; times are those of calls from Python.
    """
    from motion_nodes.cli.values import Subject

    subject = Subject.of(robot, group)
    if subject.group.tip is None:
        raise InvalidCommand(f"group '{subject.group.name}' has no tip; only arms can be measured.")
    if not 0.0 < seconds <= 60.0:
        raise InvalidCommand(f"--seconds is {seconds:g}; it must be above 0 and up to 60.")
    with waiting("compiling kernels (once per machine, half a minute)"):
        jobs = _jobs(subject, world, seed)
    rows = []
    for name, job in jobs.items():
        with waiting(f"measuring {name}"):
            rows.append((name, *_measured(job, seconds)))
    if as_json:
        fields = ("what", "median", "p95", "calls", "successes")
        print_json(
            {
                "robot": subject.robot.name,
                "group": subject.group.name,
                "results": [dict(zip(fields, row, strict=True)) for row in rows],
            }
        )
        return
    print_table(
        ["", "median [us]", "95 % [us]", "calls", "found"],
        [(n, 1e6 * m, 1e6 * p, c, f"{100.0 * s / c:.4g} %") for n, m, p, c, s in rows],
    )
    print_line(f"{subject.robot.name}, group {subject.group.name}; times of calls from Python.")


def _jobs(subject: Subject, world: str | None, seed: int) -> dict[str, Callable[[int], bool]]:
    """Return the benchmarks by name: each runs its k-th task and returns its success."""
    import numpy as np

    from motion_nodes.api.joint_group import JointGroup
    from motion_nodes.cli.values import checker_of
    from motion_nodes.core.ik.chain import IkChain
    from motion_nodes.core.ik.problem import IkRequest
    from motion_nodes.core.ik.solvers import make_solver
    from motion_nodes.core.planning.pipeline import plan
    from motion_nodes.core.planning.planning_problem import JointGoal, PlanRequest
    from motion_nodes.core.planning.warm_up import warm_up

    chain = IkChain.of_group(subject.robot, subject.group.name)
    solver, kinematics, tip = make_solver(chain), chain.kinematics, chain.tip
    checker = checker_of(subject, world)
    warm_up(checker)
    Q = JointGroup(subject.robot, subject.group.name).random(_TARGETS, seed=seed)
    poses = kinematics.pose_batch(Q, tip)
    free = Q[checker.are_free(Q)]
    jobs: dict[str, Callable[[int], bool]] = {
        "forward kinematics": lambda k: bool(kinematics.pose(Q[k % len(Q)], tip) is not None),
        "Jacobian": lambda k: bool(kinematics.jacobian(Q[k % len(Q)], tip) is not None),
        "inverse kinematics": lambda k: solver.solve(IkRequest(poses[k % len(Q)])).success,
        "collision check": lambda k: bool(checker.is_free(Q[k % len(Q)])),
    }
    if len(free) > 1:

        def planned(k: int) -> bool:
            start, goal = free[k % len(free)], free[(k + 1) % len(free)]
            return plan(PlanRequest(checker, start, (JointGoal(np.asarray(goal)),))).success

        jobs["motion planning"] = planned
    return jobs


def _measured(job: Callable[[int], bool], seconds: float) -> tuple[float, float, int, int]:
    """Return median and 95th percentile [s], number of calls, and number of successes."""
    import numpy as np

    job(0)
    times: list[float] = []
    successes = 0
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or not times:
        begin = time.perf_counter()
        successes += job(len(times))
        times.append(time.perf_counter() - begin)
    return float(np.median(times)), float(np.percentile(times, 95)), len(times), successes
