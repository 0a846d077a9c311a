# SPDX-License-Identifier: Apache-2.0
"""Parameters of the planner node; the words are MoveIt's where it has them."""

from __future__ import annotations

import dataclasses

from motion_nodes.ros.names import JOINT_CONTROLLER
from motion_nodes.ros.parameters import param
from motion_nodes.ros.robot_node import FramedParams


@dataclasses.dataclass(frozen=True, kw_only=True)
class RrtPlannerParams(FramedParams):
    """Parameters of the planner node."""

    update_rate: float = param(
        50.0,
        doc="Rate at which the scene is brought up to date.",
        unit="Hz",
        gt=0.0,
        le=200.0,
        read_only=True,
    )
    state_publish_rate: float = param(
        20.0,
        doc="Rate at which the moving robot's state is published with the scene, as RViz needs it.",
        unit="Hz",
        gt=0.0,
        le=200.0,
    )
    planner: str = param(
        "RRTConnect", doc="Planner where a request names none, or one that is not known."
    )
    allowed_planning_time: float = param(
        5.0, doc="Longest planning where a request says 0.", unit="s", gt=0.0, le=600.0
    )
    random_seed: int = param(
        123456, doc="Equal seeds and requests give equal paths.", ge=0, le=2**31 - 1
    )
    clearance: float = param(
        0.0, doc="Distance that paths keep from everything.", unit="m", ge=0.0, le=1.0
    )
    controller: str = param(
        JOINT_CONTROLLER,
        doc="Node that carries out trajectories: its ~/follow_joint_trajectory is used.",
        read_only=True,
    )
    start_tolerance: float = param(
        0.01,
        doc="A trajectory is refused when a joint is farther than this from its first point.",
        unit="rad or m",
        gt=0.0,
        le=10.0,
    )
    state_timeout: float = param(
        1.0,
        doc="Nothing is carried out when joint_states are older than this.",
        unit="s",
        gt=0.0,
        le=60.0,
    )
    replan_attempts: int = param(
        5, doc="Plans anew where a request wants them and says 0.", ge=1, le=1000
    )
    replan_delay: float = param(
        0.5,
        doc="Pause before another try to plan anew, where the request says 0.",
        unit="s",
        ge=0.0,
        le=60.0,
    )
    request_threads: int = param(
        2, doc="Requests that are answered side by side.", ge=1, le=16, read_only=True
    )
