# SPDX-License-Identifier: Apache-2.0
"""A robot of a running suite for a language model: a client like any other, over ROS 2.

Calls come from several threads; rclpy's clients are accessed in the thread that spins the node.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from control_msgs.action import GripperCommand
from moveit_msgs.action import ExecuteTrajectory, MoveGroup
from moveit_msgs.msg import PlanningSceneComponents
from moveit_msgs.srv import GetPlanningScene
from rclpy.node import Node

from motion_nodes.errors import MotionError
from motion_nodes.extras.agent_tools.agent_functions import (
    NotDone,
    PlannedJointMotion,
    Report,
    SceneItem,
    TipTarget,
)
from motion_nodes.extras.tasks.task_plan import TaskOrder
from motion_nodes.nodes.clients.commands import arm_to_joints, arm_to_pose, resume_all, stop_all
from motion_nodes.nodes.task.remote_work import RemoteAction, RemoteService, Work, require_success
from motion_nodes.ros.clients.client_node import client_node
from motion_nodes.ros.clients.task_client import TaskClient, TaskNotDone
from motion_nodes.ros.concurrency.loops import ExecutorQueue
from motion_nodes.ros.concurrency.rclpy_internals import GuardedExecutor
from motion_nodes.ros.messages.moveit_messages import pose_of, seconds_of
from motion_nodes.ros.names import under
from motion_nodes.ros.scene.collision_objects import parts_of
from motion_nodes.ros.stop_latch import StopLatch

POLL_PERIOD = 0.01
"""Period at which a call polls for its result [s]."""
FIND_TIMEOUT = 5.0
"""Max time to wait for the task server [s]."""
STOP_TIMEOUT = 10.0
"""Max time until all robots are at rest, or have resumed [s]."""
STOPPED_BY = "motion mcp"
"""Sender of this link's stops."""


@contextmanager
def robot_link(namespace: str, base_frame: str) -> Iterator[RosRobotLink]:
    """Context manager of a link, whose node a thread spins.

    Args:
        namespace: of the robot; may be empty.
        base_frame: of the robot, without a prefix.
    """
    with client_node("motion_mcp") as node:
        link = RosRobotLink(node, namespace, base_frame)
        executor = GuardedExecutor()
        executor.add_node(node)
        spinning = threading.Thread(target=executor.spin, name="spin", daemon=True)
        spinning.start()
        try:
            yield link
        finally:
            link.end()
            executor.shutdown()
            spinning.join(STOP_TIMEOUT)


class RosRobotLink:
    """Implements :class:`~motion_nodes.extras.agent_tools.agent_functions.RobotLink`."""

    def __init__(self, node: Node, namespace: str, base_frame: str) -> None:
        """Create the clients; arguments as for :func:`robot_link`."""
        prefix = f"/{namespace}" if namespace else ""
        self._node, self._prefix = node, prefix
        self._frame = under(namespace, base_frame)
        jobs = ExecutorQueue(node)
        self._latch = StopLatch(node)
        self._own_stop_ns = -1
        self._scene = RemoteService(node, jobs, GetPlanningScene, f"{prefix}/get_planning_scene")
        self._move = RemoteAction(node, jobs, MoveGroup, f"{prefix}/move_action")
        self._execute = RemoteAction(node, jobs, ExecuteTrajectory, f"{prefix}/execute_trajectory")
        self._grip = RemoteAction(
            node, jobs, GripperCommand, f"{prefix}/gripper_action_controller/gripper_cmd"
        )
        self._tasks = TaskClient(node, f"{prefix}/task_server", lambda _: None, spinning=True)
        self._task_under_way = False

    def end(self) -> None:
        """Unsubscribe from the stop; the node is being destroyed."""
        self._latch.end()

    # ---- queries

    def positions(self) -> Mapping[str, float]:
        """Return measured joint positions [rad or m]."""
        state = self._scene_now(PlanningSceneComponents.ROBOT_STATE).robot_state.joint_state
        if not state.name:
            raise NotDone("the robot's joint states are not known yet")
        # NaN: not measured; JSON has no such number.
        pairs = zip(state.name, state.position, strict=False)
        return {name: q for name, q in pairs if math.isfinite(q)}

    def scene(self) -> Sequence[SceneItem]:
        """Return the objects of the planning scene."""
        parts = PlanningSceneComponents
        scene = self._scene_now(
            parts.WORLD_OBJECT_NAMES
            | parts.WORLD_OBJECT_GEOMETRY
            | parts.ROBOT_STATE_ATTACHED_OBJECTS
        )
        world = [_item(message) for message in scene.world.collision_objects]
        attached = scene.robot_state.attached_collision_objects
        return world + [_item(body.object, body.link_name) for body in attached]

    # ---- motions

    def plan(
        self,
        group: str,
        goal: Mapping[str, float] | TipTarget,
        velocity: float,
        acceleration: float,
    ) -> PlannedJointMotion:
        """Plan a motion, which the page shows as a ghost."""
        if isinstance(goal, TipTarget):
            request = arm_to_pose(
                self._prefix, group, goal.link, self._frame, goal.X_BT, oriented=goal.oriented
            ).goal
        else:
            request = arm_to_joints(self._prefix, group, goal).goal
        request.request.max_velocity_scaling_factor = velocity
        request.request.max_acceleration_scaling_factor = acceleration
        request.planning_options.plan_only = True
        outcome = self._wait(self._move.execute(request))
        _require(outcome, "no plan")
        message = outcome[1].planned_trajectory
        points = message.joint_trajectory.points
        if not points:
            raise NotDone("the planner returned no motion; is the robot already at the goal?")
        return PlannedJointMotion(
            joint_names=tuple(message.joint_trajectory.joint_names),
            times=np.array([seconds_of(p.time_from_start, "a point") for p in points]),
            positions=np.array([p.positions for p in points], dtype=np.float64),
            message=message,
            note=outcome[1].error_code.message,
        )

    def execute(self, path: PlannedJointMotion, report: Report) -> None:
        """Execute a plan; the planner monitors the remaining path."""
        report(f"moving, {path.times[-1]:.1f} s")
        goal = ExecuteTrajectory.Goal(trajectory=path.message)
        _require(self._wait(self._execute.execute(goal)), "not executed")

    def grip(self, position: float, max_effort: float) -> str:
        """Move the fingers to a position [m], with a max effort [N]."""
        goal = GripperCommand.Goal()
        goal.command.position, goal.command.max_effort = position, max_effort
        _, result = self._wait(self._grip.execute(goal))
        if result.reached_goal:
            return f"reached {result.position:.4f}"
        if result.stalled:
            return f"stopped at {result.position:.4f} by an object between the fingers"
        raise NotDone(f"the gripper did not reach its position; it is at {result.position:.4f}")

    # ---- tasks

    def plan_task(self, task: str) -> list[dict[str, Any]]:
        """Return the plan of a task."""
        return self._run(TaskOrder(task, plan_only=True), lambda _: None)

    def run_task(self, plan: Sequence[Mapping[str, Any]], report: Report) -> None:
        """Execute a plan of skills."""
        self._task_under_way = True
        try:
            self._run(TaskOrder(json.dumps(list(plan))), report)
        finally:
            self._task_under_way = False

    def cancel(self) -> None:
        """Cancel active goals."""
        for action in (self._execute, self._grip):
            action.cancel()
        if self._task_under_way:
            self._tasks.cancel()

    # ---- stop

    @property
    def stop_reason(self) -> str:
        """Why commands are refused."""
        return self._latch.reason

    def stop(self) -> list[str]:
        """Stop all robots."""
        lines: list[str] = []
        own = not self._latch.state.stopped or self._latch.state.stopped_ns == self._own_stop_ns
        stop_all(self._node, self._latch, STOPPED_BY, STOP_TIMEOUT, lines.append)
        if own:
            self._own_stop_ns = self._latch.state.stopped_ns
        return lines

    def resume(self) -> None:
        """Resume from a stop of this link."""
        state = self._latch.state
        if not state.stopped:
            raise NotDone("no stop is in force")
        if state.stopped_ns != self._own_stop_ns:
            raise NotDone(
                f"{self._latch.reason}. Stops by others, or repeated by them, are ended by a person"
            )
        lines: list[str] = []
        if not resume_all(self._node, self._latch, STOP_TIMEOUT, lines.append):
            raise NotDone("; ".join(lines))

    # ---- inside

    def _scene_now(self, components: int) -> Any:
        request = GetPlanningScene.Request()
        request.components.components = components
        return self._wait(self._scene.call(request)).scene

    def _run(self, order: TaskOrder, report: Report) -> list[dict[str, Any]]:
        self._tasks.report = report
        try:
            self._tasks.find(FIND_TIMEOUT)
            return self._tasks.run(order)
        except TaskNotDone as error:
            raise NotDone(str(error), error.code) from None

    def _wait(self, work: Work) -> Any:
        """Advance work until it is done; return its result."""
        while True:
            try:
                next(work)
            except StopIteration as end:
                return end.value
            except MotionError as error:
                raise NotDone(f"{error}; is `motion up` running?") from None
            time.sleep(POLL_PERIOD)


def _require(outcome: tuple[int, Any], what: str) -> None:
    try:
        require_success(outcome, what)
    except MotionError as error:
        raise NotDone(str(error)) from None


def _item(message: Any, link: str = "") -> SceneItem:
    where = f"object '{message.id}'"
    X_BO = pose_of(message.pose, where)[0]
    return SceneItem(message.id, parts_of(message, where), X_BO, link)
