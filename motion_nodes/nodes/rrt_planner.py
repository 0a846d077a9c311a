# SPDX-License-Identifier: Apache-2.0
"""Planner (``move_group``): MoveIt's planning services and actions, and the planning scene.

Services run in request threads, each action goal in its own thread. The loop
updates and publishes the planning scene.
"""

from __future__ import annotations

import gc
import threading
import time
import traceback
from collections import deque
from typing import Any

from moveit_msgs.msg import (
    DisplayTrajectory,
    MoveItErrorCodes,
    PlanningOptions,
    RobotState,
    RobotTrajectory,
)
from moveit_msgs.srv import GetCartesianPath, GetMotionPlan, GetMotionSequence
from sensor_msgs.msg import JointState

from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.loader import ROBOT_FILE
from motion_nodes.nodes.planner.batch_requests import plan_batch
from motion_nodes.nodes.planner.cartesian_requests import straight_path
from motion_nodes.nodes.planner.industrial_requests import (
    NO_ITEMS,
    fill_sequence,
    plan_motion_sequence,
    sequence_job,
)
from motion_nodes.nodes.planner.move_action import MoveActions
from motion_nodes.nodes.planner.plan_jobs import PlanJob, PlannedMotion
from motion_nodes.nodes.planner.planner_markers import PlannerMarkers
from motion_nodes.nodes.planner.planner_params import RrtPlannerParams
from motion_nodes.nodes.planner.planner_queries import PlannerQueries
from motion_nodes.nodes.planner.planner_scenery import scenery_for
from motion_nodes.nodes.planner.planning_requests import PlanningRequests
from motion_nodes.nodes.planner.planning_scene import PlanningSceneOwner
from motion_nodes.nodes.planner.recover_service import RecoverService
from motion_nodes.nodes.planner.scene_files import SceneFiles
from motion_nodes.planning.warm_up import compile_apart, is_prepared
from motion_nodes.ros import qos
from motion_nodes.ros.clients.trajectory_client import TrajectoryClient
from motion_nodes.ros.clients.trajectory_execution import StopCause, TrajectoryExecution
from motion_nodes.ros.concurrency.executor_queue import ExecutorQueue
from motion_nodes.ros.concurrency.service_threads import ServiceThreads
from motion_nodes.ros.current_state_monitor import CurrentStateMonitor
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.joint_topics import JointStateReader
from motion_nodes.ros.mapped_code import unmap_code
from motion_nodes.ros.messages.moveit_messages import RequestRejected, require_active, set_code
from motion_nodes.ros.messages.plan_messages import display_message
from motion_nodes.ros.names import PLANNER
from motion_nodes.ros.robot_frames import RobotFrames
from motion_nodes.ros.robot_node import RobotNode
from motion_nodes.ros.run import run_node
from motion_nodes.ros.transform_tree import TransformTree
from motion_nodes.ros.transforms import frame_id, frame_prefix
from motion_nodes.scene.checker import CollisionChecker

Codes = MoveItErrorCodes

IDLE_RATE = 20.0
"""Rate of the loop while robot and planning scene rest [Hz]."""


class RrtPlannerNode(RobotNode[RrtPlannerParams]):
    """Plans and executes motions of one robot."""

    params_type = RrtPlannerParams
    obeys_stop = True

    def __init__(self, ros_args: list[str] | None = None) -> None:
        """Create the node, unconfigured."""
        super().__init__(PLANNER, ros_args=ros_args)
        self._threads: ServiceThreads | None = None
        self._recoveries: ServiceThreads | None = None
        self._actions: MoveActions | None = None
        self._client: TrajectoryClient | None = None
        self._frames: TransformTree | None = None
        self._releasing = False
        self._released = threading.Event()

    def configure(self) -> None:
        """Create the endpoints and start the warm-up."""
        params, robot = self.params, self.robot
        prefix = frame_prefix(self, params.tf_frame_prefix)
        kinematics = Kinematics(robot.tree, robot.joint_names, base=robot.base_frame)
        kinematics.warm_up()
        reader = JointStateReader(
            self.poll_bytes(JointState, "joint_states", qos.STATES),
            robot.joint_names,
            limits=robot.limits,
        )
        self._state = CurrentStateMonitor(reader, lambda: self.params.state_timeout)
        self._frames = TransformTree(self)
        frames = RobotFrames(kinematics, self._frames, prefix)
        scenery, notes = scenery_for(robot, self.get_namespace(), params)
        for note in notes:
            self.get_logger().warning(note)
        self.scenes = PlanningSceneOwner(self, kinematics, frames, self._state, scenery)
        self.scenes.messages.refuses_unknown = lambda: self.params.peer_defaults
        self.jobs = ExecutorQueue(self)
        self._client = TrajectoryClient(self, self.jobs, params.controller)
        self.execution = TrajectoryExecution(self, self._client, self._state)
        self.requests = PlanningRequests(self, self.scenes, frames, self._state)
        self._start_warm_up()
        self._counts = {"planned": 0, "failed": 0}
        base = frame_id(prefix, robot.base_frame)
        self._markers = PlannerMarkers(self, kinematics, self._state, base)
        self._marker_checker = CollisionChecker(robot, robot.joint_names)
        self._to_show: deque[tuple[RobotState, RobotTrajectory, PlannedMotion | None]] = deque()
        self._display = self.advertise(DisplayTrajectory, "display_planned_path", qos.LATCHED)
        self._actions = MoveActions(self)
        threads = self._threads = ServiceThreads(self, params.request_threads)
        threads.serve(GetMotionPlan, "plan_kinematic_path", self._plan, qos.SERVICES)
        threads.serve(GetCartesianPath, "compute_cartesian_path", self._cartesian, qos.SERVICES)
        threads.serve(GetMotionSequence, "plan_sequence_path", self._sequence, qos.SERVICES)
        threads.serve(GetMotionSequence, "plan_batch", self._batch, qos.SERVICES)
        PlannerQueries(self, threads)
        self.scenes.serve(threads)
        SceneFiles(self, self.scenes, threads)
        threads.start()
        # Its own thread: a recovery takes seconds, and other requests should not wait for it.
        self._recoveries = ServiceThreads(self, 1)
        RecoverService(self, self._recoveries)
        self._recoveries.start()

    def activate(self) -> None:
        """Publish the planning scene."""
        self.scenes.announce()

    def release(self) -> None:
        """Destroy the endpoints."""
        self._releasing = True
        self._released.set()
        if self._threads is not None:
            self._threads.destroy()
        if self._actions is not None:
            self._actions.stop(StopCause.NODE)
            if self._recoveries is not None:
                self._recoveries.destroy()
            self._actions.finish()
            self._actions.destroy()
        if self._client is not None:
            self._client.destroy()
            self.jobs.destroy()
        if self._frames is not None:
            self.scenes.destroy()
            self._frames.destroy()
        self._threads = self._recoveries = self._actions = self._client = self._frames = None
        self._releasing = False

    def tick(self, dt: float) -> None:
        """Update the planning scene; publish it, plans and markers."""
        self.scenes.tick()
        self._show_plans()
        self._markers.tick(self._marker_checker, self.scenes.world.scene)
        if self.scenes.quiet:
            self.idle(IDLE_RATE)

    def _show_plans(self) -> None:
        """Publish plans for display; the newest one waits for the first subscriber.

        Publishing without subscribers would only delay requests.
        """
        watched = self._display.get_subscription_count() > 0 or self._markers.watched
        while len(self._to_show) > (0 if watched else 1):
            start, trajectory, planned = self._to_show.popleft()
            if not watched:
                continue
            self._display.publish(display_message(self.robot.tree.name, start, [trajectory]))
            if planned is not None:
                self._markers.show(planned)

    def halt(self) -> None:
        """Stop planning and execution."""
        if self._actions is not None:
            self._actions.stop(StopCause.NODE)

    def stopped(self, why: str) -> None:
        """Stop planning and execution; the controller brings the joints to rest."""
        if self._actions is not None:
            self._actions.stop(StopCause.SUITE, why)

    def answer_waiting(self) -> None:
        """Send the results of stopped goals."""
        if self._actions is not None:
            self._actions.finish()

    def waiting_for(self) -> str:
        """Return why requests are not accepted: the state of the robot is unknown.

        They wait while kernels are compiled, once per machine; loading takes a moment.
        """
        if not (self._compiles or self.requests.warm.is_set()):
            return "the planning kernels"
        return self._state.newest()[1]

    def notice(self) -> str:
        """Return that plans have to wait for compilation, if so."""
        if self.requests.warm.is_set():
            return ""
        return "plans wait until the planners are compiled, about half a minute once per machine"

    def diagnose(self, report: Report) -> None:
        """Report readiness, active motions and request counts."""
        report.value("ready to plan", self.requests.warm.is_set())
        labels = self.execution.labels
        if labels:
            report.note("OK", f"active: {', '.join(labels)}")
        if self._client is not None and not self._client.ready:
            report.note("OK", f"execution unavailable: no controller {self.params.controller}")
        for outcome, count in self._counts.items():
            report.value(f"requests {outcome}", count)
        report.value("age of joint_states [s]", self._state.age)
        self.scenes.diagnose(report)

    def show(self, planned: PlannedMotion) -> None:
        """Publish a plan for display, in the loop: clients do not wait for it."""
        self._to_show.append((planned.start, planned.trajectory, planned))

    def _start_warm_up(self) -> None:
        """Compile and load the kernels in a thread, as the executor serves other nodes, too."""
        released = self._released = threading.Event()
        self._compiles = not is_prepared()
        own_file = (self.robot.directory / ROBOT_FILE).is_file()
        source = str(self.robot.directory) if own_file else self.params.robot
        threading.Thread(
            target=lambda: compile_apart(source, self._load, released.is_set),
            name="planner-warm-up",
            daemon=True,
        ).start()

    def _load(self) -> None:
        begin = time.monotonic()
        try:
            self.requests.warm_up()
        except Exception:
            self.get_logger().error(f"planning is unavailable:\n{traceback.format_exc()}")
        else:
            self.get_logger().info(f"ready to plan after {time.monotonic() - begin:.2f} s")
            gc.freeze()  # as at activation
            unmap_code()

    # ---- services, in the request threads

    def _plan(self, request: Any, response: Any) -> Any:
        plan, job = response.motion_plan_response, PlanJob(request.motion_plan_request)
        try:
            require_active(self)
            planned = self.requests.plan(job, self._cancelled)
        except RequestRejected as error:
            self._counts["failed"] += 1
            set_code(plan.error_code, error.code, str(error), self.get_name())
            return response
        self._counts["planned"] += 1
        plan.trajectory_start, plan.trajectory = planned.start, planned.trajectory
        plan.group_name, plan.planning_time = planned.group.name, planned.time
        set_code(plan.error_code, Codes.SUCCESS, planned.note, self.get_name())
        self.show(planned)
        return response

    def _cartesian(self, request: Any, response: Any) -> Any:
        try:
            require_active(self)
            note = straight_path(self.requests, request, response, self._cancelled)
        except RequestRejected as error:
            self._counts["failed"] += 1
            set_code(response.error_code, error.code, str(error), self.get_name())
            return response
        self._counts["planned"] += 1
        set_code(response.error_code, Codes.SUCCESS, note, self.get_name())
        self._to_show.append((response.start_state, response.solution, None))
        return response

    def _batch(self, request: Any, response: Any) -> Any:
        answer, items = response.response, request.request.items
        try:
            require_active(self)
            note = plan_batch(self.requests, items, answer, self._cancelled)
        except RequestRejected as error:
            set_code(answer.error_code, error.code, str(error), self.get_name())
        else:
            set_code(answer.error_code, Codes.SUCCESS, note, self.get_name())
        planned = sum(bool(t.joint_trajectory.points) for t in answer.planned_trajectories)
        self._counts["planned"] += planned
        self._counts["failed"] += max(len(items), 1) - planned
        return response

    def _sequence(self, request: Any, response: Any) -> Any:
        answer = response.response
        try:
            require_active(self)
            if not request.request.items:
                set_code(answer.error_code, Codes.SUCCESS, NO_ITEMS, self.get_name())
                return response
            job = sequence_job(request.request, PlanningOptions(), from_current=False)
            planned = plan_motion_sequence(self.requests, request.request, job, self._cancelled)
        except RequestRejected as error:
            self._counts["failed"] += 1
            set_code(answer.error_code, error.code, str(error), self.get_name())
            return response
        self._counts["planned"] += 1
        fill_sequence(answer, planned)
        set_code(answer.error_code, Codes.SUCCESS, planned.note, self.get_name())
        self.show(planned)
        return response

    def _cancelled(self) -> bool:
        return self._releasing or not self.active


def main() -> None:
    """Run the node in its own process."""
    run_node(RrtPlannerNode)
