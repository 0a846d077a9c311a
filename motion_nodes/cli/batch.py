# SPDX-License-Identifier: Apache-2.0
"""``motion batch``: inverse kinematics or plans for many poses of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from motion_nodes.cli.options import GroupOption, JsonOption, RobotArgument, WorldOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from motion_nodes.ik.problem import IkBatchResult
    from motion_nodes.planning.pipeline import MotionPlan
    from motion_nodes.typing import Array

COLUMNS = ("x", "y", "z", "qx", "qy", "qz", "qw")
"""Position [m] and quaternion of a pose."""


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
    as_json: JsonOption = False,
) -> None:
    """Solve collision-free inverse kinematics, or plan, for many poses in parallel.

    Exit code 1: a pose without solution.
    """
    from motion_nodes.api.joint_group import JointGroup
    from motion_nodes.cli.printing import print_json, print_line, print_table, waiting
    from motion_nodes.cli.values import NO_SOLUTION, Subject, checked_timeout, checker_of
    from motion_nodes.ik.problem import IkSettings
    from motion_nodes.scene.world import World

    checked_timeout(timeout)
    X_BT, subject = _read(poses), Subject.of(robot, group)
    X = subject.in_group_base(X_BT)
    arm = JointGroup(subject.robot, subject.group.name)
    around = World(checker_of(subject, world).scene)
    if start is None:
        with waiting("solving inverse kinematics"):
            found = arm.ik_batch(X, world=around, settings=IkSettings(timeout=timeout))
        rows, head = _solutions(found), "joints [rad or m]"
    else:
        q = subject.configuration(start, "--plan-from")
        with waiting("planning"):
            rows, head = _plans(arm.plan_batch(q, X, around, timeout=timeout)), "duration [s]"
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
    """Return the poses of a file, shape (m, 4, 4).

    Raises:
        InvalidDescription: the file cannot be read, has other columns or no poses.
    """
    import csv

    import numpy as np

    from motion_nodes.errors import InvalidDescription
    from motion_nodes.model.poses import from_xyz_quat

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
