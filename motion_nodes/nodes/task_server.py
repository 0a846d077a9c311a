# SPDX-License-Identifier: Apache-2.0
"""Task server: executes sentences or plans of skills as motions of an arm.

Its actions are pick and place as in MoveIt, and tasks as text.
"""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from moveit_msgs.action import Pickup, Place
from moveit_msgs.msg import MoveItErrorCodes
from nav2_msgs.action import DummyBehavior
from std_msgs.msg import String
from std_srvs.srv import Trigger

from motion_nodes.api.robot_model import RobotModel
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.errors import InvalidCommand, InvalidConfig, MotionError
from motion_nodes.extras.tasks.served_task import MAX_TEXT_SHOWN, RulePlanner, ServedTask
from motion_nodes.extras.tasks.skill_poses import parse_places
from motion_nodes.extras.tasks.task_codes import Reason, TaskCode, TaskError, reason_of
from motion_nodes.extras.tasks.task_plan import (
    Plan,
    PlanStep,
    TaskOrder,
    check_plan,
    parse_order,
    parse_plan,
    plan_schema,
)
from motion_nodes.extras.tasks.task_runner import TaskLimits, TaskRunner, TaskStatus
from motion_nodes.nodes.task.arm_motions import ArmMotions, CompliantMotions
from motion_nodes.nodes.task.observed_objects import ObservedObjects
from motion_nodes.nodes.task.skill_parts import DriveOutlines, NavigatedBase, SkillParts
from motion_nodes.nodes.task.skill_robot import RobotSkills, TaskRobot
from motion_nodes.nodes.task.task_params import TaskServerParams
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.loops import ExecutorQueue
from motion_nodes.ros.concurrency.servers import (
    ActionGoal,
    ActionOutcome,
    LoopActionServer,
    respond_from_loop,
)
from motion_nodes.ros.current_state import RobotFrames
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.messages.moveit_messages import RequestRejected, pose_of, set_code
from motion_nodes.ros.messages.trajectory_messages import fill_seconds
from motion_nodes.ros.node import RobotNode
from motion_nodes.ros.scene.scene_follower import SceneFollower

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
ENDED = Reason(TaskCode.SHUT_DOWN, "the task server is shutting down")
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
BUSY = Reason(TaskCode.BUSY, "task refused: another one is under way; cancel it first (~/cancel)")
SHUT_DOWN = Reason(TaskCode.SHUT_DOWN, "the task server was deactivated")
REPLACED = Reason(TaskCode.REPLACED, "another task came before the plan was confirmed")


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
        q, measured = np.array(self._home), self._motions.positions()
        if measured is not None:
            q[self._group.indices] = measured
        frames = self._frames.in_scene(self._follower.scene)
        x, y, z = (frames.pose(given.header.frame_id, q) @ pose)[:3, 3]
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
        reason = task.reason if task.ended else ENDED
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


class TaskServerNode(RobotNode[TaskServerParams]):
    """Plans and executes tasks, one at a time."""

    params_type = TaskServerParams
    obeys_stop = True

    def __init__(self, ros_args: list[str] | None = None) -> None:
        super().__init__("task_server", ros_args=ros_args)
        self._motions: ArmMotions | None = None
        self._frames: RobotFrames | None = None
        self._follower: SceneFollower | None = None
        self._base: NavigatedBase | None = None
        self._actions: TaskActionServer | None = None
        self.task = ServedTask()
        """The newest task; an older plan that waits for a confirmation is kept if it is refused."""
        self._count = 0
        self._remote = ExecutorQueue(self)

    def configure(self) -> None:
        """Create the clients of the arm and the endpoints."""
        params, robot = self.params, self.robot
        if len(params.placement) != 3:
            raise InvalidConfig(f"placement has {len(params.placement)} numbers; x, y, yaw needed")
        frames = self._frames = RobotFrames.of(self)
        follower = SceneFollower(self, robot, frames.kinematics, frames)
        self._follower = follower
        model = RobotModel(robot)
        gripper = model[params.gripper] if params.gripper in robot.groups else None
        self._motions = ArmMotions(self, self._remote, model[params.group], gripper)
        x, y, yaw = params.placement
        X_WB = from_xyz_rpy((x, y, 0.0), (0.0, 0.0, yaw))
        if robot.base is not None:
            odom = frames.full_name(robot.description.frames.odom)
            names = odom, frames.full_name(robot.base_frame)
            self._base = NavigatedBase(
                self, self._remote, frames.tree, names, X_WB, DriveOutlines.of(robot)
            )
        base = self._base
        base_pose = (lambda: X_WB) if base is None else base.pose
        self._objects = ObservedObjects(self, follower, robot, base_pose, params.detector)
        skills = RobotSkills(
            SkillParts(
                node=self,
                motions=self._motions,
                compliance=CompliantMotions(self, self._remote),
                objects=self._objects,
                world=follower.world,
                touching=self._hand_links(),
                base=base,
            )
        )
        skills.reach.warm_up()
        self._robot = TaskRobot(skills, parse_places(params.places) if base is not None else {})
        self._planner = RulePlanner()
        self.task = ServedTask()
        self._published: dict[str, Any] = {}
        self._commands = self.poll(String, "~/command", qos.COMMANDS)
        self._status = self.advertise(String, "~/status", qos.STATUS)
        self._schema_out = self.advertise(String, "~/schema", qos.STATUS)
        self._names: tuple[str, ...] | None = None
        self.serve(Trigger, "~/confirm", self._on_confirm)
        self.serve(Trigger, "~/cancel", self._on_cancel)
        goals = TaskGoals(self, frames, follower, self._motions, self._robot)
        self._actions = TaskActionServer(self, goals)

    def tick(self, dt: float) -> None:
        """Read commands, advance the task, publish its status."""
        now = self._robot.now()
        if self._follower is not None:
            self._follower.update()
        self._objects.update(now)
        for message in self._commands.all():
            self._take(message.data)
        lost = self._robot.watch()
        if lost:
            self.warn("held", lost)
            if self.task.runner is not None:
                self.task.runner.log(lost)
        if self.task.runner is not None:
            self.task.runner.tick()
        self._publish()

    def halt(self) -> None:
        """Cancel the task; the robot comes to rest."""
        self.task.cancel(SHUT_DOWN)

    def stopped(self, why: str) -> None:
        """Cancel the task."""
        self.task.cancel(Reason(TaskCode.STOPPED_MEANWHILE, why))

    def release(self) -> None:
        """Destroy the action servers, the clients and the scene's copy."""
        if self._actions is not None:
            self._actions.destroy()
            self._actions = None
        if self._motions is not None:
            self._motions.destroy()
        if self._base is not None:
            self._base.destroy()
        if self._follower is not None:
            self._follower.destroy()
        if self._frames is not None:
            self._frames.destroy()
        self._motions = self._follower = self._frames = self._base = None

    def waiting_for(self) -> str:
        """Return the missing input: the planning scene."""
        synchronised = self._follower is not None and self._follower.synchronised
        return "" if synchronised else "the planning scene"

    def diagnose(self, report: Report) -> None:
        """Report the task."""
        task, runner = self.task, self.task.runner
        report.value("task", task.text[:MAX_TEXT_SHOWN])
        report.value("task state", "none" if runner is None else runner.state.value)
        for name in self._objects.ambiguous:
            report.note("WARN", self._objects.ambiguity(name))
        if task.refusal:
            report.note("WARN", f"the last task was refused: {task.refusal}")
        elif runner is not None and runner.state is TaskStatus.FAILED:
            report.note("WARN", runner.reason.text)

    # ---- inside

    def _take(self, text: str) -> None:
        """Begin the task of a message; one that is refused is reported in the status."""
        with contextlib.suppress(TaskError):
            self.begin(text)

    def begin(self, text: str) -> ServedTask:
        """Begin a task; nothing is executed if it is invalid or impossible. In the loop.

        Args:
            text: a sentence, a plan or an order as JSON.

        Raises:
            TaskError: another task is active.
        """
        if self._busy():
            raise TaskError(BUSY.text, BUSY.code)
        self._count += 1
        task = ServedTask(text, self._count)
        try:
            order = parse_order(text)
            task.text, task.plan_only = order.task, order.plan_only
            if self.stop_reason and not order.plan_only:
                raise TaskError(self.stop_reason, TaskCode.STOPPED)
            task.plan = self._plan(order.task)
        except MotionError as error:
            ambiguities = map(self._objects.ambiguity, self._objects.ambiguous)
            text = "; ".join((str(error), *ambiguities))
            task.refusal = Reason(reason_of(error).code, text)
            self.warn("task", f"task refused: {error}")
            if self.task.waits:
                # Its sender reads the refusal in one status; the plan that waits is kept.
                self._send_status(task.status(self._robot.observe()))
                self.task.notes.append(f"'{task.text[:MAX_TEXT_SHOWN]}' was refused: {text}")
            else:
                self.task = task
            return task
        self.task.cancel(REPLACED)
        self.task = task
        if not task.plan_only and not self.params.confirm:
            self._execute(task)
        return task

    def _busy(self) -> bool:
        """Return whether a task is active; a further one is reported in its events."""
        runner = self.task.runner
        if runner is None or not self.task.running:
            return False
        runner.log(BUSY.text)
        self.warn("busy", BUSY.text)
        return True

    def _plan(self, task: str) -> Plan:
        state = self._robot.observe()
        if not task.lstrip().startswith("["):
            return self._planner.plan(task, state)
        plan = parse_plan(task)
        check_plan(plan, state)
        return plan

    def _execute(self, task: ServedTask) -> None:
        limits = TaskLimits(retries=self.params.retries, plans=self.params.plans)
        self._robot.begin()
        task.runner = TaskRunner(self._robot, task.plan, limits=limits)

    def _publish(self) -> None:
        state = self._robot.observe()
        status = self.task.status(state)
        if status != self._published:
            self._send_status(status)
        names = (*sorted(state.objects), "", *state.places)
        if names != self._names:
            self._names = names
            self._schema_out.publish(String(data=json.dumps(plan_schema(state))))

    def _send_status(self, status: dict[str, Any]) -> None:
        self._published = status
        self._status.publish(String(data=json.dumps(status)))

    def _hand_links(self) -> frozenset[str]:
        """Return the links of the gripper, which may touch the held object."""
        robot = self.robot
        found = set()
        if self.params.gripper in robot.groups:
            for joint in robot.groups[self.params.gripper].joints:
                entry = robot.tree.joints[joint]
                found |= {entry.child, entry.parent}
        return frozenset(found)

    def _on_confirm(self, _request: Any, response: Any) -> Any:
        def job() -> str:
            if not self.task.waits:
                raise InvalidCommand("no plan waits for a confirmation")
            self._execute(self.task)
            return "the plan is executed"

        return respond_from_loop(self, response, job)

    def _on_cancel(self, _request: Any, response: Any) -> Any:
        def job() -> str:
            self.task.cancel()
            return "canceled"

        return respond_from_loop(self, response, job)
