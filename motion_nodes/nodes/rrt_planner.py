# SPDX-License-Identifier: Apache-2.0
"""Planner (``move_group``): MoveIt's planning services and actions, and the planning scene.

Services run in request threads, each action goal in its own thread. The loop
updates and publishes the planning scene.

Services for planners, their settings and the robot's model, as RViz and MoveIt's clients
use; service ~/recover: slow motion out of a shallow collision, or back inside joint limits; markers
of plans and collision spheres, for RViz, Foxglove and similar tools.
"""

from __future__ import annotations

import gc
import threading
import time
import traceback
from collections import deque
from typing import Any

import numpy as np
from moveit_msgs.msg import (
    DisplayTrajectory,
    MoveItErrorCodes,
    PlannerInterfaceDescription,
    PlanningOptions,
    RobotState,
    RobotTrajectory,
)
from moveit_msgs.srv import (
    GetCartesianPath,
    GetGroupUrdf,
    GetMotionPlan,
    GetMotionSequence,
    GetPlannerParams,
    QueryPlannerInterfaces,
    SetPlannerParams,
)
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger
from visualization_msgs.msg import MarkerArray

from motion_nodes.core.planning.plan_adapters import recovery_trajectory
from motion_nodes.core.planning.planners import find_planner, planner_names
from motion_nodes.core.planning.recovery import RecoverySettings, check_recovery, recover
from motion_nodes.core.planning.tool_motions import ToolMotion
from motion_nodes.core.planning.warm_up import compile_apart, is_prepared
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import ROBOT_FILE
from motion_nodes.core.robot.meshes import with_absolute_meshes
from motion_nodes.core.robot.robot import Group
from motion_nodes.core.robot.robot_xml import group_urdf
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import Scene
from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.nodes.planner.cartesian_requests import straight_path
from motion_nodes.nodes.planner.industrial_requests import (
    NO_ITEMS,
    fill_sequence,
    plan_motion_sequence,
    sequence_job,
)
from motion_nodes.nodes.planner.move_action import MoveActions
from motion_nodes.nodes.planner.plan_jobs import PlanJob, PlannedMotion
from motion_nodes.nodes.planner.planner_params import RrtPlannerParams, scenery_for
from motion_nodes.nodes.planner.planning_requests import PlanningRequests, plan_batch
from motion_nodes.nodes.planner.planning_scene import PlanningSceneOwner, SceneFiles
from motion_nodes.ros import qos
from motion_nodes.ros.clients.motion_clients import TrajectoryClient
from motion_nodes.ros.clients.trajectory_execution import (
    ExecutedMotion,
    StopCause,
    TrajectoryExecution,
)
from motion_nodes.ros.concurrency.queues import ExecutorQueue
from motion_nodes.ros.concurrency.services import ServiceThreads
from motion_nodes.ros.current_state_monitor import CurrentStateMonitor
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.joint_topics import JointStateReader
from motion_nodes.ros.mapped_code import unmap_code
from motion_nodes.ros.messages.markers import Markers
from motion_nodes.ros.messages.moveit_messages import RequestRejected, require_active, set_code
from motion_nodes.ros.messages.plan_messages import display_message, trajectory_message
from motion_nodes.ros.messages.request_fields import INDUSTRIAL, PIPELINE
from motion_nodes.ros.names import PLANNER
from motion_nodes.ros.node import MotionNode, RobotNode
from motion_nodes.ros.parameters import settings_from
from motion_nodes.ros.robot_frames import RobotFrames
from motion_nodes.ros.run import run_node
from motion_nodes.typing import Array

MAX_NODES = 3000
"""Max number of nodes of a search tree in a message."""
SPHERE_PERIOD = 0.2
"""Publish period of the collision spheres [s]."""
Codes = MoveItErrorCodes
IDLE_RATE = 20.0
"""Rate of the loop while robot and planning scene rest [Hz]."""


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
        set_code(response.error_code, MoveItErrorCodes.SUCCESS, "", self._host.get_name())
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

    def _checker(self, group: Group) -> tuple[CollisionChecker, np.ndarray]:
        requests = self._host.requests
        q = requests.state.fresh()
        return requests.checker(group, requests.scenes.scene, q), q[group.indices]


class PlannerMarkers:
    """Publishes ``~/markers`` of each plan, and ``~/collision_spheres`` while subscribed."""

    def __init__(
        self,
        node: MotionNode[Any],
        kinematics: Kinematics,
        state: CurrentStateMonitor,
        frame: str,
    ) -> None:
        """Create the publishers.

        Args:
            node: the node of the topics.
            kinematics: of all joints, relative to the base frame.
            state: current state of the robot.
            frame: name of the base frame on /tf.
        """
        self._node = node
        self._kinematics = kinematics
        self._state = state
        self._frame = frame
        self._plans = node.advertise(MarkerArray, "~/markers", qos.LATCHED)
        self._spheres = node.advertise(MarkerArray, "~/collision_spheres")
        self._due = 0.0

    @property
    def watched(self) -> bool:
        """Whether the markers of plans have subscribers."""
        return bool(self._plans.get_subscription_count())

    def show(self, planned: PlannedMotion) -> None:
        """Publish the tip's path of a plan and of its search tree."""
        if planned.group.tip is None:
            return
        points = planned.trajectory.joint_trajectory.points
        positions = self._tip_positions(planned, np.array([point.positions for point in points]))
        markers = self._markers()
        markers.line("path", positions)
        markers.dots("ends", positions[[0, -1]])
        if planned.tree is not None and self.watched:
            # Parents precede their children, so any number of leading nodes is a tree.
            nodes = planned.tree.nodes[:MAX_NODES]
            parents = planned.tree.parents[: len(nodes)].tolist()
            markers.tree("tree", self._tip_positions(planned, nodes), parents)
        self._plans.publish(markers.message)

    def _tip_positions(self, planned: PlannedMotion, path: Array) -> Array:
        """Return positions of the tip [m], shape (m, 3), at the group's configurations (m, n)."""
        assert planned.group.tip is not None
        Q = np.tile(planned.q, (len(path), 1))
        Q[:, planned.group.indices] = path
        poses = self._kinematics.pose_batch(Q, planned.group.tip)
        return np.ascontiguousarray(poses[:, :3, 3])

    def tick(self, checker: CollisionChecker, scene: Scene) -> None:
        """Publish the collision spheres of the robot and its attached objects, if due.

        Args:
            checker: of all joints, for the exclusive use of this method.
            scene: current planning scene.
        """
        now = time.monotonic()
        if now < self._due or not self._spheres.get_subscription_count():
            return
        self._due = now + SPHERE_PERIOD
        q, fault = self._state.newest()
        if fault:
            return
        checker.set_scene(scene)
        spheres = checker.sphere_positions(q)
        markers = self._markers()
        markers.spheres("spheres", spheres[:, :3], spheres[:, 3])
        self._spheres.publish(markers.message)

    def _markers(self) -> Markers:
        return Markers(self._frame, self._node.get_clock().now().to_msg())


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
        self._frames: RobotFrames | None = None
        self._releasing = False
        self._released = threading.Event()

    def configure(self) -> None:
        """Create the endpoints and start the warm-up."""
        params, robot = self.params, self.robot
        frames = self._frames = RobotFrames.of(self)
        reader = JointStateReader(
            self.poll_bytes(JointState, "joint_states", qos.STATES),
            robot.joint_names,
            limits=robot.limits,
        )
        self._state = CurrentStateMonitor(reader, lambda: self.params.state_timeout)
        scenery, notes = scenery_for(robot, self.get_namespace(), params)
        for note in notes:
            self.get_logger().warning(note)
        self.scenes = PlanningSceneOwner(self, frames.kinematics, frames, self._state, scenery)
        self.scenes.messages.refuses_unknown = lambda: self.params.peer_defaults
        self.jobs = ExecutorQueue(self)
        self._client = TrajectoryClient(self, self.jobs, params.controller)
        self.execution = TrajectoryExecution(self, self._client, self._state)
        self.requests = PlanningRequests(self, self.scenes, frames, self._state)
        self._start_warm_up()
        self._counts = {"planned": 0, "failed": 0}
        base = frames.full_name(robot.base_frame)
        self._markers = PlannerMarkers(self, frames.kinematics, self._state, base)
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
