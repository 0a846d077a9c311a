# SPDX-License-Identifier: Apache-2.0
"""Base navigator: Nav2's actions for poses and paths, around obstacles, without maps."""

from __future__ import annotations

import contextlib
import math
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from geometry_msgs.msg import PoseStamped, Twist, TwistStamped
from nav2_msgs.action import FollowPath
from nav2_msgs.msg import SpeedLimit
from nav_msgs.msg import Odometry as OdometryMessage
from nav_msgs.msg import Path
from rclpy.duration import Duration
from std_msgs.msg import Empty

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.navigation.approaches import ApproachConfig
from motion_nodes.core.navigation.navigator import MotionResult, NavigationTask, Navigator
from motion_nodes.core.navigation.planar_geometry import PlanarPath, Pose2
from motion_nodes.core.navigation.teleoperation import Teleoperation
from motion_nodes.core.robot.bounds import EARTH_LENGTH
from motion_nodes.core.robot.robot import Robot
from motion_nodes.errors import InvalidCommand, InvalidConfig, MotionError
from motion_nodes.nodes.navigation.costmaps import CostmapServices
from motion_nodes.nodes.navigation.navigation_actions import NavigationServer
from motion_nodes.nodes.navigation.navigation_requests import (
    NavigationPlan,
    NavigationProgress,
    NavigationRejected,
    PendingGoals,
    check_age,
    plan_to_pose,
)
from motion_nodes.nodes.navigation.navigator_params import (
    NavigatorParams,
    avoidance_config_of,
    avoidance_of,
    checks_of,
    config_of,
    kind_of,
    limits_of,
    navigator_defaults,
    outline_of,
    planned_base,
)
from motion_nodes.nodes.navigation.obstacle_inputs import AHEAD, ObstacleInputs, sensor_poses
from motion_nodes.nodes.navigation.path_planning import PathPlanning
from motion_nodes.nodes.navigation.waiting import AbsentActions, WaitServer
from motion_nodes.ros import qos
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.joint_topics import ACK_TIMEOUT, set_stamp, stamp_ns
from motion_nodes.ros.messages.planar_messages import (
    path_message,
    pose2_from,
    pose2_of,
    twist2_from,
)
from motion_nodes.ros.names import base_controller
from motion_nodes.ros.node import RobotNode
from motion_nodes.ros.transforms import TransformTree
from motion_nodes.ros.wheeled.wheeled_base_node import BASE_REST_SPEED, RESTART_PAUSE

IDLE_RATE = 5.0
"""[Hz] Rate of the loop at rest without a goal; goals wake it."""
BLOCKED_NOTICE = 0.3
"""Time after which a blocked base is reported [s]."""
QUIET_TIME = RESTART_PAUSE + 0.1
"""[s] Pause of the twists after a stop, so that the next one starts a new stream."""


class BaseNavigatorNode(RobotNode[NavigatorParams]):
    """Moves a wheeled base to goals."""

    params_type = NavigatorParams
    obeys_stop = True

    def __init__(self, ros_args: list[str] | None = None) -> None:
        super().__init__("base_navigator", ros_args=ros_args)

    def robot_defaults(self, robot: Robot) -> dict[str, Any]:
        """Return limits and geometry of the robot's description."""
        return navigator_defaults(robot)

    def check(self, params: NavigatorParams) -> str | None:
        """Validate the parameters for the kind of base."""
        try:
            config_of(params, kind_of(self.robot))
            avoidance_of(params, self.robot)
            sensor_poses(params)
        except InvalidConfig as error:
            return str(error)
        return None

    def configure(self) -> None:
        """Create the navigator and its endpoints."""
        params = self.params
        self._config = config_of(params, kind_of(self.robot))
        # Searches of detours take longer than a cycle of the loop.
        self._searches = ThreadPoolExecutor(1, "detours")
        avoidance = avoidance_of(params, self.robot, self._searches.submit)
        self.navigator = Navigator(
            limits_of(params), *checks_of(params), self._config.kind, avoidance
        )
        controller = params.base_controller or base_controller(self.robot)
        self._quiet_until = 0.0
        self._odometry = self.poll(OdometryMessage, f"{controller}/odom")
        self._command_out = self.advertise(TwistStamped, f"{controller}/cmd_vel")
        self._plan_out = self.advertise(Path, "plan", qos.LATCHED)
        # The transforms of all robots reach each reader; most goals need none.
        self.tree = TransformTree(self, on_demand=True)
        self._obstacles = ObstacleInputs(self, self.tree, avoidance.footprint)
        self.listen(
            PoseStamped, "goal_pose", qos.REQUESTS, self._on_goal_pose, lengths=EARTH_LENGTH
        )
        stamped = params.enable_stamped_cmd_vel
        self._teleop = self.poll(TwistStamped if stamped else Twist, params.cmd_vel_teleop)
        self.listen(SpeedLimit, params.speed_limit_topic, qos.REQUESTS, self._on_speed_limit)
        self.listen(Empty, "preempt_teleop", qos.REQUESTS, self._on_preempt_teleop)
        self._pending = PendingGoals(self, lambda: self._paths.has_map)
        self._server: NavigationServer | None = NavigationServer(
            self, self._pending, params.feedback_rate
        )
        self._paths = PathPlanning(self, planned_base(self._config, avoidance.footprint))
        self._waits = WaitServer(self, params.feedback_rate)
        self._absent = AbsentActions(self) if params.refuse_absent else None
        self._command = TwistStamped()
        frames = self.robot.description.frames
        self.odom_frame, self.base_frame = frames.odom, frames.base
        self._reset()
        self._costmaps = CostmapServices(self, self._paths, self._obstacles)

    def release(self) -> None:
        """Destroy the actions and the transform buffer."""
        if getattr(self, "_server", None) is not None:
            assert self._server is not None
            self._costmaps.destroy()
            self._waits.destroy()
            if self._absent is not None:
                self._absent.destroy()
            self._pending.destroy()
            self._paths.destroy()
            self._server.destroy()
            self._server = None
            self.tree.destroy()
            self._searches.shutdown(wait=False, cancel_futures=True)

    def activate(self) -> None:
        """Start without a task and without a pose."""
        self._reset()

    def tick(self, dt: float) -> None:
        """Read odometry and command the next twist of the active task."""
        now_ns = self.now_ns()
        self._read_odometry(now_ns)
        self._steer()
        self._obstacles.update(self.base_frame)
        if self.navigator.task is None or time.monotonic() < self._quiet_until:
            at_rest = all(abs(v) < BASE_REST_SPEED for v in self._twist)
            if at_rest and not self._obstacles.present:
                self.idle(IDLE_RATE)
            return
        if self.time_stands:
            # The base controller has stopped the base.
            self.navigator.rest_at_once()
        else:
            self._step(now_ns, dt)

    def halt(self) -> None:
        """Stop the base and abort its task."""
        self._abort("the navigator was deactivated")

    def stopped(self, why: str) -> None:
        """Abort the task; the base controller brings the base to rest."""
        # Without a pause the controller would treat the next twists as the stopped stream.
        self._quiet_until = time.monotonic() + QUIET_TIME
        self.navigator.abort(MotionResult.ABORTED, why)

    def parameters_changed(self, params: NavigatorParams) -> None:
        """Apply the parameters; active motions keep their path and respect new limits."""
        self._config = config_of(params, kind_of(self.robot))
        self.navigator.reconfigure(limits_of(params), *checks_of(params))
        footprint, avoidance = outline_of(params, self.robot), self.navigator.avoidance
        assert avoidance is not None
        avoidance.reconfigure(limits_of(params), footprint, avoidance_config_of(params))
        self._obstacles.reconfigure(footprint)
        self._paths.reconfigure(planned_base(self._config, footprint))

    def time_jumped(self, before: float, after: float) -> None:
        """Stop the base: its pose may have changed."""
        self._abort(f"time jumped from {before:.3f} s to {after:.3f} s")
        self._reset()

    def waiting_for(self) -> str:
        """Return why the pose is unknown before the first odometry message."""
        return "" if self._pose is not None else self._odometry_fault(self.now_ns())

    def diagnose(self, report: Report) -> None:
        """Report the state of odometry and of the active task."""
        fault, task = self._odometry_fault(self.now_ns()), self.navigator.task
        if fault:
            report.note(
                "ERROR" if self._pose is not None else "WARN", f"{fault}; goals are refused"
            )
        elif task is None:
            report.note("OK", "no goal")
        else:
            report.note("OK", "stopping" if self.navigator.stopping else f"driving: {task.label}")
            report.value("speed limit [%]", round(100.0 * self.navigator.speed_share))
            report.value("distance left [m]", task.motion.remaining)
            self._diagnose_blockage(report, task)
        self._obstacles.diagnose(report)
        report.value("goals taken", self._count)

    def _diagnose_blockage(self, report: Report, task: NavigationTask) -> None:
        avoidance = self.navigator.avoidance
        if avoidance is not None and avoidance.text and avoidance.waited > BLOCKED_NOTICE:
            report.note("WARN", f"blocked for {avoidance.waited:.1f} s: {avoidance.reason}")
        report.value("detours", task.detours)

    # ---- for the parts of the node

    def config(self) -> ApproachConfig:
        """Return the configuration of motions."""
        return self._config

    def base_pose(self) -> Pose2:
        """Return the pose of the base in the odometry frame."""
        with contextlib.suppress(TimeoutError):
            # At rest the loop reads it rarely.
            self.in_loop(lambda: self._read_odometry(self.now_ns()))
        fault = self._odometry_fault(self.now_ns())
        if fault or self._pose is None:
            raise MotionError(f"the pose of the base is not known: {fault}")
        return self._pose

    def frame_pose(self, frame: str, *, fresh: bool = False) -> Pose2:
        """Return the pose of the odometry frame in another frame."""
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
        return pose2_of(X_FO)

    def around(self, frame: str, direct: PlanarPath) -> tuple[str, PlanarPath] | None:
        """Return the way around the obstacles of the map; see :meth:`PathPlanning.around`."""
        return self._paths.around(frame, direct)

    @property
    def driving(self) -> bool:
        """Whether a task is active; only in the loop."""
        return self.navigator.task is not None

    def begin(self, plan: NavigationPlan, label: str) -> NavigationTask:
        """Start a motion; only in the loop.

        Raises:
            NavigationRejected: the suite is stopped.
        """
        if self.stop_reason:
            raise NavigationRejected(FollowPath.Result.UNKNOWN, self.stop_reason)
        self._frame = plan.frame
        self._count += 1
        task = self.navigator.start(
            plan.motion, label, self._twist, allowance=plan.allowance, blocked=plan.blocked
        )
        self._plan_out.publish(path_message(plan.path, plan.frame, self.now_ns()))
        return task

    def cancel(self, task: NavigationTask) -> None:
        """Bring the base to rest if the task is active; only in the loop."""
        if self.navigator.task is task:
            self.navigator.stop(MotionResult.CANCELED, "canceled by its client")

    def progress(self) -> NavigationProgress:
        """Return the progress of the active task."""
        task, twist = self.navigator.task, self._twist
        remaining = task.motion.remaining if task is not None else 0.0
        return NavigationProgress(
            self._pose_in_goal_frame,
            remaining if math.isfinite(remaining) else 0.0,
            math.hypot(twist.vx, twist.vy),
            self.navigator.time_remaining(),
        )

    # ---- inside

    def _reset(self) -> None:
        self._pose: Pose2 | None = None
        self._twist = Twist2()
        self._odometry_ns = 0
        self._pose_in_goal_frame = Pose2()
        self._frame = self.odom_frame
        self._count = 0
        self._obstacles.forget()

    def _step(self, now_ns: int, dt: float) -> None:
        fault = self._odometry_fault(now_ns)
        if fault:
            self.navigator.stop(MotionResult.LOST, f"{fault}; the base was stopped")
        try:
            pose = self.frame_pose(self._frame, fresh=True).compose(self._pose or Pose2())
        except MotionError as error:
            self.navigator.stop(MotionResult.LOST, f"{error}; the base was stopped")
            pose = self._pose or Pose2()
        self._pose_in_goal_frame = pose
        seen = self._obstacles.surroundings(self._pose or Pose2(), self._frame)
        task, measured = self.navigator.task, Twist2() if fault else self._twist
        before = task.motion if task is not None else None
        twist = self.navigator.step(pose, measured, dt, seen)
        if task is not None and task.motion is not before:
            self._show_detour(task)
        if twist is not None:
            self._send(twist, now_ns)

    def _steer(self) -> None:
        """Pass the newest twist of assisted_teleop on to its motion; without one it is dropped."""
        message, task = self._teleop.newest(), self.navigator.task
        if message is None or task is None or not isinstance(task.motion, Teleoperation):
            return
        twist = message.twist if isinstance(message, TwistStamped) else message
        task.motion.steer(twist2_from(twist))

    def _on_speed_limit(self, message: SpeedLimit) -> None:
        """Drive no faster than this from now on."""
        try:
            share = limits_of(self.params).share_of(
                message.speed_limit, percentage=message.percentage
            )
        except InvalidCommand as error:
            self.warn("speed limit", f"{self.params.speed_limit_topic} ignored: {error}")
            return
        self.navigator.speed_share = share

    def _on_preempt_teleop(self, _: Empty) -> None:
        """End assisted_teleop as succeeded."""

        def finish() -> None:
            task = self.navigator.task
            if task is not None and isinstance(task.motion, Teleoperation):
                task.motion.finish()

        with contextlib.suppress(TimeoutError):
            self.in_loop(finish)

    def _show_detour(self, task: NavigationTask) -> None:
        """Publish the path of a detour, and log it."""
        pose = self._pose_in_goal_frame
        rows = [tuple(pose), *map(tuple, getattr(task.motion, "poses", ()))]
        rows += task.motion.route(pose).tolist()
        self.get_logger().info(f"{task.label}: driving around an obstacle")
        with contextlib.suppress(InvalidCommand):
            path = path_message(PlanarPath(rows), self._frame, self.now_ns())
            self._plan_out.publish(path)

    def _read_odometry(self, now_ns: int) -> None:
        message = self._odometry.newest()
        if message is None:
            return
        twist = twist2_from(message.twist.twist)
        try:
            if not twist.finite:
                raise InvalidCommand(f"twist (vx, vy, wz) = {tuple(twist)} is not finite")
            pose = pose2_from(message.pose.pose)
        except InvalidCommand as error:
            self.warn("odometry", f"odometry ignored: {error}")
            return
        stamp = stamp_ns(message) or now_ns
        self._pose, self._twist = pose, twist
        self._odometry_ns = stamp
        self._obstacles.moved(1e-9 * stamp, pose, twist)
        self.odom_frame = message.header.frame_id.lstrip("/") or self.odom_frame
        self.base_frame = message.child_frame_id.lstrip("/") or self.base_frame

    def _odometry_fault(self, now_ns: int) -> str:
        """Return why the pose of the base is unknown; empty if it is known."""
        if self._pose is None:
            return f"waiting for odometry on {self._odometry.topic}"
        age = (now_ns - self._odometry_ns) * 1e-9
        if age > self.params.odom_timeout:
            return f"no odometry on {self._odometry.topic} for {age:.1f} s"
        if age < -AHEAD:
            # Its loss would be detected late by as much.
            return (
                f"odometry on {self._odometry.topic} is stamped {-age:.1f} s in the future (does "
                "its sender use another use_sim_time?)"
            )
        return ""

    def _on_goal_pose(self, message: PoseStamped) -> None:
        """Start a motion to a pose of RViz's 2D Goal Pose tool."""
        self._pending.begin(_GoalPose(self, message))

    def _abort(self, text: str) -> None:
        driving = self.navigator.task is not None
        self.navigator.abort(MotionResult.ABORTED, text)
        if driving:
            # Sent twice, for best-effort subscribers, and acknowledged before the process ends.
            for _ in range(2):
                self._send(Twist2(), self.now_ns())
            self._command_out.wait_for_all_acked(Duration(seconds=ACK_TIMEOUT))

    def _send(self, twist: Twist2, now_ns: int) -> None:
        velocity = self._command.twist
        velocity.linear.x, velocity.linear.y, velocity.angular.z = twist
        self._command.header.frame_id = self.base_frame
        set_stamp(self._command, now_ns)
        self._command_out.publish(self._command)


@dataclass(frozen=True)
class _GoalPose:
    """A goal of the topic; a :class:`NavigationRequest`."""

    node: BaseNavigatorNode
    message: PoseStamped
    ended: bool = False

    def plan(self) -> NavigationPlan:
        check_age(self.node, self.message, "goal_pose")
        return plan_to_pose(self.node, self.message)

    def start(self, plan: NavigationPlan) -> None:
        self.node.in_loop(lambda: self.node.begin(plan, "goal_pose"))

    def refuse(self, error: Exception) -> None:
        self.node.warn("goal_pose", f"goal_pose refused: {error}")
