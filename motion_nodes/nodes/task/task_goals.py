# SPDX-License-Identifier: Apache-2.0
"""Goals of the task server's actions as tasks."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from moveit_msgs.action import Pickup
from moveit_msgs.msg import MoveItErrorCodes
from nav2_msgs.action import DummyBehavior

from motion_nodes.nodes.task.arm_motions import ArmMotions
from motion_nodes.nodes.task.skill_robot import TaskRobot
from motion_nodes.nodes.task.task_params import TaskServerParams
from motion_nodes.ros.concurrency.threaded_action_server import ActionGoal
from motion_nodes.ros.messages.moveit_messages import RequestRejected, pose_of
from motion_nodes.ros.robot_frames import RobotFrames
from motion_nodes.ros.robot_node import RobotNode
from motion_nodes.ros.scene.scene_follower import SceneFollower
from motion_nodes.tasks.task_order import TaskOrder
from motion_nodes.tasks.task_plan import PlanStep
from motion_nodes.typing import Array

Codes = MoveItErrorCodes
CONSTRAINTS = (
    "joint_constraints", "position_constraints", "orientation_constraints",
    "visibility_constraints",
)  # fmt: skip


class TaskGoals:
    """Converts goals for one arm; all methods are called in the loop."""

    def __init__(
        self,
        node: RobotNode[TaskServerParams],
        frames: RobotFrames,
        follower: SceneFollower,
        motions: ArmMotions,
        robot: TaskRobot,
    ) -> None:
        """Create it.

        Args:
            node: the task server.
            frames: lookup of frames.
            follower: of the planning scene.
            motions: of the arm that executes tasks.
            robot: knows the objects around it.
        """
        self._home, self._group = node.robot.home, node.robot.group(node.params.group)
        self._frames, self._follower = frames, follower
        self._motions, self._robot = motions, robot

    def text_of(self, goal: ActionGoal) -> str:
        """Return the task of a goal, as text; in the loop.

        Raises:
            RequestRejected: the goal uses an unsupported field.
        """
        request = goal.request
        if goal.kind is DummyBehavior:
            return str(request.command.data)
        problem = self._group_problem(request.group_name)
        if problem:
            raise RequestRejected(Codes.INVALID_GROUP_NAME, problem)
        constraints = request.path_constraints
        if any(getattr(constraints, name) for name in CONSTRAINTS):
            raise RequestRejected(
                Codes.INVALID_GOAL_CONSTRAINTS,
                "path_constraints are not supported here; plan with move_action",
            )
        step = self._pick(request) if goal.kind is Pickup else self._place(request)
        text = json.dumps([step.as_data()])
        return TaskOrder(text, plan_only=request.planning_options.plan_only).as_text()

    def _pick(self, request: Any) -> PlanStep:
        if request.possible_grasps:
            raise RequestRejected(
                Codes.INVALID_GOAL_CONSTRAINTS,
                "possible_grasps must be empty: grasps are computed from the object's shape",
            )
        return PlanStep("pick", {"object": request.target_name})

    def _place(self, request: Any) -> PlanStep:
        name, locations = request.attached_object_name, request.place_locations
        if not locations:
            location = request.support_surface_name
            return PlanStep("place", {"object": name, "location": location})
        if len(locations) > 1 or request.place_eef:
            raise RequestRejected(
                Codes.INVALID_GOAL_CONSTRAINTS,
                f"{len(locations)} place_locations, place_eef {request.place_eef}; allowed are one "
                "location of the object, or none and support_surface_name",
            )
        given = locations[0].place_pose
        pose, _ = pose_of(given.pose, "place_pose")
        x, y, z = (self._in_base(given.header.frame_id) @ pose)[:3, 3]
        held = self._robot.observe().objects.get(name)
        if held is not None:
            z -= held.X_WO[2, 3] - held.bottom
        point = f"{x:.6f},{y:.6f},{z:.6f}"
        return PlanStep("place", {"object": name, "location": point})

    def _group_problem(self, name: str) -> str:
        """Return why a group cannot execute tasks; empty if it can, or is not named."""
        own = self._group
        if not name or name == own.name or name in own.aliases:
            return ""
        return f"group '{name}' executes no tasks; allowed is {own.name}"

    def _in_base(self, frame: str) -> Array:
        """Return the pose of a frame in the base frame, shape (4, 4).

        Raises:
            RequestRejected: it is unknown.
        """
        q, measured = np.array(self._home), self._motions.positions()
        if measured is not None:
            q[self._group.indices] = measured
        return self._frames.in_scene(self._follower.scene).pose(frame, q)
