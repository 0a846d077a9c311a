# SPDX-License-Identifier: Apache-2.0
"""Services of the planner, in request threads.

They plan motions, straight paths, sequences and batches, list the planners with their settings and
the robot's model, as RViz and MoveIt's clients use, and recover the robot from a shallow collision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from moveit_msgs.msg import MoveItErrorCodes, PlannerInterfaceDescription, PlanningOptions
from moveit_msgs.srv import (
    GetCartesianPath,
    GetGroupUrdf,
    GetMotionPlan,
    GetMotionSequence,
    GetPlannerParams,
    QueryPlannerInterfaces,
    SetPlannerParams,
)
from std_srvs.srv import Trigger

from motion_nodes.core.planning.pipeline import recovery_trajectory
from motion_nodes.core.planning.planners import find_planner, planner_names
from motion_nodes.core.planning.recovery import RecoverySettings, check_recovery, recover
from motion_nodes.core.planning.tool_motions import ToolMotion
from motion_nodes.core.robot.meshes import with_absolute_meshes
from motion_nodes.core.robot.robot import Group
from motion_nodes.core.robot.robot_xml import group_urdf
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.nodes.planner.planning_requests import plan_batch
from motion_nodes.nodes.planner.tool_motion_requests import (
    NO_ITEMS,
    fill_sequence,
    plan_motion_sequence,
    sequence_job,
    straight_path,
)
from motion_nodes.ros import qos
from motion_nodes.ros.clients.trajectory_execution import ExecutedMotion
from motion_nodes.ros.concurrency.servers import ServiceThreads
from motion_nodes.ros.messages.moveit_messages import (
    RequestRejected,
    answered,
    require_active,
    set_code,
)
from motion_nodes.ros.messages.plan_messages import (
    INDUSTRIAL,
    PIPELINE,
    PlanJob,
    trajectory_message,
)
from motion_nodes.ros.parameters import settings_from
from motion_nodes.typing import Array

if TYPE_CHECKING:
    from motion_nodes.nodes.rrt_planner import RrtPlannerNode

Codes = MoveItErrorCodes


class PlanServices:
    """Serves ``plan_kinematic_path``, ``compute_cartesian_path``, sequences and batches."""

    def __init__(self, host: RrtPlannerNode, threads: ServiceThreads) -> None:
        self._host = host
        self.counts = {"planned": 0, "failed": 0}
        """Number of requests by outcome."""
        for kind, name, handler in (
            (GetMotionPlan, "plan_kinematic_path", self._plan),
            (GetCartesianPath, "compute_cartesian_path", self._cartesian),
            (GetMotionSequence, "plan_sequence_path", self._sequence),
            (GetMotionSequence, "plan_batch", self._batch),
        ):
            threads.serve(kind, name, handler, qos.SERVICES)

    def _plan(self, request: Any, response: Any) -> Any:
        plan, job = response.motion_plan_response, PlanJob(request.motion_plan_request)

        def answer() -> str:
            planned = self._host.requests.plan(job, self._host.gives_up)
            plan.trajectory_start, plan.trajectory = planned.start, planned.trajectory
            plan.group_name, plan.planning_time = planned.group.name, planned.time
            self._host.display.show(planned)
            return planned.note

        self._count(answered(self._host, plan.error_code, answer))
        return response

    def _cartesian(self, request: Any, response: Any) -> Any:
        def answer() -> str:
            note = straight_path(self._host.requests, request, response, self._host.gives_up)
            self._host.display.show_path(response.start_state, response.solution)
            return note

        self._count(answered(self._host, response.error_code, answer))
        return response

    def _batch(self, request: Any, response: Any) -> Any:
        filled, items = response.response, request.request.items

        def answer() -> str:
            return plan_batch(self._host.requests, items, filled, self._host.gives_up)

        answered(self._host, filled.error_code, answer)
        planned = sum(bool(t.joint_trajectory.points) for t in filled.planned_trajectories)
        self._count(True, planned)
        self._count(False, max(len(items), 1) - planned)
        return response

    def _sequence(self, request: Any, response: Any) -> Any:
        items, filled = request.request, response.response

        def answer() -> str:
            if not items.items:
                return NO_ITEMS
            job = sequence_job(items, PlanningOptions(), from_current=False)
            planned = plan_motion_sequence(self._host.requests, items, job, self._host.gives_up)
            note = fill_sequence(filled, planned)
            for part in planned:
                self._host.display.show(part)
            return note

        success = answered(self._host, filled.error_code, answer)
        if items.items or not success:
            self._count(success)
        return response

    def _count(self, success: bool, number: int = 1) -> None:
        self.counts["planned" if success else "failed"] += number


class PlannerQueries:
    """Serves queries of planners, their parameters and ``get_urdf``."""

    def __init__(self, host: RrtPlannerNode, threads: ServiceThreads) -> None:
        self._host = host
        for kind, name, handler in (
            (QueryPlannerInterfaces, "query_planner_interface", self._query),
            (GetPlannerParams, "get_planner_params", self._get),
            (SetPlannerParams, "set_planner_params", self._set),
            (GetGroupUrdf, "get_urdf", self._urdf),
        ):
            threads.serve(kind, name, handler, qos.SERVICES)

    def _query(self, _request: Any, response: Any) -> Any:
        response.planner_interfaces = [
            PlannerInterfaceDescription(name=name, pipeline_id=name, planner_ids=planners)
            for name, planners in (
                (PIPELINE, list(planner_names())),
                (INDUSTRIAL, [kind.value for kind in ToolMotion]),
            )
        ]
        return response

    def _get(self, request: Any, response: Any) -> Any:
        """Respond with no settings for an unknown planner or group, like MoveIt."""
        try:
            planner, group = self._planner_and_group(request)
            settings = self._host.requests.settings.words(planner, group)
        except MotionError as error:
            self._host.warn("get_planner_params", f"get_planner_params: {error}")
            return response
        response.params.keys, response.params.values = list(settings), list(settings.values())
        response.params.descriptions = [""] * len(settings)
        return response

    def _set(self, request: Any, response: Any) -> Any:
        params = request.params
        try:
            if len(params.keys) != len(params.values):
                raise InvalidConfig(f"{len(params.keys)} keys and {len(params.values)} values")
            planner, group = self._planner_and_group(request)
            values = dict(zip(params.keys, params.values, strict=True))
            self._host.requests.settings.set(planner, group, values, request.replace)
        except MotionError as error:
            self._host.warn("set_planner_params", f"set_planner_params: {error}")
        return response

    def _urdf(self, request: Any, response: Any) -> Any:
        """Respond with the URDF of a group; without a group name, of the whole robot."""
        requests, robot = self._host.requests, self._host.requests.robot
        text = with_absolute_meshes(robot.urdf, robot.directory)
        try:
            if request.group_name:
                group = requests.group(request.group_name)
                ends = [link for link in (group.base, group.tip) if link is not None]
                text = group_urdf(text, robot.tree, group.name, group.joints, ends)
        except RequestRejected as error:
            set_code(response.error_code, error.code, str(error), self._host.get_name())
            return response
        response.urdf_string = text
        set_code(response.error_code, Codes.SUCCESS, "", self._host.get_name())
        return response

    def _planner_and_group(self, request: Any) -> tuple[str, str]:
        """Return the names of planner and group in a request.

        Raises:
            InvalidConfig: no such planner or group.
        """
        name, note = find_planner(request.planner_config or self._host.params.planner)
        if note:
            raise InvalidConfig(note)
        if not request.group:
            return name, ""
        try:
            return name, self._host.requests.group(request.group).name
        except RequestRejected as error:
            raise InvalidConfig(str(error)) from None


class RecoverService:
    """Serves ``~/recover``; responds after the motion."""

    def __init__(self, host: RrtPlannerNode, threads: ServiceThreads) -> None:
        self._host = host
        threads.serve(Trigger, "~/recover", self._recover, qos.SERVICES)

    def _recover(self, _request: Any, response: Any) -> Any:
        try:
            require_active(self._host)
            self._host.requests.await_warm(lambda: not self._host.active)
            response.message = self._recover_groups()
            response.success = True
        except MotionError as error:
            response.success, response.message = False, str(error)
        self._host.get_logger().info(f"recover: {response.message}")
        return response

    def _recover_groups(self) -> str:
        """Recover each group with a tip from an invalid state; return a summary.

        Raises:
            RequestRejected: a recovery failed.
        """
        groups = [g for g in self._host.requests.robot.groups.values() if g.tip is not None]
        done = [text for group in groups if (text := self._recover_group(group))]
        return "; ".join(done) or "collision-free and within limits: nothing to do"

    def _recover_group(self, group: Group) -> str:
        """Recover one group; return a summary, empty if its state is valid."""
        checker, q = self._checker(group)
        if checker.limits.within(q) and checker.exact.is_free(q):
            return ""
        execution = self._host.execution
        motion = execution.add("recovery")
        try:
            execution.claim(motion, group.joints)
            execution.settle(motion)
            return self._move(group, motion)
        finally:
            execution.remove(motion)

    def _move(self, group: Group, motion: ExecutedMotion) -> str:
        settings = settings_from(self._host.params, RecoverySettings, "recovery_")
        checker, q = self._checker(group)
        recovery = recover(checker, q, settings, cancelled=lambda: motion.stopped is not None)
        motion.raise_if_stopped()
        if not recovery.success:
            raise RequestRejected(Codes.START_STATE_IN_COLLISION, f"no recovery: {recovery.reason}")
        if not recovery.needed:
            return ""
        trajectory = recovery_trajectory(checker, recovery, settings)
        fault = check_recovery(checker, trajectory.positions)
        if fault:
            raise RequestRejected(Codes.INVALID_MOTION_PLAN, f"no recovery: {fault}")
        message = trajectory_message(trajectory, self._host.requests.robot.base_frame)
        result = self._host.execution.execute(motion, message.joint_trajectory)
        if result.code != Codes.SUCCESS:
            raise RequestRejected(result.code, f"the recovery was not completed: {result.text}")
        moved = float(np.abs(recovery.path[-1] - recovery.path[0]).max())
        return (
            f"recovered ({recovery.note}): moved by at most {moved:.3g} rad or m in "
            f"{trajectory.times[-1]:.1f} s"
        )

    def _checker(self, group: Group) -> tuple[CollisionChecker, Array]:
        requests = self._host.requests
        q = requests.state.fresh()
        return requests.checker(group, requests.scenes.scene, q), q[group.indices]
