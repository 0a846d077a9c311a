# SPDX-License-Identifier: Apache-2.0
"""Files of trajectories, waypoints and paths: JSON, YAML, CSV and NumPy.

Trajectories are written as JSON with the fields of a JointTrajectory message, CSV or ``.npz``.
"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from motion_nodes.core.robot.result_files import checked_file, load_result, save_result, write_file
from motion_nodes.core.robot.yaml_schema import read_yaml
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.errors import InvalidDescription

_PATHS = ("task_space", "c_space", "composite")
KIND = "trajectory"


@dataclass(frozen=True)
class Waypoints:
    """Joint positions without times."""

    joint_names: tuple[str, ...]
    positions: np.ndarray
    """[rad or m], shape (k, n)."""


@dataclass(frozen=True)
class PathFile:
    """File of a path of the tool, of the joints or of both."""

    file: Path


def read_motion(file: str) -> JointTrajectory | Waypoints | PathFile:
    """Return the trajectory, waypoints or path in a file.

    JSON and YAML: ``joint_names`` and ``points`` with ``positions`` and, for a trajectory,
    ``time_from_start`` [s], ``velocities`` and ``accelerations``; or a path, see
    :mod:`motion_nodes.core.planning.task_space_generator`. CSV: a column for each joint and, for a
    trajectory, ``time``, ``<joint>.velocity`` and ``<joint>.acceleration``.

    Raises:
        InvalidDescription: the file cannot be read, or has none of these forms.
        InvalidCommand: the trajectory is invalid.
    """
    path = Path(file)
    if path.suffix in (".npz", ".mcap"):
        return _from_columns(path)
    if path.suffix == ".csv":
        return _from_csv(path)
    data = read_yaml(path)  # JSON is a subset of YAML
    if any(word in data for word in _PATHS):
        return PathFile(path)
    if "joint_names" not in data or "points" not in data:
        raise InvalidDescription(
            f"{file}: neither joint_names and points nor one of {', '.join(_PATHS)} found"
        )
    names, points = data["joint_names"], data["points"]
    if not isinstance(names, list) or not isinstance(points, list) or not points:
        raise InvalidDescription(f"{file}: joint_names and points must be non-empty lists")
    if not all(isinstance(point, dict) for point in points):
        raise InvalidDescription(f"{file}: each point must be a mapping, with positions")
    columns = {
        field: _rows(file, points, field)
        for field in ("positions", "velocities", "accelerations", "time_from_start")
    }
    return _motion(file, tuple(map(str, names)), columns)


def _rows(file: str, points: list[dict[str, Any]], field: str) -> np.ndarray | None:
    """Return a field of all points as an array; None if no point has it."""
    having = [i for i, point in enumerate(points) if field in point]
    if not having:
        return None
    if len(having) < len(points):
        missing = next(i for i in range(len(points)) if i not in having)
        raise InvalidDescription(f"{file}: point {missing} has no {field}, but others have")
    try:
        return np.array([point[field] for point in points], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidDescription(
            f"{file}: {field} must be lists of numbers of equal length: {error}"
        ) from None


def _from_columns(path: Path) -> JointTrajectory:
    kind, facts, columns = load_result(path)
    if kind != KIND or "positions" not in columns:
        raise InvalidDescription(f"{path} holds a '{kind}' and no trajectory.")
    return JointTrajectory(tuple(map(str, facts["joint_names"])), **columns)


def _from_csv(path: Path) -> JointTrajectory | Waypoints:
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            head, *rows = [row for row in csv.reader(lines) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidDescription(f"{path}: cannot be read: {error}") from None
    except ValueError:
        raise InvalidDescription(
            f"{path}: the file is empty; it needs a header with joint names"
        ) from None
    wrong = next((k for k, row in enumerate(rows, start=1) if len(row) != len(head)), 0)
    if wrong:
        raise InvalidDescription(
            f"{path}: each row must have {len(head)} numbers, as the header; row {wrong} has "
            f"{len(rows[wrong - 1])}"
        )
    try:
        table = np.array(rows, dtype=np.float64).reshape(-1, len(head))
    except ValueError as error:
        raise InvalidDescription(f"{path}: the rows must consist of numbers ({error})") from None
    names = tuple(h for h in head if h != "time" and "." not in h)
    place = {word: i for i, word in enumerate(head)}

    def channel(suffix: str) -> np.ndarray | None:
        found = [place[n + suffix] for n in names if n + suffix in place]
        return table[:, found] if len(found) == len(names) else None

    columns = {
        "positions": channel(""),
        "velocities": channel(".velocity"),
        "accelerations": channel(".acceleration"),
        "time_from_start": table[:, place["time"]] if "time" in place else None,
    }
    return _motion(str(path), names, columns)


def _motion(
    file: str, names: tuple[str, ...], columns: dict[str, np.ndarray | None]
) -> JointTrajectory | Waypoints:
    positions, times = columns["positions"], columns["time_from_start"]
    if positions is None:
        raise InvalidDescription(f"{file}: no positions found")
    if times is None:
        return Waypoints(names, positions)
    return JointTrajectory(names, times, positions, columns["velocities"], columns["accelerations"])


def write_trajectory(trajectory: JointTrajectory, output: str | Path) -> None:
    """Write a trajectory to a file.

    Args:
        trajectory: the trajectory.
        output: path of the file, ``.json``, ``.csv``, ``.npz`` or ``.mcap``.

    Raises:
        InvalidConfig: another suffix, or the file cannot be written.
    """
    path = checked_file(output)
    if path.suffix in (".npz", ".mcap"):
        columns = {"times": trajectory.times, "positions": trajectory.positions}
        for name in ("velocities", "accelerations", "efforts"):
            if getattr(trajectory, name) is not None:
                columns[name] = getattr(trajectory, name)
        save_result(path, KIND, {"joint_names": list(trajectory.joint_names)}, columns)
    elif path.suffix == ".csv":
        write_file(path, _csv(trajectory))
    else:
        write_file(path, json.dumps(trajectory_data(trajectory)))


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
