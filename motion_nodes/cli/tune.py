# SPDX-License-Identifier: Apache-2.0
"""``motion tune``: RMPflow's settings for a robot, found by seeded trials, stage by stage."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.model.files.rmpflow_file import RMPFLOW_FILE, read_rmpflow, rmpflow_text
from motion_nodes.model.rmpflow_settings import RmpflowSettings
from motion_nodes.model.robot import Robot
from motion_nodes.rmpflow.tuning import StageReport, Summary, Tuner, starting_settings
from motion_nodes.robot_setup.derived_robot import load_description

_MOST_LEAVES = 4
_LEGEND = (
    "Shown: share that arrived for good and the median time; greatest errors at the end; how far\n"
    "the tool went back after it had been near; root mean square of joints' jerk [rad/s^3]; least\n"
    "distances from obstacles and between links."
)


def tune(
    name: str,
    *,
    group: str,
    trials: int,
    seed: int,
    start: str | None,
    apply: bool,
    output: str,
    as_json: bool,
) -> int:
    """Walk the tuning order, print what each stage found, and write the result if asked for.

    Args:
        name: the robot, or the path of its description.
        group: joints that the policy leads.
        trials: tasks for each value.
        seed: of the tasks.
        start: settings to begin with, a file; None: the robot's own, or the Panda's in proportion.
        apply: whether to write the result.
        output: where to; an existing file is not touched.
        as_json: whether to print one JSON object instead of tables.

    Returns:
        Exit code: 0 where the result is no worse than the beginning.
    """
    target = Path(output).expanduser()
    if apply and target.exists():
        raise InvalidConfig(f"{target} exists already; name another file by --output.")
    if trials < 1:
        raise InvalidConfig(f"trials is {trials}; it must be 1 or more.")
    robot = load_description(name)
    console = Console(quiet=as_json)
    settings, origin = _beginning(robot, group, start)
    console.print(f"[bold]{robot.name}[/bold]: begins with {origin}; {trials} trials for a value")
    console.print(_LEGEND, markup=False)
    tuner = Tuner(robot, settings, joints=group, trials=trials, seed=seed)
    reports = []
    for number, report in enumerate(tuner.walk(), start=1):
        reports.append(report)
        _print_stage(console, number, report)
    before, after = tuner.check(settings), tuner.check(tuner.settings)
    console.print("\n[bold]all leaves, tasks not seen before[/bold]")
    console.print(_table(before, after))
    better = after.arrived >= before.arrived and min(after.clearance, after.apart) >= min(
        0.0, before.clearance, before.apart
    )
    if not better:
        console.print("[red]The result does worse than the beginning; more trials may help.[/red]")
    if apply and better:
        comment = (
            "SPDX-License-Identifier: Apache-2.0\n"
            f"RMPflow of {robot.name}, by motion tune: began with {origin},\n"
            f"{trials} trials for a value, seed {seed}. Lengths [m], speeds [rad/s]."
        )
        target.write_text(rmpflow_text(tuner.settings, comment), encoding="utf-8")
        console.print(f"written: {target}")
    if as_json:
        print(json.dumps(_as_json(robot, reports, before, after, tuner.settings), indent=2))
    return 0 if better else 1


def _beginning(robot: Robot, group: str, start: str | None) -> tuple[RmpflowSettings, str]:
    """Return settings to begin with, and where they come from in words."""
    if start is not None:
        return read_rmpflow(start), start
    try:
        return read_rmpflow(robot.directory), f"its own {RMPFLOW_FILE}"
    except MotionError:
        if (robot.directory / RMPFLOW_FILE).is_file():
            raise
        return starting_settings(robot, group), "the Panda's numbers in proportion"


def _print_stage(console: Console, number: int, report: StageReport) -> None:
    console.print(f"\n[bold]{number}. {report.title}[/bold]")
    console.print(_table(report.before, report.after))
    weights = sorted(report.after.weights.items(), key=lambda item: -item[1])
    heavy = ", ".join(f"{leaf} {weight:.4g}" for leaf, weight in weights[:_MOST_LEAVES] if weight)
    console.print(f"   weights: {heavy or 'none'}")
    for change in report.changes:
        console.print(f"   {change.name}: {change.before:.6g} -> [green]{change.after:.6g}[/green]")
    if not report.changes:
        console.print("   nothing else does clearly better")


def _table(before: Summary, after: Summary) -> Table:
    table = Table(
        "", "arrived", "[s]", "[mm]", "[deg]", "back [mm]", "jerk", "clear [mm]", "links [mm]",
        box=None,
    )  # fmt: skip
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
    data = {
        "robot": robot.name,
        "stages": [dataclasses.asdict(report) for report in reports],
        "check": {"before": dataclasses.asdict(before), "after": dataclasses.asdict(after)},
        "parameters": settings.parameters(),
    }
    finite: dict[str, Any] = _finite(data)
    return finite


def _finite(data: Any) -> Any:
    """Return data with null for numbers that JSON has not."""
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
