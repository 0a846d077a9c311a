# SPDX-License-Identifier: Apache-2.0
"""Settings of the reactive MPC."""

from __future__ import annotations

from dataclasses import dataclass

from motion_nodes.settings import check_settings, setting


@dataclass(frozen=True)
class MpcSettings:
    """Horizon, samples and costs of the reactive MPC.

    Costs of distances are per step of the horizon; a distance d within a margin m costs
    ((m - d) / m)^2 for each collision sphere.
    """

    period: float = setting(0.01, doc="Time between two plans.", unit="s", gt=0.0, le=0.1)
    horizon: float = setting(1.2, doc="Duration of a rollout.", unit="s", ge=0.2, le=3.0)
    steps: int = setting(24, doc="Number of steps of a rollout.", ge=4, le=100)
    knots: int = setting(4, doc="Number of knots of the sampled attractor.", ge=2, le=10)
    samples: int = setting(128, doc="Min number of rollouts per plan.", ge=32, le=4096)
    elites: int = setting(
        8,
        doc="Number of best samples, whose weighted mean is the centre of later ones.",
        ge=1,
        le=100,
    )
    temperature: float = setting(
        0.1, doc="Temperature of the weights of these samples, relative to the min cost.", gt=0.0
    )
    noise: float = setting(
        0.4, doc="Standard deviation of sampled knots.", unit="rad or m", gt=0.0, le=3.0
    )
    branches: int = setting(3, doc="Max number of joint configurations at the target.", ge=1, le=8)
    seed: int = setting(0, doc="Seed of the random numbers.", ge=0)
    margin: float = setting(
        0.04, doc="Obstacle distance below which a cost is added.", unit="m", gt=0.0, le=0.5
    )
    self_margin: float = setting(
        0.015,
        doc="Distance between links of the robot below which a cost is added.",
        unit="m",
        gt=0.0,
        le=0.5,
    )
    clearance: float = setting(
        0.008, doc="Min predicted obstacle clearance of the selected motion, if one has it.",
        unit="m", ge=0.0, le=0.2,
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_settings(self, "mpc.")
