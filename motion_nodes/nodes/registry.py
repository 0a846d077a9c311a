# SPDX-License-Identifier: Apache-2.0
"""Executables and their node classes, without importing the nodes."""

from __future__ import annotations

import importlib
from typing import Any

from motion_nodes.errors import MotionError, did_you_mean
from motion_nodes.extras import require_executable

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
    "object_detector": "ObjectDetectorNode",
    "occupancy_mapper": "OccupancyMapperNode",
    "policy_controller": "PolicyControllerNode",
    "rmpflow_policy": "RmpflowPolicyNode",
    "robot_driver": "RobotDriverNode",
    "robot_state": "RobotStateNode",
    "rrt_planner": "RrtPlannerNode",
    "task_server": "TaskServerNode",
    "trajectory_generator": "TrajectoryGeneratorNode",
}
"""Class name by executable, which is also the name of the module."""


def node_class(executable: str) -> Any:
    """Return the node class of an executable.

    Raises:
        MotionError: an unknown executable, or one of an extra that is not installed.
    """
    if executable not in NODES:
        raise MotionError(f"unknown executable '{executable}'.{did_you_mean(executable, NODES)}")
    require_executable(executable)
    module = importlib.import_module(f"motion_nodes.nodes.{executable}")
    return getattr(module, NODES[executable])
