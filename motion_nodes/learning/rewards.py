# SPDX-License-Identifier: Apache-2.0
"""Rewards of picking and placing: the usual sum of terms, and a corrected form without exploits.

The plain sum rewards holding the object in every step, so that hovering yields more than placing;
its torque term dominates (75.69 per step for one joint at 87 N m); and its placing term is active
before the object is held. The corrected form rewards progress and events once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from motion_nodes.learning.mlp import Floats
from motion_nodes.model.setting import check_settings, setting


@dataclass(frozen=True)
class PickState:
    """State that the rewards depend on, for m environments."""

    gripper: Floats
    """Positions of the gripper [m], shape (m, 3)."""
    item: Floats
    """Positions of the object [m], shape (m, 3)."""
    target: Floats
    """Target positions of the object [m], shape (m, 3)."""
    grasped: Floats
    """Whether it is held, shape (m,)."""
    placed: Floats
    """Whether it is at the target, shape (m,)."""


def plain_pick_reward(state: PickState, torques: Floats) -> Floats:
    """Return ``-|g - o| + 10 grasped - |o - t| + 50 placed - 0.01 sum tau^2``, shape (m,).

    For reference only; it rewards hovering with the object (see the module docstring).

    Args:
        state: the state after the step.
        torques: of the joints [N m], shape (m, n).
    """
    total: Floats = (
        -_distance(state.gripper, state.item)
        + 10.0 * state.grasped
        - _distance(state.item, state.target)
        + 50.0 * state.placed
        - 0.01 * (torques**2).sum(axis=-1)
    )
    return total


@dataclass(frozen=True, kw_only=True)
class PickReward:
    """Corrected reward: potential-based shaping, one-shot bonuses, relative torques.

    ``gamma Phi(s') - Phi(s)`` with ``Phi = -distance (|g - o| + p)``, where ``p`` is ``|o - t|``
    while the object is held, else ``reach``. Over an episode it sums up to the difference of two
    potentials, and leaves the optimal policy unchanged
    (Ng, Harada and Russell 1999).

    Raises:
        InvalidConfig: a value out of range.
    """

    gamma: float = setting(
        0.99,
        doc="Discount factor of the learner; 1: differences of the potential, which pay nothing "
        "for staying away from the goal.",
        ge=0.0,
        le=1.0,
    )
    distance: float = setting(1.0, doc="Weight of distances.", unit="1/m", ge=0.0)
    grasp: float = setting(10.0, doc="Bonus of the first grasp.", ge=0.0)
    place: float = setting(50.0, doc="Bonus of the first placing.", ge=0.0)
    torque: float = setting(0.01, doc="Weight of squared torques, relative to limits.", ge=0.0)
    reach: float = setting(
        1.0, doc="Placing distance that counts while the object is not held.", unit="m", gt=0.0
    )

    def __post_init__(self) -> None:
        """Validate the values."""
        check_settings(self)

    def potential(self, state: PickState) -> Floats:
        """Return ``Phi``, shape (m,).

        While the object is not held, the largest placing distance counts instead of the current
        one: pushing it towards the target is not rewarded, and grasping is not penalized.
        """
        place = np.minimum(_distance(state.item, state.target), self.reach)
        remaining = np.where(state.grasped, place, self.reach)
        potential: Floats = _distance(state.gripper, state.item) + remaining
        return -self.distance * potential

    def __call__(
        self,
        before: PickState,
        after: PickState,
        torques: Floats,
        torque_limits: Floats,
        grasp_due: Floats,
        place_due: Floats,
    ) -> Floats:
        """Return the reward of a step, shape (m,).

        Args:
            before: state before the step.
            after: state after it.
            torques: of the joints [N m], shape (m, n).
            torque_limits: shape (n,).
            grasp_due: whether the grasp bonus is still due in this episode, shape (m,).
            place_due: likewise for placing.
        """
        shaping = self.gamma * self.potential(after) - self.potential(before)
        bonus = self.grasp * (after.grasped & grasp_due) + self.place * (after.placed & place_due)
        effort = ((torques / torque_limits) ** 2).sum(axis=-1)
        total: Floats = shaping + bonus - self.torque * effort
        return total


def _distance(a: Floats, b: Floats) -> Floats:
    distances: Floats = np.linalg.norm(a - b, axis=-1)
    return distances
