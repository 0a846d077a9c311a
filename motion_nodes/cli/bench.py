# SPDX-License-Identifier: Apache-2.0
"""``motion bench``: computation times for a robot on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from motion_nodes.cli.options import GroupOption, JsonOption, RobotArgument, SeedOption, WorldOption

if TYPE_CHECKING:
    from motion_nodes.cli.values import Subject

_TARGETS = 200
"""Number of random poses and configurations."""


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
    from motion_nodes.cli.printing import print_json, print_line, print_table, waiting
    from motion_nodes.cli.values import Subject
    from motion_nodes.errors import InvalidCommand

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
    from motion_nodes.ik.chain import IkChain
    from motion_nodes.ik.problem import IkRequest
    from motion_nodes.ik.solvers import make_solver
    from motion_nodes.planning.pipeline import plan
    from motion_nodes.planning.planning_problem import JointGoal, PlanRequest
    from motion_nodes.planning.warm_up import warm_up

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
