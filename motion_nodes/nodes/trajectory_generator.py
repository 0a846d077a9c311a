# SPDX-License-Identifier: Apache-2.0
"""Trajectory generator: trajectories within all limits from waypoints and task-space paths.

Requests on topics are processed by one thread in order of arrival, and executed if ``execute`` is
set; a newer request preempts the motion of an older one, once another thread has found it valid.
The service runs in request threads. The
loop updates the planning scene.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from geometry_msgs.msg import PoseStamped
from moveit_msgs.msg import MoveItErrorCodes
from moveit_msgs.srv import GetMotionPlan
from nav_msgs.msg import Path
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.nodes.generator_params import (
    TrajectoryGeneratorParams,
    conversion_of,
    saturation_of,
)
from motion_nodes.nodes.generator_requests import GeneratedMotion, GeneratorRequests
from motion_nodes.ros import qos
from motion_nodes.ros.clients.controller_set import ControllerSet
from motion_nodes.ros.clients.trajectory_execution import (
    ExecutedMotion,
    StopCause,
    TrajectoryExecution,
)
from motion_nodes.ros.concurrency.loops import ExecutorQueue
from motion_nodes.ros.concurrency.servers import ServiceThreads
from motion_nodes.ros.current_state import CurrentStateMonitor, RobotFrames
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.joint_topics import JointStateReader, set_stamp
from motion_nodes.ros.messages.moveit_messages import RequestRejected, answered, pose_message
from motion_nodes.ros.messages.plan_messages import state_message, trajectory_message
from motion_nodes.ros.messages.trajectory_messages import size_fault
from motion_nodes.ros.node import RobotNode
from motion_nodes.ros.scene.scene_follower import SceneFollower

Codes = MoveItErrorCodes

IDLE_RATE = 5.0
"""Rate of the loop without requests [Hz]; each request updates the planning scene itself."""
MAX_QUEUED = 8
"""Max number of queued requests; more are rejected."""


class _Job(NamedTuple):
    """A queued request."""

    topic: str
    generate: Callable[[], GeneratedMotion]
    motion: ExecutedMotion
    """Its execution, added before it begins, so that it can be stopped at any time."""


class TrajectoryGeneratorNode(RobotNode[TrajectoryGeneratorParams]):
    """Generates and executes trajectories of one robot."""

    params_type = TrajectoryGeneratorParams
    obeys_stop = True

    def __init__(self, ros_args: list[str] | None = None) -> None:
        super().__init__("trajectory_generator", ros_args=ros_args)
        self._threads: ServiceThreads | None = None
        self._client: ControllerSet | None = None
        self._frames: RobotFrames | None = None
        self._scene: SceneFollower | None = None
        self._workers: list[threading.Thread] = []

    def check(self, params: TrajectoryGeneratorParams) -> str | None:
        """Validate settings and the names of group and tool."""
        try:
            conversion_of(params)
            saturation_of(params)
            if params.group:
                self.robot.group(params.group)
            if params.tool:
                self.robot.tree.link(params.tool)
        except MotionError as error:
            return str(error)
        return None

    def configure(self) -> None:
        """Create the endpoints."""
        params, robot = self.params, self.robot
        if not robot.arm_joints:
            raise InvalidConfig(f"robot '{robot.name}' has no joints for trajectories")
        frames = self._frames = RobotFrames.of(self)
        self._base = frames.full_name(robot.base_frame)
        reader = JointStateReader(
            self.poll_bytes(JointState, "joint_states", qos.STATES),
            robot.joint_names,
            limits=robot.limits,
        )
        self._state = CurrentStateMonitor(reader, lambda: self.params.state_timeout)
        scene = self._scene = SceneFollower(self, robot, frames.kinematics, frames)
        self.requests = GeneratorRequests(self, self._state, scene)
        self._jobs_of_executor = ExecutorQueue(self)
        self._client = ControllerSet(self, self._jobs_of_executor, params)
        self._execution = TrajectoryExecution(self, self._client, self._state)
        self._counts = {"made": 0, "refused": 0}
        self._last_status = ""
        self._trajectory = self.advertise(JointTrajectory, "~/trajectory", qos.LATCHED)
        self._tool_path = self.advertise(Path, "~/tool_path", qos.LATCHED)
        self._status = self.advertise(DiagnosticStatus, "~/status", qos.STREAM)
        self._received: queue.Queue[_Job | None] = queue.Queue()
        self._queue: queue.Queue[_Job | None] = queue.Queue()
        self._generating = threading.Lock()
        for work, name in ((self._admit, "requests"), (self._process, "trajectories")):
            self._workers.append(threading.Thread(target=work, name=name, daemon=True))
            self._workers[-1].start()
        self.listen(
            JointTrajectory, "~/waypoints", qos.REQUESTS, self._on_waypoints, size_fault=size_fault
        )
        self.listen(String, "~/path_spec", qos.REQUESTS, self._on_path_spec)
        threads = self._threads = ServiceThreads(self, params.request_threads)
        threads.serve(GetMotionPlan, "~/retime_path", self._retime, qos.SERVICES)
        threads.start()

    def release(self) -> None:
        """Destroy the endpoints."""
        if self._threads is not None:
            self._threads.destroy()
        if self._workers:
            self._execution.stop_all(StopCause.NODE)
            self._received.put(None)
            for worker in self._workers:
                worker.join()
            self._workers.clear()
        if self._client is not None:
            self._client.destroy()
            self._jobs_of_executor.destroy()
        if self._scene is not None:
            self._scene.destroy()
        if self._frames is not None:
            self._frames.destroy()
        self._threads = self._client = self._scene = self._frames = None

    def tick(self, dt: float) -> None:
        """Update the planning scene."""
        assert self._scene is not None
        self._scene.update()
        if not self._execution.labels:
            self.idle(IDLE_RATE, [self._scene.changes])

    def stopped(self, why: str) -> None:
        """Stop execution and drop queued requests."""
        self._execution.stop_all(StopCause.SUITE, why)

    def halt(self) -> None:
        """Stop execution and drop queued requests."""
        self._execution.stop_all(StopCause.NODE)

    def waiting_for(self) -> str:
        """Return why the robot's state is unknown."""
        return self._state.newest()[1]

    def diagnose(self, report: Report) -> None:
        """Report active motions, request counts and the planning scene."""
        labels = self._execution.labels
        if labels:
            report.note("OK", f"active: {', '.join(labels)}")
        for outcome, count in self._counts.items():
            report.value(f"requests {outcome}", count)
        report.value("requests waiting", self._received.qsize() + self._queue.qsize())
        report.value("last request", self._last_status or "none")
        if self._scene is not None:
            self._scene.diagnose(report)

    # ---- topics: queued by the executor, processed by a thread

    def _on_waypoints(self, message: JointTrajectory) -> None:
        self._enqueue("waypoints", lambda: self.requests.from_waypoints(message))

    def _on_path_spec(self, message: String) -> None:
        self._enqueue("path_spec", lambda: self.requests.from_path_spec(message.data))

    def _enqueue(self, topic: str, generate: Callable[[], GeneratedMotion]) -> None:
        if self._received.qsize() + self._queue.qsize() >= MAX_QUEUED:
            text = f"rejected: the queue is full ({MAX_QUEUED} requests)"
            self._publish_status(topic, DiagnosticStatus.ERROR, text)
            return
        self._received.put(_Job(topic, generate, self._execution.add(topic)))

    def _admit(self) -> None:
        """Stop older motions for each request that is valid, and queue it."""
        while (job := self._received.get()) is not None:
            with self._reported(job):
                if job.motion.stopped is None and len(self._execution.labels) > 1:
                    # A wrong request stops nothing. Its start is known when the joints stand.
                    self._generate(job)
                self._execution.stop_older(job.motion)
                self._queue.put(job)
                continue
            self._execution.remove(job.motion)
        self._queue.put(None)

    def _process(self) -> None:
        while (job := self._queue.get()) is not None:
            with self._reported(job):
                self._run(job)
            self._execution.remove(job.motion)

    @contextlib.contextmanager
    def _reported(self, job: _Job) -> Iterator[None]:
        """Context manager that publishes errors as the status of a request."""
        try:
            yield
        except MotionError as error:
            self._counts["refused"] += 1
            self._publish_status(job.topic, DiagnosticStatus.ERROR, f"rejected: {error}")
        except Exception as error:
            self.get_logger().error(f"{job.topic} failed:\n{traceback.format_exc()}")
            self._publish_status(job.topic, DiagnosticStatus.ERROR, f"failed: {error}")

    def _generate(self, job: _Job) -> GeneratedMotion:
        with self._generating:
            return job.generate()

    def _run(self, job: _Job) -> None:
        if job.motion.stopped in (StopCause.NODE, StopCause.SUITE):
            return
        generated = self._generate(job)
        message = trajectory_message(generated.trajectory, self._base).joint_trajectory
        self._publish(generated, message)
        notes = [f"trajectory of {generated.motion.duration:.3f} s", generated.note]
        text = "; ".join(filter(None, notes))
        if not self.params.execute:
            self._publish_status(job.topic, DiagnosticStatus.OK, text, generated)
            return
        self._publish_status(job.topic, DiagnosticStatus.OK, f"{text}; executing", generated)
        self._execution.claim(job.motion, generated.motion.joint_names)
        result = self._execution.execute(job.motion, message)
        if result.code == Codes.SUCCESS:
            self._publish_status(job.topic, DiagnosticStatus.OK, "execution succeeded", generated)
        else:
            text = f"execution failed: {result.text}"
            self._publish_status(job.topic, DiagnosticStatus.ERROR, text, generated)

    def _publish(self, generated: GeneratedMotion, message: JointTrajectory) -> None:
        self._counts["made"] += 1
        self._trajectory.publish(message)
        try:
            poses = self.requests.tool_poses(generated.motion)
        except RequestRejected:
            return  # The robot has no tool.
        path = Path()
        path.header.frame_id = self._base
        set_stamp(path, self.now_ns())
        path.poses = [PoseStamped(header=path.header, pose=pose_message(X)) for X in poses]
        self._tool_path.publish(path)

    def _publish_status(
        self, topic: str, level: bytes, text: str, generated: GeneratedMotion | None = None
    ) -> None:
        """Publish the status of a request on a topic."""
        status = DiagnosticStatus(level=level, message=text, hardware_id=self.robot.name)
        status.name = f"{self.get_name()}: {topic}"
        if generated is not None:
            status.values = [
                KeyValue(key="duration [s]", value=f"{generated.motion.duration:.6f}"),
                KeyValue(key="points", value=str(len(generated.trajectory.times))),
                KeyValue(key="computing time [s]", value=f"{generated.time:.4f}"),
            ]
        self._status.publish(status)
        self._last_status = f"{topic}: {text}"
        if level != DiagnosticStatus.OK:
            self.warn(topic, f"~/{topic}: {text}")

    # ---- the service, in the request threads

    def _retime(self, request: Any, response: Any) -> Any:
        plan = response.motion_plan_response
        begin = time.monotonic()

        def answer() -> str:
            generated = self.requests.retimed(request.motion_plan_request)
            trajectory, frame = generated.trajectory, self.robot.base_frame
            first = trajectory.positions[0].tolist()
            start = dict(zip(trajectory.joint_names, first, strict=True))
            plan.trajectory_start = state_message(start, self.get_clock().now().to_msg(), frame)
            plan.trajectory = trajectory_message(trajectory, frame)
            plan.group_name = request.motion_plan_request.group_name
            plan.planning_time = time.monotonic() - begin
            return generated.note

        made = answered(self, plan.error_code, answer)
        self._counts["made" if made else "refused"] += 1
        return response
