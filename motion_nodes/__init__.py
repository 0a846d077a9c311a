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

_SECTIONS = {
    "Robots": {
        "load_robot": "api.robot_model",
        "available_robots": "api.robot_model",
        "mounted_folder": "extras.robot_setup.derived_robot",
        "RobotModel": "api.robot_model",
        "JointGroup": "api.joint_group",
        "JointLimits": "core.robot.limits",
    },
    "Poses": {
        "pose": "core.robot.poses",
        "multiply": "core.robot.poses",
        "inverse": "core.robot.poses",
    },
    "Inverse kinematics": {
        "IkSettings": "core.ik.problem",
        "IkTolerance": "core.ik.problem",
        "IkResult": "core.ik.problem",
        "IkBatchResult": "core.ik.problem",
    },
    "Tasks and limits": {
        "Configuration": "core.ik.tasks_and_limits",
        "solve_step": "core.ik.tasks_and_limits",
        "FrameTask": "core.ik.tasks_and_limits",
        "PostureTask": "core.ik.tasks_and_limits",
        "CenterOfMassTask": "core.ik.tasks_and_limits",
        "GazeTask": "core.ik.tasks_and_limits",
        "DampingTask": "core.ik.tasks_and_limits",
        "ConfigurationLimit": "core.ik.tasks_and_limits",
        "VelocityLimit": "core.ik.tasks_and_limits",
        "PositionLimit": "core.ik.tasks_and_limits",
        "CollisionLimit": "core.ik.tasks_and_limits",
        "Task": "core.ik.tasks_and_limits",
        "Limit": "core.ik.tasks_and_limits",
        "LimitRows": "core.ik.tasks_and_limits",
    },
    "Reachability": {
        "reachability_map": "api.reachability",
        "ReachabilityMap": "api.reachability",
    },
    "Files": {
        "load": "api.saved_results",
    },
    "The world": {
        "World": "core.scene.world",
        "load_world": "core.scene.world",
        "Box": "core.robot.tree",
        "Sphere": "core.robot.tree",
        "Cylinder": "core.robot.tree",
        "Capsule": "core.scene.shapes",
        "Cone": "core.scene.shapes",
        "HalfSpace": "core.scene.shapes",
        "TriangleMesh": "core.scene.shapes",
        "triangle_mesh": "core.scene.shapes",
    },
    "Planning and trajectories": {
        "JointGoal": "core.planning.planning_problem",
        "PoseGoal": "core.planning.planning_problem",
        "PosesGoal": "core.planning.planning_problem",
        "PlanOptions": "core.planning.pipeline",
        "Payload": "core.robot.inverse_dynamics",
        "MotionPlan": "core.planning.pipeline",
        "planner_names": "core.planning.planners",
        "TaskSpaceRegion": "core.planning.path_constraints",
        "RegionUnion": "core.planning.path_constraints",
        "JointBand": "core.planning.path_constraints",
        "LineOfSight": "core.planning.path_constraints",
        "JointTrajectory": "core.trajectory.joint_trajectory",
        "TimedPath": "core.trajectory.timed_path",
        "TrajectorySample": "core.trajectory.joint_trajectory",
    },
    "Reactive motion": {
        "ReactivePolicy": "api.reactive_policy",
        "MpcSettings": "core.reactive.mpc_settings",
    },
    "Learned policies": {
        "PolicyRunner": "extras.policies.runner",
        "PolicyInputs": "extras.policies.observations",
        "PolicyTargets": "extras.policies.runner",
    },
    "Wheeled bases": {
        "MobileBase": "api.robot_model",
        "BaseController": "core.bases.controller",
        "BaseLimits": "core.bases.base",
        "BodyAxisLimits": "core.bases.base",
        "Twist2": "core.bases.base",
        "Odometry": "core.bases.odometry",
    },
    "Errors": {
        "MotionError": "errors",
    },
}
"""Public names with their modules, by section of docs/reference.md.

``python tools/write_reference.py`` writes that page, and ``__init__.pyi`` for type checkers.
"""
_HOME = {name: module for names in _SECTIONS.values() for name, module in names.items()}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _HOME:
        from difflib import get_close_matches

        near = get_close_matches(name, _HOME, n=1)
        hint = f". Did you mean: '{near[0]}'?" if near else ""
        raise AttributeError(f"module 'motion_nodes' has no attribute '{name}'{hint}")
    value = getattr(importlib.import_module(f"motion_nodes.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted([*_HOME, "__version__"])
