# SPDX-License-Identifier: Apache-2.0
"""Joint motions of the demo's arm; without ROS."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from motion_nodes.errors import MotionError
from motion_nodes.ik.chain import IkChain
from motion_nodes.ik.redundancy import self_motion
from motion_nodes.ik.tool_goal import ArticulationIk
from motion_nodes.typing import Array

ELBOW_STEP = 0.02
"""Step of the self-motion [rad]; the tool is exact at its configurations."""
MAX_JOINT_STEP = 0.2
"""Max joint motion per step of the tool; larger ones change the IK branch [rad]."""


class ArmMotion(NamedTuple):
    """Waypoints of a motion that starts and ends at rest."""

    positions: Array
    """[rad], shape (m, n)."""
    velocities: Array
    """[rad/s], shape (m, n)."""
    times: Array
    """[s], from 0, shape (m,)."""


def eased(rows: Array, speed: float) -> ArmMotion:
    """Return the motion through waypoints with a cosine time scaling.

    The path parameter s in [0, 1] is s(t) = (1 - cos(pi t / T)) / 2.

    Args:
        rows: waypoints [rad], shape (m, n), m at least 2.
        speed: max joint speed [rad/s].
    """
    steps = np.abs(np.diff(rows, axis=0)).max(axis=1)
    length = np.concatenate([[0.0], np.cumsum(steps)])
    s = length / length[-1]
    duration = 0.5 * np.pi * length[-1] / speed
    times = duration / np.pi * np.arccos(1.0 - 2.0 * s)
    slopes = np.gradient(rows, length, axis=0)
    rates = length[-1] * 0.5 * np.pi / duration * np.sin(np.pi * times / duration)
    return ArmMotion(rows, slopes * rates[:, None], times)


def elbow_round(chain: IkChain, q: Array, reach: float = 0.7) -> list[Array]:
    """Return self-motions of the elbow to either side and back.

    Args:
        chain: an arm with one redundant joint.
        q: start configuration [rad], shape (n,).
        reach: max joint motion to either side [rad].

    Returns:
        Configurations of each motion [rad], shape (m, n) each.

    Raises:
        InvalidConfig: the arm is not redundant.
    """
    count = round(reach / ELBOW_STEP)
    legs: list[Array] = []
    for step in (ELBOW_STEP, -ELBOW_STEP):
        out = self_motion(chain, q, step=step, count=count)
        if len(out) > 1:
            legs += [out, out[::-1]]
    return legs


def retraction(ik: ArticulationIk, q: Array, step: float = 0.02, count: int = 8) -> Array:
    """Return configurations that retract the tool along its z axis.

    Args:
        ik: of the arm.
        q: start configuration [rad], shape (n,).
        step: distance between poses of the tool [m].
        count: number of steps.

    Returns:
        Configurations, the first one ``q`` [rad], shape (count + 1, n).

    Raises:
        MotionError: a pose is not reachable, or only with a change of the IK branch.
    """
    X, rows = ik.tool_pose(q), [np.asarray(q, dtype=np.float64)]
    for k in range(1, count + 1):
        target = X.copy()
        target[:3, 3] -= k * step * X[:3, 2]
        goal = ik.goal_for(target, rows[-1])
        if not goal.success:
            raise MotionError(f"step {k} of the retraction: {goal.result.reason}")
        joint_step = float(np.abs(goal.positions - rows[-1]).max())
        if joint_step > MAX_JOINT_STEP:
            raise MotionError(
                f"step {k} of the retraction moves a joint by {joint_step:.3g} rad, allowed is "
                f"{MAX_JOINT_STEP:g}; start from another configuration"
            )
        rows.append(goal.positions)
    return np.array(rows)
