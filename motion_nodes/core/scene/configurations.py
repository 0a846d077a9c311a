# SPDX-License-Identifier: Apache-2.0
"""Validation of configurations and positions given by users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.robot.mimic_joints import leader_values
from motion_nodes.core.robot.robot import Robot
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.tolerances import LIMIT_ROUNDING
from motion_nodes.typing import Array


def checked_configurations(q: ArrayLike, joints: Sequence[str], dimensions: int) -> Array:
    """Return configurations as a contiguous array; values that are not finite are accepted.

    Args:
        q: positions, shape (n,) or (m, n).
        joints: names of the joints.
        dimensions: number of dimensions, 1 or 2.

    Raises:
        InvalidCommand: wrong shape.
    """
    values = np.ascontiguousarray(q, dtype=np.float64)
    if values.ndim != dimensions or values.shape[-1] != len(joints):
        required = "(m, n)" if dimensions == 2 else "(n,)"
        raise InvalidCommand(
            f"positions of shape {values.shape} were given; required is {required} for "
            f"n = {len(joints)} joints: {', '.join(joints)}."
        )
    return values


def changed_positions(robot: Robot, before: Array, given: Mapping[str, float] | ArrayLike) -> Array:
    """Return the positions of all joints of a robot, with some or all replaced.

    Args:
        robot: the robot.
        before: previous positions [rad or m], in the order of its joints.
        given: new positions [rad or m], by joint or in the order of the robot's joints. Mimic
            joints must agree with their leaders, or determine those that are not given.

    Raises:
        UnknownJoint: unknown joint.
        InvalidCommand: a value that is not finite, a mimic joint that disagrees with its leader, or
            wrong length.
    """
    values = before.copy()
    if isinstance(given, Mapping):
        leaders = leader_values(robot.tree, {name: float(given[name]) for name in given})
        values[robot.indices(list(leaders))] = list(leaders.values())
    else:
        values = np.array(given, dtype=np.float64)
        if values.shape != before.shape:
            raise InvalidCommand(
                f"{values.size} positions were given for {len(before)} joints: "
                f"{', '.join(robot.joint_names)}."
            )
    bad = [n for n, v in zip(robot.joint_names, values, strict=True) if not np.isfinite(v)]
    if bad:
        raise InvalidCommand(f"the position of {', '.join(bad)} is not a finite number.")
    return values


def checked_state(robot: Robot, given: Mapping[str, float] | ArrayLike | str) -> Array:
    """Return the positions of all joints of a robot for a state that a user gives, shape (N,).

    Values beyond a limit by rounding are those of the limit. Positions of mimic joints are accepted
    if they follow from those of the joints that they mimic.

    Args:
        robot: the robot; joints that are not given are at ``home``.
        given: positions by joint, or of all joints, shape (N,), or a named state [rad or m].

    Raises:
        UnknownJoint, UnknownState: unknown name.
        InvalidCommand: a value that is not finite or outside of its limits, the wrong number of
            values, or a mimic joint elsewhere than its joint says.
    """
    if isinstance(given, str):
        return robot.named_state(given)
    values = changed_positions(robot, robot.home, given)
    limits = robot.limits
    off = np.maximum(limits.lower - values, values - limits.upper)
    if (off > LIMIT_ROUNDING).any():
        k = int(np.argmax(off))
        raise InvalidCommand(
            f"the state has {limits.names[k]} at {values[k]:.6g}; its limits are "
            f"{limits.lower[k]:.6g} to {limits.upper[k]:.6g}.",
            field=limits.names[k],
        )
    return np.asarray(limits.clip(values))


def selected_joints(robot: Robot, joints: Sequence[str] | str | None) -> tuple[str, ...]:
    """Return joints given by name, by their group, or by default: all commanded joints.

    Raises:
        UnknownGroup: unknown group.
        InvalidConfig: a duplicate joint.
    """
    if isinstance(joints, str):
        return robot.group(joints).joints
    names = robot.joint_names if joints is None else tuple(joints)
    if len(set(names)) != len(names):
        raise InvalidConfig(f"joints to check are named twice: {', '.join(names)}.")
    return names


def checked_distance(value: float, name: str) -> float:
    """Return a required distance [m].

    Raises:
        InvalidConfig: it is negative or not finite.
    """
    if not (np.isfinite(value) and value >= 0.0):
        raise InvalidConfig(f"{name} is {value} m; it must be finite and not negative.", field=name)
    return float(value)
