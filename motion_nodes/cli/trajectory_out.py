# SPDX-License-Identifier: Apache-2.0
"""Trajectory files: JSON with the fields of a JointTrajectory message, or CSV."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from motion_nodes.cli.output_files import output_path, write_output
from motion_nodes.trajectory.joint_trajectory import JointTrajectory

SUFFIXES = (".json", ".csv")


def check_output(output: str | None) -> None:
    """Check the path of an output file; None: no output.

    Raises:
        InvalidConfig: an unknown suffix, or the folder does not exist.
    """
    if output is not None:
        output_path(output, SUFFIXES)


def write_trajectory(trajectory: JointTrajectory, output: str) -> None:
    """Write a trajectory to a file.

    Args:
        trajectory: the trajectory.
        output: path of the file, with a suffix of :data:`SUFFIXES`.

    Raises:
        InvalidConfig: the file cannot be written.
    """
    path = Path(output).expanduser()
    text = _csv(trajectory) if path.suffix == ".csv" else json.dumps(trajectory_data(trajectory))
    write_output(path, text)


def trajectory_data(trajectory: JointTrajectory) -> dict[str, Any]:
    """Return a trajectory as data for JSON, in SI units."""
    points = []
    for k, time in enumerate(trajectory.times.tolist()):
        point: dict[str, Any] = {"time_from_start": time}
        for name in ("positions", "velocities", "accelerations"):
            values = getattr(trajectory, name)
            if values is not None:
                point[name] = values[k].tolist()
        points.append(point)
    return {"joint_names": list(trajectory.joint_names), "points": points}


def _csv(trajectory: JointTrajectory) -> str:
    """Return a CSV table: time, then positions, velocities and accelerations of each joint."""
    parts = [
        (suffix, values)
        for suffix, values in (
            ("", trajectory.positions),
            (".velocity", trajectory.velocities),
            (".acceleration", trajectory.accelerations),
        )
        if values is not None
    ]
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["time", *(n + suffix for suffix, _ in parts for n in trajectory.joint_names)])
    for k, time in enumerate(trajectory.times.tolist()):
        table.writerow([time, *(x for _, values in parts for x in values[k].tolist())])
    return text.getvalue()
