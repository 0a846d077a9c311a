# SPDX-License-Identifier: Apache-2.0
"""Reactive policy of an arm, RMPflow or MPC: targets to references for the joint controller.

The loop reads inputs and robot state and steps the policy, see
:mod:`motion_nodes.core.reactive.target_follower`. A second, slower loop updates the planning scene
and publishes status. Without a target no references are sent, so other commands can move the
joints.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
from action_msgs.msg import GoalStatus
from moveit_msgs.action import MoveGroup
from moveit_msgs.msg import MoveItErrorCodes
from sensor_msgs.msg import JointState

from motion_nodes.core.control.joint_command import SESSION_MARK
from motion_nodes.core.reactive.obstacle_scene import supported_scene
from motion_nodes.core.reactive.policy_motion import PreparedScenes
from motion_nodes.core.reactive.policy_state import PolicyView, RobotMotion
from motion_nodes.core.reactive.target_follower import Follower
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.exact_warm_up import after_compilation
from motion_nodes.core.scene.scene import Scene
from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.nodes.policy.policy_inputs import PolicyRobot, PolicyServices, RmpflowInputs
from motion_nodes.nodes.policy.policy_params import (
    PolicyParams,
    follower_settings,
    make_policy,
    mpc_settings,
    read_defaults,
    settings_of,
    smoothing_settings,
    stuck_settings,
)
from motion_nodes.nodes.policy.policy_reports import PolicyReports, PolicySnapshot
from motion_nodes.ros.clients.client_node import action_client
from motion_nodes.ros.clients.move_client import pose_constraints
from motion_nodes.ros.concurrency.loops import ExecutorQueue, RateLoop
from motion_nodes.ros.concurrency.polled_subscription import MessageWait
from motion_nodes.ros.current_state import RobotFrames
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.joint_topics import JointStateWriter
from motion_nodes.ros.names import BLOCKED
from motion_nodes.ros.node import MotionNode, RobotNode
from motion_nodes.ros.scene.scene_follower import SceneFollower
from motion_nodes.typing import Array

ANSWER_TIMEOUT = 3.0
"""Timeout of the planner's response to a goal, and of its presence afterwards, in wall time [s]."""
PRESENCE_PERIOD = 0.5
"""Period of checks whether the planner is still there [s]."""
POSITION, ORIENTATION = 2e-3, 1e-2
"""Position [m] and orientation [rad] tolerance of plans; the policy reduces the rest."""
TARGET_FAULTS = {
    MoveItErrorCodes.GOAL_IN_COLLISION: "the target is in collision",
    MoveItErrorCodes.GOAL_STATE_INVALID: "the target is outside limits",
    MoveItErrorCodes.NO_IK_SOLUTION: "the target is not reachable",
}
"""Faults of the target itself, by the planner's error code."""


class Escape:
    """Client of the planner with one goal at a time; all methods but destroy are for the loop."""

    def __init__(self, node: MotionNode[Any], jobs: ExecutorQueue, action: str) -> None:
        """Create the client.

        Args:
            node: the policy node.
            jobs: of its executor.
            action: name of the planner's MoveGroup action.
        """
        self._node, self._jobs, self.action = node, jobs, action
        self._client = action_client(node, MoveGroup, action)
        self._attempt: _Attempt | None = None
        self.count = 0
        """Number of escapes."""

    def update(self, follower: Follower, params: Any, frame: str, now: float) -> None:
        """Start, cancel or finish an escape, as the follower requires.

        Args:
            follower: of the policy.
            params: of the node.
            frame: of the target.
            now: ROS time [s].
        """
        target, attempt = follower.escape_target, self._attempt
        if target is None:
            if attempt is not None:
                self.cancel()
        elif attempt is None:
            self.start(
                goal_to(
                    target.X_WT,
                    oriented=target.oriented,
                    group=params.group,
                    tool=follower.policy.tool,
                    frame=frame,
                    planning_time=params.escape_planning_time,
                )
            )
        elif (fault := self._result(attempt)) is not None:
            if fault:
                self._node.warn("escape", f"escape failed: {fault}")
            follower.hand_back(now, fault, impossible=attempt.unreachable)

    def start(self, goal: Any) -> None:
        """Send a goal to the planner."""
        attempt = self._attempt = _Attempt()
        self.count += 1
        self._jobs.submit(lambda: self._send(attempt, goal))

    def cancel(self) -> None:
        """Cancel the goal without waiting for its result."""
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.cancelled = True
            self._jobs.submit(lambda: _cancel(attempt))

    def _result(self, attempt: _Attempt) -> str | None:
        """Return why an escape failed, empty if it succeeded, None while it is active."""
        if attempt.fault is not None:
            self._attempt = None
            return attempt.fault
        now = time.monotonic()
        # The result of a planner whose process has ended never arrives.
        due = attempt.accepted and now - attempt.present_at >= PRESENCE_PERIOD
        if due and self._client.server_is_ready():
            attempt.present_at = now
        if now - attempt.present_at < ANSWER_TIMEOUT:
            return None
        self.cancel()
        return f"no response of a planner at {self.action}"

    def destroy(self) -> None:
        """Destroy the client."""
        self._client.destroy()

    # ---- executor

    def _send(self, attempt: _Attempt, goal: Any) -> None:
        if not self._client.server_is_ready():
            attempt.fault = f"there is no planner at {self.action}"
            return
        future = self._client.send_goal_async(goal)
        future.add_done_callback(lambda done: _on_response(attempt, done.result()))


class _Attempt:
    """State of a goal."""

    def __init__(self) -> None:
        self.present_at = time.monotonic()
        """Time of sending, or at which the planner was last seen [s]."""
        self.accepted = False
        self.cancelled = False
        self.fault: str | None = None
        """Why it failed, empty if it succeeded, None while it is active."""
        self.unreachable = False
        """Whether it failed because of the target itself."""
        self.handle: Any = None


def _on_response(attempt: _Attempt, handle: Any) -> None:
    if not handle.accepted:
        attempt.fault = "the planner rejected the goal"
        return
    attempt.accepted, attempt.handle = True, handle
    handle.get_result_async().add_done_callback(lambda done: _finish(attempt, done.result()))
    if attempt.cancelled:
        _cancel(attempt)


def _cancel(attempt: _Attempt) -> None:
    if attempt.handle is not None and attempt.fault is None:
        attempt.handle.cancel_goal_async()


def _finish(attempt: _Attempt, wrapped: Any) -> None:
    if wrapped is None:
        attempt.fault = "the planner is no longer available"
        return
    code = wrapped.result.error_code
    done = wrapped.status == GoalStatus.STATUS_SUCCEEDED and code.val == MoveItErrorCodes.SUCCESS
    what = TARGET_FAULTS.get(code.val, "the planner failed")
    attempt.unreachable = code.val in TARGET_FAULTS
    attempt.fault = "" if done else f"{what}: {code.message or code.val}"


def goal_to(
    X_BT: Array, *, oriented: bool, group: str, tool: str, frame: str, planning_time: float
) -> Any:
    """Return a MoveGroup goal to a pose or position.

    Args:
        X_BT: target of the tool, shape (4, 4).
        oriented: whether to include the orientation.
        group: planning group.
        tool: end effector frame.
        frame: reference frame of the target.
        planning_time: allowed planning time [s].
    """
    goal = MoveGroup.Goal()
    goal.request.group_name = group
    goal.request.goal_constraints = [
        pose_constraints(
            tool, frame, X_BT, position=POSITION, orientation=ORIENTATION if oriented else None
        )
    ]
    goal.request.allowed_planning_time = planning_time
    goal.planning_options.replan = True
    return goal


SLOW_RATE = 50.0
"""Rate of the slow loop with a target [Hz]."""
TRANSFORM_TIME = 5.0
"""Time for which /tf is read after a target in a frame that is not the robot's [s]."""
IDLE_RATE = 10.0
"""Rate of both loops without a target [Hz]; a message begins the next cycle at once."""
PREEMPTION_PERIOD = 0.008
"""Period of checks whether the policy's stream was preempted [s]."""


class RmpflowPolicyNode(RobotNode[Any]):
    """Moves one arm by RMPflow."""

    params_type = PolicyParams
    obeys_stop = True

    def __init__(self, ros_args: list[str] | None = None) -> None:
        super().__init__("rmpflow_policy", ros_args=ros_args)
        self._slow: RateLoop | None = None
        self._scene_follower: SceneFollower | None = None
        self._frames: RobotFrames | None = None
        self._escape: Escape | None = None
        self._jobs_of_executor: ExecutorQueue | None = None
        self._scenes = PreparedScenes()

    def robot_defaults(self, robot: Robot) -> dict[str, Any]:
        """Return the settings of the RMPflow configuration file."""
        given = self._parameter_overrides.get("rmpflow_file")
        file = str(given.value) if given is not None and given.value else robot.directory
        self._base_settings, defaults = read_defaults(file)
        return defaults

    def check(self, params: Any) -> str | None:
        """Validate settings and names."""
        try:
            settings = settings_of(params, self._base_settings)
            count = len(self.robot.group(params.group).joints)
            if len(settings.joint_limit_buffers) not in (1, count):
                return (
                    f"joint_limit_buffers has {len(settings.joint_limit_buffers)} values; "
                    f"give 1 or {count}"
                )
            follower_settings(params)
            stuck_settings(params)
            smoothing_settings(params)
            mpc_settings(params)
        except MotionError as error:
            return str(error)
        return None

    def configure(self) -> None:
        """Compile the policy and create the endpoints."""
        params, robot = self.params, self.robot
        tool = params.tool or robot.tool_frame
        if tool is None:
            raise InvalidConfig(f"robot '{robot.name}' has no tool frame; set parameter 'tool'")
        settings = settings_of(params, self._base_settings)
        policy = make_policy(params, robot, settings, tool)
        policy.use_distance_field(params.octomap_field)
        follower = self._follower = Follower(policy, follower_settings(params))
        self._prepared = threading.Event()
        after_compilation(self._prepare)
        frames = self._frames = RobotFrames.of(self)
        self._base = frames.full_name(robot.base_frame)
        self._scene_follower = SceneFollower(self, robot, frames.kinematics, frames)
        self._scene_now = self._scene_applied = Scene()
        self._scene_fault = ""
        self._robot = PolicyRobot(self, policy, robot.joint_names)
        self._sender, self._motion, self._preemption_check_at = "", 0, 0.0
        self._transforms_requested, self._transforms_ready = -np.inf, False
        self._inputs = RmpflowInputs(self, follower, frames, self._robot, self._request_transforms)
        PolicyServices(self, follower, self._inputs)
        self._out = self.advertise(JointState, f"{params.controller}/reference")
        self._writer = JointStateWriter(self._out, policy.active_joints)
        self._reports = PolicyReports(self, policy, settings, self._base)
        jobs = self._jobs_of_executor = ExecutorQueue(self)
        self._escape = Escape(self, jobs, params.planner)
        self._snapshot: PolicySnapshot | None = self._make_snapshot()
        self._idle_view: PolicyView | None = None

    def _prepare(self) -> None:
        try:
            self._follower.prepare()
        finally:
            self._prepared.set()

    def release(self) -> None:
        """Destroy the endpoints."""
        for part in (self._scene_follower, self._frames, self._escape, self._jobs_of_executor):
            if part is not None:
                part.destroy()
        self._scene_follower = self._frames = self._escape = self._jobs_of_executor = None
        self._scenes.close()
        self._scenes = PreparedScenes()

    def activate(self) -> None:
        """Start without a target."""
        self._inputs.reset()
        self._follower.reset()
        self._slow = RateLoop(SLOW_RATE, self._slow_tick, self._slow_crashed, "rmpflow scene")
        self._slow.pause = changes = MessageWait(self)
        changes.inputs = [] if self._scene_follower is None else [self._scene_follower.changes]
        self._slow.start()

    def tick(self, dt: float) -> None:
        """Read inputs and state; step the policy if it has a target."""
        follower, deadlines, now_ns = self._follower, self.deadlines, self.input_ns()
        if follower.silent and deadlines:
            # A motion begins at the newest deadline. Obstacle velocities are relative to the
            # policy's time.
            follower.policy.elapse((len(deadlines) - 1) * self.period)
            deadlines, now_ns = deadlines[-1:], deadlines[-1]
        now = now_ns * 1e-9
        self._check_preemption()
        self._inputs.take(now)
        # A motion begins when the robot's state is given.
        unused = follower.silent and not follower.escaping
        waits = unused or not self._prepared.is_set()
        robot = None if waits else self._read_robot(now_ns)
        self._apply_scene(now)
        if follower.silent:
            self._idle_view = self._robot.idle_view(follower.policy.scene) or self._idle_view
        for stamp in deadlines:
            targets = follower.step(robot, self.period, stamp * 1e-9)
            robot = None
            if targets is not None:
                self._name_motion()
                self._writer.position[:], self._writer.velocity[:] = targets
                self._writer.send(stamp)
        if self._escape is not None:
            self._escape.update(follower, self.params, self._base, now)
        self._keep_snapshot()
        if follower.silent:
            self.idle(IDLE_RATE, self._inputs.topics)

    def halt(self) -> None:
        """Send a last reference that brings the arm to rest, and delete the markers."""
        slow, self._slow = self._slow, None
        if slow is not None:
            slow.stop()
        if self._escape is not None:
            self._escape.cancel()
        last = self._follower.rest_at(1.0 / self.params.update_rate)
        if last is not None:
            self._writer.position[:], self._writer.velocity[:] = last
            self._writer.send_last(self.now_ns())
        self._reports.hide()

    def parameters_changed(self, params: Any) -> None:
        """Apply all settings, also during motion."""
        follower, policy = self._follower, self._follower.policy
        follower.settings = follower_settings(params)
        policy.set_settings(settings_of(params, self._base_settings))
        policy.set_stuck(stuck_settings(params))
        policy.set_smoothing(smoothing_settings(params))
        policy.use_distance_field(params.octomap_field)
        policy.maximum_substep_size = params.maximum_substep_size
        policy.set_ignore_state_updates(params.ignore_robot_state_updates)

    def stopped(self, why: str) -> None:
        """Drop the target; the controller brings the joints to rest."""
        self._follower.drop(why)
        self._inputs.suspend()

    def resumed(self) -> None:
        """Ignore targets that were streamed during the stop, until they pause."""
        self._follower.clear()
        self._inputs.suspend(drop=True)

    def time_jumped(self, before: float, after: float) -> None:
        """Drop the target: the robot's state may have changed."""
        self._follower.drop(f"time jumped from {before:.3f} s to {after:.3f} s")

    def waiting_for(self) -> str:
        """Return why the robot's state is unknown."""
        return "" if self._robot.state.received else self._robot.fault

    def notice(self) -> str:
        """Return that targets have to wait for compilation, if so."""
        if self._prepared.is_set():
            return ""
        return "targets wait until the collision checks are compiled, seconds once per machine"

    def diagnose(self, report: Report) -> None:
        """Report the state of policy, robot, controller, scene and inputs."""
        text = self._follower.text
        report.note("WARN" if text.startswith(("stuck", "stopped")) else "OK", text)
        state, fault = self._robot.state, self._robot.fault
        if fault:
            report.note("WARN" if state.received else "OK", fault)
        if not self._out.get_subscription_count():
            report.note(
                "WARN", f"no subscriber of {self._out.topic_name}; is the controller running?"
            )
        if self._scene_fault:
            report.note("WARN", self._scene_fault)
        if self._scene_follower is not None:
            self._scene_follower.diagnose(report)
        report.value("messages taken", self._inputs.count)
        report.value("messages refused", self._inputs.refused)
        report.value("age of joint_states [s]", state.age())
        if self._escape is not None:
            report.value("escape", self.params.escape)
            report.value("escapes", self._escape.count)

    # ---- loop

    def _request_transforms(self) -> bool:
        """Enable reading of /tf for a while; return whether it is already read."""
        self._transforms_requested = time.monotonic()
        if self._slow is not None and not self._transforms_ready:
            self._slow.wake()
        return self._transforms_ready

    def _name_motion(self) -> None:
        """Give each motion its own sender name, which the controller arbitrates by."""
        if self._follower.motions != self._motion:
            self._motion = self._follower.motions
            self._sender = f"{self.get_name()}{SESSION_MARK}{time.time_ns() // 1_000_000}"
            self._writer.name_sender(self._sender)

    def _check_preemption(self) -> None:
        """Drop the target if a newer command or a contact preempted the policy's stream."""
        wall = time.monotonic()
        if not self._follower.leading or wall < self._preemption_check_at:
            return
        self._preemption_check_at = wall + PREEMPTION_PERIOD
        cause = self._robot.preemptions.of(self._sender)
        # A new motion has no sender name yet; its cause is the cause of the last one.
        if not cause or self._follower.motions != self._motion:
            return
        blocked = BLOCKED in cause
        reason = cause if blocked else f"another command has the joints: {cause}"
        self._follower.give_way(reason, blocked=blocked)
        self._inputs.suspend()
        if blocked:
            self.warn("blocked", f"the target is dropped: {reason}")

    def _read_robot(self, now_ns: int) -> RobotMotion | None:
        """Return a new state, None without one; drop the target if the state is lost."""
        fresh = self._robot.state.update()
        fault = self._robot.fault
        if fault:
            self._follower.drop(fault)
            self.warn("state", f"the target is dropped: {fault}")
            return None
        return self._robot.motion(now_ns) if fresh else None

    def _apply_scene(self, now: float) -> None:
        scene = self._scene_now
        if scene is self._scene_applied:
            return
        self._scene_applied = scene
        policy = self._follower.policy
        try:
            supported, self._scene_fault = supported_scene(self.robot, policy.tool, scene)
            policy.set_scene(supported, now)
            self._follower.scene_changed(now)
        except MotionError as error:
            self._scene_fault = f"the last valid scene is kept: {error}"
        missing = self._scenes.missing
        if missing:
            waiting = f"no obstacles until their meshes are prepared: {', '.join(missing[:3])}"
            self._scene_fault = "; ".join(filter(None, (self._scene_fault, waiting)))
        if self._scene_fault:
            self.warn("scene", self._scene_fault)

    def _keep_snapshot(self) -> None:
        """Make a snapshot if none waits to be published, or the one that waits is of the past."""
        waiting, follower = self._snapshot, self._follower
        if waiting is None or (waiting.phase, waiting.text) != (follower.phase, follower.text):
            self._snapshot = self._make_snapshot()

    def _make_snapshot(self) -> PolicySnapshot:
        follower = self._follower
        command, view = follower.command, None if follower.silent else follower.policy.view()
        servo = command if command is not None and command.servo else None
        return PolicySnapshot(follower.phase, follower.text, follower.errors, servo, view)

    # ---- slow loop

    def _slow_tick(self) -> None:
        scene_follower, frames = self._scene_follower, self._frames
        if scene_follower is None or frames is None:
            return
        requested = time.monotonic() - self._transforms_requested < TRANSFORM_TIME
        if requested:
            frames.tree.update()
        self._transforms_ready = requested
        scene_follower.update()
        scene = self._scenes.take(scene_follower.world.scene)
        if scene is not None:
            self._scene_now = scene
        inputs = self._inputs
        refusal = "paused" if inputs.servo_paused else inputs.servo_fault
        refusal = refusal if inputs.servo_on else "stopped"
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is not None:
            self._reports.publish(snapshot, self._idle_view, refusal)
        if self._slow is not None:
            idle = self._follower.silent and not requested
            self._slow.stride = round(SLOW_RATE / IDLE_RATE) if idle else 1

    def _slow_crashed(self, error: BaseException) -> None:
        text = f"the planning scene is no longer updated: {error!r}"
        self.get_logger().fatal(text)
        self.in_loop(lambda: self._follower.lose(text))
        if isinstance(error, Exception):
            self.fail(error)
