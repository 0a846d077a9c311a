# SPDX-License-Identifier: Apache-2.0
"""What the demo's arm does, as joint values over time. No ROS, no clock."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from motion_nodes.errors import MotionError
from motion_nodes.ik.chain import IkChain
from motion_nodes.ik.redundancy import self_motion
from motion_nodes.ik.tool_goal import ArticulationIk
from motion_nodes.model.tree import Array

ELBOW_STEP = 0.02
"""Between two rows of the elbow's motion [rad]: the tool is exact at rows, near between them."""
LARGEST_JUMP = 0.2
"""[rad] A joint that moves further for one step of the tool has jumped to another solution."""


class ArmMotion(NamedTuple):
    """Rows of joint values to be passed in time, at rest at both ends."""

    positions: Array
    """[rad], shape (m, n)."""
    velocities: Array
    """[rad/s], shape (m, n)."""
    times: Array
    """[s], from 0, shape (m,)."""


def eased(rows: Array, speed: float) -> ArmMotion:
    """Return when to be at rows, so that the motion begins and ends gently.

    Along the way s in [0, 1], s(t) = (1 - cos(pi t / T)) / 2 with its inverse for the times.

    Args:
        rows: joint values, shape (m, n), m at least 2.
        speed: of the fastest joint in the middle [rad/s].
    """
    steps = np.abs(np.diff(rows, axis=0)).max(axis=1)
    way = np.concatenate([[0.0], np.cumsum(steps)])
    s = way / way[-1]
    duration = 0.5 * np.pi * way[-1] / speed
    times = duration / np.pi * np.arccos(1.0 - 2.0 * s)
    slopes = np.gradient(rows, way, axis=0)
    rates = way[-1] * 0.5 * np.pi / duration * np.sin(np.pi * times / duration)
    return ArmMotion(rows, slopes * rates[:, None], times)


def elbow_round(chain: IkChain, q: Array, reach: float = 0.7) -> list[Array]:
    """Return four motions of the elbow, out and back to either side, while the tool stays.

    Args:
        chain: an arm with one joint more than its tool needs.
        q: where the joints are, shape (n,).
        reach: how far the fastest joint goes to either side at most [rad].

    Raises:
        InvalidConfig: the arm has no such freedom.
    """
    count = round(reach / ELBOW_STEP)
    legs: list[Array] = []
    for step in (ELBOW_STEP, -ELBOW_STEP):
        out = self_motion(chain, q, step=step, count=count)
        if len(out) > 1:
            legs += [out, out[::-1]]
    return legs


def retraction(ik: ArticulationIk, q: Array, step: float = 0.02, count: int = 8) -> Array:
    """Return joint values that draw the tool back along its own z axis, step by step.

    Args:
        ik: of the arm.
        q: where the joints are, shape (n,).
        step: distance from one pose of the tool to the next [m].
        count: how many steps.

    Returns:
        Joint values, the first row is ``q``, shape (count + 1, n).

    Raises:
        MotionError: a pose cannot be reached, or only by a jump of the joints.
    """
    X, rows = ik.tool_pose(q), [np.asarray(q, dtype=np.float64)]
    for k in range(1, count + 1):
        target = X.copy()
        target[:3, 3] -= k * step * X[:3, 2]
        goal = ik.goal_for(target, rows[-1])
        if not goal.success:
            raise MotionError(f"step {k} of the retraction: {goal.result.reason}")
        jump = float(np.abs(goal.positions - rows[-1]).max())
        if jump > LARGEST_JUMP:
            raise MotionError(
                f"step {k} of the retraction would move a joint by {jump:.3g} rad at once, "
                f"allowed is {LARGEST_JUMP:g}; begin from another pose"
            )
        rows.append(goal.positions)
    return np.array(rows)
