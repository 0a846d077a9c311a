# SPDX-License-Identifier: Apache-2.0
"""Generalized advantage estimation (Schulman et al. 2015, arXiv:1506.02438)."""

from __future__ import annotations

import numpy as np

from motion_nodes.errors import InvalidConfig
from motion_nodes.learning.mlp import Floats


def gae(
    rewards: Floats,
    values: Floats,
    next_values: Floats,
    terminated: Floats,
    ended: Floats,
    *,
    gamma: float,
    lam: float,
) -> tuple[Floats, Floats]:
    """Return advantages and returns of consecutive steps.

    ``delta_t = r_t + gamma (1 - terminated_t) V'_t - V_t`` and
    ``A_t = delta_t + gamma lam (1 - ended_t) A_{t+1}``. A terminated episode has no future
    rewards; those of a truncated one (time limit, end of the rollout) are estimated by ``V'``.

    Args:
        rewards: shape (steps, ...).
        values: estimates ``V_t`` of the observations before each step, same shape.
        next_values: estimates ``V'_t`` of the observations after it, before any reset, same shape.
        terminated: 1 where the episode reached a terminal state, same shape.
        ended: 1 where the next row belongs to another episode: terminated or truncated.
        gamma: discount factor, 0 to 1.
        lam: decay of the estimator, 0 to 1.

    Returns:
        advantages and returns (advantages + values), same shape.

    Raises:
        InvalidConfig: different shapes, or a factor out of range.
    """
    shapes = {np.shape(x) for x in (rewards, values, next_values, terminated, ended)}
    if len(shapes) != 1 or not np.ndim(rewards):
        raise InvalidConfig(f"arrays of steps must have one shape, got {sorted(shapes)}.")
    if not (0.0 <= gamma <= 1.0 and 0.0 <= lam <= 1.0):
        raise InvalidConfig(f"gamma and lam must be 0 to 1, got {gamma} and {lam}.")
    delta = rewards + gamma * (1.0 - terminated) * next_values - values
    advantages, following = np.empty_like(delta), np.zeros_like(delta[0])
    for t in reversed(range(len(delta))):
        following = delta[t] + gamma * lam * (1.0 - ended[t]) * following
        advantages[t] = following
    return advantages, advantages + values
