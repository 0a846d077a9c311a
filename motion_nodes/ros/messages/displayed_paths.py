# SPDX-License-Identifier: Apache-2.0
"""Arrays from displayed paths (moveit_msgs/DisplayTrajectory)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from motion_nodes.errors import InvalidCommand
from motion_nodes.typing import Array


def displayed_path(message: Any, joint_names: Sequence[str], q: Array) -> tuple[Array, Array]:
    """Return the joint positions of a displayed path over time.

    Args:
        message: a DisplayTrajectory, whose trajectories are concatenated; joints of other robots
            are ignored.
        joint_names: the robot's joints.
        q: positions of joints that the message does not contain [rad or m], shape (n,).

    Returns:
        Times from the start [s], shape (m,), and positions of all joints, shape (m, n).

    Raises:
        InvalidCommand: there are no points, a point has a wrong number of positions, or a value is
            not finite.
    """
    start = message.trajectory_start.joint_state
    row = np.array(q, dtype=np.float64)
    for name, value in zip(start.name, start.position, strict=False):
        if name in joint_names:
            row[joint_names.index(name)] = value
    return _joined([t.joint_trajectory for t in message.trajectory], joint_names, row, [row.copy()])


def trajectory_path(message: Any, joint_names: Sequence[str], q: Array) -> tuple[Array, Array]:
    """Return the joint positions of a JointTrajectory over time; see :func:`displayed_path`."""
    return _joined([message], joint_names, np.array(q, dtype=np.float64), [])


def _joined(
    trajectories: Sequence[Any], joint_names: Sequence[str], row: Array, rows: list[Array]
) -> tuple[Array, Array]:
    """Return times and rows of concatenated trajectories, after the given rows."""
    index = {name: i for i, name in enumerate(joint_names)}
    times, begin, given = [0.0] * len(rows), 0.0, len(rows)
    for trajectory in trajectories:
        names = trajectory.joint_names
        known = [(k, index[name]) for k, name in enumerate(names) if name in index]
        for point in trajectory.points:
            if len(point.positions) != len(names):
                raise InvalidCommand(
                    f"a displayed path has a point of {len(point.positions)} positions for "
                    f"{len(names)} joints",
                    field="positions",
                )
            for k, i in known:
                row[i] = point.positions[k]
            rows.append(row.copy())
            stamp = point.time_from_start
            times.append(begin + stamp.sec + 1e-9 * stamp.nanosec)
        begin = times[-1] if times else 0.0
    if len(rows) == given:
        raise InvalidCommand("a displayed path has no points", field="points")
    if not np.isfinite(rows).all():
        raise InvalidCommand(
            "a displayed path has positions that are not finite", field="positions"
        )
    return np.array(times), np.array(rows)
