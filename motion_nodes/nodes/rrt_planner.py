# SPDX-License-Identifier: Apache-2.0
"""Planner (``move_group``): MoveIt's planning services and actions, and the planning scene.

Services run in request threads, each action goal in its own thread. The loop updates and publishes
the planning scene, and shows plans and collision spheres in RViz, Foxglove and similar tools.
"""

from __future__ import annotations

import dataclasses
import gc
import threading
import time
import traceback
from collections import deque
from typing import Any

import numpy as np
from moveit_msgs.msg import DisplayTrajectory, RobotState, RobotTrajectory
from sensor_msgs.msg import JointState
from visualization_msgs.msg import MarkerArray

from motion_nodes.core.planning.warm_up import compile_apart, is_prepared
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import ROBOT_FILE
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import Scene
from motion_nodes.nodes.planner.move_action import MoveActions
from motion_nodes.nodes.planner.planner_params import RrtPlannerParams, scenery_for
from motion_nodes.nodes.planner.planner_services import PlannerQueries, PlanServices, RecoverService
from motion_nodes.nodes.planner.planning_requests import PlanningRequests
from motion_nodes.nodes.planner.planning_scene import PlanningSceneOwner, SceneFiles
from motion_nodes.ros import qos
from motion_nodes.ros.clients.controller_set import ControllerSet
from motion_nodes.ros.clients.trajectory_execution import (
    StopCause,
    TrajectoryExecution,
)
from motion_nodes.ros.concurrency.loops import ExecutorQueue
from motion_nodes.ros.concurrency.servers import ServiceThreads
from motion_nodes.ros.current_state import CurrentStateMonitor, RobotFrames
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.joint_topics import JointStateReader
from motion_nodes.ros.messages.markers import Markers
from motion_nodes.ros.messages.plan_messages import PlannedMotion, display_message
from motion_nodes.ros.names import PLANNER
from motion_nodes.ros.node import RobotNode
from motion_nodes.ros.startup_memory import release_memory
from motion_nodes.typing import Array

IDLE_RATE = 10.0
"""Rate of the loop while robot and planning scene rest [Hz]; changes begin a cycle at once."""

MAX_NODES = 3000
"""Max number of nodes of a search tree in a message."""
SPHERE_PERIOD = 0.2
"""Publish period of the collision spheres [s]."""


class PlanDisplay:
    """Publishes ``display_planned_path`` and ``~/markers`` of each plan, and the spheres.

    ``~/collision_spheres`` are published while subscribed.
    """

    def __init__(
        self, node: RobotNode[Any], kinematics: Kinematics, state: CurrentStateMonitor, frame: str
    ) -> None:
        """Create the publishers.

        Args:
            node: of the robot.
            kinematics: of all joints, relative to the base frame.
            state: current state of the robot.
            frame: name of the base frame on /tf.
        """
        self._node = node
        self._kinematics = kinematics
        self._state = state
        self._frame = frame
        self._checker = CollisionChecker(node.robot, node.robot.joint_names)
        self._to_show: deque[tuple[RobotState, RobotTrajectory, PlannedMotion | None]] = deque()
        self._display = node.advertise(DisplayTrajectory, "display_planned_path", qos.LATCHED)
        self._plans = node.advertise(MarkerArray, "~/markers", qos.LATCHED)
        self._spheres = node.advertise(MarkerArray, "~/collision_spheres")
        self._due = 0.0

    def show(self, planned: PlannedMotion) -> None:
        """Publish a plan in the loop: clients do not wait for it."""
        self._to_show.append((planned.start, planned.trajectory, planned))

    def show_path(self, start: RobotState, trajectory: RobotTrajectory) -> None:
        """Publish a path without markers, in the loop."""
        self._to_show.append((start, trajectory, None))

    def tick(self, scene: Scene) -> None:
        """Publish plans, and the collision spheres if due; in the loop.

        Args:
            scene: current planning scene.
        """
        self._publish_plans()
        self._publish_spheres(scene)

    def _publish_plans(self) -> None:
        """Publish plans for display; the newest one waits for the first subscriber.

        Publishing without subscribers would only delay requests.
        """
        watched = self._display.get_subscription_count() > 0 or self._marked
        while len(self._to_show) > (0 if watched else 1):
            start, trajectory, planned = self._to_show.popleft()
            if not watched:
                continue
            self._display.publish(display_message(self._node.robot.tree.name, start, [trajectory]))
            if planned is not None:
                self._mark(planned)

    @property
    def _marked(self) -> bool:
        """Whether the markers of plans have subscribers."""
        return bool(self._plans.get_subscription_count())

    def _mark(self, planned: PlannedMotion) -> None:
        """Publish the tip's path of a plan and of its search tree."""
        if planned.group.tip is None:
            return
        points = planned.trajectory.joint_trajectory.points
        positions = self._tip_positions(planned, np.array([point.positions for point in points]))
        markers = self._markers()
        markers.line("path", positions)
        markers.dots("ends", positions[[0, -1]])
        if planned.tree is not None and self._marked:
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

    def _publish_spheres(self, scene: Scene) -> None:
        """Publish the collision spheres of the robot and its attached objects, if due."""
        now = time.monotonic()
        if now < self._due or not self._spheres.get_subscription_count():
            return
        self._due = now + SPHERE_PERIOD
        q, fault = self._state.newest()
        if fault:
            return
        self._checker.set_scene(scene)
        spheres = self._checker.sphere_positions(q)
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
        super().__init__(PLANNER, ros_args=ros_args)
        self._threads: ServiceThreads | None = None
        self._recoveries: ServiceThreads | None = None
        self._actions: MoveActions | None = None
        self._client: ControllerSet | None = None
        self._frames: RobotFrames | None = None
        self._releasing = False
        self._released = threading.Event()

    def configure(self) -> None:
        """Create the endpoints and start the warm-up."""
        params = self.params
        robot = self.robot
        if params.joint_limits:
            lowered = robot.limits.lowered(params.joint_limits)
            robot = self.robot = dataclasses.replace(robot, limits=lowered)
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
        self._client = ControllerSet(self, self.jobs, params)
        self.execution = TrajectoryExecution(self, self._client, self._state)
        self.requests = PlanningRequests(self, self.scenes, frames, self._state)
        self._start_warm_up()
        base = frames.full_name(robot.base_frame)
        self.display = PlanDisplay(self, frames.kinematics, self._state, base)
        self._actions = MoveActions(self)
        threads = self._threads = ServiceThreads(self, params.request_threads)
        self._plan_services = PlanServices(self, threads)
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
        self.display.tick(self.scenes.world.scene)
        if self.scenes.quiet:
            self.idle(IDLE_RATE, self.scenes.topics)

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
        straight = "; straight motions do not" if self.requests.direct.is_set() else ""
        what = "plans wait until the planners are compiled"
        return f"{what}, about half a minute once per machine{straight}"

    def diagnose(self, report: Report) -> None:
        """Report readiness, active motions and request counts."""
        report.value("ready to plan", self.requests.warm.is_set())
        labels = self.execution.labels
        if labels:
            report.note("OK", f"active: {', '.join(labels)}")
        if self._client is not None and (missing := self._client.missing):
            report.note("OK", f"execution unavailable: no controller {', '.join(missing)}")
        for outcome, count in self._plan_services.counts.items():
            report.value(f"requests {outcome}", count)
        report.value("age of joint_states [s]", self._state.age)
        self.scenes.diagnose(report)

    def _start_warm_up(self) -> None:
        """Compile and load the kernels in a thread, as the executor serves other nodes, too."""
        released = self._released = threading.Event()
        self._compiles = not is_prepared()
        own_file = (self.robot.directory / ROBOT_FILE).is_file()
        source = str(self.robot.directory) if own_file else self.params.robot
        threading.Thread(
            target=lambda: compile_apart(source, self._load_direct, self._load, released.is_set),
            name="planner-warm-up",
            daemon=True,
        ).start()

    def _load_direct(self) -> None:
        try:
            self.requests.load_direct()
        except Exception:  # the planner will do
            self.get_logger().warning(f"no straight motions yet:\n{traceback.format_exc()}")
        else:
            self.get_logger().info("straight motions are ready; the planner is being compiled")

    def _load(self) -> None:
        begin = time.monotonic()
        try:
            self.requests.warm_up()
        except Exception:
            self.get_logger().error(f"planning is unavailable:\n{traceback.format_exc()}")
        else:
            self.get_logger().info(f"ready to plan after {time.monotonic() - begin:.2f} s")
            gc.freeze()  # as at activation
            release_memory()

    def gives_up(self) -> bool:
        """Return whether requests should not wait any longer, as the node does not run."""
        return self._releasing or not self.active
