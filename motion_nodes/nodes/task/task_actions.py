# SPDX-License-Identifier: Apache-2.0
"""Actions of the task server: pick and place as in MoveIt, and tasks as text.

Also here: goals of the task server's actions as tasks.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from moveit_msgs.action import Pickup, Place
from moveit_msgs.msg import MoveItErrorCodes
from nav2_msgs.action import DummyBehavior

from motion_nodes.errors import MotionError
from motion_nodes.nodes.task.arm_motions import ArmMotions
from motion_nodes.nodes.task.skill_robot import TaskRobot
from motion_nodes.nodes.task.task_params import TaskServerParams
from motion_nodes.ros.concurrency.action_servers import ActionGoal, ActionOutcome, LoopActionServer
from motion_nodes.ros.messages.moveit_messages import RequestRejected, pose_of, set_code
from motion_nodes.ros.messages.trajectory_messages import fill_seconds
from motion_nodes.ros.node import RobotNode
from motion_nodes.ros.robot_frames import RobotFrames
from motion_nodes.ros.scene.scene_follower import SceneFollower
from motion_nodes.tasks.served_task import ServedTask
from motion_nodes.tasks.task_codes import Reason, TaskCode, reason_of
from motion_nodes.tasks.task_plan import PlanStep, TaskOrder
from motion_nodes.typing import Array

if TYPE_CHECKING:
    from motion_nodes.nodes.task_server import TaskServerNode

CONSTRAINTS = (
    "joint_constraints", "position_constraints", "orientation_constraints",
    "visibility_constraints",
)  # fmt: skip
Codes = MoveItErrorCodes
OUTCOMES = {
    "succeeded": ActionOutcome.SUCCEEDED,
    "planned": ActionOutcome.SUCCEEDED,
    "canceled": ActionOutcome.CANCELED,
}
"""Outcome by the state of a task; others are aborted."""
SHUT_DOWN = Reason(TaskCode.SHUT_DOWN, "the task server is shutting down")
MOVEIT_CODES = {
    TaskCode.NONE: Codes.SUCCESS,
    TaskCode.UNKNOWN_OBJECT: Codes.INVALID_OBJECT_NAME,
    TaskCode.AMBIGUOUS_OBJECT: Codes.INVALID_OBJECT_NAME,
    TaskCode.UNKNOWN_LOCATION: Codes.INVALID_GOAL_CONSTRAINTS,
    TaskCode.OUT_OF_REACH: Codes.NO_IK_SOLUTION,
    TaskCode.IN_COLLISION: Codes.GOAL_IN_COLLISION,
    TaskCode.OBJECT_MOVED: Codes.MOTION_PLAN_INVALIDATED_BY_ENVIRONMENT_CHANGE,
    TaskCode.NOT_DETECTED: Codes.UNABLE_TO_AQUIRE_SENSOR_DATA,
    TaskCode.STATE_UNKNOWN: Codes.UNABLE_TO_AQUIRE_SENSOR_DATA,
    TaskCode.MOTION_FAILED: Codes.CONTROL_FAILED,
    TaskCode.TIMEOUT: Codes.TIMED_OUT,
    TaskCode.NODE_MISSING: Codes.COMMUNICATION_FAILURE,
    TaskCode.CANCELED: Codes.PREEMPTED,
    TaskCode.STOPPED_MEANWHILE: Codes.PREEMPTED,
    TaskCode.SHUT_DOWN: Codes.PREEMPTED,
}
"""MoveIt's error code by that of the reason; FAILURE for others."""


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


@dataclass
class TaskExecution:
    """Execution of a goal."""

    goal: ActionGoal
    task: ServedTask
    begun: float = field(default_factory=time.monotonic)
    reported: str = ""
    """Newest feedback."""

    @property
    def ended(self) -> bool:
        """Whether the task has ended."""
        return self.task.ended


class TaskActionServer(LoopActionServer[TaskExecution]):
    """Serves ``~/pickup``, ``~/place`` and ``~/execute_task``."""

    def __init__(self, node: TaskServerNode, goals: TaskGoals) -> None:
        """Create the servers.

        Args:
            node: the task server.
            goals: converts goal messages.
        """
        self._server, self._goals, self._log = node, goals, node.get_logger()
        actions = (
            (Pickup, "~/pickup"), (Place, "~/place"), (DummyBehavior, "~/execute_task"),
        )  # fmt: skip
        super().__init__(node, actions)

    def start(self, goal: ActionGoal) -> TaskExecution | None:
        """Begin a task; abort the goal if it is invalid."""
        try:
            task = self._node.in_loop(lambda: self._server.begin(self._goals.text_of(goal)))
        except RequestRejected as error:
            reason = Reason(TaskCode.INVALID_PLAN, str(error))
            self._finish(goal, ActionOutcome.ABORTED, reason, error.code)
        except MotionError as error:
            self._finish(goal, ActionOutcome.ABORTED, reason_of(error))
        except TimeoutError as error:
            self._finish(goal, ActionOutcome.ABORTED, Reason(TaskCode.TIMEOUT, str(error)))
        else:
            if not task.refusal:
                return TaskExecution(goal, task)
            self._finish(goal, ActionOutcome.ABORTED, task.refusal)
        return None

    def stop(self, execution: TaskExecution) -> None:
        """Cancel the task."""
        execution.task.cancel()

    def answer(self, execution: TaskExecution) -> None:
        """Send the result."""
        task, goal = execution.task, execution.goal
        outcome = OUTCOMES.get(task.state, ActionOutcome.ABORTED)
        reason = task.reason if task.ended else SHUT_DOWN
        took = time.monotonic() - execution.begun
        if goal.kind is DummyBehavior:
            fill_seconds(goal.result.total_elapsed_time, took)
        elif goal.kind is Place and goal.request.place_locations:
            goal.result.place_location = goal.request.place_locations[0]
        self._finish(goal, outcome, reason)

    def poll(self) -> None:
        """Send feedback of each new skill or phase, and results; in the loop."""
        for execution in list(self._works):
            goal, text = execution.goal, execution.task.progress
            if text != execution.reported and goal.kind is not DummyBehavior:
                execution.reported = text
                goal.feedback(goal.feedback_type(state=text))
        super().poll()

    # ---- inside

    def _finish(
        self, goal: ActionGoal, outcome: ActionOutcome, reason: Reason, code: int | None = None
    ) -> None:
        """Send a result; a code of MoveIt replaces that of the reason."""
        text = reason.text
        if text:
            self._log.info(f"goal of {goal.action_name} ended: {text}")
        if goal.kind is DummyBehavior:
            goal.result.error_code = int(reason.code)
            goal.result.error_msg = text
        else:
            chosen = MOVEIT_CODES.get(reason.code, Codes.FAILURE) if code is None else code
            set_code(goal.result.error_code, chosen, text, "task_server")
        goal.finish(outcome, goal.result)
