# SPDX-License-Identifier: Apache-2.0
"""A trained policy: deterministic actions of observations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from motion_nodes.learning.actor_critic import ActorCritic
from motion_nodes.learning.mlp import Floats
from motion_nodes.learning.running_norm import RunningNorm


@dataclass(frozen=True)
class Policy:
    """Normalization and mean of a Gaussian policy."""

    net: ActorCritic
    flat: Floats
    norm: RunningNorm

    def __call__(self, observations: Floats) -> Floats:
        """Return actions, shape (m, action_size), of raw observations (m, observation_size)."""
        return self.net.mean(self.flat, self.norm(np.atleast_2d(observations)))
