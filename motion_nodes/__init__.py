# SPDX-License-Identifier: Apache-2.0
"""motion_nodes: kinematics, planning, reactive motion and wheeled bases, with ROS 2 nodes.

    import motion_nodes as mn

    robot = mn.load_robot("franka")
    arm = robot["arm"]
    print(arm.fk(arm.state("ready")))

Names are imported lazily: importing the package loads none of its dependencies.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    # robots
    "load_robot": "api.robot_model",
    "available_robots": "api.robot_model",
    "RobotModel": "api.robot_model",
    "JointGroup": "api.joint_group",
    "JointLimits": "model.limits",
    # poses
    "pose": "model.poses",
    "multiply": "model.poses",
    "inverse": "model.poses",
    # inverse kinematics
    "IkSettings": "ik.problem",
    "IkTolerance": "ik.problem",
    "IkResult": "ik.problem",
    "IkBatchResult": "ik.problem",
    # the world
    "World": "scene.world",
    "load_world": "scene.world",
    "Box": "model.tree",
    "Sphere": "model.tree",
    "Cylinder": "model.tree",
    "Capsule": "scene.shapes",
    "Cone": "scene.shapes",
    "HalfSpace": "scene.shapes",
    "TriangleMesh": "scene.shapes",
    "triangle_mesh": "scene.shapes",
    # planning and trajectories
    "JointGoal": "planning.planning_problem",
    "PoseGoal": "planning.planning_problem",
    "PosesGoal": "planning.planning_problem",
    "ReachabilityMap": "api.reachability",
    "reachability_map": "api.reachability",
    "TaskSpaceRegion": "planning.constrained.path_constraints",
    "RegionUnion": "planning.constrained.path_constraints",
    "JointBand": "planning.constrained.path_constraints",
    "LineOfSight": "planning.constrained.path_constraints",
    "PlanOptions": "planning.pipeline",
    "Payload": "model.payload",
    "MotionPlan": "planning.pipeline",
    "planner_names": "planning.planners",
    "JointTrajectory": "trajectory.joint_trajectory",
    "TimedPath": "trajectory.timed_path",
    "TrajectorySample": "trajectory.joint_trajectory",
    # reactive motion
    "MpcSettings": "mpc.mpc_settings",
    "ReactivePolicy": "api.reactive_policy",
    # learned policies
    "PolicyRunner": "policies.runner",
    "PolicyInputs": "policies.observations",
    "PolicyTargets": "policies.runner",
    # wheeled bases
    "MobileBase": "api.robot_model",
    "BaseController": "bases.controller",
    "BaseLimits": "bases.base",
    "BodyAxisLimits": "bases.base",
    "Twist2": "bases.base",
    "Odometry": "bases.odometry",
    # errors
    "MotionError": "errors",
}
"""Module of each public name; ``__init__.pyi`` declares the names for type checkers."""

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _HOME:
        raise AttributeError(f"module 'motion_nodes' has no attribute '{name}'")
    value = getattr(importlib.import_module(f"motion_nodes.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted({*globals(), *_HOME})
