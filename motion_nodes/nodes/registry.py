# SPDX-License-Identifier: Apache-2.0
"""The executables and the node class of each; importing this imports no node."""

from __future__ import annotations

import importlib
from typing import Any

from motion_nodes.errors import MotionError, did_you_mean

NODES = {
    "ackermann_base": "AckermannBaseNode",
    "articulation_controller": "ArticulationControllerNode",
    "articulation_graph": "ArticulationGraphNode",
    "base_navigator": "BaseNavigatorNode",
    "browser_viewer": "BrowserViewerNode",
    "controller_manager": "ControllerManagerNode",
    "differential_base": "DifferentialBaseNode",
    "holonomic_base": "HolonomicBaseNode",
    "ik_service": "IkServiceNode",
    "mock_sim": "MockSimNode",
    "mujoco_sim": "MujocoSimNode",
    "rmpflow_policy": "RmpflowPolicyNode",
    "robot_state": "RobotStateNode",
    "rrt_planner": "RrtPlannerNode",
    "trajectory_generator": "TrajectoryGeneratorNode",
}
"""Executable (also the module's name) -> class."""


def node_class(executable: str) -> Any:
    """Return the class behind an executable's name.

    Raises:
        MotionError: lists the executables there are.
    """
    if executable not in NODES:
        raise MotionError(
            f"executable '{executable}' is not known.{did_you_mean(executable, NODES)}"
        )
    module = importlib.import_module(f"motion_nodes.nodes.{executable}")
    return getattr(module, NODES[executable])
