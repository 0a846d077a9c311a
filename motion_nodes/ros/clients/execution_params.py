# SPDX-License-Identifier: Apache-2.0
"""Parameters of nodes that serve requests and execute trajectories with the joint controller."""

from __future__ import annotations

import dataclasses

from motion_nodes.ros.names import JOINT_CONTROLLER
from motion_nodes.ros.parameters import param
from motion_nodes.ros.robot_node import FramedParams


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExecutionParams(FramedParams):
    """Controller, conditions of an execution, and concurrency of requests."""

    controller: str = param(
        JOINT_CONTROLLER,
        doc="Name of the controller node whose ~/follow_joint_trajectory action executes "
        "trajectories.",
        read_only=True,
    )
    start_tolerance: float = param(
        0.01,
        doc="Max difference between the current joint positions and the first point of a "
        "trajectory; beyond it execution is rejected.",
        unit="rad or m",
        gt=0.0,
        le=10.0,
    )
    state_timeout: float = param(
        1.0,
        doc="Max age of joint_states for execution; with older ones execution is rejected.",
        unit="s",
        gt=0.0,
        le=60.0,
    )
    request_threads: int = param(
        2, doc="Number of requests processed concurrently.", ge=1, le=16, read_only=True
    )
