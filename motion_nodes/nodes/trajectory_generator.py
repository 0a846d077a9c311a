# SPDX-License-Identifier: Apache-2.0
"""Makes trajectories: waypoints and paths of the tool in, motions within all limits out.

What comes on topics is worked on by one thread, in its order, and carried out where ``execute``
says so; a newer request ends the motion before it. Requests to retime are answered by threads of
their own. The loop follows the planning scene.
"""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from geometry_msgs.msg import PoseStamped
from moveit_msgs.msg import MoveItErrorCodes
from moveit_msgs.srv import GetMotionPlan
from nav_msgs.msg import Path
from numpy.typing import NDArray
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.nodes.planner.plan_execution import PlanExecution, Stop
from motion_nodes.nodes.planner.planner_state import PlannerState
from motion_nodes.nodes.trajectory.trajectory_generator_params import (
    TrajectoryGeneratorParams,
    conversion_of,
    saturation_of,
)
from motion_nodes.nodes.trajectory.trajectory_generator_requests import (
    GeneratorRequests,
    MadeMotion,
)
from motion_nodes.ros import qos
from motion_nodes.ros.clients.trajectory_client import TrajectoryClient
from motion_nodes.ros.concurrency.executor_queue import ExecutorJobs
from motion_nodes.ros.concurrency.service_threads import ServiceThreads
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.joint_topics import JointStateReader, set_stamp
from motion_nodes.ros.messages.moveit_messages import RequestRejected, pose_message, set_code
from motion_nodes.ros.messages.plan_messages import state_message, trajectory_message
from motion_nodes.ros.messages.trajectory_messages import size_fault
from motion_nodes.ros.robot_frames import RobotFrames
from motion_nodes.ros.robot_node import RobotNode
from motion_nodes.ros.run import run_node
from motion_nodes.ros.scene.scene_follower import SceneFollower
from motion_nodes.ros.transform_tree import TransformTree
from motion_nodes.ros.transforms import frame_id, frame_prefix

Codes = MoveItErrorCodes

WAITING = 8
"""Messages that may wait while another is worked on; more are refused."""


class _Job(NamedTuple):
    """A message to work on."""

    topic: str
    make: Callable[[], MadeMotion]


class TrajectoryGeneratorNode(RobotNode[TrajectoryGeneratorParams]):
    """Makes trajectories for one robot, and has them carried out."""

    params_type = TrajectoryGeneratorParams
    obeys_stop = True

    def __init__(self, ros_args: list[str] | None = None) -> None:
        """Create the node, unconfigured."""
        super().__init__("trajectory_generator", ros_args=ros_args)
        self._threads: ServiceThreads | None = None
        self._client: TrajectoryClient | None = None
        self._frames: TransformTree | None = None
        self._scene: SceneFollower | None = None
        self._worker: threading.Thread | None = None

    def check(self, params: TrajectoryGeneratorParams) -> str | None:
        """Refuse settings that do not go together, and groups and frames that there are not."""
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
        """Offer the endpoints."""
        params, robot = self.params, self.robot
        if not robot.arm_joints:
            raise InvalidConfig(f"robot '{robot.name}' has no joints that follow trajectories")
        prefix = frame_prefix(self, params.tf_frame_prefix)
        self._base = frame_id(prefix, robot.base_frame)
        kinematics = Kinematics(robot.tree, robot.joint_names, base=robot.base_frame)
        kinematics.warm_up()
        reader = JointStateReader(
            self.poll(JointState, "joint_states", qos.STATES), robot.joint_names
        )
        self._state = PlannerState(reader, lambda: self.params.state_timeout)
        self._frames = TransformTree(self)
        frames = RobotFrames(kinematics, self._frames, prefix)
        scene = self._scene = SceneFollower(self, robot, kinematics, frames)
        self.requests = GeneratorRequests(
            robot, lambda: self.params, self._present, lambda: (scene.scene, scene.note)
        )
        self._jobs_of_executor = ExecutorJobs(self)
        self._client = TrajectoryClient(self, self._jobs_of_executor, params.controller)
        self._execution = PlanExecution(
            self._client,
            self._state,
            lambda: self.params.start_tolerance,
            lambda: self.stop_reason,
        )
        self._counts = {"made": 0, "refused": 0}
        self._last = ""
        self._trajectory = self.advertise(JointTrajectory, "~/trajectory", qos.LATCHED)
        self._tool_path = self.advertise(Path, "~/tool_path", qos.LATCHED)
        self._status = self.advertise(DiagnosticStatus, "~/status", qos.STREAM)
        self._waiting: queue.Queue[_Job | None] = queue.Queue()
        self._worker = threading.Thread(target=self._work, name="trajectories", daemon=True)
        self._worker.start()
        self.listen(
            JointTrajectory,
            "~/waypoints",
            qos.REQUESTS,
            self._on_waypoints,
            size_fault=size_fault,
        )
        self.listen(String, "~/path_spec", qos.REQUESTS, self._on_path_spec)
        threads = self._threads = ServiceThreads(self, params.request_threads)
        threads.serve(GetMotionPlan, "~/retime_path", self._retime, qos.ACTION_REQUESTS)
        threads.start()

    def release(self) -> None:
        """Take the endpoints down."""
        if self._threads is not None:
            self._threads.destroy()
        if self._worker is not None:
            self._execution.stop_all(Stop.NODE)
            self._waiting.put(None)
            self._worker.join()
        if self._client is not None:
            self._client.destroy()
            self._jobs_of_executor.destroy()
        if self._scene is not None:
            self._scene.destroy()
        if self._frames is not None:
            self._frames.destroy()
        self._threads = self._worker = self._client = self._scene = self._frames = None

    def tick(self, dt: float) -> None:
        """Follow the planning scene."""
        assert self._scene is not None
        self._scene.update()

    def stopped(self, why: str) -> None:
        """End what is carried out, and forget what waits."""
        self._forget(Stop.SUITE, why)

    def halt(self) -> None:
        """Stop what is carried out, and forget what waits."""
        self._forget(Stop.NODE)

    def _forget(self, who: Stop, why: str = "") -> None:
        self._execution.stop_all(who, why)
        while not self._waiting.empty():
            self._waiting.get_nowait()

    def lacks(self) -> str:
        """Wait for the robot's first state."""
        return self._state.newest()[1]

    def diagnose(self, report: Report) -> None:
        """Say what was asked for and what is under way."""
        under_way = self._execution.labels
        if under_way:
            report.note("OK", f"carrying out {', '.join(under_way)}")
        for word, count in self._counts.items():
            report.value(f"requests {word}", count)
        report.value("requests waiting", self._waiting.qsize())
        report.value("last request", self._last or "none")
        if self._scene is not None:
            self._scene.diagnose(report)

    # ---- topics: the executor hands over, a thread works

    def _on_waypoints(self, message: JointTrajectory) -> None:
        self._hand_over("waypoints", lambda: self.requests.from_waypoints(message))

    def _on_path_spec(self, message: String) -> None:
        self._hand_over("path_spec", lambda: self.requests.from_path_spec(message.data))

    def _hand_over(self, topic: str, make: Callable[[], MadeMotion]) -> None:
        if self._waiting.qsize() >= WAITING:
            self._tell(topic, DiagnosticStatus.ERROR, f"refused: {WAITING} requests wait already")
            return
        self._execution.stop_all(Stop.NEWER)
        self._waiting.put(_Job(topic, make))

    def _work(self) -> None:
        while (job := self._waiting.get()) is not None:
            try:
                self._do(job)
            except MotionError as error:
                self._counts["refused"] += 1
                self._tell(job.topic, DiagnosticStatus.ERROR, f"refused: {error}")
            except Exception as error:
                self.get_logger().error(f"{job.topic} failed:\n{traceback.format_exc()}")
                self._tell(job.topic, DiagnosticStatus.ERROR, f"failed: {error}")

    def _do(self, job: _Job) -> None:
        made = job.make()
        message = trajectory_message(made.trajectory, self._base).joint_trajectory
        self._publish(made, message)
        notes = [f"a motion of {made.motion.duration:.3f} s", made.note]
        text = "; ".join(filter(None, notes))
        if not self.params.execute:
            self._tell(job.topic, DiagnosticStatus.OK, text, made)
            return
        self._tell(job.topic, DiagnosticStatus.OK, f"{text}; carrying it out", made)
        motion = self._execution.enter(job.topic)
        try:
            if not self._waiting.empty():
                motion.stop(Stop.NEWER)
            self._execution.claim(motion, made.motion.joint_names)
            ending = self._execution.follow(motion, message)
        finally:
            self._execution.leave(motion)
        if ending.code == Codes.SUCCESS:
            self._tell(job.topic, DiagnosticStatus.OK, "carried out to its end", made)
        else:
            self._tell(job.topic, DiagnosticStatus.ERROR, f"not carried out: {ending.text}", made)

    def _publish(self, made: MadeMotion, message: JointTrajectory) -> None:
        self._counts["made"] += 1
        self._trajectory.publish(message)
        try:
            poses = self.requests.tool_poses(made.motion)
        except RequestRejected:
            return  # A robot without a tool: then there is no path of it to show.
        path = Path()
        path.header.frame_id = self._base
        set_stamp(path, self.now_ns())
        path.poses = [PoseStamped(header=path.header, pose=pose_message(X)) for X in poses]
        self._tool_path.publish(path)

    def _tell(self, topic: str, level: bytes, text: str, made: MadeMotion | None = None) -> None:
        """Publish what became of a message, for a topic has no answer."""
        status = DiagnosticStatus(level=level, message=text, hardware_id=self.robot.name)
        status.name = f"{self.get_name()}: {topic}"
        if made is not None:
            status.values = [
                KeyValue(key="duration [s]", value=f"{made.motion.duration:.6f}"),
                KeyValue(key="points", value=str(len(made.trajectory.times))),
                KeyValue(key="computing time [s]", value=f"{made.time:.4f}"),
            ]
        self._status.publish(status)
        self._last = f"{topic}: {text}"
        if level != DiagnosticStatus.OK:
            self.warn(topic, f"~/{topic}: {text}")

    # ---- the service, in the request threads

    def _retime(self, request: Any, response: Any) -> Any:
        answer = response.motion_plan_response
        begin = time.monotonic()
        try:
            if not self.active:
                raise RequestRejected(
                    Codes.FAILURE, f"{self.get_name()} is {self.state_label}, not active"
                )
            made = self.requests.retimed(request.motion_plan_request)
        except RequestRejected as refusal:
            self._counts["refused"] += 1
            set_code(answer.error_code, refusal.code, str(refusal), self.get_name())
            return response
        frame = self.robot.base_frame
        first = made.trajectory.positions[0].tolist()
        joints = dict(zip(made.trajectory.joint_names, first, strict=True))
        answer.trajectory_start = state_message(joints, self.get_clock().now().to_msg(), frame)
        answer.trajectory = trajectory_message(made.trajectory, frame)
        answer.group_name = request.motion_plan_request.group_name
        answer.planning_time = time.monotonic() - begin
        self._counts["made"] += 1
        set_code(answer.error_code, Codes.SUCCESS, made.note, self.get_name())
        return response

    def _present(self) -> NDArray[np.float64]:
        """Return where all joints are; unknown ones as in ``home``."""
        q, _ = self._state.newest()
        return np.where(np.isfinite(q), q, self.robot.home)


def main() -> None:
    """Run the node as a process of its own."""
    run_node(TrajectoryGeneratorNode)
