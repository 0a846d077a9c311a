# SPDX-License-Identifier: Apache-2.0
"""``motion tune``: tuning of RMPflow's parameters for a robot by seeded trials."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from motion_nodes.cli.output import output_path, print_json, write_output
from motion_nodes.core.reactive.tuning import StageReport, Summary, Tuner, starting_settings
from motion_nodes.core.robot.loader import load_description
from motion_nodes.core.robot.rmpflow_settings import (
    RMPFLOW_FILE,
    RmpflowSettings,
    read_rmpflow,
    rmpflow_text,
)
from motion_nodes.core.robot.robot import Robot
from motion_nodes.errors import InvalidConfig, MotionError

_MAX_RMPS = 4
_LEGEND = (
    "Columns: success rate and median time; max final errors; max overshoot of the tool after it\n"
    "was near the target; root mean square of joint jerk [rad/s^3]; min distances to obstacles\n"
    "and between links."
)


@dataclasses.dataclass(frozen=True)
class Tuning:
    """What to tune, and by how many trials."""

    robot: str
    """The robot, or the path of its description."""
    group: str
    """Group of joints that the policy controls."""
    trials: int
    """Number of tasks per parameter value."""
    seed: int
    """Random seed of the tasks."""
    start: str | None
    """File with initial parameters; None for the robot's own, or the scaled ones of the Panda."""


def tune(tuning: Tuning, *, apply: bool, output: str, as_json: bool) -> int:
    """Run all stages of tuning, print the result of each, and optionally write the parameters.

    Args:
        tuning: what to tune.
        apply: whether to write the result.
        output: output file; an existing one is not overwritten.
        as_json: whether to print JSON instead of tables.

    Returns:
        Exit code: 0 if the result is at least as good as the initial parameters.

    Raises:
        InvalidConfig: the output file exists, its folder does not, or ``trials`` is less than 1.
    """
    group, trials, seed = tuning.group, tuning.trials, tuning.seed
    target = output_path(output) if apply else Path(output)
    if apply and target.exists():
        raise InvalidConfig(f"{target} already exists; choose another file by --output.")
    if trials < 1:
        raise InvalidConfig(f"trials is {trials}; it must be 1 or more.", field="trials")
    robot = load_description(tuning.robot)
    console = Console(quiet=as_json)
    settings, origin = _initial_settings(robot, group, tuning.start)
    console.print(f"{robot.name}: starts from {origin}; {trials} trials per value", markup=False)
    console.print(_LEGEND, markup=False)
    tuner = Tuner(robot, settings, joints=group, trials=trials, seed=seed)
    reports = []
    for number, report in enumerate(tuner.walk(), start=1):
        reports.append(report)
        _print_stage(console, number, report)
    before, after = tuner.check(settings), tuner.check(tuner.settings)
    console.print("\n[bold]validation: all RMPs, new tasks[/bold]")
    console.print(_table(before, after))
    better = after.arrived >= before.arrived and min(after.clearance, after.apart) >= min(
        0.0, before.clearance, before.apart
    )
    if not better:
        console.print(
            "[red]The result is worse than the initial parameters; try more trials.[/red]"
        )
    if apply and better:
        comment = (
            "SPDX-License-Identifier: Apache-2.0\n"
            f"RMPflow of {robot.name}, by motion tune: started from {origin},\n"
            f"{trials} trials per value, seed {seed}. Lengths [m], velocities [rad/s]."
        )
        write_output(target, rmpflow_text(tuner.settings, comment))
        console.print(f"written: {target}", markup=False)
    if as_json:
        print_json(_as_json(robot, reports, before, after, tuner.settings))
    return 0 if better else 1


def _initial_settings(robot: Robot, group: str, start: str | None) -> tuple[RmpflowSettings, str]:
    """Return the initial parameters and a description of their source."""
    if start is not None:
        return read_rmpflow(start), start
    try:
        return read_rmpflow(robot.directory), f"its own {RMPFLOW_FILE}"
    except MotionError:
        if (robot.directory / RMPFLOW_FILE).is_file():
            raise
        return starting_settings(robot, group), "scaled parameters of the Panda"


def _print_stage(console: Console, number: int, report: StageReport) -> None:
    console.print(f"\n[bold]{number}. {report.title}[/bold]")
    console.print(_table(report.before, report.after))
    weights = sorted(report.after.weights.items(), key=lambda item: -item[1])
    largest = ", ".join(f"{rmp} {weight:.4g}" for rmp, weight in weights[:_MAX_RMPS] if weight)
    console.print(f"   weights: {largest or 'none'}")
    for change in report.changes:
        console.print(f"   {change.name}: {change.before:.6g} -> [green]{change.after:.6g}[/green]")
    if not report.changes:
        console.print("   no change is clearly better")


def _table(before: Summary, after: Summary) -> Table:
    # Texts, because markup would take units in brackets for styles.
    heads = (
        "", "success", "[s]", "[mm]", "[deg]", "overshoot [mm]", "jerk", "obstacles [mm]",
        "links [mm]",
    )  # fmt: skip
    table = Table(*(Column(Text(head)) for head in heads), box=None)
    for name, x in (("before", before), ("after", after)):
        numbers = (
            *(x.seconds, 1e3 * x.position_error, math.degrees(x.orientation_error)),
            *(1e3 * x.wobble, x.jerk, 1e3 * x.clearance, 1e3 * x.apart),
        )
        table.add_row(f"   {name}", f"{100.0 * x.arrived:.0f} %", *map(_number, numbers))
    return table


def _number(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "-"


def _as_json(
    robot: Robot,
    reports: list[StageReport],
    before: Summary,
    after: Summary,
    settings: RmpflowSettings,
) -> dict[str, Any]:
    return {
        "robot": robot.name,
        "stages": [dataclasses.asdict(report) for report in reports],
        "check": {"before": dataclasses.asdict(before), "after": dataclasses.asdict(after)},
        "parameters": settings.parameters(),
    }
