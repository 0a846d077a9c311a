# SPDX-License-Identifier: Apache-2.0
"""Moves a wheeled base to poses and along paths: Nav2's actions, without maps and obstacles."""

from __future__ import annotations

import math
import time
from typing import Any

from geometry_msgs.msg import PoseStamped, TwistStamped
from nav2_msgs.action import FollowPath
from nav_msgs.msg import Odometry as OdometryMessage
from nav_msgs.msg import Path
from rclpy.duration import Duration

from motion_nodes.base_navigation.approaches import ApproachConfig
from motion_nodes.base_navigation.navigator import MotionResult, NavigationTask, Navigator
from motion_nodes.base_navigation.planar_pose import Pose2
from motion_nodes.bases.base import Twist2
from motion_nodes.errors import InvalidCommand, InvalidConfig, MotionError
from motion_nodes.model.bounds import EARTH_LENGTH
from motion_nodes.model.robot import Robot
from motion_nodes.nodes.navigation.navigation_actions import LOOP_SILENT, NavigationServer
from motion_nodes.nodes.navigation.navigation_requests import (
    NavigationProgress,
    Plan,
    Refused,
    check_age,
    plan_to_pose,
    planar,
)
from motion_nodes.nodes.navigation.navigator_params import (
    NavigatorParams,
    checks_from,
    config_from,
    kind_of,
    limits_from,
    navigator_defaults,
)
from motion_nodes.ros import qos
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.joint_topics import LAST_WORD, set_stamp, stamp_ns
from motion_nodes.ros.messages.planar_messages import path_message, pose2_from, twist2_from
from motion_nodes.ros.names import BASE_CONTROLLERS
from motion_nodes.ros.robot_node import RobotNode
from motion_nodes.ros.run import run_node
from motion_nodes.ros.transform_tree import TransformTree
from motion_nodes.ros.wheeled.base_commands import STREAM_PAUSE

QUIET_TIME = STREAM_PAUSE + 0.1
"""[s] After a stop no twist is sent for so long, so that the next one begins a new stream."""


class BaseNavigatorNode(RobotNode[NavigatorParams]):
    """Leads one base to goals."""

    params_type = NavigatorParams
    obeys_stop = True

    def __init__(self, ros_args: list[str] | None = None) -> None:
        """Create the node, unconfigured."""
        super().__init__("base_navigator", ros_args=ros_args)

    def robot_defaults(self, robot: Robot) -> dict[str, Any]:
        """Take limits and geometry from the robot's description."""
        return navigator_defaults(robot)

    def check(self, params: NavigatorParams) -> str | None:
        """Refuse an approach that this base cannot take."""
        try:
            config_from(params, kind_of(self.robot))
        except InvalidConfig as error:
            return str(error)
        return None

    def configure(self) -> None:
        """Build the navigator and its endpoints."""
        params = self.params
        self._config = config_from(params, kind_of(self.robot))
        self.navigator = Navigator(limits_from(params), *checks_from(params), self._config.kind)
        controller = BASE_CONTROLLERS[self.robot.kind]
        self._quiet_until = 0.0
        self._odometry = self.poll(OdometryMessage, f"{controller}/odom")
        self._command_out = self.advertise(TwistStamped, f"{controller}/cmd_vel")
        self._plan_out = self.advertise(Path, "plan", qos.LATCHED)
        self.tree = TransformTree(self)
        self.listen(
            PoseStamped, "goal_pose", qos.REQUESTS, self._on_goal_pose, lengths=EARTH_LENGTH
        )
        self._server: NavigationServer | None = NavigationServer(self, params.feedback_rate)
        self._command = TwistStamped()
        frames = self.robot.description.frames
        self.odom_frame, self.base_frame = frames.odom, frames.base
        self._forget()

    def release(self) -> None:
        """Take the actions and the transforms down."""
        if getattr(self, "_server", None) is not None:
            assert self._server is not None
            self._server.destroy()
            self._server = None
            self.tree.destroy()

    def activate(self) -> None:
        """Begin with nothing to do and nothing known."""
        self._forget()

    def tick(self, dt: float) -> None:
        """Look where the base is, and drive it on."""
        now_ns = self.now_ns()
        self._take_odometry(now_ns)
        if self.navigator.task is None or time.monotonic() < self._quiet_until:
            return
        if self.time_stands:
            # The base's controller has halted it.
            self.navigator.rest_at_once()
        else:
            self._drive_on(now_ns, dt)
        if self._server is not None:
            self._server.look()

    def halt(self) -> None:
        """Stop the base and end its task."""
        self._end_at_once("the navigator was deactivated")

    def stopped(self, why: str) -> None:
        """End the task and send nothing more; the base's controller brings it to rest."""
        # The controller would take what is sent sooner for the stream from before the stop.
        self._quiet_until = time.monotonic() + QUIET_TIME
        self.navigator.abort(MotionResult.ABORTED, why)
        if self._server is not None:
            self._server.look()

    def answer_waiting(self) -> None:
        """Tell the clients of ended goals."""
        if self._server is not None:
            self._server.finish()

    def parameters_changed(self, params: NavigatorParams) -> None:
        """Take over new numbers; motions under way keep their plan, and obey new limits."""
        self._config = config_from(params, kind_of(self.robot))
        self.navigator.reconfigure(limits_from(params), *checks_from(params))

    def time_jumped(self, before: float, after: float) -> None:
        """Stop; the world may be another one."""
        self._end_at_once(f"time jumped from {before:.3f} s to {after:.3f} s")
        self._forget()

    def lacks(self) -> str:
        """Wait for the first odometry."""
        return "" if self._pose is not None else self._trouble(self.now_ns())

    def diagnose(self, report: Report) -> None:
        """Say whether odometry comes and what is under way."""
        trouble, task = self._trouble(self.now_ns()), self.navigator.task
        if trouble:
            report.note(
                "ERROR" if self._pose is not None else "WARN", f"{trouble}; goals are refused"
            )
        elif task is None:
            report.note("OK", "no goal")
        else:
            report.note("OK", "stopping" if self.navigator.stopping else f"driving: {task.label}")
            report.value("way left [m]", task.motion.remaining)
        report.value("goals taken", self._begun)

    # ---- what the actions ask of their host

    @property
    def node(self) -> BaseNavigatorNode:
        """The node itself."""
        return self

    def config(self) -> ApproachConfig:
        """Return how the base is to be moved."""
        return self._config

    def where(self) -> Pose2:
        """Return where the base is in the frame of the odometry; see NavigationHost."""
        trouble = self._trouble(self.now_ns())
        if trouble or self._pose is None:
            raise MotionError(f"where the base is is not known: {trouble}")
        return self._pose

    def frame_pose(self, frame: str, *, fresh: bool = False) -> Pose2:
        """Return where the frame of the odometry is in another one; see NavigationHost."""
        if frame == self.odom_frame:
            return Pose2()
        if fresh:
            self.tree.update()
        X_FO, stamp = self.tree.pose(frame, self.odom_frame)
        age = 0.0 if stamp is None else (self.now_ns() - stamp) * 1e-9
        if age > self.params.transform_timeout:
            raise MotionError(
                f"the newest transform from '{self.odom_frame}' to '{frame}' is {age:.1f} s old; "
                f"allowed is transform_timeout, {self.params.transform_timeout:g} s"
            )
        return planar(X_FO)

    def begin(self, plan: Plan, label: str) -> NavigationTask:
        """Start a motion; for use in the loop alone.

        Raises:
            Refused: the suite is stopped.
        """
        if self.stop_reason:
            raise Refused(FollowPath.Result.UNKNOWN, self.stop_reason)
        self._frame = plan.frame
        self._begun += 1
        task = self.navigator.start(plan.motion, label, self._twist)
        self._plan_out.publish(path_message(plan.path, plan.frame, self.now_ns()))
        return task

    def cancel(self, task: NavigationTask) -> None:
        """Bring the base to rest if it still carries out a task; for use in the loop alone."""
        if self.navigator.task is task:
            self.navigator.stop(MotionResult.CANCELED, "canceled by its client")

    def progress(self) -> NavigationProgress:
        """Return how the task under way stands."""
        task, twist = self.navigator.task, self._twist
        remaining = task.motion.remaining if task is not None else 0.0
        return NavigationProgress(
            self._seen,
            remaining if math.isfinite(remaining) else 0.0,
            math.hypot(twist.vx, twist.vy),
            self.navigator.time_remaining(),
        )

    # ---- inside

    def _forget(self) -> None:
        self._pose: Pose2 | None = None
        self._twist = Twist2()
        self._heard_ns = 0
        self._seen = Pose2()
        self._frame = self.odom_frame
        self._begun = 0

    def _drive_on(self, now_ns: int, dt: float) -> None:
        trouble = self._trouble(now_ns)
        if trouble:
            self.navigator.stop(MotionResult.LOST, f"{trouble}; the base was stopped")
        try:
            pose = self.frame_pose(self._frame, fresh=True).compose(self._pose or Pose2())
        except MotionError as error:
            self.navigator.stop(MotionResult.LOST, f"{error}; the base was stopped")
            pose = self._pose or Pose2()
        self._seen = pose
        twist = self.navigator.step(pose, Twist2() if trouble else self._twist, dt)
        if twist is not None:
            self._send(twist, now_ns)

    def _take_odometry(self, now_ns: int) -> None:
        message = self._odometry.newest()
        if message is None:
            return
        twist = twist2_from(message.twist.twist)
        try:
            if not twist.finite:
                raise InvalidCommand(f"twist (vx, vy, wz) = {tuple(twist)} is not finite")
            self._pose = pose2_from(message.pose.pose)
        except InvalidCommand as error:
            self.warn("odometry", f"odometry ignored: {error}")
            return
        self._twist = twist
        self._heard_ns = stamp_ns(message) or now_ns
        self.odom_frame = message.header.frame_id.lstrip("/") or self.odom_frame
        self.base_frame = message.child_frame_id.lstrip("/") or self.base_frame

    def _trouble(self, now_ns: int) -> str:
        """Say why the base must not move, or nothing."""
        if self._pose is None:
            return f"waiting for odometry on {self._odometry.topic}"
        age = (now_ns - self._heard_ns) * 1e-9
        if age > self.params.odom_timeout:
            return f"no odometry on {self._odometry.topic} for {age:.1f} s"
        return ""

    def _on_goal_pose(self, message: PoseStamped) -> None:
        """Go to a pose that nobody waits for: RViz's 2D Goal Pose."""
        try:
            check_age(self, message, "goal_pose")
            plan = plan_to_pose(self, message)
            self.in_loop(lambda: self.begin(plan, "goal_pose"))
        except (Refused, TimeoutError) as error:
            self.warn("goal_pose", f"goal_pose refused: {str(error) or LOOP_SILENT}")

    def _end_at_once(self, text: str) -> None:
        driving = self.navigator.task is not None
        self.navigator.abort(MotionResult.ABORTED, text)
        if driving:
            # Said twice, for some readers are best-effort, and waited for: the process may end.
            for _ in range(2):
                self._send(Twist2(), self.now_ns())
            self._command_out.wait_for_all_acked(Duration(seconds=LAST_WORD))
        if self._server is not None:
            self._server.look()

    def _send(self, twist: Twist2, now_ns: int) -> None:
        velocity = self._command.twist
        velocity.linear.x, velocity.linear.y, velocity.angular.z = twist
        self._command.header.frame_id = self.base_frame
        set_stamp(self._command, now_ns)
        self._command_out.publish(self._command)


def main() -> None:
    """Run the node as a process of its own."""
    run_node(BaseNavigatorNode)
