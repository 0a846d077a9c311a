# SPDX-License-Identifier: Apache-2.0
"""Motion of the arm with a fixed tool: towards a posture, or along its self-motion."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.ik.chain import IkChain
from motion_nodes.ik.nullspace import Posture, TipKeeper
from motion_nodes.ik.problem import IkTolerance, as_configurations
from motion_nodes.typing import Array

STILL = IkTolerance(1e-6, 1e-6)
"""Default tolerance of the tool pose."""


def motion_to_posture(
    chain: IkChain,
    q: ArrayLike,
    posture: ArrayLike,
    *,
    step: float = 0.05,
    tolerance: IkTolerance = STILL,
    max_steps: int = 1000,
) -> Array:
    """Return a motion towards a posture during which the tip keeps its pose.

    Args:
        chain: the joints.
        q: start, within the limits [rad or m], shape (n,).
        posture: target posture [rad or m], shape (n,).
        step: max joint displacement between rows [rad or m].
        tolerance: of the tip pose; unconstrained axes of its own frame may move.
        max_steps: max number of rows.

    Returns:
        Joint positions, the first row is ``q``, the last the closest to the posture, shape (m, n).

    Raises:
        InvalidCommand: joint positions of wrong length, not finite or outside the limits.
    """
    now = _inside(chain, q)
    objective = Posture(chain, posture)
    keeper = TipKeeper(chain, chain.kinematics.pose(now, chain.tip), tolerance)
    rows, value = [now], objective.value(now)
    length = _checked_step(step)
    while len(rows) < max_steps and length > 1e-5:
        desired = keeper.within_null_space(rows[-1], -objective.gradient(rows[-1]))
        size = float(np.abs(desired).max(initial=0.0))
        if size < 1e-6:
            break
        moved = keeper.corrected(rows[-1] + desired * min(1.0, length / size))
        # Includes the displacement of the correction.
        near = moved is not None and float(np.abs(moved - rows[-1]).max()) <= step
        if moved is None or not near or objective.value(moved) >= value:
            length = min(length, size) / 2.0
            continue
        rows.append(moved)
        value = objective.value(moved)
    return np.array(rows)


def self_motion(
    chain: IkChain,
    q: ArrayLike,
    *,
    step: float = 0.05,
    count: int = 100,
    tolerance: IkTolerance = STILL,
) -> Array:
    """Return the self-motion of a chain with one redundant degree of freedom, up to a limit.

    Args:
        chain: the joints; one more than the tip needs, such as seven.
        q: start, within the limits [rad or m], shape (n,).
        step: displacement of the fastest joint between rows; negative for the opposite direction.
        count: max number of steps.
        tolerance: of the tip pose.

    Returns:
        Joint positions, the first row is ``q``, shape (m, n) with m <= count + 1.

    Raises:
        InvalidCommand: joint positions of wrong length, not finite or outside the limits.
        InvalidConfig: the chain has no redundant degree of freedom.
    """
    now = _inside(chain, q)
    keeper = TipKeeper(chain, chain.kinematics.pose(now, chain.tip), tolerance)
    length, rows = abs(_checked_step(step)), [now]
    direction = keeper.null_direction(now)
    if direction is None:
        raise InvalidConfig(
            f"{chain.robot_name}: the joints to '{chain.tip}' have no redundant degree of freedom; "
            "free an axis by an infinite tolerance, or use a chain with more joints."
        )
    direction *= np.sign(direction[np.argmax(np.abs(direction))]) * np.sign(step)
    for _ in range(count):
        q_next = keeper.corrected(rows[-1] + direction * length / float(np.abs(direction).max()))
        if q_next is None or float(np.abs(q_next - rows[-1]).max()) > 2.0 * length:
            break
        if float((q_next - rows[-1]) @ direction) < 0.5 * length * float(np.linalg.norm(direction)):
            break  # a limit reversed the motion
        rows.append(q_next)
        direction = keeper.within_null_space(q_next, direction)
        if float(np.abs(direction).max()) < 1e-3:
            break
        direction /= np.linalg.norm(direction)
    return np.array(rows)


def _inside(chain: IkChain, q: ArrayLike) -> Array:
    """Return joint positions; raise an error if one is outside its limits."""
    values: Array = as_configurations(q, chain.joint_names, "q")[0]
    outside = [
        f"{name} is {value:.6g}, allowed is {low:.6g} to {high:.6g}"
        for name, value, low, high in zip(
            chain.joint_names, values, chain.lower, chain.upper, strict=True
        )
        if not low <= value <= high
    ]
    if outside:
        raise InvalidCommand(f"the motion cannot start outside the limits: {'; '.join(outside)}.")
    return values


def _checked_step(step: float) -> float:
    if not 0.0 < abs(step) <= 0.5:
        raise InvalidConfig(f"step is {step}; it must be above 0 and at most 0.5.", field="step")
    return step
