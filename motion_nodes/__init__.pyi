# SPDX-License-Identifier: Apache-2.0
"""Public names for type checkers; ``__init__.py`` imports each when it is first used."""

from motion_nodes.api.joint_group import JointGroup as JointGroup
from motion_nodes.api.reachability import ReachabilityMap as ReachabilityMap
from motion_nodes.api.reachability import reachability_map as reachability_map
from motion_nodes.api.reactive_policy import ReactivePolicy as ReactivePolicy
from motion_nodes.api.robot_model import MobileBase as MobileBase
from motion_nodes.api.robot_model import RobotModel as RobotModel
from motion_nodes.api.robot_model import available_robots as available_robots
from motion_nodes.api.robot_model import load_robot as load_robot
from motion_nodes.api.saved_results import load as load
from motion_nodes.core.bases.base import BaseLimits as BaseLimits
from motion_nodes.core.bases.base import BodyAxisLimits as BodyAxisLimits
from motion_nodes.core.bases.base import Twist2 as Twist2
from motion_nodes.core.bases.controller import BaseController as BaseController
from motion_nodes.core.bases.odometry import Odometry as Odometry
from motion_nodes.core.ik.problem import IkBatchResult as IkBatchResult
from motion_nodes.core.ik.problem import IkResult as IkResult
from motion_nodes.core.ik.problem import IkSettings as IkSettings
from motion_nodes.core.ik.problem import IkTolerance as IkTolerance
from motion_nodes.core.ik.tasks_and_limits import CenterOfMassTask as CenterOfMassTask
from motion_nodes.core.ik.tasks_and_limits import CollisionLimit as CollisionLimit
from motion_nodes.core.ik.tasks_and_limits import Configuration as Configuration
from motion_nodes.core.ik.tasks_and_limits import ConfigurationLimit as ConfigurationLimit
from motion_nodes.core.ik.tasks_and_limits import DampingTask as DampingTask
from motion_nodes.core.ik.tasks_and_limits import FrameTask as FrameTask
from motion_nodes.core.ik.tasks_and_limits import GazeTask as GazeTask
from motion_nodes.core.ik.tasks_and_limits import Limit as Limit
from motion_nodes.core.ik.tasks_and_limits import LimitRows as LimitRows
from motion_nodes.core.ik.tasks_and_limits import PositionLimit as PositionLimit
from motion_nodes.core.ik.tasks_and_limits import PostureTask as PostureTask
from motion_nodes.core.ik.tasks_and_limits import Task as Task
from motion_nodes.core.ik.tasks_and_limits import VelocityLimit as VelocityLimit
from motion_nodes.core.ik.tasks_and_limits import solve_step as solve_step
from motion_nodes.core.planning.path_constraints import JointBand as JointBand
from motion_nodes.core.planning.path_constraints import LineOfSight as LineOfSight
from motion_nodes.core.planning.path_constraints import RegionUnion as RegionUnion
from motion_nodes.core.planning.path_constraints import (
    TaskSpaceRegion as TaskSpaceRegion,
)
from motion_nodes.core.planning.pipeline import MotionPlan as MotionPlan
from motion_nodes.core.planning.pipeline import PlanOptions as PlanOptions
from motion_nodes.core.planning.planners import planner_names as planner_names
from motion_nodes.core.planning.planning_problem import JointGoal as JointGoal
from motion_nodes.core.planning.planning_problem import PoseGoal as PoseGoal
from motion_nodes.core.planning.planning_problem import PosesGoal as PosesGoal
from motion_nodes.core.reactive.mpc_settings import MpcSettings as MpcSettings
from motion_nodes.core.robot.inverse_dynamics import Payload as Payload
from motion_nodes.core.robot.limits import JointLimits as JointLimits
from motion_nodes.core.robot.poses import inverse as inverse
from motion_nodes.core.robot.poses import multiply as multiply
from motion_nodes.core.robot.poses import pose as pose
from motion_nodes.core.robot.tree import Box as Box
from motion_nodes.core.robot.tree import Cylinder as Cylinder
from motion_nodes.core.robot.tree import Sphere as Sphere
from motion_nodes.core.scene.shapes import Capsule as Capsule
from motion_nodes.core.scene.shapes import Cone as Cone
from motion_nodes.core.scene.shapes import HalfSpace as HalfSpace
from motion_nodes.core.scene.shapes import TriangleMesh as TriangleMesh
from motion_nodes.core.scene.shapes import triangle_mesh as triangle_mesh
from motion_nodes.core.scene.world import World as World
from motion_nodes.core.scene.world import load_world as load_world
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory as JointTrajectory
from motion_nodes.core.trajectory.joint_trajectory import TrajectorySample as TrajectorySample
from motion_nodes.core.trajectory.timed_path import TimedPath as TimedPath
from motion_nodes.errors import MotionError as MotionError
from motion_nodes.extras.policies.observations import PolicyInputs as PolicyInputs
from motion_nodes.extras.policies.runner import PolicyRunner as PolicyRunner
from motion_nodes.extras.policies.runner import PolicyTargets as PolicyTargets
from motion_nodes.extras.robot_setup.derived_robot import mounted_folder as mounted_folder

__version__: str

__all__ = [
    "BaseController",
    "BaseLimits",
    "BodyAxisLimits",
    "Box",
    "Capsule",
    "CenterOfMassTask",
    "CollisionLimit",
    "Cone",
    "Configuration",
    "ConfigurationLimit",
    "Cylinder",
    "DampingTask",
    "FrameTask",
    "GazeTask",
    "HalfSpace",
    "IkBatchResult",
    "IkResult",
    "IkSettings",
    "IkTolerance",
    "JointBand",
    "JointGoal",
    "JointGroup",
    "JointLimits",
    "JointTrajectory",
    "Limit",
    "LimitRows",
    "LineOfSight",
    "MobileBase",
    "MotionError",
    "MotionPlan",
    "MpcSettings",
    "Odometry",
    "Payload",
    "PlanOptions",
    "PolicyInputs",
    "PolicyRunner",
    "PolicyTargets",
    "PoseGoal",
    "PosesGoal",
    "PositionLimit",
    "PostureTask",
    "ReachabilityMap",
    "ReactivePolicy",
    "RegionUnion",
    "RobotModel",
    "Sphere",
    "Task",
    "TaskSpaceRegion",
    "TimedPath",
    "TrajectorySample",
    "TriangleMesh",
    "Twist2",
    "VelocityLimit",
    "World",
    "available_robots",
    "inverse",
    "load",
    "load_robot",
    "load_world",
    "mounted_folder",
    "multiply",
    "planner_names",
    "pose",
    "reachability_map",
    "solve_step",
    "triangle_mesh",
]
